//go:build unix

package server

import (
	"io"
	"os"
	"syscall"
	"time"
)

// pollable gives standard input as a file that the scheduler waits for, and a
// function that makes the input block again, for whoever has it too, and closes
// both. A read that blocks its thread keeps the processor
// on which the call that was just read should run: on an idle machine that
// doubled the time of a call. It leaves alone what is no pipe or socket, and what
// may be the same open file as the output, which would stop blocking too.
func pollable(in io.Reader, out io.Writer) (io.Reader, func()) {
	f, ok := in.(*os.File)
	if !ok || f.SetReadDeadline(time.Time{}) == nil { // it is one already
		return in, func() {}
	}
	var own *os.File
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) {
			var st, to syscall.Stat_t
			if syscall.Fstat(int(fd), &st) != nil || !isStream(&st) {
				return
			}
			if o, ok := out.(*os.File); ok && (!stat(o, &to) || st.Dev == to.Dev && st.Ino == to.Ino) {
				return
			}
			syscall.ForkLock.RLock()
			n, err := syscall.Dup(int(fd))
			if err == nil {
				syscall.CloseOnExec(n)
			}
			syscall.ForkLock.RUnlock()
			if err != nil {
				return
			}
			if syscall.SetNonblock(n, true) != nil {
				_ = syscall.Close(n)
				return
			}
			own = os.NewFile(uintptr(n), f.Name())
		})
	}
	if own == nil {
		return in, func() {}
	}
	return own, func() {
		if c, err := f.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { _ = syscall.SetNonblock(int(fd), false) })
		}
		_ = own.Close()
		_ = f.Close()
	}
}

func isStream(st *syscall.Stat_t) bool {
	kind := uint32(st.Mode) & syscall.S_IFMT
	return kind == syscall.S_IFIFO || kind == syscall.S_IFSOCK
}

func stat(f *os.File, st *syscall.Stat_t) bool {
	c, err := f.SyscallConn()
	if err != nil {
		return false
	}
	known := false
	_ = c.Control(func(fd uintptr) { known = syscall.Fstat(int(fd), st) == nil })
	return known
}
