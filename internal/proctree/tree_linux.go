//go:build amd64 || arm64

package proctree

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// reaper is the server's end of a reaper.
type reaper struct {
	conn   *wire.Conn
	pid    int // as the server sees it
	key    string
	boxed  bool
	once   bool
	active Active

	asking  sync.Mutex // one question at a time
	answers chan wire.Frame

	mu    sync.Mutex
	tree  *tree
	ports map[uint32]chan bool
	seq   uint32
	dead  bool
}

// listen receives until the reaper is gone.
func (r *reaper) listen() {
	defer close(r.answers)
	for {
		f, err := r.conn.Receive()
		if err != nil {
			break
		}
		switch f.Type {
		case wire.TypeExited:
			var m wire.Exited
			if m.Decode(f.Body) == nil {
				r.exited(exitOf(m))
			}
		case wire.TypeGone:
			r.ended()
		case wire.TypePortState:
			var m wire.PortState
			if m.Decode(f.Body) == nil {
				r.portState(m)
			}
		default:
			select {
			case r.answers <- f:
				continue // its files go along
			default: // nobody has asked
			}
		}
		f.CloseFiles()
	}
	r.mu.Lock()
	r.dead = true
	for _, c := range r.ports {
		close(c)
	}
	r.ports = nil
	r.mu.Unlock()
	// The leader's end is unknown, but it has the reaper's death as its own.
	r.exited(Exit{Code: -1, Signal: syscall.SIGKILL})
	r.ended()
}

func exitOf(m wire.Exited) Exit {
	ws := syscall.WaitStatus(m.Status)
	e := Exit{Code: -1, UserTime: time.Duration(m.User), SystemTime: time.Duration(m.System)}
	if ws.Signaled() {
		e.Signal = ws.Signal()
	} else {
		e.Code = ws.ExitStatus()
	}
	return e
}

func (r *reaper) exited(e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tree; t != nil {
		t.once.Do(func() {
			t.status = e
			close(t.leaderDone)
		})
	}
}

func (r *reaper) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tree; t != nil {
		t.once.Do(func() { // a reaper says exited first
			t.status = Exit{Code: -1, Signal: syscall.SIGKILL}
			close(t.leaderDone)
		})
		close(t.allGone)
		r.tree = nil
	}
}

func (r *reaper) usable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.dead && r.tree == nil
}

// ask sends f and returns the answer. A reaper that does not answer in time is
// ended: what it would say later is nobody's.
func (r *reaper) ask(ctx context.Context, f wire.Frame) (wire.Frame, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	if err := r.conn.Send(f); err != nil {
		return wire.Frame{}, ErrClosed
	}
	timeout := time.NewTimer(helperTimeout)
	defer timeout.Stop()
	var err error
	select {
	case answer, ok := <-r.answers:
		if !ok {
			return wire.Frame{}, ErrClosed
		}
		return answer, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &StartError{Op: "helper", Err: syscall.ETIMEDOUT}
	}
	r.conn.Close()
	go func() {
		for f := range r.answers {
			f.CloseFiles()
		}
	}()
	return wire.Frame{}, err
}

// tree is a Process of Linux.
type tree struct {
	host *linuxHost
	r    *reaper
	p    *Process

	once       sync.Once
	leaderDone chan struct{}
	allGone    chan struct{}
	status     Exit
	closing    sync.Once
	closeErr   error
}

