package wasmtools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Overlay is a dry run of several calls: each call sees what those before it
// changed, nothing reaches the disk, and nobody is asked. In the end Commit puts
// all of it in place, after one yes to all of it, or the overlay is dropped. So it
// is also how several calls become one transaction.
//
// Only tools that run in the sandbox and have no effects but on files can be
// called; a call that would run a command or use the network answers
// not_available. What a rule denies is denied here, too. Each call leaves its
// record, which says that nothing was changed.
//
// An Overlay is safe for concurrent use; its calls run one after another.
type Overlay struct {
	t *Turn

	mu    sync.Mutex
	state overlayState
}

// overlayState is what an overlay is made of, as Save writes it.
type overlayState struct {
	Workspace string         `json:"workspace"` // real path of the root
	Calls     []OverlayCall  `json:"calls"`
	Writes    *tool.WriteSet `json:"writes,omitempty"`
	Content   [][]byte       `json:"content,omitempty"` // the Blobs of Writes, in their order
	Asks      string         `json:"asks,omitempty"`    // why a person must be asked, whatever a mode says
}

// OverlayCall is a call that was made on an overlay.
type OverlayCall struct {
	ID      string         `json:"id"`
	Tool    string         `json:"tool"`
	At      time.Time      `json:"at"`
	Code    tool.Code      `json:"code,omitempty"`    // of one that failed
	Refused []tool.Refusal `json:"refused,omitempty"` // what it tried and may not
}

// maxOverlayCalls bounds the calls of one overlay.
const maxOverlayCalls = 1000

// Overlay begins a dry run on the turn's workspace.
func (t *Turn) Overlay() *Overlay {
	return &Overlay{t: t, state: overlayState{Workspace: t.space.files.RealPath()}}
}

// Call makes one call on the overlay. A call that fails changes nothing there.
func (o *Overlay) Call(ctx context.Context, req Request) Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.t
	if req.CallID == "" {
		req.CallID = "call-" + strconv.FormatUint(t.rt.calls.Add(1), 10)
	}
	out := Outcome{CallID: req.CallID, Tool: req.Tool}
	if len(o.state.Calls) >= maxOverlayCalls {
		out.Result = t.refuse(req, tool.Errorf(tool.Quota, "one overlay takes %d calls", maxOverlayCalls).WithNext("commit it or drop it, and begin another"))
		return out
	}
	tg, err := t.resolve(req)
	if err == nil {
		out.Tool, err = tg.item.Definition.Name, canDry(tg.item)
	}
	if err != nil {
		out.Result = t.refuse(req, err)
		return out
	}
	p := o.run(ctx, tg)
	r := t.bounded(p, p.result)
	if err := p.rec.close(r, ""); err != nil {
		r = tool.ErrorResult(err)
	}
	c := OverlayCall{ID: req.CallID, Tool: out.Tool, At: time.Now().UTC(), Code: r.Code}
	if r.Usage != nil {
		c.Refused = r.Usage.Refused
	}
	o.state.Calls = append(o.state.Calls, c)
	out.Result = r
	return out
}

// canDry says whether a tool can be called without effects.
func canDry(it catalog.Item) error {
	switch s := it.Tool.Origin().Source; {
	case s != tool.Builtin && s != tool.Installed:
	case it.Definition.Effects.Any(tool.Executes):
	default:
		_, previews := it.Tool.(tool.Previewer)
		if previews || !it.Definition.Effects.Any(effects) {
			return nil
		}
	}
	return tool.Errorf(tool.NotAvailable, "%s has effects beyond files of the workspace, which a dry run cannot hold back", it.Definition.Name).
		WithNext("call it outside the overlay")
}

