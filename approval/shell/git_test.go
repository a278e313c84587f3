package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// TestGitEnvironment: a text whose job it is not to fetch cannot fetch, and no
// setting of the repository's names the program that verifies a signature.
func TestGitEnvironment(t *testing.T) {
	rules := shell.Rules{}
	for _, w := range []string{"git log", "git fetch", "git remote"} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: strings.Fields(w)})
	}
	site := shell.Site{Root: "/w", Cwd: "/w", Path: []string{"/bin"}}
	for text, offline := range map[string]bool{
		"git log -p": true, "git remote -v": true, "git fetch origin": false, "git log && git fetch": false,
	} {
		res := shell.Judge(text, site, rules)
		if res.Verdict != shell.Allow {
			t.Fatalf("Judge(%q) asks: %s", text, res.Reason)
		}
		if got := slices.Contains(res.Plan.Env, "GIT_ALLOW_PROTOCOL=none"); got != offline {
			t.Errorf("Judge(%q) lets git speak no protocol: %v, want %v", text, got, offline)
		}
		if !slices.Contains(res.Plan.Env, "GIT_NO_LAZY_FETCH=1") {
			t.Errorf("Judge(%q) lets git fetch what it lacks", text)
		}
		env := strings.Join(res.Plan.Env, "\n") + "\n"
		for _, key := range []string{"gpg.program", "gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.program"} {
			_, rest, _ := strings.Cut(env, "="+key+"\n")
			if value, _, _ := strings.Cut(rest, "\n"); !strings.HasSuffix(value, "=false") {
				t.Errorf("Judge(%q) sets %s by %q", text, key, value)
			}
		}
	}
}
