package workspace

import (
	"context"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Rename moves a file, link or directory; a link itself is moved, not what it
// leads to. What stands at the destination is an error, a dangling link too,
// unless overwrite is set and both are regular files.
func (o *Overlay) Rename(ctx context.Context, from, to string, overwrite bool) (ch Change, err error) {
	if err := o.canChange(ctx, from); err != nil {
		return Change{}, err
	}
	err = stable(from, func() error {
		src, err := o.existing(from)
		if err != nil {
			return err
		}
		dst, err := o.find(strings.TrimRight(to, "/")+trailing(to, src.st.typ), false)
		if err != nil {
			return pathError(to, err)
		}
		dst.asked = to
		if dst.wantDir && src.st.typ != Dir {
			return tool.PathErrorf(tool.NotRegular, to, "a path that ends in / names a directory, and %s is a %s", tool.QuotePath(from), src.st.typ.words()).
				WithNext("give the whole new name")
		}
		if dst.path == src.path {
			return tool.PathErrorf(tool.NoChange, from, "moving it onto itself changes nothing")
		}
		if src.st.typ == Dir && under(dst.path, src.path) {
			return tool.PathErrorf(tool.InvalidArguments, to, "a directory cannot be moved into itself").WithNext("choose a destination outside it")
		}
		if err := o.room(dst); err != nil {
			return err
		}
		replaced, err := o.destination(ctx, src, dst, overwrite)
		if err != nil {
			return err
		}
		if src.st.typ == Link && !o.putsBack {
			if err := o.linkStaysInside(src, dst); err != nil {
				return err
			}
		}
		m, err := o.describeMove(ctx, src, dst)
		if err != nil {
			return err
		}
		ch = o.applyMove(src, dst, m, replaced)
		return nil
	})
	return ch, err
}

// trailing keeps the slash at the end of a destination only for a directory that
// is not there yet: "mv d new/" is common and clear.
func trailing(to string, t Type) string {
	if t != Dir && strings.HasSuffix(to, "/") {
		return "/"
	}
	return ""
}

// destination checks the far end of a move and describes what it replaces.
func (o *Overlay) destination(ctx context.Context, src, dst place, overwrite bool) (*change, error) {
	to := dst.asked
	if dst.path == "." {
		return nil, tool.PathErrorf(tool.Exists, to, "the destination is the workspace root").WithNext("give the whole new name")
	}
	if err := o.guardFile(ctx, VerbWrite, dst.path, dst.disk, dst.exists() && dst.onDisk, dst.st); err != nil {
		return nil, err
	}
	if err := o.parentWritable(dst); err != nil {
		return nil, err
	}
	if !dst.exists() {
		return nil, nil
	}
	if dst.st.id == src.st.id && dst.st.id != (tool.Identity{}) {
		alias, err := o.oneName(src, dst)
		if err != nil {
			return nil, err
		}
		if alias {
			return nil, nil // one name in two spellings: a rename of case only
		}
		return nil, tool.PathErrorf(tool.NoChange, to, "both names already mean the same file (hard links)").
			WithNext("delete one of the names instead")
	}
	if !overwrite {
		return nil, tool.PathErrorf(tool.Exists, to, "a %s of this name exists", dst.st.typ.words()).
			WithNext("choose another name%s", map[bool]string{true: ", or set overwrite if replacing it is meant"}[dst.st.typ == File && src.st.typ == File])
	}
	if dst.st.typ != File || src.st.typ != File {
		return nil, tool.PathErrorf(tool.Exists, to, "a %s cannot replace a %s; overwrite is for two regular files", src.st.typ.words(), dst.st.typ.words()).
			WithNext("delete the destination first, or choose another name")
	}
	if n := dst.node; n != nil && n.fresh() {
		return n.op, nil
	}
	if dst.st.mode&0o222 == 0 {
		return nil, tool.PathErrorf(tool.Permission, to, "the file that would be replaced is read-only").
			WithNext("leave it, or ask a person to make it writable")
	}
	f, st, err := o.w.openFile(dst.disk)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if st.id != dst.st.id {
		return nil, errLink
	}
	c := oldFile(st)
	c.Before, c.Stamp, c.before, err = digestFile(ctx, f, st, maxDiffBytes)
	if err != nil {
		return nil, err
	}
	if c.hidden = o.guard(VerbRead, dst.path, dst.disk, dst.onDisk, st.id) != nil; c.hidden {
		c.before = nil
	}
	c.Op, c.Path, c.Size = tool.OpDelete, dst.path, 0
	return c, o.hold(to, int64(len(c.before)))
}

// oneName reports whether two paths are spellings of one name, as on a system that
// ignores case, and not two names of one file.
func (o *Overlay) oneName(src, dst place) (bool, error) {
	sp, _ := split(src.path)
	dp, name := split(dst.path)
	if sp != dp || !src.onDisk || !dst.onDisk {
		return false, nil
	}
	parent, _ := split(dst.disk)
	d, err := o.w.openDir(parent)
	if err != nil {
		return false, err
	}
	defer d.close()
	return d.isAlias(name)
}

// isAlias reports whether the directory answers to a name that it does not list.
func (d dir) isAlias(name string) (bool, error) {
	c, err := d.reread()
	if err != nil {
		return false, err
	}
	defer c.close()
	listed := false
	buf := make([]byte, 32<<10)
	for {
		end, err := c.readNames(buf, func(n []byte, _ Type) bool {
			listed = listed || string(n) == name
			return !listed
		})
		if err != nil || listed || end {
			return !listed, err
		}
	}
}

// linkStaysInside refuses to move a relative link to where it would lead out of
// the workspace: that would make, by moving, a link that no tool may make.
func (o *Overlay) linkStaysInside(src, dst place) error {
	_, target, err := o.lstat(src.path)
	if err != nil {
		return err
	}
	if isAbs(target + "/") {
		return nil
	}
	leaves := func(at string) bool {
		parent, _ := split(at)
		_, _, err := checkPath(o.w.real, parent+"/"+target)
		return tool.CodeOf(err) == tool.OutsideRoot
	}
	if leaves(dst.path) && !leaves(src.path) {
		return tool.PathErrorf(tool.OutsideRoot, dst.asked, "the link would lead out of the workspace from there").
			WithNext("leave the link where it is")
	}
	return nil
}

// describeMove asks the guard for every name that moves and pins what moves.
func (o *Overlay) describeMove(ctx context.Context, src, dst place) (*change, error) {
	m := &change{Write: tool.Write{Op: tool.OpMove, From: src.path, Path: dst.path, Mode: src.st.fileMode()}}
	var hashed int64
	visit := func(it item) error {
		if err := o.guardFile(ctx, VerbDelete, it.path, it.disk, it.onDisk, it.st); err != nil {
			return err
		}
		if it.path != src.path {
			return o.guard(VerbWrite, dst.path+it.path[len(src.path):], "", false, it.st.id)
		}
		if n := it.node; n != nil && n.fresh() {
			if n.base == "" {
				return nil
			}
			// Written before in this call: what moves is what is on disk.
			m.Identity, m.Before, m.Stamp, m.After = n.op.Identity, n.op.Before, n.op.Stamp, n.op.Before
			m.Size = n.op.size
			return nil
		}
		if it.st.typ == Dir {
			m.Identity = it.st.id
			return nil
		}
		c, err := o.describe(ctx, it, &hashed, -1)
		if err != nil {
			return err
		}
		m.Identity, m.Before, m.Stamp, m.After = c.Identity, c.Before, c.Stamp, c.Before
		if it.st.typ == File {
			m.Size = it.st.size
		}
		return nil
	}
	walk := treeWalk{o: o, ctx: ctx, visit: visit, max: 10 * maxNames}
	if err := walk.run(src); err != nil {
		return nil, err
	}
	if src.onDisk {
		return m, o.parentWritable(place{path: src.path, asked: src.asked})
	}
	return m, nil
}

func (o *Overlay) applyMove(src, dst place, m, replaced *change) Change {
	ch := Change{Path: dst.path, From: src.path, Bytes: m.Size}
	if m.After != "" {
		ch.SHA256 = m.After.Hex()
	}
	if replaced != nil {
		ch.Removed = 1
		if n := dst.node; n != nil && n.fresh() {
			// A pending write of the destination gives way, and with it goes what
			// it would have replaced.
			o.drop(replaced)
			if replaced.Identity != (tool.Identity{}) {
				c := *replaced
				c.Op, c.After, c.Blob, c.Size = tool.OpDelete, "", nil, 0
				o.held += int64(len(c.before))
				replaced = &c
			} else {
				replaced = nil
			}
		}
	}
	o.makeParents(dst)
	if replaced != nil {
		o.ops = append(o.ops, replaced)
		m.Replaced = replaced.Identity
	}

	n := src.node
	switch {
	case n != nil && n.fresh() && n.typ != Dir:
		c := *n.op
		o.drop(n.op)
		o.held += int64(len(c.Blob) + len(c.before))
		c.Path = dst.path
		moved := *n
		moved.op = &c
		if n.base != "" {
			o.ops = append(o.ops, m)
		}
		o.ops = append(o.ops, &c)
		o.set(dst.path, &moved)
		ch.Bytes, ch.SHA256 = c.Size, c.After.Hex()
	case n != nil && n.fresh():
		o.ops = append(o.ops, m)
		moved := *n
		o.set(dst.path, &moved)
	default:
		o.ops = append(o.ops, m)
		o.set(dst.path, &node{typ: src.st.typ, from: src.disk, st: src.st})
	}
	o.moveBelow(src.path, dst.path)
	o.set(src.path, &node{})
	return ch
}
