package wasmtools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// ledger is a Sink that keeps what it is told, and checks the order: an intent
// first, one last word, nothing after it.
type ledger struct {
	mu      sync.Mutex
	calls   []*entry
	faults  []string
	failing bool
}

type entry struct {
	intent   evidence.Intent
	events   []evidence.Event
	outcomes []evidence.Outcome
}

func (l *ledger) Begin(i evidence.Intent) (evidence.Handle, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing {
		return "", errors.New("disk full")
	}
	l.calls = append(l.calls, &entry{intent: i})
	return evidence.Handle(fmt.Sprint(len(l.calls) - 1)), nil
}

func (l *ledger) at(h evidence.Handle) *entry {
	var i int
	if _, err := fmt.Sscan(string(h), &i); err != nil || i >= len(l.calls) {
		l.faults = append(l.faults, fmt.Sprintf("handle %q was never given", h))
		return &entry{}
	}
	e := l.calls[i]
	if n := len(e.outcomes); n > 0 && e.outcomes[n-1].Status != evidence.Waiting {
		l.faults = append(l.faults, fmt.Sprintf("%s was told more after its last word", e.intent.Call))
	}
	return e
}

func (l *ledger) Event(h evidence.Handle, e evidence.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at(h)
	at.events = append(at.events, e)
	return nil
}

func (l *ledger) End(h evidence.Handle, o evidence.Outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.at(h)
	at.outcomes = append(at.outcomes, o)
	return nil
}

// check ends the test if a record is not in order, and returns them by call id.
func (l *ledger) check(t *testing.T) map[string]*entry {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	by := map[string]*entry{}
	for _, e := range l.calls {
		if len(e.outcomes) == 0 {
			t.Errorf("%s has an intent and no outcome", e.intent.Call)
			continue
		}
		by[e.intent.Call] = e
	}
	return by
}

func (e *entry) last() evidence.Outcome { return e.outcomes[len(e.outcomes)-1] }

func (e *entry) kinds() string {
	var s []string
	for _, v := range e.events {
		s = append(s, string(v.Kind))
	}
	return strings.Join(s, " ")
}

