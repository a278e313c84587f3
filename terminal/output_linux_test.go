package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// numbers is what seq prints.
func numbers(n int) string {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// readAll pages through an output from its beginning.
func readAll(t *testing.T, m *terminal.Manager, id string) (text string, lost int64) {
	t.Helper()
	var b strings.Builder
	for at := int64(0); ; {
		r, err := m.Read(context.Background(), terminal.ReadRequest{ID: id, Cursor: &at, Limit: terminal.MaxOutput})
		if err != nil {
			t.Fatalf("Read(%d) = %v", at, err)
		}
		b.WriteString(r.Output)
		lost += r.OmittedBytes
		if r.Cursor == at {
			return b.String(), lost
		}
		at = r.Cursor
	}
}

// TestOutputIsWhole: nothing of an output is lost that the spool takes, also
// after the end; a result shows its beginning and end, and an artifact has all.
func TestOutputIsWhole(t *testing.T) {
	t.Parallel()
	m := plain(t)
	want := numbers(200_000)
	for _, tty := range []bool{false, true} {
		a := &archive{}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var passed bytes.Buffer
		r, err := m.Exec(ctx, terminal.ExecRequest{Command: "seq 1 200000", TTY: tty, Yield: patience}, terminal.Feedback{Store: a, Output: func(_ string, p []byte) { passed.Write(p) }})
		if err != nil || r.State != terminal.Finished {
			t.Fatalf("tty %t: %+v, %v", tty, r, err)
		}
		if got, lost := readAll(t, m, r.Process); got != want || lost != 0 {
			t.Errorf("tty %t: the spool has %d bytes and lost %d; want %d", tty, len(got), lost, len(want))
		}
		if len(a.texts) != 1 || a.texts[0] != want || r.Artifact != "artifact1" {
			t.Errorf("tty %t: artifacts %d, %q", tty, len(a.texts), r.Artifact)
		}
		head, tail, ok := strings.Cut(r.Output, fmt.Sprintf("[%d bytes left out]\n", r.OmittedBytes))
		if !ok || !strings.HasPrefix(want, head) || !strings.HasSuffix(want, tail) || int64(len(head)+len(tail))+r.OmittedBytes != int64(len(want)) {
			t.Fatalf("tty %t: shown %q", tty, r.Output)
		}
		if !strings.HasSuffix(head, "\n") || len(head) < 9000 || len(head) > 9900 || len(tail) < 14000 || len(tail) > 14800 {
			t.Errorf("tty %t: head of %d and tail of %d bytes", tty, len(head), len(tail))
		}
		if !strings.HasPrefix(passed.String(), "1\n2\n") || !strings.HasSuffix(passed.String(), "199999\n200000\n") {
			t.Errorf("tty %t: what was passed on while it ran has %d bytes", tty, passed.Len())
		}
	}
}

// TestCursors: a cursor is good for ever, in the end too, and one beyond is a fault.
func TestCursors(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx := context.Background()
	a := run(t, m, id, "echo one")
	b := run(t, m, id, "printf two")
	c := run(t, m, id, "echo three")
	for _, s := range []struct {
		from int64
		want string
	}{{0, "one\ntwo\nthree\n"}, {a.Cursor, "two\nthree\n"}, {b.Cursor, "\nthree\n"}, {c.Cursor, ""}} {
		r, err := m.Read(ctx, terminal.ReadRequest{ID: id, Cursor: &s.from})
		if err != nil || r.Output != s.want || r.Cursor != c.Cursor {
			t.Errorf("Read(%d) = %q, cursor %d, %v; want %q", s.from, r.Output, r.Cursor, err, s.want)
		}
	}
	if _, err := m.Close(ctx, id, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	if r, err := m.Read(ctx, terminal.ReadRequest{ID: id, Cursor: &a.Cursor}); err != nil || r.Output != "two\nthree\n" || r.State != terminal.SessionEnded {
		t.Errorf("after the end: %+v, %v", r, err)
	}
	for _, at := range []int64{-1, 1 << 40} {
		if _, err := m.Read(ctx, terminal.ReadRequest{ID: id, Cursor: &at}); tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("Read(%d) = %v", at, err)
		}
	}
}

func TestBinary(t *testing.T) {
	root := realDir(t)
	m := open(t, terminal.Options{Root: root, State: realDir(t), Profile: "none", AllowUnsandboxed: true})
	a := &archive{}
	r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "head -c 100000 /dev/urandom"}, terminal.Feedback{Store: a})
	if err != nil || !r.Binary || len(r.Output) > 100 || r.Artifact == "" {
		t.Errorf("got %+v, %v", r, err)
	}
	// What is binary is archived as it came, a little of it and much.
	for _, n := range []int{300, 1_000_000} {
		b := make([]byte, n)
		rand.NewChaCha8([32]byte{1}).Read(b)
		if err := os.WriteFile(root+"/bytes", b, 0o600); err != nil {
			t.Fatal(err)
		}
		a := &archive{}
		r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "cat bytes"}, terminal.Feedback{Store: a})
		if err != nil || !r.Binary || r.OmittedBytes != int64(n) || len(a.texts) != 1 || a.texts[0] != string(b) {
			t.Errorf("%d bytes: %+v, %v, %d archived", n, r, err, len(a.texts))
		}
	}
	id := session(t, m, terminal.OpenRequest{})
	if r := run(t, m, id, "cat bytes"); !r.Binary || len(r.Output) > 100 {
		t.Errorf("in a session: %.200q", r.Output)
	}
	if r := run(t, m, id, "echo text"); r.Binary || r.Output != "text\n" {
		t.Errorf("after it: %.200q", r.Output)
	}
	if r := execute(t, m, terminal.ExecRequest{Command: "for i in $(seq 100); do printf 'äöü ☃ 漢字 '; done"}); r.Binary {
		t.Errorf("text counts as binary: %q", r.Output)
	}
}

