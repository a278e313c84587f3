// Package approval knows who agreed to exactly what. A call with effects waits
// at the [Desk] as a ticket; an approver decides; the decision is redeemed
// once, for the binding it was given for, before anything happens.
//
// The edge: this package records and compares decisions. It does not find out
// what a call would do (the caller's preview does), and it does not carry the
// call out.
package approval

import (
	"encoding/json"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// TTL is how long a ticket waits for a decision, and a decision for its use.
const TTL = 5 * time.Minute

// Verdict is what was decided.
type Verdict string

const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"

	// Pass decides nothing: the approver was asked and has no answer, because a
	// person waved it away or because nobody was there; it cannot tell which.
	// The ticket stays open for others.
	Pass Verdict = "pass"

	// Later decides nothing either: the approver has asked, and its answer will
	// come through [Desk.Decide].
	Later Verdict = "later"
)

// Request is what an approver is asked. Everything in it comes from the host.
type Request struct {
	Ticket  string
	CallID  string
	Session string
	Tool    string
	Source  tool.Source
	Module  tool.Digest // identity of the module, if there is one
	Input   tool.Digest // of the canonical arguments
	Effects tool.Effects
	Preview tool.Preview // what would happen; Preview.Binding is what a yes binds
	Expires time.Time

	Workspace string          // name of the workspace, if it has one
	Root      string          // its real path on this machine; paths of Preview are below it
	Arguments json.RawMessage // as they were frozen; the model wrote them
	Asked     RuleRef         // the rule or default that wants a person to look
	Offer     *Rule           // the rule that would allow this call and no other; nil: none may be saved

	// InPerson marks what only the human's own channel may allow: protected
	// paths, grants, the terminal profile none. An approver that asks through
	// somebody else's program, such as an MCP client, must pass.
	InPerson bool

	// Opened is called with the request as it will be asked, before anybody sees
	// it, if a ticket was opened for it; an error closes the ticket again. A
	// request that joins a ticket is not opened. May be nil.
	Opened func(Request) error

	// Told hears of every answer that counts, also of those that decide nothing;
	// Lapsed hears that the ticket has ended without having been redeemed. Both
	// may be nil. They are called from any goroutine, at most one at a time for
	// one answer, and should not block.
	Told   func(Decision)
	Lapsed func()

	// Frozen is whatever the caller needs to carry the call out later. The desk
	// keeps it as long as the ticket and does not look at it.
	Frozen any
}

// RuleRef names what made the runtime ask.
type RuleRef struct {
	ID   string // of the rule, or of the built-in default
	File string // where it stands; empty for a default
	Line int
	Why  string // one sentence
}

// Rule is a rule as it would stand in the user's file, to the byte: what is
// shown before it is saved is what is saved. Expiry is part of the text.
type Rule struct {
	ID   string
	TOML string
}

// Decision is an answer to a Request.
type Decision struct {
	Verdict Verdict
	Reason  string // for a Deny: shown to the model
	By      string // who decided
	Channel string // how: "go", "mode", "terminal", ...

	// Save asks to keep a rule beside the yes to this call. It must equal the
	// request's Offer, which is what the person was shown; anything else is
	// ErrNotOffered and no answer. Nil saves nothing.
	Save *Rule

	// Standing means that a rule or a mode allowed the call, whatever exactly it
	// changes, and nobody looked at this write set. If the files change before
	// the commit, such a call may be previewed and judged again at once.
	Standing bool
}

// Answer hands a decision in. Only the first one counts: later ones get
// ErrAnswered, late ones ErrExpired. It is safe for concurrent use.
type Answer func(Decision) error

// Approver is somebody who can decide. Offer must not block: it shows the
// request and returns; answer may be called from any goroutine, now or later.
// The returned withdraw is called once when the request needs no answer any
// more; nil means that the approver takes no part in this one. Any number of
// approvers are asked at once.
type Approver interface {
	Offer(r Request, answer Answer) (withdraw func())
}

// Presence is an optional part of an Approver at which people come and go, such
// as a queue that another terminal looks at. An Approver without it counts as
// always attended.
type Presence interface {
	Approver

	// Attended reports whether somebody is there who can be expected to answer
	// now. It must not block.
	Attended() bool
}

// Func makes an Approver of a function that decides; each request runs it in
// its own goroutine.
func Func(decide func(Request) Decision) Approver { return approverFunc(decide) }

type approverFunc func(Request) Decision

func (f approverFunc) Offer(r Request, answer Answer) func() {
	go func() { _ = answer(f(r)) }() // a late answer is the desk's to refuse
	return func() {}
}

// Always is the approver that gives every request the same standing verdict.
// It is what --approve all and --approve none are. A blanket yes takes no part
// in requests that have to be answered in person.
func Always(v Verdict) Approver { return always(v) }

type always Verdict

func (a always) Offer(r Request, answer Answer) func() {
	if r.InPerson && Verdict(a) == Allow {
		return nil // whoever gave a blanket yes did not mean this
	}
	d := Decision{Verdict: Verdict(a), By: "the --approve flag", Channel: "mode", Standing: true}
	if d.Verdict == Deny {
		d.Reason = "this runtime was started to refuse every change"
	}
	_ = answer(d)
	return func() {}
}
