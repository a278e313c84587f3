package evidence

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// checkPrivate has nothing to go by: the access rights that the folder
// inherits from the user's profile decide.
func checkPrivate(fs.FileInfo, string) error { return nil }

// lockFile waits for a lock, however long, which goes with the process that
// holds it.
func lockFile(f *os.File, shared bool) error {
	var how uint32 = windows.LOCKFILE_EXCLUSIVE_LOCK
	if shared {
		how = 0
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}

func unlockFile(f *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}

// tryLock reports whether the lock of f was free and is ours now.
func tryLock(f *os.File, shared bool) (bool, error) {
	var how uint32 = windows.LOCKFILE_EXCLUSIVE_LOCK
	if shared {
		how = 0
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// syncFolder: a folder cannot be flushed there.
func syncFolder(string) error { return nil }

// giveName gives the file at tmp the name path; fs.ErrExist if that is taken.
func giveName(tmp, path string) error {
	from, err := windows.UTF16PtrFromString(tmp)
	if err != nil {
		return err
	}
	to, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	return windows.MoveFileEx(from, to, windows.MOVEFILE_WRITE_THROUGH) // does not replace
}

// gone: a file that is open cannot be removed there.
func gone(fs.FileInfo) bool { return false }
