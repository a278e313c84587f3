package terminal_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// shells are those that tell their marks, as far as they are installed.
func shells(t *testing.T) (l []string) {
	t.Helper()
	for _, s := range []string{"bash", "dash", "sh", "zsh"} {
		if _, err := exec.LookPath(s); err == nil {
			l = append(l, s)
			continue
		}
		if strings.Contains(","+os.Getenv("WASMTOOLS_REQUIRE")+",", ",shells,") {
			t.Errorf("%s is not installed, and WASMTOOLS_REQUIRE names shells", s)
		}
		t.Logf("without %s: it is not installed", s)
	}
	return l
}

// TestShells: what a command does to the shell stays, and nothing that it does
// hides its end.
func TestShells(t *testing.T) {
	t.Parallel()
	for _, sh := range shells(t) {
		t.Run(sh, func(t *testing.T) {
			t.Parallel()
			m := plain(t)
			id := session(t, m, terminal.OpenRequest{Shell: sh})
			step := func(command, output string, code int) {
				t.Helper()
				r := run(t, m, id, command)
				if r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != code {
					t.Errorf("%q: %+v, want exit code %d", command, r, code)
				}
				if r.Output != output {
					t.Errorf("%q printed %q, want %q", command, r.Output, output)
				}
			}
			step("echo one; echo two >&2", "one\ntwo\n", 0)
			step("mkdir -p d && cd d && pwd | sed 's,.*/,,'", "d\n", 0)
			step("x=kept; export Y=$x; (exit 7)", "", 7)
			step("echo $? $x", "7 kept\n", 0)
			step(`sh -c 'echo $Y; exit 9'`, "kept\n", 9)
			step("cat <<'EOF'\n\ttab `no` $no \"'\nEOF", "\ttab `no` $no \"'\n", 0)
			step("f() { echo in f; return 4; }; f", "in f\n", 4)
			step("f # with a comment", "in f\n", 4)
			step("set -u; echo ok", "ok\n", 0)
			step("set +u; PS1='> '; PS2=; echo ok", "ok\n", 0)
			step("printf unfinished", "unfinished", 0)
			step("echo next", "next\n", 0)
			step("exec 3>&1 >/dev/null; echo swallowed; exec >&3 3>&-; echo shown", "shown\n", 0)
			step("exec >out 2>&1", "", 0) // of dash the prompts, too
			step("echo in a file", "", 0)
			step("exec >/dev/tty 2>&1; grep file out; rm out", "in a file\n", 0)
			step("cd ..; rmdir d; mkdir gone; cd gone; rmdir ../gone; cd /", "", 0)
			step("IFS=x; unset IFS; echo ok", "ok\n", 0)
			r := run(t, m, id, "echo 'unclosed")
			if r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode == 0 {
				t.Errorf("an open quote: %+v", r)
			}
			step("echo alive", "alive\n", 0)
			if r := run(t, m, id, "unset -f __wt"); r.State != terminal.Finished {
				t.Errorf("got %+v", r)
			}
			if r := run(t, m, id, "echo no"); r.State != terminal.Failed || strings.Contains(r.Output, "no\nno") {
				t.Errorf("without its preparation: %+v", r)
			}
			id = session(t, m, terminal.OpenRequest{Shell: sh})
			if r := run(t, m, id, "set -e; false"); r.State != terminal.SessionEnded || r.ExitCode == nil || *r.ExitCode != 1 {
				t.Errorf("set -e: %+v", r)
			}
		})
	}
}

// TestInterrupt: ctrl-C ends the whole text, and the shell goes on.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	m := plain(t)
	for _, sh := range shells(t) {
		t.Run(sh, func(t *testing.T) {
			t.Parallel()
			id := session(t, m, terminal.OpenRequest{Shell: sh})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for _, how := range []string{"key", "signal", "timeout"} {
				req := terminal.RunRequest{Session: id, Command: "echo begun; sleep 1000; echo NOT-REACHED", Until: until(t, "regex:^begun$"), Yield: patience}
				if how == "timeout" {
					req.Timeout, req.Until = 300*time.Millisecond, nil
				}
				r, err := m.Run(ctx, req, terminal.Feedback{})
				if err != nil {
					t.Fatal(err)
				}
				for r.Foreground != "sleep" && how != "timeout" { // in between a shell may not know whom it is for
					if r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "idle:60"), Timeout: time.Second}, terminal.Feedback{}); err != nil {
						t.Fatal(err)
					}
				}
				switch how {
				case "key":
					_, err = m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-c"}}, terminal.Feedback{})
				case "signal":
					_, err = m.Signal(ctx, terminal.SignalRequest{ID: id, Signal: "INT"}, terminal.Feedback{})
				}
				if err != nil {
					t.Fatal(err)
				}
				if how != "timeout" {
					r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
				}
				want := terminal.Finished
				if how == "timeout" {
					want = terminal.KilledByTimeout
				}
				if err != nil || r.State != want || strings.Contains(r.Output, "NOT") {
					t.Fatalf("%s: %+v, %v; want %s", how, r, err, want)
				}
				if want == terminal.Finished && (r.ExitCode == nil || *r.ExitCode != 130) {
					t.Errorf("%s: exit code %v, want 130", how, r.ExitCode)
				}
				if r := run(t, m, id, "echo alive"); r.Output != "alive\n" {
					t.Fatalf("%s: afterwards %+v", how, r)
				}
			}
		})
	}
}

