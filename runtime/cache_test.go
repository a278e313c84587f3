package runtime

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
)

// cached is an engine with a cache, its folders, and what it told.
type cached struct {
	*Engine
	dir, state string
	notices    []string
}

func newCached(t testing.TB, dir, state string) *cached {
	t.Helper()
	c := &cached{dir: dir, state: state}
	var mu sync.Mutex
	c.Engine = newEngine(t, Options{CacheDir: dir, StateDir: state, Notice: func(s string) {
		mu.Lock()
		defer mu.Unlock()
		c.notices = append(c.notices, s)
	}})
	return c
}

// entries are the files of the cache.
func (c *cached) entries(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "compiled", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// use compiles and calls a guest and reports whether it came from the cache.
func (c *cached) use(t testing.TB, wasm []byte) (hit bool) {
	t.Helper()
	m, err := c.Load(context.Background(), wasm, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if c.cache != nil {
		_, _, err := c.cache.read(cacheKey(m.(*module), true))
		hit = err == nil
	}
	if code, text, err := callOnce(m, 0); code != "" || text != "ok" || err != nil {
		t.Fatalf("the guest = %q, %q, %v; want ok", code, text, err)
	}
	return hit
}

func TestCacheKeepsCompiledForms(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	first := newCached(t, dir, state)
	if first.cache == nil {
		t.Fatalf("the cache is not used: %q", first.notices)
	}
	if first.use(t, hostile.Good()) {
		t.Error("the first use came from an empty cache")
	}
	if n := len(first.entries(t)); n != 1 {
		t.Fatalf("%d entries after one module, want 1", n)
	}
	if second := newCached(t, dir, state); !second.use(t, hostile.Good()) {
		t.Error("the second process compiled again")
	}
	// Another manifest is another module with the same code.
	quick, err := manifest.Extract(hostile.Good())
	if err != nil {
		t.Fatal(err)
	}
	other, err := manifest.Embed(hostile.Good(), bytes.Replace(quick, []byte("Attacks."), []byte("Helps."), 1))
	if err != nil || bytes.Equal(other, hostile.Good()) {
		t.Fatal("the manifest is the same", err)
	}
	if !first.use(t, other) {
		t.Error("the same code with another manifest compiled again")
	}
	if left, _ := os.ReadDir(filepath.Join(state, "compile", "scratch")); len(left) != 0 {
		t.Errorf("%d scratch folders are left", len(left))
	}
}

// TestCacheIsOfOneStart: a module finds nothing that was made of the same code
// under limits in which it could not be started or warmed up. What calls begin
// with, and so what they cost, would else depend on who came first.
func TestCacheIsOfOneStart(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	const size = 2 << 10
	answer := bytes.Replace([]byte(hostile.Answer), []byte("ok"), bytes.Repeat([]byte("a"), size), 1)
	wordy := func(limits string) []byte {
		m := &wasmasm.Module{
			Memory: &wasmasm.Limits{Min: 1, Max: -1},
			Data:   []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: answer}},
			Funcs: []wasmasm.Func{
				{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(32 << 10), Export: "wt_alloc"},
				{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}},
					Body: wasmasm.Code{}.Packed(hostile.AnswerAt, uint32(len(answer))), Export: "wt_call"},
			},
			Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest(limits)}},
		}
		return m.Encode()
	}
	for _, c := range []struct {
		limits string
		warm   bool
	}{{`"output_kib":1`, false}, {"", true}, {`"output_kib":1`, false}} {
		e := newCached(t, dir, state)
		m := load(t, e.Engine, wordy(c.limits)).(*module)
		if err := m.Prepare(context.Background()); err != nil {
			t.Fatal(err)
		}
		if d := m.build.program.form.Decision; d.WarmedUp != c.warm {
			t.Errorf("with {%s} warmed up: %v; want %v (%s)", c.limits, d.WarmedUp, c.warm, d)
		}
	}
}

