package terminal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal/output"
	"github.com/wasmtools/wasmtools/tool"
)

// unit is one tree of processes with its output: a process of exec, or a session.
//
// Locks are taken in the order: stream, unit, log. Whoever holds the unit's asks
// no stream.
type unit struct {
	m       *Manager
	id      string
	session bool
	tty     bool
	profile string
	shell   *shell // of a session
	text    string // the command of a process
	nonce   string // of a session's prompts
	proc    *proctree.Process
	out     *stream
	errs    *stream // of a process without a terminal
	split   bool
	spool   string       // its file
	limit   atomic.Int64 // of the spool; 0 before there is one
	started time.Time

	typing  sync.Mutex // held while input is written
	ending  sync.Mutex // held while its programs are ended
	replies chan reply

	mu         sync.Mutex
	wake       chan struct{} // closed at the next change; nil if nobody waits
	cols, rows int
	prompt     bool     // the shell stands at its prompt
	ready      bool     // it has been there
	marks      bool     // it says so itself
	changed    bool     // its state may be another than at its start
	cmd        *command // the present or last one
	seen       int64    // how much of the output was given to the caller
	noted      time.Time
	timedOut   bool
	isOver     bool
	stuck      bool // something of it could not be ended
	exit       proctree.Exit
	ended      time.Time
	killed     proctree.Killed
	active     proctree.Active
	cwd        string // the last one seen
	done       chan struct{}
}

// command is a command of a session, a process as a whole, or what was typed at a
// shell's prompt.
type command struct {
	text    string
	nonce   string
	file    string
	sent    bool // typed, so that only the prompt tells its end
	broken  bool // and ctrl-C after it; zsh then only draws its prompt again
	typed   bool // the shell has been told
	late    bool // a prompt of before it may still come
	keep    []proctree.Member
	started time.Time
	timer   *time.Timer

	// With the unit's lock held:
	began    bool
	beganAt  time.Time // of what a shell was given
	from     int64     // where its output begins
	over     bool
	ended    time.Time
	end      int64
	code     int
	signal   syscall.Signal
	state    State // Finished, KilledByTimeout, SessionEnded, Failed
	timedOut bool
	binary   bool
	note     string
	killed   []proctree.Member
	done     chan struct{} // closed at its end
	settled  chan struct{} // closed when what a timeout did is done; nil before
}

func newCommand(text string) *command {
	return &command{text: text, started: time.Now(), done: make(chan struct{})}
}

// changes gives a channel that is closed at the next change.
func (u *unit) changes() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wake == nil {
		u.wake = make(chan struct{})
	}
	return u.wake
}

// notify tells those who wait; u.mu is held.
func (u *unit) notify() {
	if u.wake != nil {
		close(u.wake)
		u.wake = nil
	}
}

func (u *unit) over() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isOver
}

func (u *unit) endedAt() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// current is the present or last command; nil before the first.
func (u *unit) current() *command {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cmd
}

// launch starts u's process and what goes with it.
func (u *unit) launch(ctx context.Context, s proctree.Spec) error {
	p, err := u.m.profile(ctx, u.profile)
	if err != nil {
		return err
	}
	s.Profile, s.Limits = p, u.m.o.Limits
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if p.Weak && p.Tmp != "" {
		// Without a view of its own the tree's /tmp stands where it is.
		if a, err := u.m.host.Probe(ctx, p); err == nil && len(a.Gaps) > 0 {
			s.Env = append(s.Env, "TMPDIR="+p.Tmp)
			for i, kv := range s.Env {
				if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(value, ownCache) {
					s.Env[i] = name + "=" + p.Tmp + strings.TrimPrefix(value, "/tmp")
				}
			}
		}
	}
	u.proc, err = u.m.host.Start(ctx, s)
	if err != nil {
		return startError(err)
	}
	u.active = u.proc.Active
	log := output.NewLog(nil, 0)
	u.spool = filepath.Join(u.m.dir, spoolDir, u.id)
	u.out = newStream(log)
	path := u.spool
	u.out.first = func() { u.spoolTo(log, path) }
	if !u.tty {
		u.out.make = func() *output.Log {
			l := output.NewLog(nil, 0)
			u.spoolTo(l, path+asItCame)
			return l
		}
	}
	u.out.changed = u.changedOutput
	u.started = time.Now()
	u.done = make(chan struct{})
	if u.tty {
		setUp(u.proc.Terminal)
		u.out.raw = &rawTail{}
		u.out.raw.resized(u.cols, u.rows)
		u.out.clean.Width = u.cols
		u.out.mark, u.out.ours = u.gotOSC, u.isOurs
		u.out.clean.Control = u.gotControl
	} else if u.proc.Stderr != nil {
		errLog := log
		if u.split {
			errLog = output.NewLog(nil, 0)
		}
		u.errs = newStream(errLog)
		u.errs.changed = u.changedOutput
		if !u.split {
			u.errs.join = u.out
		}
	}
	if err := u.m.add(u); err != nil {
		u.closeFiles()
		u.proc.Close()
		log.Close()
		return err
	}
	u.m.journal.write(entry{ID: u.id, Boot: u.m.boot, Pid: u.proc.Pid, Start: u.proc.Start, Command: clip(u.text), Profile: u.profile})
	u.mu.Lock()
	u.event(Event{Kind: Spawned, Command: clip(u.text), Sandbox: sandboxText(u.active, true)})
	u.mu.Unlock()
	if u.tty {
		u.replies = make(chan reply, maxReplies)
		go u.answerQuestions()
		u.out.pump(u.proc.Terminal)
	} else {
		u.out.pump(u.proc.Stdout)
		if u.errs != nil {
			u.errs.pump(u.proc.Stderr)
		}
	}
	go u.supervise()
	return nil
}

