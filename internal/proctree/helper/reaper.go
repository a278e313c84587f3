//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

// reaper starts one tree at a time. All orphans below it become its children,
// so a tree has ended exactly when the kernel says that there are no children.
type reaper struct {
	conn   *wire.Conn
	role   string
	boxed  bool
	box    *sandbox
	group  *cgroup
	limit  uint64 // of processes, where the user namespace counts them
	births chan birth

	mu   sync.Mutex
	gone chan struct{} // closed when the running tree has ended; nil if there is none

	// pass is held while signals go out and while a tree's end is announced: one
	// for this tree must not hit the next.
	pass sync.Mutex
}

// birth is a start for the thread that starts programs, which also answers, and
// waits for the tree: each hand-over between threads costs a start some 5 %.
type birth struct {
	start  *wire.Start
	attr   *syscall.ProcAttr
	open   []int // closed when the program has them
	master int   // of the terminal; -1 without one
	gone   chan struct{}

	// Where processes are limited: who may set limits is told the number, 0 if
	// nothing was started, and closes fixed.
	pid   chan int
	fixed chan struct{}
}

func runReaper(conn *wire.Conn, role string) int {
	if err := prctl(prSetChildSubreaper, 1, 0); err != nil {
		return exitFailed
	}
	// Nobody reads this process's memory: a program in the sandbox shares its
	// user, and the thread that starts it shares its sandbox.
	if err := prctl(prSetDumpable, 0, 0); err != nil {
		return exitFailed
	}
	r := &reaper{conn: conn, role: role, boxed: role != RoleReaper}
	for {
		f, err := conn.Receive()
		if err != nil {
			break
		}
		r.serve(&f)
		f.CloseFiles()
	}
	r.hangup()
	if r.group != nil {
		r.group.remove()
	}
	return exitDone
}

func (r *reaper) serve(f *wire.Frame) {
	switch f.Type {
	case wire.TypeSetup:
		r.setup(f)
	case wire.TypeStart:
		r.start(f)
	case wire.TypeEnd:
		if gone := r.running(); gone != nil {
			go r.killAll(gone)
		}
	case wire.TypeRefresh:
		r.refresh(f)
	case wire.TypePort:
		var p wire.Port
		if p.Decode(f.Body) == nil {
			go r.port(p)
		}
	}
}

func (r *reaper) send(t wire.Type, body []byte, files ...int) {
	// A server that is gone shows as the end of what it sends.
	r.conn.Send(wire.Frame{Type: t, Body: body, Files: files})
}

func (r *reaper) refuse(m wire.Refused) { r.send(wire.TypeRefused, m.Encode()) }

// setup prepares the sandbox, and the thread that starts programs in it.
func (r *reaper) setup(f *wire.Frame) {
	var s wire.Setup
	if r.box != nil || s.Decode(f.Body) != nil {
		r.refuse(wire.Refused{Op: "setup", Errno: uint32(syscall.EPROTO)})
		return
	}
	box, reason := prepare(&s, r.role)
	if reason != "" {
		r.refuse(wire.Refused{Op: "profile", Reason: reason})
		return
	}
	if s.Profile == "none" {
		if r.group = newCgroup(cgroupBase(), os.Getpid(), s.Processes); r.group != nil {
			box.ready.Means = append(box.ready.Means, "cgroup")
			box.ready.Processes = r.group.most > 0
		}
	}
	if r.role == RoleBoxed && os.Getuid() != 0 { // the kernel never limits root's
		r.limit, box.ready.Processes = s.Processes, s.Processes > 0
	}
	births, ready := make(chan birth), make(chan error)
	go r.midwife(box, births, ready)
	if err := <-ready; err != nil {
		r.refuse(wire.Refused{Op: "profile", Reason: "restricting: " + err.Error()})
		return
	}
	r.box, r.births = box, births
	r.send(wire.TypeReady, box.ready.Encode())
}

// midwife starts programs, and waits for them, on one thread for the reaper's whole life. That
// thread alone is in the sandbox, so the reaper can still mount, signal and
// connect; and since a parent's death signal is bound to the thread, it must
// not end before the reaper. Its thread ends with the goroutine if restricting
// failed half-way.
func (r *reaper) midwife(box *sandbox, births <-chan birth, ready chan<- error) {
	runtime.LockOSThread()
	err := box.restrict()
	ready <- err
	if err != nil {
		return
	}
	for b := range births {
		pidfd := -1
		b.attr.Sys.PidFD = &pidfd
		pid, err := syscall.ForkExec(b.start.Path, b.start.Argv, b.attr)
		if b.pid != nil {
			b.pid <- pid
			<-b.fixed
		}
		r.answer(&b, pid, pidfd, err)
		if err == nil {
			r.reap(pid, b.gone)
		}
	}
}

