package approval

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// What [Ticket.Ask] returns when there is no decision. The ticket stays open.
var (
	ErrNoAnswer = errors.New("nobody has answered yet")
	ErrNotAsked = errors.New("the approver takes no part in this")
)

const (
	// maxAsked is how often one ticket is put to approvers of single calls: a
	// client that lets every prompt lapse is not asked for ever.
	maxAsked = 4
	// maxPasses bounds what a ticket keeps of answers that decide nothing.
	maxPasses = 16
)

// asked is what a ticket knows of the approvers of single calls; guarded by
// desk.mu.
type asked struct {
	times  int
	now    chan struct{} // closed when the one that is asked now has ended; nil if none is
	passed bool
	passes []Decision
}

// note keeps an answer that decides nothing. One that the desk's own approvers
// gave does not speak for those of single calls.
func (a *asked) note(dec Decision, single bool) {
	if dec.Verdict != Pass {
		return
	}
	a.passed = a.passed || single
	if len(a.passes) < maxPasses {
		a.passes = append(a.passes, dec)
	}
}

// Ask is [Ticket.Wait] with one more approver, who is asked for one call only
// and withdrawn when Ask returns. When it answers [Pass] or [Later], Ask returns
// ErrNoAnswer and leaves the ticket to whoever else may decide. When its Offer
// returned nil, Ask returns ErrNotAsked.
//
// Calls that joined one ticket ask one after another, never at once. A ticket
// is put to such approvers at most four times, and not again once one of them
// has passed: then, too, the answer is ErrNoAnswer.
func (t *Ticket) Ask(ctx context.Context, a Approver) (Decision, error) {
	for {
		before, mine := t.turnToAsk()
		switch {
		case mine:
			return t.ask(ctx, a, before)
		case before == nil:
			before = closed // a decision, if there is one, still counts
		}
		dec, err := t.wait(ctx, before)
		if err != ErrNoAnswer || before == closed {
			return dec, err
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// turnToAsk says whether the caller is to ask now, and has to close its turn at
// the end. If not, turn is that of the one who asks; nil means that nobody may.
func (t *Ticket) turnToAsk() (turn chan struct{}, mine bool) {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	c := &t.calls
	switch {
	case t.answered || t.why != nil || c.passed:
		return nil, false
	case c.now != nil:
		return c.now, false
	case c.times >= maxAsked:
		return nil, false
	}
	c.times++
	c.now = make(chan struct{})
	return c.now, true
}

func (t *Ticket) ask(ctx context.Context, a Approver, turn chan struct{}) (Decision, error) {
	none := make(chan struct{})
	var once sync.Once
	withdraw := func() {}
	defer func() {
		if withdraw != nil {
			withdraw()
		}
		t.desk.mu.Lock()
		t.calls.now = nil
		if withdraw == nil {
			t.calls.times--
		}
		t.desk.mu.Unlock()
		close(turn)
	}()
	withdraw = a.Offer(t.req, func(dec Decision) error {
		err := t.desk.decide(t, dec, true)
		if err == nil && (dec.Verdict == Pass || dec.Verdict == Later) {
			once.Do(func() { close(none) })
		}
		return err
	})
	if withdraw == nil {
		return Decision{}, ErrNotAsked
	}
	return t.wait(ctx, none)
}

// Passes lists the answers so far that decided nothing, in their order.
func (t *Ticket) Passes() []Decision {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	return slices.Clone(t.calls.passes)
}
