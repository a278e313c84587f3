package wasmtools_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/wasmtools/wasmtools"

// layers lists our packages from the inside out. A package imports only
// packages of earlier lines. A pattern ending in /... covers a folder.
var layers = [][]string{
	{"tool"},
	{"internal/..."},
	{"workspace/charset"},
	{"manifest", "workspace", "artifact", "secret", "guest-sdk/...", "tools-wasm", "tools-wasm/alias"},
	{"workspace/search", "hostfuncs/httpfetch", "terminal/output"},
	{"hostfuncs"},
	{"hostfuncs/kvstore"},
	{"runtime/rewrite", "runtime/linmem"},
	{"runtime/wasihost"},
	{"runtime/extism", "runtime/wasicmd"},
	{"runtime", "terminal"},
	{"budget", "catalog", "approval", "approval/shell", "evidence"},
	{"catalog/rank", "catalog/embedhttp", "catalog/todo", "skill", "approval/policy", "approval/show", "evidence/index"},
	{"approval/terminal", "approval/channel", "config", "host"},
	{""}, // the library's front door
	{"mcp/server", "mcp/client", "selftest"},
	{"cmd/...", "bench/..."},
}

// outsiders are programs that no package of ours may import: guests, their
// generators and examples.
var outsiders = []string{"tools-wasm/core/...", "tools-wasm/media/...", "tools-wasm/gen", "examples/...", "testdata/..."}

// forbidden lists what a package must not reach, directly or through others,
// and why. The reason is what a failing test prints.
var forbidden = []struct {
	packages []string
	imports  []string
	why      string
}{
	{[]string{"tool"}, []string{module + "/..."}, "every package speaks in tool's terms, so it can know none of them"},
	{[]string{"hostfuncs", "workspace", "workspace/charset", "workspace/search", "manifest", "tool"}, []string{"net", "net/http", "os/exec"},
		"a reviewer of the boundary must not have to wonder whether a guest's call reaches a socket or starts a program; only hostfuncs/httpfetch sees the network"},
	{[]string{"hostfuncs", "workspace", "workspace/search", "manifest", "catalog", "approval", "tool"}, []string{"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/..."},
		"the boundary is readable without knowing an engine; only runtime/ sees wazero"},
	{[]string{"runtime/rewrite", "runtime/linmem"}, []string{"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/..."},
		"the rewriter is a pure function of bytes; the engine validates before and after it, in runtime/"},
	{[]string{"catalog"}, []string{"net", "net/http", "os/exec", "database/sql"},
		"a plan is a pure function of snapshots and facts, so that every choice can be explained and replayed"},
	{[]string{"budget"}, []string{"net", "net/http", "os/exec", "database/sql"},
		"what is shown of a result is a pure function of it; storing the rest is the caller's"},
	{[]string{"approval/policy", "approval/shell"}, []string{"net/http", "os/exec"},
		"a verdict is a pure function of rules and call, so that every one can be explained and judged again"},
	{[]string{"", "runtime", "catalog", "evidence", "workspace"}, []string{module + "/config"},
		"a configuration is read by the command line and handed down as values"},
	{[]string{"evidence", ""}, []string{"database/sql", "modernc.org/sqlite"},
		"the record is the truth and stands without its index"},
	{[]string{"guest-sdk", "guest-sdk/typed"}, []string{"*.*"},
		"what tool authors compile into their modules is the standard library and this SDK, nothing else"},
	{[]string{"guest-sdk"}, []string{"fmt", "regexp", "encoding/json", "reflect"},
		"guests without them are half the size and compile in a third of the time; guest-sdk/typed is for those who want them"},
}

type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func list(t *testing.T, args ...string) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	m := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return m
		} else if err != nil {
			t.Fatal(err)
		}
		m[p.ImportPath] = p
	}
}

