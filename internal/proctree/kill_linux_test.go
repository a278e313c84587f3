//go:build amd64 || arm64

package proctree_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
)

// never is a grace that a test must not wait for.
const never = time.Hour

func kill(t *testing.T, p *proctree.Process, o proctree.KillOptions) proctree.Killed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	k, err := p.Kill(ctx, o)
	if err != nil {
		t.Fatalf("Kill(%+v) = %+v, %v", o, k, err)
	}
	return k
}

func names(l []proctree.Member) (n []string) {
	for _, m := range l {
		n = append(n, m.Name)
	}
	slices.Sort(n)
	return n
}

func TestKill(t *testing.T) {
	h := open(t)
	for _, profile := range possible(t, proctree.Profile{Name: proctree.None}, proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff, Tmp: realDir(t)}) {
		t.Run(profile.Name, func(t *testing.T) {
			run := func(t *testing.T, text string) *proctree.Process {
				s := script("/", text)
				s.Profile = profile
				p := start(t, h, s)
				if got := readLine(t, p.Stdout); got != "ready" {
					t.Fatalf("got %q", got)
				}
				return p
			}
			t.Run("asked is enough", func(t *testing.T) {
				p := run(t, "trap 'echo asked; exit 3' TERM; (setsid sleep 600 &); echo ready; while :; do sleep 0.01; done")
				k := kill(t, p, proctree.KillOptions{Grace: never})
				if k.Asked < 2 || k.ForcedTotal != 0 {
					t.Errorf("Kill() = %+v; want nobody forced", k)
				}
				gone(t, p)
				if out, e := finish(t, p); !strings.Contains(out, "asked\n") || e.Code != 3 {
					t.Errorf("got %q, %+v", out, e)
				}
			})
			t.Run("forced", func(t *testing.T) {
				p := run(t, "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo ready; while :; do read -t 600 </dev/zero; done' & sleep 600 & wait; read -t 600 < <(sleep 600)")
				k := kill(t, p, proctree.KillOptions{Grace: 50 * time.Millisecond})
				if k.ForcedTotal < 2 || !slices.Contains(names(k.Forced), "bash") {
					t.Errorf("Kill() = %+v; want those forced that ignore SIGTERM", k)
				}
				gone(t, p)
				if e := p.Exit(); e.Signal != syscall.SIGKILL {
					t.Errorf("Exit() = %+v", e)
				}
			})
			t.Run("at once", func(t *testing.T) {
				p := run(t, "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done")
				kill(t, p, proctree.KillOptions{})
				if out, e := finish(t, p); out != "" || e.Signal != syscall.SIGKILL {
					t.Errorf("got %q, %+v; want no SIGTERM", out, e)
				}
			})
			t.Run("stopped", func(t *testing.T) {
				p := run(t, "trap 'exit 5' TERM; echo ready; kill -STOP $$; sleep 600")
				waitMembers(t, p, func(m []proctree.Member) bool { return len(m) > 0 && m[0].State == 'T' })
				kill(t, p, proctree.KillOptions{Grace: never})
				if _, e := finish(t, p); e.Code != 5 {
					t.Errorf("exit %+v; want a stopped process to be woken to end", e)
				}
			})
			t.Run("all but the shell", func(t *testing.T) {
				s := script("/", "exec 2>/dev/null; echo ready; while read line; do eval \"$line\"; done")
				s.Stdin, s.Profile = true, profile
				p := start(t, h, s)
				readLine(t, p.Stdout)
				before, err := p.Members()
				if err != nil || len(before) != 1 || before[0].Pid != p.Pid || before[0].Start != p.Start || before[0].Name != "bash" {
					t.Fatalf("Members() = %+v, %v; want the shell %d", before, err, p.Pid)
				}
				p.Stdin.WriteString("(trap '' TERM; exec setsid sleep 600) & sleep 600\n")
				waitMembers(t, p, func(m []proctree.Member) bool {
					return slices.Equal(names(m), []string{"bash", "sleep", "sleep"})
				})
				k := kill(t, p, proctree.KillOptions{Grace: 50 * time.Millisecond, Keep: before})
				if k.Asked != 2 || k.ForcedTotal != 1 {
					t.Errorf("Kill() = %+v; want two asked, one forced", k)
				}
				p.Stdin.WriteString("echo still here\n")
				if got := readLine(t, p.Stdout); !strings.Contains(got, "still here") {
					t.Errorf("the shell says %q", got)
				}
				if m, _ := p.Members(); !slices.Equal(names(m), []string{"bash"}) {
					t.Errorf("left are %+v", m)
				}
			})
			t.Run("a forking storm", func(t *testing.T) {
				// Each of a dozen forks a successor and dies, again and again: no list of
				// them is ever complete.
				p := run(t, `f() { sleep 0.001; f & }; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do f & done; echo ready; wait; sleep 600`)
				kill(t, p, proctree.KillOptions{Grace: 10 * time.Millisecond})
				gone(t, p)
			})
			t.Run("cancelled", func(t *testing.T) {
				p := run(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				defer cancel()
				if _, err := p.Kill(ctx, proctree.KillOptions{Grace: never}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Kill() = %v", err)
				}
			})
		})
	}
}

// TestOrphansStay: a tree is not over while a descendant that left it lives.
func TestOrphansStay(t *testing.T) {
	h := open(t)
	p := start(t, h, script("/", "(setsid -f sleep 600 >/dev/null 2>&1 </dev/null); exit 4"))
	if _, e := finish(t, p); e.Code != 4 {
		t.Fatalf("exit %+v", e)
	}
	select {
	case <-p.Gone():
		t.Fatal("Gone is closed while a process lives")
	default:
	}
	m := waitMembers(t, p, func(m []proctree.Member) bool { return slices.Equal(names(m), []string{"sleep"}) })
	if m[0].Start == 0 || m[0].Session != m[0].Pid {
		t.Errorf("member %+v", m[0])
	}
	kill(t, p, proctree.KillOptions{Grace: never})
	gone(t, p)
}

func TestPortOpen(t *testing.T) {
	h := open(t)
	for _, profile := range possible(t,
		proctree.Profile{Name: proctree.None},
		proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Tmp: realDir(t)},
	) {
		t.Run(profile.Name, func(t *testing.T) {
			s := script("/", `exec python3 -c 'import socket,sys; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1],flush=True); sys.stdin.readline(); s.listen(); print("listening",flush=True); sys.stdin.readline()'`)
			s.Stdin, s.Profile = true, profile
			p := start(t, h, s)
			var port uint16
			for _, c := range readLine(t, p.Stdout) {
				port = port*10 + uint16(c-'0')
			}
			check := func(q *proctree.Process, want bool) {
				t.Helper()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if got, err := q.PortOpen(ctx, port); err != nil || got != want {
					t.Errorf("PortOpen(%d) = %v, %v; want %v", port, got, err, want)
				}
			}
			check(p, false)
			p.Stdin.WriteString("go\n")
			readLine(t, p.Stdout)
			check(p, true)
			// Another tree of the profile shares the network; one without sees nothing.
			s.Argv[2] = "echo ready; sleep 600"
			other := start(t, h, s)
			readLine(t, other.Stdout)
			check(other, true)
			if profile.Name != proctree.None {
				off := s
				off.Profile.Network = proctree.NetworkOff
				third := start(t, h, off)
				readLine(t, third.Stdout)
				check(third, false)
			}
		})
	}
}
