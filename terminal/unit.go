package terminal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	spool   string // its file
	started time.Time

	typing sync.Mutex // held while input is written

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
	typed   bool // the shell has been told
	late    bool // a prompt of before it may still come
	keep    []proctree.Member
	started time.Time
	timer   *time.Timer

	// With the unit's lock held:
	began    bool
	from     int64 // where its output begins
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
	p, err := u.m.profile(u.profile)
	if err != nil {
		return err
	}
	s.Profile, s.Limits = p, u.m.o.Limits
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	u.proc, err = u.m.host.Start(ctx, s)
	if err != nil {
		return startError(err)
	}
	u.active = u.proc.Active
	log := output.NewLog(nil, 0)
	u.spool = filepath.Join(u.m.dir, spoolDir, u.id)
	u.out = newStream(log)
	path := u.spool
	u.out.first = func() { spoolTo(log, path) }
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
	u.event(Event{Kind: Spawned, Command: clip(u.text), Sandbox: sandboxText(u.active)})
	u.mu.Unlock()
	if u.tty {
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

// supervise sees to the end of u.
func (u *unit) supervise() {
	<-u.proc.Done()
	u.drain()
	end := u.out.view()
	left := u.endRest()
	u.closeFiles()
	<-u.out.ended
	if u.errs != nil {
		<-u.errs.ended
	}
	u.proc.Close()

	u.mu.Lock()
	u.exit, u.ended, u.isOver = u.proc.Exit(), time.Now(), true
	if len(u.killed.Forced) == 0 {
		u.killed = left
	}
	state := SessionEnded
	if !u.session {
		state = Finished
	}
	if u.timedOut {
		state = KilledByTimeout
	}
	if c := u.cmd; c != nil && !c.over {
		c.code, c.signal = u.exit.Code, u.exit.Signal
		u.finish(c, state, u.out.log.Size(), end.binary)
	}
	u.event(Event{
		Kind: Gone, ExitCode: u.exit.Code, Signal: nameOf(u.exit.Signal), Duration: u.ended.Sub(u.started),
		Bytes: u.out.log.Size(), Killed: names(u.killed.Forced), Left: u.killed.Asked,
	})
	u.notify()
	u.mu.Unlock()
	if u.shell != nil {
		u.shell.remove()
	}
	u.trimSpool()
	u.m.journal.write(entry{ID: u.id, Ended: true})
	u.m.retire(u)
	close(u.done)
}

// endRest ends what a process that has ended itself leaves behind.
func (u *unit) endRest() proctree.Killed {
	moment := time.NewTimer(2 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-u.proc.Gone():
		return proctree.Killed{} // as nearly always
	case <-moment.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	left, _ := u.proc.Kill(ctx, proctree.KillOptions{Grace: leftGrace})
	return left
}

// drain waits until all output has come of a process that has ended: to the end
// of the stream, or, if others hold it open, to a moment of silence.
func (u *unit) drain() {
	const quiet, most = 100 * time.Millisecond, time.Second
	ended := make(chan struct{})
	go func() {
		<-u.out.ended
		if u.errs != nil {
			<-u.errs.ended
		}
		close(ended)
	}()
	stop := time.NewTimer(most)
	defer stop.Stop()
	for begin := time.Now(); ; {
		last := u.out.view().last
		if u.errs != nil {
			if l := u.errs.view().last; l.After(last) {
				last = l
			}
		}
		if last.Before(begin) {
			last = begin
		}
		silent := time.Since(last)
		if silent >= quiet {
			return
		}
		t := time.NewTimer(quiet - silent)
		select {
		case <-ended:
			t.Stop()
			return
		case <-stop.C:
			t.Stop()
			return
		case <-t.C:
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
	if size > output.SpoolBytes && time.Since(u.noted) > time.Second {
		u.noted = time.Now()
		u.m.journal.write(entry{ID: u.id, Size: size})
	}
	u.notify()
	u.mu.Unlock()
}

// isOurs tells our marks from OSC strings of programs.
func (u *unit) isOurs(osc []byte) bool {
	_, _, ok := u.mark(osc)
	return ok
}

// mark takes one of our marks apart: its letter, and the status that D and P tell.
func (u *unit) mark(osc []byte) (letter byte, code int, ok bool) {
	s, found := strings.CutPrefix(string(osc), "133;")
	if !found || len(s) < 3 || s[1] != ';' {
		return 0, 0, false
	}
	letter, s = s[0], s[2:]
	if letter == 'D' || letter == 'P' {
		status, rest, _ := strings.Cut(s, ";")
		n, err := strconv.Atoi(status)
		if err != nil {
			return 0, 0, false
		}
		code, s = n, rest
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch letter {
	case 'C', 'D':
		ok = u.cmd != nil && u.cmd.nonce != "" && s == u.cmd.nonce
	case 'P', 'A', 'B':
		ok = u.nonce != "" && s == u.nonce
	}
	return letter, code, ok
}

// gotOSC is told of OSC strings; the stream's lock is held.
func (u *unit) gotOSC(osc []byte) {
	letter, code, ok := u.mark(osc)
	if !ok {
		u.reply(answerOSC(osc))
		return
	}
	size := u.out.log.Size()
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.cmd
	switch letter {
	case 'A': // a prompt is drawn
		u.out.muted = true
	case 'B':
		u.out.muted = c != nil && !c.over && !c.began && !c.sent
	case 'C':
		u.out.muted = false
		u.out.separate()
		u.out.sniff = sniffer{}
		c.began, c.from = true, u.out.log.Size()
		u.event(Event{Kind: Began, Command: clip(c.text)})
		if c.file != "" {
			os.Remove(c.file)
		}
	case 'D':
		if c.began && !c.over {
			c.code = code
			u.finish(c, Finished, size, u.out.sniff.binary())
		}
	case 'P':
		first := !u.ready
		u.prompt, u.ready, u.marks = true, true, true
		switch {
		case first:
			u.out.muted = false
		case c == nil || c.over || !c.typed:
		case c.late && c.began: // a shell whose errors were redirected kept it back
			c.late, u.prompt = false, false
		case c.began || c.sent: // it was aborted, or typed
			c.code = code
			u.finish(c, Finished, size, u.out.sniff.binary())
		default:
			time.AfterFunc(takeTime, func() { u.refused(c) })
		}
		u.notify()
	}
}

// takeTime is how long after a prompt a shell that was told a command may begin
// with it; what it was told stands in its input already.
const takeTime = 500 * time.Millisecond

// refused ends a command that the shell did not take.
func (u *unit) refused(c *command) {
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.began || c.over {
		return
	}
	u.out.muted = false
	c.note = "the shell did not take the command: what it was prepared with at its start is not there any more"
	c.from = u.out.log.Size()
	u.finish(c, Failed, c.from, false)
}

// gotControl is told of escapes; the stream's lock is held.
func (u *unit) gotControl(params []byte, final byte) {
	switch final {
	case 'h', 'l':
		if p := string(params); p == "?1049" || p == "?47" || p == "?1047" {
			u.out.raw.alternate = final == 'h'
		}
	case 'n', 'c', 'q', 't', 'p':
		u.mu.Lock()
		cols, rows := u.cols, u.rows
		u.mu.Unlock()
		u.reply(answer(params, final, cols, rows, u.out.clean.Column()))
	}
}

// reply answers a question of a program; at the prompt nobody asked, or nobody
// would read it.
func (u *unit) reply(text string) {
	if text == "" {
		return
	}
	u.mu.Lock()
	asked := u.cmd != nil && !u.cmd.over && (u.cmd.began || u.cmd.sent) || u.session && !u.marks && u.ready
	u.mu.Unlock()
	if !asked {
		return
	}
	// A program that does not read must not hold up the reader of its output.
	go func() { _ = u.typeIn([]byte(text), time.Second) }()
}

// typeIn writes to the terminal, in pieces that a line discipline takes.
func (u *unit) typeIn(p []byte, within time.Duration) error {
	u.typing.Lock()
	defer u.typing.Unlock()
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

// end ends u, and returns when nothing of it is left.
func (u *unit) end(ctx context.Context) {
	if !u.over() {
		killed, _ := u.proc.Kill(context.WithoutCancel(ctx), proctree.KillOptions{Grace: killGrace})
		u.mu.Lock()
		u.killed = killed
		u.mu.Unlock()
	}
	<-u.done
}

// expire ends a process whose time is over.
func (u *unit) expire() {
	u.mu.Lock()
	u.timedOut = true
	u.mu.Unlock()
	killed, _ := u.proc.Kill(context.Background(), proctree.KillOptions{Grace: killGrace})
	u.mu.Lock()
	u.killed = killed
	u.mu.Unlock()
}

// interrupt ends a command of a session and leaves the shell, if it can.
func (u *unit) interrupt(c *command) {
	u.mu.Lock()
	if c.over || c.settled != nil {
		u.mu.Unlock()
		return
	}
	c.settled = make(chan struct{})
	u.mu.Unlock()
	defer close(c.settled)
	ctx, cancel := context.WithTimeout(context.Background(), killGrace+time.Second)
	defer cancel()
	wait := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-c.done:
			return true
		case <-u.done:
			return true
		case <-t.C:
			return false
		}
	}
	// As ctrl-C it makes the shell drop what stands behind the command, too.
	_ = u.proc.Signal(proctree.Foreground, syscall.SIGINT)
	if wait(200 * time.Millisecond) {
		u.endNew(ctx, c)
		return
	}
	u.endNew(ctx, c)
	if wait(100 * time.Millisecond) {
		return
	}
	for range 3 {
		_ = u.proc.Signal(proctree.Foreground, syscall.SIGINT)
		u.endNew(ctx, c)
		if wait(100 * time.Millisecond) {
			return
		}
	}
	u.end(context.Background())
}

// endNew ends what was not there when the command began.
func (u *unit) endNew(ctx context.Context, c *command) {
	killed, _ := u.proc.Kill(ctx, proctree.KillOptions{Grace: killGrace, Keep: c.keep})
	u.mu.Lock()
	c.killed = append(c.killed, killed.Forced...)
	u.mu.Unlock()
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

// names tells who had to be killed.
func names(k []proctree.Member) []string {
	var l []string
	for _, m := range k {
		if !slices.Contains(l, m.Name) {
			l = append(l, m.Name)
		}
	}
	return l
}

func (u *unit) String() string { return fmt.Sprintf("%s (%s)", u.id, clip(u.text)) }
