package channel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

func runFolder(t *testing.T) string { return Folder(filepath.Join(t.TempDir(), "run")) }

// TestPeers: who may look. Every attack has its control beside it: the same
// process tree, without what gives it away.
func TestPeers(t *testing.T) {
	dir := runFolder(t)
	rt := startRuntime(t, dir)
	rt.in("offer 1")
	const looks = "lists 1"
	refused := func(why string) string { return ErrRefused.Error() + ": " + why }

	t.Run("somebody else's child", func(t *testing.T) {
		if got := outcome(t, "person", dir); got != looks {
			t.Fatalf("a process outside of every session got %q", got)
		}
	})
	t.Run("a child of the runtime", func(t *testing.T) {
		for _, tree := range []string{"person", "start person", "start start person"} {
			if got := rt.in("child " + tree + " " + dir); !strings.HasSuffix(got, "is a runtime") {
				t.Errorf("%s below the runtime got %q", tree, got)
			}
		}
	})
	t.Run("a child of another runtime", func(t *testing.T) {
		other := startRuntime(t, dir)
		if got := other.in("child person " + dir); !strings.HasSuffix(got, "is a runtime") {
			t.Errorf("got %q", got)
		}
	})

	// A shell that is not a child of the runtime, as the terminal's helper
	// starts them; sh waits for its input so that it can be registered first.
	shell := func(t *testing.T, command string) (release func(string) string, pid int, dev uint64) {
		cmd := self("start", "person", dir)
		bin, env := "/bin/sh", cmd.Env
		cmd = self("x")
		cmd.Path, cmd.Args, cmd.Env = bin, []string{"sh", "-c", "read go; echo; " + command + "; echo end"}, env
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "EXE="+exe, "DIR="+dir)
		tm := ptytest.Start(t, cmd)
		return func(expect string) string {
			tm.Send("\n")
			return tm.Expect("(?s)" + expect)
		}, cmd.Process.Pid, tm.Device()
	}
	// The words of the answer, whichever way it goes.
	const answer = `(lists \d+|refuses this process: [^\r]*).*end`
	const person = `CHANNEL_TEST=person "$EXE" "$DIR"`
	const inSession = `(trap '' HUP; CHANNEL_TEST=orphan "$EXE" person "$DIR" >"$OUT"); while [ ! -s "$OUT" ]; do sleep 0.01; done; cat "$OUT"`
	for _, c := range []struct {
		name, command string
		register      func(pid int, dev uint64) string
		why           string
	}{
		{"session leader", person, func(pid int, _ uint64) string { return fmt.Sprint("leader ", pid) }, "was started by a runtime for a model"},
		{"deeper", "sh -c '" + person + "; true'", func(pid int, _ uint64) string { return fmt.Sprint("leader ", pid) }, "was started by a runtime for a model"},
		{"session id", person, func(pid int, _ uint64) string { return fmt.Sprint("session ", pid) }, "belongs to a session that a runtime opened"},
		{"an orphan in its session", inSession, func(pid int, _ uint64) string { return fmt.Sprint("session ", pid) }, "belongs to a session that a runtime opened"},
		{"terminal", person, func(_ int, dev uint64) string { return fmt.Sprint("terminal ", dev) }, "sits at a terminal that a runtime opened"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("OUT", filepath.Join(t.TempDir(), "out"))
			release, _, _ := shell(t, c.command)
			if got := release(answer); !strings.Contains(got, looks) {
				t.Fatalf("control: the same tree, unregistered, got %q", got)
			}
			t.Setenv("OUT", filepath.Join(t.TempDir(), "out"))
			release, pid, dev := shell(t, c.command)
			if got := rt.in(c.register(pid, dev)); !strings.HasPrefix(got, "ok ") {
				t.Fatal(got)
			}
			if got := release(answer); !strings.Contains(strings.Join(strings.Fields(got), " "), c.why) {
				t.Errorf("registered, it got %q; want %q", got, c.why)
			}
		})
	}

	t.Run("confined", func(t *testing.T) {
		if got := outcome(t, "no-new-privs", "person", dir); got != refused("it is confined by a sandbox that the runtime is not in") {
			t.Errorf("with no_new_privs it got %q", got)
		}
		if got := outcome(t, "start", "person", dir); got != looks {
			t.Errorf("control: without, it got %q", got)
		}
		if os.Geteuid() != 0 {
			t.Skip("process namespaces need root")
		}
		if got := outcome(t, "pid-namespace", "person", dir); got != refused("it is confined by a sandbox that the runtime is not in") {
			t.Errorf("in a process namespace it got %q", got)
		}
	})
}

