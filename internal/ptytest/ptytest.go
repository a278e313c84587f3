//go:build linux

// Package ptytest gives a test's command a real terminal and somebody who
// types. It is for tests only.
package ptytest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long Expect waits. Machines that run tests are slow at times;
// nothing waits as long unless it fails.
const patience = 60 * time.Second

// Terminal is a pseudo terminal with a command that has it as its controlling
// terminal.
type Terminal struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	device uint64

	mu   sync.Mutex
	all  []byte
	seen int // of all, by Expect
	more chan struct{}
	end  bool
}

// Open makes a terminal without a command.
func Open(t testing.TB) (master, slave *os.File) {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("no pseudo terminal: %v", err)
	}
	var n int
	// Not through Fd, which would make reads wait where Close cannot reach them.
	raw, err := m.SyscallConn()
	if err == nil {
		err2 := raw.Control(func(fd uintptr) {
			if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
				err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
			}
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100})
		})
		err = errors.Join(err, err2)
	}
	if err != nil {
		t.Fatalf("no pseudo terminal: %v", err)
	}
	s, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("no pseudo terminal: %v", err)
	}
	return m, s
}

// Device is the number by which the kernel knows a terminal.
func Device(t testing.TB, slave *os.File) uint64 {
	t.Helper()
	info, err := slave.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return uint64(info.Sys().(*syscall.Stat_t).Rdev)
}

// Start starts cmd in a session of its own with a new terminal. Streams that
// cmd leaves nil are the terminal; files that it sets stay. The command is ended
// with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Terminal {
	t.Helper()
	master, slave := Open(t)
	defer slave.Close()
	tm := &Terminal{t: t, cmd: cmd, master: master, device: Device(t, slave), more: make(chan struct{}, 1)}
	if cmd.Stdin == nil {
		cmd.Stdin = slave
	}
	if cmd.Stdout == nil {
		cmd.Stdout = slave
	}
	if cmd.Stderr == nil {
		cmd.Stderr = slave
	}
	// A fourth descriptor is the terminal in any case: the kernel makes it the
	// controlling one through that.
	cmd.ExtraFiles = append(cmd.ExtraFiles, slave)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2 + len(cmd.ExtraFiles)}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			tm.mu.Lock()
			tm.all = append(tm.all, buf[:n]...)
			tm.end = err != nil
			tm.mu.Unlock()
			select {
			case tm.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		master.Close()
		<-done
	})
	return tm
}

// Device is the number of the terminal, see [Device].
func (tm *Terminal) Device() uint64 { return tm.device }

// Master is the other end of the terminal.
func (tm *Terminal) Master() *os.File { return tm.master }

// Send types.
func (tm *Terminal) Send(s string) {
	tm.t.Helper()
	if _, err := io.WriteString(tm.master, s); err != nil {
		tm.t.Fatalf("typing %q: %v", s, err)
	}
}

// Expect waits until what was printed since the last Expect matches, and returns
// it up to the end of the match.
func (tm *Terminal) Expect(pattern string) string {
	tm.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		tm.mu.Lock()
		rest, end := tm.all[tm.seen:], tm.end
		if m := re.FindIndex(rest); m != nil {
			tm.seen += m[1]
			tm.mu.Unlock()
			return string(rest[:m[1]])
		}
		tm.mu.Unlock()
		if end {
			tm.t.Fatalf("%v ended before %q was printed; since then:\n%s", tm.cmd.Args, pattern, rest)
		}
		select {
		case <-tm.more:
		case <-deadline.C:
			tm.t.Fatalf("%v did not print %q; since then:\n%s", tm.cmd.Args, pattern, rest)
		}
	}
}

// Output is everything that was printed so far.
func (tm *Terminal) Output() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return string(tm.all)
}

// Rest waits until nothing has the terminal open any more, and returns all that
// was printed, with the line ends that the terminal made as they were meant.
func (tm *Terminal) Rest() string {
	tm.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		tm.mu.Lock()
		all, end := string(tm.all), tm.end
		tm.mu.Unlock()
		if end {
			return strings.ReplaceAll(all, "\r\n", "\n")
		}
		select {
		case <-tm.more:
		case <-deadline.C:
			tm.t.Fatalf("something that %v started keeps the terminal open", tm.cmd.Args)
		}
	}
}

// Wait waits for the end of the command and returns its exit code.
func (tm *Terminal) Wait() int {
	tm.t.Helper()
	done := make(chan error, 1)
	go func() { done <- tm.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !asExit(err, &exit) {
			tm.t.Fatal(err)
		}
		return tm.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		tm.t.Fatalf("%v does not end; it printed:\n%s", tm.cmd.Args, tm.Output())
	}
	return -1
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}