// answer says what came of b, whose descriptors are not needed any more.
func (r *reaper) answer(b *birth, pid, pidfd int, err error) {
	for _, fd := range b.open {
		syscall.Close(fd)
	}
	var files []int
	if pidfd >= 0 {
		defer syscall.Close(pidfd)
		files = append(files, pidfd)
	}
	if b.master >= 0 {
		defer syscall.Close(b.master)
		files = append(files, b.master)
	}
	if err != nil {
		r.over(b.gone)
		r.refuse(wire.Refused{Op: "program", Path: b.start.Path, Errno: errnoOf(err)})
		return
	}
	m := wire.Started{Pid: uint32(pid)}
	r.send(wire.TypeStarted, m.Encode(), files...)
}

// over notes that nothing runs any more.
func (r *reaper) over(gone chan struct{}) {
	r.pass.Lock()
	defer r.pass.Unlock()
	r.mu.Lock()
	r.gone = nil
	r.mu.Unlock()
	close(gone)
}

func (r *reaper) start(f *wire.Frame) {
	var s wire.Start
	switch {
	case s.Decode(f.Body) != nil || len(f.Files) != s.FileCount() || len(s.Argv) == 0:
		r.refuse(wire.Refused{Op: "start", Errno: uint32(syscall.EPROTO)})
		return
	case r.box == nil || r.running() != nil:
		r.refuse(wire.Refused{Op: "start", Errno: uint32(syscall.EBUSY)})
		return
	}
	if r.boxed {
		// What was mounted on a file that somebody has replaced since is gone.
		if err := r.box.refresh(nil, nil); err != nil {
			r.refuse(wire.Refused{Op: "sandbox", Errno: errnoOf(err)})
			return
		}
	}
	b := birth{start: &s, master: -1, gone: make(chan struct{})}
	given := false
	defer func() {
		if given {
			return
		}
		for _, fd := range append(b.open, b.master) {
			syscall.Close(fd)
		}
	}()
	next := 0
	take := func() int { next++; return f.Files[next-1] }

	dir, err := openPath(s.Dir, syscall.O_DIRECTORY)
	if err != nil {
		r.refuse(wire.Refused{Op: "working directory", Path: s.Dir, Errno: errnoOf(err)})
		return
	}
	b.open = append(b.open, dir)
	if s.Flags&wire.StartDirFile != 0 && !sameFile(dir, take()) {
		r.refuse(wire.Refused{Op: "moved", Path: s.Dir, Errno: uint32(syscall.ESTALE)})
		return
	}
	attr := &syscall.ProcAttr{
		// Through the descriptor: what was compared is what is entered.
		Dir: "/proc/self/fd/" + strconv.Itoa(dir), Env: s.Env, Files: make([]uintptr, 3),
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if s.Flags&wire.StartTTY != 0 {
		m, peer, err := openTerminal(s.Cols, s.Rows)
		if err != nil {
			r.refuse(wire.Refused{Op: "terminal", Errno: errnoOf(err)})
			return
		}
		b.master = m
		b.open = append(b.open, peer)
		attr.Files[0], attr.Files[1], attr.Files[2] = uintptr(peer), uintptr(peer), uintptr(peer)
		attr.Sys.Setctty = true
	} else {
		if s.Flags&wire.StartStdin != 0 {
			attr.Files[0] = uintptr(take())
		} else {
			null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			if err != nil {
				r.refuse(wire.Refused{Op: "standard input", Path: "/dev/null", Errno: errnoOf(err)})
				return
			}
			b.open = append(b.open, null)
			attr.Files[0] = uintptr(null)
		}
		attr.Files[1] = uintptr(take())
		attr.Files[2] = attr.Files[1]
		if s.Flags&wire.StartMerge == 0 {
			attr.Files[2] = uintptr(take())
		}
	}
	if r.group != nil && !r.group.renew() {
		r.group = nil
		if r.box.ready.Processes {
			r.refuse(wire.Refused{Op: "cgroup", Errno: uint32(syscall.EIO)})
			return
		}
	}
	if r.group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, r.group.fd
	}
	b.attr = attr
	b.open, f.Files = append(b.open, f.Files...), nil
	given = true
	r.mu.Lock()
	r.gone = b.gone
	r.mu.Unlock()
	if r.limit == 0 {
		r.births <- b
		return
	}
	b.pid, b.fixed = make(chan int), make(chan struct{})
	fix := processLimit(r.limit)
	r.births <- b
	fix(<-b.pid)
	close(b.fixed)
}