func openWith(t *testing.T, dir string, rules *policy.Policy, sink evidence.Sink, approvers ...approval.Approver) *wasmtools.Runtime {
	t.Helper()
	w := wasmtools.Workspace{Dir: dir, Evidence: sink}
	if rules != nil {
		w.Policy = func() policy.Policy { return *rules }
	}
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{Workspaces: []wasmtools.Workspace{w}, StateDir: filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"), Approvers: approvers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

func req(id, name, args string) wasmtools.Request {
	return wasmtools.Request{CallID: id, Tool: name, Arguments: []byte(args)}
}

// TestEveryCallIsRecorded: whatever becomes of a call, it has an intent and one
// last outcome that says so.
func TestEveryCallIsRecorded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	rules := &policy.Policy{Rules: []policy.Rule{
		{Name: "docs", Decision: policy.Allow, Tools: []string{"write_file"}, Paths: []string{"docs/**"}, Origin: policy.Origin{Layer: policy.User, File: "/u/wasmtools.toml", Line: 7}},
		{Name: "no deletes", Decision: policy.Deny, Tools: []string{"delete_path"}},
	}}
	turn := begin(t, openWith(t, dir, rules, l, approval.Func(func(r approval.Request) approval.Decision {
		if strings.Contains(string(r.Arguments), "refuse") {
			return approval.Decision{Verdict: approval.Deny, By: "ann", Channel: "test", Reason: "not this one"}
		}
		return approval.Decision{Verdict: approval.Allow, By: "ann", Channel: "test"}
	})))
	for _, c := range []struct {
		id, tool, args string
		status         evidence.Status
		code           tool.Code
		events         string
	}{
		{"read", "read_open", `{"path":"a.txt"}`, evidence.Completed, "", ""},
		{"alias", "read", `{"path":"a.txt"}`, evidence.Completed, "", ""},
		{"missing", "read_open", `{"path":"b.txt"}`, evidence.Failed, tool.NotFound, ""},
		{"schema", "read_open", `{"pth":"b.txt"}`, evidence.Failed, tool.SchemaInvalid, ""},
		{"nobody", "no_such_tool", `{}`, evidence.Denied, tool.NotRegistered, ""},
		{"rule", "write_file", `{"path":"docs/a.md","content":"x"}`, evidence.Completed, "", "start"},
		{"person", "write_file", `{"path":"b.txt","content":"x"}`, evidence.Completed, "", "approval_required decided start"},
		{"refused", "write_file", `{"path":"refuse.txt","content":"x"}`, evidence.Denied, tool.Denied, "approval_required decided"},
		{"denied", "delete_path", `{"path":"a.txt"}`, evidence.Denied, tool.Denied, ""},
		{"no change", "write_file", `{"path":"a.txt","content":"x"}`, evidence.Failed, tool.Exists, ""},
	} {
		o := turn.Call(t.Context(), []wasmtools.Request{req(c.id, c.tool, c.args)})[0]
		if o.Result.Code != c.code {
			t.Errorf("%s answered %q: %s", c.id, o.Result.Code, o.Result.PlainText())
		}
		e := l.check(t)[c.id]
		if e == nil {
			t.Errorf("%s left no record", c.id)
			continue
		}
		out := e.last()
		if out.Status != c.status || out.Code != c.code || e.kinds() != c.events {
			t.Errorf("%s: recorded as %s %q with events %q; want %s %q %q", c.id, out.Status, out.Code, e.kinds(), c.status, c.code, c.events)
		}
		if out.Output == "" || e.intent.Session == "" || e.intent.Turn == "" {
			t.Errorf("%s: output %q, session %q, turn %q", c.id, out.Output, e.intent.Session, e.intent.Turn)
		}
	}
	by := l.check(t)
	if e := by["read"]; fmt.Sprint(e.last().Used.Paths) != "[a.txt]" || e.last().Used.HostCalls == 0 || e.intent.Module == "" || e.intent.Definition == "" || e.intent.Input == "" {
		t.Errorf("a reading call is recorded as %+v with %+v", e.intent, e.last().Used)
	}
	if e := by["alias"]; e.intent.Tool != "read_open" || e.intent.As != "read" {
		t.Errorf("an alias is recorded as %q called as %q", e.intent.Tool, e.intent.As)
	}
	if a := by["rule"].last().Approval; a.Rule.Name != "docs" || a.Rule.Line != 7 || a.Verdict != "allow" || a.Channel != "policy" {
		t.Errorf("a call that a rule allowed is recorded with %+v", a)
	}
	if w := by["rule"].last().Writes; len(w) != 2 || w[1].Path != "docs/a.md" || w[1].After != tool.DigestOf([]byte("x")) {
		t.Errorf("what it wrote is recorded as %+v", w)
	}
	if a := by["person"].last().Approval; a.By != "ann" || a.Channel != "test" || a.Ticket == "" || a.Binding == "" || a.Rule.Name == "" {
		t.Errorf("a call that a person allowed is recorded with %+v", a)
	}
	if a := by["refused"].last(); a.Approval.Reason != "not this one" || a.Writes != nil || !a.Began.IsZero() {
		t.Errorf("a refused call is recorded as %+v", a)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil {
		t.Error("what a rule denied happened")
	}
}

// TestOneTicketOneRecord: a call that waits, the same call repeated, and the
// answer from elsewhere make one record, whoever carries it out.
func TestOneTicketOneRecord(t *testing.T) {
	for _, resume := range []bool{false, true} {
		dir := t.TempDir()
		l := &ledger{}
		rt := openWith(t, dir, nil, l)
		turn := begin(t, rt)
		ask := func(id string) wasmtools.Outcome {
			return turn.Call(t.Context(), []wasmtools.Request{req(id, "write_file", `{"path":"a.txt","content":"x"}`)})[0]
		}
		first := ask("one")
		wantCode(t, first, tool.ApprovalRequired)
		wantCode(t, ask("two"), tool.ApprovalRequired)
		by := l.check(t)
		if len(by) != 1 || by["one"].last().Status != evidence.Waiting {
			t.Fatalf("two equal calls made the records %v", by)
		}
		if err := rt.Decide(first.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		var o wasmtools.Outcome
		if resume {
			o = turn.Resume(t.Context(), first.Ticket)
		} else {
			o = ask("three")
		}
		if o.Result.IsError {
			t.Fatal(o.Result.PlainText())
		}
		by = l.check(t)
		if len(by) != 1 || by["one"].last().Status != evidence.Completed || by["one"].last().Approval.By != "ann" || by["one"].last().Writes == nil {
			t.Errorf("resume %v: recorded %d calls, the ticket's as %+v", resume, len(by), by["one"].last())
		}
		// The same call again is another one.
		wantCode(t, ask("four"), tool.Exists)
		if by = l.check(t); len(by) != 2 {
			t.Errorf("resume %v: %d records after another call; want 2", resume, len(by))
		}
	}
}

// TestTicketsThatNobodyUses end in the record too: expired, and when the
// runtime closes.
func TestTicketsThatNobodyUses(t *testing.T) {
	l := &ledger{}
	rt := openWith(t, t.TempDir(), nil, l)
	turn := begin(t, rt)
	wantCode(t, turn.Call(t.Context(), []wasmtools.Request{req("one", "write_file", `{"path":"a.txt","content":"x"}`)})[0], tool.ApprovalRequired)
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	out := l.check(t)["one"].last()
	if out.Status != evidence.Denied || out.Code != tool.ApprovalExpired {
		t.Errorf("recorded as %s %q", out.Status, out.Code)
	}
}

// TestConcurrentEqualCalls: whichever comes first, the records stay in order
// and the change is made once.
func TestConcurrentEqualCalls(t *testing.T) {
	dir := t.TempDir()
	l := &ledger{}
	rt := openWith(t, dir, nil, l, approval.Func(func(approval.Request) approval.Decision {
		return approval.Decision{Verdict: approval.Allow, By: "ann"}
	}))
	turn := begin(t, rt)
	var wg sync.WaitGroup
	results := make([]wasmtools.Outcome, 8)
	for i := range results {
		wg.Go(func() {
			results[i] = turn.Call(t.Context(), []wasmtools.Request{req(fmt.Sprint("c", i), "write_file", `{"path":"a.txt","content":"x"}`)})[0]
		})
	}
	wg.Wait()
	done := 0
	for _, o := range results {
		switch o.Result.Code {
		case "":
			done++
		case tool.ApprovalExpired, tool.ApprovalMismatch, tool.Exists: // the yes was spent, or the file was there before the commit or the preview
		default:
			t.Errorf("%s: %s", o.CallID, o.Result.PlainText())
		}
	}
	if done != 1 {
		t.Errorf("%d calls were carried out with one yes", done)
	}
	l.check(t)
	if n := l.count(evidence.Completed); n != 1 {
		t.Errorf("%d records are completed; want 1", n)
	}
}

// count is how many records end with status.
func (l *ledger) count(status evidence.Status) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.calls {
		if e.last().Status == status {
			n++
		}
	}
	return n
}

// TestOpenerDoesNotEndTheTicketsRecord: the call that opened a ticket may end
// before the ticket does, or lose it to an equal call. What is done then must be
// recorded, and what the call was answered too.
func TestOpenerDoesNotEndTheTicketsRecord(t *testing.T) {
	const args = `{"path":"a.txt","content":"x"}`
	for _, c := range []struct {
		name  string
		while func(rt *wasmtools.Runtime, turn *wasmtools.Turn, ticket string, cancel func())
		code  tool.Code
		own   evidence.Status
	}{
		{"cancelled", func(_ *wasmtools.Runtime, _ *wasmtools.Turn, _ string, cancel func()) { cancel() }, tool.Cancelled, evidence.Cancelled},
		{"too late", func(rt *wasmtools.Runtime, turn *wasmtools.Turn, ticket string, _ func()) {
			if err := rt.Decide(ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
				t.Error(err)
			}
			if o := turn.Resume(t.Context(), ticket); o.Result.IsError {
				t.Error(o.Result.PlainText())
			}
		}, tool.ApprovalExpired, evidence.Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &ledger{}
			rt := openWith(t, t.TempDir(), nil, l)
			turn := begin(t, rt)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := req("one", "write_file", args)
			r.Approver = offered(func(q approval.Request) { c.while(rt, turn, q.Ticket, cancel) })
			first := turn.Call(ctx, []wasmtools.Request{r})[0]
			wantCode(t, first, c.code)
			if c.code == tool.Cancelled { // the ticket stays open, and a person says yes later
				again := turn.Call(t.Context(), []wasmtools.Request{req("two", "write_file", args)})[0]
				wantCode(t, again, tool.ApprovalRequired)
				if err := rt.Decide(again.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
					t.Fatal(err)
				}
				if o := turn.Call(t.Context(), []wasmtools.Request{req("three", "write_file", args)})[0]; o.Result.IsError {
					t.Fatal(o.Result.PlainText())
				}
			}
			l.check(t)
			if n := l.count(evidence.Completed); n != 1 {
				t.Errorf("%d records are completed; want that of the ticket", n)
			}
			if n := l.count(c.own); n != 1 {
				t.Errorf("%d records are %s; want that of the call that got nothing", n, c.own)
			}
			if len(l.calls) != 2 {
				t.Errorf("there are %d records", len(l.calls))
			}
		})
	}
}

// offered is an approver that takes part, does something when it is asked, and
// leaves the answer to others.
type offered func(approval.Request)

func (f offered) Offer(r approval.Request, _ approval.Answer) func() { f(r); return func() {} }

// TestNothingHappensUnrecorded: where the intent cannot be written, nothing is
// done, not even reading.
func TestNothingHappensUnrecorded(t *testing.T) {
	dir := t.TempDir()
	l := &ledger{failing: true}
	turn := begin(t, openWith(t, dir, nil, l, approval.Always(approval.Allow)))
	o := call(t, turn, "write_file", `{"path":"a.txt","content":"x"}`)
	wantCode(t, o, tool.Internal)
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("a file was written without an intent")
	}
	wantCode(t, call(t, turn, "read_discover", `{"mode":"list"}`), tool.Internal)
	l.failing = false
	if o := call(t, turn, "write_file", `{"path":"a.txt","content":"x"}`); o.Result.IsError {
		t.Errorf("control: %s", o.Result.PlainText())
	}
}

