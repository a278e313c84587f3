package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Parse reads a user's configuration, or a file of rules, which is the same.
// File is the name that faults and verdicts call it. The error is [Faults].
func Parse(file string, data []byte) (Settings, error) {
	r := &reader{file: file, kind: UserFile}
	t := r.read(data)
	s := r.settings(t)
	if err := r.err(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// ParseWorkspace reads a workspace's own file. Whatever is not on the closed
// list of [Restrictions] is a fault with its line.
func ParseWorkspace(file string, data []byte) (Restrictions, error) {
	r := &reader{file: file, kind: WorkspaceFile}
	t := r.read(data)
	s := r.settings(t)
	if err := r.err(); err != nil {
		return Restrictions{}, err
	}
	out := Restrictions{
		DenyRead: s.Workspace.DenyRead, Protect: s.Workspace.Protect,
		Tools: s.Tools, Rules: s.Rules,
	}
	out.Limits.read(t.in("limits")) // without the defaults, which s has
	number(t.in("budget"), "text_kib", &out.Budget.TextKiB)
	number(t.in("budget"), "structured_kib", &out.Budget.StructuredKiB)
	return out, nil
}

// settings reads what was checked, with the defaults for what is not there.
func (r *reader) settings(t *table) Settings {
	s := Default()
	w := t.in("workspace")
	s.Workspace.DenyRead = r.globs(w, "deny_read")
	s.Workspace.Protect = r.globs(w, "protect")
	s.Workspace.AllowRead = r.globs(w, "allow_read")
	read(w, "hard_links", &s.Workspace.HardLinks)
	read(w, "require_read", &s.Workspace.RequireRead)

	a := t.in("approvals")
	if n := a.nodes["mode"]; n != nil {
		word(a, "mode", &s.Approvals.Mode)
		s.Approvals.ModeAt = r.origin(a.keyAt["mode"])
	}
	word(a, "headless", &s.Approvals.Headless)
	word(a, "elicitation", &s.Approvals.Elicitation)
	var span string
	if read(a, "timeout", &span); span != "" {
		s.Approvals.Timeout, _ = time.ParseDuration(span)
	}

	read(t.in("terminal"), "allow_unsandboxed", &s.Terminal.AllowUnsandboxed)
	word(t.in("terminal"), "profile", &s.Terminal.Profile)
	word(t.in("terminal"), "network", &s.Terminal.Network)
	read(t.in("terminal"), "weak_sandbox", &s.Terminal.WeakSandbox)
	s.Terminal.PassEnv = words[string](t.in("terminal"), "pass_env")
	number(t.in("mcp"), "context_window", &s.MCP.ContextWindow)
	servers := t.in("mcp").in("servers")
	for _, name := range servers.keys {
		if servers.nodes[name].table == nil {
			continue // which was a fault already
		}
		s.MCP.Servers = append(s.MCP.Servers, r.server(name, servers.in(name), servers.keyAt[name]))
	}
	search := t.in("tool_search")
	read(search, "enabled", &s.ToolSearch.Enabled)
	s.ToolSearch.Models = words[string](search, "models")
	if n := search.nodes["threshold_pct"]; n != nil {
		s.ToolSearch.ThresholdPct, _ = share(n.value)
	}
	number(search, "min_defer_count", &s.ToolSearch.MinDeferCount)
	s.ToolSearch.Pins = words[string](search, "pins")
	word(search, "embed_url", &s.ToolSearch.EmbedURL)
	word(search, "embed_model", &s.ToolSearch.EmbedModel)
	word(search, "embed_secret", &s.ToolSearch.EmbedSecret)
	if (s.ToolSearch.EmbedURL == "") != (s.ToolSearch.EmbedModel == "") || s.ToolSearch.EmbedSecret != "" && s.ToolSearch.EmbedURL == "" {
		r.fault(or(search.at, position{1, 1}), "", "tool_search.embed_url and embed_model go together")
	}
	s.Skills = words[string](t.in("skills"), "folders")
	number(t.in("artifacts"), "max_mib", &s.Artifacts.MaxMiB)
	number(t.in("artifacts"), "keep_days", &s.Artifacts.KeepDays)
	undo := t.in("undo")
	read(undo, "enabled", &s.Undo.Enabled)
	number(undo, "max_mib", &s.Undo.MaxMiB)
	number(undo, "keep_days", &s.Undo.KeepDays)
	budget := t.in("budget")
	number(budget, "text_kib", &s.Budget.TextKiB)
	number(budget, "structured_kib", &s.Budget.StructuredKiB)
	for _, name := range budget.in("tools").keys {
		if s.Budget.Tools == nil {
			s.Budget.Tools = map[string]int{}
		}
		n := 0
		number(budget.in("tools"), name, &n)
		s.Budget.Tools[name] = n
	}
	s.Limits.read(t.in("limits"))

	s.Tools.Remove = words[string](t.in("tools"), "remove")
	if t.in("tools").nodes["only"] != nil {
		s.Tools.Only = [][]string{words[string](t.in("tools"), "only")}
	}

	rules := t.each("rules")
	if len(rules) > maxRules {
		r.fault(rules[maxRules].at, "", "there are %d rules; at most %d are allowed", len(rules), maxRules)
		rules = rules[:maxRules]
	}
	for i, rule := range rules {
		s.Rules = append(s.Rules, r.rule(rule, i))
	}
	for _, e := range t.each("examples") {
		s.Examples = append(s.Examples, r.example(e))
	}
	return s
}

// server reads one upstream server. It is reached in one of two ways.
func (r *reader) server(name string, t *table, at position) Server {
	s := Server{Name: name, Timeout: time.Minute, ResultKiB: 4096, Concurrency: 4}
	word(t, "command", &s.Command)
	s.Args = words[string](t, "args")
	s.Env = texted(t.in("env"))
	s.PassEnv = words[string](t, "pass_env")
	word(t, "cwd", &s.Cwd)
	word(t, "url", &s.URL)
	s.Headers, s.SecretHeaders = texted(t.in("headers")), texted(t.in("secret_headers"))
	read(t, "trusted", &s.Trusted)
	read(t, "disabled", &s.Disabled)
	s.Tools.Remove = words[string](t, "remove")
	if t.nodes["only"] != nil {
		s.Tools.Only = [][]string{words[string](t, "only")}
	}
	var span string
	if read(t, "timeout", &span); span != "" {
		s.Timeout, _ = time.ParseDuration(span)
	}
	number(t, "result_kib", &s.ResultKiB)
	number(t, "concurrency", &s.Concurrency)
	where := "mcp.servers." + clip(name)
	switch process := len(s.Args)+len(s.Env)+len(s.PassEnv) > 0 || s.Cwd != ""; {
	case (s.Command == "") == (s.URL == ""):
		r.fault(at, "", "%s has either a command or a url", where)
	case s.URL != "" && process:
		r.fault(at, "", "%s: args, env, pass_env and cwd belong to a command", where)
	case s.Command != "" && len(s.Headers)+len(s.SecretHeaders) > 0:
		r.fault(at, "", "%s: headers and secret_headers belong to a url", where)
	}
	return s
}

// texted reads a table of texts; nil if it is empty.
func texted(t *table) map[string]string {
	if len(t.keys) == 0 {
		return nil
	}
	m := make(map[string]string, len(t.keys))
	for _, k := range t.keys {
		m[k], _ = t.nodes[k].value.(string)
	}
	return m
}

func (l *Limits) read(t *table) {
	number(t, "memory_mib", &l.MemoryMiB)
	number(t, "time_ms", &l.TimeMS)
	number(t, "output_kib", &l.OutputKiB)
	number(t, "host_calls", &l.HostCalls)
	number(t, "concurrency", &l.Concurrency)
}

// globs reads globs of the workspace's lists. Where says in messages to models
// which file it was, so it is no path of the host.
func (r *reader) globs(t *table, key string) []workspace.Rule {
	var out []workspace.Rule
	for _, n := range t.listed(key) {
		glob, _ := n.value.(string)
		at := or(n.at, t.keyAt[key])
		name := filepath.Base(r.file)
		if r.kind == WorkspaceFile {
			name = "the workspace's " + name
		}
		out = append(out, workspace.Rule{Glob: glob, Name: glob, Where: fmt.Sprintf("%s:%d", name, at.line)})
	}
	return out
}

func (r *reader) rule(t *table, i int) policy.Rule {
	rule := policy.Rule{
		Name:    fmt.Sprintf("rule %d", i+1),
		Tools:   words[string](t, "tools"),
		Sources: words[tool.Source](t, "sources"),
		Modules: words[tool.Digest](t, "modules"),
		Inputs:  words[tool.Digest](t, "inputs"),

		Paths:     words[string](t, "paths"),
		Protected: words[string](t, "protected"),
		Hosts:     words[string](t, "hosts"),
		Commands:  commands(t, "commands"),
		Exact:     commands(t, "exact"),
		Profiles:  words[string](t, "profiles"),

		Workspaces: words[string](t, "workspaces"),
		Origin:     r.origin(t.at),
	}
	word(t, "name", &rule.Name)
	word(t, "verdict", &rule.Decision)
	word(t, "reason", &rule.Reason)
	if names := words[string](t, "effects"); names != nil {
		p, _ := json.Marshal(names)
		_ = json.Unmarshal(p, &rule.Effects) // what is no effect was a fault already
	}
	if n := t.nodes["expires"]; n != nil {
		rule.Expires, _ = moment(n.value)
	}
	r.meaning(t, &rule)
	return rule
}

// criteria are the keys of a rule that say what it is about.
var criteria = []string{"tools", "sources", "modules", "inputs", "effects", "paths", "protected", "hosts", "commands", "exact", "profiles", "workspaces"}

// meaning finds rules that are well formed and cannot be meant.
func (r *reader) meaning(t *table, rule *policy.Rule) {
	for _, key := range criteria {
		if n := t.nodes[key]; n != nil && len(t.listed(key)) == 0 && n.array != nil {
			r.fault(or(n.at, t.keyAt[key]), "leave the key out to fit anything", "rules.%s is empty", key)
		}
	}
	commands := len(rule.Commands)+len(rule.Exact) > 0
	if commands && len(rule.Paths)+len(rule.Hosts) > 0 && rule.Inputs == nil {
		r.fault(t.at, "write one rule for commands and one for paths or hosts", "a rule cannot be about commands and about paths or hosts")
	}
	if rule.Decision != policy.Allow {
		if rule.Protected != nil {
			r.fault(t.keyAt["protected"], "leave it out, or give paths", "only a rule that allows can mean protected paths")
		}
		return
	}
	at := t.at
	if n := t.nodes["verdict"]; n != nil {
		at = or(n.at, at)
	}
	switch {
	case r.kind == WorkspaceFile:
		r.fault(at, r.closed(), "a workspace's own file cannot hold a rule that allows")
	case r.faulty(t): // what is missing may be what was mistyped
	case !commands && len(rule.Tools)+len(rule.Modules)+len(rule.Inputs)+len(rule.Paths)+len(rule.Hosts) == 0:
		r.fault(at, "name tools, paths, hosts, commands, modules or inputs", "a rule that allows has to say what")
	case !commands && len(rule.Tools) == 1 && rule.Tools[0] == commandTool && len(rule.Paths) == 0:
		r.fault(at, `add commands = ["git status", ...]`, "commands of %s are allowed only by their patterns", commandTool)
	case rule.Protected != nil && rule.Paths == nil && rule.Inputs == nil:
		r.fault(t.keyAt["protected"], "add paths", "protected paths have to be named by paths too")
	}
}

// faulty reports whether a fault stands in the table: from its header to its
// last key.
func (r *reader) faulty(t *table) bool {
	last := t.at.line
	for _, at := range t.keyAt {
		last = max(last, at.line)
	}
	return slices.ContainsFunc(r.faults, func(f Fault) bool { return t.at.line <= f.Line && f.Line <= last })
}

// commandTool is the tool that runs shell texts.
const commandTool = "terminal_session"

func (r *reader) example(t *table) Example {
	e := Example{Origin: r.origin(t.at)}
	word(t, "command", &e.Command)
	word(t, "tool", &e.Tool)
	word(t, "cwd", &e.Cwd)
	word(t, "profile", &e.Profile)
	word(t, "should", &e.Should)
	if n := t.nodes["arguments"]; n != nil && n.table != nil {
		if e.Arguments = n.table.object(); e.Arguments == nil {
			r.fault(or(n.at, t.keyAt["arguments"]), "", "examples.arguments holds what JSON cannot")
		}
	}
	hasCommand, hasTool := t.nodes["command"] != nil, t.nodes["tool"] != nil
	switch {
	case hasCommand == hasTool:
		r.fault(t.at, "", "an example has either a command or a tool")
	case hasTool && (e.Cwd != "" || e.Profile != ""):
		r.fault(t.at, "put them into its arguments", "cwd and profile belong to a command")
	case hasCommand && e.Arguments != nil:
		r.fault(t.keyAt["arguments"], "", "arguments belong to a tool")
	}
	return e
}
