package wasmtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// upstream is a source of tools as an upstream server would give them.
type upstream struct {
	name    string
	tools   []string
	changed chan struct{}
}

func (u *upstream) Name() string             { return u.name }
func (u *upstream) Changed() <-chan struct{} { return u.changed }
func (u *upstream) Snapshot() catalog.SourceState {
	s := catalog.SourceState{Version: uint64(len(u.tools))}
	for _, n := range u.tools {
		s.Tools = append(s.Tools, catalog.Entry{Tool: upstreamTool{u.name + "__" + n, u.name}, Available: true, Server: u.name})
	}
	return s
}

type upstreamTool struct{ name, server string }

func (u upstreamTool) Definition() tool.Definition {
	return tool.Definition{Name: u.name, Description: "does " + u.name + strings.Repeat(" and more", 40), Effects: tool.UsesNetwork,
		Input: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`)}
}
func (u upstreamTool) Origin() tool.Origin { return tool.Origin{Source: tool.MCP, Name: u.server} }
func (u upstreamTool) Call(_ context.Context, i tool.Invocation, _ tool.Sink) (tool.Result, error) {
	return tool.TextResult(u.name + " " + string(i.Arguments)), nil
}

func openUpstreams(t *testing.T, rules policy.Policy, sink *ledger, sources ...catalog.Source) *wasmtools.Runtime {
	t.Helper()
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: t.TempDir(), Evidence: sink, Policy: func() policy.Policy { return rules }}},
		Sources:    sources, StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// TestInvokeIsTheRealTool: what is judged, checked and recorded of a call through
// mcp_invoke is the tool that is meant.
func TestInvokeIsTheRealTool(t *testing.T) {
	sink := &ledger{}
	rules := policy.Policy{Rules: []policy.Rule{
		{Name: "fine", Decision: policy.Allow, Tools: []string{"gh__read"}},
		{Name: "never", Decision: policy.Deny, Tools: []string{"gh__delete"}},
	}}
	rt := openUpstreams(t, rules, sink, &upstream{name: "gh", tools: []string{"read", "delete"}})
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{ContextWindow: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, d := range turn.Tools() {
		shown = append(shown, d.Name)
	}
	if !slices.Contains(shown, "tool_search") || slices.Contains(shown, "gh__read") || turn.Hint() == "" {
		t.Fatalf("shown: %v, hint %q", shown, turn.Hint())
	}
	for i, c := range []struct {
		tool, args string
		code       tool.Code
		as, text   string
	}{
		{"mcp_invoke", `{"tool_name":"gh__read","arguments":{"n":1}}`, "", "gh__read", `gh__read {"n":1}`},
		{"mcp_invoke", `{"tool_name":"gh__read","arguments":{"n":"x"}}`, tool.SchemaInvalid, "gh__read", "n"},
		{"mcp_invoke", `{"tool_name":"gh__read"}`, tool.SchemaInvalid, "gh__read", "n"},
		{"mcp_invoke", `{"tool_name":"gh__delete","arguments":{"n":1}}`, tool.Denied, "gh__delete", "never"},
		{"mcp_invoke", `{"tool_name":"read_discover","arguments":{"mode":"list"}}`, "", "read_discover", ""},
		{"mcp_invoke", `{"tool_name":"gh__rea"}`, tool.NotRegistered, "mcp_invoke", "gh__read"},
		{"mcp_invoke", `{"tool_name":"mcp_invoke","arguments":{"tool_name":"gh__read"}}`, tool.NotRegistered, "mcp_invoke", "tool_search"},
		{"gh__read", `{"n":1}`, tool.NotExposed, "gh__read", "tool_search"},
		{"tool_search", `{"query":"delete"}`, "", "tool_search", "gh__delete"},
	} {
		id := fmt.Sprint("c", i)
		out := turn.Call(t.Context(), []wasmtools.Request{{CallID: id, Tool: c.tool, Arguments: json.RawMessage(c.args)}})[0]
		if out.Result.Code != c.code || !strings.Contains(out.Result.PlainText(), c.text) {
			t.Errorf("%s %s: %s %s, want %s with %q", c.tool, c.args, out.Result.Code, out.Result.PlainText(), c.code, c.text)
		}
		e := sink.check(t)[id]
		if e == nil || e.intent.Tool != c.as || (e.intent.As == "mcp_invoke") != (c.tool == "mcp_invoke" && c.as != "mcp_invoke") {
			t.Errorf("%s %s is recorded as %+v", c.tool, c.args, e)
		}
	}
	// Where nothing is deferred there is nothing to search, and names are plain.
	turn, err = rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if r := turn.Call(t.Context(), []wasmtools.Request{{Tool: "mcp_invoke", Arguments: json.RawMessage(`{"tool_name":"gh__read","arguments":{"n":1}}`)}})[0].Result; r.Code != tool.NotRegistered {
		t.Errorf("mcp_invoke without deferral: %s", r.Code)
	}
}

// TestChanged: a source that tells of a change is heard, and the next turn has it.
func TestChanged(t *testing.T) {
	u := &upstream{name: "gh", tools: []string{"read"}, changed: make(chan struct{})}
	rt := openUpstreams(t, policy.Policy{}, &ledger{}, u)
	before, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	u.tools = append(u.tools, "write")
	u.changed <- struct{}{}
	<-rt.Changed()
	after, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := len(before.Tools()), len(after.Tools()); b != a+1 {
		t.Errorf("%d tools before, %d after", a, b)
	}
	if _, err := rt.Begin(t.Context(), wasmtools.Facts{ContextWindow: -1}); err == nil {
		t.Error("facts that are none are accepted")
	}
	if _, err := rt.Begin(t.Context(), wasmtools.Facts{Workspace: "none"}); err == nil {
		t.Error("a workspace that is none is accepted")
	}
}

// TestAliasNeedsItsTarget: another name works exactly when its tool is shown, and
// selectors see both names.
func TestAliasNeedsItsTarget(t *testing.T) {
	rt := openUpstreams(t, policy.Policy{}, &ledger{})
	call := func(f wasmtools.Facts) tool.Result {
		t.Helper()
		turn, err := rt.Begin(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return turn.Call(t.Context(), []wasmtools.Request{{Tool: "ls", Arguments: json.RawMessage(`{}`)}})[0].Result
	}
	only := func(names ...string) wasmtools.Facts {
		return wasmtools.Facts{Agent: &catalog.Agent{Selector: catalog.Selector{Tools: &names}}}
	}
	if r := call(wasmtools.Facts{}); r.IsError {
		t.Error(r.PlainText())
	}
	if r := call(only("LS")); r.IsError {
		t.Error(r.PlainText())
	}
	if r := call(only("grep")); r.Code != tool.NotExposed {
		t.Errorf("ls without read_discover: %s", r.Code)
	}
	if r := call(wasmtools.Facts{AllToolsDisabled: true}); r.Code != tool.NotExposed {
		t.Errorf("ls without any tool: %s", r.Code)
	}
}

// BenchmarkBegin is a whole Begin with many tools.
func BenchmarkBegin(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			u := &upstream{name: "s"}
			for i := range n {
				u.tools = append(u.tools, fmt.Sprintf("tool_%d", i))
			}
			rt, err := wasmtools.Open(b.Context(), wasmtools.Options{Workspaces: []wasmtools.Workspace{{Dir: b.TempDir()}}, Sources: []catalog.Source{u}})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close()
			for b.Loop() {
				if _, err := rt.Begin(b.Context(), wasmtools.Facts{Request: "find the tool that does tool_17 and more"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
