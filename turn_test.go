package wasmtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// hostTool is a tool of an embedding program.
type hostTool struct {
	def  tool.Definition
	call func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error)
}

func (h hostTool) Definition() tool.Definition { return h.def }
func (h hostTool) Origin() tool.Origin         { return tool.Origin{Source: tool.Host, Name: "test"} }
func (h hostTool) Call(ctx context.Context, i tool.Invocation, s tool.Sink) (tool.Result, error) {
	return h.call(ctx, i, s)
}

const anything = `{"type":"object"}`

func host(name string, mode tool.Mode, effects tool.Effects, call func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error)) tool.Tool {
	return hostTool{tool.Definition{Name: name, Description: name, Input: json.RawMessage(anything), Mode: mode, Effects: effects}, call}
}

// open opens a runtime on dir, sharing one compile cache among the tests.
func open(t *testing.T, dir string, approvers []approval.Approver, tools ...tool.Tool) *wasmtools.Runtime {
	t.Helper()
	rt, err := wasmtools.Open(t.Context(), wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir}},
		Sources:    []catalog.Source{catalog.Static("test", tools...)},
		Approvers:  approvers,
		StateDir:   filepath.Join(cacheDir(t), "state"),
		CacheDir:   filepath.Join(cacheDir(t), "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return rt
}

var cache struct {
	once sync.Once
	dir  string
	err  error
}

func cacheDir(t testing.TB) string {
	t.Helper()
	cache.once.Do(func() { cache.dir, cache.err = os.MkdirTemp("", "wasmtools-root-test-") })
	if cache.err != nil {
		t.Fatal(cache.err)
	}
	return cache.dir
}

func TestMain(m *testing.M) {
	stormChild() // does not return in a process of [TestKilledStorm]
	code := m.Run()
	os.RemoveAll(cache.dir)
	os.Exit(code)
}

func begin(t *testing.T, rt *wasmtools.Runtime) *wasmtools.Turn {
	t.Helper()
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func call(t *testing.T, turn *wasmtools.Turn, name, args string) wasmtools.Outcome {
	t.Helper()
	return turn.Call(t.Context(), []wasmtools.Request{{Tool: name, Arguments: json.RawMessage(args)}})[0]
}

func wantCode(t *testing.T, o wasmtools.Outcome, code tool.Code) {
	t.Helper()
	if o.Result.Code != code || o.Result.IsError != (code != "") {
		t.Fatalf("%s answers %q (%s), want %q", o.Tool, o.Result.Code, o.Result.PlainText(), code)
	}
}

func echo(_ context.Context, i tool.Invocation, _ tool.Sink) (tool.Result, error) {
	return tool.TextResult(i.CallID), nil
}

// TestOneResultPerCall: whatever a batch holds, each call gets one result in
// the order of the calls.
func TestOneResultPerCall(t *testing.T) {
	rt := open(t, t.TempDir(), nil,
		host("echo", tool.Parallel, 0, echo),
		host("fails", tool.Parallel, 0, func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("a secret path /etc/x")
		}),
		host("panics", tool.Parallel, 0, func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) { panic("boom") }),
	)
	turn := begin(t, rt)
	batch := []wasmtools.Request{
		{CallID: "a", Tool: "echo"}, {CallID: "b", Tool: "panics"}, {CallID: "c", Tool: "nope"},
		{CallID: "a", Tool: "echo"}, {CallID: "d", Tool: "fails"}, {CallID: "e", Tool: "echo", Arguments: json.RawMessage("[]")},
		{Tool: "echo"}, {CallID: "f", Tool: "echo"},
	}
	want := []tool.Code{"", tool.Internal, tool.NotRegistered, tool.InvalidArguments, tool.Internal, tool.SchemaInvalid, "", ""}
	for _, mode := range []string{"parallel", "serial"} {
		if mode == "serial" {
			batch = append(batch, wasmtools.Request{CallID: "z", Tool: "write_file", Arguments: json.RawMessage(`{"path":"../x","content":""}`)})
			want = append(want, tool.OutsideRoot)
		}
		out := turn.Call(t.Context(), batch)
		if len(out) != len(batch) {
			t.Fatalf("%s: %d results for %d calls", mode, len(out), len(batch))
		}
		for i, o := range out {
			if o.Result.Code != want[i] {
				t.Errorf("%s: call %d (%s) answers %q: %s; want %q", mode, i, batch[i].Tool, o.Result.Code, o.Result.PlainText(), want[i])
			}
			if id := batch[i].CallID; id != "" && o.CallID != id || o.CallID == "" {
				t.Errorf("%s: call %d has the id %q, want %q", mode, i, o.CallID, id)
			}
			if strings.Contains(o.Result.PlainText(), "/etc/x") || strings.Contains(o.Result.PlainText(), "boom") {
				t.Errorf("%s: call %d shows an internal text: %s", mode, i, o.Result.PlainText())
			}
		}
	}
}

