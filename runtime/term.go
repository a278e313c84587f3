package runtime

import (
	"context"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// term is the time that something of a call may take, and why it ends. Nobody
// sends a stop to a guest: the guest's own polls and host functions ask its
// term. A stop that comes late therefore finds no guest but the one it was for.
//
// A term belongs to one goroutine. It makes a context and a timer only for those
// who have to wait for something else than the guest.
type term struct {
	caller context.Context
	engine *Engine
	until  time.Time
	limit  time.Duration // that made until; 0: the caller's own deadline did
	why    *tool.Error   // once it is over

	waiting context.Context // see context
	release context.CancelFunc
}

// newTerm begins a term that ends with the caller's context, with the engine,
// after limit, and at the given time if there is one.
func newTerm(ctx context.Context, e *Engine, limit time.Duration, at time.Time) term {
	return termFrom(time.Now(), ctx, e, limit, at)
}

// termFrom is newTerm for somebody who has just looked at the clock, which takes
// longer than all the rest here.
func termFrom(now time.Time, ctx context.Context, e *Engine, limit time.Duration, at time.Time) term {
	t := term{caller: ctx, engine: e, until: now.Add(limit), limit: limit}
	outer, _ := ctx.Deadline()
	for _, other := range [...]time.Time{at, outer} {
		if !other.IsZero() && other.Before(t.until) {
			t.until, t.limit = other, 0
		}
	}
	return t
}

// over tells why the term has ended, or nil.
func (t *term) over() *tool.Error { return t.overAt(time.Now()) }

func (t *term) overAt(now time.Time) *tool.Error {
	switch {
	case t.why != nil:
	case t.caller.Err() != nil:
		t.why = tool.AsError(context.Cause(t.caller))
	case t.engine.life.Err() != nil:
		t.why = tool.AsError(context.Cause(t.engine.life))
	case !now.Before(t.until):
		t.why = t.tooLate()
	}
	return t.why
}

func (t *term) tooLate() *tool.Error {
	if t.limit == 0 {
		return tool.Errorf(tool.Timeout, "the call's deadline has passed")
	}
	return tool.Errorf(tool.Timeout, "the tool ran longer than %s", t.limit)
}

// context ends with the term. It is for what waits: files, searches, sleep.
func (t *term) context() context.Context {
	if t.waiting == nil {
		ctx, stop := context.WithCancelCause(t.caller)
		ctx, cancel := context.WithDeadlineCause(ctx, t.until, t.tooLate())
		unhook := context.AfterFunc(t.engine.life, func() { stop(context.Cause(t.engine.life)) })
		t.waiting, t.release = ctx, func() {
			unhook()
			cancel()
			stop(nil)
		}
	}
	return t.waiting
}

// ended tells why, to somebody whom the context of the term has told that it is
// over. Clocks differ by a little, so that over may not know yet.
func (t *term) ended() *tool.Error {
	if t.over() == nil {
		t.why = tool.AsError(context.Cause(t.context()))
	}
	return t.why
}

// end gives back what the term holds. Whoever still waits for its context is let
// go.
func (t *term) end() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}
