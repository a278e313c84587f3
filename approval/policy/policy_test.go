package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
)

const edits = tool.Reads | tool.Writes | tool.Destroys

func edit(targets ...policy.Target) policy.Call {
	return policy.Call{Tool: "write_file", Source: tool.Builtin, Effects: edits, Arguments: []byte(`{"path":"x"}`), Targets: targets}
}

func fetch(hosts ...string) policy.Call {
	return policy.Call{Tool: "fetch", Source: tool.Installed, Module: digest("m"), Effects: tool.UsesNetwork, Arguments: []byte(`{}`), Hosts: hosts}
}

func bare(s tool.Source, e tool.Effects) policy.Call {
	return policy.Call{Tool: "thing", Source: s, Effects: e, Arguments: []byte(`{"a":1}`)}
}

func write(path string) policy.Target { return policy.Target{Verb: policy.Write, Path: path} }
func made(path string) policy.Target  { return policy.Target{Verb: policy.Make, Path: path} }
func read(path string) policy.Target  { return policy.Target{Verb: policy.Read, Path: path} }

func listed(t policy.Target, rule string) policy.Target { t.List = rule; return t }
func secret(t policy.Target, rule string) policy.Target {
	t.List, t.Secret = rule, true
	return t
}

func digest(s string) tool.Digest { return tool.DigestOf([]byte(s)) }

func allow(r policy.Rule) policy.Rule { r.Decision = policy.Allow; return r }
func ask(r policy.Rule) policy.Rule   { r.Decision = policy.Ask; return r }
func deny(r policy.Rule) policy.Rule  { r.Decision = policy.Deny; return r }

