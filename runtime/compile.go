package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	goruntime "runtime"
	rtdebug "runtime/debug"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/tool"
)

// program is a compiled module, ready to be instantiated. It has an engine of
// its own, so that its types, its host functions and its place in the cache are
// its own, and closing it gives everything back.
type program struct {
	form     *form
	engine   wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache // nil without a cache
	image    *linmem.Image           // the snapshot; nil without one
	pool     *pool
}

// close ends a program of which no instance is in use.
func (p *program) close() {
	ctx := context.Background()
	p.pool.drop(p)
	_ = p.engine.Close(ctx)
	if p.cache != nil {
		_ = p.cache.Close(ctx)
	}
	if p.image != nil {
		_ = p.image.Close()
	}
}

// slowCompile is the size from which a first compile is worth a remark: a Go
// module of this size takes half a second.
const slowCompile = 1 << 20

// compilation is a module of any kind on its way to native code. P is what it
// becomes.
type compilation[P any] struct {
	name  string // for a person
	key   string // of the cache
	order childOrder
	apart bool // in a child, where there can be one

	shape func(context.Context) (*form, error)

	// native writes native code, and nothing else, to a cache folder. Nil: build
	// does.
	native func(ctx context.Context, f *form, dir string) error
	build  func(ctx context.Context, f *form, dir string) (P, error)
}

// compile makes what a compilation is for, from the cache if it can.
func compile[P any](e *Engine, c compilation[P]) (p P, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = tool.Errorf(tool.Internal, "the compiler failed").Because(fmt.Errorf("%v\n%s", v, rtdebug.Stack()))
		}
	}()
	var none P
	select {
	case e.compile <- struct{}{}:
		defer func() { <-e.compile }()
	case <-e.life.Done():
		return none, context.Cause(e.life)
	}
	limit := c.order.Limits.Compile
	ctx, cancel := context.WithTimeoutCause(e.life, limit, compileTimeout(limit))
	defer cancel()

	slot := e.cache.slot(c.key)
	defer slot.discard()
	if slot.hit() {
		if p, err = c.build(ctx, slot.form, slot.dir()); err == nil || ctx.Err() != nil {
			return p, err
		}
		slot.drop() // it was ours and unchanged, and the engine still did not take it
	}
	apart := c.apart && len(e.child) > 0
	if n := len(c.order.Code); !slot.hit() && n >= slowCompile {
		where := ""
		if apart {
			where = ", in a process of its own"
		}
		e.notice(fmt.Sprintf("compiling %s (%.1f MB) for the first time%s", c.name, float64(n)/1e6, where))
	}
	dir := slot.dir()
	if apart && dir == "" {
		if dir, err = os.MkdirTemp("", "wasmtools-compile-"); err != nil {
			return none, err
		}
		defer os.RemoveAll(dir)
	}
	keep := func(shaped []byte) {
		if err := slot.keep(shaped); err != nil {
			e.notice(fmt.Sprintf("the compiled form of %s is not kept: %v", c.name, err))
		}
	}
	p, err = c.make(ctx, e, apart, dir, slot.dir() != "", keep)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, err
}

// make makes what was in no cache. What is worth keeping is given to keep as soon
// as it is there, with nothing else in the folder.
func (c compilation[P]) make(ctx context.Context, e *Engine, apart bool, dir string, cached bool, keep func(shaped []byte)) (p P, err error) {
	var f *form
	if apart {
		f, err = e.compileInChild(ctx, c.order, dir)
	} else {
		f, err = c.shape(ctx)
	}
	if err != nil {
		return p, err
	}
	var shaped []byte
	if cached {
		if shaped, err = f.encode(); err != nil {
			return p, err
		}
	}
	ready := apart
	if !apart && cached && c.native != nil {
		if err := c.native(ctx, f, dir); err != nil {
			return p, err
		}
		ready = true
	}
	if ready {
		keep(shaped)
	}
	if p, err = c.build(ctx, f, dir); err == nil && !ready {
		keep(shaped)
	}
	return p, err
}

// compileModule makes m's program. freeze asks for one that begins at a snapshot.
func (e *Engine) compileModule(m *module, freeze bool) (*program, error) {
	return compile(e, compilation[*program]{
		name:  or2(m.manifest.Name, "a module"),
		key:   cacheKey(m, freeze),
		order: childOrder{Kind: manifest.Native, Code: m.given(), Digest: m.digest, Limits: m.limits, Freeze: freeze},
		apart: !m.trusted,
		shape: func(ctx context.Context) (*form, error) { return e.shape(ctx, m, freeze) },
		build: e.build,
	})
}

// build compiles a form in an engine of its own. dir is the engine's cache
// folder, "" for none.
func (e *Engine) build(ctx context.Context, f *form, dir string) (_ *program, err error) {
	p := &program{form: f, pool: e.pool}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
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
	if err = instantiateHost(ctx, p.engine, f.Imports); err == nil {
		err = instantiateYield(ctx, p.engine)
	}
	if err != nil {
		return nil, tool.Errorf(tool.Internal, "the host functions could not be set up").Because(err)
	}
	// Only with several workers does the engine look at the context, between two
	// functions; how long one takes is bounded before (see limits.go).
	ctx = experimental.WithCompilationWorkers(ctx, max(2, min(4, goruntime.NumCPU())))
	if p.compiled, err = p.engine.CompileModule(ctx, f.Wasm); err != nil {
		return nil, invalidModule(err)
	}
	if p.image, err = f.image(); err != nil {
		return nil, tool.Errorf(tool.Internal, "the snapshot could not be made").Because(err)
	}
	f.Wasm, f.Memory = nil, nil // both exist in another form now
	return p, nil
}

// invalidModule is the engine's refusal of a module.
func invalidModule(err error) error {
	if err == nil {
		return nil
	}
	return refuse("the engine does not accept the module: %s", clip(firstLine(err))).Because(err)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
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

// cacheKey names the compiled form of a module by everything that shapes it: the
// limits are those under which it is started and warmed up. What the processor
// can do is part of the engine's own name for it.
func cacheKey(m *module, freeze bool) string {
	h := sha256.New()
	fmt.Fprintf(h, "wasmtools compiled form %d\n%s\n%s/%s\nv2\n%+v\nfreeze %t within %+v and %s\n%s\n",
		formVersion, engineVersion(), goruntime.GOOS, goruntime.GOARCH, plan(), freeze, m.limits.Limits, m.limits.Time, m.codeDigest())
	return hex.EncodeToString(h.Sum(nil))
}

// codeDigest names what is compiled. What a stranger's module says about itself
// is not; of one of ours the identity is known without reading it.
func (m *module) codeDigest() tool.Digest {
	if m.trusted {
		return m.digest
	}
	return tool.DigestOf(m.given())
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