// TestOtherUsers: neither the folder nor the socket lets another user in, and
// with both open the kernel's word on who it is still does.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	dir := runFolder(t)
	rt := startRuntime(t, dir)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	socket := filepath.Join(dir, names[0].Name())
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode().Perm(), want, err)
		}
	}
	as := func(uid uint32) string {
		cmd := self("greet", socket)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `exec 3<>/dev/null; python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    print(s.recv(4096).decode())
except OSError as e:
    print(e)
' "$1"`, "sh", socket}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := output(cmd)
		if err != nil {
			t.Skipf("python3 is needed to connect as another user: %v", err)
		}
		return out
	}
	if got := as(65534); !strings.Contains(got, "Permission denied") {
		t.Errorf("another user got %q", got)
	}
	for p := socket; p != "/"; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && info.Mode().Perm()&0o001 == 0 || p == socket {
			if err := os.Chmod(p, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := as(65534); !strings.Contains(got, "it is another user's") {
		t.Errorf("another user, with open folders, got %q", got)
	}
	if got := as(0); !strings.Contains(got, `"about"`) {
		t.Errorf("control: the user itself got %q", got)
	}
	_ = rt
}

// TestOpenFoldersAreRefused: a folder that others may enter, or that is a link,
// is used by neither side.
func TestOpenFoldersAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(run, dir string) error{
		"open folder":     func(_, dir string) error { return os.Chmod(dir, 0o755) },
		"open run folder": func(run, _ string) error { return os.Chmod(run, 0o711) },
		"link": func(_, dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		},
		"run folder is a link": func(run, _ string) error {
			return errors.Join(os.Rename(run, run+"2"), os.Symlink(run+"2", run))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := runFolder(t)
			s, err := Listen(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if err := spoil(filepath.Dir(dir), dir); err != nil {
				t.Fatal(err)
			}
			if s, err := Listen(dir, Options{}); err == nil {
				s.Close()
				t.Error("Listen takes the folder")
			}
			if _, _, err := Find(t.Context(), dir); err == nil {
				t.Error("Find takes the folder")
			}
		})
	}
}

