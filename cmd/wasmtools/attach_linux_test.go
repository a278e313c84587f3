//go:build amd64 || arm64

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

// onTerminal does something with the descriptor of a terminal.
func onTerminal(t *testing.T, f *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = do(int(fd)) }), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// modesOf are the modes of a terminal.
func modesOf(t *testing.T, f *os.File) (modes unix.Termios) {
	t.Helper()
	onTerminal(t, f, func(fd int) error {
		m, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			modes = *m
		}
		return err
	})
	return modes
}

// attend lets a person take part in a session.
func (d *desk) attend(flags ...string) *ptytest.Terminal {
	d.Helper()
	tm := ptytest.Start(d.T, command(d.T, d.home, d.ws, append([]string{"attach"}, flags...)...))
	tm.Expect("ctrl-] leaves")
	return tm
}

// shell opens a session.
func (d *desk) shell() string {
	d.Helper()
	a := d.free("open")
	if a.Session == "" {
		d.Fatalf("open answers %+v", a)
	}
	return a.Session
}

// TestAttachLeavesTheTerminal: however it ends, the person's terminal is as it
// was, also if a program has drawn a screen on it, hidden its cursor and
// coloured it. Control: while it is attached the terminal is raw.
func TestAttachLeavesTheTerminal(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	fresh, slave := ptytest.Open(t)
	defer fresh.Close()
	defer slave.Close()
	want := modesOf(t, fresh)
	for _, c := range []struct {
		name string
		end  func(d *desk, session string, at *ptytest.Terminal, cmd *exec.Cmd)
		code int
		says string
	}{
		{"detach key", func(_ *desk, _ string, at *ptytest.Terminal, _ *exec.Cmd) { at.Send("\x1d") }, 0, "you have left"},
		{"session closed", func(d *desk, s string, _ *ptytest.Terminal, _ *exec.Cmd) { d.free("close", "session", s) }, 0, "the session has ended"},
		{"shell left", func(_ *desk, _ string, at *ptytest.Terminal, _ *exec.Cmd) { at.Send("q\rexit\r") }, 0, "the session has ended"},
		{"server killed", func(d *desk, _ string, _ *ptytest.Terminal, _ *exec.Cmd) { _ = d.cmd.Process.Kill() }, exitFailure, "the runtime has ended"},
		{"SIGTERM", func(_ *desk, _ string, _ *ptytest.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }, exitInterrupted, ""},
		{"SIGINT", func(_ *desk, _ string, _ *ptytest.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGINT) }, exitInterrupted, ""},
		{"SIGHUP", func(_ *desk, _ string, _ *ptytest.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGHUP) }, exitInterrupted, ""},
		{"SIGQUIT", func(_ *desk, _ string, _ *ptytest.Terminal, cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGQUIT) }, exitInterrupted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sit(t, home, ws, "--approve", "all")
			session := d.shell()
			d.free("run", "session", session, "command", `printf '\033[?1049h\033[?25l\033[31mdrawn'; read -n1 x`, "until", "input")
			cmd := command(t, home, ws, "attach", session)
			at := ptytest.Start(t, cmd)
			at.Expect("ctrl-] leaves\r\n")
			at.Expect("drawn")
			if modesOf(t, at.Master()) == want {
				t.Error("the control: the terminal is not raw")
			}
			c.end(d, session, at, cmd)
			if code := at.Wait(); code != c.code {
				t.Errorf("it exits with %d, want %d", code, c.code)
			}
			if got := modesOf(t, at.Master()); got != want {
				t.Errorf("the terminal is left with %+v, want %+v", got, want)
			}
			out := at.Rest()
			_, after, _ := strings.Cut(out, "drawn")
			for _, undo := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[0m", c.says} {
				if !strings.Contains(after, undo) {
					t.Errorf("after the end it prints %q, without %q", after, undo)
				}
			}
		})
	}
}

// TestAttachList: without a session a person is shown those that can be joined,
// and what to do where there are none. What has no terminal, or has ended, is not
// among them.
func TestAttachList(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	list := func() string {
		t.Helper()
		at := ptytest.Start(t, command(t, home, ws, "attach"))
		code := at.Wait()
		if code != 0 {
			t.Errorf("attach exits with %d", code)
		}
		return at.Rest()
	}
	if out := list(); !strings.Contains(out, "no session can be joined: ask for one") {
		t.Errorf("where nothing runs it prints %q", out)
	}
	d := sit(t, home, ws, "--approve", "all")
	first, second := d.shell(), d.shell()
	d.free("run", "session", second, "command", "sleep 1000", "yield_ms", 50)
	third := d.free("exec", "command", "sleep 2000", "tty", true, "yield_ms", 50).Process
	pipes := d.free("exec", "command", "sleep 3000", "yield_ms", 50).Process
	real, err := filepath.EvalSymlinks(ws)
	if err != nil || third == "" || pipes == "" {
		t.Fatalf("%q, %q, %v", third, pipes, err)
	}
	row := func(id, program string) string {
		return regexp.QuoteMeta(id) + ` +20\d\d-\S+Z +workspace-write +` + program + ` +` + regexp.QuoteMeta(real) + `\r?\n`
	}
	out := list()
	if !regexp.MustCompile("^"+row(first, "bash")+row(second, "sleep")+row(third, `(sleep|bash)`)+"$").MatchString(out) || strings.Contains(out, pipes) {
		t.Errorf("it lists %q", out)
	}
	d.free("close", "session", first)
	if out := list(); strings.Contains(out, first) || !strings.Contains(out, second) {
		t.Errorf("after an end it lists %q", out)
	}
}