func rules(r ...policy.Rule) policy.Policy { return policy.Policy{Rules: r} }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	docs := policy.Rule{Paths: []string{"docs/**"}}
	yes := policy.Rule{Tools: []string{"*"}}
	for _, c := range []struct {
		name   string
		policy policy.Policy
		call   policy.Call
		want   policy.Decision
		by     string // name of the rule that decides
	}{
		{"no rule", policy.Policy{}, edit(write("a")), policy.Ask, "default"},
		{"reading", policy.Policy{}, policy.Call{Tool: "grep", Source: tool.Builtin, Effects: tool.Reads}, policy.Allow, "reads"},
		{"reading a path", policy.Policy{}, policy.Call{Tool: "read_open", Source: tool.Builtin, Effects: tool.Reads, Targets: []policy.Target{read("a")}}, policy.Allow, "reads"},
		{"reading outside", policy.Policy{}, policy.Call{Tool: "x", Source: tool.Native, Effects: tool.Reads, Targets: []policy.Target{read("/etc/passwd")}}, policy.Ask, "default"},
		{"an upstream's word", policy.Policy{}, bare(tool.MCP, tool.Reads), policy.Ask, "default"},
		{"nothing at all", policy.Policy{}, bare(tool.Native, 0), policy.Allow, "reads"},
		{"executes, no text", policy.Policy{}, bare(tool.Host, tool.Executes), policy.Ask, "default"},

		{"a path that fits", rules(allow(docs)), edit(write("docs/a.md")), policy.Allow, ""},
		{"a path that does not", rules(allow(docs)), edit(write("src/a.md")), policy.Ask, "default"},
		{"one of two paths", rules(allow(docs)), edit(write("docs/a.md"), write("src/a.md")), policy.Ask, "default"},
		{"two rules, two paths", rules(allow(docs), allow(policy.Rule{Paths: []string{"src/*"}})), edit(write("docs/a.md"), write("src/a.md")), policy.Allow, ""},
		{"files not known", rules(allow(docs)), edit(), policy.Ask, "default"},
		{"files not known, whole tool", rules(allow(policy.Rule{Tools: []string{"write_file"}})), edit(), policy.Allow, ""},
		{"an outside path and **", rules(allow(policy.Rule{Paths: []string{"**"}})), edit(write("/etc/hosts")), policy.Ask, "default"},
		{"an outside path, whole tool", rules(allow(yes)), edit(write("/etc/hosts")), policy.Ask, "default"},
		{"an outside path by its rule", rules(allow(policy.Rule{Paths: []string{"/etc/*"}})), edit(write("/etc/hosts")), policy.Allow, ""},
		{"an inside path and a rule for outside", rules(allow(policy.Rule{Paths: []string{"/**"}})), edit(write("etc/hosts")), policy.Ask, "default"},

		{"a directory on the way", rules(allow(policy.Rule{Paths: []string{"new/*.md"}})), edit(made("new"), write("new/a.md")), policy.Allow, ""},
		{"a directory and nothing in it", rules(allow(policy.Rule{Paths: []string{"new/*.md"}})), edit(made("new"), write("newer")), policy.Ask, "default"},
		{"a directory for what is asked about", policy.Policy{}, edit(made("new"), write("new/a.md")), policy.Ask, "default"},
		{"a protected directory on the way", rules(allow(policy.Rule{Paths: []string{".git/config"}})), edit(listed(made(".git"), "git"), listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"a denied directory on the way", rules(allow(yes), deny(policy.Rule{Paths: []string{"new"}})), edit(made("new"), write("new/a.md")), policy.Deny, ""},

		{"deny over allow", rules(allow(yes), deny(docs)), edit(write("docs/a")), policy.Deny, ""},
		{"deny first", rules(deny(docs), allow(yes)), edit(write("docs/a")), policy.Deny, ""},
		{"ask over allow", rules(allow(yes), ask(docs)), edit(write("docs/a")), policy.Ask, ""},
		{"deny of one part", rules(allow(yes), deny(docs)), edit(write("a"), write("docs/a")), policy.Deny, ""},
		{"deny of reading", rules(deny(docs)), policy.Call{Tool: "read_open", Source: tool.Builtin, Effects: tool.Reads, Targets: []policy.Target{read("docs/a")}}, policy.Deny, ""},
		{"deny by paths, files not known", rules(allow(yes), deny(docs)), edit(), policy.Ask, ""},
		{"deny by paths, files not known, tool allowed by name", rules(allow(policy.Rule{Tools: []string{"write_*"}}), deny(docs)), edit(), policy.Allow, ""},
		{"deny by tool and paths, files not known", rules(allow(policy.Rule{Tools: []string{"write_*"}}), deny(policy.Rule{Tools: []string{"write_file"}, Paths: []string{"a"}})), edit(), policy.Ask, ""},
		{"deny by commands, programs not known", rules(allow(yes), deny(policy.Rule{Commands: [][]string{{"sudo"}}})), bare(tool.Host, tool.Executes), policy.Allow, ""},

		{"protected, whole tool", rules(allow(yes)), edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"protected, blanket glob", rules(allow(policy.Rule{Paths: []string{"**"}})), edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"protected, the glob of its folder", rules(allow(policy.Rule{Paths: []string{".git/*"}})), edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"protected, named by path", rules(allow(policy.Rule{Paths: []string{".git/config"}})), edit(listed(write(".git/config"), "git")), policy.Allow, ""},
		{"protected, named by list", rules(allow(policy.Rule{Paths: []string{".git/*"}, Protected: []string{"git"}})), edit(listed(write(".git/config"), "git")), policy.Allow, ""},
		{"protected, another list", rules(allow(policy.Rule{Paths: []string{".git/*"}, Protected: []string{"editor"}})), edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"protected, list without path", rules(allow(policy.Rule{Tools: []string{"write_file"}, Protected: []string{"git"}})), edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"protected, read", policy.Policy{}, policy.Call{Tool: "read_open", Effects: tool.Reads, Targets: []policy.Target{listed(read(".git/config"), "git")}}, policy.Allow, "reads"},
		{"protected, allow-edits", policy.Policy{Mode: policy.ModeAllowEdits}, edit(listed(write(".git/config"), "git")), policy.Ask, "protected:git"},
		{"secret, read", rules(allow(yes)), policy.Call{Tool: "read_open", Effects: tool.Reads, Targets: []policy.Target{secret(read(".env"), "env")}}, policy.Deny, "secret:env"},
		{"secret, an ask rule more", rules(ask(policy.Rule{Paths: []string{".env"}})), policy.Call{Tool: "read_open", Effects: tool.Reads, Targets: []policy.Target{secret(read(".env"), "env")}}, policy.Deny, "secret:env"},

		{"allow-edits", policy.Policy{Mode: policy.ModeAllowEdits}, edit(write("a")), policy.Allow, "mode:allow-edits"},
		{"allow-edits, for good", policy.Policy{Mode: policy.ModeAllowEdits}, edit(policy.Target{Verb: policy.Erase, Path: "a"}), policy.Ask, "default"},
		{"allow-edits, upstream", policy.Policy{Mode: policy.ModeAllowEdits}, policy.Call{Tool: "x", Source: tool.MCP, Effects: edits, Targets: []policy.Target{write("a")}}, policy.Ask, "default"},
		{"allow-edits, files not known", policy.Policy{Mode: policy.ModeAllowEdits}, edit(), policy.Ask, "default"},
		{"plan", policy.Policy{Mode: policy.ModePlan, Rules: []policy.Rule{allow(yes)}}, edit(write("a")), policy.Deny, "mode:plan"},
		{"plan, reading", policy.Policy{Mode: policy.ModePlan}, bare(tool.Builtin, tool.Reads), policy.Allow, "reads"},
		{"deny mode", policy.Policy{Mode: policy.ModeDeny}, edit(write("a")), policy.Deny, "mode:deny"},
		{"deny mode, a rule", policy.Policy{Mode: policy.ModeDeny, Rules: []policy.Rule{allow(docs)}}, edit(write("docs/a")), policy.Allow, ""},

		{"host", rules(allow(policy.Rule{Hosts: []string{"api.example.com"}})), fetch("API.example.com."), policy.Allow, ""},
		{"host with a port", rules(allow(policy.Rule{Hosts: []string{"api.example.com"}})), fetch("api.example.com:8443"), policy.Allow, ""},
		{"a port that the call leaves open", rules(allow(policy.Rule{Hosts: []string{"api.example.com:443"}})), fetch("api.example.com"), policy.Ask, "default"},
		{"below a domain", rules(allow(policy.Rule{Hosts: []string{"*.example.com"}})), fetch("a.b.example.com"), policy.Allow, ""},
		{"the domain itself", rules(allow(policy.Rule{Hosts: []string{"*.example.com"}})), fetch("example.com"), policy.Ask, "default"},
		{"a name that only ends so", rules(allow(policy.Rule{Hosts: []string{"*.example.com"}})), fetch("evilexample.com"), policy.Ask, "default"},
		{"a granted pattern", rules(allow(policy.Rule{Hosts: []string{"api.example.com"}})), fetch("*.example.com"), policy.Ask, "default"},
		{"hosts not known", rules(allow(policy.Rule{Hosts: []string{"*"}})), fetch(), policy.Ask, "default"},
		{"deny of a host", rules(allow(yes), deny(policy.Rule{Hosts: []string{"evil.example.com"}})), fetch("evil.example.com"), policy.Deny, ""},
		{"deny inside a granted pattern", rules(allow(yes), deny(policy.Rule{Hosts: []string{"evil.example.com"}})), fetch("*.example.com"), policy.Ask, ""},
		{"deny, hosts not known", rules(allow(yes), deny(policy.Rule{Hosts: []string{"evil.example.com"}})), fetch(), policy.Ask, ""},
		{"paths and a host", rules(allow(docs)), policy.Call{Tool: "x", Source: tool.Installed, Effects: edits | tool.UsesNetwork, Targets: []policy.Target{write("docs/a")}, Hosts: []string{"h.example"}}, policy.Ask, "default"},
		{"deny of a path sent to a host", rules(allow(yes), deny(policy.Rule{Paths: []string{"docs/**"}, Hosts: []string{"h.example"}})),
			policy.Call{Tool: "x", Source: tool.Installed, Effects: edits | tool.UsesNetwork, Targets: []policy.Target{write("docs/a")}, Hosts: []string{"h.example"}}, policy.Deny, ""},
		{"that rule, another host", rules(allow(yes), deny(policy.Rule{Paths: []string{"docs/**"}, Hosts: []string{"h.example"}})),
			policy.Call{Tool: "x", Source: tool.Installed, Effects: edits | tool.UsesNetwork, Targets: []policy.Target{write("docs/a")}, Hosts: []string{"other.example"}}, policy.Allow, ""},

		{"tool glob", rules(allow(policy.Rule{Tools: []string{"github__*"}})), policy.Call{Tool: "github__list", Source: tool.MCP}, policy.Allow, ""},
		{"tool glob, another", rules(allow(policy.Rule{Tools: []string{"github__*"}})), policy.Call{Tool: "gitlab__list", Source: tool.MCP}, policy.Ask, "default"},
		{"source", rules(allow(policy.Rule{Sources: []tool.Source{tool.Builtin}})), edit(write("a")), policy.Allow, ""},
		{"source, another", rules(allow(policy.Rule{Sources: []tool.Source{tool.Installed}})), edit(write("a")), policy.Ask, "default"},
		{"module", rules(allow(policy.Rule{Modules: []tool.Digest{digest("m")}})), fetch("h.example"), policy.Allow, ""},
		{"module, another", rules(allow(policy.Rule{Modules: []tool.Digest{digest("n")}})), fetch("h.example"), policy.Ask, "default"},
		{"module, none", rules(allow(policy.Rule{Modules: []tool.Digest{""}})), edit(write("a")), policy.Ask, "default"},
		{"effects cover", rules(allow(policy.Rule{Effects: edits})), edit(write("a")), policy.Allow, ""},
		{"effects go beyond", rules(allow(policy.Rule{Effects: tool.Reads | tool.Writes})), edit(write("a")), policy.Ask, "default"},
		{"deny of an effect", rules(allow(yes), deny(policy.Rule{Effects: tool.Destroys})), edit(write("a")), policy.Deny, ""},
		{"expired allow", rules(allow(policy.Rule{Tools: []string{"*"}, Expires: noon})), edit(write("a")), policy.Ask, "default"},
		{"allow, not expired", rules(allow(policy.Rule{Tools: []string{"*"}, Expires: noon.Add(1)})), edit(write("a")), policy.Allow, ""},
		{"expired deny", rules(allow(yes), deny(policy.Rule{Expires: noon})), edit(write("a")), policy.Allow, ""},
		{"another workspace", rules(allow(policy.Rule{Workspaces: []string{"/other"}})), edit(write("a")), policy.Ask, "default"},
		{"this workspace", rules(allow(policy.Rule{Workspaces: []string{"/work"}})), edit(write("a")), policy.Allow, ""},
		{"a profile, no command", rules(allow(policy.Rule{Profiles: []string{"none"}})), edit(write("a")), policy.Ask, "default"},
		{"a decision that is none", rules(policy.Rule{Decision: "permit"}), edit(write("a")), policy.Deny, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := policy.Judge(c.policy, c.call, policy.Site{Now: noon, Root: "/work"})
			if v.Decision != c.want || v.Rule.Name != c.by {
				t.Errorf("Judge = %s by %q (%s), want %s by %q", v.Decision, v.Rule.Name, v.Reason, c.want, c.by)
			}
			if v.Reason == "" || len(v.Findings) == 0 {
				t.Errorf("the verdict gives no reason or findings: %+v", v)
			}
			if v.Decision != policy.Allow && v.Smallest == nil && v.Instead == "" {
				t.Error("the verdict tells no way to allow the call")
			}
		})
	}
}

