//go:build unix

package kvstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes a lock that goes with the process that holds it. It fails with
// errHeld if another one has it.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			err = errHeld
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