// TestGuarded: a fault of ours ends the visit and not the program.
func TestGuarded(t *testing.T) {
	if err := guarded(func() error { panic("fault") }); err == nil || !strings.Contains(err.Error(), "fault") {
		t.Errorf("got %v", err)
	}
}

// TestAttachTames: what a program sends to the person's terminal draws there and
// does nothing else, and nothing that the terminal would answer arrives. Control:
// the same bytes from the same program arrive at a terminal of the test's own.
func TestAttachTames(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	const hostile = `\033]52;c;cm0gLXJmIC8=\007\033]0;a title\007\033]2;a title\033\\\033]8;;https://evil.example\033\\link\033]8;;\033\\\033[21t\033[6n\033[c\033[>c\033P$qm\033\\\033P+q544e\033\\\033]11;?\007\033[?1003h\033[3J\033[5i\005\033[?996n\033_Gi=1;AAAA\033\\`
	if err := os.WriteFile(filepath.Join(ws, "hostile.sh"), []byte("printf 'before-"+hostile+"-after'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("sh", "hostile.sh")
	sh.Dir = ws
	own := ptytest.Start(t, sh)
	if own.Wait(); !strings.Contains(own.Rest(), "\x1b]52;c;cm0gLXJmIC8=\a\x1b]0;a title\a") {
		t.Fatalf("the control prints %q", own.Output())
	}
	d := sit(t, home, ws, "--approve", "all")
	session := d.shell()
	// What was there before it came is shown as well as what comes.
	run := func() {
		t.Helper()
		// The session's own terminal answers what it is asked, which is echoed.
		if a := d.free("run", "session", session, "command", "sh hostile.sh"); a.exit() != 0 || !strings.HasPrefix(a.Output, "before-link-after") {
			t.Errorf("it answers %+v", a)
		}
	}
	run()
	at := d.attend(session)
	shown := at.Expect("before-link-after")
	run()
	shown += at.Expect("before-link-after")
	at.Send("\x1d")
	if code := at.Wait(); code != 0 {
		t.Errorf("attach exits with %d", code)
	}
	for _, evil := range []string{"\x1b]", "\x1bP", "\x1b_", "\x05", "title", "evil", "[21t", "[6n", "[c", "[3J", "1003", "\x1b[5i"} {
		if strings.Contains(shown, evil) {
			t.Errorf("the person's terminal gets %q, with %q", shown, evil)
		}
	}
	// Nothing was typed: no terminal was asked anything.
	if out, code := outcome(t, command(t, home, ws, "evidence", "export")); code != 0 || strings.Contains(out, "terminal typed") {
		t.Errorf("the record (exit %d) tells that something was typed", code)
	}
}

// TestAttachFlood: while a program floods, a person sees it and stops it, and one
// who reads nothing holds up neither the session nor the server.
func TestAttachFlood(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	buildTool(t, "daytool", ws)
	d := sit(t, home, ws, "--approve", "all")
	session := d.shell()
	stalledOut, w, err := os.Pipe() // nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer stalledOut.Close()
	cmd := command(t, home, ws, "attach", session)
	cmd.Stdout = w
	stalled := ptytest.Start(t, cmd)
	w.Close()
	stalled.Expect("ctrl-] leaves")
	reader, looker := d.attend(session), d.attend("--read-only", session)
	a := d.free("run", "session", session, "command", "./daytool flood; echo not reached", "until", "regex:flooding", "yield_ms", 60000)
	if a.State != "running" {
		t.Fatalf("the flood answers %+v", a)
	}
	for range 10 {
		reader.Expect("flooding\r\nflooding\r\n")
		looker.Expect("flooding\r\nflooding\r\n")
	}
	looker.Send("\x03") // who only looks stops nothing
	d.wants(d.free("exec", "command", "echo meanwhile"), "finished", 0, "meanwhile\n")
	if p := d.free("wait", "session", session, "until", "finished", "timeout_ms", 200); p.State != "running" {
		t.Errorf("who only looks has stopped it: %+v", p)
	}
	reader.Send("\x03")
	if p := d.free("wait", "session", session, "until", "finished", "timeout_ms", 60000); p.State != "finished" || p.exit() != 130 {
		t.Errorf("stopped, it answers %s, exit code %d", p.State, p.exit())
	}
	d.free("run", "session", session, "command", "echo calm-$((1+1))-again")
	reader.Expect("calm-2-again")
	looker.Expect("calm-2-again")
	for _, tm := range []*ptytest.Terminal{reader, looker, stalled} {
		tm.Send("\x1d")
		if code := tm.Wait(); code != 0 && (tm != stalled || code != exitFailure) { // it may have been sent away
			t.Errorf("attach exits with %d: %s", code, tm.Output()[max(0, len(tm.Output())-500):])
		}
	}
	// Typed by the person, with how much; what it was stands nowhere.
	out, code := outcome(t, command(t, home, ws, "evidence", "export"))
	if code != 0 || !strings.Contains(out, "terminal typed, "+session) || !strings.Contains(out, "by the person, 1 bytes") || strings.Contains(out, `\u0003`) {
		t.Errorf("the record (exit %d) does not tell of what was typed", code)
	}
}

// TestAttachSizes: the session takes the size of the person's terminal, at once
// and whenever it changes, also in a storm; who only looks changes nothing.
func TestAttachSizes(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	d := sit(t, home, ws, "--approve", "all")
	session := d.shell()
	size := func(want string) {
		t.Helper()
		var got shellAnswer
		if !within(patience, func() bool {
			got = d.free("run", "session", session, "command", "stty size")
			return got.Output == want+"\n"
		}) {
			t.Errorf("the session has %q, want %q", got.Output, want)
		}
	}
	resize := func(tm *ptytest.Terminal, rows, cols int) {
		t.Helper()
		onTerminal(t, tm.Master(), func(fd int) error {
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
		})
	}
	size("40 120")
	look := d.attend("--read-only", session)
	resize(look, 11, 22)
	look.Send("\x1d")
	look.Wait()
	size("40 120")
	at := d.attend(session)
	size("40 100") // that of a new terminal of the test
	resize(at, 30, 90)
	size("30 90")
	for i := range 2000 {
		resize(at, 20+i%30, 60+i%80)
	}
	resize(at, 33, 77)
	size("33 77")
	at.Send("echo $((3*5))-typed\r")
	at.Expect("15-typed")
	resize(at, 0, 0) // no size at all
	at.Send("echo $((3*6))-typed\r")
	at.Expect("18-typed")
	at.Send("\x1d")
	if code := at.Wait(); code != 0 {
		t.Errorf("attach exits with %d", code)
	}
}

// TestAttachTyping: what a person types is counted, whole, where the program
// shows it and where it does not; and a program that does not read sends nobody
// away.
func TestAttachTyping(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	d := sit(t, home, ws, "--approve", "all")
	session := d.shell()
	d.free("run", "session", session, "command", "stty -echo; read -r x; stty echo; echo got ${#x}; sleep 1000", "until", "input", "yield_ms", 60000)
	at := d.attend(session)
	at.Send("unseen-password\r")
	at.Expect("got 15")
	if !within(patience, func() bool { return d.free("read", "session", session).Foreground == "sleep" }) {
		t.Fatal("the shell does not go on")
	}
	// More than a terminal holds for a program that does not read.
	for range 8 {
		at.Send(strings.Repeat("x", 1000))
	}
	at.Send("\x03")
	at.Send("\rstty sane\recho $((40+2))-back\r")
	at.Expect("42-back")
	for range 200 { // as people type
		at.Send("k")
		at.Expect("k")
	}
	at.Send("\x15echo $((40+3))-done\r")
	at.Expect("43-done")
	at.Send("\x1d")
	if code := at.Wait(); code != 0 {
		t.Errorf("attach exits with %d: %s", code, at.Output())
	}
	d.free("close", "session", session) // and what was typed is written
	out, code := outcome(t, command(t, home, ws, "evidence", "export"))
	sum, entries := 0, 0
	for _, m := range regexp.MustCompile(`terminal typed, [^"]*by the person, (\d+) bytes`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum, entries = sum+n, entries+1
	}
	want := len("unseen-password\r") + 8000 + len("\x03") + len("\rstty sane\recho $((40+2))-back\r") + 200 + len("\x15echo $((40+3))-done\r")
	if code != 0 || sum != want || entries > 100 {
		t.Errorf("the record (exit %d) tells of %d bytes in %d entries, want %d bytes in few:\n%s", code, sum, entries, want, out)
	}
	d.keepsNo("unseen-password")
}
