package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

// buildGo compiles a guest; Go's build cache makes it quick after the first time.
func buildGo(b testing.TB, dir string) []byte {
	b.Helper()
	out := filepath.Join(b.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("needs the go command and its wasip1 port: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		b.Fatal(err)
	}
	return wasm
}

// benchGuest is a module and a call of it that the benchmarks make.
type benchGuest struct {
	name string
	wasm func(testing.TB) []byte
	tool int
	args string
	want tool.Code
}

const benchGuests = "../bench/sandbox/guests/"

// described builds a guest of the benchmarks and puts its manifest in.
func described(name string) func(testing.TB) []byte {
	return func(b testing.TB) []byte {
		b.Helper()
		wasm := buildGo(b, benchGuests+name)
		about, err := Describe(b.Context(), wasm)
		if err != nil {
			b.Fatal(err)
		}
		if wasm, err = manifest.Embed(wasm, about); err != nil {
			b.Fatal(err)
		}
		return wasm
	}
}

var guestsOfBench = []benchGuest{
	{"tiny", func(b testing.TB) []byte { return withManifest(b, buildGo(b, benchGuests+"tiny")) }, 0, `{"text":"a banana"}`, ""},
	{"sdk", described("sdk"), 0, `{"text":"a banana"}`, ""},
	{"abi", described("abi"), 0, `{"text":"the quick brown fox jumps over the lazy dog"}`, ""},
	{"jsonregexp", described("jsonregexp"), 0, `{"pattern":"a+b","text":"xxaabxxabaaab"}`, ""},
	// Without a workspace: what a built-in tool costs beside its files.
	{"core", func(testing.TB) []byte { return toolswasm.Core() }, 1, `{"path":"a.txt"}`, tool.GrantMissing},
	{"small", func(b testing.TB) []byte {
		wasm, err := os.ReadFile(benchGuests + "small/small.wasm")
		if err != nil {
			b.Fatal(err)
		}
		return withManifest(b, wasm)
	}, 0, `{"text":"a banana"}`, ""},
}

// withManifest is for guests that do not describe themselves.
func withManifest(b testing.TB, wasm []byte) []byte {
	b.Helper()
	wasm, err := manifest.Embed(wasm, []byte(`{"abi":1,"name":"bare","version":"1.0.0","tools":[{"name":"count","description":"Counts.","inputSchema":{"type":"object"},"effects":["read"]}]}`))
	if err != nil {
		b.Fatal(err)
	}
	return wasm
}

func (g benchGuest) call(ctx context.Context, m Module) error {
	r, _, err := m.Run(ctx, &hostfuncs.Call{Tool: g.tool, Invocation: tool.Invocation{CallID: "1", Arguments: []byte(g.args)}})
	if err == nil && r.Code != g.want {
		err = fmt.Errorf("%s: %s", r.Code, r.PlainText())
	}
	return err
}

func (g benchGuest) load(b testing.TB, e *Engine) *module {
	b.Helper()
	m := load(b, e, g.wasm(b)).(*module)
	if err := g.call(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkCall measures one call, from the frozen invocation to the result.
//
//	fresh         as the engine does it: an instance put back after every call
//	reused        the same call on one instance that is never put back; a guest
//	              would see what earlier calls left
//	newinstance   a new instance from the snapshot for every call
//	initialise    a new instance that is initialised for every call
//	extismfresh   a guest that does the same in extism/go-sdk alone, a new instance
//	              for every call
//	extismreused  the same, all calls on one instance
//
// What wasmtime takes is measured by bench/wasmtime. The metric p50-ns is the
// median, which a machine that does other things moves less than the mean.
func BenchmarkCall(b *testing.B) {
	for _, way := range []struct {
		name string
		call func(testing.TB, benchGuest) func() error // nil: there is no such guest
	}{
		{"fresh", fresh},
		{"reused", reused},
		{"newinstance", newInstanceEach},
		{"initialise", initialiseEach},
		{"extismfresh", extismFresh},
		{"extismreused", extismReused},
	} {
		b.Run(way.name, func(b *testing.B) {
			for _, g := range guestsOfBench {
				call := way.call(b, g)
				if call == nil {
					continue
				}
				b.Run(g.name, func(b *testing.B) {
					if err := call(); err != nil {
						b.Fatal(err)
					}
					medianOf(b, call)
				})
			}
		})
	}
}

func fresh(b testing.TB, g benchGuest) func() error {
	m := g.load(b, newEngine(b, Options{}))
	return func() error { return g.call(context.Background(), m) }
}

func newInstanceEach(b testing.TB, g benchGuest) func() error {
	m := g.load(b, newEngine(b, Options{}))
	m.engine.pool.instances = 0
	m.engine.pool.drop(m.build.program)
	return func() error { return g.call(context.Background(), m) }
}

func initialiseEach(b testing.TB, g benchGuest) func() error {
	m := g.load(b, newEngine(b, Options{}))
	m.code, _ = manifest.Strip(g.wasm(b)) // forgotten after the first call
	return func() error {
		call := &hostfuncs.Call{Tool: g.tool, Invocation: tool.Invocation{CallID: "1", Arguments: []byte(g.args)}}
		raw, _, fault := m.call(context.Background(), call, false, func(l *lease) ([]byte, error) {
			req, err := encodeRequest(call.Invocation, call.Tool, l.term.until)
			if err != nil {
				return nil, err
			}
			return l.run(req, call.Limits.OutputBytes)
		})
		if fault != nil {
			return fault
		}
		_, err := parseResponse(raw)
		return err
	}
}

// extismGuest compiles the plugin that does what a guest does; nil if there is
// none.
func extismGuest(b testing.TB, g benchGuest) *sdk.CompiledPlugin {
	dir := benchGuests + "extism/" + g.name
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	p, err := sdk.NewCompiledPlugin(b.Context(), sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: buildGo(b, dir)}}}, sdk.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close(context.Background()) })
	return p
}