// TestAnswerAtOnce: an approver that answers while it is asked is recorded like
// any other: first the question, then whose answer it was.
func TestAnswerAtOnce(t *testing.T) {
	l := &ledger{}
	turn := begin(t, openWith(t, t.TempDir(), nil, l, approval.Always(approval.Allow)))
	o := turn.Call(t.Context(), []wasmtools.Request{req("one", "write_file", `{"path":"a.txt","content":"x"}`)})[0]
	wantCode(t, o, "")
	e := l.check(t)["one"]
	if a := e.last().Approval; e.kinds() != "approval_required decided start" || a.Verdict != "allow" || a.Channel != "mode" || a.By == "" || a.Ticket == "" {
		t.Errorf("recorded with events %q and %+v", e.kinds(), a)
	}
	if a := e.events[1].Approval; strings.Contains(a.Reason, "refuse") || a.Ticket == "" {
		t.Errorf("the answer is recorded as %+v", a)
	}
}

// TestHeadlessDeny: where nobody can be asked and nothing is queued, the answer
// is approval_required without a ticket, and nothing waits.
func TestHeadlessDeny(t *testing.T) {
	for _, c := range []struct {
		mode   policy.Headless
		ticket bool
		status evidence.Status
	}{{policy.HeadlessDeny, false, evidence.Denied}, {policy.HeadlessQueue, true, evidence.Waiting}} {
		l := &ledger{}
		turn := begin(t, openWith(t, t.TempDir(), &policy.Policy{Headless: c.mode}, l))
		o := turn.Call(t.Context(), []wasmtools.Request{req("one", "write_file", `{"path":"a.txt","content":"x"}`)})[0]
		wantCode(t, o, tool.ApprovalRequired)
		if (o.Ticket != "") != c.ticket {
			t.Errorf("headless %s: ticket %q", c.mode, o.Ticket)
		}
		if s := l.check(t)["one"].last().Status; s != c.status {
			t.Errorf("headless %s: recorded as %s; want %s", c.mode, s, c.status)
		}
	}
}

