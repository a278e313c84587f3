package shell_test

import (
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// brokenFS panics where it is asked, as a fault in Judge would.
type brokenFS struct{ shell.NoFS }

func (brokenFS) Resolve(string) (string, shell.Kind, error) { panic("broken") }

func TestJudgeAsksWhenItPanics(t *testing.T) {
	site := shell.Site{Root: "/w", Cwd: "/w", Path: []string{"/bin"}, FS: brokenFS{}}
	rules := shell.Rules{Allow: []shell.Pattern{{Words: []string{"ls"}}}}
	res := shell.Judge("ls", site, rules)
	if res.Verdict != shell.Ask || res.Reason != "the text could not be judged" || res.Plan != nil || len(res.Reasons) != 1 {
		t.Errorf("Judge over a broken file system gives %+v, want a question", res)
	}
	site.FS = nil
	if res := shell.Judge("ls", site, rules); res.Verdict != shell.Allow {
		t.Errorf("Judge over none asks: %s", res.Reason)
	}
}

// TestExitInLists: what follows an exit has no state to start from. Recovering
// would hide a fault here, so the reason is looked at too.
func TestExitInLists(t *testing.T) {
	rules := shell.Rules{}
	for _, w := range []string{"ls", "cat", "cd", "find", "git log"} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: []string{w}})
	}
	site := shell.Site{Root: "/w", Cwd: "/w", Path: []string{"/bin"}}
	for _, left := range []string{"exit", "! exit", "exit 3", "{ exit; }", "exit && exit", "exit || exit", "exit; exit", "if exit; then ls; fi", "! true && exit"} {
		for _, right := range []string{"cat a.txt", "cd src", "x=1", "X=1", "find .", "git log", "ls *.txt", "for x in a; do ls; done",
			"while cd src; do ls; done", "case a in a) cd src;; esac", "(cd src)", "{ cd src; }", "[[ -f a ]]", "(( x = 1 ))", "let x=1",
			"time cd src", "read x", "echo > x", "cd src | cat", "declare x=1", "f() { ls; }", "if cd src; then ls; else exit; fi"} {
			for _, op := range []string{" && ", " || ", "; ", " & ", " | "} {
				text := left + op + right + op + right + "; cat b.txt"
				if res := shell.Judge(text, site, rules); res.Reason == "the text could not be judged" {
					t.Fatalf("Judge(%q) panicked", text)
				}
			}
		}
	}
}
