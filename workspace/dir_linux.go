package workspace

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

const errNoXattr = unix.ENODATA

// statMask leaves out what we never look at, so that network file systems need
// not ask for it.
const statMask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_NLINK | unix.STATX_UID | unix.STATX_GID |
	unix.STATX_MTIME | unix.STATX_CTIME | unix.STATX_INO | unix.STATX_SIZE | unix.STATX_MNT_ID

// lstat looks at the name itself.
func (d dir) lstat(name string) (stat, error) {
	return statAt(d.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

func fstat(fd int) (stat, error) {
	var s unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &s) }); err != nil {
		return stat{}, err
	}
	return statOf(&s), nil
}

func statAt(fd int, name string, flags int) (stat, error) {
	var x unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, name, flags, statMask, &x) })
	if err == unix.ENOSYS || err == unix.EPERM {
		// Kernels before 4.11 and seccomp filters that do not know the call.
		var s unix.Stat_t
		if err := retry(func() error { return unix.Fstatat(fd, name, &s, flags) }); err != nil {
			return stat{}, err
		}
		return statOf(&s), nil
	}
	if err != nil {
		return stat{}, err
	}
	st := stat{
		typ:    typeOf(uint32(x.Mode)),
		mode:   uint32(x.Mode) & 0o7777,
		size:   int64(x.Size),
		mtime:  x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec),
		ctime:  x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec),
		nlink:  uint64(x.Nlink),
		uid:    x.Uid,
		gid:    x.Gid,
		id:     tool.Identity{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino},
		locked: x.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0,
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		st.mount = x.Mnt_id
	}
	return st, nil
}

func statOf(s *unix.Stat_t) stat {
	return stat{
		typ:   typeOf(s.Mode),
		mode:  s.Mode & 0o7777,
		size:  s.Size,
		mtime: s.Mtim.Nano(),
		ctime: s.Ctim.Nano(),
		nlink: uint64(s.Nlink),
		uid:   s.Uid,
		gid:   s.Gid,
		id:    tool.Identity{Dev: s.Dev, Ino: s.Ino},
	}
}

func typeOf(mode uint32) Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Link
	}
	return Other
}

// mountOf returns the id of the mount that an open file lies on, 0 if nothing
// can tell it.
func mountOf(fd int) uint64 {
	if st, err := statAt(fd, "", unix.AT_EMPTY_PATH); err == nil && st.mount != 0 {
		return st.mount
	}
	p, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(p), "\n") {
		if v, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

func isOverlayfs(fd int) bool {
	var s unix.Statfs_t
	return retry(func() error { return unix.Fstatfs(fd, &s) }) == nil && s.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// sameMount compares what lstat saw with the root. The device number is only
// the second choice: a bind mount of the same file system has the same one, and
// a subvolume of btrfs another one without any mount.
func (w *Workspace) sameMount(st stat) bool {
	if st.mount != 0 && w.mount != 0 {
		return st.mount == w.mount
	}
	return st.id.Dev == w.id.Dev
}

// ownMount is sameMount for something open.
func (w *Workspace) ownMount(fd int, st stat) bool {
	if w.mount != 0 {
		if m := mountOf(fd); m != 0 {
			return m == w.mount
		}
	}
	return st.id.Dev == w.id.Dev
}

func renameNoReplace(fd int, name string, toFd int, toName string) error {
	return unix.Renameat2(fd, name, toFd, toName, unix.RENAME_NOREPLACE)
}

func renameExchange(fd int, name string, toFd int, toName string) error {
	return unix.Renameat2(fd, name, toFd, toName, unix.RENAME_EXCHANGE)
}

// keepXattr says which attributes belong to the user's file: the user's own and
// the access list. Security labels and file capabilities are the system's to
// give to a file with new content.
func keepXattr(name string) bool {
	return strings.HasPrefix(name, "user.") || name == "system.posix_acl_access"
}

// readNames reads the next names of the directory into buf and calls f for
// each, in the order in which the kernel gives them, until f returns false. It
// reports whether the directory has ended. Names for which f said false are
// lost, so only callers that are done do that.
func (d dir) readNames(buf []byte, f func(name []byte, t Type) bool) (end bool, err error) {
	n := 0
	err = retry(func() (err error) {
		n, err = unix.Getdents(d.fd, buf)
		return err
	})
	if err == unix.ENOENT {
		return true, nil // the directory was removed while it was open
	}
	if err != nil || n <= 0 {
		return true, err
	}
	// struct linux_dirent64: u64 ino, i64 off, u16 reclen, u8 type, name\0
	const head = 19
	for b := buf[:n]; len(b) > head; {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= head || size > len(b) {
			break
		}
		name := b[head:size]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		var t Type
		switch b[18] {
		case unix.DT_REG:
			t = File
		case unix.DT_DIR:
			t = Dir
		case unix.DT_LNK:
			t = Link
		case unix.DT_UNKNOWN:
		default:
			t = Other
		}
		if string(name) != "." && string(name) != ".." && !f(name, t) {
			return false, nil
		}
		b = b[size:]
	}
	return false, nil
}