// TestImportDirections holds every import of ours against the lists above.
func TestImportDirections(t *testing.T) {
	all := list(t, "-deps", "./...")
	layer := map[string]int{}
	for p := range all {
		rel, ours := relative(p)
		if !ours || matchAny(outsiders, rel) {
			continue
		}
		n := slices.IndexFunc(layers, func(l []string) bool { return matchAny(l, rel) })
		if n < 0 {
			t.Errorf("package %q stands in no layer; add it to layers, with the reason in the commit", rel)
		}
		layer[rel] = n
	}
	for rel, n := range layer {
		for _, imp := range all[path.Join(module, rel)].Imports {
			to, ours := relative(imp)
			if !ours {
				continue
			}
			m, known := layer[to]
			sameFolder := n == m && (strings.HasPrefix(rel, to+"/") || strings.HasPrefix(to, rel+"/") || strings.HasPrefix(rel, "internal/"))
			if !known {
				t.Errorf("%s imports %s, which is a program", rel, to)
			} else if m >= n && !sameFolder {
				t.Errorf("%s imports %s: imports point down only, see layers", rel, to)
			}
		}
	}
	for _, f := range forbidden {
		for _, rel := range f.packages {
			p, ok := all[path.Join(module, rel)]
			if !ok {
				t.Errorf("the list of forbidden imports names %s, which does not exist", rel)
			}
			for _, dep := range p.Deps {
				if !matchAny(f.imports, dep) || slices.Contains(f.packages, strings.TrimPrefix(dep, module+"/")) {
					continue
				}
				t.Errorf("%s reaches %s, but must not: %s", rel, dep, f.why)
			}
		}
	}
}

// TestImportRulesBite plants a forbidden edge in the rules' own terms: matchAny
// must see it, or the test above cannot fail.
func TestImportRulesBite(t *testing.T) {
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{"net", "net", true}, {"net", "net/http", false}, {"net", "net/netip", false},
		{"github.com/tetratelabs/wazero/...", "github.com/tetratelabs/wazero/api", true},
		{"*.*", "github.com/x/y", true}, {"*.*", "encoding/json", false},
		{"*.*", module + "/guest-sdk", false},
		{"", "", true}, {"cmd/...", "cmd/wasmtools", true}, {"tools-wasm", "tools-wasm/alias", false},
	} {
		if got := matchAny([]string{c.pattern}, c.pkg); got != c.want {
			t.Errorf("pattern %q on %q = %v, want %v", c.pattern, c.pkg, got, c.want)
		}
	}
}

func relative(pkg string) (string, bool) {
	if pkg == module {
		return "", true
	}
	return strings.CutPrefix(pkg, module+"/")
}

// matchAny knows three kinds of pattern: a path, a folder "x/...", and "*.*"
// for any package outside the standard library and this module.
func matchAny(patterns []string, pkg string) bool {
	for _, p := range patterns {
		folder, isFolder := strings.CutSuffix(p, "/...")
		first, _, _ := strings.Cut(pkg, "/")
		switch {
		case p == pkg, isFolder && (pkg == folder || strings.HasPrefix(pkg, folder+"/")):
			return true
		case p == "*.*" && strings.Contains(first, ".") && !strings.HasPrefix(pkg, module):
			return true
		}
	}
	return false
}

// TestRationale: every direct dependency has a line in RATIONALE.md, and no
// line speaks of one that is gone.
func TestRationale(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for line := range strings.Lines(string(mod)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "require" {
			f = f[1:]
		}
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && strings.Contains(f[0], ".") && !strings.Contains(line, "// indirect") {
			direct[f[0]] = true
		}
	}
	for m := range direct {
		if !strings.Contains(string(page), "| "+m+" |") {
			t.Errorf("RATIONALE.md does not say what %s saves us", m)
		}
	}
	for line := range strings.Lines(string(page)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && strings.Contains(cell, ".") && strings.Contains(cell, "/") && !direct[cell] {
			t.Errorf("RATIONALE.md speaks of %s, which go.mod does not require directly", cell)
		}
	}
}
