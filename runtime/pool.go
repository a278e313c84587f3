package runtime

import (
	"slices"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
)

// pool keeps instances that were put back to their snapshot, so that most calls
// need not make one. It grows by what calls give back, up to a number and a
// size, and shrinks by time. Nothing in it runs.
type pool struct {
	instances int    // that may wait
	bytes     uint64 // that they may hold together

	mu     sync.Mutex
	idle   []*instance // oldest first
	held   uint64      // by those in idle
	made   int64       // instances so far
	timer  *time.Timer // for trim; nil while nothing waits
	closed bool
}

const (
	// defaultWarm is how many instances wait at most: as many as run at most.
	defaultWarm = defaultTotal

	// warmBytes is how much memory of their own all of them hold together.
	warmBytes = 64 << 20

	// instanceCost is what every instance costs the host's heap beside its memory.
	// What depends on the module is in its form.
	instanceCost = 32 << 10

	// idleTime is how long an instance waits for a call before it is given up.
	idleTime = time.Minute
)

// take gives an instance for a call of p: the one that was used last, whose
// memory is still in the processor's caches, or a new one.
func (o *pool) take(p *program, grant hostfuncs.Grant, limit uint64) (*instance, error) {
	o.mu.Lock()
	for n := len(o.idle) - 1; n >= 0; n-- {
		if i := o.idle[n]; i.serves(p, grant, limit) {
			o.remove(n)
			o.mu.Unlock()
			return i, nil
		}
	}
	o.made++
	o.mu.Unlock()
	return p.newInstance(grant, limit)
}

// give takes an instance back when its call has ended. One that is spoiled, or
// cannot be put back to the snapshot, is closed.
func (o *pool) give(i *instance, spoiled bool) {
	if spoiled || !i.reset() {
		i.close()
		return
	}
	for _, other := range o.keep(i) {
		other.close()
	}
}

// keep lets i wait and returns those that cannot wait any more.
func (o *pool) keep(i *instance) (gone []*instance) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.instances == 0 {
		return []*instance{i}
	}
	i.idle = time.Now()
	o.idle = append(o.idle, i)
	o.held += i.cost()
	for len(o.idle) > o.instances || o.held > o.bytes {
		gone = append(gone, o.remove(0))
	}
	if o.timer == nil && len(o.idle) > 0 {
		o.timer = time.AfterFunc(idleTime, func() { o.trim(time.Now()) })
	}
	return gone
}

func (i *instance) cost() uint64 { return i.kept + instanceCost + i.program.form.Cost }

// remove takes the n-th waiting instance out. The lock is held.
func (o *pool) remove(n int) *instance {
	i := o.idle[n]
	o.idle = slices.Delete(o.idle, n, n+1)
	o.held -= i.cost()
	return i
}

// trim closes what has waited for too long and comes again while there is more.
func (o *pool) trim(now time.Time) {
	var gone []*instance
	o.mu.Lock()
	for len(o.idle) > 0 && now.Sub(o.idle[0].idle) >= idleTime {
		gone = append(gone, o.remove(0))
	}
	switch {
	case o.timer == nil:
	case len(o.idle) > 0 && !o.closed:
		o.timer.Reset(max(time.Second, idleTime-now.Sub(o.idle[0].idle)))
	default:
		o.timer.Stop()
		o.timer = nil
	}
	o.mu.Unlock()
	for _, i := range gone {
		i.close()
	}
}

// drop closes what waits of p.
func (o *pool) drop(p *program) {
	var gone []*instance
	o.mu.Lock()
	for n := len(o.idle) - 1; n >= 0; n-- {
		if o.idle[n].program == p {
			gone = append(gone, o.remove(n))
		}
	}
	o.mu.Unlock()
	for _, i := range gone {
		i.close()
	}
}

// close closes everything that waits; what is given back later is closed then.
func (o *pool) close() {
	o.mu.Lock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	gone := o.idle
	o.idle, o.held = nil, 0
	o.mu.Unlock()
	for _, i := range gone {
		i.close()
	}
}

// PoolState is what the warm instances of all modules hold.
type PoolState struct {
	Waiting int    // instances
	Bytes   uint64 // of memory of their own, with what the host keeps for them
	Made    int64  // instances since the engine was made
}

// Pool tells what the warm instances hold, for a person and for tests.
func (e *Engine) Pool() PoolState {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	return PoolState{len(e.pool.idle), e.pool.held, e.pool.made}
}
