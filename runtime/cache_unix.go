//go:build unix

package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateDir makes a folder that only we can write to, and checks that nobody
// else can put another one in its place: every folder on the way belongs to us
// or to the system and is not writable by others, and none is a link. It
// returns the path that it checked.
//
// A folder that all may write to is accepted on the way if the system keeps
// users from moving each other's files there (/tmp). A link is accepted directly
// below / if it is the system's: some systems have /var or /home elsewhere.
func privateDir(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = systemLinks(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return "", err
		}
		if err := trusted(dir, info, dir == path); err != nil {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return path, nil
		}
	}
}

// systemLinks resolves a link that stands directly below / and belongs to root.
func systemLinks(path string) (string, error) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	top := "/" + first
	info, err := os.Lstat(top)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return path, nil // what is missing is made, what is wrong is found, later
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
		return "", fmt.Errorf("%s is a link", top)
	}
	real, err := filepath.EvalSymlinks(top)
	if err != nil {
		return "", err
	}
	return filepath.Join(real, rest), nil
}

func trusted(dir string, info fs.FileInfo, own bool) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch me := uint32(os.Geteuid()); {
	case info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a link", dir)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case !ok:
		return fmt.Errorf("the owner of %s is not known", dir)
	case st.Uid != me && (own || st.Uid != 0):
		return fmt.Errorf("%s belongs to somebody else (user %d)", dir, st.Uid)
	case info.Mode().Perm()&0o022 != 0 && (own || info.Mode()&fs.ModeSticky == 0):
		return fmt.Errorf("others can write to %s (mode %04o)", dir, info.Mode().Perm())
	}
	return nil
}

// openPrivate opens a file that belongs to us, has one name, is no link, and
// that nobody else can read or write.
func openPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, errEntry
	}
	info, err := f.Stat()
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != uint32(os.Geteuid()) || st.Nlink > 1 || info.Mode().Perm()&0o077 != 0 {
			err = errEntry
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
