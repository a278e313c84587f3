package runtime

import (
	"context"
	"slices"
	"sync"

	"github.com/wasmtools/wasmtools/tool"
)

// admission lets calls in: so many of one tool, so many in all. The others wait
// in order, but one that waits for its own tool holds up no other.
type admission struct {
	mu      sync.Mutex
	total   int
	queue   int
	running int
	byTool  map[toolKey]int
	waiting []*waiter
}

// toolKey names a tool of a module.
type toolKey struct {
	module tool.Digest
	index  int
}

type waiter struct {
	key     toolKey
	limit   int
	in      chan struct{} // closed when it need not wait any more
	refused error         // set before, if its place went to another tool
}

func newAdmission(total, queue int) *admission {
	return &admission{total: total, queue: queue, byTool: map[toolKey]int{}}
}

// tryEnter lets the call in if it need not wait. After success, leave must be
// called once.
func (a *admission) tryEnter(key toolKey, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.fits(key, limit) {
		return false
	}
	a.take(key)
	return true
}

// enter waits until the call may run. It fails with busy if too many wait, and
// with the context's error. After success, leave must be called once.
func (a *admission) enter(ctx context.Context, key toolKey, limit int) error {
	a.mu.Lock()
	if a.fits(key, limit) {
		a.take(key)
		a.mu.Unlock()
		return nil
	}
	if len(a.waiting) >= a.queue && !a.yieldPlace(key) {
		n := len(a.waiting)
		a.mu.Unlock()
		return busy(n)
	}
	w := &waiter{key: key, limit: limit, in: make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.mu.Unlock()

	select {
	case <-w.in:
		return w.refused
	case <-ctx.Done():
	}
	a.mu.Lock()
	if i := slices.Index(a.waiting, w); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.mu.Unlock()
		return context.Cause(ctx)
	}
	a.mu.Unlock()
	if <-w.in; w.refused == nil { // it was let in meanwhile
		a.leave(key)
	}
	return context.Cause(ctx)
}

// leave gives the call's place to those that wait.
func (a *admission) leave(key toolKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.byTool[key]--; a.byTool[key] == 0 {
		delete(a.byTool, key)
	}
	kept := a.waiting[:0]
	for _, w := range a.waiting {
		if a.fits(w.key, w.limit) {
			a.take(w.key)
			close(w.in)
		} else {
			kept = append(kept, w)
		}
	}
	clear(a.waiting[len(kept):])
	a.waiting = kept
}

func (a *admission) fits(key toolKey, limit int) bool {
	return a.running < a.total && a.byTool[key] < limit
}

func (a *admission) take(key toolKey) {
	a.running++
	a.byTool[key]++
}

// yieldPlace makes room in a full queue for a tool that has less of it than
// another: the youngest call of the tool that has most is sent away. A flood of
// one tool thus holds no place that another could use. It tells whether there is
// room now.
func (a *admission) yieldPlace(key toolKey) bool {
	places := map[toolKey]int{}
	most := key
	for _, w := range a.waiting {
		if places[w.key]++; places[w.key] > places[most] {
			most = w.key
		}
	}
	if places[most] < places[key]+2 {
		return false
	}
	for i := len(a.waiting) - 1; i >= 0; i-- {
		if w := a.waiting[i]; w.key == most {
			a.waiting = slices.Delete(a.waiting, i, i+1)
			w.refused = busy(len(a.waiting))
			close(w.in)
			return true
		}
	}
	return false
}

// busy is the answer to a call that cannot wait. How long others take is not
// known; a second is long for a tool and short for a person.
func busy(waiting int) *tool.Error {
	return tool.Errorf(tool.Busy, "%d calls wait already", waiting).
		WithNext("try again in a second").
		With("retry_after_ms", 1000)
}
