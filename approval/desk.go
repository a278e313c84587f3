package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// What an Answer can meet.
var (
	ErrAnswered = errors.New("another answer came first")
	ErrExpired  = errors.New("the ticket has expired")

	// ErrNotOffered: the answer would save a rule that was not shown. The ticket
	// stays open.
	ErrNotOffered = errors.New("the rule is not the one that was offered")
)

// ErrUsed is what [Ticket.Redeem] answers to all but the first.
var ErrUsed error = tool.Errorf(tool.ApprovalExpired, "the decision was used already").
	WithNext("the call was carried out once, for whoever came first; look at what it changed before you call again")

// ErrEnded is what [Ticket.Redeem] answers if the ticket ended with its decision
// unused: it expired, an equal call that would do something else took its place,
// or the desk was closed.
var ErrEnded error = tool.Errorf(tool.ApprovalExpired, "the ticket ended before its decision was used").
	WithNext("nothing was done; make the call again if it is still wanted")

// Why a ticket ended without a decision, for the calls that wait for it.
var (
	errReplaced = tool.Errorf(tool.ApprovalMismatch, "an equal call that would do something else took the place of this one").
			WithNext("nothing was done; look at what has changed, and make the call again if it is still wanted")
	errWithdrawn = tool.Errorf(tool.ApprovalExpired, "the question was taken back")
	errClosed    = tool.Errorf(tool.Cancelled, "the runtime was closed")
)

// Bounds on what waits at one desk. A model that asks for more gets busy.
const (
	maxTickets   = 256
	maxHeldBytes = 256 << 20 // content and diffs of all write sets that wait
)

// Desk holds tickets. It is safe for concurrent use.
type Desk struct {
	approvers []Approver
	ttl       time.Duration
	now       func() time.Time

	mu      sync.Mutex
	tickets map[string]*Ticket
	open    map[key]*Ticket // tickets that an equal call joins
	held    int64           // bytes of content that the tickets hold
}

// key says when two calls are equal: the same call by the same session.
type key struct {
	session, tool string
	module, input tool.Digest
}

// NewDesk makes a desk that asks approvers; with none, every ticket waits for
// a decision through [Desk.Decide]. A ttl of 0 means [TTL].
func NewDesk(approvers []Approver, ttl time.Duration) *Desk {
	if ttl <= 0 {
		ttl = TTL
	}
	return &Desk{
		approvers: approvers, ttl: ttl, now: time.Now,
		tickets: map[string]*Ticket{}, open: map[key]*Ticket{},
	}
}

// Ticket is a frozen call that waits for a decision, or has one that was not
// used yet.
type Ticket struct {
	desk *Desk
	key  key
	req  Request

	decided chan struct{} // closed once a decision is there
	ended   chan struct{} // closed once the desk has dropped the ticket
	offered chan struct{} // closed once all approvers of the desk were asked to take part

	// Guarded by desk.mu.
	taken    bool // an answer counts already: decision
	decision Decision
	answered bool  // and was told: decision may be acted on
	lapsing  bool  // dropped between the two: Lapsed waits for the telling
	why      error // it ended
	redeemed bool
	withdraw []func()
	takers   []Approver // that were offered the request and take part
	calls    asked
}

// size is what a ticket for r holds in memory, but for small change.
func (r *Request) size() int64 { return r.Preview.Writes.Bytes() + int64(len(r.Preview.Diff)) }

// Attended reports whether somebody takes part who can be expected to answer
// now. Without, a caller answers approval_required instead of waiting. A call
// that joined a ticket which is still being offered waits for that, until ctx
// ends.
func (t *Ticket) Attended(ctx context.Context) bool {
	select {
	case <-t.offered:
	case <-t.decided:
	case <-ctx.Done():
	}
	t.desk.mu.Lock()
	takers := t.takers
	t.desk.mu.Unlock()
	return slices.ContainsFunc(takers, func(a Approver) bool {
		p, ok := a.(Presence)
		return !ok || p.Attended()
	})
}

// Queued reports whether an approver of the desk keeps the request for somebody
// who may look at it later, or that of a single call is asked now.
func (t *Ticket) Queued() bool {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	return len(t.takers) > 0 || t.calls.now != nil
}

// Request returns what was asked.
func (t *Ticket) Request() Request { return t.req }

