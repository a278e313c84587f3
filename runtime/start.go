package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
)

// snapshot is the state in which a module's calls begin.
type snapshot struct {
	memory  []byte // copied; with size bytes, zeroes at its end included
	size    uint64
	globals []uint64 // in the order of rewrite.Info.Globals
	clock   int64
	warm    bool
}

// What making a snapshot may take, as others wait to be compiled meanwhile: a Go
// guest with regexp and encoding/json initialises in 50 ms and answers in 5.
const (
	startTime = 5 * time.Second
	warmTime  = time.Second
)

// slowness is how much longer the interpreter takes: what its own limit would
// stop in a call need not be waited for.
const slowness = 20

// dawn is what the wall clock shows while a snapshot is made: a time that is in
// the past wherever the snapshot is used.
var dawn = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// outset is the world of a guest that is being initialised. It is the same in
// every run, so that the same module always gets the same snapshot: clocks
// advance only by being looked at and by sleeping, and randomness is a sequence
// that belongs to the module and this installation.
type outset struct {
	now     int64 // nanoseconds since the clocks began
	entropy *rand.ChaCha8
}

// look advances the clocks by what a look at them takes.
func (o *outset) look() int64 {
	o.now += int64(clockGrain)
	return o.now
}

func (e *Engine) newOutset(d tool.Digest) *outset {
	h := sha256.New()
	fmt.Fprintf(h, "wasmtools outset 1\n%s\n", d)
	h.Write(e.seed)
	return &outset{entropy: rand.NewChaCha8([sha256.Size]byte(h.Sum(nil)))}
}

// interpreter makes an engine that runs a module without compiling it: it takes
// a tenth of the time to be ready, and it is Go code, which a context stops
// wherever it is.
func interpreter(ctx context.Context) wazero.Runtime {
	return wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false))
}

// validate has the engine judge the original.
func (e *Engine) validate(ctx context.Context, code []byte) error {
	r := interpreter(ctx)
	defer r.Close(context.Background())
	_, err := r.CompileModule(ctx, code)
	return invalidModule(err)
}

// start runs a module up to where its calls are to begin. It is the original
// but for names of its globals, so that the engine judges it on the way. An
// error means that the engine does not accept it; a module that cannot be
// frozen gives nil, and f's decision says why.
func (e *Engine) start(ctx context.Context, m *module, original *rewrite.Module, f *form) (*snapshot, error) {
	info, err := rewrite.Instrument(original, rewrite.Plan{ExportGlobals: true, TableMax: maxTable, DropDebug: true})
	if err != nil {
		return nil, err
	}
	r := interpreter(ctx)
	defer r.Close(context.Background())
	compiled, err := r.CompileModule(ctx, original.Encode())
	if err != nil {
		return nil, invalidModule(err)
	}
	if err := instantiateHost(ctx, r, f.Imports); err != nil {
		return nil, tool.Errorf(tool.Internal, "the host functions could not be set up").Because(err)
	}
	g := &starting{engine: e, module: m, runtime: r, compiled: compiled, form: f, info: info}
	s, err := g.run(ctx, false)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.Decision.Why = []string{"its initialisation cannot be frozen: " + clip(firstLine(err))}
		return nil, nil
	}
	warm, err := g.run(ctx, true)
	if err != nil {
		f.Decision.Why = []string{"not warmed up: " + clip(firstLine(err))}
		return s, nil
	}
	return warm, nil
}

// starting makes snapshots of one module.
type starting struct {
	engine   *Engine
	module   *module
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	form     *form
	info     rewrite.Info
}

// run initialises an instance and, if warm, has it answer a request, with no
// grant, no workspace and no sink. What it then is, is the snapshot.
func (g *starting) run(ctx context.Context, warm bool) (_ *snapshot, err error) {
	l := &lease{call: &hostfuncs.Call{}, term: newTerm(ctx, g.engine, min(startTime, slowness*g.module.limits.Time), time.Time{}), outset: g.engine.newOutset(g.module.codeDigest())}
	defer func() { l.term.end() }()
	g.module.limit(l.call)
	limit := min(uint64(l.call.Limits.MemoryBytes), g.form.MaxBytes)
	if g.form.MinBytes > limit {
		return nil, fmt.Errorf("it starts with more memory than it may have")
	}
	if l.memory, err = linmem.New(limit, nil); err != nil {
		return nil, err
	}
	defer l.memory.Free()
	runCtx := context.WithValue(l.term.context(), seatKey{}, &seat{l})
	l.guest, err = g.runtime.InstantiateModule(experimental.WithMemoryAllocator(runCtx, allocator{l.memory}), g.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, err
	}
	defer l.guest.Close(context.Background())
	l.ctx = runCtx
	if init := l.guest.ExportedFunction("_initialize"); init != nil {
		if _, err := init.Call(runCtx); err != nil {
			return nil, err
		}
	}
	if warm {
		l.term.end()
		l.term = newTerm(ctx, g.engine, min(warmTime, slowness*g.module.limits.Time), time.Time{})
		l.ctx = context.WithValue(l.term.context(), seatKey{}, &seat{l})
		if err := l.warmUp(); err != nil {
			return nil, err
		}
	}
	s := &snapshot{warm: warm, clock: l.monotonic()}
	mem, ok := l.guest.Memory().Read(0, l.guest.Memory().Size())
	if !ok {
		return nil, errors.New("its memory cannot be read")
	}
	s.memory, s.size = bytes.Clone(mem), uint64(len(mem))
	for _, x := range g.info.Globals {
		s.globals = append(s.globals, l.guest.ExportedGlobal(x.Name).Get())
	}
	return s, nil
}

// warmUp sends a request to the first tool that any tool refuses: without
// arguments. A module that asks the host for files meanwhile, or answers what is
// no result, is not warmed up.
func (l *lease) warmUp() error {
	req, err := encodeRequest(tool.Invocation{CallID: "warm-up", Arguments: []byte("{}")}, 0, time.Time{})
	if err != nil {
		return err
	}
	raw, err := l.run(req, l.call.Limits.OutputBytes)
	if err != nil {
		return err
	}
	_, err = parseResponse(raw)
	return err
}
