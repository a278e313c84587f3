package wasmtools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// maxParallel bounds the calls of one batch that run at the same time.
const maxParallel = 32

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
	Principal string          // on whose behalf, for the record; may be empty
	Trace     string          // W3C traceparent, for the record; may be empty

	// Approver is asked about this call only, beside [Options.Approvers], and
	// waited for. When it passes, the call answers approval_required and leaves
	// its ticket to the others. Nil asks nobody more.
	Approver approval.Approver

	// Patience is how long the call waits for the others, if Approver takes no
	// part, before it answers approval_required. 0 means as long as the ticket.
	Patience time.Duration

	// Ceiling bounds what is shown of the result below what [Options.Budget] says,
	// where whoever asks can take less. The zero value lowers nothing.
	Ceiling budget.Gate
}

// Outcome is the answer to one Request.
type Outcome struct {
	CallID string
	Tool   string // the tool that was meant, after aliases
	Result tool.Result
	Ticket string // set with approval_required: what Resume takes
}

// Tools lists what the model may be shown, in a stable order. Each output schema
// is that of the tool, or of a result with receipts, see [budget.Admit].
func (t *Turn) Tools() []tool.Definition { return admitted(t.list.Exposed()) }

// List is every registered tool with its state and reason.
func (t *Turn) List() []catalog.Item { return t.list.Items }

// Plan is the whole list: with what was deferred and why, and what a person
// should know.
func (t *Turn) Plan() catalog.List { return t.list }

// Hint is a text for the turn's prompt about tools that are not listed; empty if
// there are none. See [catalog.List.Hint].
func (t *Turn) Hint() string { return t.list.Hint() }

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
		for req.CallID == "" || batch[i].CallID == "" && named(batch, req.CallID) {
			req.CallID = "call-" + strconv.FormatUint(t.rt.calls.Add(1), 10)
		}
		out[i] = Outcome{CallID: req.CallID, Tool: req.Tool}
		if seen[req.CallID] {
			out[i].Result = t.refuse(req, tool.Errorf(tool.InvalidArguments, "the call id %s occurs twice in one batch", tool.QuotePath(req.CallID)).
				WithNext("give every call its own id"))
			continue
		}
		seen[req.CallID] = true
		tg, err := t.resolve(req)
		if err != nil {
			out[i].Result = t.refuse(req, err)
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

// named reports whether the caller gave a request of the batch this id.
func named(batch []Request, id string) bool {
	return slices.ContainsFunc(batch, func(r Request) bool { return r.CallID == id })
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
	if ok && it.Definition.Name == catalog.InvokeName {
		// From here on the call is one of the tool that is meant: what is judged,
		// recorded and bounded is that.
		it, args, err := t.list.Target(args)
		if err != nil {
			return nil, err
		}
		return t.target(it, req, args), nil
	}
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
	return t.target(it, req, args), nil
}

func (t *Turn) target(it catalog.Item, req Request, args json.RawMessage) *target {
	if req.Sink == nil {
		req.Sink = tool.Discard{}
	}
	return &target{item: it, req: req, args: args}
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

func newID() string { return strings.ToLower(rand.Text()) }
