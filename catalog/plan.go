package catalog

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Limit is how many tools a list shows. Pins and the turn's extensions are shown
// whatever their number.
const Limit = 20

// State is where a tool stands on the way from registered to invocable. That it
// may be called is decided by the call.
type State string

const (
	Registered State = "registered" // known, but internal
	Public     State = "public"     // may be shown, but cannot work now
	Available  State = "available"  // works, but is not in the list of this turn
	Exposed    State = "exposed"    // in the list of this turn
)

// Stage is a step of the pipeline, in which a tool fell out.
type Stage string

// The stages, in their order.
const (
	StageDisabled    Stage = "disabled"     // all tools are
	StagePublic      Stage = "public"       // internal tools go
	StageAvailable   Stage = "available"    // what cannot work goes: a fact, never "seems unneeded"
	StageModel       Stage = "model"        // what the model can do itself, and what the host keeps back
	StageComputerUse Stage = "computer_use" // desktop_ tools without their runtime
	StageSelector    Stage = "selector"     // the agent's own choice
	StageServers     Stage = "mcp_servers"  // the agent's choice of upstream servers
	StageDelegation  Stage = "delegation"   // giving tasks is for the main agent
	StageTaskChild   Stage = "task_child"   // who works on a task gives none
	StageFeatures    Stage = "features"     // switches
	StageRole        Stage = "role"         // the ceiling of the host's own agents
	StageDeferral    Stage = "deferral"     // to be found by search
	StageExposure    Stage = "exposure"     // more than fit
	StageExtensions  Stage = "extensions"   // the turn's own tools, which pass some of the stages above
)

// Item is one registered tool with the state it reached and, unless it is
// exposed, why it went no further.
type Item struct {
	Tool       tool.Tool
	Definition tool.Definition
	SourceName string
	Server     string // upstream; empty if there is none
	State      State
	Stage      Stage // where it fell out
	Code       tool.Code
	Reason     string
	Deferred   bool // search finds it, and InvokeName calls it
	Pinned     bool
	Rank       int     // by the request, from 1; 0: it was not ranked
	Score      float64 // if it was
	Tokens     int     // an estimate
}

// List is what one turn gets: every registered tool in a stable order, then the
// catalog's own and the turn's. It is never modified.
type List struct {
	Items    []Item
	Deferral Deferral     // what was reckoned, and found
	Notes    []string     // what a person should know: a ranker that failed, ...
	Pack     []PackMember // of the turn's pack, in the order of the registry

	snapshot *Snapshot
	extra    map[string]int // items that are not in the snapshot
}

// PackMember is a tool of the turn's pack.
type PackMember struct {
	Name   string
	State  State
	Reason string // why it is not exposed
}

// Options are what a program chooses for all its turns.
type Options struct {
	Deferral DeferralOptions
	Pins     []string // names, besides built-in and native tools
}

// Plan takes a snapshot through the stages. It is a pure function: equal
// snapshots, facts and options give equal lists.
func Plan(s *Snapshot, f Facts, o Options) (List, error) {
	if err := f.check(); err != nil {
		return List{}, err
	}
	p := newPlan(s, f, o)
	p.filter()
	p.deferral()
	p.exposure()
	if err := p.extensions(); err != nil {
		return List{}, err
	}
	p.pack()
	*p.final = p.list
	return p.list, nil
}

// plan is a list in the making.
type plan struct {
	facts   Facts
	options Options
	list    List
	final   *List // what tool_search looks at, once it is made

	withheld, disallowed, servers, trusted, pins map[string]bool
	selected                                     map[string]bool // nil: all
}

func newPlan(s *Snapshot, f Facts, o Options) *plan {
	p := &plan{facts: f, options: o, final: new(List), withheld: folded(f.Withheld), trusted: folded(f.TrustedMCP), pins: folded(o.Pins)}
	if a := f.Agent; a != nil {
		p.disallowed = folded(a.Selector.Disallowed)
		if a.Selector.Tools != nil {
			p.selected = folded(*a.Selector.Tools)
		}
		if a.MCPServers != nil {
			p.servers = folded(*a.MCPServers)
		}
	}
	p.list = List{snapshot: s, Items: make([]Item, len(s.entries), len(s.entries)+MaxExtensions+2)}
	for _, src := range s.Sources {
		if src.Trouble != "" {
			p.list.note("source %s: %s; what it had before is used", src.Name, src.Trouble)
		}
	}
	return p
}

// folded is a set of names as they are compared. It is never nil.
func folded(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		if n = Fold(n); n != "" {
			set[n] = true
		}
	}
	return set
}

