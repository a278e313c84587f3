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
	key   toolKey
	limit int
	in    chan struct{}
}

func newAdmission(total, queue int) *admission {
	return &admission{total: total, queue: queue, byTool: map[toolKey]int{}}
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
	if len(a.waiting) >= a.queue {
		n := len(a.waiting)
		a.mu.Unlock()
		return tool.Errorf(tool.Busy, "%d calls wait already", n).WithNext("try again in a second")
	}
	w := &waiter{key, limit, make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.mu.Unlock()

	select {
	case <-w.in:
		return nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	if i := slices.Index(a.waiting, w); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.mu.Unlock()
		return context.Cause(ctx)
	}
	a.mu.Unlock()
	a.leave(key) // it was let in meanwhile
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
