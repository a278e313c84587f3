//go:build unix

package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags: a FIFO that was put in place of a file blocks nobody.
const openFlags = syscall.O_NONBLOCK

// checkPrivate refuses a folder of somebody else, and one that others may touch.
func checkPrivate(fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("the owner of the folder of the artifacts cannot be told")
	case int(st.Uid) != os.Geteuid():
		return errors.New("the folder of the artifacts belongs to another user")
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("the folder of the artifacts is open to others (mode %04o)", fi.Mode().Perm())
	}
	return nil
}

// hold says that a temporary file is being written. The lock goes with the
// process, however it ends.
func hold(f *os.File) error { return lock(f, unix.LOCK_EX) }

// unheld reports whether nobody holds f, who may still write it.
func unheld(f *os.File) bool { return lock(f, unix.LOCK_EX|unix.LOCK_NB) == nil }

func lock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == unix.EINTR:
		case how&unix.LOCK_NB == 0 && (errors.Is(err, errors.ErrUnsupported) || err == unix.ENOLCK):
			return nil // a file system without locks; age decides there
		default:
			return err
		}
	}
}

// changedAt is when the file was changed last in any way.
func changedAt(f *os.File) (int64, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(int(f.Fd()), &st)
		if err == unix.EINTR {
			continue
		}
		return st.Ctim.Nano(), err
	}
}
