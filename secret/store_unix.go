//go:build unix

package secret

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

// openFlags: a FIFO put in place of a file does not make the caller wait.
const openFlags = syscall.O_NONBLOCK

// checkPrivate refuses what belongs to somebody else, what others may touch,
// and a file that has a second name. It mends nothing: rights that were loose
// may already have been used, and a person should know.
func checkPrivate(fi fs.FileInfo, what, mode string) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return tool.Errorf(tool.Internal, "the owner of %s cannot be told", what[len("the "):])
	case int(st.Uid) != os.Geteuid():
		return tool.Errorf(tool.Permission, "%s belongs to another user", what).
			WithNext("run the command as the user whose secrets they are")
	case fi.Mode().Perm()&0o077 != 0:
		return tool.Errorf(tool.Permission, "%s is open to others (mode %04o)", what, fi.Mode().Perm()).
			WithNext("a person should change the secrets that others may have read, then run chmod %s on it", mode)
	case !fi.IsDir() && st.Nlink > 1: // 0: replaced just now
		return tool.Errorf(tool.Permission, "%s has a second name (hard link)", what).
			WithNext("a person must remove the other name")
	}
	return nil
}

// takeLock waits for the lock of the folder. It goes with the process that
// holds it.
func takeLock(root *os.Root, wait time.Duration) (func(), error) {
	f, err := openOurs(root, lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil // closing gives the lock back
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, osError(err, "the secrets cannot be locked")
		case time.Now().After(deadline):
			f.Close()
			return nil, tool.Errorf(tool.Busy, "another process is changing the secrets").WithNext("try again in some seconds")
		}
		time.Sleep(pause)
	}
}

func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
