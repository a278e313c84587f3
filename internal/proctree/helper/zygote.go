//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

const (
	// hangupGrace is what a reaper has after its server is gone to end its tree by
	// itself, and then the same again by force, before the zygote ends both. The
	// promise is that all is over within three seconds.
	hangupGrace = 2200 * time.Millisecond
	// termGrace is what programs have between SIGTERM and SIGKILL after the server
	// is gone.
	termGrace = time.Second
)

// zygote starts helpers and ends what dead ones leave. It is a subreaper: the
// descendants of a killed reaper become its children.
type zygote struct {
	conn *wire.Conn
	box  bool

	mu      sync.Mutex
	helpers map[int]bool
	births  *sync.Cond // a helper was started: there is something to wait for
	burials sync.WaitGroup
}

func runZygote(conn *wire.Conn, box bool) int {
	if err := prctl(prSetChildSubreaper, 1, 0); err != nil {
		return exitFailed
	}
	if box {
		raiseLoopback() // a box whose loopback is down has no network, which is less and not more
	}
	z := &zygote{conn: conn, box: box, helpers: map[int]bool{}}
	z.births = sync.NewCond(&z.mu)
	go z.reap()
	for {
		f, err := conn.Receive()
		if err != nil {
			break
		}
		z.serve(f)
		f.CloseFiles()
	}
	z.end()
	return exitDone
}

func (z *zygote) serve(f wire.Frame) {
	var s wire.Spawn
	if f.Type != wire.TypeSpawn || s.Decode(f.Body) != nil {
		z.refuse("request", syscall.EPROTO)
		return
	}
	sock, pid, err := z.spawn(s)
	if err != nil {
		z.refuse("helper", err)
		return
	}
	defer syscall.Close(sock)
	m := wire.Spawned{Pid: uint32(pid)}
	z.conn.Send(wire.Frame{Type: wire.TypeSpawned, Body: m.Encode(), Files: []int{sock}})
}

func (z *zygote) refuse(op string, err error) {
	r := wire.Refused{Op: op, Errno: errnoOf(err)}
	z.conn.Send(wire.Frame{Type: wire.TypeRefused, Body: r.Encode()})
}

// spawn starts a helper and returns the other end of its socket and its number.
func (z *zygote) spawn(s wire.Spawn) (sock, pid int, err error) {
	var role string
	sys := &syscall.SysProcAttr{Setsid: true}
	switch {
	case s.Kind == wire.KindReaper && !z.box:
		role = RoleReaper
	case s.Kind == wire.KindBox && !z.box:
		role = RoleBox
		sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
	case s.Kind == wire.KindWrapped && !z.box:
		role = RoleWrapped
	case s.Kind == wire.KindBoxed && z.box:
		role = RoleBoxed
		// A user namespace of its own too: the kernel counts processes by those.
		sys.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
		if s.OwnNet {
			sys.Cloneflags |= syscall.CLONE_NEWNET
		}
	default:
		return -1, 0, syscall.EINVAL
	}
	if sys.Cloneflags != 0 {
		sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = mappings()
		sys.AmbientCaps = []uintptr{capSysAdmin, capNetAdmin, capSetpcap}
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	defer syscall.Close(null)
	program, args, more := "/proc/self/exe", []string{"wasmtools-helper", Arg, role}, []uintptr(nil)
	if role == RoleWrapped {
		if program, args, more, err = wrapped(s, null); err != nil {
			return -1, 0, err
		}
	}
	ours, theirs, err := wire.Pair()
	if err != nil {
		return -1, 0, err
	}
	defer syscall.Close(theirs)
	z.mu.Lock()
	defer z.mu.Unlock()
	pid, err = syscall.ForkExec(program, args, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: append([]uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(theirs)}, more...), Sys: sys,
	})
	if err != nil {
		syscall.Close(ours)
		return -1, 0, err
	}
	z.helpers[pid] = true
	z.births.Signal()
	return ours, pid, nil
}

// mappings keep every id as it is: a box is there to take rights away, not to
// change names. Only root may map more than itself.
func mappings() (uid, gid []syscall.SysProcIDMap, setgroups bool) {
	if os.Getuid() == 0 {
		all := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
		if self, err := os.ReadFile("/proc/self/uid_map"); err == nil && !wholeMap(self) {
			all[0].Size = 1 // in a container: root is mapped for certain
		}
		return all, all, all[0].Size > 1
	}
	u, g := os.Getuid(), os.Getgid()
	return []syscall.SysProcIDMap{{ContainerID: u, HostID: u, Size: 1}}, []syscall.SysProcIDMap{{ContainerID: g, HostID: g, Size: 1}}, false
}

// wholeMap tells whether an uid_map has all ids.
func wholeMap(b []byte) bool {
	return slices.Equal(fields(lines(b)[0]), []string{"0", "0", "4294967295"})
}

// reap waits for everything that dies. A helper's death may have handed us
// its tree.
func (z *zygote) reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no children
			z.mu.Lock()
			for len(z.helpers) == 0 {
				z.births.Wait()
			}
			z.mu.Unlock()
		default:
			z.mu.Lock()
			helper := z.helpers[pid]
			if helper {
				z.burials.Go(func() { z.bury(pid) })
			}
			delete(z.helpers, pid)
			z.mu.Unlock()
		}
	}
}

// bury ends what a dead helper has left.
func (z *zygote) bury(pid int) {
	if base := cgroupBase(); base != "" && !z.box {
		dir := cgroupDir(base, pid)
		writeFile(dir+"/cgroup.kill", "1")
		defer syscall.Rmdir(dir)
	}
	z.orphans()
}

// orphans ends all descendants that do not belong to a living helper. They get
// no SIGTERM: a reaper does not die by itself, so somebody is fighting.
func (z *zygote) orphans() {
	for range 1000 {
		z.mu.Lock()
		var lost []walk.Process
		for _, pid := range walk.Children(os.Getpid()) {
			if z.helpers[pid] {
				continue
			}
			if p, ok := walk.Stat(pid); ok && p.State != 'Z' {
				lost = append(lost, p)
			}
		}
		z.mu.Unlock()
		if len(lost) == 0 {
			return
		}
		for _, p := range lost {
			walk.Signal(p, syscall.SIGSTOP)
		}
		for _, p := range lost {
			for _, d := range walk.Descendants(p.Pid, false) {
				walk.Signal(d, syscall.SIGKILL)
			}
			walk.Signal(p, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// end is the server's end: the reapers have noticed it too, and have a time to
// finish.
func (z *zygote) end() {
	deadline := time.Now().Add(hangupGrace)
	for time.Now().Before(deadline) && !z.alone() {
		time.Sleep(5 * time.Millisecond)
	}
	for try := 0; try < 200 && !z.alone(); try++ {
		for _, p := range walk.Descendants(os.Getpid(), false) {
			walk.Signal(p, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	z.burials.Wait()
}

// alone tells that no helper lives and nothing that one has left.
func (z *zygote) alone() bool {
	z.mu.Lock()
	helpers := len(z.helpers)
	z.mu.Unlock()
	return helpers == 0 && len(walk.Descendants(os.Getpid(), false)) == 0
}

// raiseLoopback brings up the loopback device of an own network namespace.
func raiseLoopback() {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o'}, flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	ioctl(fd, syscall.SIOCSIFFLAGS, unsafe.Pointer(&request))
}
