package workspace

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

const errNoXattr = unix.ENOATTR

// lstat looks at the name itself.
func (d dir) lstat(name string) (stat, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstatat(d.fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return stat{}, err
	}
	return statOf(&s), nil
}

func fstat(fd int) (stat, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &s) }); err != nil {
		return stat{}, err
	}
	return statOf(&s), nil
}

func statOf(s *unix.Stat_t) stat {
	const immutable = 0x2 | 0x4 | 0x20000 | 0x40000 // UF_IMMUTABLE, UF_APPEND, SF_IMMUTABLE, SF_APPEND
	st := stat{
		typ:    Other,
		mode:   uint32(s.Mode) & 0o7777,
		size:   s.Size,
		mtime:  s.Mtim.Nano(),
		ctime:  s.Ctim.Nano(),
		nlink:  uint64(s.Nlink),
		uid:    s.Uid,
		gid:    s.Gid,
		id:     tool.Identity{Dev: uint64(uint32(s.Dev)), Ino: s.Ino},
		locked: s.Flags&immutable != 0,
	}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		st.typ = File
	case unix.S_IFDIR:
		st.typ = Dir
	case unix.S_IFLNK:
		st.typ = Link
	}
	return st
}

func mountOf(int) uint64   { return 0 }
func isOverlayfs(int) bool { return false }

// Each mounted volume has a device number of its own here, and there are no
// bind mounts.
func (w *Workspace) sameMount(st stat) bool       { return st.id.Dev == w.id.Dev }
func (w *Workspace) ownMount(_ int, st stat) bool { return st.id.Dev == w.id.Dev }

func renameNoReplace(fd int, name string, toFd int, toName string) error {
	return unix.RenameatxNp(fd, name, toFd, toName, unix.RENAME_EXCL)
}

func renameExchange(fd int, name string, toFd int, toName string) error {
	return unix.RenameatxNp(fd, name, toFd, toName, unix.RENAME_SWAP)
}

// keepXattr leaves out the one attribute that only the system may set.
func keepXattr(name string) bool { return name != "com.apple.provenance" }

// readNames calls f for each name of the directory, as the kernel orders them,
// until f returns false. One call reads the whole directory.
func (d dir) readNames(_ []byte, f func(name []byte, t Type) bool) (end bool, err error) {
	c, err := d.reread()
	if err != nil {
		return true, err
	}
	r := os.NewFile(uintptr(c.fd), ".")
	defer r.Close()
	for {
		entries, err := r.ReadDir(256)
		for _, e := range entries {
			var t Type
			switch e.Type() {
			case 0:
				t = File
			case os.ModeDir:
				t = Dir
			case os.ModeSymlink:
				t = Link
			default:
				t = Other
			}
			if !f([]byte(e.Name()), t) {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return true, err
		}
	}
}

func (d dir) rewind() error { return nil }

func (d dir) openAt(name string, flags int) (int, error) {
	return openNoFollow(d.fd, name, flags)
}