// TestBatchModes: parallel tools meet each other; one sequential tool makes
// the whole batch run one by one, in order.
func TestBatchModes(t *testing.T) {
	const n = 4
	var running, most atomic.Int32
	var order []string
	together := make(chan struct{})
	meet := func(ctx context.Context, i tool.Invocation, _ tool.Sink) (tool.Result, error) {
		if running.Add(1) == n {
			close(together)
		}
		defer running.Add(-1)
		select {
		case <-together:
			return tool.Result{}, nil
		case <-ctx.Done():
			return tool.ErrorResult(ctx.Err()), nil
		}
	}
	alone := func(_ context.Context, i tool.Invocation, _ tool.Sink) (tool.Result, error) {
		most.Store(max(most.Load(), running.Add(1)))
		order = append(order, i.CallID) // unguarded: the race detector watches the promise
		running.Add(-1)
		return tool.Result{}, nil
	}
	turn := begin(t, open(t, t.TempDir(), nil, host("meet", tool.Parallel, 0, meet), host("p", tool.Parallel, 0, alone), host("s", "", 0, alone)))

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var batch []wasmtools.Request
	for range n {
		batch = append(batch, wasmtools.Request{Tool: "meet"})
	}
	for _, o := range turn.Call(ctx, batch) {
		wantCode(t, o, "") // they only end if all run at the same time
	}
	turn.Call(ctx, []wasmtools.Request{{CallID: "1", Tool: "p"}, {CallID: "2", Tool: "s"}, {CallID: "3", Tool: "p"}, {CallID: "4", Tool: "p"}})
	if got := strings.Join(order, ""); got != "1234" || most.Load() != 1 {
		t.Errorf("a batch with a sequential tool ran as %s, %d at a time", got, most.Load())
	}
}

func TestCancelledBatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ran atomic.Int32
	turn := begin(t, open(t, t.TempDir(), nil, host("stop", "", 0, func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
		ran.Add(1)
		cancel()
		<-ctx.Done()
		return tool.ErrorResult(ctx.Err()), nil
	})))
	out := turn.Call(ctx, []wasmtools.Request{{Tool: "stop"}, {Tool: "stop"}, {Tool: "grep", Arguments: json.RawMessage(`{"pattern":"x"}`)}})
	for _, o := range out {
		wantCode(t, o, tool.Cancelled)
	}
	if ran.Load() != 1 {
		t.Errorf("%d calls ran, want 1", ran.Load())
	}
}

// TestSerialBatchSeesItself: the second edit of a batch sees the first.
func TestSerialBatchSeesItself(t *testing.T) {
	dir := t.TempDir()
	turn := begin(t, open(t, dir, []approval.Approver{approval.Always(approval.Allow)}))
	out := turn.Call(t.Context(), []wasmtools.Request{
		{Tool: "write_file", Arguments: json.RawMessage(`{"path":"a","content":"one\n"}`)},
		{Tool: "replace_block", Arguments: json.RawMessage(`{"path":"a","old":"one","new":"two"}`)},
		{Tool: "move_path", Arguments: json.RawMessage(`{"from":"a","to":"b"}`)},
		{Tool: "read_open", Arguments: json.RawMessage(`{"path":"b"}`)},
	})
	for _, o := range out {
		wantCode(t, o, "")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(got) != "two\n" {
		t.Errorf("b = %q, %v", got, err)
	}
}

// asker records what it was asked and answers when told to.
type asker struct {
	mu      sync.Mutex
	asked   []approval.Request
	answers []approval.Answer
}

func (a *asker) Offer(r approval.Request, answer approval.Answer) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.answers = append(a.asked, r), append(a.answers, answer)
	return func() {}
}

