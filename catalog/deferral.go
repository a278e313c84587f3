package catalog

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// The catalog's own tools. They are in a list only if something is deferred.
const (
	SearchName = "tool_search"
	InvokeName = "mcp_invoke"
)

// DeferralOptions say when the tools of upstream servers and of installed
// modules are left to be found by search.
type DeferralOptions struct {
	Off       bool
	Models    []string // patterns of provider/model, with * and ?; nil: every model
	Threshold float64  // of the context window, over which tools are deferred; 0: [DefaultThreshold]
	Least     int      // fewer tools than this are never deferred; 0: 1
}

// DefaultThreshold is the share of the context window that definitions may take.
const DefaultThreshold = 0.15

// Deferral is what was reckoned about a turn.
type Deferral struct {
	Deferred   int     // tools
	Candidates int     // tools that can be deferred
	Tokens     int     // estimated, of all candidates
	Threshold  float64 // tokens; 0: none, so nothing is deferred for its size
	Saved      int     // tokens that the list does not take now, estimated
	Why        string  // why it came out so
}

// Hint is a text for the turn's prompt (not for the system prompt, which caches
// hang on); empty if nothing is deferred.
func (l List) Hint() string {
	if l.Deferral.Deferred == 0 {
		return ""
	}
	return fmt.Sprintf("%d more tools are not listed. Find them with %s by what they do, then call them with %s.", l.Deferral.Deferred, SearchName, InvokeName)
}

// deferral takes out, all or none, what upstream servers and installed modules
// bring, if it is too much for the model's context.
func (p *plan) deferral() {
	l, o := &p.list, p.options.Deferral
	d := &l.Deferral
	if p.facts.Exposure == ExposeAll {
		return
	}
	var candidates []int
	for _, i := range p.exposed() {
		e := &l.snapshot.entries[i]
		untrusted := e.origin.Source == tool.MCP && !e.origin.Trusted && !p.trusted[Fold(e.Server)]
		if (untrusted || e.origin.Source == tool.Installed) && !p.pins[e.folded] {
			candidates = append(candidates, i)
			d.Tokens += e.tokens
		}
	}
	d.Candidates = len(candidates)
	share := o.Threshold
	if share <= 0 || math.IsNaN(share) || math.IsInf(share, 0) {
		share = DefaultThreshold
	}
	switch {
	case o.Off:
		d.Why = "deferral is off"
		return
	case !matches(o.Models, p.facts.Provider+"/"+p.facts.Model):
		d.Why = "the model is not one for which tools are deferred"
		return
	case p.facts.ContextWindow <= 0:
		d.Why = "the model's context window is not known"
		return
	}
	d.Threshold = share * p.facts.ContextWindow
	switch {
	case len(candidates) < max(o.Least, 1):
		d.Why = "there are too few tools that can be deferred"
	case float64(d.Tokens) <= d.Threshold:
		d.Why = "their definitions fit"
	default:
		p.leave(candidates, fmt.Sprintf("the definitions of %d tools would take about %d tokens, over %.0f", len(candidates), d.Tokens, d.Threshold))
	}
}

// leave leaves tools to be found by search.
func (p *plan) leave(tools []int, why string) {
	l := &p.list
	d := &l.Deferral
	for _, i := range tools {
		it := &l.Items[i]
		it.State, it.Stage, it.Code, it.Deferred = Available, StageDeferral, tool.NotExposed, true
		it.Reason = "it is left to be found: use " + SearchName + ", and call it with " + InvokeName
		d.Deferred++
		d.Saved += it.Tokens
	}
	d.Why = why
	if l.extra != nil {
		return // they are there already
	}
	l.extra = make(map[string]int, 2+len(p.facts.Extensions))
	for _, t := range []tool.Tool{searchTool{p.final}, invokeTool{}} {
		def := t.Definition()
		l.extra[def.Name] = len(l.Items)
		it := Item{Tool: t, Definition: def, SourceName: "catalog", State: Exposed, Pinned: true, Tokens: Tokens(def)}
		switch {
		case p.withheld[def.Name]:
			it.State, it.Stage, it.Code, it.Reason = Available, StageModel, tool.NotExposed, "the host keeps it back"
		case p.disallowed[def.Name]:
			it.State, it.Stage, it.Code, it.Reason = Available, StageSelector, tool.NotExposed, "the agent's definition disallows it"
		default:
			d.Saved -= it.Tokens
		}
		l.Items = append(l.Items, it)
	}
}

// matches reports whether a model is one of those that patterns name. A pattern
// that is none names nothing.
func matches(patterns []string, model string) bool {
	if patterns == nil {
		return true
	}
	model = strings.ToLower(model)
	for _, p := range patterns {
		p = strings.ToLower(p)
		if p == "*" || p == model {
			return true
		}
		// path.Match takes a slash for a border, which * is to cross here.
		flat := strings.NewReplacer("/", "\x00")
		if ok, err := path.Match(flat.Replace(p), flat.Replace(model)); ok && err == nil {
			return true
		}
	}
	return false
}
