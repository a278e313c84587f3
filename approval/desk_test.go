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

func request(binding tool.Digest) approval.Request {
	return approval.Request{Session: "s", Tool: "write_file", Input: "i", Preview: tool.Preview{Binding: binding}}
}

var yes = approval.Decision{Verdict: approval.Allow, By: "ann"}

func submit(t *testing.T, d *approval.Desk, r approval.Request) *approval.Ticket {
	t.Helper()
	tk, err := d.Submit(r)
	if err != nil {
		t.Fatalf("Submit = %v", err)
	}
	return tk
}

func wantCode(t *testing.T, err error, code tool.Code) {
	t.Helper()
	if tool.CodeOf(err) != code {
		t.Fatalf("got %v, want code %q", err, code)
	}
}

func TestRedeemOnce(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	if err := d.Decide(tk.Request().Ticket, yes); err != nil {
		t.Fatal(err)
	}
	if err := tk.Redeem("b"); err != nil {
		t.Fatalf("first Redeem = %v", err)
	}
	wantCode(t, tk.Redeem("b"), tool.ApprovalExpired)
	if _, ok := d.Find(tk.Request().Ticket); ok {
		t.Error("a spent ticket can still be found")
	}
}

func TestRedeemComparesTheBinding(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	if err := d.Decide(tk.Request().Ticket, yes); err != nil {
		t.Fatal(err)
	}
	wantCode(t, tk.Redeem("other"), tool.ApprovalMismatch)
	wantCode(t, tk.Redeem("b"), tool.ApprovalExpired) // burnt by the first try
}

func TestUndecidedAndDeniedCannotBeRedeemed(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	wantCode(t, submit(t, d, request("b")).Redeem("b"), tool.ApprovalExpired)
	tk := submit(t, d, request("b"))
	if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: approval.Deny, Reason: "not today"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, tk.Redeem("b"), tool.Denied)
	tk = submit(t, d, request("b"))
	if err := d.Decide(tk.Request().Ticket, approval.Decision{Verdict: "maybe"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, tk.Redeem("b"), tool.Denied) // an unknown verdict is no yes
}

func TestEqualCallJoins(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	if again := submit(t, d, request("b")); again != tk {
		t.Error("an equal call opened a second ticket")
	}
	for name, change := range map[string]func(*approval.Request){
		"session": func(r *approval.Request) { r.Session = "other" },
		"tool":    func(r *approval.Request) { r.Tool = "other" },
		"module":  func(r *approval.Request) { r.Module = "other" },
		"input":   func(r *approval.Request) { r.Input = "other" },
	} {
		r := request("b")
		change(&r)
		if submit(t, d, r) == tk {
			t.Errorf("a call with another %s joined the ticket", name)
		}
	}
}

// TestApprovedThenChanged: a person said yes to one write set, and the repeated
// call would now write another one.
func TestApprovedThenChanged(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	if err := d.Decide(tk.Request().Ticket, yes); err != nil {
		t.Fatal(err)
	}
	_, err := d.Submit(request("changed"))
	wantCode(t, err, tool.ApprovalMismatch)
	// The yes is gone; the next try asks again.
	if _, ok := submit(t, d, request("changed")).Decision(); ok {
		t.Error("the old decision was carried over")
	}
}

