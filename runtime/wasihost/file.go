package wasihost

import (
	"io"

	"github.com/tetratelabs/wazero/experimental/sys"
	wazerosys "github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/tool"
)

// position is an int64 by another name: the engine's Seek returns no error, and
// go vet takes a method Seek(int64, int) for a mistaken io.Seeker.
type position = int64

// reader is a file that is open for reading. It is a path and a position: what
// it reads passes the call's guard each time.
type reader struct {
	sys.UnimplementedFile
	tree   *tree
	path   string // canonical
	pos    int64
	append bool
	closed bool
}

func (f *reader) stat() (wazerosys.Stat_t, sys.Errno) {
	if f.closed {
		return wazerosys.Stat_t{}, sys.EBADF
	}
	return f.tree.Stat(f.path)
}

// Stat implements sys.File.
func (f *reader) Stat() (wazerosys.Stat_t, sys.Errno) { return f.stat() }

// Dev implements sys.File.
func (f *reader) Dev() (uint64, sys.Errno) { return 1, 0 }

// Ino implements sys.File.
func (f *reader) Ino() (wazerosys.Inode, sys.Errno) { return number(f.path), 0 }

// IsAppend implements sys.File.
func (f *reader) IsAppend() bool { return f.append }

// SetAppend implements sys.File.
func (f *reader) SetAppend(on bool) sys.Errno {
	f.append = on
	return 0
}

// Read implements sys.File.
func (f *reader) Read(p []byte) (int, sys.Errno) {
	n, errno := f.Pread(p, f.pos)
	f.pos += int64(n)
	return n, errno
}

// Pread implements sys.File.
func (f *reader) Pread(p []byte, off int64) (int, sys.Errno) {
	if f.closed {
		return 0, sys.EBADF
	}
	return f.tree.readAt(f.path, p, off)
}

// Write implements sys.File.
func (f *reader) Write([]byte) (int, sys.Errno) { return 0, sys.EBADF }

// Pwrite implements sys.File.
func (f *reader) Pwrite([]byte, int64) (int, sys.Errno) { return 0, sys.EBADF }

// Truncate implements sys.File.
func (f *reader) Truncate(int64) sys.Errno { return sys.EBADF }

// Seek implements sys.File.
func (f *reader) Seek(off position, whence int) (int64, sys.Errno) {
	if f.closed {
		return 0, sys.EBADF
	}
	return seek(&f.pos, off, whence, func() (int64, sys.Errno) {
		st, errno := f.stat()
		return st.Size, errno
	})
}

func seek(pos *int64, off int64, whence int, size func() (int64, sys.Errno)) (int64, sys.Errno) {
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = *pos
	case io.SeekEnd:
		n, errno := size()
		if errno != 0 {
			return 0, errno
		}
		base = n
	default:
		return 0, sys.EINVAL
	}
	if to := base + off; to >= 0 && (off <= 0 || to > base) {
		*pos = to
		return to, 0
	}
	return 0, sys.EINVAL
}

// Close implements sys.File.
func (f *reader) Close() sys.Errno {
	if !f.closed {
		f.closed = true
		f.tree.open--
	}
	return 0
}

// dir is a directory that is open: a path, and how far it was read.
type dir struct {
	sys.DirFile
	tree   *tree
	path   string
	cursor string
	begun  bool
	held   []sys.Dirent
	cost   uint64 // of the names that were read; the engine keeps them too
	closed bool
}

// nameCost is what a name costs the host beside its bytes, here and in the
// engine.
const nameCost = 96

// Dev implements sys.File.
func (d *dir) Dev() (uint64, sys.Errno) { return 1, 0 }

// Ino implements sys.File.
func (d *dir) Ino() (wazerosys.Inode, sys.Errno) { return number(d.path), 0 }

// Stat implements sys.File.
func (d *dir) Stat() (wazerosys.Stat_t, sys.Errno) {
	if d.closed {
		return wazerosys.Stat_t{}, sys.EBADF
	}
	return d.tree.Stat(d.path)
}

// Seek implements sys.File: to the beginning only.
func (d *dir) Seek(off position, whence int) (int64, sys.Errno) {
	if d.closed {
		return 0, sys.EBADF
	}
	if off != 0 || whence != io.SeekStart {
		return 0, sys.EINVAL
	}
	d.cursor, d.begun, d.held = "", false, nil
	d.give()
	return 0, 0
}

// give takes the names that were read off the call's memory.
func (d *dir) give() {
	d.tree.host.Memory.Give(d.cost)
	d.cost = 0
}

// Readdir implements sys.File. Fewer names than n mean the end.
func (d *dir) Readdir(n int) ([]sys.Dirent, sys.Errno) {
	if d.closed {
		return nil, sys.EBADF
	}
	if n <= 0 || n > maxNames {
		n = maxNames
	}
	for len(d.held) < n && (!d.begun || d.cursor != "") {
		names, next, errno := d.tree.list(d.tree.host.ctx, d.path, d.cursor, 1000)
		if errno != 0 {
			return nil, errno
		}
		cost := uint64(0)
		for _, e := range names {
			cost += uint64(len(e.Name)) + nameCost
		}
		if !d.tree.host.Memory.Take(cost) {
			return nil, sys.EIO
		}
		d.cost += cost
		d.begun, d.cursor = true, next
		d.held = append(d.held, names...)
	}
	if n == maxNames && (d.cursor != "" || len(d.held) > n) {
		d.tree.host.refused = tool.PathErrorf(tool.TooLarge, d.path, "the directory has more than %d names", maxNames)
		return nil, sys.EIO
	}
	n = min(n, len(d.held))
	out := d.held[:n:n]
	d.held = d.held[n:]
	return out, 0
}

// Sync implements sys.File.
func (d *dir) Sync() sys.Errno { return 0 }

// Datasync implements sys.File.
func (d *dir) Datasync() sys.Errno { return 0 }

// Utimens implements sys.File.
func (d *dir) Utimens(_, _ int64) sys.Errno { return sys.ENOSYS }

// Close implements sys.File.
func (d *dir) Close() sys.Errno {
	if !d.closed {
		d.closed = true
		d.tree.open--
		d.give()
	}
	return 0
}

var (
	_ sys.File = (*reader)(nil)
	_ sys.File = (*dir)(nil)
)
