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
		if !c.fromJournal(u.e) && (int64(len(u.e.Blob)) != u.e.Size || tool.DigestOf(u.e.Blob) != u.e.After) {
			return mismatch(u.e.Path, "the content is not the one that the write set names")
		}
		stage := c.stageFile
		if u.e.Mode&fs.ModeSymlink != 0 {
			stage = c.stageLink
		}
		if err := stage(u); err != nil {
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
	// A new file gets the mode that the user's mask and the directory's default
	// access list give it; one that replaces another is closed to everybody else
	// until it has the mode of the old one.
	perm := uint32(0o666)
	if u.now != nil {
		perm = 0o600
	}
	u.tmp = u.in.nearest()
	f, err := c.createStaged(u, perm)
	if err != nil {
		return pathError(path, err)
	}
	if !u.locked {
		defer f.close()
	}
	c.undo = append(c.undo, func() error { return c.removeOwn(u) })
	if err = c.w.fault("write"); err == nil {
		if c.fromJournal(u.e) {
			err = c.copyBack(f, u.e)
		} else {
			err = f.write(u.e.Blob)
		}
	}
	if err != nil {
		return pathError(path, err)
	}
	if l := c.restoring[u.e]; l != nil && u.now == nil {
		if err := f.become(l.UID, l.GID, modePerm(l.Mode)); err != nil {
			return pathError(path, err)
		}
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
	if !c.w.opts.NoSync {
		if err := c.sync(f); err != nil {
			return pathError(path, err)
		}
	}
	st, err := f.stat()
	if err != nil {
		return pathError(path, err)
	}
	u.own = mark{st: st, sum: u.e.After}
	return nil
}

// createStaged makes the file that u is staged in. While its lock is held, no
// other commit takes it for a leftover. Such a commit may be quicker than we are
// with the lock: then the file is its, and we make another.
func (c *commit) createStaged(u *unit, perm uint32) (file, error) {
	for try := 0; ; try++ {
		lock := c.locked < maxStagedLocks
		u.temp = c.w.tempName()
		if lock {
			u.temp = stagedName(u.temp)
		}
		f, err := u.tmp.d.create(u.temp, perm)
		if err != nil {
			return f, err
		}
		var ok bool
		if lock {
			ok, err = f.tryLock()
		}
		st, e := f.stat()
		if e != nil {
			f.close()
			return f, e
		}
		if err == nil && lock && (!ok || st.nlink == 0) && try < maxTries {
			f.close()
			continue
		}
		u.own = mark{st: st, object: true}
		if ok {
			u.lock, u.locked = f, true
			c.locked++
		}
		return f, nil
	}
}

// unlock gives the lock of a staged file up.
func (u *unit) unlock() {
	if u.locked {
		u.lock.close()
		u.locked = false
	}
}

// removeOwn removes a temporary name, but only if what is there is what we put
// there.
func (c *commit) removeOwn(u *unit) (err error) {
	if same, e := c.holds(u.tmp.d, u.temp, u.own); e == nil && same {
		err = u.tmp.d.unlink(u.temp)
	}
	u.unlock()
	return err
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
			if u.now != nil && u.st.typ == File && !c.isAlias(u) {
				err = c.moveFile(i)
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
	if l := c.restoring[u.e]; l != nil && made {
		// Last, because it may forbid what is still to be made in it.
		c.late = append(c.late, func() error { return h.d.become(l.UID, l.GID, modePerm(l.Mode)) })
	}
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
	u.unlock()
	u.in.touched = true
	c.undo = append(c.undo, func() error {
		u.temp = c.w.tempName()
		_, err := c.pullBack(path, u.in, u.name, u.tmp, u.temp, u.own)
		return err
	})
	return nil
}

// replace swaps the new file with the old one, so that the old one is in hand and
// can be looked at, and put back if it is not the one that was approved. Once it
// was looked at, a save over the new file is simply newer.
func (c *commit) replace(u *unit) error {
	path := u.e.Path
	if err := c.unstage(u); err != nil {
		return err
	}
	err := u.tmp.d.exchange(u.temp, u.in.d, u.name)
	if err == errNoExchange {
		return c.replaceOver(u)
	}
	if err != nil {
		return fail(path, err)
	}
	u.in.touched = true
	back := func() error { return c.swapBack(path, u.tmp, u.temp, u.in, u.name, u.own) }
	if err := c.unchanged(u.tmp.d, u.temp, u.e, &u.st); err != nil {
		return errors.Join(err, back())
	}
	u.old, u.oldName = u.tmp, u.temp
	c.undo = append(c.undo, back)
	c.late = append(c.late, func() error { return c.unlinkIf(u.tmp, u.temp, u.st.id) })
	return nil
}

// unstage gives a staged file a name that can hold somebody else's bytes next:
// those of staged files are removed when their commit has died.
func (c *commit) unstage(u *unit) error {
	next := c.w.tempName()
	if err := u.tmp.d.renameNew(u.temp, u.tmp.d, next); err != nil {
		return fail(u.e.Path, err)
	}
	u.temp = next
	u.unlock()
	return nil
}

// replaceOver is replace where names cannot be swapped: the old file gets a
// second name first, then the new one takes its place. Between the last look and
// that there is a gap that such systems have no means to close.
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
	}
	if err := c.unchanged(u.in.d, u.name, u.e, &u.st); err != nil {
		if linked {
			c.unlinkIf(u.tmp, keep, tool.Identity{})
		}
		return err
	}
	if err := u.tmp.d.rename(u.temp, u.in.d, u.name); err != nil {
		if linked {
			c.unlinkIf(u.tmp, keep, u.st.id)
		}
		return fail(path, err)
	}
	u.in.touched = true
	if linked {
		u.old, u.oldName = u.tmp, keep
		c.undo = append(c.undo, func() error {
			u.temp = c.w.tempName()
			free, err := c.pullBack(path, u.in, u.name, u.tmp, u.temp, u.own)
			if !free {
				return errors.Join(err, c.drop(path, u.tmp, keep))
			}
			return errors.Join(err, c.giveBack(path, u.tmp, keep, u.in, u.name))
		})
		c.late = append(c.late, func() error { return c.unlinkIf(u.tmp, keep, u.st.id) })
	}
	return nil
}