// Submit opens a ticket for r and offers it to the approvers. If an equal call
// of the same session has an open ticket with the same binding, that one is
// returned and nobody is asked twice. A ticket of an equal call whose binding
// differs is replaced: what was asked then would not happen now.
func (d *Desk) Submit(r Request) (*Ticket, error) {
	k := key{r.Session, r.Tool, r.Module, r.Input}
	d.mu.Lock()
	withdraw := d.sweep()
	defer func() { run(withdraw) }()
	if t := d.open[k]; t != nil {
		if t.req.Preview.Binding == r.Preview.Binding {
			d.mu.Unlock()
			return t, nil
		}
		// A decision was given for another binding. It must not be spent on this
		// one, and the caller must hear of it once.
		changed := t.taken && t.decision.Verdict == Allow && !t.decision.Standing
		withdraw = append(withdraw, d.drop(t, errReplaced)...)
		if changed {
			d.mu.Unlock()
			return nil, tool.Errorf(tool.ApprovalMismatch, "the approved call would now do something else than was approved")
		}
	}
	size := r.size()
	if len(d.tickets) >= maxTickets || d.held+size > maxHeldBytes {
		n := len(d.tickets)
		d.mu.Unlock()
		return nil, tool.Errorf(tool.Busy, "%d calls wait for a decision already", n).
			WithNext("wait until some were decided or expired")
	}
	d.held += size
	r.Ticket = newHandle()
	r.Expires = d.now().Add(d.ttl)
	t := &Ticket{desk: d, key: k, req: r, decided: make(chan struct{}), ended: make(chan struct{}), offered: make(chan struct{})}
	d.tickets[r.Ticket], d.open[k] = t, t
	d.mu.Unlock()
	defer close(t.offered)
	if r.Opened != nil {
		if err := r.Opened(r); err != nil {
			t.Withdraw()
			return nil, err
		}
	}

	answer := func(dec Decision) error { return d.decide(t, dec, false) }
	for _, a := range d.approvers {
		w := a.Offer(r, answer)
		if w == nil {
			continue
		}
		d.mu.Lock()
		late := t.taken || d.tickets[r.Ticket] != t
		t.takers = append(t.takers, a)
		if !late {
			t.withdraw = append(t.withdraw, w)
		}
		d.mu.Unlock()
		if late { // somebody answered, or it ended, before all were asked
			w()
			break
		}
	}
	return t, nil
}

// Equal returns the open ticket that a call with these properties of r would
// join: session, tool, module and input.
func (d *Desk) Equal(r Request) (*Ticket, bool) {
	d.mu.Lock()
	withdraw := d.sweep()
	t := d.open[key{r.Session, r.Tool, r.Module, r.Input}]
	d.mu.Unlock()
	run(withdraw)
	return t, t != nil
}

// Close ends every ticket and every wait for one. Answers that come later get
// ErrExpired.
func (d *Desk) Close() {
	d.mu.Lock()
	var withdraw []func()
	for _, t := range d.tickets {
		withdraw = append(withdraw, d.drop(t, errClosed)...)
	}
	d.mu.Unlock()
	run(withdraw)
}

// Decide answers the ticket named id from outside the approvers.
func (d *Desk) Decide(id string, dec Decision) error {
	d.mu.Lock()
	t := d.tickets[id]
	d.mu.Unlock()
	if t == nil {
		return ErrExpired
	}
	return d.decide(t, dec, true)
}

// Find returns the ticket named id if it is still of use.
func (d *Desk) Find(id string) (*Ticket, bool) {
	d.mu.Lock()
	withdraw := d.sweep()
	t := d.tickets[id]
	d.mu.Unlock()
	run(withdraw)
	return t, t != nil
}

// decide takes an answer; single says that it was given for one call.
func (d *Desk) decide(t *Ticket, dec Decision, single bool) error {
	d.mu.Lock()
	switch {
	case t.taken:
		d.mu.Unlock()
		return ErrAnswered
	case d.tickets[t.req.Ticket] != t || !d.now().Before(t.req.Expires):
		d.mu.Unlock()
		return ErrExpired
	case dec.Verdict == Pass || dec.Verdict == Later:
		t.calls.note(dec, single)
		d.mu.Unlock()
		t.tell(dec)
		return nil
	case dec.Save != nil && (dec.Verdict != Allow || t.req.Offer == nil || *dec.Save != *t.req.Offer):
		d.mu.Unlock()
		return ErrNotOffered
	}
	t.taken, t.decision = true, dec
	withdraw := t.withdraw
	t.withdraw = nil
	d.mu.Unlock()
	t.tell(dec) // before anybody can act on it
	d.mu.Lock()
	t.answered = d.tickets[t.req.Ticket] == t
	if t.lapsing {
		withdraw = append(withdraw, t.req.Lapsed)
	}
	d.mu.Unlock()
	if t.answered { // nothing changes it any more
		close(t.decided)
	}
	run(withdraw)
	if !t.answered {
		return ErrExpired
	}
	return nil
}

func (t *Ticket) tell(dec Decision) {
	if t.req.Told != nil {
		t.req.Told(dec)
	}
}