// TestFold: where case is not told apart, a rule against a path fits any case,
// and a rule for one does not.
func TestFold(t *testing.T) {
	against := rules(allow(policy.Rule{Tools: []string{"*"}}), deny(policy.Rule{Paths: []string{"Keys/**"}}))
	for _, c := range []struct {
		fold bool
		want policy.Decision
	}{{false, policy.Allow}, {true, policy.Deny}} {
		if v := policy.Judge(against, edit(write("keys/a")), policy.Site{Fold: c.fold}); v.Decision != c.want {
			t.Errorf("fold %v: %s, want %s", c.fold, v.Decision, c.want)
		}
	}
	for_ := rules(allow(policy.Rule{Paths: []string{"Keys/**"}}))
	if v := policy.Judge(for_, edit(write("keys/a")), policy.Site{Fold: true}); v.Decision != policy.Ask {
		t.Errorf("a rule that allows fits another case: %s", v.Decision)
	}
}

// TestNoClock: what expires and allows does not hold where the time is not
// known; what expires and denies does.
func TestNoClock(t *testing.T) {
	v := policy.Judge(rules(allow(policy.Rule{Tools: []string{"*"}, Expires: noon})), edit(write("a")), policy.Site{})
	if v.Decision != policy.Ask {
		t.Errorf("an allow that expires = %s without a clock, want ask", v.Decision)
	}
	v = policy.Judge(rules(deny(policy.Rule{Expires: noon})), edit(write("a")), policy.Site{})
	if v.Decision != policy.Deny {
		t.Errorf("a deny that expires = %s without a clock, want deny", v.Decision)
	}
}

