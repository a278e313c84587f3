package rewrite

import (
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
	for b.Loop() {
		if _, err := Decode(wasm); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRewrite is all of it: decode, instrument, encode.
func BenchmarkRewrite(b *testing.B) {
	wasm := mustBuildGuest(b)
	b.SetBytes(int64(len(wasm)))
	var out []byte
	var info Info
	for b.Loop() {
		out, info = instrumented(b, wasm, production)
	}
	b.ReportMetric(100*float64(len(out)-len(wasm))/float64(len(wasm)), "%larger")
	b.ReportMetric(float64(info.Polls), "polls")
}

func BenchmarkCompile(b *testing.B) {
	wasm := mustBuildGuest(b)
	changed, _ := instrumented(b, wasm, production)
	for name, bytes := range map[string][]byte{"original": wasm, "countdown": changed} {
		b.Run(name, func(b *testing.B) {
			h := newHost(b, compiler())
			for b.Loop() {
				m, err := h.CompileModule(b.Context(), bytes)
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
	for i, bytes := range [][]byte{wasm, changed} {
		h := newHost(b, compiler())
		wasi_snapshot_preview1.MustInstantiate(b.Context(), h)
		compiled, err := h.CompileModule(b.Context(), bytes)
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
