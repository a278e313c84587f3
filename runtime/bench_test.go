package runtime

import (
	"context"
	"testing"

	"github.com/wasmtools/wasmtools/testdata/hostile"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

// BenchmarkCall measures a call with a fresh instance: of a guest of a few
// instructions, and of a built-in tool in Go.
func BenchmarkCall(b *testing.B) {
	b.Run("assembled", func(b *testing.B) {
		m := load(b, newEngine(b, Options{}), hostile.WithLimits(hostile.Good(), ""))
		for b.Loop() {
			if code, text, err := callOnce(m, 0); code != "" || err != nil {
				b.Fatal(code, text, err)
			}
		}
	})
	b.Run("read_open", func(b *testing.B) {
		x := coreTool(b, fuzzSpace(b), "read_open", nil)
		if r, err := x.Call(context.Background(), inv("read_open", `{"path":"a.txt"}`), nil); r.IsError || err != nil {
			b.Fatal(r, err)
		}
		for b.Loop() {
			if r, err := x.Call(context.Background(), inv("read_open", `{"path":"a.txt"}`), nil); r.IsError || err != nil {
				b.Fatal(r, err)
			}
		}
	})
}

// BenchmarkPrepare measures what comes before the first call: reading the
// manifest, compiling, and loading from the cache.
func BenchmarkPrepare(b *testing.B) {
	wasm := toolswasm.Core()
	b.Run("load", func(b *testing.B) {
		e := newEngine(b, Options{})
		for b.Loop() {
			m, err := e.Load(context.Background(), wasm, LoadOptions{Trusted: true})
			if err != nil {
				b.Fatal(err)
			}
			m.Close()
		}
	})
	prepare := func(b *testing.B, e *Engine) {
		m, err := e.Load(context.Background(), wasm, LoadOptions{Trusted: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Prepare(context.Background()); err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
	b.Run("cold", func(b *testing.B) {
		e := newEngine(b, Options{})
		for b.Loop() {
			prepare(b, e)
		}
	})
	b.Run("cached", func(b *testing.B) {
		e := newEngine(b, Options{CacheDir: b.TempDir(), StateDir: b.TempDir()})
		prepare(b, e)
		for b.Loop() {
			prepare(b, e)
		}
	})
}
