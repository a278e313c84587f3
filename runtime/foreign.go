package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/extism"
	"github.com/wasmtools/wasmtools/runtime/wasicmd"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// HostFunction is a function that the embedding program offers to Extism
// plugins. Exchange gives it the memory that it shares with them.
type (
	HostFunction = extism.Function
	Exchange     = extism.Exchange
)

// foreign is a module of another kind than our own: an Extism plugin or a WASI
// command. Every call gets a new instance; it implements [Module].
type foreign struct {
	engine    *Engine
	digest    tool.Digest
	about     manifest.Sidecar
	style     style
	limits    Limits
	functions []HostFunction
	code      []byte
	unhook    func() bool // from the engine's life, which closes it too

	once  sync.Once
	ready chan struct{} // closed when runs and err are set
	runs  runner
	err   error

	mu      sync.Mutex
	running int
	closed  bool
}

// style is how a plugin names its tools.
type style int

const (
	bySidecar   style = iota
	byDescribe        // mcp.run: describe and call
	byListTools       // hyper-mcp 2: list_tools and call_tool
)

// runner is a compiled module of one of the kinds.
type runner interface {
	run(*wasihost.Host, manifest.Recipe, *foreign, *hostfuncs.Call) (tool.Result, error)
	Close()
}

// foreignKind tells how a module without a manifest is called; "" if it is
// neither of the kinds.
func foreignKind(s manifest.Summary) manifest.ABIKind {
	switch {
	case extism.Is(s):
		return manifest.Extism
	case wasicmd.Is(s):
		return manifest.Command
	}
	return ""
}

// loadForeign loads a module of another kind. It returns nil if wasm is one of
// our own, or nothing that is known.
//
// A plugin that describes itself is compiled and asked here, without any
// grant; every other module is not run.
func (e *Engine) loadForeign(ctx context.Context, wasm []byte, o LoadOptions) (Module, error) {
	m, err := examineForeign(wasm, o.Sidecar, o.Functions, e.limits)
	if m == nil || err != nil {
		return nil, err
	}
	m.engine = e
	if m.code, err = manifest.Strip(wasm); err != nil {
		return nil, err
	}
	m.mu.Lock() // the function may run at once
	m.unhook = context.AfterFunc(e.life, func() { _ = m.Close() })
	m.mu.Unlock()
	if m.style != bySidecar {
		if err := m.describe(ctx, o.Name); err != nil {
			_ = m.Close()
			return nil, err
		}
	}
	return m, nil
}

// examineForeign finds out what a module is and whether it can be loaded,
// without compiling or running it. It returns nil for one of our own kind.
func examineForeign(wasm, sidecar []byte, functions []HostFunction, l Limits) (*foreign, error) {
	if _, err := manifest.Extract(wasm); err == nil {
		if sidecar != nil {
			return nil, refuse("the module carries a manifest of its own; a sidecar is for modules without one")
		}
		return nil, nil
	}
	s, err := structure(wasm)
	if err != nil {
		return nil, err
	}
	m := &foreign{functions: functions, ready: make(chan struct{}), digest: manifest.Identity(wasm, sidecar)}
	if sidecar != nil {
		if m.about, err = manifest.ParseSidecar(sidecar); err != nil {
			return nil, err
		}
	} else if m.style = styleOf(s); m.style == bySidecar {
		switch foreignKind(s) {
		case manifest.Extism:
			return nil, refuse("an Extism plugin that does not describe its tools").
				WithNext("write a sidecar that does; docs/modules.md shows how")
		case manifest.Command:
			return nil, refuse("a WASI command; nothing says how its tools are called").
				WithNext("write a sidecar; docs/modules.md shows how. If it should be a tool of our own kind, build it as a reactor with a tool SDK")
		}
		return nil, nil
	}
	if m.about.Kind == "" {
		if m.about.Kind = foreignKind(s); m.about.Kind == "" {
			return nil, refuse("the module is neither an Extism plugin nor a WASI command")
		}
	}
	if m.limits, err = l.forModule(m.about.Manifest.Limits, false); err != nil {
		return nil, err
	}
	return m, m.check(s)
}

