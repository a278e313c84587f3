package shell_test

import (
	"os"
	"path/filepath"
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

// TestGitFilters: git status runs a filter of the repository's own configuration,
// so it is asked about; git log runs none.
func TestGitFilters(t *testing.T) {
	f := newFixture(t, "")
	var rules shell.Rules
	for _, w := range []string{"status", "diff", "add", "blame", "log"} {
		rules.Allow = append(rules.Allow, shell.Pattern{Words: []string{"git", w}})
	}
	config := filepath.Join(f.ws(), ".git", "config")
	plain, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for extra, want := range map[string]shell.Verdict{
		"":                                      shell.Allow,
		"[filter \"e\"]\n\tclean = evil\n":      shell.Ask,
		"[core][FILTER \"e\"] process = evil\n": shell.Ask,
		"[include]\n\tpath = ../evil\n":         shell.Ask,
		strings.Repeat("# long\n", 64<<10):      shell.Ask,
	} {
		if err := os.WriteFile(config, append(plain[:len(plain):len(plain)], extra...), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"git status", "git diff --stat", "git add a.txt", "git blame a.txt"} {
			if res := shell.Judge(text, f.site(".", ""), rules); res.Verdict != want {
				t.Errorf("Judge(%q) with %.40q in the configuration = %s (%s), want %s", text, extra, res.Verdict, res.Reason, want)
			}
		}
		if res := shell.Judge("git log", f.site(".", ""), rules); res.Verdict != shell.Allow {
			t.Errorf("Judge(git log) with %.40q in the configuration asks: %s", extra, res.Reason)
		}
	}
}
