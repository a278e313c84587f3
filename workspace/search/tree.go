package search

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// tree is the workspace as one call sees it: the disk, and over it what the call
// has pending. It is safe for concurrent use.
type tree struct {
	ctx  context.Context
	o    *workspace.Overlay
	w    *workspace.Workspace
	kids map[string]map[string]*workspace.PendingFile // by directory and name
}

func newTree(ctx context.Context, o *workspace.Overlay) *tree {
	t := &tree{ctx: ctx, o: o, w: o.Workspace()}
	for _, p := range o.Pending() {
		dir, name := split(p.Path)
		if t.kids == nil {
			t.kids = map[string]map[string]*workspace.PendingFile{}
		}
		if t.kids[dir] == nil {
			t.kids[dir] = map[string]*workspace.PendingFile{}
		}
		t.kids[dir][name] = &p
	}
	return t
}

// folder is one open directory of a tree. Many jobs share it; the last one that
// lets go closes it.
type folder struct {
	t     *tree
	path  string
	disk  *workspace.DirHandle // nil: the directory is pending and the disk has no part in it
	scope *scope               // the ignore rules for what is in it
	depth int
	refs  atomic.Int32
	ended bool // the disk's names have all been read
	added bool // and the pending ones
}

// root opens the workspace root.
func (t *tree) root() (*folder, error) {
	h, err := t.w.OpenDir(".")
	if err != nil {
		return nil, err
	}
	return t.folder(".", h)
}

// folder wraps a handle, which it closes if the guard refuses.
func (t *tree) folder(path string, h *workspace.DirHandle) (*folder, error) {
	f := &folder{t: t, path: path, disk: h}
	f.refs.Store(1)
	var disk string
	var id tool.Identity
	if h != nil {
		var err error
		if id, err = h.ID(); err != nil {
			f.release()
			return nil, err
		}
		disk = h.Path()
	}
	if err := t.o.Allows(workspace.VerbList, path, disk, id); err != nil {
		f.release()
		return nil, deniedError{err}
	}
	return f, nil
}

// deniedError is what a guard said.
type deniedError struct{ error }

func (e deniedError) Unwrap() error { return e.error }

func (f *folder) hold() { f.refs.Add(1) }

func (f *folder) release() {
	if f.refs.Add(-1) == 0 && f.disk != nil {
		f.disk.Close()
	}
}

// child opens a directory below.
func (f *folder) child(name string) (*folder, error) {
	path := join(f.path, name)
	if p := f.t.kids[f.path][name]; p != nil {
		switch {
		case p.Type != workspace.Dir:
			return nil, tool.PathErrorf(tool.NotRegular, path, "not a directory")
		case p.From == "":
			return f.t.folder(path, nil)
		}
		h, err := f.t.w.OpenDir(p.From)
		if err != nil {
			return nil, err
		}
		return f.t.folder(path, h)
	}
	if f.disk == nil {
		return nil, tool.PathErrorf(tool.NotFound, path, "")
	}
	h, err := f.disk.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return f.t.folder(path, h)
}

// walkTo opens the directory at a canonical path, seeing each one on the way.
func (t *tree) walkTo(path string, see func(*folder)) (*folder, error) {
	f, err := t.root()
	if err != nil {
		return nil, err
	}
	if path == "." {
		return f, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		see(f)
		next, err := f.child(name)
		if err == nil {
			next.scope = f.scope
		}
		f.release()
		if err != nil {
			return nil, err
		}
		f = next
	}
	return f, nil
}

// content is an open file.
type content interface {
	io.ReadSeeker
	io.Closer
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// open opens a regular file for reading, if the guard lets it be read.
func (f *folder) open(name string) (content, workspace.Info, error) {
	path := join(f.path, name)
	p := f.t.kids[f.path][name]
	var (
		h   = f.disk
		at  = name
		in  workspace.Info
		err error
	)
	switch {
	case p != nil && (p.Deleted || p.Type != workspace.File):
		return nil, in, tool.PathErrorf(tool.NotFound, path, "")
	case p != nil && p.From == "":
		in = pendingInfo(p)
		if err := f.t.o.Allows(workspace.VerbRead, path, "", tool.Identity{}); err != nil {
			return nil, in, deniedError{err}
		}
		return memory{bytes.NewReader(p.Data)}, in, nil
	case p != nil:
		var dir string
		dir, at = split(p.From)
		if h, err = f.t.w.OpenDir(dir); err != nil {
			return nil, in, err
		}
		defer h.Close()
	case h == nil:
		return nil, in, tool.PathErrorf(tool.NotFound, path, "")
	}
	var file *os.File
	if file, in, err = h.OpenFile(at); err != nil {
		return nil, in, err
	}
	if err := f.t.o.AllowsFile(f.t.ctx, workspace.VerbRead, path, join(h.Path(), at), in); err != nil {
		file.Close()
		return nil, in, deniedError{err}
	}
	in.Path, in.Name = path, name
	return file, in, nil
}

// allowed asks the guard whether a name may be shown.
func (f *folder) allowed(name string) error {
	path, disk := join(f.path, name), ""
	if p := f.t.kids[f.path][name]; p != nil {
		disk = p.From
	} else if f.disk != nil {
		disk = join(f.disk.Path(), name)
	}
	return f.t.o.Allows(workspace.VerbStat, path, disk, tool.Identity{})
}

func pendingInfo(p *workspace.PendingFile) workspace.Info {
	_, name := split(p.Path)
	return workspace.Info{Path: p.Path, Name: name, Type: p.Type, Size: int64(len(p.Data)), MTime: p.MTime}
}

// entries gives the next names, in no order, and none at the end.
func (f *folder) entries() ([]workspace.DirEntry, error) {
	kids := f.t.kids[f.path]
	for f.disk != nil && !f.ended {
		batch, err := f.disk.Read(dirBatch)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			f.ended = true
			break
		}
		out := batch[:0]
		for _, e := range batch {
			if kids[e.Name] != nil || workspace.IsTemp(e.Name) {
				continue
			}
			if e.Type == "" {
				if in, err := f.disk.Stat(e.Name); err == nil {
					e.Type = in.Type
				}
			}
			out = append(out, e)
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	if f.added {
		return nil, nil
	}
	f.added = true
	var out []workspace.DirEntry
	for name, p := range kids {
		if !p.Deleted {
			out = append(out, workspace.DirEntry{Name: name, Type: p.Type})
		}
	}
	return out, nil
}

// split takes the last name off a canonical path.
func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// below gives the part of path below dir, and whether it is there.
func below(dir, path string) (rel string, ok bool) {
	switch {
	case dir == ".":
		return path, true
	case path == dir:
		return ".", true
	}
	rest, ok := strings.CutPrefix(path, dir)
	if !ok || rest[0] != '/' {
		return "", false
	}
	return rest[1:], true
}