// run previews the call on top of what is pending, and keeps what it would change.
func (o *Overlay) run(ctx context.Context, tg *target) (p *prepared) {
	t := o.t
	p = t.enter(ctx, tg)
	defer func() {
		if v := recover(); v != nil {
			p.fail(panicked(p.def.Name, v))
		}
	}()
	if p.ended {
		return p
	}
	if err := p.rec.begin(); err != nil {
		return p.fail(err)
	}
	p.sink = p.rec.watch(p.sink)
	if s, ok := p.sink.(recordingSink); ok {
		s.note("on an overlay: nothing is changed on the disk")
	}
	p.inv.Base = o.state.Writes
	v := t.weigh(ctx, t.space.policy(), p)
	if p.ended {
		return p
	}
	p.rec.judged(v)
	if v.Decision == policy.Deny {
		return p.deny(v)
	}
	if _, ok := p.tool.(tool.Previewer); !ok {
		if v.Decision != policy.Allow {
			return p.fail(tool.Errorf(tool.Denied, "a rule wants a person to agree to this call, and on an overlay nobody is asked: %s", v.Reason).
				WithNext("call it outside the overlay"))
		}
		r, err := p.tool.Call(ctx, p.inv, p.sink)
		if err != nil {
			return p.fail(err)
		}
		return p.end(r)
	}
	if v.Decision == policy.Ask && v.Rule.Layer != policy.BuiltIn {
		o.state.Asks = v.Reason
	}
	o.state.Writes = p.preview.Writes
	return p.end(p.preview.Result)
}

// Calls lists the calls that were made, oldest first.
func (o *Overlay) Calls() []OverlayCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.state.Calls)
}

// Writes is what would be changed. It is not to be modified.
func (o *Overlay) Writes() *tool.WriteSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.Writes
}

// Diff shows what would be changed, compared with the disk. It is an error with the
// code stale if a file is not what it was any more.
func (o *Overlay) Diff(ctx context.Context) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, _, err := o.t.space.look(ctx, o.state.Writes)
	return d, err
}

// look compares what is pending with the disk as it is now.
func (s *space) look(ctx context.Context, pending *tool.WriteSet) (diff string, protected []tool.ProtectedPath, err error) {
	if pending.Empty() {
		return "", nil, nil
	}
	v := s.files.Overlay(workspace.OverlayOptions{})
	defer v.Close()
	if err := v.Load(ctx, pending); err != nil {
		return "", nil, err
	}
	protected, err = v.Protected(ctx)
	return v.DiffAll(maxOverlayDiff), protected, err
}

// maxOverlayDiff is how much of a diff a person is shown, as for one call.
const maxOverlayDiff = 4 << 20

// Drop forgets everything.
func (o *Overlay) Drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = overlayState{Workspace: o.state.Workspace}
}

// CommitName is the name under which the commit of an overlay is judged by rules
// and recorded.
const CommitName = "overlay_commit"

// Commit asks about everything that is pending as about one call of a tool named
// [CommitName], and on a yes commits it: all of it, or nothing. A rule that wants a
// person asked about one of the calls makes a person be asked. The overlay is empty
// afterwards if it succeeded; req gives the call its id, approver and patience.
func (o *Overlay) Commit(ctx context.Context, req Request) Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.t
	if req.CallID == "" {
		req.CallID = "call-" + strconv.FormatUint(t.rt.calls.Add(1), 10)
	}
	if req.Sink == nil {
		req.Sink = tool.Discard{}
	}
	req.Tool = CommitName
	out := Outcome{CallID: req.CallID, Tool: CommitName}
	if o.state.Writes.Empty() {
		out.Result = tool.ErrorResult(tool.Errorf(tool.NoChange, "nothing is pending on the overlay"))
		return out
	}
	var names []string
	for _, c := range o.state.Calls {
		if c.Code == "" && !slices.Contains(names, c.Tool) {
			names = append(names, c.Tool)
		}
	}
	req.Arguments, _ = json.Marshal(map[string]any{"calls": len(o.state.Calls), "tools": names, "writes": string(o.state.Writes.Binding())})
	item := catalog.Item{Tool: committer{t, o.state}, State: catalog.Exposed}
	item.Definition = item.Tool.Definition()
	out.Result, out.Ticket = t.finish(ctx, t.prepare(ctx, &target{item: item, req: req, args: req.Arguments}))
	if !out.Result.IsError {
		o.state = overlayState{Workspace: o.state.Workspace}
	}
	return out
}

