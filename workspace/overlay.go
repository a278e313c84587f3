package workspace

import (
	"context"
	"io"
	"io/fs"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace/charset"
)

const (
	defaultMaxBytes = 64 << 20 // of content in one overlay; a guest's whole memory
	maxEditBytes    = 64 << 20 // of a file that is edited; larger ones are work for a stream editor
	maxHashBytes    = 256 << 20
	maxNames        = 100_000 // in one removal; enough for any package cache, and a list that still fits in memory
	maxDepth        = 256     // of a tree that is removed or moved
	maxDiffBytes    = 1 << 20 // of each side of a file whose diff is shown
)

// OverlayOptions shapes one call's view.
type OverlayOptions struct {
	// Guard is asked before anything is read, listed or changed, with the
	// canonical path and the identity of what stands there (zero: nothing).
	// What was moved within the overlay is asked for under its old path as
	// well. An error ends the operation and is returned as it is.
	Guard func(v Verb, path string, id tool.Identity) error

	// MaxBytes bounds the content that the overlay holds; 0 means 64 MiB.
	MaxBytes int64

	// ReadOnly refuses every change.
	ReadOnly bool

	// Seen is what the session knows of files: one that is not what it was when it
	// was read last is not overwritten as a whole (stale). Edits match what is there
	// and need no such guard. Nil guards nothing.
	Seen *Seen
}

// Overlay is one call's view of the workspace. Reads see the disk as it is now
// and the call's own changes on top; changes stay in the overlay and become a
// write set. An Overlay must not be used by two goroutines at once.
//
// Paths in errors are the requested ones; paths in answers are canonical.
type Overlay struct {
	view
	opts  OverlayOptions
	ops   []*change
	held  int64 // bytes of content
	named int64 // what new names are charged

	putsBack bool // of an undo: a link may move back to where it led out before

	reads    map[string]readNote // files of the disk that were read
	digested int64               // bytes, for that

	// The file that ReadAt used last, so that a reader in pieces sees one file.
	last struct {
		asked string
		file  file
		open  bool
		data  []byte
	}
}

// change is an entry of the write set to be.
type change struct {
	tool.Write
	before   []byte        // old content, for the diff; nil if there was none or it is not held
	size     int64         // of the old content
	hidden   bool          // the call may not read the old content, so its diff must not show it
	restores *LoggedChange // of an undo: what it puts back
	loaded   bool          // it was pending before the call, which has not touched it

	encoding charset.Encoding // of the content, if it was written as text
}

// Overlay makes an empty overlay.
func (w *Workspace) Overlay(opts OverlayOptions) *Overlay {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	opts.Guard = w.denied.guard(opts.Guard)
	return &Overlay{view: view{w: w}, opts: opts}
}

// Discard forgets every change.
func (o *Overlay) Discard() {
	o.forget()
	o.view, o.ops, o.held, o.named = view{w: o.w}, nil, 0, 0
}

// Close gives open files up. The write set stays valid.
func (o *Overlay) Close() error {
	o.forget()
	return nil
}

func (o *Overlay) forget() {
	if o.last.open {
		o.last.file.close()
	}
	o.last.open, o.last.data, o.last.asked = false, nil, ""
}

// WriteSet is everything that is pending, in the order in which it has to be
// done. It shares the content with the overlay, which never changes it.
func (o *Overlay) WriteSet() *tool.WriteSet {
	ws := &tool.WriteSet{Entries: make([]tool.Write, len(o.ops))}
	for i, c := range o.ops {
		ws.Entries[i] = c.Write
	}
	return ws
}

// PendingFile is one name that an overlay shows differently from the disk.
type PendingFile struct {
	Path    string // canonical
	Type    Type   // File, Dir, Link or Other; "" when Deleted
	Deleted bool   // nothing stands here any more; of a directory: nor below, unless named by another PendingFile
	From    string // the object on disk that is shown here, with everything below it; "" for new content or a new directory
	Data    []byte // new content of a File without From; not to be changed
	MTime   int64  // Unix milliseconds
}

// Pending lists every name that differs from the disk, in no order.
func (o *Overlay) Pending() []PendingFile {
	out := make([]PendingFile, 0, len(o.names))
	for p, n := range o.names {
		out = append(out, PendingFile{
			Path: p, Type: n.typ, Deleted: n.typ == "", From: n.from, Data: n.data, MTime: floorMilli(n.st.mtime),
		})
	}
	return out
}

