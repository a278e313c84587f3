package workspace

import (
	"context"
	"errors"
	"io/fs"

	"github.com/wasmtools/wasmtools/tool"
)

// check compares every unit with the disk, under the locks.
func (c *commit) check() error {
	for _, h := range c.held {
		if err := c.stillThere(h); err != nil {
			return err
		}
	}
	for _, u := range c.units {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if u.e == nil {
			continue
		}
		if err := c.checkUnit(u); err != nil {
			return err
		}
	}
	return nil
}

// mayChange refuses secrets, and protected paths that nobody allowed.
func (c *commit) mayChange() error {
	j, err := c.w.newJudge(c.ctx, c.set.Entries, &c.sim)
	if err != nil {
		return err
	}
	if err := j.all(false); err != nil {
		return err
	}
	return j.refuse(c.allowed)
}

// mightChange is the same once all is in place: what another program made
// meanwhile, a HEAD beside a config or a name in a directory that moved, can have
// turned a path into a protected one.
func (c *commit) mightChange() error {
	c.w.step("judge")
	now := &view{w: c.w}
	j, err := c.w.newJudge(context.WithoutCancel(c.ctx), c.set.Entries, now)
	if err != nil {
		return err
	}
	j.final = &c.sim
	if err := j.all(true); err != nil {
		return err
	}
	return j.refuse(c.allowed)
}

// stillThere makes sure that a directory's path still leads to the directory
// that we hold.
func (c *commit) stillThere(h *heldDir) error {
	d, err := c.w.openDir(h.path)
	if err != nil {
		return fail(h.path, err)
	}
	defer d.close()
	st, err := d.stat()
	if err != nil {
		return fail(h.path, err)
	}
	if st.id != h.id {
		return mismatch(h.path, "the directory is another one now")
	}
	return nil
}

func (c *commit) checkUnit(u *unit) error {
	e := u.e
	if u.free {
		h, name := u.in, u.name
		if e.Op == tool.OpMove {
			h, name = u.to, u.dest
		}
		if h.open {
			if st, err := h.d.lstat(name); err == nil {
				made := e.Op == tool.OpMkdir && st.typ == Dir // meanwhile, by another commit
				if !made && !c.aliasMove(u, h, name, st) {
					return mismatch(e.Path, "a %s of this name exists now", st.typ.words())
				}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return fail(e.Path, err)
			}
		}
	}
	if u.now == nil {
		return nil
	}
	path := e.Path
	if e.Op == tool.OpMove {
		path = e.From
	}
	st, err := u.now.d.lstat(u.nowName)
	if err != nil {
		return fail(path, err)
	}
	u.st = st
	switch {
	case !sameID(st.id, e.Identity):
		return mismatch(path, "another %s stands there now", st.typ.words())
	case !c.w.sameMount(st):
		return pathError(path, errOtherMount)
	case st.fileMode() != e.Mode:
		return mismatch(path, "its mode or type changed")
	}
	if e.Op == tool.OpWrite {
		switch {
		case st.typ != File:
			return pathError(path, errNotRegular)
		case st.nlink > 1 && !c.w.opts.AllowHardLinks:
			return tool.PathErrorf(tool.Permission, path, "the file has %d names (hard links) now", st.nlink)
		case st.mode&0o222 == 0 || u.now.d.canWrite(u.nowName) != nil:
			return tool.PathErrorf(tool.Permission, path, "the file is read-only now")
		}
	}
	switch {
	case len(u.tree) > 1:
		u.seen = map[string]stat{}
		if c.touchedBefore(u) {
			return nil // only after the units before it is the tree what the set says
		}
		return c.checkTree(u, u.now.d, u.nowName)
	case st.typ == File:
		return c.checkContent(u.now.d, u.nowName, e, st)
	}
	return nil
}

// aliasMove reports whether a name at the destination of a move is only the
// source in another spelling.
func (c *commit) aliasMove(u *unit, h *heldDir, name string, st stat) bool {
	if u.e.Op != tool.OpMove || u.now != h || !sameID(st.id, u.e.Identity) {
		return false
	}
	alias, err := h.d.isAlias(name)
	return err == nil && alias
}

// sameID compares identities where the system has them.
func sameID(got, want tool.Identity) bool {
	if isWindows && (got == tool.Identity{} || want == tool.Identity{}) {
		return true
	}
	return got == want
}

