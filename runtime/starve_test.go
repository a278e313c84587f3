package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// starveEnv makes the test binary run one case of TestStarvedProcess, because
// the number of processors is the process's.
const starveEnv = "WASMTOOLS_TEST_STARVE"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(CompileMain())
	}
	if name := os.Getenv(compileEnv); name != "" {
		if err := compileBare(name); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if home := os.Getenv(restoreEnv); home != "" {
		if err := restore(home); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(bareEnv) != "" {
		bare()
		os.Exit(0)
	}
	if os.Getenv(starveEnv) != "" {
		var procs, guests, rate int
		if _, err := fmt.Sscan(os.Getenv(starveEnv), &procs, &guests, &rate); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		if err := starve(procs, guests, rate); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestStarvedProcess lets endless guests take every processor, also while
// garbage is made that has to be collected, which needs every goroutine to
// pause. Everything must stop in time. The case runs in a process of its own and
// is killed if it hangs.
func TestStarvedProcess(t *testing.T) {
	for _, c := range []struct{ procs, guests, mibPerSecond int }{
		{1, 1, 0},
		{1, 4, 0},
		{1, 1, 100},
		{2, 8, 100},
	} {
		t.Run(fmt.Sprintf("%d processors, %d guests, %d MiB a second", c.procs, c.guests, c.mibPerSecond), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(),
				fmt.Sprintf("%s=%d %d %d", starveEnv, c.procs, c.guests, c.mibPerSecond), fmt.Sprintf("GOMAXPROCS=%d", c.procs))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

var garbage []byte

func starve(procs, guests, rate int) error {
	if got := goruntime.GOMAXPROCS(0); got != procs {
		return fmt.Errorf("GOMAXPROCS is %d, want %d", got, procs)
	}
	const limit = 300 * time.Millisecond
	e, err := New(context.Background(), Options{Limits: Limits{Time: limit, Concurrency: guests}})
	if err != nil {
		return err
	}
	var endless []byte
	for _, g := range hostile.Guests() {
		if g.Name == "endless-loop" {
			endless = hostile.WithLimits(g.Wasm, "")
		}
	}
	m, err := e.Load(context.Background(), endless, LoadOptions{})
	if err != nil {
		return err
	}
	if err := m.Prepare(context.Background()); err != nil {
		return err
	}
	collections := collected()
	done := make(chan struct{})
	var allocating sync.WaitGroup
	if rate > 0 {
		allocating.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					for range rate { // rate × 10 KiB in 10 ms
						garbage = make([]byte, 10<<10)
					}
				}
			}
		})
	}
	var mu sync.Mutex
	var worst time.Duration
	var wrong error
	var calls sync.WaitGroup
	for range guests {
		calls.Go(func() {
			began := time.Now()
			r, _, err := m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}")}})
			mu.Lock()
			defer mu.Unlock()
			worst = max(worst, time.Since(began))
			if err != nil || r.Code != tool.Timeout {
				wrong = fmt.Errorf("code %q, error %v; want timeout", r.Code, err)
			}
		})
	}
	calls.Wait()
	close(done)
	allocating.Wait()
	collections = collected() - collections
	fmt.Printf("limit %s, the last of %d guests was answered after %s, %d collections\n", limit, guests, worst.Round(time.Millisecond), collections)
	if rate > 0 && collections == 0 {
		return fmt.Errorf("no collection was completed")
	}
	if wrong != nil {
		return wrong
	}
	return e.Close()
}

// collected is how many collections were completed.
func collected() uint32 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.NumGC
}

// TestCloseStopsGuests closes the engine under a running guest.
func TestCloseStopsGuests(t *testing.T) {
	e, err := New(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, e, hostile.WithLimits(find(t, "endless-loop"), ""))
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	codes := make(chan tool.Code)
	for range 3 {
		go func() {
			r, _, _ := m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{Arguments: []byte("{}")}})
			codes <- r.Code
		}()
	}
	waitFor(t, func() bool {
		e.admit.mu.Lock()
		defer e.admit.mu.Unlock()
		return e.admit.running == 3
	})
	if err := e.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	for range 3 {
		if c := <-codes; c != tool.Cancelled {
			t.Errorf("a call under Close = %q, want cancelled", c)
		}
	}
	if c, _, _ := callOnce(m, 0); c != tool.Cancelled {
		t.Errorf("a call after Close = %q, want cancelled", c)
	}
	if _, err := e.Load(context.Background(), hostile.Good(), LoadOptions{}); tool.CodeOf(err) != tool.Cancelled {
		t.Errorf("Load after Close = %v, want cancelled", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("the second Close() = %v", err)
	}
}
