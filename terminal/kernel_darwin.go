package terminal

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

func control(f *os.File, do func(fd int)) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return c.Control(func(fd uintptr) { do(int(fd)) })
}

func modes(master *os.File) (canonical, echo, ok bool) {
	err := control(master, func(fd int) {
		if t, err := unix.IoctlGetTermios(fd, unix.TIOCGETA); err == nil {
			canonical, echo, ok = t.Lflag&unix.ICANON != 0, t.Lflag&unix.ECHO != 0, true
		}
	})
	return canonical, echo, ok && err == nil
}

func setUp(master *os.File) {
	_ = control(master, func(fd int) {
		if t, err := unix.IoctlGetTermios(fd, unix.TIOCGETA); err == nil {
			t.Iflag = t.Iflag&^unix.IXON | unix.IUTF8
			_ = unix.IoctlSetTermios(fd, unix.TIOCSETA, t)
		}
	})
}

func discard(*os.File) {}

// There is no way to see in which system call another process is.
func blocked(int) (reading, polling, hidden bool) { return false, false, true }

func directory(int) (dir string, gone bool) { return "", false }

func executable(int) string { return "" }

func openPath(path string) (*os.File, error) { return os.Open(path) }

func bootID() string { return "" }

func tryLock(f *os.File) bool {
	locked := false
	_ = control(f, func(fd int) { locked = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil })
	return locked
}

// The processes of a server that is gone cannot be told from others here.
func endLeft(map[string]entry, map[string]bool) {}

func readLocked(f *os.File, mu *sync.Mutex, p []byte) (n int, err error) {
	n, err = f.Read(p)
	mu.Lock()
	return n, err
}

// What waits to be read is not asked for here.
func readable(*os.File) bool { return false }

const tellsRunning = false
