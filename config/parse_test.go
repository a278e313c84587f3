package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

const everything = `
[workspace]
deny_read = ["*.pem", "secrets/**"]
protect = "infra/**"
allow_read = [".env.test"]
hard_links = true
require_read = true

[approvals]
mode = "allow-edits"
headless = "queue"
elicitation = "edits"
timeout = "90s"

[terminal]
allow_unsandboxed = true
profile = "read-only"
network = "off"
weak_sandbox = true
pass_env = ["GOPROXY", "_x1"]

[mcp]
context_window = 128_000

[limits]
memory_mib = 32
time_ms = 10_000
output_kib = 512
host_calls = 500
concurrency = 2

[tools]
remove = ["delete_path"]
only = ["read_*", "grep"]

[[rules]]
name = "docs"
verdict = "allow"
tools = ["write_file", "replace_block"]
sources = "builtin"
effects = ["read", "write"]
paths = ["docs/**"]
expires = 2027-01-31
reason = "docs are reviewed"

[[rules]]
verdict = "deny"
commands = ["git push", ["rm", "-rf"]]
exact = [["ls", "-la"]]
profiles = ["none"]
workspaces = ["/src/project"]

[[rules]]
verdict = "allow"
hosts = ["api.example.com:443"]
modules = ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]
inputs = ["sha256:1111111111111111111111111111111111111111111111111111111111111111"]
paths = ["/etc/hosts", ".git/config"]
protected = ["git"]
expires = 2027-01-31T12:00:00+02:00

[[examples]]
command = "git push"
cwd = "sub"
profile = "none"
should = "deny"

[[examples]]
tool = "write_file"
arguments = { path = "docs/a.md", content = "x", dry_run = true, lines = [1, 2.5] }
should = "allow"

[tool_search]
enabled = false
models = ["anthropic/*"]
threshold_pct = 0.2
min_defer_count = 3
pins = ["github__create_issue"]
embed_url = "http://127.0.0.1:8080/v1"
embed_model = "small"
embed_secret = "embed"

[skills]
folders = ["~/skills", "/srv/skills"]

[budget]
text_kib = 48
structured_kib = 16
tools = { grep = 128, "github__*" = 40 }

[undo]
enabled = false
max_mib = 100
keep_days = 7

[artifacts]
max_mib = 512
keep_days = 30

[mcp.servers.github]
command = "npx"
args = ["-y", "server-github"]
env = { LOG = "debug" }
pass_env = ["GITHUB_TOKEN"]
cwd = "/srv"
trusted = true
disabled = true
remove = "delete_*"
only = ["create_issue"]
timeout = "90s"
result_kib = 512
concurrency = 2

[mcp.servers.web-1]
url = "https://mcp.example.com/mcp"
headers = { X-Team = "a" }
secret_headers = { Authorization = "web1" }
`

