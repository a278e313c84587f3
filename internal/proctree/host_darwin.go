package proctree

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// On macOS a tree is what can be found: the leader's descendants and its process
// group. There are no helpers, so what has left both when its parent dies is
// lost, and a killed server leaves its trees to the hang-up of their terminals.

type darwinHost struct {
	mu     sync.Mutex
	closed bool
	trees  map[*darwinTree]bool
}

func newHost(Options) host { return &darwinHost{trees: map[*darwinTree]bool{}} }

func (h *darwinHost) probe(_ context.Context, p Profile) (Active, error) {
	s := Spec{Profile: p}
	if err := s.checkProfile(); err != nil {
		return Active{}, err
	}
	if p.Name != None {
		return Active{}, &UnavailableError{Profile: p.Name, Reason: "sandbox profiles exist on Linux only"}
	}
	return Active{Profile: None, Means: []string{"process group"}, Network: "host"}, nil
}

func (h *darwinHost) start(ctx context.Context, s Spec) (*Process, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	active, err := h.probe(ctx, s.Profile)
	if err != nil {
		return nil, err
	}
	if s.Limits != (Limits{}) {
		return nil, &StartError{Op: "limits", Err: errors.ErrUnsupported}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.Open(s.Dir)
	if err != nil {
		return nil, &StartError{Op: "working directory", Path: s.Dir, Err: errors.Unwrap(err)}
	}
	defer dir.Close()
	if s.DirFile != nil {
		a, aerr := dir.Stat()
		b, berr := s.DirFile.Stat()
		if aerr != nil || berr != nil || !os.SameFile(a, b) {
			return nil, ErrMoved
		}
	}
	t := &darwinTree{host: h, leaderDone: make(chan struct{}), allGone: make(chan struct{})}
	p := &Process{Active: active, impl: t}
	t.p = p
	theirs, attr, err := t.files(s)
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		p.closeFiles()
		return nil, ErrClosed
	}
	leader, err := os.StartProcess(s.Path, s.Argv, attr)
	if err != nil {
		p.closeFiles()
		return nil, &StartError{Op: "program", Path: s.Path, Err: errors.Unwrap(err)}
	}
	p.Pid = leader.Pid
	for _, m := range t.list() {
		if m.Pid == p.Pid {
			p.Start = m.Start
		}
	}
	h.trees[t] = true
	go t.wait(leader)
	return p, nil
}

