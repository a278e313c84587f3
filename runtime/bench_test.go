package runtime

import (
	"context"
	"testing"

	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

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
