//go:build unix

package channel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFolder opens the folder of the sockets, after making it if make is set,
// and checks that it and the run folder above it are ours alone. What is used
// afterwards is the opened folder, where the system allows that, and not its
// path.
func openFolder(dir string, makeIt bool) (*folder, error) {
	run := parentOf(dir)
	if makeIt {
		for _, d := range []string{run, dir} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				return nil, err
			}
		}
	}
	if err := private(run, os.Lstat); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir, syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := private(dir, func(string) (fs.FileInfo, error) { return f.Stat() }); err != nil {
		f.Close()
		return nil, err
	}
	return &folder{f}, nil
}

// private refuses a folder that another user owns or that others may enter.
// Rights that were loose are not mended: somebody may have used them.
func private(dir string, stat func(string) (fs.FileInfo, error)) error {
	info, err := stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is a link or a file, not a folder", dir)
	case !ok || int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to others (mode %04o); look why, then run chmod 700 on it", dir, info.Mode().Perm())
	}
	return nil
}

// protect makes a new socket the user's alone. The folder is already, so there
// is no moment in between in which another user could connect.
func (f *folder) protect(name string) error {
	return unix.Fchmodat(int(f.file.Fd()), name, 0o600, 0)
}

func (f *folder) rename(from, to string) error {
	fd := int(f.file.Fd())
	return unix.Renameat(fd, from, fd, to)
}

func (f *folder) remove(name string) error {
	err := unix.Unlinkat(int(f.file.Fd()), name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