func (h *darwinHost) close() error {
	h.mu.Lock()
	h.closed = true
	var trees []*darwinTree
	for t := range h.trees {
		trees = append(trees, t)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, t := range trees {
		wg.Go(func() {
			t.kill(ctx, KillOptions{Grace: time.Second})
			t.close()
		})
	}
	wg.Wait()
	return nil
}

type darwinTree struct {
	host *darwinHost
	p    *Process

	leaderDone, allGone chan struct{}
	status              Exit

	mu    sync.Mutex
	known map[int]uint64 // number and start of those found so far
}

// files opens what the leader gets; what is returned is to be closed when it
// has started.
func (t *darwinTree) files(s Spec) (theirs []*os.File, attr *os.ProcAttr, err error) {
	attr = &os.ProcAttr{Dir: s.Dir, Env: s.Env, Files: make([]*os.File, 3), Sys: &syscall.SysProcAttr{Setsid: true}}
	if s.Env == nil {
		attr.Env = []string{}
	}
	if s.TTY != nil {
		master, peer, err := openTerminal(*s.TTY)
		if err != nil {
			return nil, nil, &StartError{Op: "terminal", Err: err}
		}
		t.p.Terminal = master
		attr.Files = []*os.File{peer, peer, peer}
		attr.Sys.Setctty = true
		return []*os.File{peer}, attr, nil
	}
	pipe := func(ours **os.File, i int) error {
		r, w, err := os.Pipe()
		if err != nil {
			return &StartError{Op: "pipe", Err: err}
		}
		if i == 0 {
			r, w = w, r
		}
		*ours, attr.Files[i] = r, w
		theirs = append(theirs, w)
		return nil
	}
	if s.Stdin {
		err = pipe(&t.p.Stdin, 0)
	} else {
		attr.Files[0], err = os.Open(os.DevNull)
		if err == nil {
			theirs = append(theirs, attr.Files[0])
		}
	}
	if err == nil {
		err = pipe(&t.p.Stdout, 1)
	}
	attr.Files[2] = attr.Files[1]
	if err == nil && !s.Merge {
		err = pipe(&t.p.Stderr, 2)
	}
	return theirs, attr, err
}

func openTerminal(size Size) (master, peer *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	var name [128]byte
	if err = unix.IoctlSetInt(fd, unix.TIOCPTYGRANT, 0); err == nil {
		err = unix.IoctlSetInt(fd, unix.TIOCPTYUNLK, 0)
	}
	if err == nil {
		err = ptyName(fd, &name)
	}
	if err == nil {
		peer, err = os.OpenFile(string(name[:slices.Index(name[:], 0)]), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil { // the size belongs to an opened terminal here
		err = unix.IoctlSetWinsize(int(peer.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
		if err != nil {
			peer.Close()
		}
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, peer, nil
}

// wait follows the leader, and then looks now and then whether others are left.
func (t *darwinTree) wait(leader *os.Process) {
	st, err := leader.Wait()
	t.status = Exit{Code: -1, Signal: syscall.SIGKILL}
	if err == nil {
		t.status = Exit{Code: st.ExitCode(), UserTime: st.UserTime(), SystemTime: st.SystemTime()}
		if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			t.status.Signal = ws.Signal()
		}
	}
	close(t.leaderDone)
	for pause := 10 * time.Millisecond; len(t.list()) > 0; pause = min(2*pause, time.Second) {
		time.Sleep(pause)
	}
	close(t.allGone)
}

// list finds the leader, its group, and the descendants of all that was ever
// found.
func (t *darwinTree) list() []Member {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	byPid := map[int]Member{}
	for i := range all {
		k := &all[i]
		m := Member{Pid: int(k.Proc.P_pid), Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid), State: stateOf(k.Proc.P_stat)}
		m.Start = uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
		m.Name = unix.ByteSliceToString(k.Proc.P_comm[:])
		byPid[m.Pid] = m
	}
	for pid, start := range t.known {
		if m, ok := byPid[pid]; !ok || m.Start != start {
			delete(t.known, pid)
		}
	}
	if t.known == nil {
		t.known = map[int]uint64{}
	}
	for found := true; found; {
		found = false
		for pid, m := range byPid {
			if _, ok := t.known[pid]; ok || pid <= 1 {
				continue
			}
			if _, child := t.known[m.Parent]; child || m.Group == t.p.Pid || pid == t.p.Pid {
				t.known[pid], found = m.Start, true
			}
		}
	}
	var l []Member
	for pid := range t.known {
		m := byPid[pid]
		if m.State == 'Z' || len(l) >= 4096 {
			continue
		}
		m.Session, _ = unix.Getsid(pid)
		l = append(l, m)
	}
	slices.SortFunc(l, func(a, b Member) int {
		switch {
		case a.Pid == t.p.Pid:
			return -1
		case b.Pid == t.p.Pid:
			return 1
		}
		return a.Pid - b.Pid
	})
	return l
}

// stateOf translates p_stat.
func stateOf(s int8) byte {
	const states = "?IRSTZ"
	if s < 0 || int(s) >= len(states) {
		return '?'
	}
	return states[s]
}

func (t *darwinTree) done() <-chan struct{} { return t.leaderDone }
func (t *darwinTree) gone() <-chan struct{} { return t.allGone }

func (t *darwinTree) exit() Exit {
	<-t.leaderDone
	return t.status
}

func (t *darwinTree) members() ([]Member, error) { return t.list(), nil }

func (t *darwinTree) refresh(context.Context, []string, []string) error { return nil }

func (t *darwinTree) foreground() (int, error) {
	var group int
	err := t.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group, err
}

func (t *darwinTree) resize(s Size) error {
	return t.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}

func (t *darwinTree) control(do func(fd int) error) error {
	if t.p.Terminal == nil {
		return errors.ErrUnsupported
	}
	c, err := t.p.Terminal.SyscallConn()
	if err != nil {
		return err
	}
	cerr := c.Control(func(fd uintptr) { err = do(int(fd)) })
	return errors.Join(cerr, err)
}

func (t *darwinTree) signal(target Target, sig syscall.Signal) error {
	if target == Foreground && t.p.Terminal != nil {
		group, err := t.foreground()
		if err != nil || group <= 1 {
			return ErrGone
		}
		return unix.Kill(-group, sig)
	}
	hit := false
	for _, m := range t.list() {
		if target == Foreground && m.Group != t.p.Pid || target == Session && m.Session != t.p.Pid {
			continue
		}
		hit = unix.Kill(m.Pid, sig) == nil || hit
	}
	if !hit {
		return ErrGone
	}
	return nil
}

func (t *darwinTree) portOpen(ctx context.Context, port uint16) (bool, error) {
	for _, to := range []unix.Sockaddr{
		&unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}, &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}},
	} {
		family := unix.AF_INET
		if _, six := to.(*unix.SockaddrInet6); six {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
		if err != nil {
			return false, err
		}
		unix.CloseOnExec(fd)
		err = unix.Connect(fd, to) // of this host: at once, or refused
		unix.Close(fd)
		if err == nil {
			return true, nil
		}
	}
	return false, ctx.Err()
}

func (t *darwinTree) kill(ctx context.Context, o KillOptions) (Killed, error) {
	targets := func() []Member {
		return slices.DeleteFunc(t.list(), func(p Member) bool {
			return slices.ContainsFunc(o.Keep, func(m Member) bool { return m.Pid == p.Pid && m.Start == p.Start })
		})
	}
	wait := func(limit time.Duration) (bool, error) {
		deadline := time.Now().Add(limit)
		for {
			if len(targets()) == 0 {
				return true, nil
			}
			if !time.Now().Before(deadline) {
				return false, nil
			}
			select {
			case <-ctx.Done():
				return false, ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	first := targets()
	k := Killed{Asked: len(first)}
	if len(first) == 0 {
		return k, nil
	}
	if o.Grace > 0 {
		signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}
		if t.p.Terminal != nil {
			signals = []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT}
		}
		for _, sig := range signals {
			for _, m := range first {
				unix.Kill(m.Pid, sig)
			}
		}
		if done, err := wait(o.Grace); done || err != nil {
			return k, err
		}
	}
	left := targets()
	k.ForcedTotal, k.Forced = len(left), left[:min(len(left), 32)]
	for {
		l := targets()
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, m := range l {
				unix.Kill(m.Pid, sig)
			}
		}
		if done, err := wait(2 * time.Millisecond); done || err != nil {
			return k, err
		}
	}
}

func (t *darwinTree) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := t.kill(ctx, KillOptions{})
	t.host.mu.Lock()
	delete(t.host.trees, t)
	t.host.mu.Unlock()
	return err
}
