package wasihost

import (
	"io/fs"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	wazerosys "github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// maxHeld bounds the content of all files that are open for writing: as much as
// an overlay takes.
const maxHeld = 64 << 20

// writableTree is the file system of a call that may change files. Changes go
// to the overlay, which asks the grant for each.
type writableTree struct {
	tree
	held int64 // bytes in files that are open for writing
}

var _ sys.FS = (*writableTree)(nil)

// content is a file that is open for writing, shared by its descriptors.
type content struct {
	path     string // canonical; "" once the name is gone
	data     []byte
	readable bool // the grant lets the guest read what was there before
	dirty    bool
	refs     int
}

func (c *content) readAt(p []byte, off int64) (int, sys.Errno) {
	switch {
	case !c.readable:
		return 0, sys.EACCES
	case off >= int64(len(c.data)):
		return 0, 0
	}
	return copy(p, c.data[off:]), 0
}

// OpenFile implements sys.FS.
func (t *writableTree) OpenFile(p string, flag sys.Oflag, _ fs.FileMode) (sys.File, sys.Errno) {
	in, name, errno := t.look(p, flag&sys.O_NOFOLLOW == 0)
	switch {
	case errno == 0 && flag&sys.O_CREAT != 0 && flag&sys.O_EXCL != 0:
		return nil, sys.EEXIST
	case errno == 0 && in.Type == workspace.Dir && wantsWrite(flag) && flag&sys.O_DIRECTORY == 0:
		return nil, sys.EISDIR
	case errno == 0 && (in.Type != workspace.File || !wantsWrite(flag)):
		return t.openRead(in, name, flag)
	case errno == sys.ENOENT && flag&sys.O_CREAT != 0 && flag&sys.O_DIRECTORY == 0:
		if strings.HasSuffix(p, "/") {
			return nil, sys.EISDIR
		}
		return t.create(name, flag)
	case errno != 0:
		return nil, errno
	case flag&sys.O_DIRECTORY != 0:
		return nil, sys.ENOTDIR
	}
	c := t.writing[in.Path]
	if c == nil {
		c, errno = t.load(in, flag&sys.O_TRUNC != 0)
	} else if flag&sys.O_TRUNC != 0 {
		errno = t.resize(c, 0)
	}
	if errno != 0 {
		return nil, errno
	}
	return t.writer(c, flag)
}

// create makes an empty file, whose parent must be there.
func (t *writableTree) create(name string, flag sys.Oflag) (sys.File, sys.Errno) {
	if errno := t.parentIsThere(name); errno != 0 {
		return nil, errno
	}
	ch, err := t.host.Call.Write(t.host.ctx, name, nil, false)
	if err != nil {
		return nil, t.host.errno(err)
	}
	c := &content{path: ch.Path, readable: t.mayRead(ch.Path)}
	t.keep(c)
	return t.writer(c, flag)
}

func (t *writableTree) parentIsThere(name string) sys.Errno {
	parent := "."
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		parent = name[:i]
	}
	in, err := t.host.Call.Stat(t.host.ctx, parent)
	if err != nil {
		return t.host.errno(err)
	}
	if in.Type != workspace.Dir {
		return sys.ENOTDIR
	}
	return 0
}

func (t *writableTree) mayRead(path string) bool {
	return t.host.Call.Files.Allows(workspace.VerbRead, path, "", tool.Identity{}) == nil
}

// load reads a file that is to be changed. What is not cut off at once is read,
// so that takes the grant to read as well.
func (t *writableTree) load(in workspace.Info, empty bool) (*content, sys.Errno) {
	if err := t.host.Call.Files.Allows(workspace.VerbWrite, in.Path, in.Path, in.ID); err != nil {
		return nil, t.host.errno(err)
	}
	c := &content{path: in.Path, dirty: empty, readable: t.mayRead(in.Path)}
	if !empty {
		if in.Size > maxHeld-t.held {
			return nil, t.tooLarge(in.Path)
		}
		c.data = make([]byte, in.Size)
		n := 0
		for n < len(c.data) {
			k, errno := t.readAt(in.Path, c.data[n:], int64(n))
			if errno != 0 {
				return nil, errno
			}
			if k == 0 {
				break
			}
			n += k
		}
		if n == 0 { // so that the guard was asked for an empty file too
			if _, errno := t.readAt(in.Path, nil, 0); errno != 0 {
				return nil, errno
			}
		}
		c.data = c.data[:n]
		t.held += int64(n)
	}
	t.keep(c)
	return c, 0
}

func (t *writableTree) keep(c *content) {
	if t.writing == nil {
		t.writing = map[string]*content{}
	}
	t.writing[c.path] = c
}

