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