// TestTimeout: the time of a process and of a command ends all of it, whatever it
// ignores, and nothing else.
func TestTimeout(t *testing.T) {
	t.Parallel()
	m := plain(t)
	deaf, kept := newMarker(), newMarker()
	stubborn := strings.ReplaceAll(`trap '' HUP TERM INT; (setsid sh -c 'trap "" HUP TERM; sleep DEAF' &) ; sleep DEAF; sleep DEAF`, "DEAF", deaf)
	const limit = time.Second // by then the traps are set
	begin := time.Now()
	r := execute(t, m, terminal.ExecRequest{Command: stubborn, Timeout: limit})
	if r.State != terminal.KilledByTimeout || r.ExitCode != nil || len(r.Killed) == 0 {
		t.Errorf("got %+v; want it killed", r)
	}
	if took := time.Since(begin); took > limit+3*time.Second {
		t.Errorf("it took %s", took)
	}
	if left := sleepers(deaf); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	id := session(t, m, terminal.OpenRequest{})
	run(t, m, id, "sleep "+kept+" & disown; x=kept")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin = time.Now()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "bash -c '" + strings.ReplaceAll(stubborn, "'", `'\''`) + "'", Timeout: limit, Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.KilledByTimeout || len(r.Killed) == 0 {
		t.Errorf("in a session: %+v, %v", r, err)
	}
	if took := time.Since(begin); took > limit+3*time.Second {
		t.Errorf("in a session it took %s", took)
	}
	if left := sleepers(deaf); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if len(sleepers(kept)) != 1 {
		t.Error("what ran before the command was ended, too")
	}
	r, err = m.Run(ctx, terminal.RunRequest{Session: id, Command: "while :; do :; done", Timeout: limit, Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.KilledByTimeout {
		t.Errorf("a loop in the shell itself: %+v, %v", r, err)
	}
	if r := run(t, m, id, "echo $x"); r.Output != "kept\n" {
		t.Errorf("the shell afterwards: %+v", r)
	}
	// A shell that ignores everything is ended itself.
	r, err = m.Run(ctx, terminal.RunRequest{Session: id, Command: "trap '' INT; while :; do :; done", Timeout: limit, Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.KilledByTimeout {
		t.Errorf("a shell that ignores INT: %+v, %v", r, err)
	}
	if r := run(t, m, id, "echo"); r.State != terminal.KilledByTimeout && r.State != terminal.SessionEnded {
		t.Errorf("afterwards: %+v", r)
	}
}

func sleepers(time string) (l []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, d := range dirs {
		if b, err := os.ReadFile(d); err == nil && string(b) == "sleep\x00"+time+"\x00" {
			l = append(l, d)
		}
	}
	return l
}

// TestCancelled: a call that is withdrawn takes its process along, and of a
// session its command.
func TestCancelled(t *testing.T) {
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	long := newMarker()
	ctx, cancel := context.WithCancel(context.Background())
	began := make(chan bool, 2)
	fb := terminal.Feedback{Output: func(string, []byte) { began <- true }}
	go func() { <-began; <-began; cancel() }()
	errs := make(chan error)
	go func() {
		_, err := m.Exec(ctx, terminal.ExecRequest{Command: "echo begun; exec sleep " + long}, fb)
		errs <- err
	}()
	_, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo begun; sleep " + long + "; echo NO"}, fb)
	if err := errors.Join(err, <-errs); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for end := time.Now().Add(patience); len(sleepers(long)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it still runs")
		}
	}
	if _, err := m.Wait(context.Background(), terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, m, id, "echo alive"); r.Output != "alive\n" {
		t.Errorf("the session afterwards: %+v", r)
	}
}

// TestStartup: the user's start-up file counts, its prompt and its editor do not.
func TestStartup(t *testing.T) {
	home := realDir(t)
	rc := "MINE=kept; alias ll='echo alias'; export EDITOR=vim PAGER=less; PS1='user> '; PROMPT_COMMAND='echo noise'; echo greeting; trap 'echo bye' EXIT\n"
	if err := os.WriteFile(home+"/.bashrc", []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	m := open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true, Startup: true, Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}})
	id := session(t, m, terminal.OpenRequest{Env: map[string]string{"VISUAL": "ed"}})
	for command, want := range map[string]string{
		"echo $MINE": "kept\n", "ll x": "alias x\n", "echo $EDITOR $PAGER $VISUAL $GIT_EDITOR": ": cat ed :\n", "echo $WASMTOOLS_SESSION": id + "\n",
		"PS1='(venv) '$PS1; PROMPT_COMMAND='echo noise'": "", "echo after": "after\n", "alias eval='echo hijacked' printf='echo hijacked'": "",
	} {
		if r := run(t, m, id, command); r.Output != want {
			t.Errorf("%q printed %q, want %q", command, r.Output, want)
		}
		if r := run(t, m, id, "true"); r.Output != "" {
			t.Errorf("after %q: %q", command, r.Output)
		}
	}
	slow := realDir(t)
	if err := os.WriteFile(slow+"/.bashrc", []byte("exec sleep 1000"), 0o600); err != nil {
		t.Fatal(err)
	}
	m = open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: "none", AllowUnsandboxed: true, Startup: true, Environ: []string{"HOME=" + slow, "PATH=" + os.Getenv("PATH")}})
	terminal.HurryShells(t)
	if _, err := m.Open(context.Background(), terminal.OpenRequest{}, terminal.Feedback{}); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("a shell that never comes: %v", err)
	}
}

