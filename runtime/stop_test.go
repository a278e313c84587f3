package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// bareEnv makes the test binary run a guest that has no polls.
const bareEnv = "WASMTOOLS_TEST_BARE"

// bare runs an endless guest as it was given, with a context that ends soon, and
// collects garbage meanwhile.
func bare() {
	var endless []byte
	for _, g := range hostile.Guests() {
		if g.Name == "endless-loop" {
			endless = g.Wasm
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	r := wazero.NewRuntime(ctx)
	mod, err := r.Instantiate(ctx, endless)
	if err != nil {
		fmt.Println(err)
		return
	}
	started := make(chan struct{})
	go func() {
		close(started)
		_, err := mod.ExportedFunction("wt_call").Call(ctx, 0, 0)
		fmt.Println("the guest ended:", err)
	}()
	<-started
	goruntime.Gosched()
	for range 10 {
		goruntime.GC()
	}
	fmt.Println("garbage was collected")
}

// TestWithoutYieldHangs is the control of TestStarvedProcess: the same guest
// without a countdown holds its processor for good, and with it the collector
// and whoever would have stopped it.
func TestWithoutYieldHangs(t *testing.T) {
	for _, procs := range []int{1, 2} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), bareEnv+"=1", fmt.Sprintf("GOMAXPROCS=%d", procs))
		out, err := cmd.CombinedOutput()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || strings.Contains(string(out), "ended") {
			t.Errorf("GOMAXPROCS=%d: it did not hang: %v\n%s", procs, err, out)
		}
		cancel()
	}
}

// TestStopsInsideHostFunctions stops a guest that sleeps, and one that is told so
// by a cancelled context while it does.
func TestStopsInsideHostFunctions(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, goGuest(t))
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	sleeps := -1
	for i, g := range hostile.GoTools {
		if g.Name == "sleep" {
			sleeps = i
		}
	}
	if sleeps < 0 {
		t.Fatal("no Go tool sleeps")
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	for _, c := range []struct {
		ctx  context.Context
		at   time.Time
		want tool.Code
	}{
		{context.Background(), time.Now().Add(20 * time.Millisecond), tool.Timeout},
		{ctx, time.Time{}, tool.Cancelled},
	} {
		r, _, err := m.Run(c.ctx, &hostfuncs.Call{Tool: sleeps, Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}"), Deadline: c.at}})
		if err != nil || r.Code != c.want {
			t.Errorf("a guest that sleeps for an hour = %q %s, %v; want %s", r.Code, r.PlainText(), err, c.want)
		}
	}
}

// BenchmarkStopLatency lets endless guests run against their deadlines on two
// processors, while 100 MB/s of garbage is made and collected by force every
// 5 ms. It reports how late the guests are stopped, and how late a timer of
// somebody else fires.
func BenchmarkStopLatency(b *testing.B) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(2))
	for _, guests := range []int{1, 2, 8, 32} {
		b.Run(fmt.Sprint(guests), func(b *testing.B) {
			e := newEngine(b, Options{Limits: Limits{Concurrency: guests, Total: guests}})
			m := load(b, e, hostile.WithLimits(find(b, "endless-loop"), ""))
			if err := m.Prepare(b.Context()); err != nil {
				b.Fatal(err)
			}
			stop := make(chan struct{})
			var others sync.WaitGroup
			every := func(d time.Duration, f func()) {
				others.Go(func() {
					tick := time.NewTicker(d)
					defer tick.Stop()
					for {
						select {
						case <-stop:
							return
						case <-tick.C:
							f()
						}
					}
				})
			}
			every(5*time.Millisecond, goruntime.GC)
			every(10*time.Millisecond, func() {
				for range 100 {
					garbage = make([]byte, 10<<10)
				}
			})
			var bystander, late []time.Duration
			others.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					due := time.Now().Add(7 * time.Millisecond)
					<-time.After(7 * time.Millisecond)
					bystander = append(bystander, time.Since(due))
				}
			})
			var mu sync.Mutex
			for b.Loop() {
				var calls sync.WaitGroup
				for range guests {
					calls.Go(func() {
						due := time.Now().Add(50 * time.Millisecond)
						r, _, err := m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{Arguments: []byte("{}"), Deadline: due}})
						over := time.Since(due)
						mu.Lock()
						defer mu.Unlock()
						late = append(late, over)
						if err != nil || r.Code != tool.Timeout {
							b.Errorf("code %q, %v", r.Code, err)
						}
					})
				}
				calls.Wait()
			}
			close(stop)
			others.Wait()
			slices.Sort(late)
			slices.Sort(bystander)
			at := func(d []time.Duration, q int) float64 { return float64(d[(len(d)-1)*q/100].Microseconds()) }
			b.ReportMetric(at(late, 50), "stop-p50-µs")
			b.ReportMetric(at(late, 99), "stop-p99-µs")
			b.ReportMetric(at(bystander, 50), "timer-p50-µs")
			b.ReportMetric(at(bystander, 99), "timer-p99-µs")
		})
	}
}
