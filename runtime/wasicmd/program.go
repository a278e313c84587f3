// Package wasicmd runs WASI commands: programs with arguments, standard input,
// standard output and an exit code. What they find is package wasihost's.
package wasicmd

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// Is reports whether a module is a WASI command.
func Is(s manifest.Summary) bool {
	for _, e := range s.Exports {
		if e.Name == "_start" && e.Kind == manifest.KindFunc {
			return true
		}
	}
	return false
}

// Check compares what a command imports with what is there.
func Check(s manifest.Summary) error {
	for _, im := range s.Imports {
		if im.Kind != manifest.KindFunc || !wasihost.Offered(im) {
			return tool.Errorf(tool.InvalidModule, "the module imports the %s %q of %q, which WASI commands do not get here", im.Kind, im.Name, im.Module).
				WithNext("build it for wasip1, without other imports")
		}
	}
	return nil
}

// Program is a compiled command. It is safe for concurrent use.
type Program struct {
	engine   wazero.Runtime
	compiled wazero.CompiledModule
	quantum  int32
}

// Prepare makes a command that was checked one that can be stopped.
func Prepare(ctx context.Context, wasm []byte) (wasihost.Prepared, error) {
	return wasihost.Prepare(ctx, wasm, wasihost.Redirects())
}

// Compile compiles a command. cache may be nil.
func Compile(ctx context.Context, prepared wasihost.Prepared, cache wazero.CompilationCache) (_ *Program, err error) {
	defer wasihost.Recover(&err)
	p := &Program{engine: wazero.NewRuntimeWithConfig(ctx, wasihost.RuntimeConfig(cache)), quantum: prepared.Quantum}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if _, err := wasi_snapshot_preview1.Instantiate(wasihost.Guarding(ctx), p.engine); err != nil {
		return nil, err
	}
	if err := instantiateOwn(ctx, p.engine); err != nil {
		return nil, err
	}
	if p.compiled, err = p.engine.CompileModule(wasihost.Compiling(ctx), prepared.Code); err != nil {
		return nil, wasihost.NotCompiled(ctx, err)
	}
	return p, nil
}

// instantiateOwn makes the functions that are ours.
func instantiateOwn(ctx context.Context, r wazero.Runtime) error {
	i32 := []api.ValueType{api.ValueTypeI32}
	if _, err := r.NewHostModuleBuilder(rewrite.Yield.Module).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
			wasihost.Yield(ctx)
			stack[0] = 0
		}), nil, i32).Export(rewrite.Yield.Field).Instantiate(ctx); err != nil {
		return err
	}
	if _, err := r.NewHostModuleBuilder(wasihost.Guarded).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
			stack[0] = wasihost.Notsup
		}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, i32).Export(wasihost.Renumber).Instantiate(ctx); err != nil {
		return err
	}
	b := r.NewHostModuleBuilder(wasihost.Observe)
	for _, name := range []string{"instrument_enter", "instrument_exit", "instrument_memory_grow"} {
		b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), i32, nil).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// Close gives the compiled form back. No call may be running.
func (p *Program) Close() { wasihost.Closed(p.engine) }

// Run runs the command once, in an instance of its own, and returns its exit
// code. An error is not one of the program: it was ended or failed. Whoever
// calls takes over what the guest left in open files with [wasihost.Host.Finish]
// by finish, which is called before the instance is closed if the exit code
// counts as success.
func (p *Program) Run(h *wasihost.Host, o wasihost.Options, finish func(exit uint32) error) (exit uint32, err error) {
	defer wasihost.Recover(&err)
	m, err := p.engine.InstantiateModule(h.Context(), p.compiled, h.Config(o).WithName(""))
	if m != nil {
		defer func() {
			h.Burn(p.quantum, m)
			h.End()
			wasihost.Closed(m)
		}()
	}
	if err != nil {
		return 0, err
	}
	start := m.ExportedFunction("_start")
	if start == nil {
		return 0, tool.Errorf(tool.InvalidModule, "the module has no _start")
	}
	_, err = start.Call(h.Context())
	var end *sys.ExitError
	if errors.As(err, &end) {
		exit, err = end.ExitCode(), nil
	}
	if err == nil && finish != nil {
		err = finish(exit)
	}
	return exit, err
}
