package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	goruntime "runtime"
	rtdebug "runtime/debug"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// program is a compiled module, ready to be instantiated. It has an engine of
// its own, so that its types, its host functions and its place in the cache are
// its own, and closing it gives everything back.
type program struct {
	engine    wazero.Runtime
	compiled  wazero.CompiledModule
	cache     wazero.CompilationCache // nil without a cache
	maxMemory int64                   // what the module itself declares, or the limit
}

func (p *program) close() {
	ctx := context.Background()
	_ = p.engine.Close(ctx)
	if p.cache != nil {
		_ = p.cache.Close(ctx)
	}
}

// slowCompile is the size from which a first compile is worth a remark: a Go
// module of this size takes half a second.
const slowCompile = 1 << 20

// compileModule compiles m, or loads it from the cache.
func (e *Engine) compileModule(m *module) (p *program, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = tool.Errorf(tool.Internal, "the compiler failed").Because(fmt.Errorf("%v\n%s", v, rtdebug.Stack()))
		}
	}()
	select {
	case e.compile <- struct{}{}:
		defer func() { <-e.compile }()
	case <-e.life.Done():
		return nil, context.Cause(e.life)
	}
	ctx, cancel := context.WithTimeoutCause(e.life, m.limits.Compile,
		tool.Errorf(tool.Quota, "compiling the module took longer than %s", m.limits.Compile))
	defer cancel()

	code := m.code
	if m.trusted { // Load did neither
		if _, _, err := examine(code, e.limits, true); err != nil {
			return nil, err
		}
		if code, err = manifest.Strip(code); err != nil {
			return nil, err
		}
	}
	s, err := manifest.Summarize(code)
	if err != nil {
		return nil, err
	}
	if code, err = manifest.BoundGrowth(code, maxTable); err != nil {
		return nil, err
	}
	slot := e.cache.slot(cacheKey(code))
	defer slot.discard()
	if !slot.hit() && len(code) >= slowCompile {
		e.notice(fmt.Sprintf("compiling %s (%.1f MB) for the first time", or2(m.manifest.Name, "a module"), float64(len(code))/1e6))
	}
	p, err = compileCode(ctx, code, s, slot.dir())
	if err != nil && slot.hit() && ctx.Err() == nil {
		// It was ours and unchanged, and the engine still did not take it.
		slot.drop()
		p, err = compileCode(ctx, code, s, "")
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if err := slot.keep(); err != nil {
		e.notice(fmt.Sprintf("the compiled form of %s is not kept: %v", or2(m.manifest.Name, "a module"), err))
	}
	m.mu.Lock()
	m.code = nil
	m.mu.Unlock()
	return p, nil
}

// compileCode compiles one module in an engine of its own. dir is the engine's
// cache folder, "" for none.
func compileCode(ctx context.Context, code []byte, s manifest.Summary, dir string) (_ *program, err error) {
	p := &program{maxMemory: maxMemory}
	if m := s.Memories[0]; m.HasMax {
		p.maxMemory = min(p.maxMemory, int64(m.Max)<<16)
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCloseOnContextDone(true).
		WithDebugInfoEnabled(false)
	if dir != "" {
		if p.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(p.cache)
	}
	p.engine = wazero.NewRuntimeWithConfig(ctx, config)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := instantiateHost(ctx, p.engine, s.Imports); err != nil {
		return nil, tool.Errorf(tool.Internal, "the host functions could not be set up").Because(err)
	}
	// Only with several workers does the engine look at the context, between two
	// functions; how long one takes is bounded before (see limits.go).
	ctx = experimental.WithCompilationWorkers(ctx, max(2, min(4, goruntime.NumCPU())))
	if p.compiled, err = p.engine.CompileModule(ctx, code); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, refuse("the engine does not accept the module: %s", clip(line)).Because(err)
	}
	return p, nil
}

// clip shortens a text that may hold a module's own names.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

// cacheKey names the compiled form of code by everything that shapes it. What
// the processor can do is part of the engine's own name for it.
func cacheKey(code []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "wasmtools compiled form 1\n%s\n%s/%s\nv2 close-on-done\n", engineVersion(), goruntime.GOOS, goruntime.GOARCH)
	h.Write(code)
	return hex.EncodeToString(h.Sum(nil))
}

// engineVersion is the version of wazero that this program was built with.
var engineVersion = sync.OnceValue(func() string {
	info, ok := rtdebug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/tetratelabs/wazero" {
			if d.Replace != nil {
				d = d.Replace
			}
			return d.Version + " " + d.Sum
		}
	}
	return "unknown"
})