// TestProcessThatEnded: a connection whose maker is gone belongs to nobody who
// can be judged, even if somebody else holds it now.
func TestProcessThatEnded(t *testing.T) {
	dir := runFolder(t)
	startRuntime(t, dir)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	socket := filepath.Join(dir, names[0].Name())
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	cmd := self("x")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `exec python3 -c '
import socket, sys
s = socket.socket(fileno=3)
s.connect(sys.argv[1])
if sys.argv[2] == "stay":
    print(s.recv(4096).decode())
s.detach()
' "$@"`, "sh", socket, "go"}
	cmd.ExtraFiles = []*os.File{file}
	// The runtime must look after the end of the process: it is stopped meanwhile.
	rt := startedPID(t, names[0].Name())
	if err := syscall.Kill(rt, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err = output(cmd)
	if kill := syscall.Kill(rt, syscall.SIGCONT); kill != nil {
		t.Fatal(kill)
	}
	if err != nil {
		t.Skipf("python3 is needed: %v", err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var g greeting
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &g) != nil || g.Error == nil || g.Error.Code != "refused" {
		t.Errorf("the heir of a connection got %s, %v", line, err)
	}
}

// TestCallerIsHeld: once the process that connected has ended, whatever is read
// under its pid is not taken for it.
func TestCallerIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cmd := self("connect", path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	c, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	who, err := callerOf(c)
	if err != nil || who.pid != cmd.Process.Pid || who.uid != os.Geteuid() || !who.alive() {
		t.Fatalf("callerOf = %+v, %v, alive %v", who, err, who.alive())
	}
	defer who.release()
	stdin.Close()
	_ = cmd.Wait()
	if who.alive() {
		t.Error("a process that has ended is alive")
	}
	if late, err := callerOf(c); err == nil {
		if late.alive() {
			t.Error("a process that ended before it was asked about is alive")
		}
		late.release()
	}
}

func startedPID(t *testing.T, socket string) int {
	p, ok := owner(socket)
	if !ok {
		t.Fatal(socket)
	}
	return p.PID
}

// TestHuman: the question that commands for people ask.
func TestHuman(t *testing.T) {
	dir := runFolder(t)
	ask := func(t *testing.T) (*ptytest.Terminal, int) {
		cmd := self("human", dir)
		tm := ptytest.Start(t, cmd)
		return tm, cmd.Process.Pid
	}
	t.Run("nobody is there", func(t *testing.T) {
		tm, _ := ask(t)
		tm.Expect("human")
	})
	t.Run("no terminal", func(t *testing.T) {
		cmd := self("human", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if out, err := output(cmd); err != nil || !strings.Contains(out, "no controlling terminal") {
			t.Errorf("got %q, %v", out, err)
		}
	})
	rt := startRuntime(t, dir)
	t.Run("beside a runtime", func(t *testing.T) {
		tm, _ := ask(t)
		tm.Expect("human")
	})
	t.Run("in the background", func(t *testing.T) {
		cmd := self("human", dir)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-mc", `"` + exe + `" ` + dir + ` & wait; "` + exe + `" ` + dir}
		tm := ptytest.Start(t, cmd)
		tm.Expect("in the background")
		tm.Expect("human")
	})
	t.Run("below the runtime", func(t *testing.T) {
		master, slave := ptytest.Open(t)
		defer master.Close()
		slave.Close()
		// No terminal: the first rule already. With one it takes a shell of a session.
		if got := rt.in("child human " + dir); !strings.Contains(got, "denied") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("at our terminal", func(t *testing.T) {
		cmd := self("human", dir)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `read go; exec "` + exe + `" ` + dir}
		tm := ptytest.Start(t, cmd)
		rt.in("terminal " + strconv.FormatUint(tm.Device(), 10))
		tm.Send("\n")
		tm.Expect("terminal that a runtime opened")
	})
	t.Run("a runtime that does not answer", func(t *testing.T) {
		if err := rt.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer rt.cmd.Process.Signal(syscall.SIGCONT)
		tm, _ := ask(t)
		tm.Expect(`it does not answer; end process \d+ if it hangs`)
	})
}

// TestAnswer: an answer needs a terminal, the digest of what was shown, and an
// open ticket.
func TestAnswer(t *testing.T) {
	dir := runFolder(t)
	rt := startRuntime(t, dir)
	ticket := rt.in("offer 1")
	cmd := self("person", dir, "allow")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := output(cmd); err != nil || !strings.Contains(out, "no controlling terminal") {
		t.Errorf("without a terminal: %q, %v", out, err)
	}
	if got := rt.in("decision " + ticket); !strings.Contains(got, `"answered":false`) {
		t.Errorf("then the decision is %s", got)
	}
	ptytest.Start(t, self("person", dir, "deny")).Expect("answered 1")
	if got, want := rt.in("decision "+ticket), fmt.Sprintf(`{"answered":true,"by":%q,"channel":"cli","reason":"because","verdict":"deny"}`, User()); got != want {
		t.Errorf("the decision is %s, want %s", got, want)
	}
	ptytest.Start(t, self("person", dir, "maybe")).Expect("answered 0") // it is off the list
	rt.in("offer 2")
	ptytest.Start(t, self("person", dir, "maybe")).Expect("neither allow nor deny")
	ptytest.Start(t, self("person", dir, "allow")).Expect("answered 1")
}