// foreignDecision is that of plugins and commands.
var foreignDecision = Decision{Why: []string{"snapshots are for modules of the native kind"}}

// Examined is what a module is, as far as that can be told without running it.
type Examined struct {
	Kind     manifest.ABIKind
	Identity tool.Digest
	Manifest *manifest.Manifest // nil for a plugin that describes its tools only when asked
	Decision Decision           // how its calls begin, as far as Decide can tell
}

// Examine reports what a module is with its sidecar, which may be nil, and
// whether this version would load it. It neither compiles nor runs any of it.
// The error is an invalid_module [tool.Error].
func Examine(wasm, sidecar []byte) (Examined, error) {
	l := Limits{}.withDefaults()
	m, err := examineForeign(wasm, sidecar, nil, l)
	switch {
	case err != nil:
		return Examined{Identity: manifest.Identity(wasm, sidecar)}, err
	case m != nil && m.style != bySidecar:
		return Examined{Kind: m.about.Kind, Identity: m.digest, Decision: foreignDecision}, nil
	case m != nil:
		return Examined{Kind: m.about.Kind, Identity: m.digest, Manifest: &m.about.Manifest, Decision: foreignDecision}, nil
	}
	x := Examined{Kind: manifest.Native, Identity: tool.DigestOf(wasm)}
	about, _, err := examine(wasm, l, false)
	if x.Manifest = &about; err == nil {
		x.Decision, err = Decide(wasm)
	}
	return x, err
}

// check compares the module with its kind.
func (m *foreign) check(s manifest.Summary) error {
	if len(s.Memories) > 1 {
		return refuse("the module defines %d memories", len(s.Memories))
	}
	for _, mem := range s.Memories {
		if need := int64(mem.Min) << 16; need > m.limits.MemoryBytes {
			return refuse("the module starts with %d MiB of memory; its limit is %d MiB", need>>20, m.limits.MemoryBytes>>20).
				WithNext("state a higher limit in the sidecar if the runtime allows it")
		}
	}
	exports := map[string]manifest.Export{}
	for _, x := range s.Exports {
		exports[x.Name] = x
	}
	for i, r := range m.about.Recipes {
		name := m.about.Manifest.Tools[i].Name
		if m.about.Kind == manifest.Command {
			if r.Export != "" {
				return refuse("tool %s: a WASI command has no export to choose", name)
			}
			continue
		}
		if len(r.Args) > 0 || len(r.OK) > 0 {
			return refuse("tool %s: an Extism plugin has no arguments and exit codes; use input", name)
		}
		if x, ok := exports[r.Export]; !ok || x.Kind != manifest.KindFunc || len(x.Type.Params) > 0 || len(x.Type.Results) > 1 {
			return refuse("tool %s: the plugin exports no function %q that takes nothing", name, r.Export)
		}
	}
	if m.about.Kind == manifest.Command {
		return wasicmd.Check(s)
	}
	return extism.Check(s, m.functions)
}

// Digest implements [Module].
func (m *foreign) Digest() tool.Digest { return m.digest }

// Manifest implements [Module].
func (m *foreign) Manifest() manifest.Manifest { return m.about.Manifest }

// Prepare implements [Module].
func (m *foreign) Prepare(ctx context.Context) error {
	t := newTerm(ctx, m.engine, maxTime, time.Time{})
	defer t.end()
	_, err := m.compiled(t.context())
	return err
}

