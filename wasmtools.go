package wasmtools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/rank"
	"github.com/wasmtools/wasmtools/catalog/todo"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/hostfuncs/kvstore"
	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/skill"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
	"github.com/wasmtools/wasmtools/workspace"
)

// Options say what a [Runtime] may touch. Only Workspaces is needed.
type Options struct {
	// Workspaces are the directory trees that turns can be bound to. The first
	// one is the default.
	Workspaces []Workspace

	// Sources add tools to the built-in ones, after them in every list. Those that
	// are an [io.Closer] are closed with the runtime, also if Open fails.
	Sources []catalog.Source

	// Skills are folders of instructions that a person has named; nil means none.
	// They are closed with the runtime.
	Skills *skill.Set

	// Ranker orders tools by a turn's request, where more are left than fit in a
	// list. Nil means package rank's own, which needs nothing.
	Ranker catalog.Ranker

	// Deferral says when tools are left to be found by search, and Pins which tools
	// are always shown, besides the built-in and native ones.
	Deferral catalog.DeferralOptions
	Pins     []string

	// Modules adds the tools of WebAssembly modules, with what each tool is
	// granted. Each module runs in the sandbox, whatever it says about itself.
	Modules []Module

	// Approvers are asked about every call that changes something. With none,
	// such a call answers approval_required and its ticket waits for
	// [Runtime.Decide].
	Approvers []approval.Approver

	// ApprovalTTL bounds how long a ticket waits; 0 means [approval.TTL].
	ApprovalTTL time.Duration

	// Rules keeps rules that a person saves with an answer; nil means that none
	// can be saved.
	Rules RuleKeeper

	// StateDir and CacheDir hold locks, keys, what modules keep and outputs that
	// are too long to be shown, and compiled modules, which need both: their
	// authenticity hangs on a key among the state. Empty means that locks hold
	// only within this process, that nothing is kept, and that every process
	// compiles anew.
	StateDir, CacheDir string

	// Private are more folders of this program, and files, that no tool may see
	// even if they lie in a workspace: its configuration, its sockets.
	Private []string

	// Limits bound what one call of a module may use.
	Limits Limits

	// HTTP fetches for tools that were granted hosts. Nil means this package's
	// own client, which checks every address on every hop, with Secrets.
	HTTP hostfuncs.Fetcher

	// Secrets gives the value of a secret that a grant names for a host; nil
	// means that none is set. It must be safe for concurrent use.
	Secrets func(name string) (string, error)

	// Hidden gives values that may stand in no artifact: those of all secrets.
	// What looks like a secret by its form is left out besides. It must be safe
	// for concurrent use; nil means none.
	Hidden func() []string

	// Env gives the variables that a grant names; nil means those of this
	// process.
	Env func(name string) (string, bool)

	// Terminal lets models run commands; nil lets them run none.
	Terminal *Terminal

	// Budget says how much of a result is shown; it is asked at every call, so that
	// it can change while the runtime is open. It must be fast and safe for
	// concurrent use. Nil means the defaults of package budget.
	Budget func() budget.Gates

	// Artifacts bounds what is kept of results that are not shown whole.
	Artifacts artifact.Options

	// Undo bounds what is kept of what commits take away, below StateDir, so that
	// it can be put back; see [Runtime.Files].
	Undo workspace.JournalOptions

	// CompileChild are the arguments that start a process which calls
	// runtime.CompileMain and nothing else: [Options.Modules] are then compiled
	// there, within limits of time and memory. Empty means in this process.
	CompileChild []string

	// Notice takes remarks for a person (slow first compile, cache refused). It
	// may be called concurrently. Nil drops them.
	Notice func(string)
}

// Workspace names a directory tree.
type Workspace struct {
	Name string // "" means "default"
	Dir  string

	// Policy gives the rules that calls are judged by; it is asked at every call,
	// so that a file that changed can tighten what holds. It must be fast and safe
	// for concurrent use. Nil means no rules: reading is allowed, everything else
	// is asked about, and tickets wait for [Runtime.Decide].
	Policy func() policy.Policy

	// Evidence takes the record of what happens here; nil keeps none. See package
	// evidence for the one that can be verified.
	Evidence evidence.Sink

	// DenyRead and Protect add to the built-in lists of secret and of protected
	// paths, AllowRead takes paths off the former; see package workspace.
	DenyRead, Protect, AllowRead []workspace.Rule

	// Lists gives DenyRead and Protect anew before each call, so that a file that
	// changed can add to them; rules are never taken away while the runtime is
	// open. It must be fast and safe for concurrent use. Nil adds nothing.
	Lists func() (denyRead, protect []workspace.Rule)

	// Tools says which tools are left; it is asked at every Begin. Nil leaves all.
	Tools func(name string) bool

	// RequireRead refuses to overwrite a file as a whole that the session has not
	// read. One that was read and has changed since is refused in any case.
	RequireRead bool

	// AllowHardLinks lets files be written that have more than one name, of which
	// one may stand outside.
	AllowHardLinks bool
}

