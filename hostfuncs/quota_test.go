package hostfuncs

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// sink keeps what a call sends.
type sink struct {
	mu       sync.Mutex
	output   map[string]string
	notes    int
	progress []int64
}

func (s *sink) Progress(done, _ int64, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = append(s.progress, done)
}

func (s *sink) Output(stream string, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.output == nil {
		s.output = map[string]string{}
	}
	s.output[stream] += string(p)
	s.notes++
}

func (s *sink) Artifact(tool.ArtifactInfo, io.Reader) (tool.ArtifactRef, error) {
	return tool.ArtifactRef{}, nil
}

// clocked is a call whose time the test moves.
func clocked(l Limits) (*Call, *sink, *time.Time) {
	s, now := &sink{}, time.Unix(1_000_000, 0)
	return &Call{Sink: s, Limits: l, now: func() time.Time { return now }}, s, &now
}

func TestHostCallQuota(t *testing.T) {
	ctx := context.Background()
	c := &Call{Limits: Limits{HostCalls: 10}}
	for i := range 10 {
		if err := c.Enter(ctx, Work); err != nil {
			t.Fatalf("call %d = %v", i, err)
		}
	}
	if err := c.Enter(ctx, Work); tool.CodeOf(err) != tool.Quota || c.Over() == nil {
		t.Errorf("call 11 = %v; want quota", err)
	}
	if err := c.Enter(ctx, Support); tool.CodeOf(err) != tool.Quota {
		t.Errorf("a supporting call after the quota = %v; want quota", err)
	}
	if got := c.Used().HostCalls; got != 12 {
		t.Errorf("HostCalls = %d, want 12", got)
	}
	c = &Call{Limits: Limits{HostCalls: 10}}
	for i := range 10 * callParts {
		if err := c.Enter(ctx, Support); err != nil {
			t.Fatalf("supporting call %d = %v", i, err)
		}
	}
	if err := c.Enter(ctx, Support); tool.CodeOf(err) != tool.Quota {
		t.Errorf("supporting call %d = %v; want quota", 10*callParts+1, err)
	}
}

func TestEnterHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Call{}
	if err := c.Enter(ctx, Work); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Enter(ctx, Work); tool.CodeOf(err) != tool.Cancelled {
		t.Errorf("Enter after cancel = %v; want cancelled", err)
	}
}

func TestNoteRate(t *testing.T) {
	c, s, now := clocked(Limits{NotesPerSec: 5})
	for i := range 5 {
		if err := c.Progress(int64(i), 9, ""); err != nil {
			t.Fatalf("note %d = %v", i, err)
		}
	}
	*now = now.Add(time.Second / 5)
	if err := c.Log(1, "one more after a fifth of a second"); err != nil {
		t.Errorf("Log = %v", err)
	}
	if err := c.Emit(1, []byte("too fast")); tool.CodeOf(err) != tool.Quota {
		t.Errorf("Emit = %v; want quota", err)
	}
	if len(s.progress) != 5 || s.output[StreamOut] != "" {
		t.Errorf("the sink has %v and %q", s.progress, s.output)
	}
	*now = now.Add(-time.Hour) // a clock that goes back gives nothing away
	if c.token() {
		t.Error("a clock that goes back makes room")
	}
}

func TestNoteBytes(t *testing.T) {
	c, s, _ := clocked(Limits{NoteBytes: 1_000, NotesPerSec: 1_000})
	if err := c.Emit(1, make([]byte, 900)); err != nil {
		t.Fatalf("Emit = %v", err)
	}
	if err := c.Log(0, strings.Repeat("x", 100)); tool.CodeOf(err) != tool.Quota || c.Over() == nil {
		t.Errorf("Log = %v; want quota", err)
	}
	if s.output[StreamLog] != "" {
		t.Errorf("the log has %q", s.output[StreamLog])
	}
	c, _, _ = clocked(Limits{NoteBytes: 1_000, NotesPerSec: 1_000})
	n := 0
	for ; c.Emit(1, nil) == nil; n++ {
	}
	if n > 1_000/noteOverhead {
		t.Errorf("%d empty notes passed", n)
	}
}

func TestStdioIsCollectedIntoLines(t *testing.T) {
	c, s, _ := clocked(Limits{NotesPerSec: 2})
	for _, p := range []string{"pa", "nic: ", "x\n", "goroutine 1\n", "a\n", "b\n", "c"} {
		if err := c.Stdio(2, []byte(p)); err != nil {
			t.Fatalf("Stdio(%q) = %v", p, err)
		}
	}
	if s.notes != 2 {
		t.Errorf("%d notes, want 2: what comes too fast is held back", s.notes)
	}
	c.Flush()
	want := "warning: panic: x\nwarning: goroutine 1\nwarning: a\nb\nc\n"
	if got := s.output[StreamLog]; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
	if c.Over() != nil {
		t.Errorf("Over() = %v; writing lines fast is no offence", c.Over())
	}
	if got := c.Complaint(); got != "panic: x\ngoroutine 1\na\nb\nc" {
		t.Errorf("Complaint() = %q", got)
	}
}

func TestStdioBytes(t *testing.T) {
	c, _, _ := clocked(Limits{})
	var err error
	for n := 0; err == nil; n++ {
		if err = c.Stdio(1, make([]byte, 4096)); n > 100 {
			t.Fatal("400 KiB were taken")
		}
	}
	if tool.CodeOf(err) != tool.Quota {
		t.Errorf("Stdio = %v; want quota", err)
	}
	c.Flush()
}

func TestNoteArguments(t *testing.T) {
	c := &Call{}
	for name, err := range map[string]error{
		"level":    c.Log(4, "x"),
		"stream":   c.Emit(3, nil),
		"progress": c.Progress(-1, 0, ""),
		"stdin":    c.Stdio(0, nil),
		"diff":     func() error { _, err := newCall(space(t), Grant{Read: []string{"**"}}).Diff(-1); return err }(),
	} {
		if tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("%s: %v; want invalid_arguments", name, err)
		}
	}
	if err := c.Log(1, "nobody listens"); err != nil {
		t.Errorf("Log without a sink = %v", err)
	}
	s := &sink{}
	c.Sink = s
	if err := c.Log(1, "bad \xff text\n"); err != nil || s.output[StreamLog] != "info: bad \uFFFD text\n" {
		t.Errorf("Log = %v, the log is %q", err, s.output[StreamLog])
	}
}
