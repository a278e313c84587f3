package runtime

import (
	"context"
	"encoding/binary"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// sleeper is a guest that sleeps for a millisecond, so that calls overlap.
func sleeper() []byte {
	const in, out, count = hostile.AnswerAt, 600, 640
	subscription := make([]byte, subSize)
	binary.LittleEndian.PutUint32(subscription[16:], clockMonotonic)
	binary.LittleEndian.PutUint64(subscription[24:], uint64(time.Millisecond))
	i := byte(wasmasm.I32)
	poll := wasmasm.Import{Module: wasiModule, Name: "poll_oneoff", Type: wasmasm.FuncType{Params: []byte{i, i, i, i}, Results: []byte{i}}}
	return hostile.WithLimits(hostile.Calling(poll, wasmasm.Code{}.I32Const(in).I32Const(out).I32Const(1).I32Const(count).Call(0).Drop(), subscription), "")
}

// TestThousandCallers has a thousand callers at once on two processors. With a
// queue for all of them every call is answered; with the default one the others
// are told to come again, and nothing else goes wrong. What waits and what is held
// stays within the pool's bounds at every moment.
func TestThousandCallers(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(2))
	const callers, each = 1000, 5
	for _, c := range []struct {
		name   string
		limits Limits
		busy   bool
	}{
		{"a place for everybody", Limits{Queue: callers, Concurrency: defaultTotal, Time: time.Minute}, false},
		{"the default queue", Limits{Time: time.Minute}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, Options{Limits: c.limits})
			m := load(t, e, sleeper())
			if err := m.Prepare(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := resources(t)
			var mu sync.Mutex
			var took []time.Duration
			outcomes := map[tool.Code]int{}
			var calls sync.WaitGroup
			start := make(chan struct{})
			for range callers {
				calls.Go(func() {
					<-start
					for range each {
						began := time.Now()
						r, _, err := m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}")}})
						d := time.Since(began)
						mu.Lock()
						took = append(took, d)
						outcomes[r.Code]++
						if err != nil || r.Code == tool.Busy && r.Details["retry_after_ms"] == nil {
							t.Errorf("%v, %v; want an answer, or busy with a hint", r, err)
						}
						if s := e.Pool(); s.Waiting > defaultWarm || s.Bytes > warmBytes {
							t.Errorf("%d instances with %d bytes wait; at most %d with %d may", s.Waiting, s.Bytes, defaultWarm, warmBytes)
						}
						mu.Unlock()
					}
				})
			}
			close(start)
			calls.Wait()
			after := resources(t)
			slices.Sort(took)
			t.Logf("%d calls: %v; half within %s, 99 of 100 within %s; %d instances made; resident %d MiB before, %d after",
				len(took), outcomes, took[len(took)/2], took[len(took)*99/100], e.Pool().Made, before.rss>>20, after.rss>>20)
			want := callers * each
			if got := outcomes[""]; got == 0 || !c.busy && got != want || got+outcomes[tool.Busy] != want {
				t.Errorf("the calls ended with %v; want %d that are answered, or busy: %v", outcomes, want, c.busy)
			}
			if c.busy && outcomes[tool.Busy] == 0 {
				t.Error("nobody was sent away")
			}
			// Resident memory is the race detector's as well, so the heap is compared.
			if grown := after.heap - before.heap; grown > 32<<20 {
				t.Errorf("%d MiB of heap are held that were not before", grown>>20)
			}
		})
	}
}