func TestParseEverything(t *testing.T) {
	got, err := Parse("f.toml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	user := func(line int) policy.Origin { return policy.Origin{Layer: policy.User, File: "f.toml", Line: line} }
	want := Settings{
		Workspace: Workspace{
			DenyRead:  []workspace.Rule{{Glob: "*.pem", Name: "*.pem", Where: "f.toml:3"}, {Glob: "secrets/**", Name: "secrets/**", Where: "f.toml:3"}},
			Protect:   []workspace.Rule{{Glob: "infra/**", Name: "infra/**", Where: "f.toml:4"}},
			AllowRead: []workspace.Rule{{Glob: ".env.test", Name: ".env.test", Where: "f.toml:5"}},
			HardLinks: true, RequireRead: true,
		},
		Approvals: Approvals{Mode: policy.ModeAllowEdits, ModeAt: user(10), Headless: policy.HeadlessQueue, Elicitation: ElicitEdits, Timeout: 90 * time.Second},
		Terminal:  Terminal{AllowUnsandboxed: true, Profile: "read-only", Network: NetworkOff, WeakSandbox: true, PassEnv: []string{"GOPROXY", "_x1"}},
		MCP: MCP{ContextWindow: 128_000, Servers: []Server{
			{Name: "github", Command: "npx", Args: []string{"-y", "server-github"}, Env: map[string]string{"LOG": "debug"}, PassEnv: []string{"GITHUB_TOKEN"}, Cwd: "/srv",
				Trusted: true, Disabled: true, Tools: Tools{Remove: []string{"delete_*"}, Only: [][]string{{"create_issue"}}}, Timeout: 90 * time.Second, ResultKiB: 512, Concurrency: 2},
			{Name: "web-1", URL: "https://mcp.example.com/mcp", Headers: map[string]string{"X-Team": "a"}, SecretHeaders: map[string]string{"Authorization": "web1"},
				Timeout: time.Minute, ResultKiB: 4096, Concurrency: 4},
		}},
		ToolSearch: ToolSearch{Models: []string{"anthropic/*"}, ThresholdPct: 0.2, MinDeferCount: 3, Pins: []string{"github__create_issue"}, EmbedURL: "http://127.0.0.1:8080/v1", EmbedModel: "small", EmbedSecret: "embed"},
		Skills:     []string{"~/skills", "/srv/skills"},
		Budget:     Budget{TextKiB: 48, StructuredKiB: 16, Tools: map[string]int{"grep": 128, "github__*": 40}},
		Artifacts:  Artifacts{MaxMiB: 512, KeepDays: 30},
		Undo:       Undo{MaxMiB: 100, KeepDays: 7},
		Limits:     Limits{MemoryMiB: 32, TimeMS: 10_000, OutputKiB: 512, HostCalls: 500, Concurrency: 2},
		Tools:      Tools{Remove: []string{"delete_path"}, Only: [][]string{{"read_*", "grep"}}},
		Rules: []policy.Rule{
			{Name: "docs", Decision: policy.Allow, Tools: []string{"write_file", "replace_block"}, Sources: []tool.Source{tool.Builtin},
				Effects: tool.Reads | tool.Writes, Paths: []string{"docs/**"}, Expires: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), Reason: "docs are reviewed", Origin: user(36)},
			{Name: "rule 2", Decision: policy.Deny, Commands: [][]string{{"git", "push"}, {"rm", "-rf"}}, Exact: [][]string{{"ls", "-la"}},
				Profiles: []string{"none"}, Workspaces: []string{"/src/project"}, Origin: user(46)},
			{Name: "rule 3", Decision: policy.Allow, Hosts: []string{"api.example.com:443"},
				Modules: []tool.Digest{"sha256:" + tool.Digest(strings.Repeat("0", 64))}, Inputs: []tool.Digest{"sha256:" + tool.Digest(strings.Repeat("1", 64))},
				Paths: []string{"/etc/hosts", ".git/config"}, Protected: []string{"git"}, Expires: time.Date(2027, 1, 31, 10, 0, 0, 0, time.UTC), Origin: user(53)},
		},
		Examples: []Example{
			{Command: "git push", Cwd: "sub", Profile: "none", Should: policy.Deny, Origin: user(62)},
			{Tool: "write_file", Arguments: []byte(`{"content":"x","dry_run":true,"lines":[1,2.5],"path":"docs/a.md"}`), Should: policy.Allow, Origin: user(68)},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse =\n%+v\nwant\n%+v", got, want)
	}
}

// TestRulesRoundTrip: what a rule is written as is what is read again.
func TestRulesRoundTrip(t *testing.T) {
	s, err := Parse("f.toml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Rules {
		again, err := Parse("g.toml", []byte(r.TOML()))
		if err != nil {
			t.Errorf("%v\n%s", err, r.TOML())
			continue
		}
		got := again.Rules[0]
		got.Origin = r.Origin
		if !reflect.DeepEqual(got, r) {
			t.Errorf("read again:\n%+v\nwant\n%+v", got, r)
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "\n# nothing\n", "[workspace]\n[approvals]\n"} {
		if got, err := Parse("f", []byte(text)); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("Parse(%q) = %+v, %v; want the defaults", text, got, err)
		}
	}
}

// TestFaults: each fault is told with its place, and with what was meant.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a = ", "f:1:4: "},
		{"[approvals]\nmood = 'ask'\n", `f:2:1: "approvals.mood" is an unknown key; did you mean mode?`},
		{"[aprovals]\n", `f:1:2: "aprovals" is an unknown key; did you mean approvals?`},
		{"[zzzzzz]\n", `f:1:2: "zzzzzz" is an unknown key; there are workspace, approvals, terminal, mcp, tool_search, skills, budget, artifacts, undo, limits, tools, rules, examples`},
		{"[approvals]\nmode = 'allow-edit'\n", `f:2:8: approvals.mode cannot be "allow-edit"; did you mean allow-edits?`},
		{"[approvals]\nmode = 'x'\n", `f:2:8: approvals.mode cannot be "x"; it can be ask, allow-edits, plan, deny`},
		{"[approvals]\nMode = 'ask'\n", `f:2:1: "approvals.Mode" is an unknown key; did you mean mode?`},
		{"[approvals]\nmode = 3\n", "f:2:8: approvals.mode: a text must stand here, not 3"},
		{"[approvals]\nmode = ['ask']\n", "f:2:1: approvals.mode: a text must stand here, not a list"},
		{"[approvals]\ntimeout = '1 week'\n", `f:2:11: approvals.timeout: a span of time such as "5m" must stand here, not the text "1 week"`},
		{"[approvals]\ntimeout = '100h'\n", "f:2:11: approvals.timeout is 100h0m0s; it can be from 1s to 24h"},
		{"approvals = 3\n", "f:1:13: approvals: a table must stand here, not 3"},
		{"[[approvals]]\n", "f:1:3: approvals: a table must stand here, not an array of tables"},
		{"[workspace]\nhard_links = 'yes'\n", `f:2:14: workspace.hard_links: true or false must stand here, not the text "yes"`},
		{"[workspace]\ndeny_read = ['ok', 'a/../b']\n", `f:2:20: workspace.deny_read: "a/../b" has a .. that no canonical path has`},
		{"[workspace]\nprotect = ['/etc']\n", `f:2:12: workspace.protect: "/etc" begins with a slash`},
		{"[workspace]\nprotect = [3]\n", "f:2:12: workspace.protect: a text, or a list of texts must stand here, not 3"},
		{"[workspace]\nprotect = ['a[']\n", `f:2:12: workspace.protect: "a[" is no glob`},
		{"[workspace]\nprotect = ['" + strings.Repeat("a", 2000) + "']\n", "f:2:12: workspace.protect: a glob has 2000 bytes; at most 1024 are allowed"},
		{"[[rules]]\nverdict = 'deny'\npaths = ['" + strings.Repeat("{a,a}", 9) + "']\n", `f:3:10: rules.paths: the braces of "`},
		{"[limits]\nmemory_mib = 0\n", "f:2:14: limits.memory_mib is 0; it can be from 1 to 1024"},
		{"[limits]\nmemory_mib = 2.5\n", "f:2:14: limits.memory_mib: a whole number must stand here, not 2.5"},
		{"[mcp.servers.a__b]\ncommand = \"x\"\n", "f:1:14: mcp.servers.a__b: \"a__b\" is no name of a server"},
		{"[mcp.servers.a]\n", "f:1:14: mcp.servers.a has either a command or a url"},
		{"[mcp.servers.a]\ncommand = \"x\"\nurl = \"https://x.example/\"\n", "f:1:14: mcp.servers.a has either a command or a url"},
		{"[mcp.servers.a]\nurl = \"https://x.example/\"\nargs = \"x\"\n", "f:1:14: mcp.servers.a: args, env, pass_env and cwd belong to a command"},
		{"[mcp.servers.a]\ncommand = \"x\"\nheaders = { a = \"b\" }\n", "f:1:14: mcp.servers.a: headers and secret_headers belong to a url"},
		{"[mcp.servers.a]\nurl = \"http://x.example/\"\n", "f:2:7: mcp.servers.a.url: \"http://x.example/\" is no address of a server; write https://host/path, or http:// for this machine; keys belong into secret_headers"},
		{"[mcp.servers.a]\nurl = \"https://me:key@x.example/\"\n", "f:2:7: mcp.servers.a.url: \"https://me:key@x.example/\" is no address of a server; write https://host/path, or http:// for this machine; keys belong into secret_headers"},
		{"[mcp.servers]\na = 1\n", "f:2:5: mcp.servers.a: a table must stand here, not 1"},
		{"[mcp.servers.a]\ncommand = \"x\"\nenv = { A = 1 }\n", "f:3:13: mcp.servers.a.env.A: a text must stand here, not 1"},
		{"[mcp.servers.a]\ncommand = \"x\"\ncomand = \"y\"\n", "f:3:1: \"mcp.servers.a.comand\" is an unknown key"},
		{"[tool_search]\nembed_url = \"https://x.example/v1\"\n", "f:1:2: tool_search.embed_url and embed_model go together"},
		{"[tool_search]\nthreshold_pct = 15\n", "f:2:17: tool_search.threshold_pct is 15; it can be over 0 and up to 1"},
		{"[tool_search]\nthreshold_pct = nan\n", "f:2:17: tool_search.threshold_pct is NaN; it can be over 0 and up to 1"},
		{"[tool_search]\nthreshold_pct = \"x\"\n", "f:2:17: tool_search.threshold_pct: a number must stand here, not the text \"x\""},
		{"[budget]\ntools = { \"a b\" = 8 }\n", "f:2:11: budget.tools.a b: \"a b\" is no name of a tool"},
		{"[budget]\ntools = { grep = 1 }\n", "f:2:18: budget.tools.grep is 1; it can be from 32 to 4096"},
		{"[mcp]\ncontext_window = 99999999999\n", "f:2:18: mcp.context_window is 99999999999; it can be from 1000 to 100000000"},
		{"[[rules]]\n", "f:1:3: rules.verdict is missing"},
		{"rules = 1\n", "f:1:9: rules: an array of tables ([[rules]]) must stand here, not 1"},
		{"rules = [1]\n", "f:1:10: rules: tables must stand here, not 1"},
		{"[rules]\nverdict = 'ask'\n", "f:1:2: rules: an array of tables ([[rules]]) must stand here, not a table"},
		{"[[rules]]\nverdict = 'permit'\n", `f:2:11: rules.verdict cannot be "permit"; it can be allow, ask, deny`},
		{"[[rules]]\nverdict = 'allow'\n", "f:2:11: a rule that allows has to say what; name tools"},
		{"[[rules]]\nverdict = 'allow'\ntool = 'x'\n", `f:3:1: "rules.tool" is an unknown key; did you mean tools?`},
		{"[[rules]]\nverdict = 'allow'\ntools = ['bash']\n", `f:3:10: rules.tools: "bash" is only another name of a tool; write terminal_session`},
		{"[[rules]]\nverdict = 'allow'\ntools = ['a b']\n", `f:3:10: rules.tools: "a b" is no name of a tool`},
		{"[[rules]]\nverdict = 'allow'\ntools = ['terminal_session']\n", "f:2:11: commands of terminal_session are allowed only by their patterns; add commands"},
		{"[[rules]]\nverdict = 'deny'\ntools = []\n", "f:3:1: rules.tools is empty; leave the key out to fit anything"},
		{"[[rules]]\nverdict = 'deny'\nprotected = ['git']\n", "f:3:1: only a rule that allows can mean protected paths"},
		{"[[rules]]\nverdict = 'allow'\ntools = ['x']\nprotected = ['git']\n", "f:4:1: protected paths have to be named by paths too"},
		{"[[rules]]\nverdict = 'allow'\ncommands = ['ls']\npaths = ['**']\n", "f:1:3: a rule cannot be about commands and about paths or hosts"},
		{"[[rules]]\nverdict = 'deny'\ncommands = [\"rm\\u200b\"]\n", `f:3:13: rules.commands: "rm\u200b" holds a character that cannot be seen`},
		{"[[rules]]\nverdict = 'deny'\ncommands = [\"git\\u00a0push\"]\n", `f:3:13: rules.commands: "git\u00a0push" holds a character that cannot be seen`},
		{"[[rules]]\nverdict = 'deny'\ncommands = [[\"rm\\u202e\", \"-r\"]]\n", `f:3:14: rules.commands: "rm\u202e" holds a character that cannot be seen`},
		{"[[rules]]\nverdict = 'deny'\ncommands = ['ls | head']\n", `f:3:13: rules.commands: "ls | head" has characters that mean something to a shell; write the words of the pattern as a list`},
		{"[[rules]]\nverdict = 'deny'\ncommands = 'ls'\n", "f:3:12: rules.commands: a list of patterns such as"},
		{"[[rules]]\nverdict = 'deny'\ncommands = [[]]\n", "f:3:1: rules.commands: a pattern has 1 to 64 words"},
		{"[[rules]]\nverdict = 'deny'\ncommands = [['']]\n", "f:3:14: rules.commands: the name of a program is empty"},
		{"[[rules]]\nverdict = 'deny'\ncommands = [['ls', 3]]\n", "f:3:20: rules.commands: words, each a text must stand here, not 3"},
		{"[[rules]]\nverdict = 'deny'\nhosts = ['https://x/y']\n", `f:3:10: rules.hosts: "https://x/y" is no host`},
		{"[[rules]]\nverdict = 'deny'\nmodules = ['abc']\n", `f:3:12: rules.modules: "abc" is no digest`},
		{"[[rules]]\nverdict = 'deny'\neffects = ['reads']\n", `f:3:12: rules.effects cannot be "reads"; did you mean read?`},
		{"[[rules]]\nverdict = 'deny'\nexpires = 'soon'\n", `f:3:11: rules.expires: a date such as 2027-01-31`},
		{"[[rules]]\nverdict = 'deny'\nexpires = 2027-01-31T12:00:00\n", `f:3:11: rules.expires: a date such as 2027-01-31, or a time with an offset`},
		{"[[rules]]\nverdict = 'deny'\nreason = \"a\\u202eb\"\n", `f:3:10: rules.reason: "a\u202eb" holds a character that cannot be seen`},
		{"[[rules]]\nverdict = 'deny'\nworkspaces = ['~/x']\n", `f:3:15: rules.workspaces: "~/x" is no real path`},
		{"[[rules]]\nverdict = 'deny'\npaths = ['~/x']\n", `f:3:10: rules.paths: "~/x": ~ is a name here`},
		{"[[rules]]\nverdict = 'deny'\npaths = ['src/']\n", `f:3:10: rules.paths: "src/" has an empty part; a folder with everything below it is src/**`},
		{"[budget]\ntext_kib = 31\n", "f:2:12: budget.text_kib is 31; it can be from 32 to 4096"},
		{"[artifacts]\nkeep_days = 0\n", "f:2:13: artifacts.keep_days is 0; it can be from 1 to 36500"},
		{"[terminal]\npass_env = ['A=1']\n", `f:2:13: terminal.pass_env: "A=1" is no name of a variable`},
		{"[[examples]]\nshould = 'allow'\n", "f:1:3: an example has either a command or a tool"},
		{"[[examples]]\nshould = 'allow'\ntool = 'x'\ncommand = 'ls'\n", "f:1:3: an example has either a command or a tool"},
		{"[[examples]]\nshould = 'allow'\ntool = 'x'\narguments = {a = nan}\n", "f:4:13: examples.arguments holds what JSON cannot"},
		{"[approvals]\nmode = 'ask'\nmode = 'deny'\n", "f:3:1: key mode is already defined"},
		{"x = \"\x01\"\n", "f:1:"},
		{"\xff", "f:1:1: the file is not UTF-8"},
		{strings.Repeat("[", 100), "f:1:1: brackets are nested too deeply"},
		{"a" + strings.Repeat(".a", 300) + " = 1", "f:1:1: a line has more than 256 dots"},
		{strings.Repeat("\n", 60_000), "f:50001:1: the file has more than 50000 lines"},
		{strings.Repeat("#", MaxBytes+1), "f:1:1: the file has 1048577 bytes"},
	} {
		_, err := Parse("f", []byte(c.text))
		var faults Faults
		if !errors.As(err, &faults) || !strings.HasPrefix(faults.Error(), c.want) {
			t.Errorf("Parse(%.60q) =\n  %v\nwant\n  %s", c.text, err, c.want)
		}
	}
}