// RuleKeeper keeps the rules that a person saves with an answer. It must be
// safe for concurrent use.
type RuleKeeper interface {
	// Offer gives the rule in the form in which it would be saved, to be shown
	// first. It returns false if it cannot be saved.
	Offer(policy.Rule) (approval.Rule, bool)
	// Save keeps a rule that was offered and that d agreed to.
	Save(approval.Rule, approval.Decision) error
}

// Module is a module given by its bytes, with the grants of its tools. A tool
// without a grant gets nothing.
type Module struct {
	Code []byte

	// Sidecar describes a module that carries no manifest: an Extism plugin or a
	// WASI command (docs/modules.md). It is part of the module's identity.
	Sidecar []byte

	// Name is that of a plugin that describes its tools but not itself.
	Name string

	Grants map[string]hostfuncs.Grant // by tool
	Grant  []string                   // more of them, as --grant takes them; see manifest.Grants

	// Functions are offered to an Extism plugin, beside those that all get.
	Functions []HostFunction
}

// HostFunction is a function of the embedding program that an Extism plugin can
// import, and Exchange the memory that they share.
type (
	HostFunction = runtime.HostFunction
	Exchange     = runtime.Exchange
)

// Runtime holds workspaces, modules and sources. It is safe for concurrent use.
type Runtime struct {
	session string
	skills  *skill.Set
	desk    *approval.Desk
	engine  *runtime.Engine
	core    runtime.Module
	sources []catalog.Source
	lists   catalog.Options
	changed chan struct{} // something did, see Changed
	unwatch context.CancelFunc
	spaces  []*space
	host    *proctree.Host // of commands; nil: none run
	rules   RuleKeeper
	gates   func() budget.Gates
	notice  func(string)
	turns   atomic.Uint64
	calls   atomic.Uint64
}

// space is one opened workspace with the sources that are bound to it.
type space struct {
	name     string
	files    *workspace.Workspace
	seen     *workspace.Seen
	registry *catalog.Registry
	archive  *archive // nil: long outputs are not kept

	commands *commands // nil: none run

	policy   func() policy.Policy
	lists    func() (denyRead, protect []workspace.Rule)
	evidence evidence.Sink

	checks      sync.Map // tool name -> argument checker
	definitions sync.Map // tool name -> digest of its definition
}

