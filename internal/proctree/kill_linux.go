//go:build amd64 || arm64

package proctree

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// maxForced bounds the list of those who needed force.
const maxForced = 32

func (t *tree) kill(ctx context.Context, o KillOptions) (Killed, error) {
	var k Killed
	targets := func() []walk.Process {
		return slices.DeleteFunc(t.list(), func(p walk.Process) bool {
			return slices.ContainsFunc(o.Keep, func(m Member) bool { return m.Pid == p.Pid && m.Start == p.Start })
		})
	}
	// With spared processes the reaper cannot say when the others are gone.
	waitFor := func(limit time.Duration) (bool, error) {
		deadline := time.Now().Add(limit)
		for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
			wake := limit
			if len(o.Keep) > 0 {
				if len(targets()) == 0 {
					return true, nil
				}
				wake = pause
			}
			timer := time.NewTimer(min(wake, max(0, time.Until(deadline))))
			select {
			case <-t.allGone:
				timer.Stop()
				return true, nil
			case <-ctx.Done():
				timer.Stop()
				return false, ctx.Err()
			case <-timer.C:
			}
			if !time.Now().Before(deadline) {
				return false, nil
			}
		}
	}

	first := targets()
	k.Asked = len(first)
	if len(first) == 0 && (len(o.Keep) > 0 || t.over()) {
		return k, nil
	}
	if o.Grace > 0 {
		signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}
		if t.p.Terminal != nil {
			signals = []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT}
		}
		for _, sig := range signals {
			for _, p := range first {
				walk.Signal(p, sig)
			}
		}
		if done, err := waitFor(o.Grace); done || err != nil {
			return k, err
		}
	}
	left := targets()
	k.ForcedTotal = len(left)
	k.Forced = members(left[:min(len(left), maxForced)])
	if len(o.Keep) == 0 {
		if t.r.conn.Send(wire.Frame{Type: wire.TypeEnd}) != nil {
			return k, ErrClosed
		}
		for {
			if done, err := waitFor(time.Hour); done || err != nil {
				return k, err
			}
		}
	}
	for {
		l := targets()
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range l {
				walk.Signal(p, sig)
			}
		}
		if done, err := waitFor(2 * time.Millisecond); done || err != nil {
			return k, err
		}
	}
}

// closeTimeout is what SIGKILL may take. Only a process that hangs in the
// kernel, or that has another user's rights, lives longer; its reaper then goes
// on trying, without us.
const closeTimeout = 2 * time.Second

func (t *tree) close() error {
	t.closing.Do(func() {
		t.settle()
		if !t.over() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			_, t.closeErr = t.kill(ctx, KillOptions{})
		}
		t.host.mu.Lock()
		delete(t.host.trees, t)
		t.host.mu.Unlock()
		if t.closeErr != nil {
			t.r.conn.Close()
			return
		}
		t.host.giveBack(t.r)
	})
	return t.closeErr
}

// settle waits, for a moment, for a tree that seems to have ended by itself: its
// reaper knows a little later than a look at it shows.
func (t *tree) settle() {
	select {
	case <-t.leaderDone:
	default:
		return
	}
	if len(t.list()) > 0 {
		return
	}
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-t.allGone:
	case <-timer.C:
	}
}