// start sends the order and waits for the leader.
func (r *reaper) start(ctx context.Context, s Spec) (*tree, *Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	m := wire.Start{Path: s.Path, Argv: s.Argv, Env: s.Env, Dir: s.Dir}
	p := &Process{Active: r.active}
	var theirs []*os.File // closed once they are sent
	var fds []int
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	fail := func(err error) (*tree, *Process, error) {
		p.closeFiles()
		return nil, nil, err
	}
	if s.DirFile != nil {
		m.Flags |= wire.StartDirFile
		fd, err := descriptor(s.DirFile)
		if err != nil {
			return fail(&StartError{Op: "working directory", Path: s.Dir, Err: err})
		}
		fds = append(fds, fd)
	}
	pipe := func(ours **os.File, read bool) error {
		a, b, err := os.Pipe()
		if err != nil {
			return &StartError{Op: "pipe", Err: errors.Unwrap(err)}
		}
		if !read {
			a, b = b, a
		}
		*ours = a
		theirs = append(theirs, b)
		// Fd makes it blocking, which programs expect of what they are given.
		fds = append(fds, int(b.Fd()))
		return nil
	}
	if s.TTY != nil {
		m.Flags |= wire.StartTTY
		m.Cols, m.Rows = s.TTY.Cols, s.TTY.Rows
	} else {
		if s.Stdin {
			m.Flags |= wire.StartStdin
			if err := pipe(&p.Stdin, false); err != nil {
				return fail(err)
			}
		}
		if err := pipe(&p.Stdout, true); err != nil {
			return fail(err)
		}
		if s.Merge {
			m.Flags |= wire.StartMerge
		} else if err := pipe(&p.Stderr, true); err != nil {
			return fail(err)
		}
	}
	t := &tree{r: r, p: p, leaderDone: make(chan struct{}), allGone: make(chan struct{})}
	p.impl = t
	r.mu.Lock()
	r.tree = t
	r.mu.Unlock()
	forget := func(err error) (*tree, *Process, error) {
		r.mu.Lock()
		if r.tree == t {
			r.tree = nil
		}
		r.mu.Unlock()
		return fail(err)
	}
	body := m.Encode()
	if len(body) > wire.MaxBody {
		return forget(&StartError{Op: "program", Path: s.Path, Err: syscall.E2BIG})
	}
	f, err := r.ask(ctx, wire.Frame{Type: wire.TypeStart, Body: body, Files: fds})
	runtime.KeepAlive(s.DirFile)
	if err != nil {
		return forget(err)
	}
	defer f.CloseFiles()
	var started wire.Started
	switch {
	case f.Type == wire.TypeRefused:
		return forget(refusal(f, s.Profile.Name))
	case f.Type != wire.TypeStarted || started.Decode(f.Body) != nil:
		r.conn.Close()
		return forget(wire.ErrFrame)
	}
	if s.TTY != nil {
		master := f.Take(len(f.Files) - 1)
		if master < 0 || unix.SetNonblock(master, true) != nil {
			r.conn.Close()
			return forget(wire.ErrFrame)
		}
		p.Terminal = os.NewFile(uintptr(master), "terminal")
	}
	p.Pid = int(started.Pid)
	if r.boxed {
		p.Pid = 0
		if len(f.Files) > 0 && f.Files[0] >= 0 {
			p.Pid = pidOf(f.Files[0])
		}
	}
	if st, ok := walk.Stat(p.Pid); ok && st.Parent == r.pid {
		p.Start = st.Start
	} else {
		p.Pid = 0
	}
	return t, p, nil
}

// descriptor returns f's number, and leaves its mode alone as Fd does not.
func descriptor(f *os.File) (int, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	err = c.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

// pidOf tells the number of a pidfd's process as we see it; 0 if it is gone.
func pidOf(pidfd int) int {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			n, err := strconv.Atoi(string(bytes.TrimSpace(v)))
			if err != nil || n < 0 {
				return 0
			}
			return n
		}
	}
	return 0
}

func (t *tree) done() <-chan struct{} { return t.leaderDone }
func (t *tree) gone() <-chan struct{} { return t.allGone }

func (t *tree) exit() Exit {
	<-t.leaderDone
	return t.status
}

func (t *tree) over() bool {
	select {
	case <-t.allGone:
		return true
	default:
		return false
	}
}

// list returns those below the reaper, leader first.
func (t *tree) list() []walk.Process {
	if t.over() {
		return nil
	}
	l := walk.Descendants(t.r.pid, false)
	if t.over() { // the reaper's number may belong to another tree by now
		return nil
	}
	if i := slices.IndexFunc(l, func(p walk.Process) bool { return p.Pid == t.p.Pid }); i > 0 {
		leader := l[i]
		l = slices.Insert(slices.Delete(l, i, i+1), 0, leader)
	}
	return l
}