// Open opens the workspaces and reads the modules' manifests. It compiles
// nothing: a module is compiled at its first call. The context is used for
// opening only. Close the runtime when it is not needed any more.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	r := &Runtime{
		session: newID(),
		desk:    approval.NewDesk(o.Approvers, o.ApprovalTTL),
		sources: o.Sources,
		skills:  o.Skills,
		lists:   catalog.Options{Deferral: o.Deferral, Pins: o.Pins},
		rules:   o.Rules,
		gates:   o.Budget,
		notice:  o.Notice,
	}
	if r.gates == nil {
		r.gates = func() budget.Gates { return budget.Gates{} }
	}
	if r.notice == nil {
		r.notice = func(string) {}
	}
	opened := false
	defer func() {
		if !opened {
			_ = r.Close()
		}
	}()
	if len(o.Workspaces) == 0 {
		return nil, errors.New("wasmtools: Options.Workspaces is empty")
	}
	var err error
	r.engine, err = runtime.New(ctx, runtime.Options{CacheDir: o.CacheDir, StateDir: o.StateDir, Limits: o.Limits.engine(), Notice: o.Notice, CompileChild: o.CompileChild})
	if err != nil {
		return nil, err
	}
	if r.core, err = r.engine.Load(ctx, toolswasm.Core(), runtime.LoadOptions{Trusted: true, Digest: toolswasm.CoreDigest()}); err != nil {
		return nil, fmt.Errorf("the built-in tools: %w", err)
	}
	modules := make([]runtime.Module, len(o.Modules))
	grants := make([]map[string]hostfuncs.Grant, len(o.Modules))
	for i, m := range o.Modules {
		if modules[i], err = r.engine.Load(ctx, m.Code, runtime.LoadOptions{Sidecar: m.Sidecar, Name: m.Name, Functions: m.Functions}); err != nil {
			return nil, err
		}
		if grants[i], err = m.granted(modules[i].Manifest()); err != nil {
			return nil, err
		}
	}
	if o.Terminal != nil {
		if o.StateDir == "" {
			return nil, errors.New("wasmtools: Options.Terminal needs Options.StateDir")
		}
		r.host = proctree.Open(proctree.Options{})
	}
	if o.HTTP == nil {
		o.HTTP = fetcher{httpfetch.New(httpfetch.Options{Secrets: o.Secrets})}
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	shows := &media{engine: r.engine}
	list := todo.New()
	for _, w := range o.Workspaces {
		s := &space{name: w.Name, policy: w.Policy, lists: w.Lists, evidence: w.Evidence}
		if s.policy == nil {
			s.policy = func() policy.Policy { return policy.Policy{Headless: policy.HeadlessQueue} }
		}
		if s.evidence == nil {
			s.evidence = evidence.Discard{}
		}
		if s.name == "" {
			s.name = "default"
		}
		for _, other := range r.spaces {
			if other.name == s.name {
				return nil, fmt.Errorf("wasmtools: two workspaces are named %q", s.name)
			}
		}
		s.files, err = workspace.Open(w.Dir, workspace.Options{
			StateDir: o.StateDir, Deny: append([]string{o.StateDir, o.CacheDir}, o.Private...),
			DenyRead: w.DenyRead, Protect: w.Protect, AllowRead: w.AllowRead, AllowHardLinks: w.AllowHardLinks,
			Journal: o.Undo, Notice: r.notice,
		})
		if err != nil {
			return nil, err
		}
		s.seen = workspace.NewSeen(w.RequireRead)
		r.spaces = append(r.spaces, s)
		for _, private := range append([]string{o.StateDir, o.CacheDir}, o.Private...) {
			if private != "" && within(s.files.RealPath(), private) {
				return nil, fmt.Errorf("wasmtools: the workspace %s lies in a folder of the program's own, %s", w.Dir, private)
			}
		}
		s.archive = o.archive(r.core, s.files)
		builtin := runtime.Tools(r.core, runtime.ToolOptions{
			Source: tool.Builtin, Workspace: s.files, Seen: s.seen, Grant: requested(r.core.Manifest()),
		})
		for i, t := range builtin {
			if t.Definition().Name == "read_open" {
				t = mediaReader{t, shows, s.files}
			}
			if slices.Contains(readers, t.Definition().Name) {
				builtin[i] = archiveReader{skillReader{t, r.core, o.Skills}, s.archive}
			}
		}
		core := make([]catalog.Entry, len(builtin))
		for i, t := range builtin {
			core[i] = catalog.Entry{Tool: t, Available: true, Aliases: alias.Names(t.Definition().Name)}
		}
		sources := []catalog.Source{catalog.Fixed("builtin", core...)}
		for i, m := range modules {
			sources = append(sources, catalog.Static(m.Manifest().Name, runtime.Tools(m, runtime.ToolOptions{
				Source: tool.Installed, Workspace: s.files, Seen: s.seen,
				Grant: func(name string) hostfuncs.Grant { return grants[i][name] },
				HTTP:  o.HTTP, Env: o.Env, KV: o.kv(m, s.files),
			})...))
		}
		if o.Terminal != nil {
			s.commands = o.commands(s, r.host)
			sources = append(sources, s.commands.source())
		}
		sources = append(sources, catalog.Static("todo", list), o.Skills.Source())
		sources = append(sources, o.Sources...)
		if w.Tools != nil {
			for i := range sources {
				sources[i] = narrowed{sources[i], w.Tools}
			}
		}
		if o.Ranker == nil {
			o.Ranker = rank.New(rank.Options{})
		}
		s.registry = catalog.NewRegistry(o.Ranker, sources...)
		if _, err := s.registry.Snapshot(); err != nil {
			return nil, err
		}
	}
	r.watch()
	opened = true
	return r, nil
}

// within reports whether the real path lies in dir, wherever dir really is.
func within(real, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false // not there, so nothing lies in it
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, real)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// kv is what a module keeps in a workspace between calls; nil without a folder.
func (o Options) kv(m runtime.Module, w *workspace.Workspace) hostfuncs.Store {
	if o.StateDir == "" {
		return nil
	}
	return kvstore.Open(filepath.Join(o.StateDir, "kv")).Store(m.Digest(), w.RealPath())
}

// granted is what each tool of m may do.
func (m Module) granted(about manifest.Manifest) (map[string]hostfuncs.Grant, error) {
	all, err := manifest.Grants(about, m.Grant)
	if err != nil {
		return nil, err
	}
	for name, g := range m.Grants {
		if field, why, ok := g.Check(); !ok {
			return nil, fmt.Errorf("wasmtools: the grant of %s: %s: %s", name, field, why)
		}
		all[name] = all[name].And(g)
	}
	return all, nil
}

