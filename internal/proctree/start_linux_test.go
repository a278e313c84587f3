//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func open(t testing.TB) *proctree.Host {
	t.Helper()
	h := proctree.Open(proctree.Options{})
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return h
}

// canBox tells whether this system lets a user make the namespaces that a box
// needs; where it does, a profile that cannot be had is a failure.
var canBox = sync.OnceValue(func() bool {
	return exec.Command("unshare", "-Urmpf", "mount", "-t", "proc", "none", "/proc").Run() == nil
})

// needBox skips a test of what cannot be had here.
func needBox(t *testing.T) {
	t.Helper()
	if !canBox() {
		t.Skip("the system refuses user namespaces, or mounts in them")
	}
}

// possible leaves out the profiles that cannot be had here.
func possible(t *testing.T, l ...proctree.Profile) []proctree.Profile {
	t.Helper()
	return slices.DeleteFunc(l, func(p proctree.Profile) bool {
		if p.Name == proctree.None || canBox() {
			return false
		}
		t.Logf("without %s: the system refuses user namespaces, or mounts in them", p.Name)
		return true
	})
}

// realDir is a directory without links in its path.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// script is a Spec for bash without any profile.
func script(dir, text string) proctree.Spec {
	return proctree.Spec{
		Path: "/bin/bash", Argv: []string{"bash", "-c", text}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"},
		Dir: dir, Merge: true, Profile: proctree.Profile{Name: proctree.None},
	}
}

func start(t testing.TB, h *proctree.Host, s proctree.Spec) *proctree.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := h.Start(ctx, s)
	if err != nil {
		t.Fatalf("Start(%q, %s) = %v", s.Argv, s.Profile.Name, err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{p.Terminal, p.Stdin, p.Stdout, p.Stderr} {
			if f != nil {
				f.Close()
			}
		}
		if err := p.Close(); err != nil {
			t.Errorf("Process.Close() = %v", err)
		}
	})
	return p
}

// finish reads all output and waits for the end.
func finish(t testing.TB, p *proctree.Process) (string, proctree.Exit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := p.Stdout
	if p.Terminal != nil {
		out = p.Terminal
	}
	out.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(out)
	if err != nil && !errors.Is(err, syscall.EIO) { // how a terminal without users ends
		t.Fatalf("reading: %v after %q", err, b)
	}
	e, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("Wait() = %v after %q", err, b)
	}
	return string(b), e
}

// readLine reads up to a newline.
func readLine(t testing.TB, f *os.File) string {
	t.Helper()
	f.SetReadDeadline(time.Now().Add(patience))
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(f, b); err != nil {
			t.Fatalf("reading a line: %v after %q", err, line)
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r")
		}
		line = append(line, b[0])
	}
}

func gone(t testing.TB, p *proctree.Process) {
	t.Helper()
	select {
	case <-p.Gone():
	case <-time.After(patience):
		m, _ := p.Members()
		t.Fatalf("the tree is still there: %+v", m)
	}
}

