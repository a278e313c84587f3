package wasihost

import (
	"context"
	"hash/fnv"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	wazerosys "github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

type sysFS = sys.FS

const (
	// maxOpen bounds descriptors: each costs the host some hundred bytes.
	maxOpen = 256

	// maxNames bounds the names that are read from one directory in one go.
	maxNames = 65_536
)

// tree is what both types of file system share: everything that only looks.
type tree struct {
	sys.UnimplementedFS
	host *Host
	open int // descriptors

	// writing holds the files that are open for writing, by canonical path, so
	// that all descriptors of one file see one content.
	writing map[string]*content
}

// clean is the gate for every path: below the mount, without anything that a
// later step could read as a way out. dir says that the text demands a
// directory. The engine puts a slash before what is opened below the directory
// that is the mount itself.
func clean(p string) (name string, dir bool, errno sys.Errno) {
	dir = strings.HasSuffix(p, "/")
	if strings.IndexByte(p, 0) >= 0 {
		return "", false, sys.EINVAL
	}
	if name = strings.Trim(p, "/"); name == "" {
		return ".", true, 0
	}
	if !filepath.IsLocal(name) {
		return "", false, sys.EPERM
	}
	name = path.Clean(name)
	return name, dir || name == ".", 0
}

// look is the way into every function that names something: it counts, checks
// and finds what stands there. follow says whether a link at the end is
// followed.
func (t *tree) look(p string, follow bool) (in workspace.Info, name string, errno sys.Errno) {
	t.host.Enter(hostfuncs.Work)
	name, dir, errno := clean(p)
	if errno != 0 {
		return in, name, errno
	}
	var err error
	if follow {
		in, err = t.host.Call.Stat(t.host.ctx, name)
	} else {
		in, err = t.host.Call.Files.Lstat(name)
	}
	if err != nil {
		return in, name, t.host.errno(err)
	}
	if dir && in.Type != workspace.Dir {
		return in, name, sys.ENOTDIR
	}
	if c := t.writing[in.Path]; c != nil {
		in.Size = int64(len(c.data))
	}
	return in, name, 0
}

// Stat implements sys.FS. A link that leaves the workspace or leads nowhere is
// told as a link.
func (t *tree) Stat(p string) (wazerosys.Stat_t, sys.Errno) {
	in, _, errno := t.look(p, true)
	if errno != 0 {
		return wazerosys.Stat_t{}, errno
	}
	return statOf(in), 0
}

// Lstat implements sys.FS.
func (t *tree) Lstat(p string) (wazerosys.Stat_t, sys.Errno) {
	in, _, errno := t.look(p, false)
	if errno != 0 {
		return wazerosys.Stat_t{}, errno
	}
	return statOf(in), 0
}

// statOf tells nothing of the machine: the number of a file is made of its path.
func statOf(in workspace.Info) wazerosys.Stat_t {
	return wazerosys.Stat_t{
		Dev: 1, Ino: number(in.Path), Nlink: max(1, in.Links), Size: in.Size,
		Mode: modeOf(in.Type) | fs.FileMode(in.Mode&0o777),
		Atim: in.MTime * 1e6, Mtim: in.MTime * 1e6, Ctim: in.MTime * 1e6,
	}
}

func number(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(path))
	return h.Sum64() | 1 // a guest takes zero for unknown
}

func modeOf(t workspace.Type) fs.FileMode {
	switch t {
	case workspace.File:
		return 0
	case workspace.Dir:
		return fs.ModeDir
	case workspace.Link:
		return fs.ModeSymlink
	}
	return fs.ModeIrregular
}

// Links are neither made nor read: what they say may be a host's path, and one
// that a guest makes is what it would leave by.

// Symlink implements sys.FS.
func (t *tree) Symlink(_, _ string) sys.Errno { return t.noLinks() }

// Link implements sys.FS.
func (t *tree) Link(_, _ string) sys.Errno { return t.noLinks() }

// Readlink implements sys.FS.
func (t *tree) Readlink(string) (string, sys.Errno) { return "", t.noLinks() }

func (t *tree) noLinks() sys.Errno {
	t.host.Enter(hostfuncs.Support)
	t.host.refused = tool.Errorf(tool.Permission, "links cannot be made or read by a module")
	return sys.EPERM
}