// Prepare compiles the built-in module now, or loads it from the cache, so that
// the first call does not wait for it, and ends what terminals of killed
// processes have left. Calling it is never necessary.
func (r *Runtime) Prepare(ctx context.Context) error {
	for _, s := range r.spaces {
		if s.commands != nil {
			_, _ = s.commands.open() // a command would meet the same error, and say it
		}
	}
	return r.core.Prepare(ctx)
}

// requested grants every tool of m what it asks for. It is for the built-in
// modules only, whose bytes are part of this program.
func requested(m manifest.Manifest) func(string) hostfuncs.Grant {
	return func(name string) hostfuncs.Grant {
		for _, t := range m.Tools {
			if t.Name == name {
				return t.Capabilities
			}
		}
		return hostfuncs.Grant{}
	}
}

// Close stops running guests, ends what waits for a decision, and closes the
// workspaces. Calls in flight end with cancelled. Sinks of evidence are their
// owner's to close, afterwards.
func (r *Runtime) Close() error {
	var errs []error
	if r.unwatch != nil {
		r.unwatch()
	}
	r.desk.Close()
	errs = append(errs, r.closeTerminals(), r.closeSources(), r.skills.Close())
	if r.engine != nil {
		errs = append(errs, r.engine.Close())
	}
	for _, s := range r.spaces {
		errs = append(errs, s.files.Close(), s.archive.close())
	}
	return errors.Join(errs...)
}

// Files are those of a workspace, by its name; "" is the first. What they offer
// beyond the tools is the journal: what was committed, by which call, undo,
// checkpoints and changes. Nobody is asked about what is done there.
func (r *Runtime) Files(name string) (*workspace.Workspace, error) {
	for i, s := range r.spaces {
		if s.name == name || name == "" && i == 0 {
			return s.files, nil
		}
	}
	return nil, fmt.Errorf("wasmtools: no workspace is named %q", name)
}

// Decide answers a ticket from outside the approvers, for instance from another
// window. It returns [approval.ErrAnswered] or [approval.ErrExpired] when it
// came too late.
func (r *Runtime) Decide(ticket string, d approval.Decision) error {
	return r.desk.Decide(ticket, d)
}

// Facts are what a turn is frozen with.
type Facts = catalog.Facts

// Begin freezes the facts of one model step and the list of its tools.
func (r *Runtime) Begin(_ context.Context, f Facts) (*Turn, error) {
	s := r.spaces[0]
	if f.Workspace != "" {
		s = nil
		for _, have := range r.spaces {
			if have.name == f.Workspace {
				s = have
			}
		}
		if s == nil {
			return nil, fmt.Errorf("wasmtools: no workspace is named %q", f.Workspace)
		}
	}
	snapshot, err := s.registry.Snapshot()
	if err != nil {
		return nil, err
	}
	list, err := catalog.Plan(snapshot, f, r.lists)
	if err != nil {
		return nil, fmt.Errorf("wasmtools: %w", err)
	}
	return &Turn{rt: r, space: s, list: list, id: fmt.Sprintf("t%d", r.turns.Add(1))}, nil
}

// Health is one thing that holds, or does not, on this machine.
type Health struct {
	What   string
	OK     bool
	Detail string
}

// Health says how each workspace is bounded and whether compiled modules can
// be kept. Details may name paths of the host: they are for a person.
func (r *Runtime) Health() []Health {
	var list []Health
	for _, s := range r.spaces {
		list = append(list, Health{"workspace", true, fmt.Sprintf("%s, bounded by %s", s.files.RealPath(), s.files.Mechanism())})
		if commits, bytes, ok := s.files.Kept(); ok {
			list = append(list, Health{"undo", true, fmt.Sprintf("%d commits and checkpoints, %.1f MiB kept for them", commits, float64(bytes)/(1<<20))})
		} else {
			list = append(list, Health{"undo", true, "nothing is kept, so nothing can be undone"})
		}
	}
	cached, detail := r.engine.CacheState()
	return append(list, Health{"cache", cached, detail})
}

// effects are those that somebody has to agree to.
const effects = tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork

// definition is the digest of what a tool says about itself, computed once.
func (s *space) definition(d tool.Definition) tool.Digest {
	if len(d.Input) == 0 {
		return "" // no such tool
	}
	type made struct {
		input  string
		digest tool.Digest
	}
	if v, ok := s.definitions.Load(d.Name); ok && v.(made).input == string(d.Input) {
		return v.(made).digest
	}
	digest := evidence.DefinitionDigest(d)
	s.definitions.Store(d.Name, made{string(d.Input), digest})
	return digest
}
