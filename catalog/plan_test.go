package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// sample is a tool for these tests.
type sample struct {
	name    string
	from    tool.Source
	server  string
	effects tool.Effects
	trusted bool
	text    string
	aliases []string
	packs   []string
	down    string
	hidden  bool
}

func (s sample) Definition() tool.Definition {
	d := tool.Definition{Name: s.name, Description: s.text, Effects: s.effects, Packs: s.packs, Input: json.RawMessage(`{"type":"object"}`)}
	if s.hidden {
		d.Visibility = tool.Hidden
	}
	return d
}
func (s sample) Origin() tool.Origin {
	return tool.Origin{Source: s.from, Name: s.server, Trusted: s.trusted}
}
func (s sample) Call(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return tool.TextResult(s.name), nil
}

func (s sample) entry() catalog.Entry {
	return catalog.Entry{Tool: s, Available: s.down == "", Reason: s.down, Server: s.server, Aliases: s.aliases}
}

func snapshot(t testing.TB, r catalog.Ranker, tools ...sample) *catalog.Snapshot {
	t.Helper()
	var entries []catalog.Entry
	for _, s := range tools {
		entries = append(entries, s.entry())
	}
	snap, err := catalog.NewRegistry(r, catalog.Fixed("samples", entries...)).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func plan(t testing.TB, s *catalog.Snapshot, f catalog.Facts, o catalog.Options) catalog.List {
	t.Helper()
	l, err := catalog.Plan(s, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func names(l catalog.List) []string {
	var out []string
	for _, d := range l.Exposed() {
		out = append(out, d.Name)
	}
	return out
}

func many(n int, like sample) []sample {
	var out []sample
	for i := range n {
		s := like
		s.name = fmt.Sprintf("%s_%03d", like.name, i)
		out = append(out, s)
	}
	return out
}

func facts(t *testing.T, text string) catalog.Facts {
	t.Helper()
	f, err := catalog.ParseFacts([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStages holds each row of the pipeline: which stage drops a tool, or that it
// stays.
func TestStages(t *testing.T) {
	main := `"agent":{"profile":{"role":"main","surface":"cli","trusted":true}}`
	as := func(role string) string {
		return `{"agent":{"profile":{"role":"` + role + `","surface":"interactive","trusted":true}}}`
	}
	edit := sample{name: "write_file", from: tool.Builtin, effects: tool.Writes}
	read := sample{name: "read_open", from: tool.Builtin, effects: tool.Reads}
	shell := sample{name: "terminal_session", from: tool.Native, effects: tool.Executes}
	task := sample{name: "task", from: tool.Host}
	query := sample{name: "task_query", from: tool.Host}
	todo := sample{name: "todowrite", from: tool.Native}
	web := sample{name: "web__web_search", from: tool.MCP, server: "web"}
	for i, c := range []struct {
		tool  sample
		facts string
		stage catalog.Stage // "": it stays
		state catalog.State
		why   string // in the reason
	}{
		{read, `{"all_tools_disabled":true}`, catalog.StageDisabled, catalog.Available, "disabled"},
		{sample{name: "x", hidden: true}, `{}`, catalog.StagePublic, catalog.Registered, "internal"},
		{sample{name: "x", down: "not signed in"}, `{}`, catalog.StageAvailable, catalog.Public, "not signed in"},

		{sample{name: "images_understand"}, `{"sees_images":true}`, catalog.StageModel, catalog.Available, "sees images"},
		{sample{name: "images_understand"}, `{"sees_video":true}`, "", "", ""},
		{sample{name: "videos_understand"}, `{"sees_video":true}`, catalog.StageModel, catalog.Available, "sees video"},
		{read, `{"withheld":[" Read_Open "]}`, catalog.StageModel, catalog.Available, "host"},

		{sample{name: "desktop_click"}, `{}`, catalog.StageComputerUse, catalog.Available, "computer use"},
		{sample{name: "desktop_click"}, `{"computer_use":true}`, "", "", ""},

		{read, `{"agent":{"selector":{}}}`, "", "", ""},
		{read, `{"agent":{"selector":{"tools":[]}}}`, catalog.StageSelector, catalog.Available, "does not list"},
		{read, `{"agent":{"selector":{"tools":["", " "]}}}`, catalog.StageSelector, catalog.Available, "does not list"},
		{read, `{"agent":{"selector":{"tools":["ｒｅａｄ＿ｏｐｅｎ"]}}}`, "", "", ""},
		{read, `{"agent":{"selector":{"tools":[" READ_OPEN\t"]}}}`, "", "", ""},
		{read, `{"agent":{"selector":{"tools":["read_open"],"disallowed":["Read_Open"]}}}`, catalog.StageSelector, catalog.Available, "disallows"},
		{sample{name: "read_open", aliases: []string{"read"}}, `{"agent":{"selector":{"tools":["read"]}}}`, "", "", ""},
		{sample{name: "read_open", aliases: []string{"read"}}, `{"agent":{"selector":{"disallowed":["READ"]}}}`, catalog.StageSelector, catalog.Available, "by the name read"},

		{web, `{"agent":{"mcp_servers":["web"]}}`, "", "", ""},
		{web, `{"agent":{"mcp_servers":["other"]}}`, catalog.StageServers, catalog.Available, "web"},
		{web, `{"agent":{"mcp_servers":[]}}`, catalog.StageServers, catalog.Available, "not bound"},
		{sample{name: "x", from: tool.MCP}, `{"agent":{"mcp_servers":["web"]}}`, catalog.StageServers, catalog.Available, "does not say"},
		{read, `{"agent":{"mcp_servers":[]}}`, "", "", ""},

		{task, `{}`, catalog.StageDelegation, catalog.Available, "main agent"},
		{task, `{` + main + `}`, "", "", ""},
		{task, `{"agent":{"profile":{"role":"main","surface":"cli"}}}`, catalog.StageDelegation, catalog.Available, "main agent"},
		{task, `{"agent":{"profile":{"role":"main","surface":"batch","trusted":true}}}`, catalog.StageDelegation, catalog.Available, "main agent"},
		{task, `{"agent":{"profile":{"role":"unheard-of","surface":"cli","trusted":true}}}`, catalog.StageDelegation, catalog.Available, "main agent"},
		{query, `{}`, catalog.StageDelegation, catalog.Available, "main agent"},
		{sample{name: "task_query", from: tool.Builtin}, `{}`, "", "", ""},
		{read, `{"agent":{"profile":{"role":"unheard-of","surface":"?"}}}`, "", "", ""},

		{todo, `{"agent":{"profile":{"role":"main","task_child":true}}}`, catalog.StageTaskChild, catalog.Available, "task"},
		{sample{name: "ask_user", from: tool.Host}, `{"agent":{"profile":{"task_child":true}}}`, catalog.StageTaskChild, catalog.Available, "task"},
		{todo, `{"agent":{"profile":{"role":"worker","trusted":true}}}`, "", "", ""},

		{task, `{` + main + `,"features":{"delegation":false}}`, catalog.StageFeatures, catalog.Available, "delegation"},
		{task, `{` + main + `,"features":{"delegation":true}}`, "", "", ""},
		{sample{name: "web_search", from: tool.Host}, `{"features":{"web_search":false}}`, catalog.StageFeatures, catalog.Available, "web_search"},
		{web, `{"features":{"Web_Search":false}}`, catalog.StageFeatures, catalog.Available, "web_search"},
		{sample{name: "paint", from: tool.Host}, `{"features":{"paint":false}}`, catalog.StageFeatures, catalog.Available, "paint"},

		{edit, as("worker"), "", "", ""},
		{edit, as("verifier"), catalog.StageRole, catalog.Available, "changes nothing"},
		{edit, as("explore"), catalog.StageRole, catalog.Available, "changes nothing"},
		{edit, as(" Verifier"), catalog.StageRole, catalog.Available, "changes nothing"},
		{edit, `{"agent":{"profile":{"role":"verifier"}}}`, "", "", ""}, // not the host's own
		{edit, as("unheard-of"), "", "", ""},
		{read, as("verifier"), "", "", ""},
		{shell, as("verifier"), catalog.StageRole, catalog.Available, "changes nothing"},
		{shell, `{"terminal_profile":"read-only","agent":{"profile":{"role":"verifier","trusted":true}}}`, "", "", ""},
		{sample{name: "terminal_session", from: tool.Host, effects: tool.Executes}, `{"terminal_profile":"read-only","agent":{"profile":{"role":"verifier","trusted":true}}}`, catalog.StageRole, catalog.Available, "changes nothing"},
		{shell, `{"terminal_profile":"none","agent":{"profile":{"role":"verifier","trusted":true}}}`, catalog.StageRole, catalog.Available, "changes nothing"},
		{todo, as("verifier"), catalog.StageRole, catalog.Available, "verifier"},
		{sample{name: "memory", from: tool.Host}, as("explore"), catalog.StageRole, catalog.Available, "explore"},
		{sample{name: "request_feature_enable", from: tool.Host}, as("explore"), catalog.StageRole, catalog.Available, "explore"},
		{sample{name: "task_query", from: tool.Builtin}, as("explore"), catalog.StageRole, catalog.Available, "explore"},
		{web, as("verifier"), catalog.StageRole, catalog.Available, "web_search"},
		{web, `{"trusted_mcp":["web"],"agent":{"profile":{"role":"verifier","trusted":true}}}`, "", "", ""},
		{sample{name: "web__fetch", from: tool.MCP, server: "web", trusted: true}, as("verifier"), catalog.StageRole, catalog.Available, "web_search"},
	} {
		l := plan(t, snapshot(t, nil, c.tool), facts(t, c.facts), catalog.Options{})
		it, ok := l.Lookup(c.tool.name)
		want := c.state
		if c.stage == "" {
			want = catalog.Exposed
		}
		if !ok || it.Stage != c.stage || it.State != want || !strings.Contains(it.Reason, c.why) || (it.Code == "") != (c.stage == "") {
			t.Errorf("%d: %s with %s: %q in stage %q, %s: %q; want stage %q, %q", i, c.tool.name, c.facts, it.State, it.Stage, it.Code, it.Reason, c.stage, c.why)
		}
		if shown := slices.Contains(names(l), c.tool.name); shown != (c.stage == "") {
			t.Errorf("%d: %s is shown: %v", i, c.tool.name, shown)
		}
	}
}

// ranker is what a test wants it to be.
type ranker func(q catalog.Query, among []int, n int) ([]catalog.Hit, error)

func (r ranker) Index([]catalog.Document) (catalog.Index, error) { return r, nil }
func (r ranker) Rank(q catalog.Query, among []int, n int) ([]catalog.Hit, error) {
	return r(q, among, n)
}

// backwards ranks the last tools first.
func backwards(_ catalog.Query, among []int, n int) ([]catalog.Hit, error) {
	var hits []catalog.Hit
	for i := len(among) - 1; i >= 0 && len(hits) < n; i-- {
		hits = append(hits, catalog.Hit{Document: among[i], Score: float64(i)})
	}
	return hits, nil
}

func TestExposure(t *testing.T) {
	asked := 0
	counting := ranker(func(q catalog.Query, among []int, n int) ([]catalog.Hit, error) {
		asked++
		return backwards(q, among, n)
	})
	host := sample{name: "h", from: tool.Host}
	if l := plan(t, snapshot(t, counting, many(20, host)...), catalog.Facts{}, catalog.Options{}); len(l.Exposed()) != 20 || asked > 0 {
		t.Errorf("20 tools: %d are shown, the ranker was asked %d times", len(l.Exposed()), asked)
	}
	l := plan(t, snapshot(t, counting, many(21, host)...), catalog.Facts{}, catalog.Options{})
	if got := names(l); len(got) != 20 || slices.Contains(got, "h_000") || !slices.IsSorted(got) {
		t.Errorf("21 tools: %v", got)
	}
	if it, _ := l.Lookup("h_000"); it.State != catalog.Available || it.Stage != catalog.StageExposure || it.Code != tool.NotExposed || it.Rank != 21 {
		t.Errorf("the last one: %+v", it)
	}
	if it, _ := l.Lookup("h_020"); it.Rank != 1 {
		t.Errorf("the first one has rank %d", it.Rank)
	}

	// What the runtime brings is never ranked out, nor what is pinned.
	core := append(many(7, sample{name: "core", from: tool.Builtin}), many(40, host)...)
	got := names(plan(t, snapshot(t, counting, core...), catalog.Facts{}, catalog.Options{Pins: []string{"H_003"}}))
	if len(got) != 20 || !slices.Contains(got, "core_000") || !slices.Contains(got, "core_006") || !slices.Contains(got, "h_003") || slices.Contains(got, "h_004") {
		t.Errorf("with pins: %v", got)
	}

	first := names(plan(t, snapshot(t, nil, many(30, host)...), catalog.Facts{}, catalog.Options{}))
	for name, bad := range map[string]ranker{
		"fails":   func(catalog.Query, []int, int) ([]catalog.Hit, error) { return nil, errors.New("no") },
		"panics":  func(catalog.Query, []int, int) ([]catalog.Hit, error) { panic("no") },
		"nothing": func(catalog.Query, []int, int) ([]catalog.Hit, error) { return nil, nil },
		"no numbers": func(_ catalog.Query, among []int, _ int) ([]catalog.Hit, error) {
			return []catalog.Hit{{Document: among[0], Score: math.NaN()}, {Document: among[1], Score: math.Inf(1)}}, nil
		},
		"nonsense": func(catalog.Query, []int, int) ([]catalog.Hit, error) {
			return []catalog.Hit{{Document: -1}, {Document: 1 << 30}}, nil
		},
	} {
		l := plan(t, snapshot(t, bad, many(30, host)...), catalog.Facts{}, catalog.Options{})
		if got := names(l); !slices.Equal(got, first) {
			t.Errorf("a ranker that %s: %v, want the order of the registry", name, got)
		}
		if told := len(l.Notes) > 0; told != (name == "fails" || name == "panics") {
			t.Errorf("a ranker that %s: notes %q", name, l.Notes)
		}
	}
	twice := ranker(func(_ catalog.Query, among []int, n int) ([]catalog.Hit, error) {
		return slices.Repeat([]catalog.Hit{{Document: among[25]}}, 30), nil
	})
	if got := names(plan(t, snapshot(t, twice, many(30, host)...), catalog.Facts{}, catalog.Options{})); len(got) != 20 || !slices.Contains(got, "h_025") || !slices.Contains(got, "h_018") {
		t.Errorf("a ranker that repeats itself: %v", got)
	}
	all := plan(t, snapshot(t, counting, many(300, sample{name: "m", from: tool.MCP, server: "s"})...), catalog.Facts{Exposure: catalog.ExposeAll, ContextWindow: 1000}, catalog.Options{})
	if len(all.Exposed()) != 300 {
		t.Errorf("a person sees %d", len(all.Exposed()))
	}
}

func TestDeferral(t *testing.T) {
	up := many(10, sample{name: "s__m", from: tool.MCP, server: "s", text: strings.Repeat("word ", 50)})
	one := catalog.Tokens(up[0].Definition())
	tools := append([]sample{{name: "read_open", from: tool.Builtin, text: "opens"}}, up...)
	at := func(window float64) catalog.Facts {
		return catalog.Facts{Provider: "p", Model: "m", ContextWindow: window}
	}
	exact := float64(10*one) / catalog.DefaultThreshold
	for i, c := range []struct {
		facts    catalog.Facts
		options  catalog.DeferralOptions
		deferred int
		why      string
	}{
		{at(exact), catalog.DeferralOptions{}, 0, "fit"}, // exactly at the threshold
		{at(exact - 10), catalog.DeferralOptions{}, 10, "would take"},
		{at(0), catalog.DeferralOptions{}, 0, "not known"},
		{at(100), catalog.DeferralOptions{Off: true}, 0, "off"},
		{at(100), catalog.DeferralOptions{Models: []string{}}, 0, "model"},
		{at(100), catalog.DeferralOptions{Models: []string{"P/M"}}, 10, ""},
		{at(100), catalog.DeferralOptions{Models: []string{"p*"}}, 10, ""},
		{at(100), catalog.DeferralOptions{Models: []string{"q/*", "p/?"}}, 10, ""},
		{at(100), catalog.DeferralOptions{Models: []string{"q/*", "[", "p"}}, 0, "model"},
		{at(100), catalog.DeferralOptions{Least: 10}, 10, ""},
		{at(100), catalog.DeferralOptions{Least: 11}, 0, "few"},
		{at(float64(10*one) * 2), catalog.DeferralOptions{Threshold: 0.6}, 0, "fit"},
		{at(float64(10*one) * 2), catalog.DeferralOptions{Threshold: 0.4}, 10, ""},
		{catalog.Facts{ContextWindow: 100, TrustedMCP: []string{"S"}}, catalog.DeferralOptions{}, 0, "few"},
	} {
		l := plan(t, snapshot(t, nil, tools...), c.facts, catalog.Options{Deferral: c.options})
		if l.Deferral.Deferred != c.deferred || !strings.Contains(l.Deferral.Why, c.why) {
			t.Errorf("%d: %+v, want %d, %q", i, l.Deferral, c.deferred, c.why)
		}
		want := 11
		if c.deferred > 0 {
			want = 3
		}
		if got := names(l); len(got) != want || slices.Contains(got, catalog.SearchName) != (c.deferred > 0) || (l.Hint() != "") != (c.deferred > 0) {
			t.Errorf("%d: %v, hint %q", i, got, l.Hint())
		}
		if c.deferred > 0 {
			own := 0
			for _, it := range l.Items[11:] {
				own += it.Tokens
			}
			if l.Deferral.Saved != 10*one-own {
				t.Errorf("%d: saved %d, want %d", i, l.Deferral.Saved, 10*one-own)
			}
		}
	}
	// The catalog's own tools obey those who take tools away.
	for _, f := range []catalog.Facts{{ContextWindow: 100, Withheld: []string{"Tool_Search"}}, {ContextWindow: 100, Agent: &catalog.Agent{Selector: catalog.Selector{Disallowed: []string{"tool_search"}}}}} {
		if got := names(plan(t, snapshot(t, nil, tools...), f, catalog.Options{})); !slices.Equal(got, []string{"read_open", "mcp_invoke"}) {
			t.Errorf("without tool_search: %v", got)
		}
	}
	// Neither what the runtime brings nor what the host does is ever left out.
	l := plan(t, snapshot(t, nil, append(many(5, sample{name: "h", from: tool.Host}), many(5, sample{name: "i", from: tool.Installed})...)...), at(10), catalog.Options{})
	if got := names(l); len(got) != 7 || !slices.Contains(got, "h_000") || slices.Contains(got, "i_000") {
		t.Errorf("%v", got)
	}
	// Over MCP the list is the same for all requests: pins, then search.
	stable := catalog.Facts{Exposure: catalog.ExposeStable, ContextWindow: 1e9}
	if got := names(plan(t, snapshot(t, nil, append(tools, many(9, sample{name: "h", from: tool.Host})...)...), stable, catalog.Options{})); len(got) != 20 || slices.Contains(got, catalog.SearchName) {
		t.Errorf("20 tools over MCP: %v", got)
	}
	if got := names(plan(t, snapshot(t, nil, append(tools, many(10, sample{name: "h", from: tool.Host})...)...), stable, catalog.Options{})); !slices.Equal(got, []string{"read_open", "tool_search", "mcp_invoke"}) {
		t.Errorf("21 tools over MCP: %v", got)
	}
}

func TestSearch(t *testing.T) {
	word := ranker(func(q catalog.Query, among []int, n int) ([]catalog.Hit, error) { return nil, errors.New("down") })
	l := plan(t, snapshot(t, word,
		sample{name: "read_open", from: tool.Builtin, text: "opens a file"},
		sample{name: "gh__create_issue", from: tool.MCP, server: "gh", text: "creates an issue", aliases: []string{"create_issue"}},
		sample{name: "gh__list_issues", from: tool.MCP, server: "gh", text: "lists issues"},
		sample{name: "gh__secret", from: tool.MCP, server: "gh", text: "creates secrets"},
		sample{name: "gh__down", from: tool.MCP, server: "gh", text: "creates nothing", down: "broken"},
	), catalog.Facts{ContextWindow: 10, Withheld: []string{"gh__secret"}}, catalog.Options{})
	found := func(r catalog.SearchRequest) string {
		t.Helper()
		f, err := l.Search(r)
		if err != nil {
			return string(tool.CodeOf(err))
		}
		var s []string
		for _, h := range f.Hits {
			s = append(s, h.Name)
		}
		return fmt.Sprint(f.Total, s)
	}
	for _, c := range []struct {
		r    catalog.SearchRequest
		want string
	}{
		{catalog.SearchRequest{}, "invalid_arguments"},
		{catalog.SearchRequest{Query: " "}, "invalid_arguments"},
		{catalog.SearchRequest{Regex: "("}, "invalid_arguments"},
		{catalog.SearchRequest{Regex: strings.Repeat("a", 513)}, "invalid_arguments"},
		{catalog.SearchRequest{Query: "creates"}, "1 [gh__create_issue]"}, // and nothing that cannot be called
		{catalog.SearchRequest{Query: "issue"}, "2 [gh__create_issue gh__list_issues]"},
		{catalog.SearchRequest{Query: "issue", Top: 1}, "2 [gh__create_issue]"},
		{catalog.SearchRequest{Query: "issue", Top: -7}, "2 [gh__create_issue]"},
		{catalog.SearchRequest{Query: "issue", Top: 1000}, "2 [gh__create_issue gh__list_issues]"},
		{catalog.SearchRequest{Regex: "^GH__.*s$"}, "1 [gh__list_issues]"},
		{catalog.SearchRequest{Regex: "^gh__", Query: "lists"}, "1 [gh__list_issues]"},
		{catalog.SearchRequest{Regex: "^gh__", Query: "zebra"}, "2 [gh__create_issue gh__list_issues]"},
		{catalog.SearchRequest{Query: "zebra"}, "0 []"},
		{catalog.SearchRequest{Query: "select:create_issue, READ_OPEN,gh__secret,none"}, "2 [gh__create_issue read_open]"},
	} {
		if got := found(c.r); got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
	// The tool gives the same, whole in either form.
	it, _ := l.Lookup(catalog.SearchName)
	res, err := it.Tool.Call(t.Context(), tool.Invocation{Arguments: json.RawMessage(`{"query":"lists"}`)}, tool.Discard{})
	var a, b catalog.FoundTools
	if err != nil || json.Unmarshal(res.Structured, &a) != nil || json.Unmarshal([]byte(res.PlainText()), &b) != nil || !reflect.DeepEqual(a, b) || len(a.Hits) != 1 {
		t.Errorf("%v %+v", err, res)
	}
	check(t, it.Definition.Output, res.Structured)

	for args, want := range map[string]string{
		`{"tool_name":"gh__create_issue","arguments":{"a":1}}`: `gh__create_issue {"a":1}`,
		`{"tool_name":"gh__create_issue"}`:                     `gh__create_issue {}`,
		`{"tool_name":"read_open","arguments":null}`:           `read_open {}`,
		`{"tool_name":"gh__secret"}`:                           "not_exposed",
		`{"tool_name":"gh__down"}`:                             "not_available",
		`{"tool_name":"mcp_invoke"}`:                           "not_registered",
		`{"tool_name":"nope"}`:                                 "not_registered",
		`{"tool_name":""}`:                                     "not_registered",
		`{}`:                                                   "schema_invalid",
		`[]`:                                                   "schema_invalid",
		`{"tool_name":7}`:                                      "schema_invalid",
		`{"tool_name":"read_open","extra":1}`:                  "schema_invalid",
	} {
		it, given, err := l.Target(json.RawMessage(args))
		got := it.Definition.Name + " " + string(given)
		if err != nil {
			got = string(tool.CodeOf(err))
		}
		if got != want {
			t.Errorf("mcp_invoke %s: %s, want %s", args, got, want)
		}
	}
}

func check(t *testing.T, schema, value json.RawMessage) {
	t.Helper()
	var s jsonschema.Schema
	var v any
	if err := errors.Join(json.Unmarshal(schema, &s), json.Unmarshal(value, &v)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s: %v", value, err)
	}
}

func TestExtensions(t *testing.T) {
	s := snapshot(t, nil, sample{name: "read_open", from: tool.Builtin})
	enter, goal, task := sample{name: "EnterPlanMode"}, sample{name: "create_goal"}, sample{name: "task"}
	with := func(f catalog.Facts, ext ...tool.Tool) (catalog.List, error) {
		f.Extensions = ext
		return catalog.Plan(s, f, catalog.Options{})
	}
	l, err := with(catalog.Facts{}, enter, goal)
	if err != nil || !slices.Equal(names(l), []string{"read_open", "EnterPlanMode", "create_goal"}) {
		t.Errorf("%v %v", names(l), err)
	}
	for text, want := range map[string][]string{
		`{"agent":{"profile":{"task_child":true}}}`:               {"read_open", "EnterPlanMode"},
		`{"agent":{"profile":{"role":"worker","trusted":true}}}`:  {"read_open", "EnterPlanMode"},
		`{"agent":{"selector":{"disallowed":["enterplanmode"]}}}`: {"read_open", "create_goal"},
		`{"all_tools_disabled":true}`:                             nil,
	} {
		l, err := with(facts(t, text), enter, goal, task)
		if err != nil || !slices.Equal(names(l), want) {
			t.Errorf("%s: %v %v, want %v", text, names(l), err, want)
		}
	}
	var nine []tool.Tool
	for _, x := range many(9, sample{name: "x"}) {
		nine = append(nine, x)
	}
	for _, ext := range [][]tool.Tool{{sample{name: "read_open"}}, {enter, enter}, {sample{name: "tool_search"}}, {sample{name: "a b"}}, nine} {
		if _, err := with(catalog.Facts{}, ext...); err == nil {
			t.Errorf("accepted: %d tools, the first %s", len(ext), ext[0].Definition().Name)
		}
	}
}

func TestPack(t *testing.T) {
	s := snapshot(t, nil, sample{name: "a", packs: []string{"p"}}, sample{name: "b", packs: []string{"p"}, down: "not there"}, sample{name: "c"})
	l := plan(t, s, catalog.Facts{Pack: "p"}, catalog.Options{})
	if len(l.Pack) != 2 || l.Pack[0].State != catalog.Exposed || l.Pack[1].Reason != "not there" || len(l.Exposed()) != 2 {
		t.Errorf("%+v, %v", l.Pack, names(l))
	}
	if l := plan(t, s, catalog.Facts{Pack: "q"}, catalog.Options{}); len(l.Notes) != 1 {
		t.Errorf("notes %q", l.Notes)
	}
}

// TestPlanProperties: on random registries and facts, a selector only takes away;
// what a stage before the deferral says of a tool does not depend on the others;
// and equal facts give equal bytes.
func TestPlanProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	pick := func(l ...string) string { return l[r.IntN(len(l))] }
	pool := []string{"read_open", "task", "todowrite", "desktop_x", "web_search", "images_understand", "memory", "a", "b", "c"}
	for range 2000 {
		var tools []sample
		for _, n := range pool {
			if r.IntN(3) == 0 {
				continue
			}
			s := sample{name: n, from: tool.Source(pick("builtin", "native", "installed", "mcp", "host", "unheard-of")), effects: tool.Effects(r.IntN(64)), text: n}
			if s.from == tool.MCP {
				s.server = pick("s", "t", "")
			}
			if r.IntN(8) == 0 {
				s.down = "down"
			}
			s.hidden = r.IntN(8) == 0
			tools = append(tools, s)
		}
		if len(tools) == 0 {
			continue
		}
		f := catalog.Facts{SeesImages: r.IntN(2) == 0, ComputerUse: r.IntN(2) == 0, ContextWindow: float64(r.IntN(200)),
			Agent: &catalog.Agent{Profile: &catalog.Profile{Role: pick("main", "worker", "verifier", "explore", "?"), Surface: pick("cli", "?"), Trusted: r.IntN(2) == 0, TaskChild: r.IntN(4) == 0}}}
		snap := snapshot(t, nil, tools...)
		whole := plan(t, snap, f, catalog.Options{})
		bytesOf := func(l catalog.List) string {
			for i := range l.Items {
				l.Items[i].Tool = nil
			}
			b, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		first, second := bytesOf(plan(t, snap, f, catalog.Options{})), bytesOf(plan(t, snap, f, catalog.Options{}))
		if first != second {
			t.Fatal("two lists of the same facts differ")
		}

		sel := f
		agent := *f.Agent
		list := []string{pick(pool...), pick(pool...), pick(pool...)}
		if r.IntN(2) == 0 {
			agent.Selector.Tools = &list
		}
		agent.Selector.Disallowed = []string{pick(pool...)}
		sel.Agent = &agent
		small := plan(t, snap, sel, catalog.Options{})
		for _, it := range small.Items[:len(tools)] {
			before, _ := whole.Lookup(it.Definition.Name)
			callable := func(i catalog.Item) bool { return i.State == catalog.Exposed || i.Deferred }
			if callable(it) && !callable(before) {
				t.Fatalf("the selector %v %v lets %s in", agent.Selector.Tools, agent.Selector.Disallowed, it.Definition.Name)
			}
		}
		for _, it := range whole.Items[:len(tools)] {
			if it.Stage == catalog.StageDeferral || it.Stage == catalog.StageExposure {
				continue
			}
			alone := tools[slices.IndexFunc(tools, func(s sample) bool { return s.name == it.Definition.Name })]
			one, _ := plan(t, snapshot(t, nil, alone), f, catalog.Options{Deferral: catalog.DeferralOptions{Off: true}}).Lookup(alone.name)
			if one.Stage != it.Stage || one.Reason != it.Reason {
				t.Fatalf("%s alone: %q %q; among others: %q %q", alone.name, one.Stage, one.Reason, it.Stage, it.Reason)
			}
		}
	}
}

// TestFactsSchema: the schema that is published and the one that is obeyed say the
// same.
func TestFactsSchema(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(catalog.FactsSchema, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var compare func(at string, s *jsonschema.Schema, of reflect.Type)
	compare = func(at string, s *jsonschema.Schema, of reflect.Type) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		var have, want []string
		for name := range s.Properties {
			have = append(have, name)
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			want = append(want, name)
			if p := s.Properties[name]; p != nil {
				compare(at+"."+name, p, of.Field(i).Type)
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s: the schema has %v, the facts have %v", at, have, want)
		}
	}
	compare("facts", &s, reflect.TypeFor[catalog.Facts]())
	for text, good := range map[string]bool{
		`{}`: true, `{"model":"m","context_window":200000,"features":{"a":false},"agent":{"selector":{"tools":[]},"mcp_servers":["x"]}}`: true,
		`{"modle":"m"}`: false, `{"agent":{"role":"x"}}`: false, `{"features":{"a":1}}`: false, `{"context_window":-1}`: false, `{"context_window":"x"}`: false, `[]`: false,
	} {
		_, err := catalog.ParseFacts([]byte(text))
		var v any
		_ = json.Unmarshal([]byte(text), &v)
		if (err == nil) != good || (r.Validate(v) == nil) != good {
			t.Errorf("%s: parsed %v, validated %v; want good %v", text, err, r.Validate(v), good)
		}
	}
	for _, text := range []string{`{}{}`, `{} x`, "", strings.Repeat(" ", 1<<20) + "{}", `{"withheld":[` + strings.Repeat(`"a",`, 10_000) + `"a"]}`} {
		if _, err := catalog.ParseFacts([]byte(text)); err == nil {
			t.Errorf("accepted: %.40q", text)
		}
	}
}

func FuzzFacts(f *testing.F) {
	for _, s := range []string{`{}`, `{"agent":{"selector":{"tools":["ａ"]},"profile":{"role":"verifier","trusted":true}},"context_window":1e9}`, `{"features":{"":false}}`, `{"context_window":1e999}`} {
		f.Add([]byte(s))
	}
	snap := snapshot(f, nil, append(many(25, sample{name: "m", from: tool.MCP, server: "s"}), sample{name: "read_open", from: tool.Builtin})...)
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, err := catalog.ParseFacts(b)
		if err != nil {
			return
		}
		l, err := catalog.Plan(snap, facts, catalog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Exposed()) > catalog.Limit {
			t.Fatalf("%d tools are shown", len(l.Exposed()))
		}
		for _, it := range l.Items {
			if (it.State == catalog.Exposed) != (it.Code == "") || (it.Code == "") != (it.Reason == "") {
				t.Fatalf("%+v", it)
			}
		}
	})
}