// TestSmallest: the rule that is offered allows the call, and none that differs
// in what it does.
func TestSmallest(t *testing.T) {
	one := policy.Call{Tool: "x", Source: tool.Installed, Module: digest("m"), Effects: edits | tool.UsesNetwork, Arguments: []byte(`{"n":1}`)}
	with := func(c policy.Call, change func(*policy.Call)) policy.Call { change(&c); return c }
	for _, c := range []struct {
		name string
		call policy.Call
	}{
		{"edit", edit(write("a*[1].txt"))},
		{"two edits", edit(write("a"), policy.Target{Verb: policy.Delete, Path: "b"})},
		{"protected", edit(listed(write(".git/config"), "git"))},
		{"host", fetch("h.example:8443")},
		{"hosts not known", fetch()},
		{"nothing known", one},
		{"files known, hosts not", with(one, func(c *policy.Call) { c.Targets = []policy.Target{write("a")} })},
		{"protected, hosts not known", with(one, func(c *policy.Call) { c.Targets = []policy.Target{listed(write(".git/config"), "git")} })},
		{"both known", with(one, func(c *policy.Call) {
			c.Targets, c.Hosts = []policy.Target{write("a"), read("b")}, []string{"*.example.com"}
		})},
		{"upstream", bare(tool.MCP, tool.Reads)},
		{"executes", bare(tool.Host, tool.Executes)},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := policy.Site{Now: noon, Root: "/work"}
			v := policy.Judge(policy.Policy{}, c.call, site)
			if v.Decision != policy.Ask || v.Smallest == nil {
				t.Fatalf("Judge = %s, smallest %v, instead %q; want ask with a rule", v.Decision, v.Smallest, v.Instead)
			}
			with := rules(*v.Smallest)
			if again := policy.Judge(with, c.call, site); again.Decision != policy.Allow {
				t.Errorf("with its own smallest rule: %s (%s)\n%s", again.Decision, again.Reason, v.Smallest.TOML())
			}
			for name, other := range neighbours(c.call) {
				base := policy.Judge(policy.Policy{}, other, site)
				if got := policy.Judge(with, other, site); got.Decision != base.Decision {
					t.Errorf("another call (%s) becomes %s\n%s", name, got.Decision, v.Smallest.TOML())
				}
			}
			if v.Save != nil {
				if again := policy.Judge(rules(*v.Save), c.call, site); again.Decision != policy.Allow {
					t.Errorf("with the rule to save: %s (%s)\n%s", again.Decision, again.Reason, v.Save.TOML())
				}
				if again := policy.Judge(rules(*v.Save), c.call, policy.Site{Now: noon, Root: "/elsewhere"}); again.Decision == policy.Allow {
					t.Errorf("the rule to save holds in another workspace:\n%s", v.Save.TOML())
				}
				if again := policy.Judge(rules(*v.Save), c.call, policy.Site{Now: noon.Add(31 * 24 * time.Hour), Root: "/work"}); again.Decision == policy.Allow {
					t.Errorf("the rule to save does not expire:\n%s", v.Save.TOML())
				}
			}
		})
	}
}

