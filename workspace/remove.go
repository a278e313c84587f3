package workspace

import (
	"context"
	"io/fs"

	"github.com/wasmtools/wasmtools/tool"
)

// maxHashTotal bounds what one removal or move reads to digest it; what is over
// it is pinned by identity, size and time instead.
const maxHashTotal = 2 << 30

// Remove takes a name away: a file, a link (never what it leads to), or, with
// recursive, a directory with everything in it. Every name that goes is an entry
// of the write set.
func (o *Overlay) Remove(ctx context.Context, path string, recursive bool) (ch Change, err error) {
	return o.remove(ctx, path, recursive, false)
}

// RemovePermanently is Remove for what nobody wants back: the journal keeps nothing
// of it.
func (o *Overlay) RemovePermanently(ctx context.Context, path string, recursive bool) (Change, error) {
	return o.remove(ctx, path, recursive, true)
}

func (o *Overlay) remove(ctx context.Context, path string, recursive, permanent bool) (ch Change, err error) {
	if err := o.canChange(ctx, path); err != nil {
		return Change{}, err
	}
	err = stable(path, func() error {
		pl, err := o.existing(path)
		if err != nil {
			return err
		}
		if pl.st.typ == Dir && !recursive {
			return tool.PathErrorf(tool.InvalidArguments, path, "a directory").
				WithNext("set recursive if it and everything in it should go")
		}
		r := remover{o: o, ctx: ctx, permanent: permanent}
		walk := treeWalk{o: o, ctx: ctx, visit: r.visit, max: maxNames}
		if err := walk.run(pl); err != nil {
			return err
		}
		if pl.onDisk {
			if err := o.parentWritable(place{path: pl.path, asked: path}); err != nil {
				return err
			}
		}
		if len(o.ops)+len(r.add) > 2*maxNames {
			return o.room(place{asked: path, missing: maxNames})
		}
		if err := o.hold(path, r.kept); err != nil {
			return err
		}
		r.apply()
		o.clearBelow(pl.path)
		o.set(pl.path, &node{})
		ch = Change{Path: pl.path, Removed: r.count}
		return nil
	})
	return ch, err
}

// existing finds a name that is to be removed or moved, and refuses the root by
// what it is and not by how it is spelt.
func (o *Overlay) existing(path string) (place, error) {
	pl, err := o.find(path, false)
	if err != nil {
		return pl, err
	}
	if !pl.exists() {
		return pl, pathError(path, fs.ErrNotExist)
	}
	if pl.path == "." || pl.st.id == o.w.id {
		return pl, tool.PathErrorf(tool.InvalidArguments, path, "the workspace root itself cannot be removed or moved").
			WithNext("name something in it")
	}
	return pl, nil
}

// remover collects what a removal does, so that an error half-way leaves the
// overlay as it was.
type remover struct {
	o      *Overlay
	ctx    context.Context
	add    []*change
	drop   []*change
	kept   int64
	hashed int64
	count  int

	permanent bool
}

func (r *remover) visit(it item) error {
	if err := r.o.guardFile(r.ctx, VerbDelete, it.path, it.disk, it.onDisk, it.st); err != nil {
		return err
	}
	r.count++
	if n := it.node; n != nil && n.fresh() {
		r.drop = append(r.drop, n.op)
		switch {
		case n.typ == Dir:
			// apply decides whether dropping the mkdir is enough.
			r.add = append(r.add, &change{Write: tool.Write{Op: tool.OpMkdir, Path: it.path, Mode: n.st.fileMode()}})
		case n.op.Identity != tool.Identity{}:
			c := *n.op
			c.Op, c.Path, c.After, c.Blob, c.Size = tool.OpDelete, it.path, "", nil, 0
			r.kept += int64(len(c.before))
			r.add = append(r.add, &c)
		}
		return nil
	}
	c, err := r.o.describe(r.ctx, it, &r.hashed, maxDiffBytes-r.kept)
	if err != nil {
		return err
	}
	if it.st.locked {
		return tool.PathErrorf(tool.Permission, it.path, "the file system says that it must not change (immutable or append-only)")
	}
	c.Op, c.Path = tool.OpDelete, it.path
	c.hidden = c.before != nil && r.o.guard(VerbRead, it.path, it.disk, it.onDisk, it.st.id) != nil
	if c.hidden {
		c.before = nil
	}
	c.Size = 0
	r.kept += int64(len(c.before))
	r.add = append(r.add, c)
	return nil
}

// describe says what stands at an item on disk, as the before side of a change.
// A directory must let us remove what is in it, or the commit would fail after
// its first half.
func (o *Overlay) describe(ctx context.Context, it item, hashed *int64, keep int64) (*change, error) {
	c := oldFile(it.st)
	switch it.st.typ {
	case Dir:
		if it.empty {
			break
		}
		d, err := it.d.openDir(it.name)
		if err != nil {
			return nil, err
		}
		defer d.close()
		if d.writable() != nil {
			return nil, tool.PathErrorf(tool.Permission, it.path, "the directory is not writable")
		}
	case File:
		if *hashed+it.st.size > maxHashTotal {
			c.Stamp = stampOf(it.st)
			return c, nil
		}
		f, st, err := it.d.openFile(it.name)
		if isPermission(err) {
			c.Stamp = stampOf(it.st)
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		defer f.close()
		if st.id != it.st.id {
			return nil, errLink
		}
		*hashed += st.size
		c.Before, c.Stamp, c.before, err = digestFile(ctx, f, st, max(keep, -1))
		return c, err
	}
	return c, nil
}

func (r *remover) apply() {
	for _, c := range r.drop {
		if c.Op != tool.OpMkdir {
			r.o.drop(c)
		}
	}
	made := map[string]*change{}
	for _, c := range r.drop {
		if c.Op == tool.OpMkdir {
			made[c.Path] = c
		}
	}
	for _, c := range r.add {
		if c.Op == tool.OpMkdir {
			// A directory of our own: if nothing else that is pending went through
			// it, it need never be made.
			if m := made[c.Path]; m != nil && !r.o.mentions(c.Path) {
				r.o.drop(m)
				continue
			}
			c.Op = tool.OpDelete
		}
		c.Permanent = r.permanent
		r.o.ops = append(r.o.ops, c)
	}
}
