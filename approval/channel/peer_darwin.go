package channel

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// caller is the process that connected. This system cannot hold it, so that a
// process which ends during the check may be mistaken for the next of its pid.
type caller struct {
	pid, uid int
}

func callerOf(c *net.UnixConn) (caller, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return caller{}, err
	}
	var who caller
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		who.uid = int(cred.Uid)
		who.pid, failed = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	return who, errors.Join(err, failed)
}

func (c caller) alive() bool { return unix.Kill(c.pid, 0) == nil }

func (c caller) release() {}

func listenerOf(c *net.UnixConn) (uid int, err error) {
	who, err := callerOf(c)
	return who.uid, err
}
