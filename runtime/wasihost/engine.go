package wasihost

import (
	"context"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/tool"
)

// RuntimeConfig is how every engine for foreign kinds is set up. Guests are
// stopped by their polls and not by the engine, whose own way costs several
// times the speed.
func RuntimeConfig(cache wazero.CompilationCache) wazero.RuntimeConfig {
	c := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	if cache != nil {
		c = c.WithCompilationCache(cache)
	}
	return c
}

// Compiling is the context for compiling: with several workers, so that the
// engine looks at ctx between two functions, and with the guards of [Guarding].
func Compiling(ctx context.Context) context.Context {
	return experimental.WithCompilationWorkers(Guarding(ctx), max(2, min(4, goruntime.NumCPU())))
}

// validate reports whether the engine accepts a module.
func validate(ctx context.Context, wasm []byte) (err error) {
	defer Recover(&err)
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().
		WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false))
	defer r.Close(context.Background())
	if _, err := r.CompileModule(ctx, wasm); err != nil {
		return Refused(err)
	}
	return nil
}

// Compile compiles a module alone, so that its native code, and nothing else,
// stands in the cache.
func Compile(ctx context.Context, p Prepared, cache wazero.CompilationCache) (err error) {
	defer Recover(&err)
	r := wazero.NewRuntimeWithConfig(ctx, RuntimeConfig(cache))
	defer Closed(r)
	m, err := r.CompileModule(Compiling(ctx), p.Code)
	if err != nil {
		return NotCompiled(ctx, err)
	}
	Closed(m)
	return nil
}

// NotCompiled is the error about a compilation that failed: that of ctx if it
// came too late, else that of the module.
func NotCompiled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return Refused(err)
}

// Refused is the error about a module that the engine does not accept.
func Refused(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, ""))
	return tool.Errorf(tool.InvalidModule, "the engine does not accept the module: %s", line[:min(len(line), 300)]).Because(err)
}

// Recover turns a panic of an engine or an SDK into an error: it is one call's
// failure and not the process's.
func Recover(err *error) {
	if v := recover(); v != nil {
		if e, ok := v.(*tool.Error); ok {
			*err = e
			return
		}
		*err = tool.Errorf(tool.Internal, "the engine failed").Because(fmt.Errorf("%v\n%s", v, debug.Stack()))
	}
}

// Closed closes what an engine holds; nothing that it says concerns anybody.
func Closed(c interface{ Close(context.Context) error }) {
	defer func() { _ = recover() }()
	_ = c.Close(context.Background())
}