func TestExit(t *testing.T) {
	h := open(t)
	for _, c := range []struct {
		script string
		want   proctree.Exit
	}{
		{"exit 0", proctree.Exit{}},
		{"exit 7", proctree.Exit{Code: 7}},
		{"kill -TERM $$", proctree.Exit{Code: -1, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", proctree.Exit{Code: -1, Signal: syscall.SIGKILL}},
	} {
		p := start(t, h, script("/", c.script))
		_, got := finish(t, p)
		got.UserTime, got.SystemTime = 0, 0
		if got != c.want {
			t.Errorf("%q: %+v; want %+v", c.script, got, c.want)
		}
	}
}

func TestPipes(t *testing.T) {
	h := open(t)
	t.Run("no input", func(t *testing.T) {
		if out, e := finish(t, start(t, h, script("/", "cat; echo end"))); out != "end\n" || e.Code != 0 {
			t.Errorf("got %q, %+v; want the input to be at its end", out, e)
		}
	})
	t.Run("input", func(t *testing.T) {
		s := script("/", "cat")
		s.Stdin = true
		p := start(t, h, s)
		io.WriteString(p.Stdin, "through\n")
		p.Stdin.Close()
		if out, _ := finish(t, p); out != "through\n" {
			t.Errorf("got %q", out)
		}
	})
	t.Run("apart", func(t *testing.T) {
		s := script("/", "echo out; echo err >&2")
		s.Merge = false
		p := start(t, h, s)
		out, _ := finish(t, p)
		errs, _ := io.ReadAll(p.Stderr)
		if out != "out\n" || string(errs) != "err\n" {
			t.Errorf("got %q and %q", out, errs)
		}
	})
	t.Run("more than a pipe holds", func(t *testing.T) {
		// A pipe of Go's is non-blocking at both ends, which programs do not expect.
		s := script("/", "head -c 300000 /dev/zero; sleep 0.05; cat | wc -c")
		s.Stdin = true
		p := start(t, h, s)
		go func() {
			p.Stdin.Write(make([]byte, 300000))
			p.Stdin.Close()
		}()
		if out, _ := finish(t, p); len(out) != 300000+len("300000\n") || !strings.HasSuffix(out, "300000\n") {
			t.Errorf("got %d bytes, ending in %q", len(out), out[max(0, len(out)-100):])
		}
	})
	t.Run("merged in order", func(t *testing.T) {
		if out, _ := finish(t, start(t, h, script("/", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"))); out != "o1\ne1\no2\ne2\no3\ne3\n" {
			t.Errorf("got %q", out)
		}
	})
}

// TestNothingInherited: environment, directory, descriptors, signals and
// session are what was asked for.
func TestNothingInherited(t *testing.T) {
	t.Setenv("PROCTREE_TEST_SECRET", "key")
	// One that is not closed on exec, as a careless parent leaves it.
	leak, err := syscall.Open("/", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	h := open(t)
	dir := realDir(t)
	s := script(dir, `env | cut -d= -f1 | sort | tr '\n' ' '; pwd; ls /proc/self/fd | wc -l
grep -E '^Sig(Ign|Blk)' /proc/self/status | tr '\n' ' '; echo; [ $(ps -o sid= $$) = $$ ] && [ $(ps -o pgid= $$) = $$ ] && echo own`)
	s.Env = append(s.Env, "ONLY=this")
	out, _ := finish(t, start(t, h, s))
	want := "LC_ALL ONLY PATH PWD SHLVL _ " + dir + "\n4\nSigBlk:\t0000000000000000 SigIgn:\t0000000000000000 \nown\n"
	if out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
}

func TestTerminal(t *testing.T) {
	h := open(t)
	for _, profile := range possible(t, proctree.Profile{Name: proctree.None}, proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff}) {
		t.Run(profile.Name, func(t *testing.T) {
			s := script("/", "stty size; tty >/dev/null && echo tty; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done")
			s.Merge, s.TTY, s.Profile = false, &proctree.Size{Cols: 91, Rows: 17}, profile
			p := start(t, h, s)
			for _, want := range []string{"17 91", "tty", "ready"} {
				if got := readLine(t, p.Terminal); got != want {
					t.Fatalf("got %q; want %q", got, want)
				}
			}
			if fg, err := p.Foreground(); err != nil || fg != p.Pid {
				t.Errorf("Foreground() = %d, %v; want %d", fg, err, p.Pid)
			}
			if err := p.Resize(proctree.Size{Cols: 132, Rows: 50}); err != nil {
				t.Fatalf("Resize() = %v", err)
			}
			if out, e := finish(t, p); !strings.Contains(out, "50 132") || e.Code != 4 {
				t.Errorf("got %q, %+v; want the new size", out, e)
			}
		})
	}
}

// TestReadHonoursDeadlines: a blocked read of a terminal ends by deadline and by
// Close, also after Resize and Foreground, which must not make it blocking.
func TestReadHonoursDeadlines(t *testing.T) {
	h := open(t)
	s := script("/", "echo ready; sleep 600")
	s.Merge, s.TTY = false, &proctree.Size{Cols: 80, Rows: 24}
	p := start(t, h, s)
	readLine(t, p.Terminal)
	p.Resize(proctree.Size{Cols: 90, Rows: 24})
	p.Foreground()
	p.Signal(proctree.Foreground, syscall.SIGWINCH)
	p.Terminal.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := p.Terminal.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read after a deadline = %v", err)
	}
	p.Terminal.SetReadDeadline(time.Time{})
	ended := make(chan error)
	go func() {
		_, err := p.Terminal.Read(make([]byte, 1))
		ended <- err
	}()
	p.Terminal.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("Read does not end when the terminal is closed")
	}
}

func TestSignal(t *testing.T) {
	h := open(t)
	t.Run("foreground of a terminal", func(t *testing.T) {
		// With job control the command is a group of its own, and the shell survives.
		s := script("/", "set -m; bash -c 'trap \"exit 5\" INT; echo ready; while :; do sleep 0.02; done'; echo after $?")
		s.Merge, s.TTY = false, &proctree.Size{Cols: 80, Rows: 24}
		p := start(t, h, s)
		readLine(t, p.Terminal)
		if err := p.Signal(proctree.Foreground, syscall.SIGINT); err != nil {
			t.Fatalf("Signal(Foreground, SIGINT) = %v", err)
		}
		if out, e := finish(t, p); !strings.Contains(out, "after 5") {
			t.Errorf("got %q, %+v; want the shell to go on", out, e)
		}
	})
	t.Run("foreground without one", func(t *testing.T) {
		p := start(t, h, script("/", "setsid sleep 600 & trap 'kill $!; exit 9' USR1; echo ready; while :; do sleep 0.02; done"))
		readLine(t, p.Stdout)
		if err := p.Signal(proctree.Foreground, syscall.SIGUSR1); err != nil {
			t.Fatalf("Signal(Foreground, SIGUSR1) = %v", err)
		}
		if _, e := finish(t, p); e.Code != 9 {
			t.Errorf("exit %+v; want 9", e)
		}
	})
	t.Run("tree", func(t *testing.T) {
		p := start(t, h, script("/", "setsid sleep 600 & (setsid sleep 600 &) ; sleep 0.05; echo ready; wait"))
		readLine(t, p.Stdout)
		if err := p.Signal(proctree.Tree, syscall.SIGKILL); err != nil {
			t.Fatalf("Signal(Tree, SIGKILL) = %v", err)
		}
		gone(t, p)
		if err := p.Signal(proctree.Tree, syscall.SIGKILL); !errors.Is(err, proctree.ErrGone) {
			t.Errorf("Signal after the end = %v; want ErrGone", err)
		}
	})
	t.Run("session", func(t *testing.T) {
		p := start(t, h, script("/", "setsid sleep 600 & echo ready; sleep 600"))
		readLine(t, p.Stdout)
		waitMembers(t, p, func(m []proctree.Member) bool {
			n := 0
			for _, x := range m {
				if x.Name == "sleep" {
					n++
				}
			}
			return n == 2
		})
		p.Signal(proctree.Session, syscall.SIGKILL)
		if _, e := finish(t, stdoutOf(p)); e.Signal != syscall.SIGKILL {
			t.Errorf("exit %+v", e)
		}
		if m, _ := p.Members(); len(m) != 1 || m[0].Name != "sleep" {
			t.Errorf("left are %+v; want the one that made its own session", m)
		}
	})
}

// stdoutOf is p with nothing to read: what lives on holds the pipe.
func stdoutOf(p *proctree.Process) *proctree.Process {
	p.Stdout.Close()
	p.Stdout, _ = os.Open(os.DevNull)
	return p
}

func waitMembers(t testing.TB, p *proctree.Process, ok func([]proctree.Member) bool) []proctree.Member {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		m, err := p.Members()
		if err != nil {
			t.Fatal(err)
		}
		if ok(m) {
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("members are %+v", m)
		}
	}
}

func TestStartErrors(t *testing.T) {
	h := open(t)
	dir := realDir(t)
	os.WriteFile(dir+"/plain", []byte("text"), 0o644)
	os.WriteFile(dir+"/badelf", []byte("\x7fELFjunk"), 0o755)
	other, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, c := range []struct {
		name   string
		change func(*proctree.Spec)
		op     string
		want   error
	}{
		{"missing program", func(s *proctree.Spec) { s.Path = dir + "/none" }, "program", syscall.ENOENT},
		{"not executable", func(s *proctree.Spec) { s.Path = dir + "/plain" }, "program", syscall.EACCES},
		{"not a program", func(s *proctree.Spec) { s.Path = dir + "/badelf" }, "program", syscall.ENOEXEC},
		{"missing directory", func(s *proctree.Spec) { s.Dir = dir + "/none" }, "working directory", syscall.ENOENT},
		{"directory is a file", func(s *proctree.Spec) { s.Dir = dir + "/plain" }, "working directory", syscall.ENOTDIR},
		{"directory replaced", func(s *proctree.Spec) { s.DirFile = other }, "", proctree.ErrMoved},
		{"too much", func(s *proctree.Spec) { s.Env = []string{"A=" + strings.Repeat("x", 200<<10)} }, "program", syscall.E2BIG},
		{"far too much", func(s *proctree.Spec) {
			for range 40 {
				s.Env = append(s.Env, "A="+strings.Repeat("x", 120<<10))
			}
		}, "program", syscall.E2BIG},
		{"relative program", func(s *proctree.Spec) { s.Path = "bash" }, "program", syscall.EINVAL},
		{"NUL", func(s *proctree.Spec) { s.Argv = append(s.Argv, "a\x00b") }, "text with a NUL", syscall.EINVAL},
		{"no arguments", func(s *proctree.Spec) { s.Argv = nil }, "arguments", syscall.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(dir, "echo ran")
			c.change(&s)
			p, err := h.Start(context.Background(), s)
			if err == nil {
				p.Close()
			}
			var se *proctree.StartError
			if !errors.Is(err, c.want) || c.op != "" && (!errors.As(err, &se) || se.Op != c.op) {
				t.Errorf("Start() = %v; want %q, %v", err, c.op, c.want)
			}
		})
	}
	// The control: the same with nothing changed, after all those failures.
	dirFile, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dirFile.Close()
	s := script(dir, "echo ran")
	s.DirFile = dirFile
	if out, _ := finish(t, start(t, h, s)); out != "ran\n" {
		t.Errorf("got %q", out)
	}
}

