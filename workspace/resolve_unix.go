//go:build linux || darwin

package workspace

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openRoot opens the directory that everything else is below.
func (w *Workspace) openRoot(path string) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	fd, err := rootFd(root)
	if err != nil {
		root.Close()
		return err
	}
	w.osRoot, w.root = root, dir{fd, w}
	st, err := fstat(fd)
	if err != nil {
		w.closeRoot()
		return err
	}
	w.id, w.mount, w.overlayfs = st.id, mountOf(fd), isOverlayfs(fd)
	return nil
}

func (w *Workspace) closeRoot() error {
	return errors.Join(w.root.close(), w.osRoot.Close())
}

// rootFd gives a descriptor of our own for the directory of an os.Root.
func rootFd(r *os.Root) (int, error) {
	f, err := r.OpenFile(".", openRead|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// openNoFollow opens one name. Without openat2 this is as safe for a single
// name; what it lacks, the mount check, the callers add.
func openNoFollow(dirfd int, name string, flags int) (int, error) {
	fd, err := retryFd(func() (int, error) { return unix.Openat(dirfd, name, flags|unix.O_NOFOLLOW, 0) })
	if err == unix.ELOOP {
		return -1, errLink
	}
	return fd, err
}

// openDirRoot is the way without openat2: os.Root opens one component after the
// other. os.Root follows a link that stays inside; a canonical path has none, so
// each step must have opened the very directory that the name itself was.
func (w *Workspace) openDirRoot(path string) (dir, error) {
	cur, own := w.osRoot, false
	done := func(err error) (dir, error) {
		if own {
			cur.Close()
		}
		return dir{-1, w}, unwrapErrno(err)
	}
	if path != "." {
		for name := range strings.SplitSeq(path, "/") {
			seen, err := cur.Lstat(name)
			switch {
			case err != nil:
				return done(err)
			case seen.Mode()&os.ModeSymlink != 0:
				return done(errLink)
			case !seen.IsDir():
				return done(unix.ENOTDIR)
			}
			next, err := cur.OpenRoot(name)
			if err != nil {
				if e, ok := unwrapErrno(err).(unix.Errno); !ok || e == unix.ELOOP {
					err = errLink // "path escapes", or too many links: it has become one since
				}
				return done(err)
			}
			if own {
				cur.Close()
			}
			cur, own = next, true
			got, err := cur.Stat(".")
			if err != nil {
				return done(err)
			}
			if !os.SameFile(seen, got) {
				return done(errLink)
			}
		}
	}
	fd, err := rootFd(cur)
	if err != nil {
		return done(err)
	}
	st, err := fstat(fd)
	if err == nil && !w.ownMount(fd, st) {
		err = errOtherMount
	}
	if err != nil {
		unix.Close(fd)
		return done(err)
	}
	if own {
		cur.Close()
	}
	return dir{fd, w}, nil
}

func (w *Workspace) openPathRoot(path string, flags int) (int, error) {
	if path == "." {
		d, err := w.openDirRoot(".")
		return d.fd, err
	}
	parent, name := split(path)
	d, err := w.openDirRoot(parent)
	if err != nil {
		return -1, err
	}
	defer d.close()
	fd, err := openNoFollow(d.fd, name, flags)
	if err == unix.ENOTDIR && flags&unix.O_DIRECTORY != 0 {
		if st, e := d.lstat(name); e == nil && st.typ == Link {
			return -1, errLink
		}
	}
	return fd, err
}

func (w *Workspace) lstatPathRoot(path string) (st stat, target string, err error) {
	if path == "." {
		st, err = w.root.stat()
		return st, "", err
	}
	parent, name := split(path)
	d, err := w.openDirRoot(parent)
	if err != nil {
		return stat{}, "", err
	}
	defer d.close()
	if st, err = d.lstat(name); err != nil {
		return stat{}, "", err
	}
	if !w.sameMount(st) {
		return stat{}, "", errOtherMount
	}
	if st.typ == Link {
		target, err = d.readlink(name)
	}
	return st, target, err
}

// openDir opens a canonical directory.
func (w *Workspace) openDir(path string) (dir, error) {
	fd, err := w.openPath(path, openRead|unix.O_DIRECTORY)
	if err != nil {
		return dir{-1, w}, err
	}
	if !w.openat2 {
		st, err := fstat(fd)
		if err == nil && !w.ownMount(fd, st) {
			err = errOtherMount
		}
		if err != nil {
			unix.Close(fd)
			return dir{-1, w}, err
		}
	}
	return dir{fd, w}, nil
}

// openFile opens a regular file at a canonical path.
func (w *Workspace) openFile(path string) (file, stat, error) {
	fd, err := w.openPath(path, openRead)
	if err != nil {
		return file{-1}, stat{}, notRegularOpen(err)
	}
	return w.checkFile(fd)
}

// unwrapErrno takes the host path off an error of the os package.
func unwrapErrno(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
