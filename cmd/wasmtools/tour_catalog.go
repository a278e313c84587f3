package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// tourServers are pretended upstream servers, each with what it is about: their
// tools do nothing, but there are many of them, as there are in real life.
var tourServers = []struct {
	name, about string
	things      []string
}{
	{"tickets", "tracks bugs and requests", []string{"ticket", "comment", "label", "milestone"}},
	{"mail", "reads and sends mail", []string{"message", "draft", "folder", "contact"}},
	{"calendar", "keeps appointments", []string{"event", "invitation", "reminder", "room"}},
	{"code", "hosts repositories", []string{"repository", "pull_request", "branch", "release"}},
	{"cloud", "runs machines and services", []string{"machine", "service", "log", "alarm"}},
	{"shop", "sells things", []string{"order", "product", "invoice", "customer"}},
	{"bank", "keeps accounts", []string{"account", "payment", "statement", "card"}},
	{"maps", "knows places and ways", []string{"place", "route", "photo", "review"}},
	{"music", "plays music", []string{"song", "playlist", "artist", "album"}},
	{"weather", "tells the weather", []string{"forecast", "warning", "station", "measurement"}},
	{"wiki", "keeps pages of knowledge", []string{"page", "section", "revision", "category"}},
	{"drive", "keeps files of a team", []string{"file", "share", "sheet", "slide"}},
}

var tourVerbs = []struct{ verb, does string }{
	{"list", "List each"}, {"get", "Read one"}, {"create", "Make a new"}, {"update", "Change a"}, {"delete", "Remove a"}, {"search", "Find a"},
}

// tourLog is the line that stands somewhere in the large result.
const tourLog = "ERROR login: the certificate of auth.internal has expired"

// tourTool is a tool of a pretended server.
type tourTool struct {
	def    tool.Definition
	server string
}

func (t tourTool) Definition() tool.Definition { return t.def }
func (t tourTool) Origin() tool.Origin         { return tool.Origin{Source: tool.MCP, Name: t.server} }

func (t tourTool) Call(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	if t.def.Name != "cloud__get_log" {
		return tool.TextResult("done: " + t.def.Name + " " + string(inv.Arguments)), nil
	}
	var b strings.Builder // two megabytes, with one line that matters
	for i := 0; b.Len() < 2<<20; i++ {
		line := "INFO all is well with the service, request %d was answered in time\n"
		if i == 17_000 {
			line = tourLog + ", request %d\n"
		}
		fmt.Fprintf(&b, line, i)
	}
	return tool.TextResult(b.String()), nil
}

// tourSources are twelve sources of together nearly 300 tools.
func tourSources() []catalog.Source {
	var all []catalog.Source
	for _, s := range tourServers {
		var entries []catalog.Entry
		for _, thing := range s.things {
			for _, v := range tourVerbs {
				text := strings.ReplaceAll(thing, "_", " ")
				entries = append(entries, catalog.Entry{Available: true, Server: s.name, About: s.about, Tool: tourTool{server: s.name, def: tool.Definition{
					Name: s.name + "__" + v.verb + "_" + thing, Effects: tool.UsesNetwork,
					Description: v.does + " " + text + ".",
					Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string","description":"which ` + text + `"},` +
						`"text":{"type":"string","description":"what the ` + text + ` is to say"}}}`),
				}}})
			}
		}
		all = append(all, catalog.Fixed(s.name, entries...))
	}
	return all
}

const tourRequest = "Create a ticket about the login that fails, find the reason in the log, and write the team a message"

