package wasmtools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// maxParallel bounds the calls of one batch that run at the same time.
const maxParallel = 32

// maxRejudged bounds how often a call that a standing verdict allows is
// previewed again because the files changed before its commit.
const maxRejudged = 16

// Turn is one model step: frozen facts and one list of tools. It is safe for
// concurrent use.
type Turn struct {
	rt    *Runtime
	space *space
	list  catalog.List
	id    string
}

// Request is one call that a model asks for.
type Request struct {
	CallID    string // empty: one is made
	Tool      string
	Arguments json.RawMessage // a JSON object; empty means {}
	Sink      tool.Sink       // progress and partial output; nil drops them

	// Approver is asked about this call only, beside [Options.Approvers], and
	// waited for. When it passes, the call answers approval_required and leaves
	// its ticket to the others. Nil asks nobody more.
	Approver approval.Approver

	// Patience is how long the call waits for the others, if Approver takes no
	// part, before it answers approval_required. 0 means as long as the ticket.
	Patience time.Duration
}

// Outcome is the answer to one Request.
type Outcome struct {
	CallID string
	Tool   string // the tool that was meant, after aliases
	Result tool.Result
	Ticket string // set with approval_required: what Resume takes
}

// Tools lists what the model may be shown, in a stable order.
func (t *Turn) Tools() []tool.Definition { return t.list.Exposed() }

// List is every registered tool with its state and reason.
func (t *Turn) List() []catalog.Item { return t.list.Items }

// Call runs a batch and returns one outcome per request, in their order,
// whatever happens. If every tool of the batch is parallel, all calls are
// prepared (arguments, preview, approval) one after another and then run side
// by side. Otherwise each call is finished before the next is prepared, so
// that it sees what the ones before it did.
//
// When ctx ends, calls that run are stopped and calls that wait are not begun;
// both answer cancelled or timeout. Waiting for a person does not count against
// a tool's own time limit.
func (t *Turn) Call(ctx context.Context, batch []Request) []Outcome {
	out := make([]Outcome, len(batch))
	seen := make(map[string]bool, len(batch))
	parallel := true
	targets := make([]*target, len(batch))
	for i, req := range batch {
		if req.CallID == "" {
			req.CallID = "call-" + strconv.FormatUint(t.rt.calls.Add(1), 10)
		}
		out[i] = Outcome{CallID: req.CallID, Tool: req.Tool}
		if seen[req.CallID] {
			out[i].Result = tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "the call id %s occurs twice in one batch", tool.QuotePath(req.CallID)).
				WithNext("give every call its own id"))
			continue
		}
		seen[req.CallID] = true
		tg, err := t.resolve(req)
		if err != nil {
			out[i].Result = tool.ErrorResult(err)
			continue
		}
		out[i].Tool = tg.item.Definition.Name
		targets[i] = tg
		parallel = parallel && tg.item.Definition.Mode == tool.Parallel
	}

	if !parallel || len(batch) == 1 {
		for i, tg := range targets {
			if tg != nil {
				out[i].Result, out[i].Ticket = t.finish(ctx, t.prepare(ctx, tg))
			}
		}
		return out
	}
	ready := make([]*prepared, len(batch))
	for i, tg := range targets {
		if tg != nil {
			ready[i] = t.prepare(ctx, tg)
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for i, p := range ready {
		if p == nil {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out[i].Result, out[i].Ticket = t.finish(ctx, p)
		})
	}
	wg.Wait()
	return out
}

// target is a request whose tool was found.
type target struct {
	item catalog.Item
	req  Request
	args json.RawMessage
}

// resolve applies the alias table and looks the name up in the frozen list.
func (t *Turn) resolve(req Request) (*target, error) {
	name, args := req.Tool, req.Arguments
	it, ok := t.list.Lookup(name)
	if !ok {
		to, mapped, known, err := alias.Resolve(name, args)
		if known {
			it, ok = t.list.Lookup(to)
		}
		switch {
		case known && ok && it.State == catalog.Exposed && err != nil:
			e := tool.AsError(err)
			e.Text += fmt.Sprintf("\nschema of %s: %s", to, it.Definition.Input)
			return nil, e
		case known && ok && err == nil:
			args = mapped
		case !ok:
			return nil, t.unknown(name)
		}
	}
	if it.State != catalog.Exposed {
		return nil, tool.Errorf(it.Code, "%s: %s", it.Definition.Name, it.Reason).With("state", string(it.State))
	}
	if req.Sink == nil {
		req.Sink = tool.Discard{}
	}
	return &target{item: it, req: req, args: args}, nil
}

