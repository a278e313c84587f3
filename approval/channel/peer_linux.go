package channel

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// caller is the process that connected, held so that its pid cannot become
// another's.
type caller struct {
	pid, uid int
	pidfd    int
}

// callerOf asks the kernel who connected. The kernel noted it at connect: a
// descriptor that is handed on later changes nothing.
func callerOf(c *net.UnixConn) (caller, error) {
	raw, err := c.SyscallConn()
	who := caller{pidfd: -1}
	if err != nil {
		return who, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		who.pid, who.uid = int(cred.Pid), int(cred.Uid)
		if who.pid <= 0 { // in a process namespace that is not below ours
			failed = errHidden
			return
		}
		who.pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil { // before Linux 6.5, or the process has ended
			who.pidfd, err = unix.PidfdOpen(who.pid, 0)
		}
		if errors.Is(err, unix.ESRCH) {
			err = errGone
		}
		failed = err
	})
	return who, errors.Join(err, failed)
}

// listenerOf is the user whose process listens at the other end.
func listenerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		uid = int(cred.Uid)
	})
	return uid, errors.Join(err, failed)
}

// alive reports whether the process has not ended since it connected; as long
// as that is so, its pid is its own.
func (c caller) alive() bool {
	for {
		fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 0
	}
}

func (c caller) release() {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
}