// unlinkIf removes a temporary name that still holds what we think it does.
func (c *commit) unlinkIf(h *heldDir, name string, id tool.Identity) error {
	if st, err := h.d.lstat(name); err == nil && (id == tool.Identity{} || sameID(st.id, id)) {
		return h.d.unlink(name)
	}
	return nil
}

// remove takes a name out of its place, looks at what it got, and clears it away
// only once everything else is done.
func (c *commit) remove(i int) error {
	u := c.units[i]
	path := u.e.Path
	parent, _ := split(path)
	u.tmp, u.temp = c.shelter(i, u.in, parent), c.w.tempName()
	if err := c.takeOut(u.in.d, u.name, u.tmp.d, u.temp); err != nil {
		return fail(path, err)
	}
	u.in.touched = true
	back := func() error { return c.giveBack(path, u.tmp, u.temp, u.in, u.name) }
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
	u.old, u.oldName = u.tmp, u.temp
	c.undo = append(c.undo, back)
	c.late = append(c.late, func() error {
		if !u.e.Mode.IsDir() {
			return c.unlinkIf(u.tmp, u.temp, u.st.id)
		}
		want := make(map[string]*tool.Write, len(u.tree))
		for i := range u.tree {
			want[u.tree[i].Path] = &u.tree[i]
		}
		return removeTree(u.tmp.d, u.temp, want, path)
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

// finish makes the result durable and clears away what was replaced. What it
// cannot clear away, the next opening of the workspace does.
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
	if err := c.inPlace(); err != nil {
		return err
	}
	for _, f := range c.late {
		if f() != nil {
			c.untidy = true
		}
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

func (c *commit) sync(f file) error {
	if err := c.w.fault("sync"); err != nil {
		return err
	}
	return f.sync()
}