// TestEveryFaultIsTold: one run names them all, in the order of the lines.
func TestEveryFaultIsTold(t *testing.T) {
	text := "[approvals]\nmode = 'x'\n[nonsense]\n[[rules]]\nverdict = 'allow'\npahts = ['a']\n[limits]\ntime_ms = -1\n"
	_, err := Parse("f", []byte(text))
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Parse = %v, want faults", err)
	}
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	if want := []int{2, 3, 6, 8}; !reflect.DeepEqual(lines, want) {
		t.Errorf("faults stand in lines %v, want %v\n%v", lines, want, err)
	}
	_, err = Parse("f", []byte(strings.Repeat("[[rules]]\nx = 1\n", 1000)))
	if !errors.As(err, &faults) || len(faults) > maxFaults+1 || !strings.Contains(err.Error(), "more faults than are told") {
		t.Errorf("a file of faults gives %d of them", len(faults))
	}
}

// TestClosedList: everything that a user may set and a workspace may not is
// refused in a workspace's own file, by its line; what is on the list is taken.
func TestClosedList(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[approvals]\nmode = 'deny'\n", "f:1:2: a workspace's own file cannot hold approvals; it can only tighten"},
		{"[terminal]\n", "f:1:2: a workspace's own file cannot hold terminal"},
		{"[mcp]\n", "f:1:2: a workspace's own file cannot hold mcp"},
		{"[artifacts]\n", "f:1:2: a workspace's own file cannot hold artifacts"},
		{"[budget]\ntools = {grep = 40}\n", "f:2:1: a workspace's own file cannot hold budget.tools"},
		{"[[examples]]\n", "f:1:3: a workspace's own file cannot hold examples"},
		{"[workspace]\nallow_read = ['.env']\n", "f:2:1: a workspace's own file cannot hold workspace.allow_read"},
		{"[workspace]\nhard_links = true\n", "f:2:1: a workspace's own file cannot hold workspace.hard_links"},
		{"[workspace]\nrequire_read = true\n", "f:2:1: a workspace's own file cannot hold workspace.require_read"},
		{"[[rules]]\nverdict = 'ask'\n[[rules]]\nverdict = 'allow'\ntools = ['grep']\n", "f:4:11: a workspace's own file cannot hold a rule that allows"},
		{"[[rules]]\nverdict = 'deny'\nworkspaces = ['/x']\n", "f:3:1: a workspace's own file cannot hold rules.workspaces"},
		{"rules = [{verdict = 'allow', tools = ['grep']}]\n", "f:1:21: a workspace's own file cannot hold a rule that allows"},
	} {
		_, err := ParseWorkspace("f", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("ParseWorkspace(%q) = %v, want %s", c.text, err, c.want)
		}
		// The control: the same text is a user's to write.
		if _, err := Parse("f", []byte(c.text)); err != nil && !strings.Contains(c.text, "examples") {
			t.Errorf("Parse(%q) = %v, want none", c.text, err)
		}
	}
	r, err := ParseWorkspace("/w/wasmtools.toml", []byte("[workspace]\ndeny_read = ['a']\nprotect = ['b']\n[limits]\ntime_ms = 5\n[budget]\ntext_kib = 40\n[tools]\nremove = ['c']\nonly = ['d']\n[[rules]]\nverdict = 'ask'\n[[rules]]\nverdict = 'deny'\npaths = ['x']\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rules) != 2 || r.Limits != (Limits{TimeMS: 5}) || r.Budget.TextKiB != 40 || r.Budget.StructuredKiB != 0 || len(r.Tools.Only) != 1 || r.Rules[1].Origin != (policy.Origin{Layer: policy.Workspace, File: "/w/wasmtools.toml", Line: 13}) {
		t.Errorf("ParseWorkspace = %+v", r)
	}
	if w := r.DenyRead[0].Where; w != "the workspace's wasmtools.toml:2" {
		t.Errorf("a model is told of %q, want no path of the host", w)
	}
}