// neighbours are calls that differ from c in one thing.
func neighbours(c policy.Call) map[string]policy.Call {
	out := map[string]policy.Call{}
	change := func(name string, f func(*policy.Call)) {
		other := c
		other.Targets = append([]policy.Target(nil), c.Targets...)
		other.Hosts = append([]string(nil), c.Hosts...)
		f(&other)
		out[name] = other
	}
	change("arguments", func(c *policy.Call) { c.Arguments = []byte(`{"other":true}`) })
	change("tool", func(c *policy.Call) { c.Tool += "2" })
	change("source", func(c *policy.Call) { c.Source = tool.Extension })
	change("module", func(c *policy.Call) { c.Module = digest("changed") })
	change("a path more", func(c *policy.Call) { c.Targets = append(c.Targets, listed(write(".vscode/tasks.json"), "editor")) })
	if c.Module == "" { // where there is one, its digest was there before
		delete(out, "module")
	}
	return out
}

func TestTOMLShowsWhatIsMeant(t *testing.T) {
	r := allow(policy.Rule{
		Name: "a \"name\"\n\u202e", Tools: []string{"write_file"}, Sources: []tool.Source{tool.Builtin},
		Effects: tool.Reads | tool.Writes, Paths: []string{`a\[1\]`}, Commands: [][]string{{"git", "log"}, {"ls"}}, Expires: noon,
	})
	want := `[[rules]]
name = "a \"name\"\n\u202E"
verdict = "allow"
tools = ["write_file"]
sources = ["builtin"]
effects = ["read", "write"]
paths = ["a\\[1\\]"]
commands = [["git", "log"], ["ls"]]
expires = 2026-11-30T12:00:00Z
`
	if got := r.TOML(); got != want {
		t.Errorf("TOML() =\n%s\nwant\n%s", got, want)
	}
	if got := (policy.Ref{Name: "r", Origin: policy.Origin{Layer: policy.User, File: "/home/me/.config/wasmtools.toml", Line: 3}}).String(); strings.Contains(got, "/home") || !strings.Contains(got, "wasmtools.toml:3") {
		t.Errorf("Ref.String() = %q, want the file's last element and the line", got)
	}
}