// TestOtherShell: a program without marks is a session of which the kernel tells
// how it stands.
func TestOtherShell(t *testing.T) {
	t.Parallel()
	m := plain(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Open(ctx, terminal.OpenRequest{Shell: "cat"}, terminal.Feedback{})
	if err != nil || r.Hint == "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := m.Run(ctx, terminal.RunRequest{Session: r.Session, Command: "echo"}, terminal.Feedback{}); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("Run = %v", err)
	}
	s, err := m.Send(ctx, terminal.SendRequest{ID: r.Session, Text: "hello\n"}, terminal.Feedback{})
	if err != nil || s.Output != "hello\nhello\n" {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: r.Session, Text: strings.Repeat("x", 5000) + "\n"}, terminal.Feedback{}); tool.CodeOf(err) != tool.TooLarge {
		t.Errorf("a line that the kernel would cut: %v", err)
	}
	for shell, code := range map[string]tool.Code{"no-such-shell": tool.NotAvailable, "/no/such/shell": tool.NotFound, "../x": tool.InvalidArguments, "/etc/passwd": tool.NotFound} {
		if _, err := m.Open(ctx, terminal.OpenRequest{Shell: shell}, terminal.Feedback{}); tool.CodeOf(err) != code {
			t.Errorf("shell %s: %v; want %s", shell, err, code)
		}
	}
	if _, err := m.Open(ctx, terminal.OpenRequest{Cwd: "missing"}, terminal.Feedback{}); tool.CodeOf(err) != tool.NotFound {
		t.Errorf("missing cwd: %v", err)
	}
}

// TestNestedShell: in a shell without marks inside of one with them the kernel
// tells how it stands, and leaving it ends the command.
func TestNestedShell(t *testing.T) {
	t.Parallel()
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "bash --norc --noprofile", Until: until(t, "input"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.WaitingForInput {
		t.Fatalf("got %+v, %v", r, err)
	}
	r, err = m.Send(ctx, terminal.SendRequest{ID: id, Text: "echo in$((1))ner; exit 6\n"}, terminal.Feedback{})
	if err != nil || !strings.Contains(r.Output, "in1ner") || r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != 6 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestKeysAtThePrompt: keys that run nothing leave the session ready.
func TestKeysAtThePrompt(t *testing.T) {
	t.Parallel()
	m := plain(t)
	for _, sh := range shells(t) {
		id := session(t, m, terminal.OpenRequest{Shell: sh})
		for _, keys := range [][]string{{"C-c"}, {"Enter"}, {"C-c", "C-c"}, {"Enter", "Enter", "Enter"}, {"Up", "C-c"}, {"Tab"}, {"C-z"}, {"Escape", "C-c"}} {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: keys}, terminal.Feedback{}); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: 2 * time.Second}, terminal.Feedback{}); err != nil {
				t.Fatal(err)
			}
			cancel()
			if r := run(t, m, id, "echo alive"); r.Output != "alive\n" {
				t.Errorf("%s after %q: %+v", sh, keys, r)
			}
		}
		// A line that is not complete keeps the shell reading, until ctrl-C.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if r, err := m.Send(ctx, terminal.SendRequest{ID: id, Text: "echo 'open\n"}, terminal.Feedback{}); err != nil || r.State == terminal.Finished {
			t.Errorf("%s with an open quote: %+v, %v", sh, r, err)
		}
		if r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "echo no"}, terminal.Feedback{}); err != nil || r.State != terminal.Busy {
			t.Errorf("%s with an open quote: %+v, %v; want busy", sh, r, err)
		}
		if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-c"}}, terminal.Feedback{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: 2 * time.Second}, terminal.Feedback{}); err != nil {
			t.Fatal(err)
		}
		if r := run(t, m, id, "echo alive"); r.Output != "alive\n" {
			t.Errorf("%s after an open quote: %+v", sh, r)
		}
	}
}
