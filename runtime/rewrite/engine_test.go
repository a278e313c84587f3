package rewrite

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// allFeatures is everything that wazero 1.12 can be asked to accept.
const allFeatures = api.CoreFeaturesV2 |
	experimental.CoreFeaturesThreads |
	experimental.CoreFeaturesTailCall |
	experimental.CoreFeaturesExtendedConst |
	experimental.CoreFeaturesExceptionHandling |
	experimental.CoreFeaturesTypedFunctionReferences

// A host is an engine with the function that polls yield to.
type host struct {
	wazero.Runtime
	yields int64
	stop   func(yields int64) bool // asked at every yield; nil never stops
}

func newHost(tb testing.TB, config wazero.RuntimeConfig) *host {
	tb.Helper()
	ctx := tb.Context()
	h := &host{Runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	tb.Cleanup(func() { h.Close(context.WithoutCancel(ctx)) })
	yield := func(_ context.Context, stack []uint64) {
		h.yields++
		stack[0] = 0
		if h.stop != nil && h.stop(h.yields) {
			stack[0] = 1
		}
	}
	_, err := h.NewHostModuleBuilder(Yield.Module).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(yield), nil, []api.ValueType{api.ValueTypeI32}).
		Export(Yield.Field).Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func compiler() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(allFeatures).WithDebugInfoEnabled(false)
}

func interpreter() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(allFeatures).WithDebugInfoEnabled(false)
}

// instantiate makes an anonymous instance that runs no start function but the
// module's own.
func (h *host) instantiate(ctx context.Context, wasm []byte) (api.Module, error) {
	compiled, err := compile(ctx, h, wasm)
	if err != nil {
		return nil, err
	}
	return h.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

func (h *host) mustInstantiate(tb testing.TB, wasm []byte) api.Module {
	tb.Helper()
	mod, err := h.instantiate(tb.Context(), wasm)
	if err != nil {
		tb.Fatal(err)
	}
	return mod
}

// compile is CompileModule without the panics that odd modules cause in it.
func compile(ctx context.Context, r wazero.Runtime, wasm []byte) (m wazero.CompiledModule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("engine panicked: %v", p)
		}
	}()
	return r.CompileModule(ctx, wasm)
}

// validates tells whether the engine accepts a module.
func validates(ctx context.Context, r wazero.Runtime, wasm []byte) bool {
	m, err := compile(ctx, r, wasm)
	if err == nil {
		m.Close(ctx)
	}
	return err == nil
}

// instrumented decodes, instruments and encodes a module that must allow it.
func instrumented(tb testing.TB, wasm []byte, p Plan) ([]byte, Info) {
	tb.Helper()
	m, err := Decode(wasm)
	if err != nil {
		tb.Fatal(err)
	}
	info, err := Instrument(m, p)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Encode(), info
}

// countdownOf is the countdown of an instance.
func countdownOf(mod api.Module) api.MutableGlobal {
	return mod.ExportedGlobal(CountdownExport).(api.MutableGlobal)
}

// wazeroDir is the engine's source, where its test modules lie.
var wazeroDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	dir := strings.TrimSpace(string(out))
	if err == nil && dir == "" {
		err = fmt.Errorf("module cache does not hold wazero")
	}
	return dir, err
})

func spectestDir(tb testing.TB) string {
	tb.Helper()
	dir, err := wazeroDir()
	if err != nil {
		tb.Skipf("needs the go command and the engine's source: %v", err)
	}
	return filepath.Join(dir, "internal", "integration_test", "spectest")
}
