//go:build linux || darwin

package workspace

import (
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dir is an open directory. All its methods take one name, never a path, and
// never follow a link at that name, so that nothing they do can leave the
// directory. The descriptor keeps meaning the same directory whatever happens
// to its name.
type dir struct {
	fd int
	w  *Workspace
}

// file is a regular file that is open for reading, or one that we just made.
type file struct{ fd int }

// O_NONBLOCK keeps the opening of a FIFO or a device from waiting; O_NOCTTY
// keeps a terminal from becoming ours.
const openRead = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func retryFd(f func() (int, error)) (int, error) {
	for {
		fd, err := f()
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func (d dir) close() error { return unix.Close(d.fd) }

func (d dir) dup() (dir, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	return dir{fd, d.w}, err
}

// openFile opens a regular file for reading.
func (d dir) openFile(name string) (file, stat, error) {
	fd, err := d.openAt(name, openRead)
	if err != nil {
		return file{-1}, stat{}, notRegularOpen(err)
	}
	return d.w.checkFile(fd)
}

// checkFile takes a fresh descriptor and keeps it only if it is a regular file
// on the workspace's own mount.
func (w *Workspace) checkFile(fd int) (file, stat, error) {
	st, err := fstat(fd)
	if err == nil {
		switch {
		case st.typ == Dir:
			err = unix.EISDIR
		case st.typ != File:
			err = errNotRegular
		case !w.openat2 && !w.ownMount(fd, st):
			err = errOtherMount
		}
	}
	if err != nil {
		unix.Close(fd)
		return file{-1}, stat{}, err
	}
	return file{fd}, st, nil
}

// notRegularOpen turns the errors with which the kernel refuses to open sockets
// and devices without a driver into the one that stat would have led to.
func notRegularOpen(err error) error {
	if err == unix.ENXIO || err == unix.ENODEV || err == unix.EOPNOTSUPP {
		return errNotRegular
	}
	return err
}

// openDir opens the directory of that name.
func (d dir) openDir(name string) (dir, error) {
	fd, err := d.openAt(name, openRead|unix.O_DIRECTORY)
	if err != nil {
		if err == unix.ENOTDIR {
			// Plain openat with O_DIRECTORY|O_NOFOLLOW says this for a link as well.
			if st, e := d.lstat(name); e == nil && st.typ == Link {
				return dir{-1, d.w}, errLink
			}
		}
		return dir{-1, d.w}, err
	}
	if !d.w.openat2 {
		st, err := fstat(fd)
		if err == nil && !d.w.ownMount(fd, st) {
			err = errOtherMount
		}
		if err != nil {
			unix.Close(fd)
			return dir{-1, d.w}, err
		}
	}
	return dir{fd, d.w}, nil
}

func (d dir) readlink(name string) (string, error) {
	buf := make([]byte, maxPathBytes+1)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(d.fd, name, buf)
		return err
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// create makes a new regular file, open for reading and writing.
func (d dir) create(name string, perm uint32) (file, error) {
	if err := d.w.fault("create"); err != nil {
		return file{-1}, err
	}
	fd, err := retryFd(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	})
	return file{fd}, err
}

func (d dir) mkdir(name string, perm uint32) error {
	if err := d.w.fault("mkdir"); err != nil {
		return err
	}
	return retry(func() error { return unix.Mkdirat(d.fd, name, perm) })
}

func (d dir) unlink(name string) error {
	d.w.step("unlink")
	if err := d.w.fault("unlink"); err != nil {
		return err
	}
	return retry(func() error { return unix.Unlinkat(d.fd, name, 0) })
}

func (d dir) rmdir(name string) error {
	if err := d.w.fault("rmdir"); err != nil {
		return err
	}
	return retry(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) })
}

// rename replaces what stands at the destination.
func (d dir) rename(name string, to dir, toName string) error {
	d.w.step("rename")
	if err := d.w.fault("rename"); err != nil {
		return err
	}
	return retry(func() error { return unix.Renameat(d.fd, name, to.fd, toName) })
}

// renameNew never replaces: if the destination exists it is EEXIST. Where the
// kernel or the file system lacks that operation, a file gets a second name and
// loses the first, which is as safe; without second names an empty file takes the
// place first, and a crash could leave it there. For a directory a look must do,
// and then only an empty directory could be replaced.
func (d dir) renameNew(name string, to dir, toName string) error {
	if !d.w.noReplace {
		d.w.step("renameNew")
		if err := d.w.fault("renameNew"); err != nil {
			return err
		}
		err := retry(func() error { return renameNoReplace(d.fd, name, to.fd, toName) })
		if !unsupported(err) {
			return err
		}
	}
	st, err := d.lstat(name)
	if err != nil {
		return err
	}
	if st.typ == Dir {
		if _, err := to.lstat(toName); err == nil {
			return unix.EEXIST
		}
		return d.rename(name, to, toName)
	}
	switch err := d.link(name, to, toName); {
	case err == nil:
		return d.unlink(name)
	case err != unix.EPERM && err != unix.EMLINK && !unsupported(err):
		return err
	}
	f, err := to.create(toName, 0o600)
	if err != nil {
		return err
	}
	f.close()
	if err := d.rename(name, to, toName); err != nil {
		to.unlink(toName)
		return err
	}
	return nil
}

// takeOut is renameNew to a name that nobody else knows. Where the kernel cannot
// keep a name from being replaced, ours is made first and replaced then: so what
// goes is what stands at name in that moment, whoever saves meanwhile.
func (d dir) takeOut(name string, to dir, temp string) error {
	if !d.w.noReplace {
		d.w.step("takeOut")
		if err := d.w.fault("takeOut"); err != nil {
			return err
		}
		err := retry(func() error { return renameNoReplace(d.fd, name, to.fd, temp) })
		if !unsupported(err) {
			return err
		}
	}
	st, err := d.lstat(name)
	if err != nil {
		return err
	}
	clear := to.unlink
	if st.typ == Dir {
		clear = to.rmdir
		err = to.mkdir(temp, 0o700)
	} else {
		var f file
		if f, err = to.create(temp, 0o600); err == nil {
			f.close()
		}
	}
	if err != nil {
		return err
	}
	if err := d.rename(name, to, temp); err != nil {
		clear(temp)
		return err
	}
	return nil
}

// exchange swaps two names in one step; errNoExchange if the system cannot.
func (d dir) exchange(name string, to dir, toName string) error {
	if d.w.noExchange {
		return errNoExchange
	}
	d.w.step("exchange")
	if err := d.w.fault("exchange"); err != nil {
		return err
	}
	err := retry(func() error { return renameExchange(d.fd, name, to.fd, toName) })
	if unsupported(err) {
		return errNoExchange
	}
	return err
}

func (d dir) link(name string, to dir, toName string) error {
	if d.w.noLink {
		return unix.EPERM
	}
	d.w.step("link")
	if err := d.w.fault("link"); err != nil {
		return err
	}
	return retry(func() error { return unix.Linkat(d.fd, name, to.fd, toName, 0) })
}

func unsupported(err error) bool {
	return err == unix.ENOSYS || err == unix.EINVAL || err == unix.ENOTSUP || err == unix.EOPNOTSUPP
}

// writable reports whether we may make and remove names in the directory.
func (d dir) writable() error { return d.access(".", unix.W_OK|unix.X_OK) }

// canWrite reports whether we may write the file of that name. The right of the
// superuser to write anything does not count against a file without any write
// bit; the caller looks at those.
func (d dir) canWrite(name string) error { return d.access(name, unix.W_OK) }

func (d dir) access(name string, mode uint32) error {
	err := retry(func() error { return unix.Faccessat(d.fd, name, mode, unix.AT_EACCESS) })
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.EPERM {
		return nil // only a courtesy: the operation itself will tell
	}
	return err
}

func (d dir) sync() error {
	if err := d.w.fault("sync"); err != nil {
		return err
	}
	err := retry(func() error { return unix.Fsync(d.fd) })
	if err == unix.EINVAL || err == unix.ENOTSUP || err == unix.EBADF {
		return nil // the file system has no such thing for directories
	}
	return err
}

// reread gives the same directory with a position of its own.
func (d dir) reread() (dir, error) {
	fd, err := d.openAt(".", openRead|unix.O_DIRECTORY)
	return dir{fd, d.w}, err
}

func (d dir) stat() (stat, error) { return fstat(d.fd) }

func (f file) close() error { return unix.Close(f.fd) }

// readAt is as io.ReaderAt.
func (f file) readAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

func (f file) write(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(f.fd, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// skip leaves a hole of the size of p.
func (f file) skip(p []byte) error {
	_, err := unix.Seek(f.fd, int64(len(p)), io.SeekCurrent)
	return err
}

func (f file) truncate(size int64) error {
	return retry(func() error { return unix.Ftruncate(f.fd, size) })
}

func (f file) sync() error { return retry(func() error { return unix.Fsync(f.fd) }) }

func (f file) stat() (stat, error) { return fstat(f.fd) }

// tryLock locks the file until it is closed, if nobody else has it locked.
func (f file) tryLock() (bool, error) { return flock(f.fd) }

// osFile gives the descriptor away.
func (f file) osFile(name string) *os.File { return os.NewFile(uintptr(f.fd), name) }

// takeAfter gives f the owner, mode and extended attributes of old, in the order
// in which none of them undoes another: a change of owner drops setuid, and a
// change of mode rewrites the mask of an access list.
func (f file) takeAfter(old file, st stat) error {
	mine, err := f.stat()
	if err != nil {
		return err
	}
	if mine.uid != st.uid || mine.gid != st.gid {
		if err := retry(func() error { return unix.Fchown(f.fd, int(st.uid), int(st.gid)) }); err != nil {
			return err
		}
	}
	if err := retry(func() error { return unix.Fchmod(f.fd, st.mode) }); err != nil {
		return err
	}
	return copyXattrs(f.fd, old.fd)
}

// become gives f an owner, as far as we may, and a mode.
func (f file) become(uid, gid, mode uint32) error {
	st, err := f.stat()
	if err != nil {
		return err
	}
	if st.uid != uid || st.gid != gid {
		err := retry(func() error { return unix.Fchown(f.fd, int(uid), int(gid)) })
		if err == unix.EPERM {
			mode &= 0o777 // another's rights are not ours to give
		} else if err != nil {
			return err
		}
	}
	return retry(func() error { return unix.Fchmod(f.fd, mode) })
}

// become is the same for directories.
func (d dir) become(uid, gid, mode uint32) error { return file{d.fd}.become(uid, gid, mode) }

func (d dir) symlink(target, name string) error {
	d.w.step("symlink")
	if err := d.w.fault("symlink"); err != nil {
		return err
	}
	return retry(func() error { return unix.Symlinkat(target, d.fd, name) })
}

// takeAfter is the same for directories.
func (d dir) takeAfter(old dir, st stat) error { return file{d.fd}.takeAfter(file{old.fd}, st) }

func copyXattrs(to, from int) error {
	names, err := xattrNames(from)
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if !keepXattr(name) {
			continue
		}
		val, err := xattrValue(from, name)
		if err == errNoXattr {
			continue // removed since it was listed
		}
		if err == nil {
			err = retry(func() error { return unix.Fsetxattr(to, name, val, 0) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func xattrNames(fd int) ([]string, error) {
	var small [256]byte
	buf := small[:]
	for range 8 {
		n, err := unix.Flistxattr(fd, buf)
		switch err {
		case nil:
			if n == 0 {
				return nil, nil
			}
			return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
		case unix.ENOTSUP, unix.ENOSYS:
			return nil, nil
		case unix.ERANGE:
			n, err = unix.Flistxattr(fd, nil)
			if err != nil {
				return nil, err
			}
			buf = make([]byte, n+256)
		case unix.EINTR:
		default:
			return nil, err
		}
	}
	return nil, syscall.ERANGE
}

func xattrValue(fd int, name string) ([]byte, error) {
	buf := make([]byte, 1024)
	for range 8 {
		n, err := unix.Fgetxattr(fd, name, buf)
		switch err {
		case nil:
			return buf[:n], nil
		case unix.ERANGE:
			n, err = unix.Fgetxattr(fd, name, nil)
			if err != nil {
				return nil, err
			}
			buf = make([]byte, n+64)
		case unix.EINTR:
		default:
			return nil, err
		}
	}
	return nil, syscall.ERANGE
}