// TestCheck: a check says what the rules would decide and leaves no trace.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	l := &ledger{}
	rules := &policy.Policy{Rules: []policy.Rule{
		{Name: "docs", Decision: policy.Allow, Tools: []string{"write_file"}, Paths: []string{"docs/**"}},
		{Name: "no keys", Decision: policy.Deny, Paths: []string{"keys/**"}},
	}}
	turn := begin(t, openWith(t, dir, rules, l, approval.Func(func(approval.Request) approval.Decision {
		t.Error("a check asked somebody")
		return approval.Decision{}
	})))
	for _, c := range []struct {
		tool, args string
		decision   policy.Decision
		rule       string
		code       tool.Code // of what ends before it is judged
	}{
		{"read_discover", `{"mode":"list"}`, policy.Allow, "reads", ""},
		{"write_file", `{"path":"docs/a.md","content":"x"}`, policy.Allow, "docs", ""},
		{"write_file", `{"path":"a.md","content":"x"}`, policy.Ask, "default", ""},
		{"write_file", `{"path":"keys/a","content":"x"}`, policy.Deny, "no keys", ""},
		{"write_file", `{"path":"a.md"}`, "", "", tool.SchemaInvalid},
		{"delete_path", `{"path":"a.md"}`, "", "", tool.NotFound},
		{"nothing", `{}`, "", "", tool.NotRegistered},
	} {
		v, answer, judged := turn.Check(t.Context(), req("", c.tool, c.args))
		if v.Decision != c.decision || v.Rule.Name != c.rule || answer.Code != c.code || judged != (c.code == "") {
			t.Errorf("Check(%s %s) = %s by %q, %q; want %s by %q, %q", c.tool, c.args, v.Decision, v.Rule.Name, answer.Code, c.decision, c.rule, c.code)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 || len(l.calls) != 0 {
		t.Errorf("checks left %d files and %d records", len(list), len(l.calls))
	}
}
