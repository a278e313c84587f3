// Package terminal_test measures the way of output, the start of a process, and
// the answer of a session beside others that are busy. README.md has the figures.
package terminal_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// open gives a manager that is shut down with the benchmark.
func open(b *testing.B, profile string) *terminal.Manager {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	state, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	m, err := terminal.Open(terminal.Options{Root: dir, State: state, Profile: profile, AllowUnsandboxed: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Shutdown(); err != nil {
			b.Error(err)
		}
	})
	return m
}

func session(b *testing.B, m *terminal.Manager) string {
	b.Helper()
	r, err := m.Open(context.Background(), terminal.OpenRequest{}, terminal.Feedback{})
	if err != nil {
		b.Fatal(err)
	}
	return r.Session
}

// flood is what the throughput is measured with: plain lines, as a build prints.
const floodBytes = 64 << 20

var flood = fmt.Sprintf("yes 'the quick brown fox jumps over the lazy dog, 0123456789' | head -c %d", floodBytes)

// BenchmarkTerminal compares a program on a terminal whose output is cleaned, kept
// and spooled with a bare reader of the same terminal. The goal is 80 % of it.
func BenchmarkTerminal(b *testing.B) {
	h := proctree.Open(proctree.Options{})
	b.Cleanup(func() { h.Close() })
	b.Run("bare", func(b *testing.B) {
		b.SetBytes(floodBytes)
		for b.Loop() {
			p, err := h.Start(context.Background(), proctree.Spec{
				Path: "/bin/bash", Argv: []string{"bash", "-c", flood}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/",
				TTY: &proctree.Size{Cols: 120, Rows: 40}, Profile: proctree.Profile{Name: proctree.None},
			})
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 64<<10)
			for {
				if _, err := p.Terminal.Read(buf); err != nil {
					break
				}
			}
			p.Terminal.Close()
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ours", func(b *testing.B) {
		m := open(b, proctree.None)
		b.SetBytes(floodBytes)
		for b.Loop() {
			r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: flood, TTY: true, Yield: terminal.MaxYield}, terminal.Feedback{})
			if err != nil || r.State != terminal.Finished || r.Cursor < floodBytes-1000 {
				b.Fatal(r.State, r.Cursor, err)
			}
		}
	})
}

func median(b *testing.B, once func()) {
	once()
	times := make([]time.Duration, 0, b.N)
	for b.Loop() {
		begin := time.Now()
		once()
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkExec compares exec of bash -c true with os/exec's own in the same
// process. The goal is a median within twice of that.
func BenchmarkExec(b *testing.B) {
	b.Run("os-exec", func(b *testing.B) {
		median(b, func() {
			if _, err := exec.Command("/bin/bash", "-c", "true").CombinedOutput(); err != nil {
				b.Fatal(err)
			}
		})
	})
	m := open(b, proctree.None)
	plan := &tool.Plan{Pipe: []tool.Exec{{Path: "/bin/true", Args: []string{"true"}}}}
	for _, profile := range []string{proctree.None, proctree.WorkspaceWrite} {
		b.Run(profile, func(b *testing.B) {
			median(b, func() {
				r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "true", Profile: profile}, terminal.Feedback{})
				if err != nil || r.ExitCode == nil {
					b.Fatal(r, err)
				}
			})
		})
		b.Run(profile+"/by-rule", func(b *testing.B) { // no shell
			median(b, func() {
				r, err := m.Exec(context.Background(), terminal.ExecRequest{Command: "true", Plan: plan, Profile: profile}, terminal.Feedback{})
				if err != nil || r.ExitCode == nil {
					b.Fatal(r, err)
				}
			})
		})
	}
	b.Run("os-exec-true", func(b *testing.B) {
		median(b, func() {
			if _, err := exec.Command("/bin/true").CombinedOutput(); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkRun is a command in a session: alone, and beside 31 sessions that print
// without end. The goal is an answer under 100 ms.
func BenchmarkRun(b *testing.B) {
	m := open(b, proctree.None)
	id := session(b, m)
	one := func() {
		r, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: "echo x"}, terminal.Feedback{})
		if err != nil || r.Output != "x\n" {
			b.Fatal(r, err)
		}
	}
	b.Run("alone", func(b *testing.B) { median(b, one) })
	for range terminal.MaxSessions - 1 {
		busy := session(b, m)
		if _, err := m.Run(context.Background(), terminal.RunRequest{Session: busy, Command: "while :; do seq 1 2000; sleep 0.1; done", Yield: terminal.MinYield}, terminal.Feedback{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("beside-31", func(b *testing.B) { median(b, one) })
}

// BenchmarkScreen draws a screen from all that is kept of a flood.
func BenchmarkScreen(b *testing.B) {
	m := open(b, proctree.None)
	id := session(b, m)
	if _, err := m.Run(context.Background(), terminal.RunRequest{Session: id, Command: "seq 1 100000"}, terminal.Feedback{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r, err := m.Screen(context.Background(), id); err != nil || len(r.Screen) == 0 {
			b.Fatal(err)
		}
	}
}