// TestLargeEnvironment: 100 variables of 1 kB were too much for tools that type
// their environment (OpenHands 1330), and a frame must not be cut either.
func TestLargeEnvironment(t *testing.T) {
	h := open(t)
	s := script("/", "echo ${#VAR99}; env | wc -c")
	for i := range 1000 {
		s.Env = append(s.Env, "VAR"+string(rune('0'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10))+"="+strings.Repeat("v", 1000))
	}
	s.Env = append(s.Env, "VAR99="+strings.Repeat("w", 1000))
	if out, _ := finish(t, start(t, h, s)); !strings.HasPrefix(out, "1000\n100") {
		t.Errorf("got %q", out)
	}
}

func TestLimits(t *testing.T) {
	h := open(t)
	s := script(realDir(t), "ulimit -c; ulimit -n; nice; trap '' XFSZ; dd if=/dev/zero of=big bs=1k count=100 2>/dev/null; stat -c %s big")
	s.Limits = proctree.Limits{OpenFiles: 100, FileSize: 10 << 10, Nice: 17}
	if out, _ := finish(t, start(t, h, s)); out != "0\n100\n17\n10240\n" {
		t.Errorf("got %q", out)
	}
	s.Limits = proctree.Limits{}
	if out, _ := finish(t, start(t, h, s)); !strings.HasPrefix(out, "0\n") || strings.Contains(out, "\n100\n") || strings.Contains(out, "\n17\n") || !strings.HasSuffix(out, "\n102400\n") {
		t.Errorf("without limits got %q", out)
	}
}

func TestClosedHost(t *testing.T) {
	h := proctree.Open(proctree.Options{})
	p := start(t, h, script("/", "sleep 600"))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, p)
	if _, err := h.Start(context.Background(), script("/", "true")); !errors.Is(err, proctree.ErrClosed) {
		t.Errorf("Start() = %v; want ErrClosed", err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("second Close() = %v", err)
	}
}

func TestStartIsCancelled(t *testing.T) {
	h := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Start(ctx, script("/", "true")); !errors.Is(err, context.Canceled) {
		t.Errorf("Start() = %v; want context.Canceled", err)
	}
}