func (t *Turn) unknown(name string) error {
	shown := name
	if len(shown) > 128 {
		shown = shown[:128] + "..."
	}
	e := tool.Errorf(tool.NotRegistered, "no tool is named %s", tool.QuotePath(shown))
	if near := t.list.Nearest(name, 3); len(near) > 0 {
		e.WithNext("did you mean %s? otherwise list the tools", strings.Join(near, " or "))
	}
	return e
}

// prepared is a frozen call: ready to act, or ended already.
type prepared struct {
	tool    tool.Tool
	def     tool.Definition
	inv     tool.Invocation
	sink    tool.Sink
	preview tool.Preview
	commit  bool // the effects are in preview.Writes
	ask     bool // an approver has to agree

	approver approval.Approver // of this call only; may be nil
	patience time.Duration

	ended  bool // result is the answer, nothing is left to do
	result tool.Result
	ticket string

	standing bool // allowed by a mode or rule, see approval.Decision
}

func (p *prepared) end(r tool.Result) *prepared {
	p.ended, p.result = true, r
	return p
}

func (p *prepared) fail(err error) *prepared { return p.end(tool.ErrorResult(err)) }

// prepare takes a call as far as it goes without effects: arguments, freezing,
// preview and approval.
func (t *Turn) prepare(ctx context.Context, tg *target) (p *prepared) {
	p = &prepared{tool: tg.item.Tool, def: tg.item.Definition, sink: tg.req.Sink, approver: tg.req.Approver, patience: tg.req.Patience}
	defer func() {
		if v := recover(); v != nil {
			p.fail(panicked(p.def.Name, v))
		}
	}()
	if err := ctx.Err(); err != nil {
		return p.fail(err)
	}
	args := tg.args
	if pr, ok := p.tool.(tool.Preparer); ok {
		folded, err := pr.PrepareArguments(args)
		if err != nil {
			return p.fail(err)
		}
		args = folded
	}
	check, err := t.space.checker(p.def)
	if err != nil {
		return p.fail(err)
	}
	args, input, err := check.freeze(p.def.Name, args)
	if err != nil {
		return p.fail(err)
	}
	p.inv = tool.Invocation{
		CallID: tg.req.CallID, TurnID: t.id, Session: t.rt.session,
		Tool: p.def.Name, Arguments: args, Input: input,
	}
	return t.judge(ctx, p)
}

// judge finds out what p would do and whether it may.
func (t *Turn) judge(ctx context.Context, p *prepared) *prepared {
	p.ask = p.def.Effects.Any(tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork)
	if !p.ask {
		return p
	}
	p.preview = tool.Preview{Binding: p.inv.Input}
	if pv, ok := p.tool.(tool.Previewer); ok {
		var err error
		if p.preview, err = pv.Preview(ctx, p.inv, p.sink); err != nil {
			return p.fail(err)
		}
		p.commit = true
		if p.preview.Result.IsError || p.preview.Writes.Empty() {
			return p.end(p.preview.Result) // nothing would change, so nobody is asked
		}
	}
	ticket, err := t.rt.desk.Submit(approval.Request{
		CallID: p.inv.CallID, Session: p.inv.Session, Tool: p.inv.Tool,
		Source: p.tool.Origin().Source, Module: p.tool.Origin().Module,
		Input: p.inv.Input, Effects: p.def.Effects, Preview: p.preview,
		Frozen: frozen{t, *p},
	})
	if err != nil {
		return p.fail(err)
	}
	dec, err := t.await(ctx, p, ticket)
	if err == approval.ErrNoAnswer {
		return p.wait(ticket)
	}
	if err != nil {
		return p.fail(err)
	}
	return t.redeem(p, ticket, dec)
}

// await waits for the decision on p's ticket as long as somebody is there who
// may give it. [approval.ErrNoAnswer] says that waiting longer makes no sense.
func (t *Turn) await(ctx context.Context, p *prepared, ticket *approval.Ticket) (approval.Decision, error) {
	_, answered := ticket.Decision()
	if p.approver != nil && !answered {
		dec, err := ticket.Ask(ctx, p.approver)
		if err != approval.ErrNotAsked {
			return dec, err
		}
	}
	if !answered && !t.rt.desk.Attended() {
		return approval.Decision{}, approval.ErrNoAnswer
	}
	waiting := ctx
	if p.patience > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, p.patience)
		defer cancel()
	}
	dec, err := ticket.Wait(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = approval.ErrNoAnswer
	}
	return dec, err
}

