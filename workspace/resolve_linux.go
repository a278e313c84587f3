package workspace

import (
	"fmt"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// beneath is how every name is opened: below the directory that is given, never
// through a magic link of /proc, never onto another mount, and through no link
// at all. A link that stays inside is followed by walkLinks, in the open, so that
// the name that is judged is the name that is opened.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS

// maxAgain bounds the retries of openat2 when renames elsewhere made the kernel
// give up.
const maxAgain = 128

// probe decides once, on a path that is known to be good, whether openat2 can be
// used. What a later call answers never changes that: a filter or a full table
// must not turn the guard off in the middle of a session.
func (w *Workspace) probe(opts Options) {
	if opts.NoOpenat2 {
		w.why = "openat2 is switched off"
		return
	}
	fd, err := w.openBeneath(w.root.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		w.why = fmt.Sprintf("openat2 does not work here: %v", err)
		return
	}
	unix.Close(fd)
	w.openat2, w.why = true, "below one root descriptor"
}

// openBeneath is one openat2 with its retries.
func (w *Workspace) openBeneath(dirfd int, path string, flags int) (int, error) {
	if flags&unix.O_PATH == 0 {
		// With it a link at the end would be ENOTDIR for O_DIRECTORY; without it
		// RESOLVE_NO_SYMLINKS answers ELOOP wherever the link is.
		flags &^= unix.O_NOFOLLOW
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: beneath}
	for again := 0; ; {
		fd, err := w.sysOpenat2(dirfd, path, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR:
		case unix.EAGAIN:
			if again++; again >= maxAgain {
				return -1, errLink
			}
			goruntime.Gosched()
		case unix.ELOOP:
			return -1, errLink
		case unix.EXDEV:
			return -1, errOtherMount
		default:
			return -1, err
		}
	}
}

// openPath opens a canonical path below the root.
func (w *Workspace) openPath(path string, flags int) (int, error) {
	if w.openat2 {
		return w.openBeneath(w.root.fd, path, flags)
	}
	return w.openPathRoot(path, flags)
}

// openAt opens one name in a directory.
func (d dir) openAt(name string, flags int) (int, error) {
	if d.w.openat2 {
		return d.w.openBeneath(d.fd, name, flags)
	}
	return openNoFollow(d.fd, name, flags)
}

// lstatPath looks at a canonical path without following a link at its end. With
// it comes the link's target.
func (w *Workspace) lstatPath(path string) (st stat, target string, err error) {
	if !w.openat2 {
		return w.lstatPathRoot(path)
	}
	fd, err := w.openBeneath(w.root.fd, path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return stat{}, "", err
	}
	defer unix.Close(fd)
	if st, err = fstat(fd); err != nil {
		return stat{}, "", err
	}
	st.mount = w.mount // or the kernel had refused
	if st.typ == Link {
		target, err = dir{fd, w}.readlink("")
	}
	return st, target, err
}