// checkContent compares a file's content with the entry's before side.
func (c *commit) checkContent(d dir, name string, e *tool.Write, st stat) error {
	path := e.Path
	if e.Op == tool.OpMove {
		path = e.From
	}
	if e.Stamp != "" {
		if stampOf(st) != e.Stamp {
			return mismatch(path, "the file changed")
		}
		return nil
	}
	f, got, err := d.openFile(name)
	if err != nil {
		return fail(path, err)
	}
	defer f.close()
	if got.id != st.id {
		return mismatch(path, "the file was replaced")
	}
	sum, _, _, err := digestFile(c.ctx, f, got, -1)
	if err != nil {
		return pathError(path, err)
	}
	if sum != e.Before {
		return mismatch(path, "the file changed")
	}
	return nil
}

// unchanged looks again at what a step took out of its place, under its
// temporary name: it must be what was checked. Content is read again if its time
// cannot vouch for it.
//
// want becomes what the object is now: only its number can differ, on overlayfs.
func (c *commit) unchanged(d dir, name string, e *tool.Write, want *stat) error {
	got, err := d.lstat(name)
	if err != nil {
		return fail(e.Path, err)
	}
	same := c.original(got.id) == want.id
	if !same && !c.w.renumbered(got, *want) || got.typ != want.typ {
		return mismatch(e.Path, "it was replaced in the last moment")
	}
	if want.typ == File && (!same || !got.sameState(*want) || got.racy()) {
		if err := c.checkContent(d, name, e, got); err != nil {
			return err
		}
	}
	*want = got
	return nil
}

// renumbered reports whether an object can be the same one with another number.
// overlayfs copies a file of a lower layer when it is first written or moved, and
// in containers without root the copy has a number of its own; everything else
// that we can see stays.
func (w *Workspace) renumbered(got, want stat) bool {
	return w.overlayfs && got.typ == want.typ && got.mode == want.mode && got.uid == want.uid && got.gid == want.gid &&
		got.mtime == want.mtime && got.size == want.size && got.typ != Dir
}

// checkTree compares a directory that is to be removed with its entries: each
// must be there, and nothing else. What was seen once is only looked at.
func (c *commit) checkTree(u *unit, d dir, name string) error {
	top := u.e.Path
	want := make(map[string]*tool.Write, len(u.tree))
	for i := range u.tree {
		want[u.tree[i].Path] = &u.tree[i]
	}
	found := 0
	var walk func(d dir, name, path string, depth int) error
	walk = func(d dir, name, path string, depth int) error {
		if err := c.ctx.Err(); err != nil && len(c.undo) == 0 {
			return err
		}
		if depth > maxDepth {
			return mismatch(top, "directories lie too deep in each other")
		}
		e := want[path]
		if e == nil {
			return mismatch(path, "it is new in a directory that was to be removed")
		}
		st, err := d.lstat(name)
		if err != nil {
			return fail(path, err)
		}
		switch {
		case e.Identity != (tool.Identity{}) && !sameID(c.original(st.id), e.Identity) && !(c.w.overlayfs && u.temp != "" && st.typ == File):
			return mismatch(path, "another %s stands there now", st.typ.words())
		case st.fileMode().Type() != e.Mode.Type():
			return mismatch(path, "its type changed")
		case !c.w.sameMount(st):
			return pathError(path, errOtherMount)
		}
		found++
		if st.typ != File {
			u.seen[path] = st
		}
		switch st.typ {
		case File:
			if old, ok := u.seen[path]; ok {
				return c.unchanged(d, name, e, &old)
			}
			u.seen[path] = st
			return c.checkContent(d, name, e, st)
		case Dir:
		default:
			return nil
		}
		sub, err := d.openDir(name)
		if err != nil {
			return fail(path, err)
		}
		defer sub.close()
		buf := make([]byte, 16<<10)
		for {
			var names []string
			end, err := sub.readNames(buf, func(n []byte, _ Type) bool {
				names = append(names, string(n))
				return len(names) <= maxNames
			})
			if err != nil {
				return fail(path, err)
			}
			for _, n := range names {
				if err := walk(sub, n, join(path, n), depth+1); err != nil {
					return err
				}
			}
			if end {
				return nil
			}
		}
	}
	if err := walk(d, name, top, 0); err != nil {
		return err
	}
	if found != len(u.tree) {
		return mismatch(top, "something in it is gone")
	}
	return nil
}

// touchedBefore reports whether a unit before u works inside the tree that u
// removes, or brought it to where it is.
func (c *commit) touchedBefore(u *unit) bool {
	if u.now == nil || join(u.now.path, u.nowName) != u.e.Path {
		return true
	}
	for _, x := range c.units {
		if x == u {
			return false
		}
		if x.e != nil && (under(x.e.Path, u.e.Path) || x.e.From != "" && under(x.e.From, u.e.Path)) {
			return true
		}
	}
	return false
}
