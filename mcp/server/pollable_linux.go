package server

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// pollable gives standard input, if it is a pipe, as a file that the scheduler
// waits for, and a function that closes both. A read that blocks its thread keeps
// the processor on which the call that was just read should run: on an idle
// machine that doubled the time of a call. The pipe is opened anew, because not
// to block is a property of the open file, which others may have too.
func pollable(in io.Reader) (io.Reader, func()) {
	f, ok := in.(*os.File)
	if !ok || f.SetReadDeadline(time.Time{}) == nil { // it is one already
		return in, func() {}
	}
	own := -1
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) {
			var st syscall.Stat_t
			if syscall.Fstat(int(fd), &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO {
				own, _ = syscall.Open("/proc/self/fd/"+strconv.Itoa(int(fd)), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
			}
		})
	}
	if own < 0 {
		return in, func() {}
	}
	p := os.NewFile(uintptr(own), f.Name())
	return p, func() {
		_ = p.Close()
		_ = f.Close()
	}
}