func extismCall(i *sdk.Plugin, g benchGuest) error {
	code, out, err := i.Call("call", []byte(g.args))
	if err == nil && code != 0 {
		err = fmt.Errorf("the plugin returns %d", code)
	}
	if err == nil {
		_, err = parseResponse(out)
	}
	return err
}

func extismFresh(b testing.TB, g benchGuest) func() error {
	p := extismGuest(b, g)
	if p == nil {
		return nil
	}
	return func() error {
		i, err := p.Instance(context.Background(), sdk.PluginInstanceConfig{})
		if err != nil {
			return err
		}
		defer i.Close(context.Background())
		return extismCall(i, g)
	}
}

func extismReused(b testing.TB, g benchGuest) func() error {
	p := extismGuest(b, g)
	if p == nil {
		return nil
	}
	i, err := p.Instance(context.Background(), sdk.PluginInstanceConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { i.Close(context.Background()) })
	return func() error { return extismCall(i, g) }
}

// reused makes calls on one instance, with all that a call does but admission
// and reset.
func reused(b testing.TB, g benchGuest) func() error {
	m := g.load(b, newEngine(b, Options{}))
	call := &hostfuncs.Call{Tool: g.tool}
	m.limit(call)
	l := &lease{call: call}
	if err := l.begin(m.build.program); err != nil {
		b.Fatal(err)
	}
	return func() error {
		*call = hostfuncs.Call{Tool: g.tool, Limits: call.Limits, Invocation: tool.Invocation{CallID: "1", Arguments: []byte(g.args)}}
		l.term = newTerm(context.Background(), m.engine, m.limits.Time, time.Time{})
		l.began = time.Now()
		req, err := encodeRequest(call.Invocation, g.tool, l.term.until)
		if err != nil {
			return err
		}
		raw, err := l.run(req, call.Limits.OutputBytes)
		if err != nil {
			return err
		}
		r, err := parseResponse(raw)
		if err == nil && r.Code != g.want {
			err = fmt.Errorf("%s: %s", r.Code, r.PlainText())
		}
		return err
	}
}

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

// A stopWay is a way to stop a guest.
type stopWay struct {
	name string
	mod  api.Module
	call func(export string, size uint64) error
}

// stopWays are a guest that cannot be stopped, one with the countdown, and one
// that the engine stops by its own means.
func stopWays(b *testing.B) []stopWay {
	wasm := buildGo(b, "./rewrite/testdata/guest")
	counted, err := rewrite.Decode(wasm)
	if err != nil {
		b.Fatal(err)
	}
	info, err := rewrite.Instrument(counted, plan())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithValue(b.Context(), seatKey{}, &seat{&lease{
		call: &hostfuncs.Call{}, term: newTerm(context.Background(), newEngine(b, Options{}), time.Hour, time.Time{})}}), time.Hour)
	b.Cleanup(cancel)
	var ways []stopWay
	for _, w := range []struct {
		name   string
		wasm   []byte
		config wazero.RuntimeConfig
	}{
		{"none", wasm, wazero.NewRuntimeConfig()},
		{"countdown", counted.Encode(), wazero.NewRuntimeConfig()},
		{"closeondone", wasm, wazero.NewRuntimeConfig().WithCloseOnContextDone(true)},
	} {
		r := wazero.NewRuntimeWithConfig(ctx, w.config)
		b.Cleanup(func() { r.Close(context.Background()) })
		wasi_snapshot_preview1.MustInstantiate(ctx, r)
		if err := instantiateYield(ctx, r); err != nil {
			b.Fatal(err)
		}
		mod, err := r.InstantiateWithConfig(ctx, w.wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
		if err != nil {
			b.Fatal(err)
		}
		ways = append(ways, stopWay{w.name, mod, func(export string, size uint64) error {
			if c, ok := mod.ExportedGlobal(rewrite.CountdownExport).(api.MutableGlobal); ok {
				c.Set(uint64(info.Quantum))
			}
			_, err := mod.ExportedFunction(export).Call(ctx, size)
			return err
		}})
	}
	return ways
}

