// Package wasmtime measures in wasmtime what BenchmarkCall of package runtime
// measures here: the same guests, the same requests. It is a module of its own
// because wasmtime needs cgo, which nothing else here does.
package wasmtime

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"
)

const guests = "../sandbox/guests/"

// buildGo compiles a guest as BenchmarkCall does.
func buildGo(b *testing.B, name string) []byte {
	b.Helper()
	out := filepath.Join(b.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, "./bench/sandbox/guests/"+name)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build %s: %v\n%s", name, err, text)
	}
	return read(b, out)
}

func built(name string) func(*testing.B) []byte {
	return func(b *testing.B) []byte { return buildGo(b, name) }
}

func none(*wasmtime.Caller, []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	return nil, wasmtime.NewTrap("there is no host")
}

func read(b *testing.B, file string) []byte {
	b.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// request is the header and the arguments as docs/abi.md has them.
func request(arguments string) []byte {
	req := make([]byte, 32, 64+len(arguments))
	binary.LittleEndian.PutUint32(req, 1)
	binary.LittleEndian.PutUint32(req[16:], 1)
	binary.LittleEndian.PutUint32(req[20:], uint32(len(arguments)))
	return append(append(req, '1'), arguments...)
}

// sandbox is one instance.
type sandbox struct {
	store       *wasmtime.Store
	memory      *wasmtime.Memory
	alloc, call *wasmtime.Func
}

// compiled is a module with what it imports.
type compiled struct {
	module *wasmtime.Module
	linker *wasmtime.Linker
}

func newSandbox(c compiled) (*sandbox, error) {
	s := &sandbox{store: wasmtime.NewStore(c.linker.Engine)}
	s.store.SetWasi(wasmtime.NewWasiConfig())
	i, err := c.linker.Instantiate(s.store, c.module)
	if err != nil {
		return nil, err
	}
	if init := i.GetFunc(s.store, "_initialize"); init != nil {
		if _, err := init.Call(s.store); err != nil {
			return nil, err
		}
	}
	s.memory = i.GetExport(s.store, "memory").Memory()
	s.alloc, s.call = i.GetFunc(s.store, "wt_alloc"), i.GetFunc(s.store, "wt_call")
	return s, nil
}

func (s *sandbox) answer(req []byte) error {
	at, err := s.alloc.Call(s.store, int32(len(req)))
	if err != nil {
		return err
	}
	copy(s.memory.UnsafeData(s.store)[at.(int32):], req)
	packed, err := s.call.Call(s.store, at, int32(len(req)))
	if err != nil {
		return err
	}
	v := uint64(packed.(int64))
	text := bytes.Clone(s.memory.UnsafeData(s.store)[v>>32:][:uint32(v)])
	if !bytes.HasPrefix(text, []byte(`{"content":[`)) {
		return errors.New("the guest answers " + string(text))
	}
	return nil
}

// BenchmarkCall measures one call.
//
//	wasmtimefresh   a new store and instance, initialised, for every call
//	wasmtimereused  the same call on one instance; it would see what earlier calls left
//
// Copy-on-write memory is on, which is the default; the Go binding has no pooling
// allocator. `core` is left out: its tools ask the host for files.
func BenchmarkCall(b *testing.B) {
	engine := wasmtime.NewEngine()
	prepare := func(b *testing.B, wasm []byte) compiled {
		b.Helper()
		m, err := wasmtime.NewModule(engine, wasm)
		if err != nil {
			b.Fatal(err)
		}
		linker := wasmtime.NewLinker(engine)
		if err := linker.DefineWasi(); err != nil {
			b.Fatal(err)
		}
		for _, i := range m.Imports() { // the guests measured here call none of our functions
			if i.Module() != "wasmtools_v1" {
				continue
			}
			if err := linker.FuncNew(i.Module(), *i.Name(), i.Type().FuncType(), none); err != nil {
				b.Fatal(err)
			}
		}
		return compiled{m, linker}
	}
	all := []struct {
		name string
		wasm func(*testing.B) []byte
		req  []byte
	}{
		{"tiny", built("tiny"), request(`{"text":"a banana"}`)},
		{"sdk", built("sdk"), request(`{"text":"a banana"}`)},
		{"abi", built("abi"), request(`{"text":"the quick brown fox jumps over the lazy dog"}`)},
		{"jsonregexp", built("jsonregexp"), request(`{"pattern":"a+b","text":"xxaabxxabaaab"}`)},
		{"small", func(b *testing.B) []byte { return read(b, guests+"small/small.wasm") }, request(`{"text":"a banana"}`)},
	}
	modules := map[string]compiled{}
	for _, g := range all {
		modules[g.name] = prepare(b, g.wasm(b))
	}
	b.Run("wasmtimefresh", func(b *testing.B) {
		for _, g := range all {
			b.Run(g.name, func(b *testing.B) {
				medianOf(b, func() error {
					s, err := newSandbox(modules[g.name])
					if err != nil {
						return err
					}
					defer s.store.Close()
					return s.answer(g.req)
				})
			})
		}
	})
	b.Run("wasmtimereused", func(b *testing.B) {
		for _, g := range all {
			b.Run(g.name, func(b *testing.B) {
				s, err := newSandbox(modules[g.name])
				if err != nil {
					b.Fatal(err)
				}
				defer s.store.Close()
				medianOf(b, func() error { return s.answer(g.req) })
			})
		}
	})
}

// medianOf is that of package runtime: a machine that does other things moves
// the median less than the mean.
func medianOf(b *testing.B, call func() error) {
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		if len(took) < 1<<20 {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)/100]), "p01-ns")
}
