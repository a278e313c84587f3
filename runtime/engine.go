package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// Options shape an [Engine]. The zero value works, without a cache.
type Options struct {
	CacheDir string // compiled forms, below the user's cache folder; "" = none
	StateDir string // the key that authenticates them, and scratch space; "" = no cache
	Limits   Limits

	// CompileChild are the arguments that start a process which calls
	// [CompileMain] and nothing else; the first is an absolute path, or found in
	// PATH. Strangers' modules are then compiled there, within limits of time and
	// memory. Empty means in this process, within what can be estimated before.
	CompileChild []string

	// Notice takes remarks for a person, one line each: a slow first compile, a
	// cache that is not used. It may be nil; it must be safe for concurrent use.
	Notice func(string)
}

// Engine loads modules and runs their calls. It is safe for concurrent use.
type Engine struct {
	limits  Limits
	notice  func(string)
	cache   *cache
	admit   *admission
	pool    *pool
	compile chan struct{} // as many as may compile at once
	child   []string      // to compile in; empty for none
	seed    []byte        // of what modules draw at random while they start

	day func(time.Time) time.Time // what the wall clock says at a time; tests set others

	life context.Context // ends when the engine closes
	end  context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	modules map[*module]struct{}
	busy    sync.WaitGroup // calls and compilations
}

var errClosing = tool.Errorf(tool.Cancelled, "the runtime is closing")

// New makes an Engine. The error is one of the options; a cache that cannot be
// used is told through Notice and done without. ctx bounds nothing but New.
func New(_ context.Context, o Options) (*Engine, error) {
	e := &Engine{
		limits:  o.Limits.withDefaults(),
		notice:  o.Notice,
		child:   o.CompileChild,
		compile: make(chan struct{}, max(1, goruntime.NumCPU()/2)),
		modules: map[*module]struct{}{},
		day:     func(now time.Time) time.Time { return now },
	}
	if e.notice == nil {
		e.notice = func(string) {}
	}
	if e.limits.MemoryBytes > maxMemory || e.limits.OutputBytes > maxOutput || e.limits.Time > maxTime || e.limits.CompileMemory > maxCompileMemory {
		return nil, fmt.Errorf("runtime: limits are above %d MiB of memory, %d MiB of output, %s, or %d MiB to compile", maxMemory>>20, maxOutput>>20, maxTime, maxCompileMemory>>20)
	}
	e.admit = newAdmission(e.limits.Total, e.limits.Queue)
	e.pool = &pool{instances: defaultWarm, bytes: warmBytes}
	e.life, e.end = context.WithCancelCause(context.Background())
	if o.CacheDir != "" && o.StateDir != "" {
		var err error
		if e.cache, err = openCache(o.CacheDir, o.StateDir); err != nil {
			e.notice(fmt.Sprintf("compiled modules are not kept: %v", err))
		} else {
			e.seed = e.cache.seed()
		}
	}
	return e, nil
}

// closeGrace is how long Close waits for guests that were told to stop. They
// stop within milliseconds, but for the edge that the package comment names.
const closeGrace = 5 * time.Second

// Close stops running guests and gives everything back. Calls in flight end
// with cancelled. Close returns an error if a guest did not stop; its memory is
// then left to it, because taking it would crash the process.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	modules := make([]*module, 0, len(e.modules))
	for m := range e.modules {
		modules = append(modules, m)
	}
	e.mu.Unlock()
	e.end(errClosing)

	idle := make(chan struct{})
	go func() {
		e.busy.Wait()
		close(idle)
	}()
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
		return errors.New("runtime: a module did not stop")
	}
	e.pool.close()
	var errs []error
	for _, m := range modules {
		errs = append(errs, m.Close())
	}
	e.cache.close()
	return errors.Join(errs...)
}

// begin counts something that Close waits for; done must be called.
func (e *Engine) begin() (done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosing
	}
	e.busy.Add(1)
	return e.busy.Done, nil
}

// LoadOptions say how a module is loaded.
type LoadOptions struct {
	// Trusted is for modules that are part of this program: they may state
	// limits above the engine's. Load believes what they say about themselves
	// and keeps their bytes; they are checked, like all others, before they are
	// compiled.
	Trusted bool

	// Digest is the identity of a trusted module where it is known already.
	// Empty means that Load computes it.
	Digest tool.Digest

	// Sidecar says what a manifest would say, for a module of another kind. It is
	// part of the module's identity. Nil: there is none.
	Sidecar []byte

	// Name is that of a plugin that describes its tools but not itself.
	Name string

	// Functions are offered to Extism plugins, beside those that all get.
	Functions []HostFunction
}

// Load checks a module and its manifest or sidecar, and neither compiles nor
// runs it, but for a plugin that describes itself: it is asked. The
// error is a [tool.Error] with invalid_module. Load keeps no reference to wasm,
// unless the module is trusted: then its bytes must not change.
func (e *Engine) Load(ctx context.Context, wasm []byte, o LoadOptions) (Module, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Trusted {
		return e.loadTrusted(wasm, o.Digest)
	}
	if m, err := e.loadForeign(ctx, wasm, o); m != nil || err != nil {
		return m, err
	}
	about, limits, err := examine(wasm, e.limits, false)
	if err != nil {
		return nil, err
	}
	code, err := manifest.Strip(wasm)
	if err != nil {
		return nil, err
	}
	return e.add(&module{digest: tool.DigestOf(wasm), manifest: about, code: code, limits: limits})
}

// loadTrusted reads the manifest of a module of ours, and no more: every start
// of the program waits for it. A test checks the modules that are built in as
// if they were a stranger's.
func (e *Engine) loadTrusted(wasm []byte, d tool.Digest) (Module, error) {
	raw, err := manifest.Extract(wasm)
	if err != nil {
		return nil, err
	}
	m := &module{digest: d, code: wasm, trusted: true}
	if err := json.Unmarshal(raw, &m.manifest); err != nil {
		return nil, refuse("the manifest cannot be read").Because(err)
	}
	if m.limits, err = e.limits.forModule(m.manifest.Limits, true); err != nil {
		return nil, err
	}
	m.limits.Compile *= 10 // a slow machine must not lose the built-in tools
	if m.digest == "" {
		m.digest = tool.DigestOf(wasm)
	}
	return e.add(m)
}

// add makes m one of the engine's modules.
func (e *Engine) add(m *module) (*module, error) {
	m.engine = e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosing
	}
	e.modules[m] = struct{}{}
	return m, nil
}

// Module is a loaded module. It is safe for concurrent use.
type Module interface {
	// Digest is the module's identity: the SHA-256 of its bytes as given.
	Digest() tool.Digest

	// Manifest is what the module says about itself. It must not be changed.
	Manifest() manifest.Manifest

	// Run runs one call in a sandbox of its own. Whatever the guest does is a
	// result; an error means that the caller asked for what cannot be. Zero
	// limits of the call mean the module's.
	Run(context.Context, *hostfuncs.Call) (tool.Result, Usage, error)

	// Prepare compiles the module if that has not happened yet.
	Prepare(context.Context) error

	// Close gives the compiled form back, once the calls in flight have ended.
	Close() error
}

// Usage is what a call took.
type Usage struct {
	MemoryPeak  int64 // bytes of linear memory
	Fuel        int64 // units of work, the same in every run of the same module with the same input
	HostCalls   int64
	BytesRead   int64 // from files
	OutputBytes int64 // of the response
	Duration    time.Duration
}
