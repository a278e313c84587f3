package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// Elicitation says which calls a client's person is asked about. Whatever it
// says, approval.Request.InPerson is for the human's own channel only.
type Elicitation string

const (
	ElicitAll   Elicitation = "all"
	ElicitEdits Elicitation = "edits" // changes of files, and nothing else
	ElicitOff   Elicitation = "off"
)

const (
	// askFor is how long an older client's person has for an answer. The ticket
	// lives longer (approval.TTL), so that another channel can still decide it.
	askFor = 2 * time.Minute

	// Patience is how long a call of a client that cannot be asked waits for a
	// person at another channel. Clients commonly give a call one minute, and a
	// ticket in time is worth more than an answer that nobody waits for.
	patience = 45 * time.Second

	// nudge is how often a client that wants progress hears that a person is
	// being waited for; many restart their clock then.
	nudge = 10 * time.Second
)

// channelForm is how an answer through a client is recorded, and noAnswer how
// everything is that is not a clear yes: clients have declined without showing
// anything to anybody, so it cannot be told what it was.
const (
	channelForm = "mcp-form"
	noAnswer    = "declined-or-unavailable"
)

// askKey names the one question in a form, and in 2026-07-28 the one request.
const askKey = "approve"

// askSchema is the form: one box, which is not ticked unless a person does it.
const askSchema = `{"type":"object","properties":{"` + askKey + `":{"type":"boolean","title":"Allow this","description":"Allow exactly what is shown, once. Leave it off to allow nothing.","default":false}},"required":["` + askKey + `"]}`

// An asker asks the person behind one client about one call. It is the approver
// that the call carries.
//
// An older client is sent elicitation/create while the call runs. A 2026-07-28
// client gets the question as the answer to its call and makes the call again
// with the reply: then the asker only takes the question down.
type asker struct {
	s     *Server
	c     *conn
	ss    *mcpsdk.ServerSession
	r     *request
	call  Call
	ctx   context.Context // the call's
	p     *progress       // nil without a token
	leave func()          // gives up the call's place among those that run

	mu       sync.Mutex
	question []byte // 2026-07-28: the members of the result that asks
}

// Offer asks, unless this client cannot be asked about this.
func (a *asker) Offer(req approval.Request, answer approval.Answer) func() {
	mode := ElicitAll
	if a.s.opts.Elicitation != nil {
		mode = a.s.opts.Elicitation()
	}
	if !mode.covers(req) {
		return nil
	}
	if a.r.modern {
		return a.takeDown(req, answer)
	}
	ip := a.ss.InitializeParams()
	if ip == nil || ip.ProtocolVersion >= "2026-07-28" || ip.Capabilities == nil || !takesForms(ip.Capabilities.Elicitation) {
		return nil
	}
	a.leave()
	ctx, withdraw := context.WithCancel(a.ctx)
	by := "a client"
	if ip.ClientInfo != nil {
		by = clientName(ip.ClientInfo.Name)
	}
	go a.elicit(ctx, req, by, answer)
	return withdraw
}

// covers reports whether a client may be asked about req.
func (e Elicitation) covers(req approval.Request) bool {
	switch {
	case req.InPerson:
		return false
	case e == ElicitAll:
		return true
	case e == ElicitEdits:
		p := req.Preview
		return !p.Writes.Empty() && p.Command == "" && len(p.Hosts) == 0 && !req.Effects.Any(tool.Executes|tool.UsesNetwork)
	}
	return false
}

// takesForms: an empty capability means forms, as in the versions before there
// was anything else.
func takesForms(c *mcpsdk.ElicitationCapabilities) bool {
	return c != nil && (c.Form != nil || c.URL == nil)
}

// clientName is how a client calls itself, as the one that answered.
func clientName(name string) string {
	if name == "" {
		return "a client"
	}
	return "the client " + tool.QuotePath(clip(name, 64))
}

// elicit asks an older client and hands the answer in. It ends when it is
// withdrawn, which the SDK tells the client.
func (a *asker) elicit(ctx context.Context, req approval.Request, by string, answer approval.Answer) {
	asking, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	dec := approval.Decision{Verdict: approval.Pass, By: by, Channel: channelForm}
	defer func() {
		if v := recover(); v != nil {
			a.s.notice("asking a client panicked: %v\n%s", v, debug.Stack())
			dec.Verdict, dec.Reason = approval.Pass, noAnswer+": failed"
		}
		if ctx.Err() == nil {
			_ = answer(dec) // another channel may have been first
		}
	}()
	if a.p != nil {
		go a.nudge(asking)
	}
	res, err := a.ss.Elicit(asking, &mcpsdk.ElicitParams{
		Mode: "form", Message: questionText(req), RequestedSchema: json.RawMessage(askSchema),
	})
	switch {
	case err == nil && res.Action == "accept" && res.Content[askKey] == true:
		dec.Verdict = approval.Allow
	case err == nil:
		dec.Reason = noAnswer + ": " + actionName(res.Action)
	case errors.Is(err, context.DeadlineExceeded):
		dec.Reason = fmt.Sprintf("%s: no answer within %s", noAnswer, askFor)
	default:
		dec.Reason = noAnswer + ": error"
	}
}

