package proctree

import (
	"context"
	"os"
	"syscall"
)

// Options configure a [Host]. The zero value is usable.
type Options struct {
	// Warm is how many idle reapers are kept for each kind of tree that was
	// started; 0 means 2.
	Warm int
}

// Host starts trees. It owns one zygote, started at the first use. A Host is
// safe for concurrent use.
type Host struct{ impl host }

// Open returns a host; it starts nothing yet.
func Open(o Options) *Host { return &Host{impl: newHost(o)} }

// Start starts a tree. ctx bounds the starting only. Errors are
// [*UnavailableError], [*StartError], [ErrMoved], [ErrClosed] or ctx's.
func (h *Host) Start(ctx context.Context, s Spec) (*Process, error) { return h.impl.start(ctx, s) }

// Probe says what would be active for a tree under p, and starts none.
func (h *Host) Probe(ctx context.Context, p Profile) (Active, error) { return h.impl.probe(ctx, p) }

// Close ends all trees (SIGTERM, SIGKILL after a second) and the helpers, and
// returns when nothing is left.
func (h *Host) Close() error { return h.impl.close() }

// Process is a tree. Its methods are safe for concurrent use.
//
// The files are the caller's to close, before Close: a terminal that stays open
// can be found by the next tree of the same profile. With TTY only Terminal is
// set. On
// Linux they honour deadlines, and Close ends a blocked Read, as long as nobody
// calls their Fd method: it makes them blocking. A terminal whose last user has gone
// reads as EIO.
type Process struct {
	// Pid and Start (clock ticks since boot) name the leader, in the server's own
	// view; 0 if it had ended before anybody could look.
	Pid   int
	Start uint64
	// Active says what holds for the tree.
	Active Active

	Terminal              *os.File
	Stdin, Stdout, Stderr *os.File

	impl process
}

// Done is closed when the leader has ended.
func (p *Process) Done() <-chan struct{} { return p.impl.done() }

// Gone is closed when no process of the tree is left.
func (p *Process) Gone() <-chan struct{} { return p.impl.gone() }

// Exit tells how the leader ended; valid once Done is closed. A leader whose
// end nobody saw, because the helper was killed, counts as killed.
func (p *Process) Exit() Exit { return p.impl.exit() }

// Wait waits for the leader's end. Its descendants may live on.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.Done():
		return p.Exit(), nil
	case <-ctx.Done():
		return Exit{}, ctx.Err()
	}
}

// Signal sends sig to a part of the tree. ErrGone: nobody is there.
func (p *Process) Signal(t Target, sig syscall.Signal) error { return p.impl.signal(t, sig) }

// Resize changes the terminal's size; the foreground group is told.
func (p *Process) Resize(s Size) error { return p.impl.resize(s) }

// Foreground returns the terminal's foreground process group, in the server's
// own view; 0 if there is none.
func (p *Process) Foreground() (int, error) { return p.impl.foreground() }

// Members lists the tree's processes, the leader first if it lives; at most
// 4,096.
func (p *Process) Members() ([]Member, error) { return p.impl.members() }

// Refresh hides and protects further paths from the running tree, and once more
// those of the profile that somebody outside has replaced: a file's guard goes
// when the file does. Call it before each command of a session. It does nothing
// under None and in a weak sandbox.
func (p *Process) Refresh(ctx context.Context, hide, protect []string) error {
	return p.impl.refresh(ctx, hide, protect)
}

// PortOpen tells whether somebody listens on the TCP port of the loopback
// address, as the tree sees it.
func (p *Process) PortOpen(ctx context.Context, port uint16) (bool, error) {
	return p.impl.portOpen(ctx, port)
}

// Kill ends the tree, or what o.Keep does not spare of it, and returns when
// those processes are gone.
func (p *Process) Kill(ctx context.Context, o KillOptions) (Killed, error) {
	return p.impl.kill(ctx, o)
}

// Close ends what is left of the tree at once and releases its helper. It does
// not close the files. Every Process must be closed.
func (p *Process) Close() error { return p.impl.close() }

// closeFiles is for a process that nobody will get.
func (p *Process) closeFiles() {
	for _, f := range []*os.File{p.Terminal, p.Stdin, p.Stdout, p.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

type host interface {
	start(context.Context, Spec) (*Process, error)
	probe(context.Context, Profile) (Active, error)
	close() error
}

type process interface {
	done() <-chan struct{}
	gone() <-chan struct{}
	exit() Exit
	signal(Target, syscall.Signal) error
	resize(Size) error
	foreground() (int, error)
	members() ([]Member, error)
	refresh(ctx context.Context, hide, protect []string) error
	portOpen(context.Context, uint16) (bool, error)
	kill(context.Context, KillOptions) (Killed, error)
	close() error
}