// startTime bounds the start of a process: a spawn that is stuck is an error.
const startTime = 5 * time.Second

func (u *unit) closeFiles() {
	for _, f := range []*os.File{u.proc.Terminal, u.proc.Stdin, u.proc.Stdout, u.proc.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// finish ends a command; u.mu is held.
func (u *unit) finish(c *command, state State, end int64, binary bool) {
	if c.over {
		return
	}
	c.over, c.state, c.end, c.ended, c.binary = true, state, end, time.Now(), binary
	if c.timedOut {
		c.state = KilledByTimeout
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.file != "" {
		os.Remove(c.file)
	}
	u.event(Event{
		Kind: Ended, Command: clip(c.text), State: c.state, ExitCode: c.code, Signal: nameOf(c.signal),
		Duration: c.ended.Sub(c.started), Bytes: end - c.from, Killed: names(c.killed),
	})
	close(c.done)
	u.notify()
}

// changedOutput is told that output came.
func (u *unit) changedOutput() {
	size := u.out.log.Size()
	u.mu.Lock()
	if limit := u.limit.Load(); limit > 0 && size > limit && time.Since(u.noted) > time.Second {
		u.noted = time.Now()
		u.m.journal.write(entry{ID: u.id, Size: size})
	}
	u.notify()
	u.mu.Unlock()
}

// typeIn writes to the terminal, in pieces that a line discipline takes.
func (u *unit) typeIn(p []byte, within time.Duration) error {
	u.typing.Lock()
	defer u.typing.Unlock()
	return u.write(p, within)
}

// write is typeIn for who holds u.typing.
func (u *unit) write(p []byte, within time.Duration) error {
	f := u.proc.Terminal
	deadline := time.Now().Add(within)
	for len(p) > 0 {
		if err := f.SetWriteDeadline(deadline); err != nil {
			return err
		}
		n, err := f.Write(p[:min(len(p), 1024)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// startError says in words of this package why a process did not start.
func startError(err error) error {
	var start *proctree.StartError
	var no *proctree.UnavailableError
	switch {
	case asError(err, &no):
		return tool.Errorf(tool.NotAvailable, "the sandbox profile %s cannot be had here: %s", no.Profile, no.Reason).
			WithNext("tell the user; nothing was run, and nothing runs with more rights than asked").Because(err)
	case asError(err, &start):
		what := start.Err.Error()
		switch start.Op {
		case "working directory":
			return tool.Errorf(tool.NotFound, "the working directory cannot be entered: %s", what).
				WithNext("give a cwd that exists, and that the sandbox shows").Because(err)
		case "program":
			return tool.Errorf(tool.NotAvailable, "the program could not be started: %s", what).Because(err)
		}
		return tool.Errorf(tool.NotAvailable, "nothing could be started (%s): %s", start.Op, what).
			WithNext("try again; if it stays so, tell the user").Because(err)
	case err == proctree.ErrMoved:
		return tool.Errorf(tool.ApprovalMismatch, "the working directory was replaced since it was looked at").Because(err)
	case err == proctree.ErrClosed:
		return errClosed()
	}
	return err
}

func (u *unit) String() string { return fmt.Sprintf("%s (%s)", u.id, clip(u.text)) }