func (t *writableTree) writer(c *content, flag sys.Oflag) (sys.File, sys.Errno) {
	c.refs++
	return t.opened(&writer{
		reader: reader{tree: &t.tree, path: c.path, append: flag&sys.O_APPEND != 0},
		all:    t, content: c, writeOnly: flag&sys.O_WRONLY != 0 && flag&sys.O_RDWR == 0,
		readOnly: flag&(sys.O_WRONLY|sys.O_RDWR|sys.O_APPEND) == 0,
	})
}

func (t *writableTree) tooLarge(path string) sys.Errno {
	t.host.refused = tool.PathErrorf(tool.TooLarge, path, "files that are open for writing would have more than %d bytes", maxHeld)
	return sys.EIO
}

// resize gives a file's content another length.
func (t *writableTree) resize(c *content, size int64) sys.Errno {
	if size < 0 {
		return sys.EINVAL
	}
	grow := size - int64(len(c.data))
	if grow > maxHeld-t.held {
		return t.tooLarge(c.path)
	}
	if grow <= 0 {
		c.data = c.data[:size]
	} else if size <= int64(cap(c.data)) {
		old := len(c.data)
		c.data = c.data[:size]
		clear(c.data[old:])
	} else {
		c.data = append(c.data, make([]byte, grow)...)
	}
	t.held += grow
	c.dirty = true
	return 0
}

// flush hands a file's content to the overlay.
func (t *writableTree) flush(c *content) sys.Errno {
	if !c.dirty || c.path == "" || t.host.ended {
		return 0
	}
	if _, err := t.host.Call.Write(t.host.ctx, c.path, c.data, true); err != nil {
		if errno := t.host.errno(err); errno != 0 {
			// Many programs do not look at what closing a file says, and some
			// leave it to their end: the call must not pass for a success.
			t.host.lost = tool.AsError(err)
			return errno
		}
	}
	c.dirty = false
	return 0
}

func (t *writableTree) flushAll() bool {
	ok := true
	for _, c := range t.writing {
		ok = t.flush(c) == 0 && ok
	}
	return ok
}

// release gives a descriptor's hold on a content up.
func (t *writableTree) release(c *content) sys.Errno {
	if c.refs--; c.refs > 0 {
		return 0
	}
	errno := t.flush(c)
	t.held -= int64(len(c.data))
	if c.path != "" {
		delete(t.writing, c.path)
	}
	return errno
}

// Mkdir implements sys.FS.
func (t *writableTree) Mkdir(p string, _ fs.FileMode) sys.Errno {
	_, name, errno := t.look(p, true)
	switch errno {
	case 0:
		return sys.EEXIST
	case sys.ENOENT:
	default:
		return errno
	}
	if errno := t.parentIsThere(name); errno != 0 {
		return errno
	}
	return t.host.errno(t.host.Call.Mkdir(t.host.ctx, name))
}

// Unlink implements sys.FS.
func (t *writableTree) Unlink(p string) sys.Errno {
	in, name, errno := t.look(p, false)
	if errno != 0 {
		return errno
	}
	if in.Type == workspace.Dir {
		return sys.EISDIR
	}
	if _, err := t.host.Call.Remove(t.host.ctx, name, false); err != nil {
		return t.host.errno(err)
	}
	if in.Type == workspace.File {
		t.forget(in.Path)
	}
	return 0
}

// forget lets the content of a name that is gone go nowhere.
func (t *writableTree) forget(path string) {
	if c := t.writing[path]; c != nil {
		delete(t.writing, path)
		c.path = ""
	}
}

// Rmdir implements sys.FS.
func (t *writableTree) Rmdir(p string) sys.Errno {
	in, name, errno := t.look(p, false)
	if errno != 0 {
		return errno
	}
	if in.Type != workspace.Dir {
		return sys.ENOTDIR
	}
	page, err := t.host.Call.List(t.host.ctx, name, workspace.ListOptions{MaxResults: 1})
	if err != nil {
		return t.host.errno(err)
	}
	if page.Total > 0 {
		return sys.ENOTEMPTY
	}
	ch, err := t.host.Call.Remove(t.host.ctx, name, true)
	if err != nil {
		return t.host.errno(err)
	}
	if ch.Removed > 1 {
		// Something was put there in between, and has not to go. An error drops
		// every change of the call.
		panic(tool.PathErrorf(tool.Busy, name, "the directory was filled while it was removed"))
	}
	return 0
}