// damage are the ways in which an entry can be wrong. Each must be noticed
// before the engine sees the entry, and the entry be made again.
var damage = []struct {
	name string
	do   func(t *testing.T, c *cached, file string, good []byte)
}{
	{"empty", func(t *testing.T, _ *cached, file string, _ []byte) { write(t, file, nil) }},
	{"cut", func(t *testing.T, _ *cached, file string, good []byte) { write(t, file, good[:len(good)/2]) }},
	{"one byte short", func(t *testing.T, _ *cached, file string, good []byte) { write(t, file, good[:len(good)-1]) }},
	{"one byte long", func(t *testing.T, _ *cached, file string, good []byte) { write(t, file, append(bytes.Clone(good), 0)) }},
	{"flipped code", func(t *testing.T, _ *cached, file string, good []byte) { write(t, file, flip(good, len(good)-200)) }},
	{"flipped mac", func(t *testing.T, _ *cached, file string, good []byte) { write(t, file, flip(good, len(cacheMagic)+1)) }},
	{"flipped name", func(t *testing.T, _ *cached, file string, good []byte) {
		write(t, file, flip(good, len(cacheMagic)+32+3))
	}},
	{"other version", func(t *testing.T, _ *cached, file string, good []byte) {
		write(t, file, bytes.Replace(good, []byte("code-2\n"), []byte("code-0\n"), 1))
	}},
	{"other entry", func(t *testing.T, c *cached, file string, _ []byte) {
		c.use(t, hostile.With(hostile.Yield, nil))
		for _, other := range c.entries(t) {
			if other != file {
				p, err := os.ReadFile(other)
				if err != nil {
					t.Fatal(err)
				}
				write(t, file, p)
			}
		}
	}},
	{"the engine's own format", func(t *testing.T, _ *cached, file string, good []byte) {
		_, rest, _ := bytes.Cut(good[len(cacheMagic)+32:], []byte("\n"))
		write(t, file, rest)
	}},
	{"other key", func(t *testing.T, c *cached, _ string, _ []byte) {
		write(t, filepath.Join(c.state, "compile", "cache.key"), bytes.Repeat([]byte{7}, keySize))
	}},
	{"short key", func(t *testing.T, c *cached, _ string, _ []byte) {
		write(t, filepath.Join(c.state, "compile", "cache.key"), []byte("short"))
	}},
	{"no key", func(t *testing.T, c *cached, _ string, _ []byte) {
		if err := os.Remove(filepath.Join(c.state, "compile", "cache.key")); err != nil {
			t.Fatal(err)
		}
	}},
	{"a folder", func(t *testing.T, _ *cached, file string, _ []byte) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}},
}

func write(t *testing.T, file string, p []byte) {
	t.Helper()
	if err := os.WriteFile(file, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(p []byte, at int) []byte {
	p = bytes.Clone(p)
	p[at] ^= 1
	return p
}

func TestCacheRebuildsDamagedEntries(t *testing.T) {
	for _, d := range append(damage, damageUnix...) {
		t.Run(d.name, func(t *testing.T) {
			dir, state := t.TempDir(), t.TempDir()
			c := newCached(t, dir, state)
			c.use(t, hostile.Good())
			file := c.entries(t)[0]
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			d.do(t, c, file, good)
			again := newCached(t, dir, state)
			if again.cache == nil {
				t.Fatalf("the cache is given up: %q", again.notices)
			}
			if again.use(t, hostile.Good()) {
				t.Error("the damaged entry counts as good")
			}
			if !again.use(t, hostile.Good()) {
				t.Error("the entry was not made again")
			}
			if p, err := os.ReadFile(file); err != nil || len(p) != len(good) {
				t.Errorf("the entry has %d bytes, error %v; want %d", len(p), err, len(good))
			}
		})
	}
}

// TestEngineTakesDamagedCache is the control: the engine's own cache folder,
// without what cache.go puts before it, fails for a cut entry and goes on
// failing.
func TestEngineTakesDamagedCache(t *testing.T) {
	dir := t.TempDir()
	compile := func() error {
		ctx := context.Background()
		c, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(c))
		defer r.Close(ctx)
		_, err = r.CompileModule(ctx, hostile.Good())
		return err
	}
	if err := compile(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if len(files) == 0 {
		t.Skip("the engine has no compiler for this processor, and so no cache")
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, files[0], good[:len(good)/2])
	for range 2 {
		if err := compile(); err == nil {
			t.Error("the engine takes half an entry; cache.go's checks are then less needed than we say")
		}
	}
}

// TestCacheShared lets several engines fill one cache at once.
func TestCacheShared(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	guests := [][]byte{hostile.Good(), hostile.With(hostile.Yield, nil)}
	engines := make([]*cached, 4)
	var wg sync.WaitGroup
	for i := range engines {
		engines[i] = newCached(t, dir, state)
	}
	for _, e := range engines {
		for _, g := range guests {
			wg.Go(func() { e.use(t, g) })
		}
	}
	wg.Wait()
	for _, g := range guests {
		if !engines[0].use(t, g) {
			t.Error("a concurrent fill left no good entry")
		}
	}
	if n := len(engines[0].entries(t)); n != len(guests) {
		t.Errorf("%d files in the cache, want %d", n, len(guests))
	}
}

func TestCachePrunes(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	c, err := openCache(dir, state)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxEntries + 10 {
		if err := c.write(strings.Repeat("a", 60)+string(rune('a'+i/26%26))+string(rune('a'+i%26)), "v/x", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(c.dir)
	if err != nil || len(list) > maxEntries {
		t.Errorf("%d entries, error %v; want at most %d", len(list), err, maxEntries)
	}
}

func FuzzCacheEntry(f *testing.F) {
	dir, state := f.TempDir(), f.TempDir()
	c, err := openCache(dir, state)
	if err != nil {
		f.Fatal(err)
	}
	if err := c.write("key", "v/x", []byte("native code")); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(c.path("key"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte(cacheMagic))
	f.Fuzz(func(t *testing.T, p []byte) {
		if err := os.WriteFile(c.path("key"), p, 0o600); err != nil {
			t.Fatal(err)
		}
		name, content, err := c.read("key")
		if err == nil && !bytes.Equal(p, good) {
			t.Errorf("an entry that we did not write counts as good: %q, %q", name, content)
		}
	})
}
