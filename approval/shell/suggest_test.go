package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/approval/shell"
)

func patterns(words ...string) []shell.Pattern {
	var out []shell.Pattern
	for _, w := range words {
		out = append(out, shell.Pattern{Words: strings.Fields(w)})
	}
	return out
}

var plainSite = shell.Site{Root: "/ws", Cwd: "/ws", Home: "/home", Path: []string{"/usr/bin"}}

func TestSuggest(t *testing.T) {
	rules := shell.Rules{WorkspacePaths: true, Allow: patterns("ls"), Deny: patterns("rm")}
	for _, c := range []struct {
		text string
		want string // the patterns, joined by " + "; "" is none
	}{
		{"wc -l a.txt", "wc -l a.txt"},
		{"ls | wc -l", "wc -l"},
		{"wc a && wc b && wc a", "wc a + wc b"},
		{"git commit --signoff -S -m 'a b'", "git commit --signoff -S -m 'a b'"},
		{"sort -o b a", "sort -o b a"},
		{"mytool --fix 'x y'", "mytool --fix 'x y'"},
		{"make deploy", "make deploy"},
		{"./run.sh", "./run.sh"},
		{"ls", ""},                 // allowed already
		{"rm x", ""},               // denied
		{"wc a; rm x", ""},         // denied
		{"wc a > b", ""},           // no pattern covers a redirection
		{"FOO=1 wc a", ""},         // nor an assignment
		{"wc $x", ""},              // nor what is not known
		{"wc *.txt", ""},           // nor what may be other files next time
		{"cat ../x", ""},           // nor a path outside
		{"wc $(date)", ""},         //
		{"bash x.sh", ""},          // a shell
		{"bash -c 'wc a'", "wc a"}, // for the inner command, never for the shell
		{"python3 x.py", ""},       // an interpreter
		{"python3 -m http.server", ""},
		{"node -e 1", ""},
		{"sudo wc a", ""}, // a wrapper
		{"env wc a", "wc a"},
		{"xargs wc", ""},
		{"ssh host wc", ""},
		{"docker exec c wc", ""},
		{"eval wc", ""},
		{"git difftool", ""}, // always asked about
		{"find . -exec wc {} +", ""},
		{"alias x=y", ""},
		{"if true", ""},
		{"wc a\r", ""},
	} {
		res := shell.Judge(c.text, plainSite, rules)
		var got []string
		for _, p := range res.Suggest {
			if !p.Exact {
				t.Errorf("Judge(%q) suggests %q, which covers more than this text", c.text, p)
			}
			got = append(got, p.String())
		}
		if s := strings.Join(got, " + "); s != c.want {
			t.Errorf("Judge(%q).Suggest = %q, want %q", c.text, s, c.want)
		}
		if len(res.Suggest) == 0 {
			continue
		}
		with := rules
		with.Allow = append(slices.Clone(rules.Allow), res.Suggest...)
		if v := shell.Judge(c.text, plainSite, with).Verdict; v != shell.Allow {
			t.Errorf("with what it suggests, Judge(%q) = %s", c.text, v)
		}
		if strings.HasPrefix(c.text, "bash") {
			continue // a word more is not the inner text's
		}
		for _, other := range []string{c.text + " more", c.text + " -x", "env FOO=1 " + c.text, c.text + " > f"} {
			if v := shell.Judge(other, plainSite, with).Verdict; v == shell.Allow {
				t.Errorf("with what it suggests for %q, Judge(%q) = %s", c.text, other, v)
			}
		}
	}
}