// openRead opens a file or directory that is there for reading.
func (t *tree) openRead(in workspace.Info, name string, flag sys.Oflag) (sys.File, sys.Errno) {
	switch in.Type {
	case workspace.Dir:
		return t.opened(&dir{tree: t, path: in.Path})
	case workspace.Link:
		if in.Outside {
			return nil, t.host.errno(tool.PathErrorf(tool.OutsideRoot, name, "a link that leaves the workspace"))
		}
		if flag&sys.O_NOFOLLOW != 0 {
			return nil, sys.ELOOP
		}
		return nil, sys.ENOENT
	case workspace.File:
	default:
		return nil, t.host.errno(tool.PathErrorf(tool.Permission, name, "not a regular file"))
	}
	if flag&sys.O_DIRECTORY != 0 {
		return nil, sys.ENOTDIR
	}
	f := &reader{tree: t, path: in.Path, append: flag&sys.O_APPEND != 0}
	if t.writing[in.Path] == nil {
		// The guard is asked now and not at the first read.
		if _, err := t.host.Call.ReadAt(t.host.ctx, in.Path, nil, 0); err != nil {
			return nil, t.host.errno(err)
		}
	}
	return t.opened(f)
}

// opened counts a descriptor.
func (t *tree) opened(f sys.File) (sys.File, sys.Errno) {
	if t.open == maxOpen {
		_ = f.Close()
		t.host.refused = tool.Errorf(tool.Quota, "more than %d files are open", maxOpen)
		return nil, sys.EAGAIN
	}
	t.open++
	return f, 0
}

// readAt reads a file, or what is being written to it.
func (t *tree) readAt(path string, p []byte, off int64) (int, sys.Errno) {
	t.host.Enter(hostfuncs.Support)
	if off < 0 {
		return 0, sys.EINVAL
	}
	if c := t.writing[path]; c != nil {
		return c.readAt(p, off)
	}
	n, err := t.host.Call.ReadAt(t.host.ctx, path, p, off)
	return n, t.host.errno(err)
}

// readOnlyTree is the file system of a call that may change nothing. It has no
// code that writes.
type readOnlyTree struct{ tree }

var _ sys.FS = (*readOnlyTree)(nil)

// OpenFile implements sys.FS.
func (t *readOnlyTree) OpenFile(p string, flag sys.Oflag, _ fs.FileMode) (sys.File, sys.Errno) {
	in, name, errno := t.look(p, flag&sys.O_NOFOLLOW == 0)
	if wantsWrite(flag) && (errno == 0 && in.Type != workspace.Dir || errno == sys.ENOENT) {
		return nil, t.noWrites(name)
	}
	if errno != 0 {
		return nil, errno
	}
	return t.openRead(in, name, flag)
}

func wantsWrite(flag sys.Oflag) bool {
	return flag&(sys.O_RDWR|sys.O_WRONLY|sys.O_CREAT|sys.O_TRUNC|sys.O_APPEND) != 0
}

func (t *readOnlyTree) noWrites(p string) sys.Errno {
	t.host.Enter(hostfuncs.Support)
	t.host.refused = tool.PathErrorf(tool.GrantMissing, p, "changing it was not granted").
		WithNext("leave it, or ask a person to grant fs.write for it")
	return sys.EROFS
}

// The rest of sys.FS.

func (t *readOnlyTree) Mkdir(p string, _ fs.FileMode) sys.Errno { return t.noWrites(p) }
func (t *readOnlyTree) Chmod(p string, _ fs.FileMode) sys.Errno { return t.noWrites(p) }
func (t *readOnlyTree) Rename(p, _ string) sys.Errno            { return t.noWrites(p) }
func (t *readOnlyTree) Rmdir(p string) sys.Errno                { return t.noWrites(p) }
func (t *readOnlyTree) Unlink(p string) sys.Errno               { return t.noWrites(p) }
func (t *readOnlyTree) Utimens(p string, _, _ int64) sys.Errno  { return t.noWrites(p) }

// list reads names of a directory from where cursor left off, at most n; next is
// empty at the end.
func (t *tree) list(ctx context.Context, p, cursor string, n int) (names []sys.Dirent, next string, errno sys.Errno) {
	t.host.Enter(hostfuncs.Work)
	page, err := t.host.Call.List(ctx, p, workspace.ListOptions{MaxResults: min(n, 1000), Cursor: cursor})
	if err != nil {
		return nil, "", t.host.errno(err)
	}
	for _, e := range page.Entries {
		if e.Escaped {
			continue // cannot be opened by this name
		}
		names = append(names, sys.Dirent{Ino: number(e.Path), Name: e.Name, Type: modeOf(e.Type)})
	}
	return names, page.Next, 0
}
