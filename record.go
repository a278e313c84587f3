package wasmtools

import (
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// record is the evidence of one call: an intent before it does anything, an
// outcome before it answers. It is safe for concurrent use, because answers of
// approvers come from anywhere.
//
// A ticket is one record, that of the call which opened it, and it belongs to
// whoever redeems the ticket. A call that waits for a ticket, the one that
// opened it too, has a record of its own only if it ends otherwise.
type record struct {
	sink   evidence.Sink
	intent evidence.Intent

	mu     sync.Mutex
	handle evidence.Handle
	begun  bool
	ended  bool // with the last word
	out    evidence.Outcome

	// Of a call that waits for a ticket.
	owner  *record // the ticket's
	opener bool    // the call opened it
}

// newRecord makes the record of a call that is not frozen yet. Nothing is
// written.
func (t *Turn) newRecord(req Request, d tool.Definition, o tool.Origin) *record {
	r := &record{sink: t.space.evidence, intent: evidence.Intent{
		Call: req.CallID, Turn: t.id, Session: t.rt.session, Trace: req.Trace, Principal: req.Principal, Asked: time.Now(),
		Tool: d.Name, Source: o.Source, From: o.Name, Module: o.Module, Definition: t.space.definition(d), Effects: d.Effects,
		Arguments: req.Arguments,
	}}
	if req.Tool != d.Name {
		r.intent.As = req.Tool
	}
	return r
}

// emptyRecord keeps nothing.
func (t *Turn) emptyRecord() *record { return &record{sink: evidence.Discard{}} }

// refuse answers a request that found no tool to run, and records it.
func (t *Turn) refuse(req Request, err error) tool.Result {
	res := tool.ErrorResult(err)
	d, o := tool.Definition{Name: req.Tool}, tool.Origin{}
	it, ok := t.list.Lookup(req.Tool)
	if ok {
		d, o = it.Definition, it.Tool.Origin()
	}
	r := t.newRecord(req, d, o)
	if ok && res.Code == it.Code {
		r.out.Refused = string(it.State)
	}
	if err := r.close(res, ""); err != nil {
		return tool.ErrorResult(err)
	}
	return res
}

// froze notes the call as it will be judged.
func (r *record) froze(inv tool.Invocation) {
	r.intent.Arguments, r.intent.Input = inv.Arguments, inv.Input
}

// begin writes the intent, once.
func (r *record) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beginLocked()
}

func (r *record) beginLocked() error {
	if r.begun {
		return nil
	}
	h, err := r.sink.Begin(r.intent)
	if err != nil {
		return tool.Errorf(tool.Internal, "the call was not made, because it cannot be recorded").
			WithNext("tell the user that the folder of the evidence cannot be written (wasmtools doctor)").Because(err)
	}
	r.handle, r.begun = h, true
	return nil
}

// judged notes what the rules said.
func (r *record) judged(v policy.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Approval = evidence.Approval{
		Verdict: string(v.Decision), Reason: v.Reason, Channel: "policy",
		Rule: evidence.Rule{Name: v.Rule.Name, File: v.Rule.File, Line: v.Rule.Line},
	}
}

// asked writes that a person is asked, and what about.
func (r *record) asked(q approval.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.beginLocked(); err != nil {
		return err
	}
	a := &r.out.Approval
	a.Verdict, a.Channel = string(policy.Ask), ""
	a.Ticket, a.Binding, a.Expires, a.Asked = q.Ticket, q.Preview.Binding, q.Expires, time.Now()
	return r.event(evidence.Event{Kind: evidence.ApprovalRequired, Approval: a, Writes: evidence.WritesOf(q.Preview.Writes)})
}

// event writes an event. The caller holds mu.
func (r *record) event(e evidence.Event) error {
	if !r.begun || r.ended {
		return nil
	}
	if err := r.sink.Event(r.handle, e); err != nil {
		return tool.Errorf(tool.Internal, "the call cannot be recorded").Because(err)
	}
	return nil
}

// told notes an answer, or that somebody had none.
func (r *record) told(d approval.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.out.Approval // Reason stays that of the rule that asked, unless the answer gives one
	a.Verdict, a.By, a.Channel, a.Decided = string(d.Verdict), d.By, d.Channel, time.Now()
	if d.Reason != "" {
		a.Reason = d.Reason
	}
	if d.Save != nil {
		a.Saved = d.Save.TOML
	}
	if d.Verdict == approval.Allow || d.Verdict == approval.Deny {
		r.out.Approval = a
	}
	// A record that cannot be written any more shows when the call begins to act.
	_ = r.event(evidence.Event{Kind: evidence.Decided, Approval: &a})
}

// lapsed ends the record of a ticket that nobody redeemed.
func (r *record) lapsed() {
	_ = r.close(tool.ErrorResult(tool.Errorf(tool.ApprovalExpired, "the ticket ended unused")), "")
}

// waits returns the record of a call that waits for the ticket of owner, which
// may be the call's own.
func (r *record) waits(owner *record) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r == owner {
		return &record{sink: r.sink, intent: r.intent, out: r.out, owner: r, opener: true}
	}
	r.owner = owner
	if r.begun && !r.ended { // both were prepared at the same time
		r.ended = true
		_ = r.sink.End(r.handle, evidence.Outcome{Status: evidence.Cancelled, Message: "an equal call waits already; this one joined it: " + string(owner.name())})
	}
	return r
}