func (t *Turn) redeem(p *prepared, ticket *approval.Ticket, dec approval.Decision) *prepared {
	if err := ticket.Redeem(p.preview.Binding); err != nil {
		return p.fail(err)
	}
	p.standing = dec.Standing
	return p
}

// finish acts and returns the answer.
func (t *Turn) finish(ctx context.Context, p *prepared) (r tool.Result, ticket string) {
	defer func() {
		if v := recover(); v != nil {
			r, ticket = tool.ErrorResult(panicked(p.def.Name, v)), ""
		}
	}()
	for tries := 0; ; tries++ {
		if p.ended {
			return p.result, p.ticket
		}
		if err := ctx.Err(); err != nil {
			return tool.ErrorResult(err), ""
		}
		if !p.commit {
			r, err := p.tool.Call(ctx, p.inv, p.sink)
			if err != nil {
				return tool.ErrorResult(err), ""
			}
			return r, ""
		}
		err := t.space.files.Commit(ctx, p.preview.Writes)
		switch {
		case err == nil:
			return p.preview.Result, ""
		case tool.CodeOf(err) == tool.ApprovalMismatch && p.standing && tries < maxRejudged:
			// Another call changed a file first. Nobody looked at this write set, so
			// finding out afresh what the call does is what was allowed.
			p = t.judge(ctx, p)
		default:
			return tool.ErrorResult(err), ""
		}
	}
}

// frozen is a previewed call as its ticket keeps it.
type frozen struct {
	turn *Turn
	call prepared
}

// Resume waits for the decision on a ticket that Call answered with
// approval_required, and on a yes does exactly what was previewed then. A
// ticket can be resumed once; repeating the call instead works too.
func (t *Turn) Resume(ctx context.Context, ticket string) Outcome {
	tk, ok := t.rt.desk.Find(ticket)
	if !ok {
		return Outcome{Result: tool.ErrorResult(tool.Errorf(tool.ApprovalExpired, "no open ticket of this name exists"))}
	}
	f := tk.Request().Frozen.(frozen)
	out := Outcome{CallID: f.call.inv.CallID, Tool: f.call.def.Name}
	dec, err := tk.Wait(ctx)
	if err != nil {
		out.Result = tool.ErrorResult(err)
		return out
	}
	out.Result, out.Ticket = f.turn.finish(ctx, f.turn.redeem(&f.call, tk, dec))
	return out
}

// wait ends p for now: nobody can be asked, so the ticket is the answer.
func (p *prepared) wait(ticket *approval.Ticket) *prepared {
	r := ticket.Request()
	p.ticket = r.Ticket
	until := r.Expires.UTC()
	return p.fail(tool.Errorf(tool.ApprovalRequired, "%s would change files, and a person must agree first", r.Tool).
		With("ticket", r.Ticket).With("expires", until.Format(time.RFC3339)).With("diff", r.Preview.Diff).
		WithNext("nothing was changed; ask the user to start this runtime with --approve all if changes may be made, or to decide ticket %s in the program that runs it before %s, then repeat the same call",
			r.Ticket, until.Format("15:04:05 UTC")))
}

func panicked(name string, v any) error {
	return tool.Errorf(tool.Internal, "%s panicked", name).Because(fmt.Errorf("%v\n%s", v, debug.Stack()))
}

// checker returns the argument checker of d, made at its first use.
func (s *space) checker(d tool.Definition) (*argumentChecker, error) {
	type made struct {
		input string
		c     *argumentChecker
		err   error
	}
	if v, ok := s.checks.Load(d.Name); ok && v.(made).input == string(d.Input) {
		return v.(made).c, v.(made).err
	}
	c, err := newArgumentChecker(d.Input)
	if err != nil {
		err = tool.Errorf(tool.InvalidModule, "%s has no usable input schema", d.Name).Because(err)
	}
	s.checks.Store(d.Name, made{string(d.Input), c, err})
	return c, err
}

func newID() string { return strings.ToLower(rand.Text()) }
