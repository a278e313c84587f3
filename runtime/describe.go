package runtime

import (
	"context"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

const describeTime = 30 * time.Second

// Describe runs a module's wt_describe in a sandbox without any capability and
// returns the manifest that it gives, unchecked. It is for building modules;
// whoever only wants to know a finished one reads its section.
func Describe(ctx context.Context, wasm []byte) ([]byte, error) {
	e, err := New(ctx, Options{Limits: Limits{Time: describeTime}})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	s, err := structure(wasm)
	if err != nil {
		return nil, err
	}
	if err := checkMemory(s, e.limits.MemoryBytes); err != nil {
		return nil, err
	}
	if err := checkExports(s, []abiExport{{"wt_describe", ">I", true}, {"_initialize", ">", false}}); err != nil {
		return nil, err
	}
	if err := checkImports(s); err != nil {
		return nil, err
	}
	code, err := manifest.Strip(wasm)
	if err != nil {
		return nil, err
	}
	m, err := e.add(&module{digest: tool.DigestOf(wasm), code: code, limits: e.limits})
	if err != nil {
		return nil, err
	}
	out, _, fault := m.call(ctx, &hostfuncs.Call{}, false, func(l *lease) ([]byte, error) {
		return l.answer(manifest.MaxBytes, "wt_describe")
	})
	if fault != nil {
		return nil, fault
	}
	return out, nil
}