// overtaken notes that somebody else redeemed the ticket: its record is theirs.
func (r *record) overtaken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opener = false
}

func (r *record) name() evidence.Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}

// started writes that the call begins to act.
func (r *record) started() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.beginLocked(); err != nil {
		return err
	}
	r.out.Began = time.Now()
	if !r.intent.Effects.Any(effects) {
		return nil // reading is told by the outcome alone
	}
	return r.event(evidence.Event{Kind: evidence.Started})
}

// committed notes what was changed.
func (r *record) committed(w *tool.WriteSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Writes = evidence.WritesOf(w)
}

// close writes the outcome of a call that answers res. ticket is set if it waits.
func (r *record) close(res tool.Result, ticket string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || ticket != "" && !r.out.Began.IsZero() { // somebody redeemed it just now
		return nil
	}
	switch o := r.owner; {
	case o == nil:
	case r.opener && (ticket != "" || res.Code == tool.ApprovalExpired): // nobody redeems it any more
		return o.close(res, ticket)
	case ticket != "":
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.event(evidence.Event{Kind: evidence.ApprovalRequired, Note: "an equal call, " + r.intent.Call + ", waits for the same ticket"})
	}
	if err := r.beginLocked(); err != nil {
		return err
	}
	out := r.out
	out.Status, out.Code, out.Sensitive = evidence.StatusOf(res), res.Code, res.Sensitive
	if out.Status == evidence.Waiting && ticket == "" {
		out.Status = evidence.Denied // nothing waits
	}
	if res.IsError {
		out.Message = res.PlainText()
	}
	out.Output, out.OutputBytes = outputDigest(res)
	if u := res.Usage; u != nil {
		out.Used = evidence.Used{
			HostCalls: u.HostCalls, BytesRead: u.BytesRead, Requests: u.Requests, BytesSent: u.BytesSent, BytesReceived: u.BytesReceived,
			Paths: u.Paths, Hosts: u.Hosts, MemoryPeak: u.MemoryPeak, Fuel: uint64(u.Fuel),
		}
	}
	r.ended = out.Status != evidence.Waiting
	if err := r.sink.End(r.handle, out); err != nil {
		what := "nothing was changed"
		if len(out.Writes) > 0 || !out.Began.IsZero() && r.intent.Effects.Any(effects) {
			what = "the call was carried out"
		}
		return tool.Errorf(tool.Internal, "%s, but its outcome cannot be recorded", what).
			WithNext("tell the user that the folder of the evidence cannot be written (wasmtools doctor)").Because(err)
	}
	return nil
}

// watch makes s also tell the record.
func (r *record) watch(s tool.Sink) tool.Sink {
	if _, none := r.sink.(evidence.Discard); none {
		return s
	}
	return recordingSink{s, r}
}

type recordingSink struct {
	tool.Sink
	rec *record
}

func (s recordingSink) Progress(done, total int64, note string) {
	s.tell(evidence.Event{Kind: evidence.Progress, Done: done, Total: total, Note: note})
	s.Sink.Progress(done, total, note)
}

// note is what only the record is told.
func (s recordingSink) note(text string) { s.tell(evidence.Event{Kind: evidence.Progress, Note: text}) }

// exited is the exit code of the call's command.
func (s recordingSink) exited(code int) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.rec.out.ExitCode = &code
}

func (s recordingSink) Output(stream string, p []byte) {
	s.tell(evidence.Event{Kind: evidence.Output, Stream: stream, Text: p})
	s.Sink.Output(stream, p)
}

func (s recordingSink) Artifact(i tool.ArtifactInfo, r io.Reader) (tool.ArtifactRef, error) {
	ref, err := s.Sink.Artifact(i, r)
	if err == nil {
		s.rec.kept(i, ref)
	}
	return ref, err
}

// kept notes an artifact of the call.
func (r *record) kept(i tool.ArtifactInfo, ref tool.ArtifactRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := evidence.Artifact{Handle: ref.Handle, Title: i.Title, Bytes: ref.Bytes, Digest: ref.Digest}
	if len(r.out.Artifact) < maxArtifacts {
		r.out.Artifact = append(r.out.Artifact, a)
	}
	_ = r.event(evidence.Event{Kind: evidence.ArtifactMade, Artifact: &a})
}

// maxArtifacts bounds how many an outcome names; each has its event besides.
const maxArtifacts = 32

// tell writes what a running call says. A record that cannot be written shows
// when the call ends.
func (s recordingSink) tell(e evidence.Event) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	_ = s.rec.event(e)
}

// outputDigest is the digest over everything that a caller gets, each part with
// its kind and length, and how many bytes that is.
func outputDigest(res tool.Result) (tool.Digest, int64) {
	h := sha256.New()
	var n int64
	part := func(kind string, p string) {
		fmt.Fprintf(h, "%s %d\n", kind, len(p))
		io.WriteString(h, p)
		n += int64(len(p))
	}
	for _, c := range res.Content {
		part(string(c.Kind), c.Text)
		part("data", string(c.Data))
		part("uri", c.URI)
	}
	part("structured", string(res.Structured))
	return tool.SumDigest([sha256.Size]byte(h.Sum(nil))), n
}
