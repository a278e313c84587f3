package shell_test

import (
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// TestPythonModules: python -m looks into its directory before it looks for its
// own modules. Control: in a directory without such names nothing is asked.
func TestPythonModules(t *testing.T) {
	planted := newFixture(t, "echo > argparse.py; mkdir tests/json src/types src/test; echo > tests/json/__init__.py; echo > docs/click.cpython-311-x86_64-linux-gnu.so")
	clean := newFixture(t, "")
	rules := shell.Rules{WorkspacePaths: true}
	for _, w := range [][]string{{"cd"}, {"python3", "-m", "json.tool"}, {"python3", "-m", "black"}, {"python3", "-m", "pytest"}} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: w})
	}
	for text, want := range map[string]shell.Verdict{
		"python3 -m json.tool data.json":                    shell.Ask,
		"python3 -S -m json.tool < data.json":               shell.Ask,
		"cd tests && python3 -m json.tool ../data.json":     shell.Ask,
		"cd docs && python3 -m black --check ../tests":      shell.Ask,
		"cd src && python3 -m json.tool ../data.json":       shell.Allow, // types and test are no packages
		"python3 -I -m json.tool data.json":                 shell.Allow,
		"python3 -m pytest -q":                              shell.Allow,
		"cd nosuch; cd tests; python3 -m json.tool x.json;": shell.Ask,
	} {
		if res := shell.Judge(text, planted.site(".", ""), rules); res.Verdict != want {
			t.Errorf("Judge(%q) = %s (%s), want %s", text, res.Verdict, res.Reason, want)
		}
		if want == shell.Ask && text[:3] != "cd " {
			if res := shell.Judge(text, clean.site(".", ""), rules); res.Verdict != shell.Allow {
				t.Errorf("Judge(%q) without such files = %s (%s), want allow", text, res.Verdict, res.Reason)
			}
		}
	}
}