// TestResult checks what a verdict tells besides itself.
func TestResult(t *testing.T) {
	rules := shell.Rules{
		WorkspacePaths: true,
		Allow:          []shell.Pattern{{Words: []string{"cat"}, Source: "r.toml:1"}, {Words: []string{"git", "diff"}}, {Words: []string{"touch"}}},
		Ask:            []shell.Pattern{{Words: []string{"git", "diff", "--stat"}, Source: "r.toml:2"}},
		Deny:           []shell.Pattern{{Words: []string{"rm"}, Source: "r.toml:3"}},
	}
	res := shell.Judge("env cat a.txt < b.txt\ngit diff --stat; nice rm -f c > d", plainSite, rules)
	if res.Verdict != shell.Deny || res.Reason != "a rule denies rm" || res.Suggest != nil {
		t.Errorf("verdict = %s, %q, %v; want deny by the rule about rm and no suggestion", res.Verdict, res.Reason, res.Suggest)
	}
	type seen struct {
		words, wrappers, source string
		verdict                 shell.Verdict
		line                    int
	}
	var got []seen
	for _, c := range res.Commands {
		s := seen{strings.Join(c.Words, " "), strings.Join(c.Wrappers, " "), "", c.Verdict, c.Line}
		if c.Pattern != nil {
			s.source = c.Pattern.Source
		}
		got = append(got, s)
	}
	want := []seen{
		{"env cat a.txt", "", "", shell.Allow, 1},
		{"cat a.txt", "env", "r.toml:1", shell.Allow, 1},
		{"git diff --stat", "", "r.toml:2", shell.Ask, 2},
		{"nice rm -f c", "", "", shell.Allow, 2},
		{"rm -f c", "nice", "r.toml:3", shell.Deny, 2},
	}
	if !slices.Equal(got, want) {
		t.Errorf("commands = %v\nwant %v", got, want)
	}
	files := []shell.File{{Path: "b.txt", Op: shell.Read}, {Path: "a.txt", Op: shell.Read}, {Path: "d", Op: shell.Write}, {Path: "c", Op: shell.Change}}
	for _, f := range files {
		if !slices.Contains(res.Files, f) {
			t.Errorf("files = %v, want %v among them", res.Files, f)
		}
	}
}

// TestFilesRule holds files against the rules about files.
func TestFilesRule(t *testing.T) {
	rules := shell.Rules{
		WorkspacePaths: true,
		Allow:          patterns("cat", "touch", "echo", "sort", "ls"),
		Files: func(op shell.Op, path string) (shell.Verdict, string) {
			switch {
			case path == ".env":
				return shell.Deny, "it is secret"
			case op == shell.Write && strings.HasPrefix(path, "out/"):
				return shell.Allow, ""
			case op == shell.Write:
				return shell.Ask, ""
			}
			return shell.Allow, ""
		},
	}
	for text, want := range map[string]shell.Verdict{
		"cat a.txt":                shell.Allow,
		"cat .env":                 shell.Deny,
		"cat < ./.env":             shell.Deny,
		"cat x/../.env":            shell.Deny,
		"ls; cat \".e\"nv":         shell.Deny,
		"echo x > out/a":           shell.Allow,
		"echo x >> out/a 2>&1":     shell.Allow,
		"echo x > a":               shell.Ask,
		"echo x > out/../a":        shell.Ask,
		"echo x > .env":            shell.Deny,
		"sort -o out/a b":          shell.Allow,
		"sort -o a b":              shell.Ask,
		"touch a":                  shell.Allow,
		"touch .env":               shell.Deny,
		"touch .git/hooks/x":       shell.Ask,
		"echo x > out/.git/x":      shell.Ask,
		"echo x > /tmp/x":          shell.Ask,
		"> out/a":                  shell.Ask, // no rule names a program
		"cat a > out/b | cat .env": shell.Deny,
	} {
		if res := shell.Judge(text, plainSite, rules); res.Verdict != want {
			t.Errorf("Judge(%q) = %s (%s), want %s", text, res.Verdict, res.Reason, want)
		}
	}
}

// TestModes checks where rules are off.
func TestModes(t *testing.T) {
	rules := shell.Rules{WorkspacePaths: true, Allow: patterns("ls"), Deny: patterns("rm")}
	for _, c := range []struct {
		name string
		edit func(*shell.Site)
	}{
		{"another shell", func(s *shell.Site) { s.Shell = "zsh" }},
		{"a changed session", func(s *shell.Site) { s.Changed = true }},
		{"a directory outside", func(s *shell.Site) { s.Cwd = "/elsewhere" }},
	} {
		site := plainSite
		if v := shell.Judge("ls", site, rules).Verdict; v != shell.Allow {
			t.Errorf("Judge(ls) = %s without %s, want allow", v, c.name)
		}
		c.edit(&site)
		if v := shell.Judge("ls", site, rules).Verdict; v != shell.Ask {
			t.Errorf("Judge(ls) = %s in %s, want ask", v, c.name)
		}
		if v := shell.Judge("ls; rm x", site, rules).Verdict; v != shell.Deny {
			t.Errorf("Judge(rm) = %s in %s, want deny", v, c.name)
		}
	}
	if v := shell.Judge("ls", plainSite, shell.Rules{}).Verdict; v != shell.Ask {
		t.Errorf("Judge(ls) = %s without rules, want ask", v)
	}
}
