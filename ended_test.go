package wasmtools_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// openDice is a runtime with a tool whose equal calls would each write something
// else, so that each takes the place of the ticket before it.
func openDice(t *testing.T, sink evidence.Sink, rules func() policy.Policy, approvers ...approval.Approver) (dir string, rt *wasmtools.Runtime) {
	t.Helper()
	dir = t.TempDir()
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Evidence: sink, Policy: rules}},
		StateDir:   filepath.Join(cacheDir(t), "state"), CacheDir: filepath.Join(cacheDir(t), "cache"), Approvers: approvers,
		Modules: []wasmtools.Module{{Code: diceGuest(true), Grants: map[string]hostfuncs.Grant{"throw": {Write: []string{"r"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return dir, rt
}

// answers is an approver that hands its answers to the test.
type answers chan approval.Answer

func (a answers) Offer(_ approval.Request, answer approval.Answer) func() {
	a <- answer
	return func() {}
}

// awaited is one that is there, and tells when a call begins to wait for it.
type awaited struct {
	answers
	waits chan struct{}
}

func (a awaited) Attended() bool {
	select {
	case a.waits <- struct{}{}:
	default:
	}
	return true
}

// slowSink says when the decision is to be recorded, and waits.
type slowSink struct {
	*ledger
	reached, proceed chan struct{}
}

func (s slowSink) Event(h evidence.Handle, e evidence.Event) error {
	if e.Kind == evidence.Decided {
		s.reached <- struct{}{}
		<-s.proceed
	}
	return s.ledger.Event(h, e)
}

// TestReplacedWhileDecided: between a yes and its use the ticket ends, because
// an equal call would do something else or the runtime is closed. The yes is then
// good for nothing, whoever waited is told so at once, and the record, too.
func TestReplacedWhileDecided(t *testing.T) {
	for _, closing := range []bool{false, true} {
		s := slowSink{&ledger{}, make(chan struct{}), make(chan struct{})}
		asked := awaited{make(answers, 4), make(chan struct{}, 1)}
		dir, rt := openDice(t, s, nil, asked)
		turn := begin(t, rt)
		first := make(chan wasmtools.Outcome, 1)
		go func() { first <- turn.Call(t.Context(), []wasmtools.Request{req("one", "throw", "{}")})[0] }()
		answer := <-asked.answers
		<-asked.waits // else it waits for the record, which the sink holds
		said := make(chan error, 1)
		go func() { said <- answer(approval.Decision{Verdict: approval.Allow, By: "ann"}) }()
		<-s.reached
		want := tool.ApprovalMismatch
		if closing {
			want = tool.Cancelled
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		} else {
			wantCode(t, turn.Call(t.Context(), []wasmtools.Request{req("two", "throw", "{}")})[0], tool.ApprovalMismatch)
		}
		wantCode(t, <-first, want)
		close(s.proceed)
		if err := <-said; err != approval.ErrExpired {
			t.Errorf("closing %v: the person is told %v", closing, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "r")); err == nil {
			t.Errorf("closing %v: it was written", closing)
		}
		s.check(t)
		if n := s.count(evidence.Completed); n != 0 {
			t.Errorf("closing %v: %d records are completed", closing, n)
		}
	}
}

// TestNobodyWaitsForEver: of equal calls that replace each other's tickets every
// one is answered, and as many are carried out as the record says.
func TestNobodyWaitsForEver(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		l := &ledger{}
		_, rt := openDice(t, l, nil, approval.Func(func(approval.Request) approval.Decision {
			return approval.Decision{Verdict: approval.Allow, By: "ann"}
		}))
		turn := begin(t, rt)
		var wg sync.WaitGroup
		var mu sync.Mutex
		done := 0
		for i := range 4 {
			wg.Go(func() {
				o := turn.Call(context.Background(), []wasmtools.Request{req(string(rune('a'+i)), "throw", "{}")})[0]
				mu.Lock()
				defer mu.Unlock()
				if !o.Result.IsError {
					done++
				}
			})
		}
		wg.Wait()
		l.check(t)
		if n := l.count(evidence.Completed); n != done {
			t.Fatalf("%d calls were carried out, %d records say so", done, n)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseEndsWaits: a call that waits for a person does not outlive the runtime.
func TestCloseEndsWaits(t *testing.T) {
	l := &ledger{}
	asked := make(answers, 1)
	_, rt := openDice(t, l, nil, asked)
	turn := begin(t, rt)
	got := make(chan wasmtools.Outcome, 1)
	go func() { got <- turn.Call(context.Background(), []wasmtools.Request{req("one", "throw", "{}")})[0] }()
	<-asked
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	wantCode(t, <-got, tool.Cancelled)
	l.check(t)
}

// TestUnattendedCallLeavesOthersAlone: where nobody can be asked, a call gives
// its own question up, and not that of an equal call which somebody looks at.
func TestUnattendedCallLeavesOthersAlone(t *testing.T) {
	const args = `{"path":"a.txt","content":"x"}`
	l := &ledger{}
	rt := openWith(t, t.TempDir(), &policy.Policy{Headless: policy.HeadlessDeny}, l)
	turn := begin(t, rt)
	asked := make(answers, 1)
	first := make(chan wasmtools.Outcome, 1)
	go func() {
		r := req("one", "write_file", args)
		r.Approver = asked
		first <- turn.Call(t.Context(), []wasmtools.Request{r})[0]
	}()
	answer := <-asked
	wantCode(t, turn.Call(t.Context(), []wasmtools.Request{req("two", "write_file", args)})[0], tool.ApprovalRequired)
	if err := answer(approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
		t.Errorf("the yes: %v", err)
	}
	wantCode(t, <-first, "")
	l.check(t)
	if n := l.count(evidence.Completed); n != 1 {
		t.Errorf("%d records are completed", n)
	}
}