// drop says that a tool goes, and why.
type drop struct {
	state  State
	code   tool.Code
	reason string
}

var stays = drop{}

func hidden(format string, args ...any) drop {
	return drop{Available, tool.NotExposed, fmt.Sprintf(format, args...)}
}

// stages are those that look at one tool at a time, so that none depends on what
// another one left.
var stages = []struct {
	name  Stage
	check func(*plan, *entry) drop
}{
	{StageDisabled, (*plan).disabled},
	{StagePublic, (*plan).public},
	{StageAvailable, (*plan).available},
	{StageModel, (*plan).model},
	{StageComputerUse, (*plan).computerUse},
	{StageSelector, (*plan).selector},
	{StageServers, (*plan).mcpServers},
	{StageDelegation, (*plan).delegation},
	{StageTaskChild, (*plan).taskChild},
	{StageFeatures, (*plan).features},
	{StageRole, (*plan).role},
}

// filter takes every tool through the stages.
func (p *plan) filter() {
	for i := range p.list.snapshot.entries {
		e := &p.list.snapshot.entries[i]
		p.list.Items[i] = p.pass(e, stages0)
	}
}

// stages0 are the names of all stages, of which extensions pass some.
var stages0 = func() []Stage {
	var l []Stage
	for _, s := range stages {
		l = append(l, s.name)
	}
	return l
}()

func (p *plan) pass(e *entry, through []Stage) Item {
	it := Item{Tool: e.Tool, Definition: e.def, SourceName: e.source, Server: e.Server, State: Exposed, Tokens: e.tokens}
	for _, s := range stages {
		if !slices.Contains(through, s.name) {
			continue
		}
		if d := s.check(p, e); d != stays {
			it.State, it.Stage, it.Code, it.Reason = d.state, s.name, d.code, d.reason
			break
		}
	}
	return it
}

func (p *plan) disabled(*entry) drop {
	if p.facts.AllToolsDisabled {
		return hidden("all tools are disabled for this turn")
	}
	return stays
}

func (p *plan) public(e *entry) drop {
	if e.def.Visibility == tool.Hidden {
		return drop{Registered, tool.NotExposed, "the tool is internal"}
	}
	return stays
}

func (p *plan) available(e *entry) drop {
	if !e.Available {
		return drop{Public, tool.NotAvailable, cmp.Or(e.Reason, "its source gives no reason")}
	}
	return stays
}

func (p *plan) model(e *entry) drop {
	switch {
	case p.facts.SeesImages && e.folded == "images_understand":
		return hidden("the model sees images itself")
	case p.facts.SeesVideo && e.folded == "videos_understand":
		return hidden("the model sees video itself")
	case p.withheld[e.folded]:
		return hidden("the host keeps it back")
	}
	return stays
}

func (p *plan) computerUse(e *entry) drop {
	if isDesktop(e.folded) && !p.facts.ComputerUse {
		return hidden("computer use is not running")
	}
	return stays
}

func isDesktop(name string) bool { return strings.HasPrefix(name, "desktop_") }

func (p *plan) selector(e *entry) drop {
	for _, n := range e.names {
		if p.disallowed[n] {
			return hidden("the agent's definition disallows it%s", p.byAlias(e, n))
		}
	}
	if p.selected == nil || slices.ContainsFunc(e.names, func(n string) bool { return p.selected[n] }) {
		return stays
	}
	return hidden("the agent's definition does not list it")
}

func (p *plan) byAlias(e *entry, name string) string {
	if name == e.folded {
		return ""
	}
	return " by the name " + name
}

func (p *plan) mcpServers(e *entry) drop {
	if p.servers == nil || e.origin.Source != tool.MCP {
		return stays
	}
	switch {
	case e.Server == "":
		return hidden("it does not say which upstream server it is of, and the agent is bound to some")
	case !p.servers[Fold(e.Server)]:
		return hidden("the agent is not bound to the upstream server %s", e.Server)
	}
	return stays
}

func (p *plan) profile() Profile {
	if p.facts.Agent == nil || p.facts.Agent.Profile == nil {
		return Profile{}
	}
	return *p.facts.Agent.Profile
}

func (p *plan) delegation(e *entry) drop {
	switch e.folded {
	case "task", "task_append":
	case "task_query", "task_output", "task_stop":
		if e.origin.Source == tool.Builtin {
			return stays
		}
	default:
		return stays
	}
	pr := p.profile()
	if pr.Trusted && pr.Role == "main" && (pr.Surface == "interactive" || pr.Surface == "cli") {
		return stays
	}
	return hidden("tasks are for the host's own main agent, interactive or on the command line")
}