// compiled returns the compiled module. The first caller starts the
// compilation; it goes on if that caller leaves, for those that come after.
func (m *foreign) compiled(ctx context.Context) (runner, error) {
	m.once.Do(func() {
		done, err := m.engine.begin()
		if err != nil {
			m.err = err
			close(m.ready)
			return
		}
		go func() {
			defer done()
			defer close(m.ready)
			m.runs, m.err = m.engine.compileForeign(m)
		}()
	})
	select {
	case <-m.ready:
		return m.runs, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// compileForeign compiles a module, or loads it from the cache.
func (e *Engine) compileForeign(m *foreign) (runner, error) {
	kind := m.about.Kind
	r, err := compile(e, compilation[runner]{
		name:   or2(m.about.Manifest.Name, "a module"),
		key:    m.cacheKey(),
		order:  childOrder{Kind: kind, Code: m.code, Digest: m.digest, Limits: m.limits},
		apart:  true,
		shape:  func(ctx context.Context) (*form, error) { return shapeForeign(ctx, kind, m.code) },
		native: nativeForeign,
		build:  m.build,
	})
	m.code = nil // nothing is left to compile
	return r, err
}

// cacheKey names the compiled form by everything that shapes it: the rewriter
// is that of our own modules.
func (m *foreign) cacheKey() string {
	h := sha256.New()
	fmt.Fprintf(h, "wasmtools foreign form %d\n%s\n%s/%s\n%s\n%+v\n",
		formVersion, engineVersion(), goruntime.GOOS, goruntime.GOARCH, m.about.Kind, plan())
	h.Write(m.code)
	return hex.EncodeToString(h.Sum(nil))
}

// shapeForeign makes a foreign module one that can be stopped.
func shapeForeign(ctx context.Context, kind manifest.ABIKind, code []byte) (*form, error) {
	prepare := wasicmd.Prepare
	if kind == manifest.Extism {
		prepare = extism.Prepare
	}
	p, err := prepare(ctx, code)
	return &form{Wasm: p.Code, Quantum: p.Quantum}, err
}

// nativeForeign compiles the module alone: with the SDK's kernel beside it, it
// could not be told which native code is whose.
func nativeForeign(ctx context.Context, f *form, dir string) error {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return err
	}
	defer closeCache(cache)
	return wasihost.Compile(ctx, f.prepared(), cache)
}

func (f *form) prepared() wasihost.Prepared {
	return wasihost.Prepared{Code: f.Wasm, Quantum: f.Quantum}
}

// build compiles a form in an engine of the module's kind. dir is the engine's
// cache folder, "" for none.
func (m *foreign) build(ctx context.Context, f *form, dir string) (r runner, err error) {
	var cache wazero.CompilationCache
	if dir != "" {
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, err
		}
	}
	if m.about.Kind == manifest.Extism {
		var p *extism.Plugin
		if p, err = extism.Compile(ctx, f.prepared(), m.functions, cache); err == nil {
			return &pluginRunner{p, cache}, nil
		}
	} else {
		var p *wasicmd.Program
		if p, err = wasicmd.Compile(ctx, f.prepared(), cache); err == nil {
			return &commandRunner{p, cache}, nil
		}
	}
	closeCache(cache)
	return nil, err
}

// Run implements [Module].
func (m *foreign) Run(ctx context.Context, call *hostfuncs.Call) (r tool.Result, u Usage, err error) {
	if call.Tool < 0 || call.Tool >= len(m.about.Manifest.Tools) {
		return r, u, fmt.Errorf("runtime: module %s has no tool %d", m.about.Manifest.Name, call.Tool)
	}
	name := m.about.Manifest.Tools[call.Tool].Name
	r, u, fault := m.call(ctx, call, func(h *wasihost.Host, runs runner) (tool.Result, error) {
		switch m.style {
		case byDescribe:
			return m.callMCP(h, runs, "call", map[string]any{
				"method": "tools/call", "params": map[string]any{"name": name, "arguments": call.Invocation.Arguments},
			})
		case byListTools:
			return m.callMCP(h, runs, "call_tool", map[string]any{
				"request": map[string]any{"name": name, "arguments": call.Invocation.Arguments},
				"context": map[string]any{"id": call.Invocation.CallID, "_meta": map[string]any{}},
			})
		}
		return runs.run(h, m.about.Recipes[call.Tool], m, call)
	})
	if fault != nil {
		r = failed(fault, call)
	}
	return r, u, nil
}

// failed is the result that stands for a fault, with the module's own words.
func failed(fault *tool.Error, call *hostfuncs.Call) tool.Result {
	r := tool.ErrorResult(fault)
	if said := call.Complaint(); said != "" && (fault.Code == tool.Trap || fault.Code == tool.MemoryLimit) {
		if r.Details == nil {
			r.Details = map[string]any{}
		}
		r.Details["stderr"] = said
	}
	return r
}

