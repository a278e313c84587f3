package secret

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"

	"github.com/wasmtools/wasmtools/tool"
)

const openFlags = 0

// checkPrivate has nothing to go by: see the package comment.
func checkPrivate(fs.FileInfo, string, string) error { return nil }

// takeLock waits for the lock of the folder. It goes with the process that
// holds it.
func takeLock(root *os.Root, wait time.Duration) (func(), error) {
	f, err := openOurs(root, lockName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(wait)
	for {
		err := windows.LockFileEx(windows.Handle(f.Fd()),
			windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, windows.ERROR_LOCK_VIOLATION):
			f.Close()
			return nil, osError(err, "the secrets cannot be locked")
		case time.Now().After(deadline):
			f.Close()
			return nil, tool.Errorf(tool.Busy, "another process is changing the secrets").WithNext("try again in some seconds")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// syncDir: a folder cannot be flushed there.
func syncDir(*os.Root) error { return nil }