// TestStreams: standard error stands among the rest, or apart.
func TestStreams(t *testing.T) {
	t.Parallel()
	root := realDir(t)
	m := open(t, terminal.Options{Root: root, State: realDir(t), Profile: "none", AllowUnsandboxed: true})
	// Each line waits for the one before to have arrived.
	wait := func(file string) string { return "until [ -e " + file + " ]; do sleep 0.01; done; rm " + file + "; " }
	command := "echo out; " + wait("first") + "echo err >&2; " + wait("second") + "echo more"
	passed := map[string]string{}
	execute := func(t *testing.T, m *terminal.Manager, r terminal.ExecRequest) terminal.Result {
		t.Helper()
		clear(passed)
		all := ""
		r.Yield = patience
		res, err := m.Exec(context.Background(), r, terminal.Feedback{Output: func(stream string, p []byte) {
			passed[stream] += string(p)
			all += string(p)
			for text, file := range map[string]string{"out\n": "first", "err\n": "second"} {
				if strings.HasSuffix(all, text) {
					if err := os.WriteFile(root+"/"+file, nil, 0o600); err != nil {
						t.Error(err)
					}
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if r := execute(t, m, terminal.ExecRequest{Command: command}); r.Output != "out\nerr\nmore\n" || r.StderrBytes != 4 || r.Stderr != "" {
		t.Errorf("together: %+v", r)
	}
	if r := execute(t, m, terminal.ExecRequest{Command: command, Split: true}); r.Output != "out\nmore\n" || r.StderrBytes != 4 || r.Stderr != "err\n" || passed["stdout"] != "out\nmore\n" || passed["stderr"] != "err\n" {
		t.Errorf("apart: %+v, passed on %q", r, passed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Exec(ctx, terminal.ExecRequest{Command: "printf 'one? '; printf 'two? ' >&2; sleep 1000", Yield: terminal.MinYield}, terminal.Feedback{})
	for err == nil && r.Output != "one? two? " {
		r, err = m.Wait(ctx, terminal.WaitRequest{ID: r.Process, Until: until(t, "exit"), Timeout: 100 * time.Millisecond}, terminal.Feedback{})
	}
	if err != nil || r.State != terminal.Running || r.Output != "one? two? " || r.Cursor != 0 {
		t.Errorf("unfinished lines: %+v, %v", r, err)
	}
	if _, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "true", Split: true, TTY: true}, terminal.Feedback{}); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("apart on a terminal: %v", err)
	}
}

// TestUntil: each way to wait, what it answers, and what when it does not come.
func TestUntil(t *testing.T) {
	t.Parallel()
	m := plain(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		command, until, reason, output string
		matched                        bool
	}{
		{"printf 'server li'; sleep 0.2; printf 'stening on 80'; sleep 1000", `regex:listening on (\d+)`, "regex", "server listening on 80", true},
		{"printf 'a\\nready'; sleep 1000", "regex:^ready$", "regex", "a\nready", true},
		{"printf 'not ready'; sleep 0.2; echo", "regex:^ready$", "finished", "not ready\n", false},
		{"seq 1 100000; echo needle; sleep 1000", "regex:nee?dle", "regex", "", true},
		{"echo x; sleep 1000", "idle:1000", "idle", "x\n", true},
		{"sleep 1000", fmt.Sprintf("port:%d", port), "port", "", true},
		{"sleep 1000", "port:1", "time", "", false},
		{"echo x; sleep 1000", "finished", "time", "x\n", false},
		{"echo x", "finished", "finished", "x\n", true},
		{"echo x; exit 3", "exit", "finished", "x\n", true},
		{"cat", "input", "input", "", true},
	} {
		t.Run(c.until+" "+c.reason, func(t *testing.T) {
			t.Parallel()
			yield := patience
			if c.reason == "time" {
				yield = 2 * time.Second
			}
			r := execute(t, m, terminal.ExecRequest{Command: c.command, TTY: true, Until: until(t, c.until), Yield: yield})
			if r.Reason != c.reason || r.Matched == nil || *r.Matched != c.matched {
				t.Errorf("got %+v; want %s, matched %t", r, c.reason, c.matched)
			}
			if c.output != "" && r.Output != c.output {
				t.Errorf("output %q, want %q", r.Output, c.output)
			}
			if _, err := m.Close(context.Background(), r.Process, terminal.Feedback{}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, s := range []string{"", "never", "exit:1", "regex:", "regex:(", "idle:x", "idle:0", "port:0", "port:70000", "regex:" + strings.Repeat("x", 5000)} {
		if _, err := terminal.ParseUntil(s); tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("ParseUntil(%.20q) = %v", s, err)
		}
	}
}

// TestIdleAfterSilence: a session that was silent for long has not answered yet.
func TestIdleAfterSilence(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 2 {
		if r, err := m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "idle:150"), Timeout: patience}, terminal.Feedback{}); err != nil || r.Reason != "idle" {
			t.Fatalf("got %+v, %v", r, err)
		}
		r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo begun; cat", Until: until(t, "idle:700"), Yield: patience}, terminal.Feedback{})
		if err != nil || r.Reason != "idle" || r.Output != "begun\n" {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-c"}}, terminal.Feedback{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNobodyWaitsForOthers: a session that hangs, and a call that waits for it,
// do not hold up another one.
func TestNobodyWaitsForOthers(t *testing.T) {
	m := plain(t)
	a, b := session(t, m, terminal.OpenRequest{}), session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithCancel(context.Background())
	began, ended := make(chan bool, 1), make(chan error)
	go func() {
		r, err := m.Run(ctx, terminal.RunRequest{Session: a, Command: "echo; stty -icanon; kill -STOP $$ & wait; sleep 1000", Yield: patience}, terminal.Feedback{Output: func(string, []byte) {
			select {
			case began <- true:
			default:
			}
		}})
		if err == nil && r.State != terminal.Stopped {
			err = fmt.Errorf("it is %s", r.State)
		}
		ended <- err
	}()
	<-began
	begin := time.Now()
	if r := run(t, m, b, "echo b"); r.Output != "b\n" {
		t.Errorf("got %+v", r)
	}
	if r := execute(t, m, terminal.ExecRequest{Command: "echo c"}); r.Output != "c\n" {
		t.Errorf("got %+v", r)
	}
	if l, err := m.List(context.Background()); err != nil || len(l.List) != 3 {
		t.Errorf("List() = %+v, %v", l, err)
	}
	if took := time.Since(begin); took > patience/3 {
		t.Errorf("it took %s", took)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) { // that it is stopped may have been seen before
		t.Error(err)
	}
}

// TestManyAtOnce: calls on one session from all sides leave each with its own
// output, or busy.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 20 {
				word := fmt.Sprintf("word-%d-%d", i, k)
				r, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: "echo " + word, Yield: patience}, terminal.Feedback{})
				if err != nil || r.State != terminal.Busy && r.Output != word+"\n" {
					t.Errorf("%s: %+v, %v", word, r, err)
				}
			}
		})
	}
	wg.Wait()
	if r := run(t, m, id, "echo end"); r.Output != "end\n" {
		t.Errorf("in the end %+v", r)
	}
}

// TestEnvironment: programs see what is allowed and what is fixed; the server's
// keys are in nobody's environment.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true, PassEnv: []string{"CARGO_HOME"},
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=/root", "AWS_SECRET_ACCESS_KEY=key1", "MY_TOKEN=key2", "LC_ALL=C.UTF-8", "CARGO_HOME=/c", "BASH_ENV=/evil", "BASH_FUNC_ls%%=() { evil; }", "LD_PRELOAD=/evil.so", "PAGER=less", "EDITOR=vim"}})
	id := session(t, m, terminal.OpenRequest{Env: map[string]string{"MINE": "a b'c\"\n$x"}})
	for _, out := range []string{
		execute(t, m, terminal.ExecRequest{Command: "env -0 | tr '\\0\\n' '\\n_'", Env: map[string]string{"MINE": "a b'c\"\n$x"}}).Output,
		run(t, m, id, "env -0 | tr '\\0\\n' '\\n_'").Output,
	} {
		for _, no := range []string{"key1", "key2", "evil", "less", "vim", "133;", "__wt_"} {
			if strings.Contains(out, no) {
				t.Errorf("%q is in\n%s", no, out)
			}
		}
		for _, yes := range []string{"PAGER=cat\n", "GIT_EDITOR=:\n", "LC_ALL=C.UTF-8\n", "CARGO_HOME=/c\n", "MINE=a b'c\"_$x\n", "GIT_TERMINAL_PROMPT=0\n", "WASMTOOLS_SESSION="} {
			if !strings.Contains(out, yes) {
				t.Errorf("%q is not in\n%s", yes, out)
			}
		}
	}
	big := map[string]string{}
	for i := range 100 {
		big[fmt.Sprintf("VAR%d", i)] = strings.Repeat("x", 1000)
	}
	if r := run(t, m, session(t, m, terminal.OpenRequest{Env: big}), "echo ${#VAR0} ${#VAR99}"); r.Output != "1000 1000\n" {
		t.Errorf("a large environment: %+v", r)
	}
	for _, env := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A": "x\x00"}, {"1A": "x"}, {"WASMTOOLS_SESSION": "x"}, {"A": strings.Repeat("x", 1<<20)}} {
		_, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "true", Env: env}, terminal.Feedback{})
		if c := tool.CodeOf(err); c != tool.InvalidArguments && c != tool.TooLarge {
			t.Errorf("env %.30v: %v", env, err)
		}
	}
}

