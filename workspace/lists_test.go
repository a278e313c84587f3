package workspace

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsShowTheLists: docs/security.md shows both lists, row by row.
func TestDocsShowTheLists(t *testing.T) {
	p, err := os.ReadFile("../docs/security.md")
	must(t, err)
	page := string(p)
	seen := map[string]bool{}
	for _, list := range [][]listed{secretPaths, protectedPaths} {
		var table strings.Builder
		for _, r := range list {
			table.WriteString(r.row())
			for _, g := range r.globs {
				if seen[g] {
					t.Errorf("%s stands on the lists twice", g)
				}
				seen[g] = true
			}
		}
		if !strings.Contains(page, table.String()) {
			t.Errorf("docs/security.md has to hold these rows:\n%s", table.String())
		}
	}
}

func (r listed) row() string {
	code := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	globs := code(r.globs)
	if len(r.except) > 0 {
		globs += ", but not " + code(r.except)
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", r.name, globs, r.why)
}

// TestInstructionsAreProtected: what agents read as instructions, and what a
// shell runs when it enters a folder, is protected anywhere in the tree; what
// only is of that kind by its folder is not.
func TestInstructionsAreProtected(t *testing.T) {
	ws, err := Open(t.TempDir(), Options{})
	must(t, err)
	defer ws.Close()
	for path, want := range map[string]string{
		"CLAUDE.md": "agent", "AGENTS.md": "agent", "sub/agents.MD": "agent", "GEMINI.md": "agent", ".cursorrules": "agent",
		".windsurfrules": "agent", ".clinerules": "agent", ".clinerules/a.md": "agent", ".github/copilot-instructions.md": "agent",
		"sub/.github/instructions/a.md": "agent", "mise.toml": "shell", ".mise.toml": "shell", ".config/mise/config.toml": "shell", ".tool-versions": "shell",
		".github/workflows/ci.yml": "", "README.md": "", "docs/agents.txt": "", "Makefile": "",
	} {
		l, err := ws.Listed(t.Context(), path)
		must(t, err)
		got := ""
		if l.Protected != nil {
			got = l.Protected.Name
		}
		if got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
}
