package kvstore

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes a lock that goes with the process that holds it. It fails with
// errHeld if another one has it.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{}); err != nil {
		f.Close()
		if err == windows.ERROR_LOCK_VIOLATION {
			err = errHeld
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
