// Package config reads what a person set down: the user's own configuration,
// the workspace's own file, and the rules that were saved from answers. One
// schema ([Schema]) says what may stand where; [Parse] names every fault with
// its line and column, and takes nothing from a file that has one.
//
// A workspace's own file comes with the workspace, so somebody else may have
// written it. It can only tighten: what it may hold is a closed list
// ([Restrictions]), and [Settings.Tighten] joins it so that what was denied
// stays denied, sets of what is left are intersected, and of two limits the
// lower one counts.
//
// The edge: these files are as safe as the folders that they lie in. The
// package refuses links and other than regular files, and reads a bounded
// number of bytes; it does not check owner or mode of the user's configuration,
// which any program of the same user can change. That no tool can is the
// business of the workspace and of the sandbox.
package config

import (
	"maps"
	"slices"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/workspace"
)

// FileName is the name of the configuration, in the user's folder and at the
// root of a workspace.
const FileName = "wasmtools.toml"

// Elicitation says which calls a client may be asked about through MCP.
type Elicitation string

const (
	ElicitOff   Elicitation = "off"
	ElicitEdits Elicitation = "edits" // changes of files only
	ElicitAll   Elicitation = "all"   // whatever may be answered there at all; the default
)

// Settings is everything that can be configured. Its zero value is not usable;
// [Default] is what holds where nothing was set.
type Settings struct {
	Workspace Workspace
	Approvals Approvals
	Terminal  Terminal
	MCP       MCP
	Limits    Limits
	Tools     Tools
	Rules     []policy.Rule
	Examples  []Example

	ToolSearch ToolSearch
	Skills     []string // folders, as they are written
	Budget     Budget
	Artifacts  Artifacts
	Undo       Undo
}

// Workspace is about the files that tools can reach.
type Workspace struct {
	DenyRead    []workspace.Rule // secret beside the built-in list: neither read nor changed
	Protect     []workspace.Rule // protected beside the built-in list: changed only by a rule that names them
	AllowRead   []workspace.Rule // taken off the list of secrets
	HardLinks   bool             // write to files that have more than one name
	RequireRead bool             // a file must have been read in the session before write_file replaces it
}

// Approvals is about who is asked, and for how long.
type Approvals struct {
	Mode        policy.Mode
	ModeAt      policy.Origin // zero: the default
	Headless    policy.Headless
	Elicitation Elicitation
	Timeout     time.Duration
}

// The networks that a sandbox can have.
const (
	NetworkLoopback = "loopback"
	NetworkOff      = "off"
)

// Terminal is about shell commands.
type Terminal struct {
	AllowUnsandboxed bool     // profile "none" exists
	Profile          string   // of sessions that name none
	WeakSandbox      bool     // one without namespaces will do, where the system refuses those
	Network          string   // of sandboxes: "loopback" or "off"
	PassEnv          []string // names of variables
}

// MCP is about clients and the facts that MCP does not carry.
type MCP struct {
	ContextWindow int      // tokens
	Servers       []Server // upstream, in the order of the file
}

// Server is an upstream MCP server: a program, or an address.
type Server struct {
	Name string

	Command string
	Args    []string
	Env     map[string]string
	PassEnv []string
	Cwd     string // "": the workspace

	URL           string
	Headers       map[string]string
	SecretHeaders map[string]string // header -> name of a secret

	Trusted, Disabled bool

	Tools       Tools // by the server's own names
	Timeout     time.Duration
	ResultKiB   int
	Concurrency int
}

// ToolSearch says when tools are left to be found by search.
type ToolSearch struct {
	Enabled       bool
	Models        []string // nil: all
	ThresholdPct  float64  // of the context window
	MinDeferCount int
	Pins          []string

	EmbedURL, EmbedModel, EmbedSecret string // "": words alone rank
}

// Budget says how much of a result a model is shown, in KiB of JSON.
type Budget struct {
	TextKiB, StructuredKiB int
	Tools                  map[string]int // other limits of text, by name or glob with *
}

// Artifacts bounds what is kept, of each workspace, of results that were too
// long to be shown.
type Artifacts struct {
	MaxMiB   int // the oldest make room
	KeepDays int // 0: any age stays
}

// Undo bounds what is kept, of each workspace, of what commits took away.
type Undo struct {
	Enabled  bool
	MaxMiB   int // the oldest commits make room
	KeepDays int
}

// Limits bound what one call of an installed module may use. A module that
// states lower ones keeps to those; one that states higher ones is refused. The
// built-in tools state their own.
type Limits struct {
	MemoryMiB   int
	TimeMS      int
	OutputKiB   int
	HostCalls   int
	Concurrency int // calls of one tool at a time
}