// Wait returns the decision. It ends early with the context's error, which
// leaves the ticket open, and with the ticket: approval_expired, or
// approval_mismatch if an equal call took its place, or cancelled.
func (t *Ticket) Wait(ctx context.Context) (Decision, error) { return t.wait(ctx, nil) }

// wait is Wait that also ends, with ErrNoAnswer, when enough is closed.
func (t *Ticket) wait(ctx context.Context, enough <-chan struct{}) (Decision, error) {
	timer := time.NewTimer(t.req.Expires.Sub(t.desk.now()))
	defer timer.Stop()
	var err error
	select {
	case <-t.decided:
	case <-t.ended:
	case <-ctx.Done():
		err = ctx.Err()
	case <-enough:
		err = ErrNoAnswer
	case <-timer.C:
	}
	t.desk.mu.Lock()
	var withdraw []func()
	if !t.answered && t.why == nil && err == nil {
		withdraw = t.desk.drop(t, t.desk.late())
	}
	dec, answered, why := t.decision, t.answered, t.why
	t.desk.mu.Unlock()
	run(withdraw)
	switch {
	case answered && ctx.Err() == nil:
		return dec, nil
	case ctx.Err() != nil:
		return Decision{}, ctx.Err()
	case why != nil:
		return Decision{}, why
	}
	return Decision{}, err
}

func (d *Desk) late() error {
	return tool.Errorf(tool.ApprovalExpired, "nobody answered within %s", d.ttl)
}

// Decision returns the decision if there is one.
func (t *Ticket) Decision() (Decision, bool) {
	t.desk.mu.Lock()
	defer t.desk.mu.Unlock()
	return t.decision, t.answered
}

// Redeem spends an allow: it succeeds once, only before the ticket expires and
// only for the binding that was approved. Whatever it returns, the ticket is
// gone afterwards.
func (t *Ticket) Redeem(binding tool.Digest) error {
	d := t.desk
	d.mu.Lock()
	used, open := t.redeemed, d.tickets[t.req.Ticket] == t
	t.redeemed = used || open
	withdraw := d.drop(t, ErrUsed)
	defer func() { run(withdraw) }()
	defer d.mu.Unlock()
	expired := !d.now().Before(t.req.Expires)
	switch {
	case used:
		return ErrUsed
	case !open:
		return ErrEnded
	case !t.answered || expired:
		return tool.Errorf(tool.ApprovalExpired, "the decision came too late")
	}
	if t.decision.Verdict != Allow {
		return Denied(t.decision)
	}
	if binding != t.req.Preview.Binding {
		return tool.Errorf(tool.ApprovalMismatch, "what would happen now is not what was approved")
	}
	return nil
}

// Withdraw takes an open ticket back: nobody is to be asked after all.
func (t *Ticket) Withdraw() {
	t.desk.mu.Lock()
	t.redeemed = true
	withdraw := t.desk.drop(t, errWithdrawn)
	t.desk.mu.Unlock()
	run(withdraw)
}

// Denied is the error for a decision that is no allow.
func Denied(dec Decision) *tool.Error {
	e := tool.Errorf(tool.Denied, "%s said no", orUnknown(dec.By))
	if dec.Reason != "" {
		e.Text += ": " + dec.Reason
	}
	return e.With("channel", dec.Channel)
}

func orUnknown(by string) string {
	if by == "" {
		return "the approver"
	}
	return by
}

// sweep drops expired tickets and returns what withdraws them. The caller
// holds mu, and calls the functions after giving it up: they are an approver's.
func (d *Desk) sweep() (withdraw []func()) {
	now := d.now()
	for _, t := range d.tickets {
		if !now.Before(t.req.Expires) {
			withdraw = append(withdraw, d.drop(t, d.late())...)
		}
	}
	return withdraw
}

// drop forgets t, ends the waits for it with why, and returns what has to be
// called to withdraw it. The caller holds mu.
func (d *Desk) drop(t *Ticket, why error) []func() {
	w := t.withdraw
	t.withdraw = nil
	if d.tickets[t.req.Ticket] == t {
		delete(d.tickets, t.req.Ticket)
		d.held -= t.req.size()
		t.why = why
		close(t.ended)
		switch {
		case t.redeemed || t.req.Lapsed == nil:
		case t.taken && !t.answered:
			t.lapsing = true
		default:
			w = append(w, t.req.Lapsed)
		}
	}
	if d.open[t.key] == t {
		delete(d.open, t.key)
	}
	return w
}

func run(fs []func()) {
	for _, f := range fs {
		f()
	}
}

// newHandle returns 128 random bits or more in lower-case base 32.
func newHandle() string { return strings.ToLower(rand.Text()) }