// TestApprovalShowsWhatHappens: the approver sees the diff before anything is
// on the disk, and a yes commits exactly that.
func TestApprovalShowsWhatHappens(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var asked []approval.Request
	turn := begin(t, open(t, dir, []approval.Approver{approval.Func(func(r approval.Request) approval.Decision {
		asked = append(asked, r)
		if now, _ := os.ReadFile(file); string(now) != "old\n" {
			t.Errorf("the disk holds %q before the yes", now)
		}
		return approval.Decision{Verdict: approval.Allow, By: "ann"}
	})}))
	wantCode(t, call(t, turn, "replace_block", `{"path":"a","old":"old","new":"new"}`), "")
	if len(asked) != 1 || !strings.Contains(asked[0].Preview.Diff, "-old") || !strings.Contains(asked[0].Preview.Diff, "+new") {
		t.Fatalf("asked %+v", asked)
	}
	w := asked[0].Preview.Writes.Entries
	if len(w) != 1 || w[0].Path != "a" || w[0].Before != tool.DigestOf([]byte("old\n")) || w[0].After != tool.DigestOf([]byte("new\n")) {
		t.Errorf("the write set is %+v", w)
	}
	if now, _ := os.ReadFile(file); string(now) != "new\n" {
		t.Errorf("the disk holds %q after the yes", now)
	}
	wantCode(t, call(t, turn, "read_open", `{"path":"a"}`), "")
	wantCode(t, call(t, turn, "replace_block", `{"path":"a","old":"new","new":"x","dry_run":true}`), "")
	wantCode(t, call(t, turn, "replace_block", `{"path":"a","old":"absent","new":"x"}`), tool.NoMatch)
	if len(asked) != 1 {
		t.Errorf("asked %d times; reading, dry runs and failures need no approval", len(asked))
	}
}