func (t *tree) members() ([]Member, error) { return members(t.list()), nil }

func members(l []walk.Process) []Member {
	out := make([]Member, len(l))
	for i, p := range l {
		out[i] = Member(p)
	}
	return out
}

func (t *tree) signal(target Target, sig syscall.Signal) error {
	if target == Foreground && t.p.Terminal != nil {
		return t.signalForeground(sig)
	}
	hit := false
	var refused error
	for _, p := range t.list() {
		// The leader is its session's and its first group's leader, so its number
		// names both.
		if target == Foreground && p.Group != t.p.Pid || target == Session && p.Session != t.p.Pid {
			continue
		}
		switch err := walk.Signal(p, sig); err {
		case nil:
			hit = true
		case syscall.ESRCH:
		default:
			refused = err
		}
	}
	switch {
	case hit:
		return nil
	case refused != nil:
		return refused
	}
	return ErrGone
}

// signalForeground lets the terminal itself find the group, where it can: no
// moment passes in which the group may change.
func (t *tree) signalForeground(sig syscall.Signal) error {
	var err error
	cerr := t.control(func(fd int) {
		if err = unix.IoctlSetInt(fd, unix.TIOCSIG, int(sig)); err == nil {
			return
		}
		var group int
		if group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil {
			if group <= 1 {
				err = unix.ESRCH
				return
			}
			err = unix.Kill(-group, sig)
		}
	})
	if cerr != nil {
		return cerr
	}
	if err == unix.ESRCH || err == unix.ENOTTY || err == unix.EIO {
		return ErrGone
	}
	return err
}

func (t *tree) control(do func(fd int)) error {
	if t.p.Terminal == nil {
		return errors.ErrUnsupported
	}
	c, err := t.p.Terminal.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
}

func (t *tree) resize(s Size) error {
	var err error
	if cerr := t.control(func(fd int) {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	}); cerr != nil {
		return cerr
	}
	return err
}

func (t *tree) foreground() (int, error) {
	var group int
	var err error
	if cerr := t.control(func(fd int) { group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP) }); cerr != nil {
		return 0, cerr
	}
	if err != nil || group < 0 {
		return 0, err
	}
	return group, nil
}

func (t *tree) refresh(ctx context.Context, hide, protect []string) error {
	if !t.r.boxed || t.over() {
		return nil
	}
	f, err := t.r.ask(ctx, wire.Frame{Type: wire.TypeRefresh, Body: (&wire.Refresh{Hide: hide, Protect: protect}).Encode()})
	if err != nil {
		return err
	}
	defer f.CloseFiles()
	var m wire.Refused
	if f.Type != wire.TypeRefreshed || m.Decode(f.Body) != nil {
		return wire.ErrFrame
	}
	if m.Errno != 0 {
		return &StartError{Op: m.Op, Path: m.Path, Err: syscall.Errno(m.Errno)}
	}
	return nil
}

func (r *reaper) portState(m wire.PortState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.ports[m.Seq]; ok {
		delete(r.ports, m.Seq)
		c <- m.Open
		close(c)
	}
}

func (t *tree) portOpen(ctx context.Context, port uint16) (bool, error) {
	r := t.r
	answer := make(chan bool, 1)
	r.mu.Lock()
	if r.dead || r.tree != t {
		r.mu.Unlock()
		return false, ErrGone
	}
	if r.ports == nil {
		r.ports = map[uint32]chan bool{}
	}
	r.seq++
	m := wire.Port{Seq: r.seq, Number: port}
	r.ports[m.Seq] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.ports, m.Seq)
		r.mu.Unlock()
	}()
	if err := r.conn.Send(wire.Frame{Type: wire.TypePort, Body: m.Encode()}); err != nil {
		return false, ErrGone
	}
	select {
	case open, ok := <-answer:
		if !ok {
			return false, ErrGone
		}
		return open, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