func TestFirstAnswerWins(t *testing.T) {
	for range 200 {
		var answers [8]approval.Answer
		var withdrawn atomic.Int32
		var approvers []approval.Approver
		for i := range answers {
			approvers = append(approvers, offer(func(_ approval.Request, a approval.Answer) func() {
				answers[i] = a
				return func() { withdrawn.Add(1) }
			}))
		}
		d := approval.NewDesk(approvers, 0)
		tk := submit(t, d, request("b"))
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, a := range answers {
			wg.Go(func() {
				switch err := a(yes); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, approval.ErrAnswered):
					t.Errorf("a late answer got %v, want ErrAnswered", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || int(withdrawn.Load()) != len(answers) {
			t.Fatalf("%d answers won and %d offers were withdrawn; want 1 and %d", won.Load(), withdrawn.Load(), len(answers))
		}
		if err := tk.Redeem("b"); err != nil {
			t.Fatal(err)
		}
	}
}

type offer func(approval.Request, approval.Answer) func()

func (o offer) Offer(r approval.Request, a approval.Answer) func() { return o(r, a) }

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := approval.NewDesk(nil, time.Minute)
		tk := submit(t, d, request("b"))
		_, err := tk.Wait(t.Context())
		wantCode(t, err, tool.ApprovalExpired)
		if err := d.Decide(tk.Request().Ticket, yes); !errors.Is(err, approval.ErrExpired) {
			t.Errorf("Decide after the end = %v, want ErrExpired", err)
		}

		// Decided in time, redeemed too late.
		tk = submit(t, d, request("b"))
		if err := d.Decide(tk.Request().Ticket, yes); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // fake time
		wantCode(t, tk.Redeem("b"), tool.ApprovalExpired)
	})
}

func TestWaitLeavesTheTicketOpen(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	tk := submit(t, d, request("b"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tk.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait = %v", err)
	}
	if err := d.Decide(tk.Request().Ticket, yes); err != nil {
		t.Fatalf("Decide after an abandoned wait = %v", err)
	}
	if dec, err := submit(t, d, request("b")).Wait(t.Context()); err != nil || dec.By != "ann" {
		t.Errorf("the repeated call got %+v, %v", dec, err)
	}
}

func TestDeskIsBounded(t *testing.T) {
	d := approval.NewDesk(nil, 0)
	r := request("b")
	r.Preview.Writes = &tool.WriteSet{Entries: []tool.Write{{Blob: make([]byte, 100<<20)}}}
	for i := range 3 {
		r.Input = tool.Digest(rune('a' + i))
		tk, err := d.Submit(r)
		if i < 2 && err != nil || i == 2 && tool.CodeOf(err) != tool.Busy {
			t.Fatalf("Submit %d of 100 MiB = %v, %v", i, tk, err)
		}
	}
	d = approval.NewDesk(nil, 0)
	var err error
	for i := 0; err == nil; i++ {
		if i > 10_000 {
			t.Fatal("a desk takes any number of tickets")
		}
		r := request("b")
		r.Input = tool.Digest(time.Duration(i).String())
		_, err = d.Submit(r)
	}
	wantCode(t, err, tool.Busy)
}

func TestModes(t *testing.T) {
	for _, v := range []approval.Verdict{approval.Allow, approval.Deny} {
		d := approval.NewDesk([]approval.Approver{approval.Always(v)}, 0)
		dec, err := submit(t, d, request("b")).Wait(t.Context())
		if err != nil || dec.Verdict != v || !dec.Standing {
			t.Errorf("Always(%s) decided %+v, %v", v, dec, err)
		}
	}
	d := approval.NewDesk([]approval.Approver{approval.Func(func(approval.Request) approval.Decision { return yes })}, 0)
	if dec, err := submit(t, d, request("b")).Wait(t.Context()); err != nil || dec != yes {
		t.Errorf("Func decided %+v, %v", dec, err)
	}
}

// TestJoinedWhileOffered: a call that joins a ticket before all approvers were
// asked must not take it for one that nobody looks at.
func TestJoinedWhileOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		d := approval.NewDesk([]approval.Approver{slow{entered, release}}, 0)
		go func() { _, _ = d.Submit(approval.Request{Tool: "w"}) }()
		<-entered
		tk, err := d.Submit(approval.Request{Tool: "w"})
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if tk.Attended(ended) {
			t.Error("somebody takes part before he was asked")
		}
		attended := make(chan bool, 1)
		go func() { attended <- tk.Attended(t.Context()) }()
		synctest.Wait()
		close(release)
		if !<-attended {
			t.Error("nobody takes part")
		}
	})
}

// slow is an approver that takes part, in its own time.
type slow struct{ entered, release chan struct{} }

func (s slow) Offer(approval.Request, approval.Answer) func() {
	close(s.entered)
	<-s.release
	return func() {}
}