// TestApprovedThenFileChanged: between the yes and the commit somebody else
// writes the file. Control: without that, the same yes commits.
func TestApprovedThenFileChanged(t *testing.T) {
	for _, attack := range []bool{false, true} {
		dir := t.TempDir()
		file := filepath.Join(dir, "a")
		if err := os.WriteFile(file, []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		turn := begin(t, open(t, dir, []approval.Approver{approval.Func(func(approval.Request) approval.Decision {
			if attack {
				if err := os.WriteFile(file, []byte("old\nand more\n"), 0o644); err != nil {
					t.Error(err)
				}
			}
			return approval.Decision{Verdict: approval.Allow}
		})}))
		o := call(t, turn, "replace_block", `{"path":"a","old":"old","new":"new"}`)
		now, _ := os.ReadFile(file)
		if attack {
			wantCode(t, o, tool.ApprovalMismatch)
			if string(now) != "old\nand more\n" {
				t.Errorf("the other writer's bytes are lost: %q", now)
			}
		} else {
			wantCode(t, o, "")
			if string(now) != "new\n" {
				t.Errorf("the control did not commit: %q", now)
			}
		}
	}
}

// TestTicket: nobody to ask, so the call answers with a ticket; deciding it and
// repeating the call, or resuming the ticket, completes it, once.
func TestTicket(t *testing.T) {
	dir := t.TempDir()
	rt := open(t, dir, nil)
	turn := begin(t, rt)
	const args = `{"path":"a","content":"x"}`
	o := call(t, turn, "write_file", args)
	wantCode(t, o, tool.ApprovalRequired)
	if o.Ticket == "" || o.Result.Details["ticket"] != o.Ticket {
		t.Fatalf("no ticket: %+v", o)
	}
	if again := call(t, turn, "write_file", args); again.Ticket != o.Ticket {
		t.Errorf("the repeated call got ticket %q, want %q", again.Ticket, o.Ticket)
	}
	if other := call(t, turn, "write_file", `{"path":"b","content":"x"}`); other.Ticket == o.Ticket {
		t.Error("another call joined the ticket")
	}
	if err := rt.Decide(o.Ticket, approval.Decision{Verdict: approval.Allow, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("the file is there before the ticket was redeemed")
	}
	wantCode(t, call(t, turn, "write_file", args), "")
	wantCode(t, turn.Resume(t.Context(), o.Ticket), tool.ApprovalExpired)

	second := call(t, turn, "write_file", `{"path":"c","content":"x"}`)
	if err := rt.Decide(second.Ticket, approval.Decision{Verdict: approval.Allow}); err != nil {
		t.Fatal(err)
	}
	done := turn.Resume(t.Context(), second.Ticket)
	wantCode(t, done, "")
	if _, err := os.Stat(filepath.Join(dir, "c")); err != nil || done.Tool != "write_file" {
		t.Errorf("Resume: %+v, %v", done, err)
	}
	third := call(t, turn, "write_file", `{"path":"d","content":"x"}`)
	if err := rt.Decide(third.Ticket, approval.Decision{Verdict: approval.Deny, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, turn.Resume(t.Context(), third.Ticket), tool.Denied)
	wantCode(t, turn.Resume(t.Context(), "made-up"), tool.ApprovalExpired)
}

// TestWaitingForAPerson ends with the caller's context and leaves the ticket.
func TestWaitingForAPerson(t *testing.T) {
	a := &asker{}
	turn := begin(t, open(t, t.TempDir(), []approval.Approver{a}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan wasmtools.Outcome)
	go func() {
		done <- turn.Call(ctx, []wasmtools.Request{{Tool: "write_file", Arguments: json.RawMessage(`{"path":"a","content":"x"}`)}})[0]
	}()
	for {
		a.mu.Lock()
		n := len(a.answers)
		a.mu.Unlock()
		if n == 1 {
			break
		}
		select {
		case o := <-done:
			t.Fatalf("answered without a decision: %+v", o)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	wantCode(t, <-done, tool.Cancelled)
	if err := a.answers[0](approval.Decision{Verdict: approval.Allow}); err != nil {
		t.Fatalf("the ticket is gone: %v", err)
	}
	wantCode(t, call(t, turn, "write_file", `{"path":"a","content":"x"}`), "")
	if len(a.asked) != 1 {
		t.Errorf("asked %d times, want once", len(a.asked))
	}
}

// TestNoAnswer: five minutes of silence are a no.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := approval.NewDesk([]approval.Approver{&asker{}}, 0)
		tk, err := d.Submit(approval.Request{Tool: "x"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := tk.Wait(t.Context()); tool.CodeOf(err) != tool.ApprovalExpired || time.Since(began) != 5*time.Minute {
			t.Errorf("Wait = %v after %s", err, time.Since(began))
		}
	})
}

// TestParallelEditsAllHold: many batches edit one file at the same time under
// a standing yes. Every edit that says it was made is there.
func TestParallelEditsAllHold(t *testing.T) {
	const n = 12
	dir := t.TempDir()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "line %02d\n", i)
	}
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	turn := begin(t, open(t, dir, []approval.Approver{approval.Always(approval.Allow)}))
	out := make([]wasmtools.Outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			out[i] = turn.Call(context.Background(), []wasmtools.Request{{
				Tool: "replace_block", Arguments: json.RawMessage(fmt.Sprintf(`{"path":"a","old":"line %02d","new":"edit %02d"}`, i, i)),
			}})[0]
		})
	}
	wg.Wait()
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for i, o := range out {
		there := strings.Contains(string(now), fmt.Sprintf("edit %02d", i))
		if there != !o.Result.IsError {
			t.Errorf("edit %d answers %q (%s), and it is in the file: %v", i, o.Result.Code, o.Result.PlainText(), there)
		}
		if there {
			made++
		}
	}
	if made != n {
		t.Errorf("%d of %d edits were made", made, n)
	}
}

func TestAliases(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	turn := begin(t, open(t, dir, nil))
	o := call(t, turn, "read", `{"path":"a"}`)
	wantCode(t, o, "")
	if o.Tool != "read_open" {
		t.Errorf("the outcome names %q, want the real tool", o.Tool)
	}
	for _, d := range turn.Tools() {
		if d.Name == "read" || d.Name == "edit" {
			t.Errorf("the alias %s is listed", d.Name)
		}
	}
	o = call(t, turn, "read", `{"wat":1}`)
	wantCode(t, o, tool.SchemaInvalid)
	if !strings.Contains(o.Result.PlainText(), `"selection"`) {
		t.Errorf("no schema of the target in %s", o.Result.PlainText())
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx := t.Context()
	if _, err := wasmtools.Open(ctx, wasmtools.Options{}); err == nil {
		t.Error("Open without a workspace works")
	}
	if _, err := wasmtools.Open(ctx, wasmtools.Options{Workspaces: []wasmtools.Workspace{{Dir: filepath.Join(t.TempDir(), "none")}}}); err == nil {
		t.Error("Open on a folder that does not exist works")
	}
	ours := t.TempDir()
	below := filepath.Join(ours, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, o := range []wasmtools.Options{{StateDir: ours}, {CacheDir: ours}, {Private: []string{ours}}, {StateDir: below}} {
		o.Workspaces = []wasmtools.Workspace{{Dir: below}}
		if rt, err := wasmtools.Open(ctx, o); err == nil {
			rt.Close()
			t.Errorf("a workspace in a folder of ours is taken with %+v", o)
		}
	}
	if rt, err := wasmtools.Open(ctx, wasmtools.Options{Workspaces: []wasmtools.Workspace{{Dir: ours}}, StateDir: below}); err != nil {
		t.Errorf("control: a workspace around such a folder: %v", err)
	} else {
		rt.Close()
	}
	two := []wasmtools.Workspace{{Dir: t.TempDir()}, {Dir: t.TempDir()}}
	if _, err := wasmtools.Open(ctx, wasmtools.Options{Workspaces: two}); err == nil {
		t.Error("two workspaces of one name are taken")
	}
	dup := catalog.Static("mine", host("grep", "", 0, echo))
	_, err := wasmtools.Open(ctx, wasmtools.Options{Workspaces: two[:1], Sources: []catalog.Source{dup}})
	if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "builtin") {
		t.Errorf("a second tool named grep: %v; want an error that names both sources", err)
	}
}
