package channel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// The tests are about who descends from whom, so runtimes, shells and people
// are processes: this test binary, started again with CHANNEL_TEST set.
func TestMain(m *testing.M) {
	if role := os.Getenv("CHANNEL_TEST"); role != "" {
		os.Exit(act(role, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func act(role string, args []string) int {
	switch role {
	case "runtime":
		return actRuntime(args[0])
	case "person": // looks at what waits; with a verdict, answers it
		fmt.Println(visitAs(args))
	case "human":
		if err := Human(context.Background(), args[0]); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("human")
		}
	case "connect": // and ends with its input
		c, err := net.Dial("unix", args[0])
		if err != nil {
			return 1
		}
		defer c.Close()
		fmt.Println("connected")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "crowd": // connects without end, after its input has ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		for first := true; ; first = false {
			found, problems, _ := Find(context.Background(), args[0])
			for _, c := range found {
				c.Close()
			}
			if first {
				fmt.Println(problems)
			}
		}
	case "start": // starts another role and waits for it
		return run(nil, args...)
	case "orphan": // starts another role and goes before it does anything
		cmd := self(args...)
		cmd.Env = append(cmd.Environ(), "CHANNEL_WAIT="+strconv.Itoa(os.Getpid()))
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return 1
		}
	case "no-new-privs":
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return 1
		}
		cmd := self(args...)
		_ = syscall.Exec(cmd.Path, cmd.Args, cmd.Environ())
		return 1
	case "pid-namespace":
		return run(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, args...)
	}
	return 0
}

// self is this binary in a role: role args...
func self(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args[1:]...)
	cmd.Env = append(os.Environ(), "CHANNEL_TEST="+args[0])
	return cmd
}

func run(attr *syscall.SysProcAttr, args ...string) int {
	cmd := self(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
	if cmd.Run() != nil {
		return 1
	}
	return 0
}

// visitAs lists what waits in the folder args[0], and answers it with verdict
// args[1]. It returns what it got as one word or error.
func visitAs(args []string) string {
	if parent := os.Getenv("CHANNEL_WAIT"); parent != "" {
		pid, _ := strconv.Atoi(parent)
		for os.Getppid() == pid {
			time.Sleep(time.Millisecond)
		}
	}
	found, problems, err := Find(context.Background(), args[0])
	if err != nil {
		return err.Error()
	}
	for _, p := range problems {
		return p.Err.Error()
	}
	if len(found) == 0 {
		return "no runtime"
	}
	list, err := found[0].List()
	if err != nil {
		return err.Error()
	}
	if len(args) == 1 {
		return "lists " + strconv.Itoa(len(list))
	}
	for _, w := range list {
		if err := found[0].Answer(Reply{Ticket: w.Ticket, Binding: w.Binding, Verdict: approval.Verdict(args[1]), Reason: "because"}); err != nil {
			return err.Error()
		}
	}
	return "answered " + strconv.Itoa(len(list))
}

// book is the Sessions of a runtime under test: what it was told.
type book struct {
	mu        sync.Mutex
	leaders   []Process
	sessions  []int
	terminals []uint64
}

func (b *book) Leaders() []Process  { b.mu.Lock(); defer b.mu.Unlock(); return b.leaders }
func (b *book) SIDs() []int         { b.mu.Lock(); defer b.mu.Unlock(); return b.sessions }
func (b *book) Terminals() []uint64 { b.mu.Lock(); defer b.mu.Unlock(); return b.terminals }

// actRuntime serves dir and does what lines of its input say, answering each
// with one line.
func actRuntime(dir string) int {
	b := &book{}
	s, err := Listen(dir, Options{Sessions: b, About: About{Program: "test", Workspace: "/w"}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	desk := approval.NewDesk([]approval.Approver{s}, time.Hour)
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(arg)
		b.mu.Lock()
		switch word {
		case "leader":
			p, err := Identify(n)
			if err != nil {
				arg = err.Error()
			}
			b.leaders = append(b.leaders, p)
		case "session":
			b.sessions = append(b.sessions, n)
		case "terminal":
			b.terminals = append(b.terminals, uint64(n))
		}
		b.mu.Unlock()
		switch word {
		case "offer": // a request that waits; its diff is so many bytes long
			tk, err := desk.Submit(approval.Request{Tool: "write_file", CallID: "c", Session: "s", Input: tool.Digest(arg),
				Preview: tool.Preview{Binding: "b" + tool.Digest(arg), Diff: strings.Repeat("+x\xff\n", n/4)}})
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println(tk.Request().Ticket)
			continue
		case "decision":
			tk, ok := desk.Find(arg)
			if !ok {
				fmt.Println("gone")
				continue
			}
			d, answered := tk.Decision()
			line, _ := json.Marshal(map[string]any{"answered": answered, "verdict": d.Verdict, "by": d.By, "channel": d.Channel, "reason": d.Reason})
			fmt.Println(string(line))
			continue
		case "child": // a process that the runtime starts itself
			out, err := output(self(strings.Fields(arg)...))
			if err != nil {
				out = err.Error()
			}
			fmt.Println(out)
			continue
		}
		fmt.Println("ok " + arg)
	}
	return 0
}

func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// theRuntime is a runtime process of a test.
type theRuntime struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	in  func(string) string
}

// startRuntime starts one that serves dir.
func startRuntime(t *testing.T, dir string) *theRuntime {
	t.Helper()
	cmd := self("runtime", dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	next := func() string {
		if !lines.Scan() {
			t.Fatal("the runtime under test has ended")
		}
		return lines.Text()
	}
	if line := next(); line != "ready" {
		t.Fatal(line)
	}
	return &theRuntime{t, dir, cmd, func(line string) string {
		fmt.Fprintln(stdin, line)
		return next()
	}}
}

// outcome runs a role outside of the runtime and returns its last word.
func outcome(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(self(args...))
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}
