package shell_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// slow is far beyond what any text of the greatest length takes.
const slow = 20 * time.Second

// FuzzJudge looks for a text that Judge panics on, takes too long for, or
// allows without saying what to run.
func FuzzJudge(f *testing.F) {
	for _, text := range []string{
		"ls", "((((((((", "$(`${x:-$(", "a=(b c); echo \"${a[@]}\"", "for ((i=0;i<3;i++)); do ls; done", "[[ a =~ b ]] && ls",
		"cat <<E\n$x\nE", "sh -c 'sh -c \"sh -c ls\"'", "find . -exec ls {} + -o -exec sed -n 's/a/b/e' {} \\;", "{a,b}{c,d}{1..9}{x..z}",
		"git -C src log --oneline | xargs -0 -n1 env TZ=UTC timeout 5 grep x", "awk '{print $1 / 2; x > 3}' a", "tar tvf a.tar", "\x00\r\x80", "<<0&0\xa9",
		"export A=1 B; declare -i x; read y; cd - && cd ~; [ -v x ]", "ls ../*/[!a-z]?*.{txt,md} ~/x $HOME $((1+x))", "jq '.a | env' f",
	} {
		f.Add(text)
	}
	file, err := publicCases()
	if err != nil {
		f.Fatal(err)
	}
	rules := shell.Rules{Deny: []shell.Pattern{{Words: []string{"git", "push", "--force"}}, {Words: []string{"rm", "-rf"}}}}
	for _, c := range file.Cases {
		f.Add(c.Command)
		rules.Allow = append(rules.Allow, c.Rules.rules().Allow...)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, fs := range []shell.FS{shell.NoFS{}, shell.OS{}} {
			for _, ws := range []bool{true, false} {
				rules.WorkspacePaths = ws
				start := time.Now()
				res := shell.Judge(text, shell.Site{Root: "/usr/share", Cwd: "/usr/share", Home: "/root", Path: []string{"/usr/bin"}, FS: fs}, rules)
				if took := time.Since(start); took > slow {
					t.Errorf("Judge(%.80q, %d bytes) took %s", text, len(text), took)
				}
				checkResult(t, text, res)
			}
		}
	})
}

func checkResult(t *testing.T, text string, res shell.Result) {
	t.Helper()
	switch {
	case res.Reason == "":
		t.Errorf("Judge(%q) gives no reason", text)
	case res.Verdict == shell.Allow && (res.Plan == nil || res.Plan.Script == "" && res.Plan.Pipe == nil):
		t.Errorf("Judge(%q) allows without a plan", text)
	case res.Verdict == shell.Allow && strings.TrimSpace(text) == "":
		t.Errorf("Judge(%q) allows nothing", text)
	}
	for _, c := range res.Commands {
		if res.Verdict == shell.Allow && c.Verdict != shell.Allow {
			t.Errorf("Judge(%q) allows although %q is %s", text, c.Words, c.Verdict)
		}
	}
}

// TestWorstTexts keeps the time bounded for texts that grow where something
// nests or multiplies.
func TestWorstTexts(t *testing.T) {
	for _, unit := range []string{
		"(", "{ ", "$(", "\"$(", "`", "${x:-", "if ", "while ", "! ", "time ", "$((", "$((-", "((", "[[ (", "a[", "<(", "case x in x) ", "a && ",
		"a | ", "a; ", "f() ", "$((a?", "for i in x; do ", "{a,", "{a,b}", "*", "ls * */* ", "\\\n", "'", "\"", "x=1;", "ls $x ", "sh -c ", "env ",
		"<<E\n", ">a ", "find . -exec ", "elif ", "a &", "~", "{", "[", "sed -n -e 's/[", "'x' ", "x=a;if ls;then x=b;fi;",
	} {
		size := shell.MaxText / 8 // the others grow as these do
		if slices.Contains([]string{"(", "a; ", "ls * */* ", "'x' ", "if "}, unit) {
			size = shell.MaxText
		}
		text := strings.Repeat(unit, size/len(unit))
		start := time.Now()
		res := shell.Judge(text, shell.Site{Root: "/usr/share", Cwd: "/usr/share", Path: []string{"/usr/bin"}, FS: shell.OS{}},
			shell.Rules{WorkspacePaths: true, Allow: []shell.Pattern{{Words: []string{"ls"}}}, Deny: []shell.Pattern{{Words: []string{"rm"}}}})
		took := time.Since(start)
		t.Logf("%q: %s, %s", unit, took.Round(time.Millisecond), res.Verdict)
		if took > slow {
			t.Errorf("Judge of %d times %q took %s", size/len(unit), unit, took)
		}
		checkResult(t, unit, res)
	}
	if res := shell.Judge("ls "+strings.Repeat("a", shell.MaxText), shell.Site{Root: "/", Cwd: "/"}, shell.Rules{Allow: []shell.Pattern{{Words: []string{"ls"}}}}); res.Verdict != shell.Ask {
		t.Errorf("Judge of a text that is too long = %s, want ask", res.Verdict)
	}
}

func BenchmarkJudge(b *testing.B) {
	site := shell.Site{Root: "/ws", Cwd: "/ws", Home: "/home", Path: []string{"/usr/bin"}, FS: shell.NoFS{}}
	rules := shell.Rules{WorkspacePaths: true}
	for _, w := range []string{"ls", "grep", "head", "git status", "git diff", "go test", "cd"} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: strings.Fields(w)})
	}
	for name, text := range map[string]string{
		"one":  "git status --short",
		"pipe": "go test ./... 2>&1 | grep -v ok | head -20",
		"loop": "for f in a b c; do (cd src && grep -n TODO \"$f\" | head -3); done; git diff --stat HEAD~1 -- src",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if res := shell.Judge(text, site, rules); res.Verdict != shell.Allow {
					b.Fatal(res.Reason)
				}
			}
		})
	}
}
