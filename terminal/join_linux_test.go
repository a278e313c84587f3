package terminal_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// TestJoin: a person sees what is and was on the terminal, types, and leaves; the
// session then counts as changed, and what they run makes it busy.
func TestJoin(t *testing.T) {
	var mu sync.Mutex
	var events []terminal.Event
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true, Events: func(e terminal.Event) {
		mu.Lock()
		events = append(events, e)
		mu.Unlock()
	}})
	id := session(t, m, terminal.OpenRequest{})
	run(t, m, id, "echo before")
	var screen strings.Builder
	more := make(chan bool, 1)
	j, err := m.Join(id, func(p []byte) {
		mu.Lock()
		screen.Write(p)
		mu.Unlock()
		select {
		case more <- true:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sees := func(text string) {
		t.Helper()
		for deadline := time.After(patience); ; {
			mu.Lock()
			s := screen.String()
			mu.Unlock()
			if strings.Contains(s, text) {
				return
			}
			select {
			case <-more:
			case <-deadline:
				t.Fatalf("the person sees %q, not %q", s, text)
			}
		}
	}
	sees("before\r\n")
	if err := j.Type([]byte("read x; echo got $x\r")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r, err := m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "input"), Timeout: patience}, terminal.Feedback{}); err != nil || r.State != terminal.WaitingForInput {
		t.Fatalf("got %+v, %v", r, err)
	}
	if r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo no"}, terminal.Feedback{}); err != nil || r.State != terminal.Busy {
		t.Errorf("got %+v, %v; want busy", r, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "mine\n"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	sees("got mine\r\n")
	j.Leave()
	mu.Lock()
	length := screen.Len()
	mu.Unlock()
	if r := run(t, m, id, "echo after"); r.Output != "after\n" {
		t.Errorf("got %+v", r)
	}
	if _, err := m.Close(ctx, id, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	<-j.Done()
	mu.Lock()
	defer mu.Unlock()
	if screen.Len() != length {
		t.Error("who left still sees")
	}
	var story []string
	for _, e := range events {
		story = append(story, string(e.Kind)+" "+e.Command+e.Who)
	}
	want := "spawned bash; began echo before; ended echo before; typed person; typed model; ended (typed by the person); began echo after; ended echo after; gone "
	if got := strings.Join(story, "; "); got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if _, err := m.Join(id, func([]byte) {}); err == nil {
		t.Error("one can join what has ended")
	}
}

// TestQueries: a program that asks its terminal gets answers, and they do not stay
// behind for the shell.
func TestQueries(t *testing.T) {
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	run(t, m, id, "cat >ask <<'EOF'\nstty raw -echo; printf \"$1\"; IFS= read -r -t 5 -d \"$2\" x; stty sane; printf %s \"$x\" | cat -v\nEOF")
	for ask, want := range map[string]string{
		`'\033[6n' R`: `^[[40;1`, `'\033[c' c`: `^[[?62;22`, `'\033[>c' c`: `^[[>1;10;0`, `'\033[5n' n`: `^[[0`,
		`'\033]11;?\007' '\'`: `^[]11;rgb:0000/0000/0000^[`, `'\033[>q' '\'`: `^[P>|wasmtools^[`, `'\033[?2026$p' y`: `^[[?2026;0$`, `'\033[18t' t`: `^[[8;40;120`,
	} {
		if r := run(t, m, id, "bash ask "+ask); r.Output != want {
			t.Errorf("asked %s: %q, want %q", ask, r.Output, want)
		}
	}
	run(t, m, id, `printf '\033[c\033[6n'; sleep 0.1`)
	if r := run(t, m, id, "echo clean"); r.Output != "clean\n" {
		t.Errorf("afterwards %q", r.Output)
	}
}

// TestQuestionFlood: questions without end, whose answers nobody reads, cost
// neither time nor goroutines.
func TestQuestionFlood(t *testing.T) {
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	before := goruntime.NumGoroutine()
	most := 0
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: `yes $'\e[6n\e[c\e]11;?\a' | head -c 5000000`, Yield: patience}, terminal.Feedback{Output: func(string, []byte) { most = max(most, goruntime.NumGoroutine()) }})
	if err != nil || r.State != terminal.Finished {
		t.Fatalf("got %+v, %v", r, err)
	}
	if most > before+10 {
		t.Errorf("%d goroutines, %d before", most, before)
	}
	if r := run(t, m, id, "echo clean"); r.Output != "clean\n" {
		t.Errorf("afterwards %q", r.Output)
	}
}

// TestShutdownMeanwhile: calls that are under way when everything is ended return,
// and nothing starts afterwards.
func TestShutdownMeanwhile(t *testing.T) {
	m, err := terminal.Open(terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	began := make(chan bool, 100)
	for range 4 {
		wg.Go(func() {
			for {
				_, err := m.Exec(ctx, terminal.ExecRequest{Command: "true"}, terminal.Feedback{})
				if err != nil {
					if tool.CodeOf(err) != tool.NotAvailable {
						t.Errorf("exec: %v", err)
					}
					return
				}
			}
		})
		wg.Go(func() {
			o, err := m.Open(ctx, terminal.OpenRequest{}, terminal.Feedback{})
			if err != nil {
				t.Errorf("open: %v", err)
				began <- true
				return
			}
			r, err := m.Run(ctx, terminal.RunRequest{Session: o.Session, Command: "echo; sleep 1000", Yield: terminal.MaxYield}, terminal.Feedback{Output: func(string, []byte) { began <- true }})
			if err != nil || r.State != terminal.SessionEnded {
				t.Errorf("run: %+v, %v", r, err)
			}
		})
	}
	for range 4 {
		<-began
	}
	if err := m.Shutdown(); err != nil {
		t.Errorf("Shutdown() = %v", err)
	}
	wg.Wait()
}