func TestSpelt(t *testing.T) {
	for glob, want := range map[string]int{
		"a": 1, "{a,b}": 2, "{a,b}{c,d,e}": 6, "{a,{b,c}}": 3, "{a,{b,c}{d,e}}x{f,}": 10, `\{a,b}`: 1, "{a}": 1, "a,b": 1,
		strings.Repeat("{a,b}", 8): 256, strings.Repeat("{a,b}", 9): 257, strings.Repeat("{a,b}", 200): 257, "{" + strings.Repeat(",", 300) + "}": 257,
	} {
		if got := spelt(glob); got != want {
			t.Errorf("spelt(%.40q) = %d, want %d", glob, got, want)
		}
	}
}

func TestToolsHas(t *testing.T) {
	s := Tools{Remove: []string{"delete_*"}, Only: [][]string{{"*_path", "grep"}, {"delete_path", "move_path", "grep"}}}
	for name, want := range map[string]bool{"grep": true, "move_path": true, "delete_path": false, "write_file": false} {
		if got := s.Has(name); got != want {
			t.Errorf("Has(%q) = %v, want %v", name, got, want)
		}
	}
	if !(Tools{}).Has("anything") {
		t.Error("no settings remove a tool")
	}
	if (Tools{Only: [][]string{{}}}).Has("anything") {
		t.Error("an empty list of tools leaves one")
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	user, root := filepath.Join(dir, "wasmtools.toml"), filepath.Join(dir, "w")
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	places := Places{User: user, Workspace: root, Saved: filepath.Join(dir, "rules")}
	put(filepath.Join(root, "x"), "")
	if s, err := Load(places); err != nil || !reflect.DeepEqual(s, Default()) {
		t.Errorf("Load of nothing = %+v, %v", s, err)
	}
	put(user, "[limits]\ntime_ms = 1000\nmemory_mib = 8\n[[rules]]\nverdict = 'allow'\npaths = ['a']\n")
	put(filepath.Join(root, FileName), "[limits]\ntime_ms = 2000\nmemory_mib = 4\n[[rules]]\nverdict = 'deny'\npaths = ['a']\n")
	s, err := Load(places)
	if err != nil || len(s.Rules) != 2 || s.Limits.TimeMS != 1000 || s.Limits.MemoryMiB != 4 {
		t.Errorf("Load = %+v, %v", s, err)
	}
	put(filepath.Join(root, FileName), "[[rules]]\nverdict = 'allow'\npaths = ['a']\n")
	if _, err := Load(places); err == nil || !strings.Contains(err.Error(), FileName+":2:11") {
		t.Errorf("a workspace that allows: %v, want its line", err)
	}
	if err := os.Remove(filepath.Join(root, FileName)); err != nil {
		t.Fatal(err)
	}
	put(filepath.Join(dir, "elsewhere"), "[[rules]]\nTOPSECRET\n")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(root, FileName)); err != nil {
		t.Skip("links cannot be made here: ", err)
	}
	if _, err := Load(places); err == nil || strings.Contains(err.Error(), "TOPSECRET") || !strings.Contains(err.Error(), "link") {
		t.Errorf("a workspace's file that is a link: %v", err)
	}
}

// TestOwnFolderAsWorkspace: a workspace around the user's own file does not read
// it as a stranger's.
func TestOwnFolderAsWorkspace(t *testing.T) {
	dir := t.TempDir()
	user := filepath.Join(dir, FileName)
	if err := os.WriteFile(user, []byte("[approvals]\nmode = 'plan'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(Places{User: user, Workspace: dir}); err != nil || s.Approvals.Mode != policy.ModePlan {
		t.Errorf("Load = %v, %v", s.Approvals, err)
	}
}

func ExampleFault() {
	_, err := Parse("wasmtools.toml", []byte("[approvals]\nmode = \"allow_edits\"\n"))
	fmt.Println(err)
	// Output: wasmtools.toml:2:8: approvals.mode cannot be "allow_edits"; did you mean allow-edits?
}
