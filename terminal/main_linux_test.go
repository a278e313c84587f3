package terminal_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/terminal"
)

// serverEnv makes this program a server that is to be killed: it runs what
// TestKilledServer expects, says so, and waits.
const serverEnv = "TERMINAL_TEST_SERVER"

func TestMain(m *testing.M) {
	if state := os.Getenv(serverEnv); state != "" {
		execs, _ := strconv.Atoi(os.Getenv("TERMINAL_TEST_EXECS"))
		sessions, _ := strconv.Atoi(os.Getenv("TERMINAL_TEST_SESSIONS"))
		os.Exit(serve(state, os.Getenv("TERMINAL_TEST_PROFILE"), os.Getenv("TERMINAL_TEST_SCRIPT"), execs, sessions))
	}
	// Nearly all of a test's time is spent waiting for shells.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(goruntime.GOMAXPROCS(0)) {
		if err := f.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	idle := busy(os.Getenv("WASMTOOLS_BUSY"))
	code := m.Run()
	idle()
	os.Exit(code)
}

// busy lets so many programs compete for the processors: nothing here may count on
// happening within a short time.
func busy(programs string) (idle func()) {
	n, _ := strconv.Atoi(programs)
	var all []*exec.Cmd
	for range n {
		cmd := exec.Command("nice", "-n", "5", "sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		all = append(all, cmd)
	}
	return func() {
		for _, cmd := range all {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
}

// serve runs and ends so many processes and sessions before it leaves two running.
func serve(state, profile, script string, execs, sessions int) int {
	m, err := terminal.Open(terminal.Options{Root: os.Getenv("TERMINAL_TEST_ROOT"), State: state, Profile: profile, AllowUnsandboxed: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	todo := make(chan bool, execs+sessions) // true: a session
	for i := range execs + sessions {
		todo <- i < sessions
	}
	close(todo)
	var failed atomic.Bool
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for session := range todo {
				var r terminal.Result
				s, err := terminal.Result{}, error(nil)
				if !session {
					r, err = m.Exec(ctx, terminal.ExecRequest{Command: script, Yield: terminal.MaxYield}, terminal.Feedback{})
				} else if s, err = m.Open(ctx, terminal.OpenRequest{}, terminal.Feedback{}); err == nil {
					if r, err = m.Run(ctx, terminal.RunRequest{Session: s.Session, Command: script, Yield: terminal.MaxYield}, terminal.Feedback{}); err == nil {
						_, err = m.Close(ctx, s.Session, terminal.Feedback{})
					}
				}
				if err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
					fmt.Println(r, err)
					failed.Store(true)
					return
				}
			}
		})
	}
	if wg.Wait(); failed.Load() {
		return 1
	}
	s, err := m.Open(ctx, terminal.OpenRequest{}, terminal.Feedback{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := m.Run(ctx, terminal.RunRequest{Session: s.Session, Command: script + "\nsleep 100000", Until: must("regex:^planted$")}, terminal.Feedback{})
	if err != nil || r.Reason != "regex" {
		fmt.Println(r, err)
		return 1
	}
	x, err := m.Exec(ctx, terminal.ExecRequest{Command: "seq 1 100000; echo planted; sleep 100000", Until: must("regex:^planted$")}, terminal.Feedback{})
	if err != nil || x.Reason != "regex" {
		fmt.Println(x, err)
		return 1
	}
	fmt.Println("serving", s.Session, x.Process)
	select {}
}

func must(s string) *terminal.Until {
	u, err := terminal.ParseUntil(s)
	if err != nil {
		panic(err)
	}
	return u
}
