package channel

import (
	"errors"

	"golang.org/x/sys/unix"
)

const supported = true

// Identify names a live process.
func Identify(pid int) (Process, error) {
	p, err := readProc(pid)
	return p.Process, err
}

func readProc(pid int) (proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	switch {
	case errors.Is(err, unix.EPERM):
		return proc{}, errHidden
	case err != nil || int(k.Proc.P_pid) != pid:
		return proc{}, errGone // an unknown pid answers nothing, which is EIO here
	}
	session, err := unix.Getsid(pid)
	if err != nil {
		return proc{}, errGone
	}
	p := proc{
		Process: Process{PID: pid, Start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)},
		parent:  int(k.Eproc.Ppid), session: session,
	}
	if k.Eproc.Tdev != -1 { // NODEV
		p.tty = uint64(uint32(k.Eproc.Tdev))
	}
	return p, nil
}
