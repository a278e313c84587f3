package approval_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// asks is an approver that counts its prompts and hands out their answers.
type asks struct {
	offered, withdrawn atomic.Int32
	answer             chan approval.Answer
}

func newAsks() *asks { return &asks{answer: make(chan approval.Answer, 16)} }

func (a *asks) Offer(_ approval.Request, answer approval.Answer) func() {
	a.offered.Add(1)
	a.answer <- answer
	return func() { a.withdrawn.Add(1) }
}

func TestAskDecides(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk, a := submit(t, d, request("b")), newAsks()
	go func() { _ = (<-a.answer)(yes) }()
	if dec, err := tk.Ask(t.Context(), a); err != nil || dec != yes {
		t.Fatalf("Ask = %+v, %v", dec, err)
	}
	if a.withdrawn.Load() != 1 {
		t.Error("the prompt was not withdrawn")
	}
	if err := tk.Redeem("b"); err != nil {
		t.Fatal(err)
	}
}

// TestPassDecidesNothing: the call goes on at once, the ticket is still there
// for others, and the approver is not bothered again with it.
func TestPassDecidesNothing(t *testing.T) {
	for _, v := range []approval.Verdict{approval.Pass, approval.Later} {
		other := newAsks() // somebody who could answer, and does so later
		d := approval.NewDesk([]approval.Approver{other}, 0)
		tk, a := submit(t, d, request("b")), newAsks()
		none := approval.Decision{Verdict: v, Channel: "mcp"}
		go func() { _ = (<-a.answer)(none) }()
		if dec, err := tk.Ask(t.Context(), a); err != approval.ErrNoAnswer {
			t.Fatalf("%s: Ask = %+v, %v", v, dec, err)
		}
		if again := submit(t, d, request("b")); again != tk {
			t.Fatalf("%s: the ticket is gone", v)
		}
		wantPasses := 1
		if v == approval.Later {
			wantPasses = 0
		} else if _, err := tk.Ask(t.Context(), a); err != approval.ErrNoAnswer || a.offered.Load() != 1 {
			t.Errorf("asked %d times, %v; want once", a.offered.Load(), err)
		}
		if n := len(tk.Passes()); n != wantPasses {
			t.Errorf("%s: %d passes are kept; want %d", v, n, wantPasses)
		}
		if err := (<-other.answer)(yes); err != nil {
			t.Fatal(err)
		}
		if dec, err := tk.Ask(t.Context(), a); err != nil || dec != yes {
			t.Errorf("%s: Ask after the decision = %+v, %v", v, dec, err)
		}
	}
}

// TestPassCannotBeRedeemed: without a decision there is nothing to spend.
func TestPassCannotBeRedeemed(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	for _, v := range []approval.Verdict{approval.Pass, approval.Later} {
		if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: v}); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, tk.Redeem("b"), tool.ApprovalExpired)
}

// TestAskOneAfterAnother: calls that joined one ticket never prompt at once; if
// the first is withdrawn without an answer the next one asks.
func TestAskOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := approval.NewDesk(nil, 0)
		tk, a := submit(t, d, request("b")), newAsks()
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := tk.Ask(first, a); !errors.Is(err, context.Canceled) {
				t.Errorf("the first got %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if dec, err := tk.Ask(t.Context(), a); err != nil || dec != yes {
					t.Errorf("a joined call got %+v, %v", dec, err)
				}
			})
		}
		synctest.Wait()
		if n := a.offered.Load(); n != 1 {
			t.Errorf("%d prompts at once; want 1", n)
		}
		cancel()
		synctest.Wait()
		if n := a.offered.Load(); n != 2 {
			t.Errorf("%d prompts after the first was withdrawn; want 2", n)
		}
		<-a.answer
		if err := (<-a.answer)(yes); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// TestAskIsBounded: a client that lets every prompt lapse is asked four times.
func TestAskIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := approval.NewDesk(nil, 0)
		tk, a := submit(t, d, request("b")), newAsks()
		lapsed := 0
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := tk.Ask(ctx, a); errors.Is(err, context.DeadlineExceeded) {
				lapsed++
			} else if err != approval.ErrNoAnswer {
				t.Fatalf("Ask = %v", err)
			}
			cancel()
		}
		if lapsed != 4 || a.offered.Load() != 4 || a.withdrawn.Load() != 4 {
			t.Errorf("%d lapsed, %d offered, %d withdrawn; want 4 each", lapsed, a.offered.Load(), a.withdrawn.Load())
		}
	})
}

// TestPanickingApprover: its turn ends, so that the ticket can be asked again.
func TestPanickingApprover(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	func() {
		defer func() { _ = recover() }()
		_, _ = tk.Ask(t.Context(), offer(func(approval.Request, approval.Answer) func() { panic("x") }))
	}()
	a := newAsks()
	go func() { _ = (<-a.answer)(yes) }()
	if _, err := tk.Ask(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// TestApproverThatTakesNoPart: its nil counts as nothing, at the desk and in Ask.
func TestApproverThatTakesNoPart(t *testing.T) {
	absent := offer(func(approval.Request, approval.Answer) func() { return nil })
	d := approval.NewDesk([]approval.Approver{absent}, 0)
	tk := submit(t, d, request("b"))
	for range 10 {
		if _, err := tk.Ask(t.Context(), absent); err != approval.ErrNotAsked {
			t.Fatalf("Ask = %v", err)
		}
	}
	if err := d.Decide(tk.Request().Ticket, yes); err != nil {
		t.Fatal(err)
	}
	if err := tk.Redeem("b"); err != nil {
		t.Fatal(err)
	}
}
