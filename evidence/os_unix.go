//go:build unix

package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags: neither a link nor a FIFO put in place of a file leads anywhere.
const openFlags = syscall.O_NONBLOCK | unix.O_NOFOLLOW

// checkPrivate refuses what belongs to somebody else or what others may touch.
func checkPrivate(fi fs.FileInfo, name string) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("the owner of %s cannot be told", name)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", name)
	case fi.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %04o); a person must look at it and take the rights away", name, fi.Mode().Perm())
	}
	return nil
}

// lockFile waits for a lock, however long, which goes with the process that
// holds it.
func lockFile(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	return flock(f, how)
}

func unlockFile(f *os.File) { _ = flock(f, unix.LOCK_UN) }

// tryLock reports whether the lock of f was free and is ours now.
func tryLock(f *os.File, shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := flock(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// giveName gives the file at tmp the name path; fs.ErrExist if that is taken.
func giveName(tmp, path string) error { return os.Link(tmp, path) }

// gone reports whether an open file has no name any more.
func gone(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}
