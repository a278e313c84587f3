package guestbuild_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmtools/wasmtools/manifest"
)

// guest is an instance whose host functions answer with functions of the test;
// those that it does not name answer with the error internal. It is enough to
// describe a module and to see its SDK cross the boundary; the sandbox that runs
// strangers' modules is package runtime.
type guest struct {
	rt  wazero.Runtime
	mod api.Module
}

type hostFunc = func(m api.Memory, args []uint64) int64

func instantiate(ctx context.Context, wasm []byte, functions map[string]hostFunc) (*guest, error) {
	rt := wazero.NewRuntime(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	compiled, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		rt.Close(ctx)
		return nil, err
	}
	host := rt.NewHostModuleBuilder("wasmtools_v1")
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if module != "wasmtools_v1" {
			continue
		}
		call := functions[name]
		if call == nil {
			call = func(api.Memory, []uint64) int64 { return -33 }
		}
		host.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
			stack[0] = uint64(call(m.Memory(), stack))
		}), f.ParamTypes(), f.ResultTypes()).Export(name)
	}
	if _, err := host.Instantiate(ctx); err != nil {
		rt.Close(ctx)
		return nil, err
	}
	mod, err := rt.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		rt.Close(ctx)
		return nil, err
	}
	return &guest{rt, mod}, nil
}

func (g *guest) close(ctx context.Context) { g.rt.Close(ctx) }

func (g *guest) export(ctx context.Context, name string, args ...uint64) ([]byte, error) {
	f := g.mod.ExportedFunction(name)
	if f == nil {
		return nil, errors.New("no export " + name)
	}
	r, err := f.Call(ctx, args...)
	if err != nil {
		return nil, err
	}
	p, ok := g.mod.Memory().Read(uint32(r[0]>>32), uint32(r[0]))
	if !ok {
		return nil, fmt.Errorf("%s answered with a range outside its memory", name)
	}
	return append([]byte(nil), p...), nil
}

// call puts a request into the guest's memory and runs it.
func (g *guest) call(ctx context.Context, request []byte) ([]byte, error) {
	r, err := g.mod.ExportedFunction("wt_alloc").Call(ctx, uint64(len(request)))
	if err != nil {
		return nil, err
	}
	if r[0] == 0 || !g.mod.Memory().Write(uint32(r[0]), request) {
		return nil, errors.New("no room for the request")
	}
	return g.export(ctx, "wt_call", r[0], uint64(len(request)))
}

func describe(ctx context.Context, wasm []byte) ([]byte, error) {
	g, err := instantiate(ctx, wasm, nil)
	if err != nil {
		return nil, err
	}
	defer g.close(ctx)
	return g.export(ctx, "wt_describe")
}

func embed(wasm, about []byte) ([]byte, error) {
	if _, err := manifest.Parse(about); err != nil {
		return nil, err
	}
	return manifest.Embed(wasm, about)
}
