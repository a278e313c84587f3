package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// TestStates: what a program waits for is seen in the kernel, whatever it prints.
func TestStates(t *testing.T) {
	t.Parallel()
	m := plain(t)
	for _, c := range []struct {
		name, command string
		want          terminal.State
		front         string
		guess         bool
	}{
		{"read", "read x", terminal.WaitingForInput, "bash", false},
		{"read silently", "read -s x", terminal.WaitingForSecret, "bash", false},
		{"cat", "cat", terminal.WaitingForInput, "cat", false},
		{"hidden behind a pipe", `bash -c 'read -p "go? " x </dev/tty; echo $x' 2>&1 | tail -1`, terminal.WaitingForInput, "bash", false},
		{"getpass", `python3 -c 'import getpass; getpass.getpass("key: ")'`, terminal.WaitingForSecret, "python3", false},
		{"interpreter", "python3 -q", terminal.WaitingForInput, "python3", true},
		{"editor", "vim -u NONE", terminal.WaitingForInput, "vim", true},
		{"pager", "seq 1 1000 | less", terminal.WaitingForInput, "less", false},
		{"script of another shell", "sh -c 'read x'", terminal.WaitingForInput, "sh", false},
		{"shows nothing and does something", `stty -echo; sleep 1000`, terminal.Running, "sleep", false},
		{"looks like a prompt", `printf 'Password: '; sleep 1000`, terminal.Running, "sleep", false},
		{"reads a pipe", "mkfifo p; cat p; sleep 1000", terminal.Running, "", false},
		{"stopped", "sh -c 'kill -STOP $$'; sleep 1000", terminal.Running, "sleep", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []string{"python3", "vim", "less"} {
				if strings.Contains(c.command, p) {
					need(t, p)
				}
			}
			id := session(t, m, terminal.OpenRequest{})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: c.command, Yield: terminal.MinYield}, terminal.Feedback{})
			for err == nil && r.State != c.want {
				r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "input"), Timeout: 200 * time.Millisecond}, terminal.Feedback{})
			}
			if err != nil {
				t.Fatalf("got %+v, %v; want state %s", r, err, c.want)
			}
			if c.want == terminal.Running { // it must not turn into something else
				r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "input"), Timeout: 700 * time.Millisecond}, terminal.Feedback{})
				if err != nil || r.State != c.want {
					t.Fatalf("later: got %s, %v", r.State, err)
				}
			}
			if c.front != "" && r.Foreground != c.front && !strings.HasPrefix(r.Foreground, c.front) {
				t.Errorf("foreground %q, want %q", r.Foreground, c.front)
			}
			if (r.Hint != "") != (c.guess || c.want == terminal.WaitingForSecret) {
				t.Errorf("hint %q", r.Hint)
			}
			if _, err := m.Close(ctx, id, terminal.Feedback{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnswerIsWhole: a program that thinks about its input for a while, or waits for a
// processor, is waited for; how long is up to the caller.
func TestAnswerIsWhole(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := "echo; while read n; do for ((i = 0; i < n; i++)); do :; done; echo counted $n; done"
	if r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: command, Until: until(t, "input"), Yield: patience}, terminal.Feedback{}); err != nil || r.State != terminal.WaitingForInput {
		t.Fatalf("got %+v, %v", r, err)
	}
	for n := 50_000; n < 400_000; n += 150_000 {
		r, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: fmt.Sprintln(n), Yield: patience}, terminal.Feedback{})
		if want := fmt.Sprintf("counted %d\n", n); err != nil || !strings.HasSuffix(r.Output, want) || r.State != terminal.WaitingForInput && r.State != terminal.Running {
			t.Errorf("got %+v, %v; want %q", r, err, want)
		}
	}
}