// committer is the commit of an overlay as a tool: its preview is what is pending.
type committer struct {
	t     *Turn
	state overlayState
}

// Definition implements [tool.Tool].
func (c committer) Definition() tool.Definition {
	e := tool.Writes
	for _, w := range c.state.Writes.Entries {
		if w.Op == tool.OpDelete {
			e |= tool.Destroys
		}
	}
	return tool.Definition{
		Name: CommitName, Description: "Commit what several calls changed on an overlay.", Effects: e, Mode: tool.Sequential,
		Input: json.RawMessage(`{"type":"object","properties":{"calls":{"type":"integer"},"tools":{"type":"array","items":{"type":"string"}},"writes":{"type":"string"}},"additionalProperties":false}`),
	}
}

// Origin implements [tool.Tool].
func (c committer) Origin() tool.Origin {
	return tool.Origin{Source: tool.Native, Name: "wasmtools", Trusted: true}
}

// Preview implements [tool.Previewer].
func (c committer) Preview(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Preview, error) {
	s := c.state
	diff, protected, err := c.t.space.look(ctx, s.Writes)
	if err != nil {
		return tool.Preview{}, err
	}
	counts := map[tool.WriteOp]int{}
	for _, w := range s.Writes.Entries {
		counts[w.Op]++
	}
	var parts []string
	for _, op := range []tool.WriteOp{tool.OpWrite, tool.OpMkdir, tool.OpMove, tool.OpDelete} {
		if n := counts[op]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, op))
		}
	}
	text := fmt.Sprintf("committed %d changes of %d calls (%s)\n\n%s", len(s.Writes.Entries), len(s.Calls), strings.Join(parts, ", "), diff)
	return tool.Preview{
		Result: tool.TextResult(text), Writes: s.Writes, Diff: diff, Protected: protected,
		Binding: tool.DigestOf(fmt.Appendf(nil, "wasmtools overlay 1\n%s\n%s\n", inv.Input, s.Writes.Binding())),
	}, nil
}

// Call implements [tool.Tool]; the runtime commits what Preview gives.
func (c committer) Call(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return tool.ErrorResult(tool.Errorf(tool.Internal, "an overlay is committed by its preview")), nil
}

// Save gives everything that Restore needs, as JSON. It holds the content of
// files: keep it where no tool reaches it.
func (o *Overlay) Save() ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.state
	if !s.Writes.Empty() {
		s.Content = make([][]byte, len(s.Writes.Entries))
		for i, e := range s.Writes.Entries {
			s.Content[i] = e.Blob
		}
	}
	return json.Marshal(s)
}

// Restore goes on with an overlay that was saved, perhaps by another process. An
// overlay of another workspace, or one that is damaged, is an error; whether the
// disk is what it was is found out at the next call.
func (t *Turn) Restore(saved []byte) (*Overlay, error) {
	o := t.Overlay()
	var s overlayState
	if err := json.Unmarshal(saved, &s); err != nil {
		return nil, fmt.Errorf("wasmtools: the saved overlay is damaged: %w", err)
	}
	if s.Workspace != o.state.Workspace {
		return nil, fmt.Errorf("wasmtools: the saved overlay is one of the workspace %s", tool.QuotePath(s.Workspace))
	}
	if !s.Writes.Empty() {
		if len(s.Content) != len(s.Writes.Entries) {
			return nil, fmt.Errorf("wasmtools: the saved overlay is damaged: %d contents of %d changes", len(s.Content), len(s.Writes.Entries))
		}
		for i := range s.Writes.Entries {
			e := &s.Writes.Entries[i]
			e.Blob = s.Content[i]
			if e.Op == tool.OpWrite && (int64(len(e.Blob)) != e.Size || tool.DigestOf(e.Blob) != e.After) {
				return nil, fmt.Errorf("wasmtools: the saved overlay is damaged: the content of %s", tool.QuotePath(e.Path))
			}
		}
	}
	s.Content = nil
	o.state = s
	return o, nil
}