// nudge tells a client that wants progress what is being waited for.
func (a *asker) nudge(ctx context.Context) {
	for t := time.NewTicker(nudge); ; {
		a.p.Progress(0, 0, "waiting for a person to answer")
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// actionName is one of the three actions; a client's other words stay out.
func actionName(action string) string {
	switch action {
	case "decline", "cancel":
		return action
	case "accept":
		return "accept without a yes"
	}
	return "no action"
}

// takeDown keeps the question for [Server.serveCall] to send.
func (a *asker) takeDown(req approval.Request, answer approval.Answer) func() {
	_, canBeTold := a.s.backend.(Decider)
	if !canBeTold || !declaresForms(a.r.caps) {
		return nil
	}
	state, ok := a.s.states.issue(a.c.principal, a.call.digest(), req.Ticket, req.Expires)
	if !ok {
		return nil
	}
	q := append([]byte(nil), `"resultType":"input_required","inputRequests":{"`+askKey+`":{"method":"elicitation/create","params":{"mode":"form","message":`...)
	q = appendString(q, questionText(req))
	q = append(q, `,"requestedSchema":`+askSchema+`}}},"requestState":`...)
	q = appendString(q, state)
	q = append(q, `,"_meta":{"wasmtools/details":{"ticket":`...)
	q = appendString(q, req.Ticket)
	q = append(q, `},`...)
	q = append(a.s.appendInfo(q), '}')
	a.mu.Lock()
	a.question = q
	a.mu.Unlock()
	_ = answer(approval.Decision{Verdict: approval.Later, Channel: channelForm}) // if another was first, that counts
	return func() {}
}

// questionFor returns the question that answers the call in place of res.
func (a *asker) questionFor(res *tool.Result) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if res.IsError && res.Code == tool.ApprovalRequired {
		return a.question
	}
	return nil
}

// declaresForms reads the clientCapabilities of a 2026-07-28 request.
func declaresForms(caps []byte) bool {
	e, ok := member(caps, "elicitation")
	if !ok {
		return false
	}
	var modes map[string]json.RawMessage
	if json.Unmarshal(e, &modes) != nil || modes == nil {
		return false
	}
	declared := func(mode string) bool { m, ok := modes[mode]; return ok && string(m) != "null" }
	return declared("form") || !declared("url")
}

// member returns a member of the object in raw by its exact name; null counts
// as absent.
func member(raw []byte, name string) (json.RawMessage, bool) {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return nil, false
	}
	v, ok := o[name]
	return v, ok && string(v) != "null"
}

// reply reads what a 2026-07-28 client sends with its second call. With ok false
// the question was not answered at all, and may be asked again.
func (r *request) reply() (dec approval.Decision, ok bool) {
	raw, ok := member(r.inputResponses, askKey)
	if !ok {
		return dec, false
	}
	name := ""
	if n, ok := member(r.client, "name"); ok {
		name, _ = str(n)
	}
	dec = approval.Decision{Verdict: approval.Pass, By: clientName(name), Channel: channelForm}
	a, _ := member(raw, "action")
	action, _ := str(a)
	content, _ := member(raw, "content")
	if yes, _ := member(content, askKey); action == "accept" && string(yes) == "true" {
		dec.Verdict = approval.Allow
	} else {
		dec.Reason = noAnswer + ": " + actionName(action)
	}
	return dec, true
}

// takeReply hands in what came with a call that carries request state. An error
// answers the call: nothing else happens then.
func (s *Server) takeReply(c *conn, r *request, call Call) error {
	d, _ := s.backend.(Decider)
	raw, ok := str(r.requestState)
	if !ok || d == nil {
		return errForeignState()
	}
	ticket, err := s.states.redeem(raw, c.principal, call.digest())
	if err != nil {
		return err
	}
	dec, ok := r.reply()
	if !ok {
		return nil
	}
	switch err := d.Decide(ticket, dec); err {
	case nil, approval.ErrAnswered: // in the second case the first answer counts
		return nil
	case approval.ErrExpired:
		return tool.Errorf(tool.ApprovalExpired, "the answer came after the ticket was closed").With("ticket", ticket)
	default:
		return tool.Errorf(tool.Internal, "the answer could not be handed in").Because(err)
	}
}
