package policy_test

import (
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/approval/shell"
	"github.com/wasmtools/wasmtools/tool"
)

// installed is a machine on which every program is in /usr/bin, the workspace
// /work has some files, and nothing is a link.
type installed struct{}

func (installed) Resolve(name string) (string, shell.Kind, error) {
	name = path.Clean(name)
	switch {
	case path.Dir(name) == "/usr/bin":
		return name, shell.Executable, nil
	case path.Ext(name) == "" && path.Base(name) != ".env":
		return name, shell.Directory, nil
	}
	return name, shell.Regular, nil
}

func (installed) List(string, int) ([]shell.Entry, bool, error) { return nil, false, nil }

func commandSite() policy.Site {
	return policy.Site{
		Now: noon, Root: "/work", Home: "/home/me", Path: []string{"/usr/bin"}, FS: installed{},
		Listed: func(p string) (string, bool) {
			switch {
			case path.Base(p) == ".env":
				return "env", true
			case strings.HasPrefix(p, ".vscode"):
				return "editor", false
			}
			return "", false
		},
	}
}

func runs(text string, change ...func(*policy.Call)) policy.Call {
	c := policy.Call{
		Tool: "terminal_session", Source: tool.Native, Effects: tool.Executes,
		Arguments: []byte(`{"command":` + quoted(text) + `,"op":"exec"}`),
		Command:   &policy.Command{Text: text, Cwd: "/work"},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func quoted(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }

func patterns(p ...string) policy.Rule {
	var r policy.Rule
	for _, s := range p {
		r.Commands = append(r.Commands, strings.Fields(s))
	}
	return r
}

func named(name string, r policy.Rule) policy.Rule { r.Name = name; return r }

func TestJudgeCommands(t *testing.T) {
	look := allow(named("look", patterns("ls", "cat", "head", "echo", "git log")))
	remove := allow(named("remove", patterns("rm", "mkdir")))
	profile := func(p string) func(*policy.Call) { return func(c *policy.Call) { c.Command.Profile = p } }
	env := func(name, value string) func(*policy.Call) {
		return func(c *policy.Call) { c.Command.Env = map[string]string{name: value} }
	}
	in := func(cwd string) func(*policy.Call) { return func(c *policy.Call) { c.Command.Cwd = cwd } }
	for _, c := range []struct {
		name   string
		policy policy.Policy
		call   policy.Call
		want   policy.Decision
		by     string
	}{
		{"no rule", policy.Policy{}, runs("ls"), policy.Ask, "command"},
		{"a pattern", rules(look), runs("ls -la"), policy.Allow, "look"},
		{"a pipe", rules(look), runs("ls -la | head"), policy.Allow, "look"},
		{"one of two", rules(look), runs("ls; evil"), policy.Ask, "command"},
		{"two rules", rules(look, allow(named("evil", patterns("evil")))), runs("ls; evil"), policy.Allow, "look"},
		{"a whole tool is not its commands", rules(allow(policy.Rule{Tools: []string{"*"}})), runs("ls"), policy.Ask, "command"},
		{"for another tool", rules(allow(policy.Rule{Tools: []string{"other"}, Commands: look.Commands})), runs("ls"), policy.Ask, "command"},
		{"expired", rules(allow(policy.Rule{Commands: look.Commands, Expires: noon})), runs("ls"), policy.Ask, "command"},
		{"another workspace", rules(allow(policy.Rule{Commands: look.Commands, Workspaces: []string{"/other"}})), runs("ls"), policy.Ask, "command"},

		{"deny", rules(look, deny(named("never", patterns("git push")))), runs("git push"), policy.Deny, "never"},
		{"deny sees through", rules(look, deny(named("never", patterns("sudo")))), runs("ls && env sudo ls"), policy.Deny, "never"},
		{"ask over allow", rules(look, ask(named("careful", patterns("git log")))), runs("git log"), policy.Ask, "careful"},
		{"deny of a tool", rules(look, deny(policy.Rule{Name: "off", Tools: []string{"terminal_session"}})), runs("ls"), policy.Deny, "off"},
		{"deny of an effect", rules(look, deny(policy.Rule{Name: "off", Effects: tool.Executes})), runs("ls"), policy.Deny, "off"},
		{"deny of a command on a path", rules(remove, deny(policy.Rule{Name: "keep", Commands: [][]string{{"rm"}}, Paths: []string{"keep/**"}})), runs("rm keep/a.txt"), policy.Deny, "keep"},
		{"that command on another path", rules(remove, deny(policy.Rule{Name: "keep", Commands: [][]string{{"rm"}}, Paths: []string{"keep/**"}})), runs("rm a.txt"), policy.Allow, "remove"},
		{"another command on that path", rules(look, deny(policy.Rule{Name: "keep", Commands: [][]string{{"rm"}}, Paths: []string{"keep/**"}})), runs("cat keep/a.txt"), policy.Allow, "look"},

		{"a file that is read", rules(look, deny(policy.Rule{Name: "hidden", Paths: []string{"hidden/**"}})), runs("cat hidden/a.txt"), policy.Deny, "hidden"},
		{"a file that is removed", rules(remove, deny(policy.Rule{Name: "keep", Paths: []string{"keep/**"}})), runs("rm keep/a.txt"), policy.Deny, "keep"},
		{"a file that is written", rules(look), runs("echo x > a.txt"), policy.Ask, "default"},
		{"a file that is written by a rule for it", rules(look, allow(policy.Rule{Name: "notes", Paths: []string{"a.txt"}})), runs("echo x > a.txt"), policy.Allow, "look"},
		{"a file that is written, edits allowed", policy.Policy{Mode: policy.ModeAllowEdits, Rules: []policy.Rule{look}}, runs("echo x > a.txt"), policy.Allow, "look"},
		{"a secret", rules(look), runs("cat .env"), policy.Deny, "secret:env"},
		{"a secret through a redirection", rules(look), runs("head < sub/.env"), policy.Deny, "secret:env"},
		{"a protected file, edits allowed", policy.Policy{Mode: policy.ModeAllowEdits, Rules: []policy.Rule{look}}, runs("echo x > .vscode/tasks.json"), policy.Ask, "protected:editor"},
		{"a protected file as the job of a command", rules(remove), runs("rm .vscode/tasks.json"), policy.Ask, "protected:editor"},
		{"outside", rules(look), runs("cat /etc/passwd"), policy.Ask, "command"},
		{"a folder outside", rules(look), runs("ls", in("/etc")), policy.Ask, "command"},
		{"a folder below", rules(look), runs("ls", in("/work/sub")), policy.Allow, "look"},

		{"another shell", rules(look), runs("ls", func(c *policy.Call) { c.Command.Shell = "zsh" }), policy.Ask, "command"},
		{"a changed session", rules(look), runs("ls", func(c *policy.Call) { c.Command.Changed = true }), policy.Ask, "command"},
		{"a harmless variable", rules(look), runs("ls", env("LC_ALL", "C")), policy.Allow, "look"},
		{"PATH", rules(look), runs("ls", env("PATH", "/evil")), policy.Ask, "command"},
		{"LD_PRELOAD", rules(look), runs("ls", env("LD_PRELOAD", "evil.so")), policy.Ask, "command"},
		{"a name that is text", rules(look), runs("ls", env("A; evil;", "x")), policy.Ask, "command"},
		{"a value that is text", rules(look), runs("ls", env("LC_ALL", "x'; evil; '")), policy.Ask, "command"},

		{"outside the sandbox", rules(look), runs("ls", profile("none")), policy.Deny, "unsandboxed"},
		{"outside the sandbox, by a rule, switched off", rules(allow(policy.Rule{Commands: look.Commands, Profiles: []string{"none"}})), runs("ls", profile("none")), policy.Deny, "unsandboxed"},
		{"outside the sandbox, switched on", policy.Policy{Unsandboxed: true, Rules: []policy.Rule{look}}, runs("ls", profile("none")), policy.Ask, "unsandboxed"},
		{"outside the sandbox, a rule names it", policy.Policy{Unsandboxed: true, Rules: []policy.Rule{allow(policy.Rule{Name: "bare", Commands: look.Commands, Profiles: []string{"none"}})}}, runs("ls", profile("none")), policy.Allow, "bare"},
		{"outside the sandbox, denied", policy.Policy{Unsandboxed: true, Rules: []policy.Rule{deny(named("never", patterns("ls")))}}, runs("ls", profile("none")), policy.Deny, "never"},
		{"read-only, a rule for another profile", rules(allow(policy.Rule{Commands: look.Commands, Profiles: []string{"workspace-write"}})), runs("ls", profile("read-only")), policy.Ask, "command"},
		{"plan", policy.Policy{Mode: policy.ModePlan, Rules: []policy.Rule{look}}, runs("ls"), policy.Deny, "mode:plan"},
		{"deny mode", policy.Policy{Mode: policy.ModeDeny, Rules: []policy.Rule{look}}, runs("evil"), policy.Deny, "mode:deny"},

		{"no text", rules(look), runs(""), policy.Ask, "command"},
		{"no bash", rules(look), runs("ls ("), policy.Ask, "command"},
		{"a substitution", rules(look), runs("echo $(evil)"), policy.Ask, "command"},
		{"a NUL", rules(look), runs("ls\x00"), policy.Ask, "command"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := policy.Judge(c.policy, c.call, commandSite())
			if v.Decision != c.want || v.Rule.Name != c.by {
				t.Errorf("Judge = %s by %q (%s), want %s by %q", v.Decision, v.Rule.Name, v.Reason, c.want, c.by)
			}
			if v.Decision == policy.Allow && v.Plan == nil {
				t.Error("an allowed command has no plan")
			}
			if v.Decision != policy.Allow && v.Smallest == nil && v.Instead == "" {
				t.Error("the verdict tells no way to allow the call")
			}
			if strings.Contains(c.name, "outside the sandbox") && v.Decision != policy.Allow && !v.InPerson {
				t.Error("a client may answer for a command outside the sandbox")
			}
		})
	}
}

// TestSmallestForCommands: a rule is offered that allows the command and no
// other, and none for what hides what it runs.
func TestSmallestForCommands(t *testing.T) {
	for _, c := range []struct {
		text   string
		change func(*policy.Call)
	}{
		{text: "go vet ./..."}, {text: "ls -la | head -3"}, {text: "git commit -m 'two words'"}, {text: "rm -rf build"},
		{text: "make deploy && echo done"},
		{text: "echo x > out.txt"}, // a pattern and a path
		{text: "ls", change: func(c *policy.Call) { c.Command.Profile = "none" }},
	} {
		call := runs(c.text)
		if c.change != nil {
			c.change(&call)
		}
		base := policy.Policy{Unsandboxed: true}
		v := policy.Judge(base, call, commandSite())
		if v.Decision != policy.Ask || v.Smallest == nil {
			t.Errorf("%s: %s, smallest %v, instead %q; want ask with a rule", c.text, v.Decision, v.Smallest, v.Instead)
			continue
		}
		with := policy.Policy{Unsandboxed: true, Rules: []policy.Rule{*v.Smallest}}
		if again := policy.Judge(with, call, commandSite()); again.Decision != policy.Allow {
			t.Errorf("%s: with its smallest rule %s (%s)\n%s", c.text, again.Decision, again.Reason, v.Smallest.TOML())
		}
		for _, other := range []string{c.text + " more", "sudo " + c.text, c.text + "; ls", c.text + " > other.txt", "true"} {
			if got := policy.Judge(with, runs(other), commandSite()); got.Decision == policy.Allow {
				t.Errorf("%s: its smallest rule allows %q\n%s", c.text, other, v.Smallest.TOML())
			}
		}
	}
	for _, text := range []string{"bash script.sh", "python3 -c 'print(1)'", "sudo ls", "env X=1 ls", "echo $(evil)", "ls\r", "cat /etc/passwd", "PATH=. ls"} {
		v := policy.Judge(policy.Policy{}, runs(text), commandSite())
		if v.Decision != policy.Ask || v.Smallest != nil || v.Save != nil || v.Instead == "" {
			t.Errorf("%q: %s, smallest %v, save %v, instead %q; want ask and no rule", text, v.Decision, v.Smallest, v.Save, v.Instead)
		}
	}
}

// TestFindingsNameEachCommand: a person reads which part was allowed by what.
func TestFindingsNameEachCommand(t *testing.T) {
	v := policy.Judge(rules(allow(named("look", patterns("ls"))), deny(named("never", patterns("evil")))), runs("ls -l; evil x > out.txt"), commandSite())
	var got []string
	for _, f := range v.Findings {
		got = append(got, string(f.Decision)+" "+f.Part+" by "+f.Rule.Name)
	}
	want := "deny the command by never; allow command ls -l by look; deny command evil x by never; ask write out.txt by default"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("findings:\n  %s\nwant\n  %s", s, want)
	}
}

func BenchmarkJudge(b *testing.B) {
	var many []policy.Rule
	for i := range 50 {
		name := strconv.Itoa(i)
		many = append(many, allow(policy.Rule{Name: "paths " + name, Paths: []string{"docs/**", "src/*.go"}}), allow(named("allow "+name, patterns("git log", "ls", "head", "go test"))), deny(named("deny "+name, patterns("sudo"))))
	}
	for _, c := range []struct {
		name string
		call policy.Call
	}{
		{"read", policy.Call{Tool: "grep", Source: tool.Builtin, Effects: tool.Reads}},
		{"edit", edit(write("docs/a.md"))},
		{"command", runs("ls -la | head -20 && go test ./...")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			site := commandSite()
			for b.Loop() {
				policy.Judge(policy.Policy{Rules: many}, c.call, site)
			}
		})
	}
}
