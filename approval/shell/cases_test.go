package shell_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

// rulesJSON is how rules stand in tables of cases.
type rulesJSON struct {
	Allow          [][]string `json:"allow"`
	Deny           [][]string `json:"deny"`
	WorkspacePaths bool       `json:"workspace_paths"`
}

func (r rulesJSON) rules() shell.Rules {
	out := shell.Rules{WorkspacePaths: r.WorkspacePaths}
	for _, w := range r.Allow {
		out.Allow = append(out.Allow, shell.Pattern{Words: w})
	}
	for _, w := range r.Deny {
		out.Deny = append(out.Deny, shell.Pattern{Words: w})
	}
	return out
}

type publicCase struct {
	ID, Class, Command, Cwd, Expect, Tier, Why, Setup, Shell string
	Plant                                                    []string
	Rules                                                    rulesJSON
}

// fixture is the tree that the public cases name.
type fixture struct{ root string }

func (f fixture) ws() string   { return filepath.Join(f.root, "ws") }
func (f fixture) stub() string { return filepath.Join(f.root, "stub") }

func (f fixture) site(cwd, sh string) shell.Site {
	return shell.Site{
		Root: f.ws(), Cwd: filepath.Join(f.ws(), cwd), Home: filepath.Join(f.root, "home"),
		Path: []string{f.stub(), "/usr/local/go/bin", "/usr/local/bin", "/usr/bin", "/bin"}, Shell: sh, FS: shell.OS{},
	}
}

var repeated = regexp.MustCompile(`(?s)\{\{(.+?)\*(\d+)\}\}`)

func (f fixture) fill(s string) string {
	s = repeated.ReplaceAllStringFunc(s, func(m string) string {
		g := repeated.FindStringSubmatch(m)
		n, _ := strconv.Atoi(g[2])
		return strings.Repeat(g[1], n)
	})
	return strings.NewReplacer("{{W}}", f.ws(), "{{O}}", filepath.Join(f.root, "out"), "{{H}}", filepath.Join(f.root, "home"),
		"{{S}}", f.stub(), "{{PORT}}", "1").Replace(s)
}

type publicFile struct {
	Doc struct {
		Fixture string `json:"fixture_script"`
	}
	Cases []publicCase
}

var publicCases = sync.OnceValues(func() (publicFile, error) {
	var f publicFile
	data, err := os.ReadFile("../../testdata/shell_rules_public.json")
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(data, &f)
})

// newFixture builds the tree with the script that comes with the cases.
func newFixture(t testing.TB, setup string) fixture {
	t.Helper()
	file, err := publicCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"bash", "git", "tar", "gzip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the fixture's script needs %s", tool)
		}
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{root}
	if err := os.MkdirAll(f.stub(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.stub(), "evil"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(script string, args ...string) {
		cmd := exec.Command("bash", append([]string{"-c", script, "fixture"}, args...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(root, "home"), "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("fixture: %v\n%s", err, out)
		}
	}
	run(file.Doc.Fixture, root)
	if err := os.WriteFile(filepath.Join(f.ws(), "evil.so"), []byte("\x7fELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if setup != "" {
		run("cd ws && " + setup)
	}
	return f
}

// honours says what is wrong with a verdict for an expectation, or "".
func honours(expect string, got shell.Verdict) string {
	switch {
	case expect == "must_not_allow" && got == shell.Allow,
		expect == "must_deny" && got != shell.Deny,
		expect == "should_allow" && got != shell.Allow,
		expect == "nice_allow" && got == shell.Deny:
		return fmt.Sprintf("got %s, want %s", got, expect)
	}
	return ""
}

func TestPublicCases(t *testing.T) {
	file, err := publicCases()
	if err != nil {
		t.Fatal(err)
	}
	plain := newFixture(t, "")
	right, total, nice, niceAllowed := map[string]int{}, map[string]int{}, 0, 0
	for _, c := range file.Cases {
		f := plain
		if c.Setup != "" {
			f = newFixture(t, c.Setup)
		}
		for _, name := range c.Plant {
			if err := os.WriteFile(filepath.Join(f.stub(), name), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		tier := "core"
		if c.Tier != "" {
			tier = c.Tier
		}
		total[tier]++
		rules := c.Rules
		for _, l := range [][][]string{rules.Allow, rules.Deny} {
			for _, words := range l {
				for i := range words {
					words[i] = f.fill(words[i])
				}
			}
		}
		res := shell.Judge(f.fill(c.Command), f.site(c.Cwd, c.Shell), rules.rules())
		for _, name := range c.Plant {
			os.Remove(filepath.Join(f.stub(), name))
		}
		if c.Expect == "nice_allow" {
			nice++
			if res.Verdict == shell.Allow {
				niceAllowed++
			} else {
				t.Logf("%s: %q: asks: %s", c.ID, c.Command, res.Reason)
			}
		}
		if bad := honours(c.Expect, res.Verdict); bad != "" {
			t.Errorf("%s (%s): Judge(%q): %s\n\twhy it matters: %s\n\treason given: %s", c.ID, tier, c.Command, bad, c.Why, res.Reason)
			continue
		}
		right[tier]++
		if res.Verdict == shell.Allow && res.Plan == nil {
			t.Errorf("%s: Judge(%q) allows without a plan", c.ID, c.Command)
		}
	}
	t.Logf("core %d of %d, deep %d of %d, nice allowed %d of %d", right["core"], total["core"], right["deep"], total["deep"], niceAllowed, nice)
}
