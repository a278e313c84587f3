package workspace

import (
	"errors"
	"io/fs"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// errNoExchange says that the system cannot swap two names in one step.
var errNoExchange = errors.New("names cannot be exchanged")

// stage writes all new content to temporary files beside their places.
func (c *commit) stage() error {
	for _, u := range c.units {
		if u.e == nil || u.e.Op != tool.OpWrite || u.same() {
			continue
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if int64(len(u.e.Blob)) != u.e.Size || tool.DigestOf(u.e.Blob) != u.e.After {
			return mismatch(u.e.Path, "the content is not the one that the write set names")
		}
		if err := c.stageFile(u); err != nil {
			return err
		}
	}
	return nil
}

// same reports whether the unit writes what is already there: it was checked, and
// there is nothing to do.
func (u *unit) same() bool { return u.now != nil && u.e.Before != "" && u.e.Before == u.e.After }

func (c *commit) stageFile(u *unit) error {
	path := u.e.Path
	u.tmp, u.temp = u.in.nearest(), c.w.tempName()
	// A new file gets the mode that the user's mask and the directory's default
	// access list give it; one that replaces another is closed to everybody else
	// until it has the mode of the old one.
	perm := uint32(0o666)
	if u.now != nil {
		perm = 0o600
	}
	f, err := u.tmp.d.create(u.temp, perm)
	if err != nil {
		return pathError(path, err)
	}
	defer f.close()
	st, err := f.stat()
	if err != nil {
		return pathError(path, err)
	}
	u.own = st.id
	c.undo = append(c.undo, func() error { c.removeOwn(u); return nil })
	if err := f.write(u.e.Blob); err != nil {
		return pathError(path, err)
	}
	if u.now != nil {
		old, st, err := u.now.d.openFile(u.nowName)
		if err != nil {
			return fail(path, err)
		}
		defer old.close()
		if st.id != u.st.id {
			return mismatch(path, "the file was replaced")
		}
		if err := f.takeAfter(old, st); err != nil {
			if isPermission(err) {
				return tool.PathErrorf(tool.Permission, path, "the new file cannot be given the owner, mode or attributes of the old one").
					WithNext("a person must change the file, or its owner").Because(err)
			}
			return pathError(path, err)
		}
	}
	if c.w.opts.NoSync {
		return nil
	}
	return pathError(path, f.sync())
}

// removeOwn removes a temporary name, but only if what is there is what we put
// there.
func (c *commit) removeOwn(u *unit) {
	if st, err := u.tmp.d.lstat(u.temp); err == nil && sameID(st.id, u.own) {
		u.tmp.d.unlink(u.temp)
	}
}

// publish does the units in their order.
func (c *commit) publish() error {
	for i, u := range c.units {
		if u.e == nil || u.same() && u.e.Op == tool.OpWrite {
			continue
		}
		var err error
		switch u.e.Op {
		case tool.OpMkdir:
			err = c.makeDir(u)
		case tool.OpWrite:
			if u.now == nil {
				err = c.putNew(u)
			} else {
				err = c.replace(u)
			}
		case tool.OpDelete:
			if i+1 < len(c.units) && c.units[i+1].e != nil && c.units[i+1].follows {
				continue // done by the move
			}
			err = c.remove(i)
		case tool.OpMove:
			if u.follows {
				err = c.moveOver(i)
			} else {
				err = c.move(u)
			}
		}
		if err != nil {
			return err
		}
	}
	// Whoever removes a directory looks into it after he took it away; whoever
	// writes into it looks at its path after he wrote. So one of the two sees the
	// other, whatever the order.
	for _, h := range c.held {
		if h.touched && !c.moves(h.path) {
			if err := c.stillThere(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// moves reports whether the set itself takes a path of the disk away.
func (c *commit) moves(path string) bool {
	for _, u := range c.units {
		if u.e != nil && u.now != nil && (u.e.Op == tool.OpMove || u.e.Op == tool.OpDelete) && under(path, join(u.now.path, u.nowName)) {
			return true
		}
	}
	return false
}

func (c *commit) makeDir(u *unit) error {
	path := u.e.Path
	err := u.in.d.mkdir(u.name, 0o777)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		st, e := u.in.d.lstat(u.name)
		if e != nil || st.typ != Dir {
			return mismatch(path, "something else of this name exists now")
		}
	} else if err != nil {
		return pathError(path, err)
	}
	h := u.fresh
	if h.d, err = u.in.d.openDir(u.name); err != nil {
		return fail(path, err)
	}
	h.open = true
	st, err := h.d.stat()
	if err != nil {
		return fail(path, err)
	}
	h.id = st.id
	u.in.touched = true
	if made {
		c.undo = append(c.undo, func() error {
			err := u.in.d.rmdir(u.name)
			if errors.Is(err, fs.ErrExist) {
				return nil // somebody uses it already
			}
			return err
		})
	}
	return nil
}

func (c *commit) putNew(u *unit) error {
	path := u.e.Path
	if err := u.tmp.d.renameNew(u.temp, u.in.d, u.name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return mismatch(path, "a file of this name exists now")
		}
		return fail(path, err)
	}
	u.in.touched = true
	c.undo = append(c.undo, func() error {
		// Only what we put there goes, by way of a name that is ours alone.
		if err := u.in.d.renameNew(u.name, u.tmp.d, u.temp); err != nil {
			return c.stuck(path, u, err)
		}
		if st, err := u.tmp.d.lstat(u.temp); err != nil || !sameID(st.id, u.own) {
			return c.stuck(path, u, u.tmp.d.renameNew(u.temp, u.in.d, u.name))
		}
		return nil
	})
	return nil
}

// replace swaps the new file with the old one, so that the old one is in hand and
// can be looked at, and put back if it is not the one that was approved.
func (c *commit) replace(u *unit) error {
	path := u.e.Path
	err := u.tmp.d.exchange(u.temp, u.in.d, u.name)
	if err == errNoExchange {
		return c.replaceOver(u)
	}
	if err != nil {
		return fail(path, err)
	}
	u.in.touched = true
	back := func() error {
		if err := u.tmp.d.exchange(u.temp, u.in.d, u.name); err != nil {
			return c.stuck(path, u, err)
		}
		return nil
	}
	if err := c.unchanged(u.tmp.d, u.temp, u.e, &u.st); err != nil {
		return errors.Join(err, back())
	}
	c.undo = append(c.undo, back)
	c.late = append(c.late, func() { c.unlinkIf(u.tmp, u.temp, u.st.id) })
	return nil
}

// replaceOver is replace where names cannot be swapped: the old file gets a
// second name first, then the new one takes its place.
func (c *commit) replaceOver(u *unit) error {
	path := u.e.Path
	keep := c.w.tempName()
	err := u.in.d.link(u.name, u.tmp.d, keep)
	linked := err == nil
	if linked {
		if err := c.unchanged(u.tmp.d, keep, u.e, &u.st); err != nil {
			c.unlinkIf(u.tmp, keep, tool.Identity{})
			return err
		}
	} else {
		// No second names here (FAT, some network file systems). One file alone
		// needs none: its rename is the last step and cannot half fail.
		if len(c.units) > 1 {
			return tool.PathErrorf(tool.NotAvailable, path, "this file system can replace one file in a call, not several at once").
				WithNext("change one file in each call").Because(err)
		}
		if err := c.unchanged(u.in.d, u.name, u.e, &u.st); err != nil {
			return err
		}
	}
	if err := u.tmp.d.rename(u.temp, u.in.d, u.name); err != nil {
		if linked {
			c.unlinkIf(u.tmp, keep, u.st.id)
		}
		return fail(path, err)
	}
	u.in.touched = true
	if linked {
		c.undo = append(c.undo, func() error {
			if st, err := u.in.d.lstat(u.name); err != nil || !sameID(st.id, u.own) {
				return c.stuck(path, u, err)
			}
			return u.tmp.d.rename(keep, u.in.d, u.name)
		})
		c.late = append(c.late, func() { c.unlinkIf(u.tmp, keep, u.st.id) })
	}
	return nil
}

// unlinkIf removes a temporary name that still holds what we think it does.
func (c *commit) unlinkIf(h *heldDir, name string, id tool.Identity) {
	if st, err := h.d.lstat(name); err == nil && (id == tool.Identity{} || sameID(st.id, id)) {
		h.d.unlink(name)
	}
}

// remove takes a name out of its place, looks at what it got, and clears it away
// only once everything else is done.
func (c *commit) remove(i int) error {
	u := c.units[i]
	path := u.e.Path
	parent, _ := split(path)
	u.tmp, u.temp = c.shelter(i, u.in, parent), c.w.tempName()
	if err := c.shift(u.in.d, u.name, u.tmp.d, u.temp); err != nil {
		return fail(path, err)
	}
	u.in.touched = true
	back := func() error {
		return c.stuck(path, u, c.shift(u.tmp.d, u.temp, u.in.d, u.name))
	}
	var err error
	if u.e.Mode.IsDir() {
		if u.seen == nil {
			u.seen = map[string]stat{}
		}
		err = c.checkTree(u, u.tmp.d, u.temp)
	} else {
		err = c.unchanged(u.tmp.d, u.temp, u.e, &u.st)
	}
	if err != nil {
		return errors.Join(err, back())
	}
	c.undo = append(c.undo, back)
	c.late = append(c.late, func() {
		if !u.e.Mode.IsDir() {
			c.unlinkIf(u.tmp, u.temp, u.st.id)
			return
		}
		want := make(map[string]*tool.Write, len(u.tree))
		for i := range u.tree {
			want[u.tree[i].Path] = &u.tree[i]
		}
		removeTree(u.tmp.d, u.temp, want, path)
	})
	return nil
}

// shelter finds a directory for what unit i takes out of the directory h, whose
// path is then parent: h itself, or, if a later unit removes h, the directory that
// it is removed from. Otherwise the removed tree would hold a name too many.
func (c *commit) shelter(i int, h *heldDir, parent string) *heldDir {
	for _, u := range c.units[i+1:] {
		switch {
		case u.e == nil:
		case u.e.Op == tool.OpMove && under(parent, u.e.From):
			parent = u.e.Path + parent[len(u.e.From):]
		case u.e.Op == tool.OpDelete && under(parent, u.e.Path):
			h = u.in.nearest()
			parent, _ = split(u.e.Path)
		}
	}
	return h
}

func (c *commit) move(u *unit) error {
	path := u.e.Path
	rename := c.shift
	if st, err := u.to.d.lstat(u.dest); err == nil && c.aliasMove(u, u.to, u.dest, st) {
		rename = dir.rename // the same name in another spelling: nothing to replace
	}
	if err := rename(u.in.d, u.name, u.to.d, u.dest); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return mismatch(path, "something of this name exists now")
		}
		return fail(path, err)
	}
	u.in.touched, u.to.touched = true, true
	back := func() error {
		if err := c.shift(u.to.d, u.dest, u.in.d, u.name); err != nil {
			return c.stuck(u.e.From, nil, err)
		}
		return nil
	}
	if u.now != nil {
		if err := c.unchanged(u.to.d, u.dest, u.e, &u.st); err != nil {
			return errors.Join(err, back())
		}
	}
	c.undo = append(c.undo, back)
	return nil
}

// moveOver moves a file onto another that the unit before it removes: the two
// are swapped, so that the destination is never without a file.
func (c *commit) moveOver(i int) error {
	u, gone := c.units[i], c.units[i-1]
	path := u.e.Path
	err := u.in.d.exchange(u.name, u.to.d, u.dest)
	if err == errNoExchange {
		if err := c.remove(i - 1); err != nil {
			return err
		}
		return c.move(u)
	}
	if err != nil {
		return fail(path, err)
	}
	u.in.touched, u.to.touched = true, true
	back := func() error {
		if err := u.in.d.exchange(u.name, u.to.d, u.dest); err != nil {
			return c.stuck(path, nil, err)
		}
		return nil
	}
	if err := c.unchanged(u.to.d, u.dest, u.e, &u.st); err != nil {
		return errors.Join(err, back())
	}
	if err := c.unchanged(u.in.d, u.name, gone.e, &gone.st); err != nil {
		return errors.Join(err, back())
	}
	parent, _ := split(u.e.From)
	gone.tmp, gone.temp = c.shelter(i, u.in, parent), c.w.tempName()
	if err := u.in.d.renameNew(u.name, gone.tmp.d, gone.temp); err != nil {
		return errors.Join(fail(path, err), back())
	}
	c.undo = append(c.undo, func() error {
		if err := gone.tmp.d.renameNew(gone.temp, u.in.d, u.name); err != nil {
			return c.stuck(path, gone, err)
		}
		return back()
	})
	c.late = append(c.late, func() { c.unlinkIf(gone.tmp, gone.temp, gone.st.id) })
	return nil
}

// stuck says where the bytes are when they could not be put back.
func (c *commit) stuck(path string, u *unit, err error) error {
	if err == nil {
		return nil
	}
	e := tool.PathErrorf(tool.Internal, path, "it could not be put back").Because(err)
	if u != nil && u.tmp != nil {
		e.WithNext("a person must look at %s", tool.QuotePath(join(u.tmp.path, u.temp)))
	}
	return e
}

// rollback undoes what was done, newest first.
func (c *commit) rollback() error {
	var errs []error
	for i := len(c.undo) - 1; i >= 0; i-- {
		if err := c.undo[i](); err != nil {
			errs = append(errs, err)
		}
	}
	c.undo = nil
	return errors.Join(errs...)
}

// finish makes the result durable and clears away what was replaced.
func (c *commit) finish() error {
	var lost error
	sync := func(h *heldDir) {
		if h.open && h.touched && !c.w.opts.NoSync {
			lost = errors.Join(lost, h.d.sync())
		}
	}
	for _, h := range c.held {
		sync(h)
	}
	for _, h := range c.made {
		sync(h)
	}
	for _, f := range c.late {
		f()
	}
	for _, h := range c.held {
		if h.touched {
			c.w.sweep(h.d, h.id, time.Now())
		}
	}
	if lost != nil {
		return tool.Errorf(tool.Internal, "every change is in place, but the file system did not confirm that it will survive a power cut").
			WithNext("a person should check the disk").Because(lost)
	}
	return nil
}