var stopLoads = []struct {
	name, export string
	size         uint64
}{
	{"loop", "loop", 5}, {"sha256", "sha", 1 << 15}, {"regexp", "regexps", 20}, {"json", "jsons", 10}, {"recursion", "fib", 20},
}

// BenchmarkStop measures what it costs that a guest can be stopped: not at all,
// by the countdown, by the engine's own means.
func BenchmarkStop(b *testing.B) {
	for _, way := range stopWays(b) {
		b.Run(way.name, func(b *testing.B) {
			for _, load := range stopLoads {
				b.Run(load.name, func(b *testing.B) {
					medianOf(b, func() error { return way.call(load.export, load.size) })
				})
			}
		})
	}
}

// BenchmarkStopRatio measures the same on a machine that is never quiet: rounds
// of the three ways alternate, and the metric "ratio" compares the best of each
// with the best of the first.
func BenchmarkStopRatio(b *testing.B) {
	ways := stopWays(b)
	for _, load := range stopLoads {
		b.Run(load.name, func(b *testing.B) {
			best := make([]time.Duration, len(ways))
			for b.Loop() {
				for i, way := range ways {
					start := time.Now()
					if err := way.call(load.export, load.size); err != nil {
						b.Fatal(err)
					}
					if took := time.Since(start); best[i] == 0 || took < best[i] {
						best[i] = took
					}
				}
			}
			for i, way := range ways {
				b.ReportMetric(float64(best[i].Nanoseconds())/1000, "µs-"+way.name)
				b.ReportMetric(float64(best[i])/float64(best[0]), "ratio-"+way.name)
			}
		})
	}
}

// BenchmarkThroughput measures calls a second with 1, 8 and 1,000 callers, who
// wait in the queue, and the slowest of a hundred.
func BenchmarkThroughput(b *testing.B) {
	for _, g := range guestsOfBench[:3] {
		for _, callers := range []int{1, 8, 1000} {
			b.Run(fmt.Sprintf("%s/%d", g.name, callers), func(b *testing.B) {
				e := newEngine(b, Options{Limits: Limits{Queue: 1000, Concurrency: 32}})
				m := g.load(b, e)
				var next atomic.Int64
				var busy atomic.Int64
				var mu sync.Mutex
				var took []time.Duration
				var wg sync.WaitGroup
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						var own []time.Duration
						for next.Add(1) <= int64(b.N) {
							start := time.Now()
							err := g.call(context.Background(), m)
							own = append(own, time.Since(start))
							var te *tool.Error
							if errors.As(err, &te) && te.Code == tool.Busy {
								busy.Add(1)
							} else if err != nil {
								b.Error(err)
							}
						}
						mu.Lock()
						defer mu.Unlock()
						took = append(took, own...)
					})
				}
				wg.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(busy.Load()), "busy")
				b.ReportMetric(float64(e.Pool().Bytes>>10), "KiB-warm")
			})
		}
	}
}

// BenchmarkWarmMemory measures what one warm instance holds after a call: private
// pages by the pool's account, and the growth of the process and of Go's heap.
func BenchmarkWarmMemory(b *testing.B) {
	for _, g := range guestsOfBench {
		b.Run(g.name, func(b *testing.B) {
			const n = 32
			for b.Loop() {
				e := newEngine(b, Options{})
				m := g.load(b, e)
				e.pool.bytes = 1 << 40
				e.pool.drop(m.build.program)
				before := resources(b)
				var all []*instance
				for range n {
					call := &hostfuncs.Call{Tool: g.tool, Invocation: tool.Invocation{CallID: "1", Arguments: []byte(g.args)}}
					m.limit(call)
					l := &lease{call: call, term: newTerm(context.Background(), e, time.Minute, time.Time{})}
					if err := l.begin(m.build.program); err != nil {
						b.Fatal(err)
					}
					req, _ := encodeRequest(call.Invocation, g.tool, time.Time{})
					if _, err := l.run(req, 1<<20); err != nil {
						b.Fatal(err)
					}
					all = append(all, l.inst)
				}
				for _, i := range all {
					e.pool.give(i, false)
				}
				after := resources(b)
				b.ReportMetric(float64(after.rss-before.rss)/n/1024, "KiB-resident")
				b.ReportMetric(float64(after.heap-before.heap)/n/1024, "KiB-heap")
				b.ReportMetric(float64(e.Pool().Bytes)/n/1024, "KiB-account")
				goruntime.KeepAlive(all)
			}
		})
	}
}
