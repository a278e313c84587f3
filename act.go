package wasmtools

import (
	"context"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// maxRejudged bounds how often a call that a standing verdict allows is
// previewed again because the files changed before its commit.
const maxRejudged = 16

// finish acts, keeps what is too long to be shown, writes the outcome, and
// returns the answer.
func (t *Turn) finish(ctx context.Context, p *prepared) (tool.Result, string) {
	r := t.bounded(p, t.act(ctx, p))
	if err := p.rec.close(r, p.ticket); err != nil {
		r = tool.ErrorResult(err)
	}
	return r, p.ticket
}

// act carries the call out.
func (t *Turn) act(ctx context.Context, p *prepared) (r tool.Result) {
	defer func() {
		if v := recover(); v != nil {
			r = tool.ErrorResult(panicked(p.def.Name, v))
		}
	}()
	for tries := 0; ; tries++ {
		if p.ended {
			return p.result
		}
		if err := ctx.Err(); err != nil {
			return tool.ErrorResult(err)
		}
		if err := p.rec.started(); err != nil {
			return tool.ErrorResult(err)
		}
		if !p.commit {
			if err := p.bound(ctx); err != nil {
				return tool.ErrorResult(err)
			}
			r, err := p.tool.Call(ctx, p.inv, p.sink)
			if err != nil {
				return tool.ErrorResult(err)
			}
			return r
		}
		by := workspace.By{Session: p.inv.Session, Turn: p.inv.TurnID, Call: p.inv.CallID, Tool: p.inv.Tool}
		err := t.space.files.CommitBy(ctx, by, p.preview.Writes, p.allowed...)
		switch {
		case err == nil:
			t.space.seen.Committed(p.preview.Writes)
			p.rec.committed(p.preview.Writes)
			return p.preview.Result
		case tool.CodeOf(err) == tool.ApprovalMismatch && p.standing && tries < maxRejudged:
			// Another call changed a file first. Nobody looked at this write set, so
			// finding out afresh what the call does is what was allowed.
			t.judge(ctx, p)
		default:
			return tool.ErrorResult(err)
		}
	}
}

// bound finds out whether a command is still what was agreed to: where it would
// run and with what may have changed while somebody thought about it. The tool
// looks again when it begins, see [tool.Invocation.Approved].
func (p *prepared) bound(ctx context.Context) error {
	pv, ok := p.tool.(tool.Previewer)
	if !ok || p.preview.Command == "" && !p.preview.Runs {
		return nil
	}
	if !p.standing {
		now, err := pv.Preview(ctx, p.inv, p.sink)
		if err != nil {
			return err
		}
		if now.Binding != p.preview.Binding {
			return tool.Errorf(tool.ApprovalMismatch, "the command would now run otherwise than was approved").
				WithNext("nothing was run; make the call again, so that what would run now can be approved")
		}
	}
	p.inv.Approved = p.preview.Binding
	return nil
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
	p := f.call
	out := Outcome{CallID: p.inv.CallID, Tool: p.def.Name}
	dec, err := tk.Wait(ctx)
	if err != nil {
		out.Result = tool.ErrorResult(err)
		return out
	}
	p.rec = t.emptyRecord() // until the ticket is redeemed its record is not this call's to end
	out.Result, out.Ticket = f.turn.finish(ctx, f.turn.redeem(&p, tk, dec))
	return out
}