// callMCP calls a plugin that speaks of tools as MCP does.
func (m *foreign) callMCP(h *wasihost.Host, runs runner, export string, request any) (tool.Result, error) {
	input, err := json.Marshal(request)
	if err != nil {
		return tool.Result{}, err
	}
	out, err := m.ask(h, runs, export, input)
	if err != nil {
		return tool.Result{}, err
	}
	return answer(manifest.AnswerMCP, out)
}

// ask calls one function of a plugin.
func (m *foreign) ask(h *wasihost.Host, runs runner, export string, input []byte) ([]byte, error) {
	return runs.(*pluginRunner).plugin.Run(h, extism.Call{
		Export: export, Input: input, Config: m.about.Config, Mount: m.about.Mount, Limit: h.Call.Limits.OutputBytes,
	})
}

// call runs body with a host of its own. It is the frame of every run of a
// foreign guest.
func (m *foreign) call(ctx context.Context, call *hostfuncs.Call, body func(*wasihost.Host, runner) (tool.Result, error)) (r tool.Result, u Usage, fault *tool.Error) {
	done, err := m.engine.begin()
	if err != nil {
		return r, u, tool.AsError(err)
	}
	defer done()
	wait := newTerm(ctx, m.engine, maxTime, call.Invocation.Deadline)
	defer wait.end()
	key := toolKey{m.digest, call.Tool}
	if err := m.engine.admit.enter(wait.context(), key, m.limits.Concurrency); err != nil {
		return r, u, tool.AsError(err)
	}
	defer m.engine.admit.leave(key)
	runs, err := m.compiled(wait.context())
	if err == nil {
		err = m.enter()
	}
	if err != nil {
		return r, u, tool.AsError(err)
	}
	defer m.leave()

	cutLimits(&call.Limits, m.limits)
	term := newTerm(ctx, m.engine, m.limits.Time, call.Invocation.Deadline)
	defer term.end()
	began := time.Now()
	h := wasihost.New(term.context(), call)
	defer h.Memory.Free()
	defer h.End()
	func() {
		defer wasihost.Recover(&err)
		r, err = body(h, runs)
	}()
	used := call.Used()
	u = Usage{
		MemoryPeak: h.Memory.Peak(), Fuel: h.Fuel(), HostCalls: used.HostCalls, BytesRead: used.BytesRead,
		OutputBytes: int64(len(r.PlainText()) + len(r.Structured)), Duration: time.Since(began),
	}
	if fault = h.Outcome(foreignFault(err)); fault != nil {
		r = tool.Result{}
		if no := h.Refusal(); no != nil && fault.Code == tool.Trap {
			fault.With("refused", no.Error())
		}
	}
	return r, u, fault
}

// cutLimits fills in a call's limits and cuts them to the module's.
func cutLimits(l *hostfuncs.Limits, top Limits) {
	for _, f := range []struct {
		have *int64
		top  int64
	}{
		{&l.MemoryBytes, top.MemoryBytes}, {&l.OutputBytes, top.OutputBytes},
		{&l.HostCalls, top.HostCalls}, {&l.NoteBytes, top.NoteBytes},
	} {
		if *f.have <= 0 || *f.have > f.top {
			*f.have = f.top
		}
	}
	if l.NotesPerSec <= 0 || l.NotesPerSec > top.NotesPerSec {
		l.NotesPerSec = top.NotesPerSec
	}
}

func (m *foreign) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	m.running++
	return nil
}

func (m *foreign) leave() {
	m.mu.Lock()
	m.running--
	last := m.closed && m.running == 0
	m.mu.Unlock()
	if last {
		m.free()
	}
}

// Close implements [Module].
func (m *foreign) Close() error {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	idle := m.running == 0
	unhook := m.unhook
	m.mu.Unlock()
	if !was {
		unhook() // or the engine would hold it as long as it lives
	}
	if !was && idle {
		m.free()
	}
	return nil
}

// free closes the compiled form. No instance of it is left.
func (m *foreign) free() {
	m.once.Do(func() {
		m.err = errClosed
		close(m.ready)
	})
	<-m.ready
	if m.runs != nil {
		m.runs.Close()
	}
}
