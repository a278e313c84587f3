package workspace

import (
	"errors"
	"io/fs"
)

// isAlias reports whether a move only changes the spelling of a name.
func (c *commit) isAlias(u *unit) bool {
	st, err := u.to.d.lstat(u.dest)
	return err == nil && c.aliasMove(u, u.to, u.dest, st)
}

// move moves what cannot have a second name: a directory, a link, or anything
// where the file system has none.
func (c *commit) move(u *unit) error {
	path := u.e.Path
	rename := c.shift
	if c.isAlias(u) {
		rename = dir.rename // the same name in another spelling: nothing to replace
	}
	if err := rename(u.in.d, u.name, u.to.d, u.dest); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return mismatch(path, "something of this name exists now")
		}
		return fail(path, err)
	}
	u.in.touched, u.to.touched = true, true
	moved, err := c.mark(u.to.d, u.dest)
	if err != nil {
		return mismatch(path, "it was taken away in the last moment")
	}
	back := func() error { return c.moveBack(u, moved) }
	if u.now != nil {
		if err := c.unchanged(u.to.d, u.dest, u.e, &u.st); err != nil {
			return errors.Join(err, back())
		}
	}
	c.undo = append(c.undo, back)
	return nil
}

// moveFile moves a file, perhaps onto another that the unit before it removes. The
// file gets a second name, which takes the destination or is swapped with it, so
// that a destination is never without a file; then the first name goes. N is the
// name, D the destination:
//
//	N file   D old    T file   linked, and looked at
//	N file   D file   T old    placed; old, if there is one, looked at
//	N none   D file   T old    S file, taken out of N and looked at
//
// Until all is done the file has a name besides D, so that it outlives whoever
// saves over D meanwhile, and what is his can be told from it. Who writes in place
// while it has both N and D may find his bytes under N alone.
func (c *commit) moveFile(i int) error {
	u := c.units[i]
	path := u.e.Path
	parent, _ := split(u.e.From)
	tmp, temp, out := c.shelter(i, u.in, parent), c.w.tempName(), c.w.tempName()
	err := u.in.d.link(u.name, tmp.d, temp)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return fail(path, err)
	}
	if err != nil {
		return c.moveApart(i) // no second names here
	}
	if err := c.unchanged(tmp.d, temp, u.e, &u.st); err != nil {
		return errors.Join(err, c.drop(path, tmp, temp))
	}
	file := mark{st: u.st, object: true}
	swap := u.follows
	if swap {
		if err = tmp.d.exchange(temp, u.to.d, u.dest); err == errNoExchange {
			swap = false
			if err := c.remove(i - 1); err != nil {
				return errors.Join(err, c.drop(path, tmp, temp))
			}
		}
	}
	if !swap {
		err = tmp.d.renameNew(temp, u.to.d, u.dest)
	}
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = mismatch(path, "something of this name exists now")
		}
		return errors.Join(fail(path, err), c.drop(path, tmp, temp))
	}
	u.in.touched, u.to.touched = true, true
	back := func() error {
		_, err := c.pullBack(path, u.to, u.dest, tmp, temp, file)
		return err
	}
	if swap {
		gone := c.units[i-1]
		gone.tmp, gone.temp = tmp, temp
		gone.old, gone.oldName = tmp, temp
		back = func() error { return c.swapBack(path, tmp, temp, u.to, u.dest, file) }
		if err := c.unchanged(tmp.d, temp, gone.e, &gone.st); err != nil {
			return errors.Join(err, back())
		}
		c.late = append(c.late, func() error { return c.unlinkIf(tmp, temp, gone.st.id) })
	}
	if err := c.takeOut(u.in.d, u.name, tmp.d, out); err != nil {
		return errors.Join(fail(path, err), back())
	}
	backs := func() error { return errors.Join(c.giveBack(u.e.From, tmp, out, u.in, u.name), back()) }
	if err := c.unchanged(tmp.d, out, u.e, &u.st); err != nil {
		return errors.Join(err, backs())
	}
	moved, err := c.mark(tmp.d, out)
	if err != nil {
		return errors.Join(fail(path, err), backs())
	}
	c.undo = append(c.undo, func() error {
		// Who wrote into the file since then did so by the name D.
		if same, err := c.holds(tmp.d, out, moved); err == nil && !same {
			err := errors.Join(c.changedThere(u), c.drop(path, tmp, out))
			if swap {
				err = errors.Join(err, c.drop(path, tmp, temp))
			}
			return err
		}
		return backs()
	})
	c.late = append(c.late, func() error { return c.unlinkIf(tmp, out, u.st.id) })
	return nil
}

// moveApart removes what a move replaces, and then moves.
func (c *commit) moveApart(i int) error {
	if u := c.units[i]; u.follows {
		if err := c.remove(i - 1); err != nil {
			return err
		}
	}
	return c.move(c.units[i])
}