// TestQuota: there are so many sessions and no more, and none is ended for a new
// one.
func TestQuota(t *testing.T) {
	t.Parallel()
	m := plain(t)
	ctx := context.Background()
	var first string
	for i := range terminal.MaxSessions {
		id := session(t, m, terminal.OpenRequest{})
		if i == 0 {
			first = id
		}
	}
	if _, err := m.Open(ctx, terminal.OpenRequest{}, terminal.Feedback{}); tool.CodeOf(err) != tool.Quota {
		t.Errorf("one more: %v", err)
	}
	if r := execute(t, m, terminal.ExecRequest{Command: "echo x"}); r.Output != "x\n" {
		t.Errorf("a process beside them: %+v", r)
	}
	if r, err := m.Close(ctx, first, terminal.Feedback{}); err != nil || r.State != terminal.SessionEnded {
		t.Errorf("Close() = %+v, %v", r, err)
	}
	session(t, m, terminal.OpenRequest{})
	for id, code := range map[string]tool.Code{"s-aaaaaaaaaaaa": tool.Lost, "nonsense": tool.NotFound, "": tool.NotFound} {
		if _, err := m.Read(ctx, terminal.ReadRequest{ID: id}); tool.CodeOf(err) != code {
			t.Errorf("Read(%q) = %v; want %s", id, err, code)
		}
	}
}

// TestCommandIsChecked: what cannot be a command is refused before anything starts.
func TestCommandIsChecked(t *testing.T) {
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	for command, code := range map[string]tool.Code{"": tool.InvalidArguments, " \n": tool.InvalidArguments, "a\x00b": tool.InvalidArguments, `{"command":"ls"}`: tool.InvalidArguments, strings.Repeat("x", terminal.MaxCommand+1): tool.TooLarge} {
		if _, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: command}, terminal.Feedback{}); tool.CodeOf(err) != code {
			t.Errorf("Run(%.20q) = %v", command, err)
		}
		if _, err := m.Exec(context.Background(), terminal.ExecRequest{Command: command}, terminal.Feedback{}); tool.CodeOf(err) != code {
			t.Errorf("Exec(%.20q) = %v", command, err)
		}
	}
	long := "true " + strings.Repeat("x", terminal.MaxCommand-100) + "; echo end"
	if r := run(t, m, id, long); r.Output != "end\n" {
		t.Errorf("a long command: %.200q", r.Output)
	}
}
