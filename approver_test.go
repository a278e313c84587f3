package wasmtools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// TestApproverOfOneCall: it is asked beside the runtime's own, is shown what
// will happen, and its answer counts for this call only. When it passes, or
// patience is over, the ticket is left to others.
func TestApproverOfOneCall(t *testing.T) {
	dir := t.TempDir()
	queue := &asker{}
	turn := begin(t, open(t, dir, []approval.Approver{queue}))
	write := func(name string, a approval.Approver, patience time.Duration) wasmtools.Outcome {
		args, _ := json.Marshal(map[string]string{"path": name, "content": "x\n"})
		return turn.Call(t.Context(), []wasmtools.Request{{Tool: "write_file", Arguments: args, Approver: a, Patience: patience}})[0]
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	var asked approval.Request
	says := func(v approval.Verdict) approval.Approver {
		return approval.Func(func(r approval.Request) approval.Decision {
			asked = r
			return approval.Decision{Verdict: v, By: "one"}
		})
	}

	if o := write("yes.txt", says(approval.Allow), 0); o.Result.IsError || !exists("yes.txt") || asked.Preview.Diff == "" {
		t.Errorf("after a yes: %s; asked with %q", o.Result.PlainText(), asked.Preview.Diff)
	}
	wantCode(t, write("no.txt", says(approval.Deny), 0), tool.Denied)

	o := write("pass.txt", says(approval.Pass), 0)
	wantCode(t, o, tool.ApprovalRequired)
	if o.Ticket == "" || exists("pass.txt") {
		t.Errorf("ticket %q, written %v", o.Ticket, exists("pass.txt"))
	}
	wantCode(t, write("late.txt", nil, time.Millisecond), tool.ApprovalRequired)
	absent := approverFunc(func(approval.Request, approval.Answer) func() { return nil })
	wantCode(t, write("late.txt", absent, time.Millisecond), tool.ApprovalRequired)
	if exists("no.txt") || exists("pass.txt") || exists("late.txt") {
		t.Error("something was written without a yes")
	}
	for i, r := range queue.asked {
		if r.Ticket == o.Ticket {
			if err := queue.answers[i](approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if o := write("pass.txt", says(approval.Pass), 0); o.Result.IsError || !exists("pass.txt") {
		t.Errorf("after the other's yes: %s", o.Result.PlainText())
	}
}

type approverFunc func(approval.Request, approval.Answer) func()

func (f approverFunc) Offer(r approval.Request, answer approval.Answer) func() { return f(r, answer) }

// TestNobodyToAsk: patience is for people who are there; without any the ticket
// is the answer at once, or this would take an hour.
func TestNobodyToAsk(t *testing.T) {
	turn := begin(t, open(t, t.TempDir(), nil))
	absent := approverFunc(func(approval.Request, approval.Answer) func() { return nil })
	o := turn.Call(t.Context(), []wasmtools.Request{{Tool: "write_file", Arguments: json.RawMessage(`{"path":"a","content":"x"}`), Approver: absent, Patience: time.Hour}})[0]
	wantCode(t, o, tool.ApprovalRequired)
}