// Tools narrows which tools there are.
type Tools struct {
	Remove []string   // names, or globs with *
	Only   [][]string // each of these lists has to have the tool
}

// Has reports whether the tool of this name is left.
func (t Tools) Has(name string) bool {
	fits := func(glob string) bool { return policy.FitsName(glob, name) }
	if slices.ContainsFunc(t.Remove, fits) {
		return false
	}
	for _, list := range t.Only {
		if !slices.ContainsFunc(list, fits) {
			return false
		}
	}
	return true
}

// Example says what the rules should decide about a call.
type Example struct {
	Tool      string
	Arguments []byte // JSON object; nil if Command is given
	Command   string // short for terminal_session exec
	Cwd       string // relative to the workspace root
	Profile   string
	Should    policy.Decision
	Origin    policy.Origin
}

// Default is what holds where nothing was set.
func Default() Settings {
	return Settings{
		Approvals: Approvals{Mode: policy.ModeAsk, Headless: policy.HeadlessDeny, Elicitation: ElicitAll, Timeout: 5 * time.Minute},
		Terminal:  Terminal{Profile: policy.ProfileWrite, Network: NetworkLoopback},
		MCP:       MCP{ContextWindow: 200_000},

		ToolSearch: ToolSearch{Enabled: true, ThresholdPct: 0.15, MinDeferCount: 1},
		Budget:     Budget{TextKiB: 64, StructuredKiB: 32},
		Artifacts:  Artifacts{MaxMiB: 2048},
		Undo:       Undo{Enabled: true, MaxMiB: 2048, KeepDays: 30},

		Limits: Limits{MemoryMiB: 64, TimeMS: 30_000, OutputKiB: 1024, HostCalls: 10_000, Concurrency: 4},
	}
}

// Policy is the part of the settings that package policy judges by.
func (s Settings) Policy() policy.Policy {
	return policy.Policy{
		Rules: s.Rules, Mode: s.Approvals.Mode, ModeAt: s.Approvals.ModeAt,
		Headless: s.Approvals.Headless, Unsandboxed: s.Terminal.AllowUnsandboxed,
	}
}

// Restrictions is what a workspace's own file may hold, and nothing else.
type Restrictions struct {
	DenyRead, Protect []workspace.Rule
	Limits            Limits // 0: not lowered
	Budget            Budget // the same; its Tools are not used
	Tools             Tools
	Rules             []policy.Rule // that ask or deny
}

// Tighten returns s with r: denied is what either denies, left is what both
// leave, and of two limits the lower one counts. Nothing becomes looser,
// whatever r holds, and s is not changed.
func (s Settings) Tighten(r Restrictions) Settings {
	s.Workspace.DenyRead = join(s.Workspace.DenyRead, r.DenyRead)
	s.Workspace.Protect = join(s.Workspace.Protect, r.Protect)
	s.Limits = Limits{
		MemoryMiB:   lower(s.Limits.MemoryMiB, r.Limits.MemoryMiB),
		TimeMS:      lower(s.Limits.TimeMS, r.Limits.TimeMS),
		OutputKiB:   lower(s.Limits.OutputKiB, r.Limits.OutputKiB),
		HostCalls:   lower(s.Limits.HostCalls, r.Limits.HostCalls),
		Concurrency: lower(s.Limits.Concurrency, r.Limits.Concurrency),
	}
	own := maps.Clone(s.Budget.Tools)
	for name, kib := range own {
		own[name] = lower(kib, r.Budget.TextKiB)
	}
	s.Budget = Budget{TextKiB: lower(s.Budget.TextKiB, r.Budget.TextKiB), StructuredKiB: lower(s.Budget.StructuredKiB, r.Budget.StructuredKiB), Tools: own}
	s.Tools.Remove = join(s.Tools.Remove, r.Tools.Remove)
	s.Tools.Only = join(s.Tools.Only, r.Tools.Only)
	rules := slices.Clone(s.Rules)
	for _, rule := range r.Rules {
		if rule.Decision == policy.Ask || rule.Decision == policy.Deny { // an allow can only be the work of a faulty caller
			rules = append(rules, rule)
		}
	}
	s.Rules = rules
	return s
}

// join appends without touching what others hold.
func join[T any](a, b []T) []T { return append(slices.Clip(slices.Clone(a)), b...) }

// lower is the lower of two limits; one that is not positive is none.
func lower(have, other int) int {
	if other <= 0 {
		return have
	}
	if have <= 0 {
		return other
	}
	return min(have, other)
}