// TestStopped: a job that ctrl-Z would stop is not running.
func TestStopped(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{Shell: "cat"}) // no shell takes the terminal back
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := m.Signal(ctx, terminal.SignalRequest{ID: id, Signal: "STOP"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	x, err := m.Exec(ctx, terminal.ExecRequest{Command: "kill -STOP $$; echo on", TTY: true, Yield: patience}, terminal.Feedback{})
	if err != nil || x.State != terminal.Stopped {
		t.Fatalf("got %+v, %v; want it stopped", x, err)
	}
	if _, err := m.Signal(ctx, terminal.SignalRequest{ID: x.Process, Signal: "SIGCONT"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	x, err = m.Wait(ctx, terminal.WaitRequest{ID: x.Process, Until: until(t, "exit")}, terminal.Feedback{})
	if err != nil || x.State != terminal.Finished || x.Output != "on\n" {
		t.Errorf("got %+v, %v", x, err)
	}
}

// TestSecrets: a secret is typed by reference, and is in no output whatever the
// program does with it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "corRect-h0rse"
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true,
		Secret: func(_ context.Context, ref string) ([]byte, error) {
			if ref != "sudo" {
				return nil, tool.Errorf(tool.NotFound, "there is no secret of this name")
			}
			return []byte(secret), nil
		}})
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: `read -s -p 'password: ' x; echo; echo "got $x, ${#x} long"; for ((i=0; i<${#x}; i++)); do printf %s "${x:$i:1}"; sleep 0.01; done; echo`, Until: until(t, "input"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.WaitingForSecret || r.Output != "password: " {
		t.Fatalf("got %+v, %v", r, err)
	}
	_, err = m.Send(ctx, terminal.SendRequest{ID: id, Text: secret + "\n"}, terminal.Feedback{})
	if !errors.Is(err, &tool.Error{Code: tool.Denied}) {
		t.Errorf("a secret as text: %v; want it refused", err)
	}
	if _, err = m.Send(ctx, terminal.SendRequest{ID: id, SecretRef: "other"}, terminal.Feedback{}); !errors.Is(err, &tool.Error{Code: tool.NotFound}) {
		t.Errorf("an unknown secret: %v", err)
	}
	if _, err = m.Send(ctx, terminal.SendRequest{ID: id, SecretRef: "sudo"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.Output != "password: \ngot [secret], 13 long\n[secret]\n" {
		t.Errorf("got %q, %v", r.Output, err)
	}
	shot, err := m.Screen(ctx, id)
	if err != nil || strings.Contains(strings.Join(shot.Screen, "\n"), secret) || !strings.Contains(strings.Join(shot.Screen, "\n"), "got [secret]") {
		t.Errorf("screen %q, %v", shot.Screen, err)
	}
}

// TestInterpreter: a block of several lines is typed into an interpreter, and its
// answers come back.
func TestInterpreter(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "python3 -q", Until: until(t, "regex:>>> $"), Yield: patience}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "for i in range(3):\n    print('row', i * 7)\n\n"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, `regex:row 14\n>>> `), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.Reason != "regex" || !strings.Contains(r.Output, "row 0\nrow 7\nrow 14\n") {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo typed into python"}, terminal.Feedback{}); err != nil || r.State != terminal.Busy {
		t.Errorf("a command meanwhile: %+v, %v; want busy", r, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-d"}}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("at the end: %+v, %v", r, err)
	}
}

// TestTypedAtThePrompt: what is sent to an idle shell is a command of which the
// prompt tells the end; meanwhile the session is busy.
func TestTypedAtThePrompt(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "cat; (exit 3)\n"}, terminal.Feedback{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo NO"}, terminal.Feedback{}); err != nil || r.State != terminal.Busy {
		t.Fatalf("got %+v, %v; want busy", r, err)
	}
	if r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "input"), Timeout: patience}, terminal.Feedback{}); err != nil || r.State != terminal.WaitingForInput {
		t.Fatalf("got %+v, %v; want it to read", r, err)
	}
	if _, err = m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-d"}}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Fatalf("got %+v, %v", r, err)
	}
	// What stands in the line is not a part of the next command.
	if _, err = m.Send(ctx, terminal.SendRequest{ID: id, Text: "echo LEFT; "}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, m, id, "echo mine"); r.Output != "mine\n" {
		t.Errorf("got %q", r.Output)
	}
}

func TestFullScreen(t *testing.T) {
	t.Parallel()
	need(t, "vim")
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{Cols: 80, Rows: 24})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run(t, m, id, "seq 1 100 > numbers; echo before")
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "vim -u NONE numbers", Until: until(t, "input"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.Reason != "input" {
		t.Fatalf("got %+v, %v", r, err)
	}
	shot, err := m.Screen(ctx, id)
	if err != nil || len(shot.Screen) < 20 || shot.Screen[0] != "1" || shot.Screen[22] != "23" || !shot.Alternate || shot.Cols != 80 {
		t.Fatalf("screen %q, %+v, %v", shot.Screen, shot, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"PageDown", "Down"}}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	for shot.Screen[0] == "1" { // until it has drawn itself anew
		if shot, err = m.Screen(ctx, id); err != nil || ctx.Err() != nil {
			t.Fatalf("after a page: %q, %v", shot.Screen, err)
		}
	}
	if _, err := m.Resize(ctx, id, 100, 40); err != nil {
		t.Fatal(err)
	}
	for len(shot.Screen) < 39 { // until it has drawn itself anew
		if shot, err = m.Screen(ctx, id); err != nil || shot.Rows != 40 || ctx.Err() != nil {
			t.Fatalf("after the resize: %d rows, %q, %v", shot.Rows, shot.Screen, err)
		}
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: ":q!\r"}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.Finished {
		t.Fatalf("got %+v, %v", r, err)
	}
	if shot, err = m.Screen(ctx, id); err != nil || shot.Alternate || strings.Contains(strings.Join(shot.Screen, ""), "__wt") || !strings.Contains(strings.Join(shot.Screen, "\n"), "seq 1 100 > numbers; echo before\nbefore") || !strings.Contains(strings.Join(shot.Screen, "\n"), "before") {
		t.Errorf("after vim: %q, %v", shot.Screen, err)
	}
}
