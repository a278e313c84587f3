package rewrite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// goGuest builds testdata/guest, a module of about 3.8 MB.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return os.ReadFile(out)
})

func mustBuildGuest(tb testing.TB) []byte {
	tb.Helper()
	wasm, err := goGuest()
	if err != nil {
		tb.Skipf("needs the go command and its wasip1 port: %v", err)
	}
	return wasm
}

var production = Plan{Countdown: true, ExportGlobals: true, DropDebug: true}

func BenchmarkDecode(b *testing.B) {
	wasm := mustBuildGuest(b)
	b.SetBytes(int64(len(wasm)))
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		if _, err := Decode(wasm); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Microseconds())/1000, "ms-best")
}

// BenchmarkRewrite is all of it: decode, instrument, encode.
func BenchmarkRewrite(b *testing.B) {
	wasm := mustBuildGuest(b)
	b.SetBytes(int64(len(wasm)))
	var out []byte
	var info Info
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		out, info = instrumented(b, wasm, production)
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Microseconds())/1000, "ms-best")
	b.ReportMetric(100*float64(len(out)-len(wasm))/float64(len(wasm)), "%larger")
	b.ReportMetric(float64(info.Polls), "polls")
}

func BenchmarkCompile(b *testing.B) {
	wasm := mustBuildGuest(b)
	changed, _ := instrumented(b, wasm, production)
	for name, module := range map[string][]byte{"original": wasm, "countdown": changed} {
		b.Run(name, func(b *testing.B) {
			h := newHost(b, compiler())
			for b.Loop() {
				m, err := h.CompileModule(b.Context(), module)
				if err != nil {
					b.Fatal(err)
				}
				m.Close(b.Context())
			}
		})
	}
}

// BenchmarkRun measures what the countdown costs. Rounds with and without it
// alternate, each short enough to fit between two interruptions, and the metric
// "ratio" compares the best of each: on a machine that does other things too, it
// is the one figure to trust.
func BenchmarkRun(b *testing.B) {
	wasm := mustBuildGuest(b)
	changed, info := instrumented(b, wasm, production)
	var mods [2]api.Module
	for i, module := range [][]byte{wasm, changed} {
		h := newHost(b, compiler())
		wasi_snapshot_preview1.MustInstantiate(b.Context(), h)
		compiled, err := h.CompileModule(b.Context(), module)
		if err != nil {
			b.Fatal(err)
		}
		mods[i], err = h.InstantiateModule(b.Context(), compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, work := range []struct {
		name string
		size uint64
	}{
		{"loop", 5}, {"fib", 20}, {"sha", 1 << 15}, {"sorting", 2_000}, {"jsons", 10}, {"regexps", 20},
	} {
		b.Run(work.name, func(b *testing.B) {
			var best [2]time.Duration
			var results [2]uint64
			for b.Loop() {
				for i, mod := range mods {
					if i == 1 {
						countdownOf(mod).Set(uint64(info.Quantum))
					}
					start := time.Now()
					result, err := mod.ExportedFunction(work.name).Call(b.Context(), work.size)
					took := time.Since(start)
					if err != nil {
						b.Fatal(err)
					}
					results[i] = result[0]
					if best[i] == 0 || took < best[i] {
						best[i] = took
					}
				}
				if results[0] != results[1] {
					b.Fatalf("%s: %d without, %d with a countdown", work.name, results[0], results[1])
				}
			}
			b.ReportMetric(float64(best[0].Microseconds()), "µs-original")
			b.ReportMetric(float64(best[1].Microseconds()), "µs-countdown")
			b.ReportMetric(float64(best[1])/float64(best[0]), "ratio")
		})
	}
}

// BenchmarkQuantum measures how long a guest keeps the host waiting, at the
// default quantum, if it does what takes longest between two polls.
func BenchmarkQuantum(b *testing.B) {
	const pages = 1024
	loop := func(body ...any) []byte {
		return code(opLoop, emptyBlock, code(body...), opBr, 0, opEnd, opEnd)
	}
	// As much code as goes without a second poll.
	straight := func(piece []byte) []byte { return bytes.Repeat(piece, (StraightBytes-40)/len(piece)) }
	for _, work := range []struct {
		name string
		body []byte
	}{
		{"empty loop", loop()},
		{"additions", loop(opLocalGet, 0, straight(code(number(3), opI32Add)), opLocalSet, 0)},
		{"divisions", loop(opLocalGet, 0, straight(code(opLocalGet, 0, opcode(0x6e))), opDrop)},
		{"loads that miss", loop(opLocalGet, 0, straight(code(opI32Load, 2, 0)), opLocalSet, 0)},
		{"fills of 4 KiB", loop(number(0), number(0), number(4<<10), opMemoryFill, 0)},
		{"fills of 64 MiB", loop(number(0), number(0), number(pages<<16), opMemoryFill, 0)},
	} {
		b.Run(work.name, func(b *testing.B) {
			m := only(funcType{params: i32s}, work.body)
			m.memories[0].min = pages
			wasm, info := instrumented(b, m.Encode(), Plan{Countdown: true})
			h := newHost(b, compiler())
			h.stop = func(int64) bool { return true }
			mod := h.mustInstantiate(b, wasm)
			// A way through the whole memory with a stride that no prefetcher follows.
			const size = pages << 16
			for at, n := uint32(0), 0; n < size/64; n++ {
				next := (at + 64*104729) % size
				mod.Memory().WriteUint32Le(at, next)
				at = next
			}
			best := time.Hour
			for b.Loop() {
				countdownOf(mod).Set(uint64(info.Quantum))
				start := time.Now()
				if _, err := mod.ExportedFunction("f").Call(b.Context(), 1<<20); err == nil {
					b.Fatal("it ended")
				}
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Microseconds())/1000, "ms-best")
		})
	}
}