// guard asks the list of secrets, and then the call's own guard.
func (o *Overlay) guard(v Verb, path, disk string, onDisk bool, id tool.Identity) error {
	err := o.w.secret(path)
	if err == nil && onDisk && disk != path {
		err = o.w.secret(disk)
	}
	if err != nil {
		return err
	}
	return o.granted(v, path, disk, onDisk, id)
}

// secret refuses a path that is on the list of secrets.
func (w *Workspace) secret(path string) error {
	if r := w.rules().secretRule(path); r != nil {
		return &guardError{refuseSecret(path, &r.Rule)}
	}
	return nil
}

// granted asks the call's own guard.
func (o *Overlay) granted(v Verb, path, disk string, onDisk bool, id tool.Identity) error {
	if o.opts.Guard == nil {
		return nil
	}
	err := o.opts.Guard(v, path, id)
	if err == nil && onDisk && disk != path {
		err = o.opts.Guard(v, disk, id)
	}
	if err != nil {
		return &guardError{err}
	}
	return nil
}

// guardFile is guard for what stands there, which may have other names.
func (o *Overlay) guardFile(ctx context.Context, v Verb, path, disk string, onDisk bool, st stat) error {
	if err := o.guard(v, path, disk, onDisk, st.id); err != nil || !onDisk {
		return err
	}
	return o.alias(ctx, path, st)
}

// alias refuses a file of which another name is a secret.
func (o *Overlay) alias(ctx context.Context, path string, st stat) error {
	r, err := o.w.aliasRule(ctx, path, st)
	if err != nil {
		return err
	}
	if r != nil {
		return &guardError{refuseAlias(path, &r.Rule)}
	}
	return nil
}

// Stat tells what stands at a path. A link is followed if it stays inside;
// otherwise, and if it leads nowhere, the link itself is told.
func (o *Overlay) Stat(ctx context.Context, path string) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	pl, err := o.find(path, true)
	if err == nil && !pl.exists() && pl.viaLink || tool.CodeOf(err) == tool.OutsideRoot {
		if p2, err2 := o.find(path, false); err2 == nil && p2.st.typ == Link {
			pl, err = p2, nil
		}
	}
	if err == nil && !pl.exists() {
		err = o.lookAlike(ctx, path, pathError(path, fs.ErrNotExist))
	}
	if err != nil {
		return Info{}, err
	}
	if err := o.guardFile(ctx, VerbStat, pl.path, pl.disk, pl.onDisk, pl.st); err != nil {
		return Info{}, pathError(path, err)
	}
	in := pl.st.info(pl.path)
	if pl.st.typ == Link {
		o.linkInfo(&in)
	}
	return in, nil
}

// linkInfo says where a link points: to a canonical path inside, or outside. The
// text of a link that leaves the root is never told.
func (o *Overlay) linkInfo(in *Info) {
	p, _, _, err := o.w.walkLinks(in.Path, true, o.lstat, nil)
	switch {
	case err == nil:
		in.Target = p
	case tool.CodeOf(pathError(in.Path, err)) == tool.OutsideRoot:
		in.Outside = true
	}
}

