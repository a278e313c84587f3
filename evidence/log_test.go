package evidence

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

func testLog(t testing.TB, change ...func(*Options)) *Log {
	t.Helper()
	o := Options{Dir: filepath.Join(t.TempDir(), "evidence", "w"), Workspace: "/the/workspace", Program: "test"}
	for _, f := range change {
		f(&o)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func begin(t testing.TB, l *Log, in Intent) Handle {
	t.Helper()
	h, err := l.Begin(in)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return h
}

func end(t testing.TB, l *Log, h Handle, o Outcome) {
	t.Helper()
	if err := l.End(h, o); err != nil {
		t.Fatalf("End(%s): %v", h, err)
	}
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func verified(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Verify(dir, VerifyOptions{})
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	if !r.OK {
		t.Fatalf("Verify finds faults:\n%s", r.Summary())
	}
	return r
}

func readCall(args string) Intent {
	return Intent{
		Call: "c1", Turn: "t1", Session: "s1", Tool: "read_open", Source: tool.Builtin, Effects: tool.Reads,
		Arguments: json.RawMessage(args), Input: tool.DigestOf([]byte(args)),
	}
}

func TestOneCall(t *testing.T) {
	l := testLog(t)
	if _, err := os.Stat(l.o.Dir); err == nil {
		t.Error("Open touched the disk")
	}
	h := begin(t, l, Intent{
		Call: "c1", Turn: "t1", Session: "s1", Tool: "write_file", Source: tool.Builtin, Effects: tool.Writes,
		Module: tool.DigestOf([]byte("m")), Arguments: json.RawMessage(`{"path":"a<b.txt","content":"hi"}`), Input: tool.DigestOf([]byte("i")),
	})
	for _, e := range []Event{
		{Kind: ApprovalRequired, Approval: &Approval{Verdict: "ask", Ticket: "tk", Rule: Rule{"edits", "/c/wasmtools.toml", 12}}, Writes: []Write{{Op: tool.OpWrite, Path: "a<b.txt"}}},
		{Kind: Decided, Approval: &Approval{Verdict: "allow", By: "me", Channel: "terminal", Ticket: "tk"}},
		{Kind: Started},
	} {
		if err := l.Event(h, e); err != nil {
			t.Fatal(err)
		}
	}
	end(t, l, h, Outcome{
		Status: Completed, Approval: Approval{Verdict: "allow", By: "me", Channel: "terminal", Ticket: "tk"},
		Writes: []Write{{Op: tool.OpWrite, Path: "a<b.txt", After: tool.DigestOf([]byte("hi")), Size: 2}},
		Used:   Used{HostCalls: 3, Paths: []string{"a<b.txt"}, Fuel: 99, MemoryPeak: 1 << 20},
		Output: tool.DigestOf([]byte("out")), OutputBytes: 3,
	})
	if err := l.End(h, Outcome{Status: Failed}); err == nil {
		t.Error("a call ended twice")
	}
	closeLog(t, l)
	r := verified(t, l.o.Dir)
	if r.Calls != 1 || r.Interrupted != 0 || r.Records != 8 || r.Signed != r.Last-1 || len(r.Notes) != 0 {
		t.Errorf("report = %+v", r)
	}

	reader, err := OpenReader(l.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{string(h), "c1"} {
		calls, err := reader.Find(id)
		if err != nil || len(calls) != 1 {
			t.Fatalf("Find(%s) = %v, %v", id, calls, err)
		}
		c := calls[0]
		if c.Status != Completed || c.Intent.Tool != "write_file" || len(c.Events) != 3 || c.Outcome.Used.Fuel != 99 ||
			string(c.Intent.Arguments) != `{"content":"hi","path":"a<b.txt"}` || c.Intent.Input != tool.DigestOf([]byte("i")) ||
			!c.Acted() || c.Redacted || c.Events[0].Approval.Rule.Line != 12 || c.Outcome.Writes[0].After != tool.DigestOf([]byte("hi")) {
			t.Errorf("Find(%s) = %+v", id, c)
		}
	}
	if _, err := reader.Find("c2"); err == nil {
		t.Error("Find(c2) finds something")
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, "head": 0o600, "00000001.jsonl": 0o600, "../key": 0o600, "..": os.ModeDir | 0o700} {
		if fi, err := os.Lstat(filepath.Join(l.o.Dir, name)); err != nil || fi.Mode() != mode {
			t.Errorf("mode of %q = %v, %v; want %v", name, fi.Mode(), err, mode)
		}
	}
}

// TestJSONLines: a record is lines of JSON, whatever was given.
func TestJSONLines(t *testing.T) {
	l := testLog(t)
	odd := "line\nend \u2028 \x00 \xff \xc3( \U0001F600 </script>"
	h := begin(t, l, Intent{Call: odd, Tool: odd, Session: odd, Arguments: json.RawMessage(`{"a":`), From: odd, Source: tool.Source(odd), Module: "x\ny"})
	if err := l.Event(h, Event{Kind: EventKind(odd), Note: odd, Stream: odd, Text: []byte(odd)}); err != nil {
		t.Fatal(err)
	}
	end(t, l, h, Outcome{Status: Failed, Code: tool.Code(odd), Message: odd, Writes: []Write{{Path: odd, Op: tool.WriteOp(odd)}}, Used: Used{ByFunction: map[string]int64{odd: 1}}})
	closeLog(t, l)
	verified(t, l.o.Dir)
	p, err := os.ReadFile(filepath.Join(l.o.Dir, "00000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")
	if len(lines) != 6 {
		t.Errorf("%d lines, want 6", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
	r, _ := OpenReader(l.o.Dir)
	c, err := r.Call(h)
	if err != nil || !strings.Contains(c.Intent.Tool, `\xff`) {
		t.Errorf("Call = %+v, %v; want the bad bytes shown", c, err)
	}
}

func TestManyProcessesOneChain(t *testing.T) {
	l := testLog(t)
	other, err := Open(l.o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for j, log := range []*Log{l, other} {
			in := readCall(`{}`)
			in.Call = fmt.Sprint(i, j)
			end(t, log, begin(t, log, in), Outcome{Status: Completed})
		}
	}
	h := begin(t, l, readCall(`{}`))
	if r := verified(t, l.o.Dir); r.Running != 1 || r.Calls != 101 {
		t.Errorf("while open: %+v", r)
	}
	closeLog(t, l)
	if r := verified(t, l.o.Dir); r.Running != 0 || r.Interrupted != 1 {
		t.Errorf("after Close: %+v", r)
	}
	closeLog(t, other)
	r, _ := OpenReader(l.o.Dir)
	if c, err := r.Call(h); err != nil || c.Status != Interrupted || c.Acted() {
		t.Errorf("Call = %+v, %v", c, err)
	}
}

var (
	since0 time.Time
	h2026  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// TestDurable: an intent that destroys or executes is on the disk when the Started
// event returns; everything else within FlushWithin, and not before somebody needs it.
func TestDurable(t *testing.T) {
	l := testLog(t)
	durable := func() uint64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.w.head.durable.seq
	}
	begin(t, l, readCall(`{}`))
	for _, e := range []tool.Effects{tool.Destroys, tool.Executes, tool.Writes | tool.Destroys} {
		h := begin(t, l, Intent{Call: "c", Tool: "t", Effects: e})
		if err := l.Event(h, Event{Kind: Started}); err != nil {
			t.Fatal(err)
		}
		if seq, _ := parseHandle(h); durable() < seq {
			t.Errorf("effects %s: %s of record %d was taken, and %d is on the disk", e, Started, seq, durable())
		}
	}
	for _, e := range []tool.Effects{tool.Reads, tool.Writes, tool.UsesNetwork} {
		h := begin(t, l, Intent{Call: "c", Tool: "t", Effects: e})
		written := time.Now()
		seq, _ := parseHandle(h)
		for durable() < seq {
			if time.Since(written) > 30*time.Second {
				t.Fatalf("effects %s: record %d is not on the disk after %s", e, seq, time.Since(written))
			}
			time.Sleep(time.Millisecond) // the flush has its own clock
		}
	}
	h := begin(t, l, readCall(`{}`))
	end(t, l, h, Outcome{Status: Completed})
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if seq, _ := parseHandle(h); durable() <= seq {
		t.Errorf("Flush returned, and %d is on the disk", durable())
	}
}

// TestStoppedProcess: another process was stopped while it held the lock. A
// call does not hang with it.
func TestStoppedProcess(t *testing.T) {
	l := testLog(t)
	begin(t, l, readCall(`{}`))
	f, err := os.OpenFile(filepath.Join(l.o.Dir, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := lockFile(f, false); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.w.wait = 20 * time.Millisecond
	l.mu.Unlock()
	if _, err := l.Begin(readCall(`{}`)); err == nil || !strings.Contains(err.Error(), "held the lock") {
		t.Errorf("Begin = %v", err)
	}
	unlockFile(f)
	l.mu.Lock()
	l.w.wait = lockWait
	l.mu.Unlock()
	begin(t, l, readCall(`{}`))
}