func (p *plan) taskChild(e *entry) drop {
	if p.profile().TaskChild {
		switch e.folded {
		case "task", "task_append", "todowrite", "ask_user":
			return hidden("who works on a task does not get it")
		}
	}
	return stays
}

// switched lists the tools that a feature takes away with it.
var switched = map[string][]string{
	"delegation": {"task", "task_append", "task_query", "task_output", "task_stop"},
}

func (p *plan) features(e *entry) drop {
	for name, on := range p.facts.Features {
		if on {
			continue
		}
		f := Fold(name)
		if f == e.folded || f == "web_search" && e.base() == f || slices.Contains(switched[f], e.folded) {
			return hidden("the feature %s is off", f)
		}
	}
	return stays
}

// base is the name that a tool has at its upstream server.
func (e *entry) base() string { return strings.TrimPrefix(e.folded, Fold(e.Server)+"__") }

func (p *plan) role(e *entry) drop {
	pr := p.profile()
	if !pr.Trusted {
		return stays
	}
	why := hidden("the role %s does not get it", pr.Role)
	switch Fold(pr.Role) { // a ceiling that a capital letter lifts is none
	case "worker":
		if e.folded == "task" || e.folded == "task_append" {
			return why
		}
		return stays
	case "verifier", "explore":
	default:
		return stays
	}
	if e.origin.Source == tool.MCP {
		if e.base() == "web_search" && (e.origin.Trusted || p.trusted[Fold(e.Server)]) {
			return stays
		}
		return hidden("the role %s gets of upstream servers only a trusted one's web_search", pr.Role)
	}
	switch {
	case e.folded == "terminal_session" && e.origin.Source == tool.Native && p.facts.TerminalProfile == "read-only":
		return stays
	case e.def.Effects.Any(tool.Writes | tool.Destroys | tool.Executes):
		return hidden("the role %s changes nothing", pr.Role)
	case isDesktop(e.folded), strings.HasPrefix(e.folded, "task"):
		return why
	}
	if ok, _ := path.Match("*feature_*", e.folded); ok || slices.Contains([]string{"todowrite", "memory", "ask_user"}, e.folded) {
		return why
	}
	return stays
}

// extensions appends the turn's own tools.
func (p *plan) extensions() error {
	l := &p.list
	if len(p.facts.Extensions) == 0 {
		return nil
	}
	if l.extra == nil {
		l.extra = make(map[string]int, len(p.facts.Extensions))
	}
	for _, t := range p.facts.Extensions {
		d := t.Definition()
		if !tool.ValidName(d.Name) {
			return fmt.Errorf("the turn adds a tool of the name %q, which is none (want %s)", d.Name, tool.NamePattern)
		}
		if it, dup := l.Lookup(d.Name); dup {
			return fmt.Errorf("the turn adds a tool %s, which comes from source %s too; rename it", d.Name, it.SourceName)
		}
		if d.Name == SearchName || d.Name == InvokeName {
			return fmt.Errorf("the turn adds a tool %s, which is the catalog's own name; rename it", d.Name)
		}
		e := newEntry("turn", d, Entry{Tool: t, Available: true})
		e.origin.Source = tool.Extension
		it := p.pass(&e, []Stage{StageDisabled, StageSelector, StageDelegation, StageTaskChild, StageRole})
		if it.State == Exposed {
			if why := p.goal(e.folded); why != stays {
				it.State, it.Stage, it.Code, it.Reason = why.state, StageExtensions, why.code, why.reason
			}
		}
		l.extra[d.Name] = len(l.Items)
		l.Items = append(l.Items, it)
	}
	return nil
}

// goal keeps goal tools from those who do not set goals.
func (p *plan) goal(name string) drop {
	if name != "create_goal" && name != "update_goal" && name != "get_goal" {
		return stays
	}
	pr := p.profile()
	role := Fold(pr.Role)
	sub := pr.Trusted && (role == "worker" || role == "verifier" || role == "explore")
	if pr.TaskChild || sub {
		return hidden("goals are not for who works on a part")
	}
	return stays
}

// pack lists the members of the turn's pack.
func (p *plan) pack() {
	if p.facts.Pack == "" {
		return
	}
	for _, it := range p.list.Items {
		if slices.Contains(it.Definition.Packs, p.facts.Pack) {
			p.list.Pack = append(p.list.Pack, PackMember{it.Definition.Name, it.State, it.Reason})
		}
	}
	if len(p.list.Pack) == 0 {
		p.list.note("no registered tool is in the pack %q", p.facts.Pack)
	}
}

func (l *List) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}