// ReadAt reads part of a regular file. At the end of the file it returns io.EOF.
// Reads of one path one after the other see one open file, even if the path is
// replaced on disk meanwhile.
func (o *Overlay) ReadAt(ctx context.Context, path string, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, tool.PathErrorf(tool.InvalidArguments, path, "a negative offset")
	}
	if o.last.asked != path || path == "" {
		o.forget()
		f, data, pl, err := o.open(ctx, path, VerbRead)
		if err != nil {
			return 0, o.lookAlike(ctx, path, pathError(path, err))
		}
		if data == nil {
			o.noteRead(ctx, pl.path, f, pl.st)
		}
		o.last.file, o.last.open, o.last.data = f, data == nil, data
		o.last.asked = path
	}
	if !o.last.open {
		if off >= int64(len(o.last.data)) {
			return 0, io.EOF
		}
		n := copy(p, o.last.data[off:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	n, err := o.last.file.readAt(p, off)
	if err != nil && err != io.EOF {
		return n, pathError(path, err)
	}
	return n, err
}

// open opens a regular file for reading, or gives its pending content (then data
// is not nil). The guard has agreed to every verb given.
func (o *Overlay) open(ctx context.Context, asked string, verbs ...Verb) (f file, data []byte, pl place, err error) {
	// That the path is no secret is known by then.
	ask := func(st stat) error {
		for _, v := range verbs {
			if err := o.granted(v, pl.path, pl.disk, pl.onDisk, st.id); err != nil {
				return err
			}
		}
		if st.nlink < 2 || !pl.onDisk {
			return nil
		}
		return o.alias(ctx, pl.path, st)
	}
	if len(o.names) == 0 {
		// The common case in one openat2: the path holds no link.
		clean, wantDir, err := o.w.CheckPath(asked)
		if err != nil {
			return f, nil, pl, err
		}
		if err := o.w.secret(clean); err != nil {
			return f, nil, pl, err
		}
		if !wantDir {
			f, st, err := o.w.openFile(clean)
			if err == nil {
				pl = place{path: clean, asked: asked, disk: clean, onDisk: true, st: st}
				if err = ask(st); err != nil {
					f.close()
				}
				return f, nil, pl, err
			}
			if err != errLink {
				return f, nil, pl, pathError(asked, err)
			}
		}
	}
	for try := 0; ; try++ {
		pl, err = o.find(asked, true)
		if err != nil {
			return f, nil, pl, err
		}
		switch {
		case !pl.exists():
			return f, nil, pl, pathError(asked, fs.ErrNotExist)
		case pl.wantDir || pl.st.typ == Dir:
			return f, nil, pl, pathError(asked, syscall.EISDIR)
		case pl.node != nil && pl.node.fresh():
			if err := ask(pl.st); err != nil {
				return f, nil, pl, err
			}
			data = pl.node.data
			if data == nil {
				data = []byte{}
			}
			return f, data, pl, nil
		}
		var st stat
		f, st, err = o.w.openFile(pl.disk)
		if err == errLink && try < maxTries {
			continue
		}
		if err != nil {
			return f, nil, pl, pathError(asked, err)
		}
		pl.st = st
		if err = ask(st); err != nil {
			f.close()
		}
		return f, nil, pl, err
	}
}

// hold accounts for content that the overlay keeps.
func (o *Overlay) hold(asked string, n int64) error {
	if o.held+n > o.opts.MaxBytes {
		return tool.PathErrorf(tool.TooLarge, asked, "the call's changes would hold more than %d bytes", o.opts.MaxBytes).
			WithNext("change fewer or smaller files in one call")
	}
	o.held += n
	return nil
}

func (o *Overlay) drop(c *change) {
	o.held -= int64(len(c.Blob) + len(c.before))
	for i, x := range o.ops {
		if x == c {
			o.ops = append(o.ops[:i], o.ops[i+1:]...)
			return
		}
	}
}

// mentions reports whether a pending change names something below dir.
func (o *Overlay) mentions(dir string) bool {
	for _, c := range o.ops {
		if c.Path != dir && under(c.Path, dir) || c.From != "" && under(c.From, dir) {
			return true
		}
	}
	return false
}

// room refuses a change that would make the overlay, or a tree, larger than
// anything that a commit could handle.
func (o *Overlay) room(pl place) error {
	switch {
	case pl.missing > maxDepth:
		return tool.PathErrorf(tool.TooLarge, pl.asked, "%d directories would have to be made; one call makes %d", pl.missing-1, maxDepth).
			WithNext("use a shorter path")
	case len(o.ops)+pl.missing > maxNames:
		return tool.PathErrorf(tool.TooLarge, pl.asked, "the call's changes would name more than %d files", maxNames).
			WithNext("change fewer files in one call")
	}
	// A name costs memory too: its path stands in the set, in the view, and in
	// what is made of both to be judged and shown.
	charge := int64(pl.missing) * (nameBytes + pathCopies*int64(len(pl.path)))
	if o.named+charge > maxNameMemory {
		return tool.PathErrorf(tool.TooLarge, pl.asked, "the call's changes make too many names, or too long ones").
			WithNext("make fewer files and directories in one call")
	}
	o.named += charge
	return nil
}

// What a new name is charged beside its content, measured on 100,000 of them,
// and what all of them may cost.
const (
	nameBytes     = 512
	pathCopies    = 16
	maxNameMemory = 128 << 20 // 100,000 names of usual length
)

// canChange is asked first by every operation that changes something.
func (o *Overlay) canChange(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.opts.ReadOnly {
		return tool.PathErrorf(tool.Permission, path, "this call may read files only").
			WithNext("leave the file as it is")
	}
	o.forget()
	return nil
}