// turns shows how the list of tools is chosen, and what becomes of a result that
// is too long.
func (t *tourRun) turns(ctx context.Context) error {
	w := t.w
	fmt.Fprintf(w, "\nNow with %d servers more. The request: %q\n", len(tourServers), tourRequest)
	var trusted []string
	for _, s := range tourServers {
		trusted = append(trusted, s.name)
	}
	turn, err := t.rt.Begin(ctx, wasmtools.Facts{Request: tourRequest, TrustedMCP: trusted})
	if err != nil {
		return err
	}
	pinned, hidden := 0, 0
	var ranked []string
	items := slices.SortedStableFunc(slices.Values(turn.List()), func(a, b catalog.Item) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, it := range items {
		switch {
		case it.State == catalog.Exposed && it.Pinned:
			pinned++
		case it.State == catalog.Exposed:
			ranked = append(ranked, fmt.Sprintf("%3d. %s (%.2f)", it.Rank, it.Definition.Name, it.Score))
		case it.Stage == catalog.StageExposure:
			hidden++
		}
	}
	fmt.Fprintf(w, "Of %d tools %d are shown: %d that come with wasmtools, and the %d that fit the request best, with rank and score:\n",
		len(turn.List()), len(turn.Tools()), pinned, len(ranked))
	for _, line := range ranked {
		fmt.Fprintln(w, "   | "+line)
	}
	fmt.Fprintf(w, "   %d are not shown: other tools fit better\n", hidden)
	t.must(len(turn.Tools()) == catalog.Limit, "%d tools are shown, not %d", len(turn.Tools()), catalog.Limit)

	if turn, err = t.rt.Begin(ctx, wasmtools.Facts{Request: tourRequest, Provider: "some", Model: "model", ContextWindow: 100_000}); err != nil {
		return err
	}
	d := turn.Plan().Deferral
	fmt.Fprintf(w, "\nFor a model with a window of 100,000 tokens, and servers that nobody trusts: %s.\n", d.Why)
	fmt.Fprintf(w, "So %d tools are left to be found, which saves about %d tokens in every step. The turn's prompt gets:\n   | %s\n", d.Deferred, d.Saved, turn.Hint())
	t.must(d.Deferred > 0, "nothing was left to be found")

	r := t.call(ctx, turn, stop{"Find a tool", catalog.SearchName, map[string]any{"query": "read the log of a service", "top_k": 3}, ""})
	t.must(strings.Contains(r.PlainText(), "cloud__get_log"), "the search does not find the tool")
	r = t.call(ctx, turn, stop{"Call it: two megabytes come back, the model is shown a receipt", catalog.InvokeName,
		map[string]any{"tool_name": "cloud__get_log", "arguments": map[string]any{"id": "login"}}, ""})
	handle := regexp.MustCompile(`artifact:[a-z2-7]{26}`).FindString(r.PlainText())
	t.must(handle != "" && len(r.PlainText()) < 8<<10, "the result is %d bytes and no receipt", len(r.PlainText()))
	if handle == "" {
		return nil
	}
	r = t.call(ctx, turn, stop{"Search what was kept", "grep", map[string]any{"pattern": "ERROR", "path": handle, "mode": "content"}, ""})
	t.must(strings.Contains(r.PlainText(), tourLog), "the line is not found")
	r = t.call(ctx, turn, stop{"Read the lines around it, and no more", "read_open", map[string]any{"path": handle, "selection": map[string]any{"lines": map[string]any{"start": 17_000, "end": 17_003}}}, ""})
	t.must(strings.Contains(r.PlainText(), tourLog), "the line is not read")
	return nil
}

// tourRun is a tour under way.
type tourRun struct {
	w      io.Writer
	rt     *wasmtools.Runtime
	number int
	failed int
}

// call makes the call of one stop, and shows it.
func (t *tourRun) call(ctx context.Context, turn *wasmtools.Turn, s stop) tool.Result {
	t.number++
	arguments, err := json.Marshal(s.args)
	if err != nil {
		return tool.ErrorResult(err)
	}
	fmt.Fprintf(t.w, "\n%d. %s\n   $ wasmtools run %s '%s'\n", t.number, s.title, s.tool, arguments)
	t0 := time.Now()
	r := turn.Call(ctx, []wasmtools.Request{{Tool: s.tool, Arguments: arguments}})[0].Result
	took := time.Since(t0)
	if ctx.Err() != nil {
		return r
	}
	printIndented(t.w, r.PlainText())
	verdict := "done"
	switch {
	case r.Code != s.want:
		verdict = fmt.Sprintf("NOT as it has to be: got %q, want %q", r.Code, s.want)
		t.failed++
	case s.want != "":
		verdict = "stopped, as it has to be: " + string(r.Code)
	}
	fmt.Fprintf(t.w, "   %s, %s\n", verdict, roundTime(took))
	return r
}

// must counts what is not as it has to be.
func (t *tourRun) must(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(t.w, "   NOT as it has to be: "+format+"\n", args...)
		t.failed++
	}
}