// running returns what is closed when the tree has ended; nil if none runs.
func (r *reaper) running() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// reap waits for everybody, until nobody is left. A leader that was alone ends
// with one message.
func (r *reaper) reap(leader int, gone chan struct{}) {
	var exited []wire.Frame
	flags := 0
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, flags, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			r.over(gone)
			r.conn.Send(append(exited, wire.Frame{Type: wire.TypeGone})...)
			return
		case pid == leader:
			m := wire.Exited{Status: uint32(ws), User: uint64(ru.Utime.Nano()), System: uint64(ru.Stime.Nano())}
			exited, flags = []wire.Frame{{Type: wire.TypeExited, Body: m.Encode()}}, syscall.WNOHANG
		case pid == 0:
			r.conn.Send(exited...)
			exited, flags = nil, 0
		}
	}
}

// signalAll sends sig to everything below, unless that is gone. In a box it is
// all there is, and the kernel forgets nobody.
func (r *reaper) signalAll(gone chan struct{}, sig syscall.Signal) {
	r.pass.Lock()
	defer r.pass.Unlock()
	if ended(gone) {
		return
	}
	if r.boxed {
		syscall.Kill(-1, sig)
		return
	}
	if sig == syscall.SIGKILL && r.group != nil {
		r.group.kill()
	}
	for _, p := range walk.Descendants(os.Getpid(), false) {
		walk.Signal(p, sig)
	}
}

func ended(gone chan struct{}) bool {
	select {
	case <-gone:
		return true
	default:
		return false
	}
}

// killAll kills until nobody is left. Stopping first keeps those that fork from
// being faster than a list of them.
func (r *reaper) killAll(gone chan struct{}) {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if !r.boxed {
			r.signalAll(gone, syscall.SIGSTOP)
		}
		r.signalAll(gone, syscall.SIGKILL)
		select {
		case <-gone:
			return
		case <-time.After(pause):
		}
	}
}

// hangup is the end of the server, or its last word about this tree.
func (r *reaper) hangup() {
	gone := r.running()
	if gone == nil {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT} {
		r.signalAll(gone, sig)
	}
	select {
	case <-gone:
	case <-time.After(termGrace):
		r.killAll(gone)
	}
}

// refresh hides and protects what the server knows of by now.
func (r *reaper) refresh(f *wire.Frame) {
	var m wire.Refresh
	answer := wire.Refused{Op: "sandbox"}
	switch {
	case m.Decode(f.Body) != nil:
		answer.Errno = uint32(syscall.EPROTO)
	case r.box == nil || !r.boxed:
		answer.Errno = uint32(syscall.ENOTSUP)
	default:
		if err := r.box.refresh(m.Hide, m.Protect); err != nil {
			answer.Errno = errnoOf(err)
		}
	}
	r.send(wire.TypeRefreshed, answer.Encode())
}

// portTimeout bounds a connection to the loopback address: one that takes
// longer is one that nobody accepts.
const portTimeout = 250 * time.Millisecond

func (r *reaper) port(p wire.Port) {
	m := wire.PortState{Seq: p.Seq}
	m.Open = dial(&syscall.SockaddrInet4{Port: int(p.Number), Addr: [4]byte{127, 0, 0, 1}}, syscall.AF_INET) ||
		dial(&syscall.SockaddrInet6{Port: int(p.Number), Addr: [16]byte{15: 1}}, syscall.AF_INET6)
	r.send(wire.TypePortState, m.Encode())
}

func dial(to syscall.Sockaddr, family int) bool {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	if err = syscall.Connect(fd, to); err != syscall.EINPROGRESS {
		return err == nil
	}
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: 4} // POLLOUT
	limit := syscall.NsecToTimespec(int64(portTimeout))
	for {
		n, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n != 1 {
			return false
		}
		code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
		return err == nil && code == 0
	}
}

func sameFile(a, b int) bool {
	var x, y syscall.Stat_t
	return syscall.Fstat(a, &x) == nil && syscall.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}