// Rename implements sys.FS. Both ends lie in this file system: the engine
// refuses to move between two.
func (t *writableTree) Rename(from, to string) sys.Errno {
	in, src, errno := t.look(from, false)
	if errno != 0 {
		return errno
	}
	old, dst, errno := t.look(to, false)
	if errno != 0 && errno != sys.ENOENT {
		return errno
	}
	there := errno == 0
	switch {
	case there && old.Path == in.Path:
		return 0
	case there && in.Type == workspace.Dir && old.Type != workspace.Dir:
		return sys.ENOTDIR
	case there && in.Type != workspace.Dir && old.Type == workspace.Dir:
		return sys.EISDIR
	case there && in.Type == workspace.Dir:
		if errno := t.Rmdir(to); errno != 0 {
			return errno
		}
	case !there:
		if errno := t.parentIsThere(dst); errno != 0 {
			return errno
		}
	}
	if !t.flushAll() {
		return sys.EIO
	}
	ch, err := t.host.Call.Rename(t.host.ctx, src, dst, true)
	if err != nil {
		return t.host.errno(err)
	}
	t.forget(ch.Path)
	var moved []*content
	for path, c := range t.writing {
		if path == in.Path || strings.HasPrefix(path, in.Path+"/") {
			c.path = ch.Path + strings.TrimPrefix(path, in.Path)
			moved = append(moved, c)
			delete(t.writing, path)
		}
	}
	for _, c := range moved {
		t.keep(c)
	}
	return 0
}

// Chmod implements sys.FS; WASI has no way to ask for it.
func (t *writableTree) Chmod(string, fs.FileMode) sys.Errno { return sys.ENOSYS }

// Utimens implements sys.FS: an overlay holds no times.
func (t *writableTree) Utimens(string, int64, int64) sys.Errno {
	t.host.Enter(hostfuncs.Support)
	return sys.ENOSYS
}

// writer is a file that is open for writing.
type writer struct {
	reader
	all       *writableTree
	content   *content
	writeOnly bool
	readOnly  bool
}

// Stat implements sys.File.
func (f *writer) Stat() (wazerosys.Stat_t, sys.Errno) {
	if f.closed {
		return wazerosys.Stat_t{}, sys.EBADF
	}
	f.all.host.Enter(hostfuncs.Support)
	return wazerosys.Stat_t{Dev: 1, Ino: number(f.content.path), Nlink: 1, Size: int64(len(f.content.data)), Mode: 0o644}, 0
}

// Ino implements sys.File.
func (f *writer) Ino() (wazerosys.Inode, sys.Errno) { return number(f.content.path), 0 }

// Read implements sys.File.
func (f *writer) Read(p []byte) (int, sys.Errno) {
	n, errno := f.Pread(p, f.pos)
	f.pos += int64(n)
	return n, errno
}

// Pread implements sys.File.
func (f *writer) Pread(p []byte, off int64) (int, sys.Errno) {
	f.all.host.Enter(hostfuncs.Support)
	switch {
	case f.closed, f.writeOnly:
		return 0, sys.EBADF
	case off < 0:
		return 0, sys.EINVAL
	}
	return f.content.readAt(p, off)
}

// Write implements sys.File.
func (f *writer) Write(p []byte) (int, sys.Errno) {
	if f.append {
		f.pos = int64(len(f.content.data))
	}
	n, errno := f.Pwrite(p, f.pos)
	f.pos += int64(n)
	return n, errno
}

// Pwrite implements sys.File.
func (f *writer) Pwrite(p []byte, off int64) (int, sys.Errno) {
	f.all.host.Enter(hostfuncs.Support)
	switch {
	case f.closed, f.readOnly:
		return 0, sys.EBADF
	case off < 0:
		return 0, sys.EINVAL
	case off > maxHeld: // before it is added to anything
		return 0, f.all.tooLarge(f.content.path)
	}
	if len(p) == 0 {
		return 0, 0
	}
	if end := off + int64(len(p)); end > int64(len(f.content.data)) {
		if errno := f.all.resize(f.content, end); errno != 0 {
			return 0, errno
		}
	}
	f.content.dirty = true
	return copy(f.content.data[off:], p), 0
}

// Truncate implements sys.File.
func (f *writer) Truncate(size int64) sys.Errno {
	f.all.host.Enter(hostfuncs.Support)
	if f.closed || f.readOnly {
		return sys.EBADF
	}
	return f.all.resize(f.content, size)
}

// Seek implements sys.File.
func (f *writer) Seek(off position, whence int) (int64, sys.Errno) {
	if f.closed {
		return 0, sys.EBADF
	}
	f.all.host.Enter(hostfuncs.Support)
	return seek(&f.pos, off, whence, func() (int64, sys.Errno) { return int64(len(f.content.data)), 0 })
}

// Sync implements sys.File. Nothing is on a disk before the call has ended and
// its changes were approved.
func (f *writer) Sync() sys.Errno { return 0 }

// Datasync implements sys.File.
func (f *writer) Datasync() sys.Errno { return 0 }

// Close implements sys.File.
func (f *writer) Close() sys.Errno {
	if f.closed {
		return 0
	}
	f.closed = true
	f.tree.open--
	return f.all.release(f.content)
}
