package workspace

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Other programs keep no lock of ours: an editor may save, or a person remove,
// between any two steps of a commit. So whatever takes a step back must not
// believe that a name still holds what the step put there. The rule is that the
// name ends with what came under it last, and that what is then left under a
// temporary name is ours, or was replaced by its own owner. Each way back below
// says what lies where after each step; "newer" means put there later by somebody
// else.

// maxBack bounds how often a way back begins again. Each time, somebody must have
// saved within the microseconds between two steps of ours.
const maxBack = 100

// A mark is what a name held when it was looked at, so that it can be told later
// whether it still does, and whether anybody wrote into it. Inode numbers and,
// within a tick of the clock, times come again, so the content counts as well.
type mark struct {
	st     stat
	sum    tool.Digest // of the content; "" if size and time suffice or it cannot be read
	object bool        // the object alone counts, not what it holds
}

func (c *commit) mark(d dir, name string) (mark, error) {
	c.w.step("look")
	st, err := d.lstat(name)
	m := mark{st: st}
	if err == nil && st.typ == File && st.racy() {
		m.sum = c.sumOf(d, name, st)
	}
	return m, err
}

// holds reports whether the name holds what m saw.
func (c *commit) holds(d dir, name string, m mark) (bool, error) {
	c.w.step("look")
	st, err := d.lstat(name)
	if err != nil {
		return false, err
	}
	if !sameID(c.original(st.id), c.original(m.st.id)) || st.typ != m.st.typ {
		return false, nil
	}
	if st.typ != File || m.object {
		return true, nil
	}
	if st.size != m.st.size || st.mtime != m.st.mtime {
		return false, nil
	}
	if m.sum == "" {
		return true, nil
	}
	sum := c.sumOf(d, name, st)
	return sum == "" || sum == m.sum, nil
}

// sumOf digests content. A way back goes on after the call was cancelled.
func (c *commit) sumOf(d dir, name string, st stat) tool.Digest {
	f, got, err := d.openFile(name)
	if err != nil {
		return ""
	}
	defer f.close()
	if got.id != st.id {
		return ""
	}
	sum, _, _, err := digestFile(context.WithoutCancel(c.ctx), f, got, -1)
	if err != nil {
		return ""
	}
	return sum
}

// racy reports whether a write could have left the time as it was.
func (s stat) racy() bool { return time.Since(time.Unix(0, s.mtime)) <= racyTime }

// swapBack undoes an exchange. N is the name, T the temporary one; we put ours
// under N, and T holds what was there.
//
//	N ours    T old     begin: T is to go back
//	N newer   T old     old was replaced by its owner, who took ours for it: drop T
//	N none    T old     removed or moved away: old takes N, lest it be lost
//	N old     T ours    after the exchange, had nobody saved: drop T
//	N old     T newer   somebody saved before the exchange. Newer is to go back,
//	                    and old is what we put under N: begin again with them
//
// In the last case old is not dropped before newer is back under N, and then only
// if it came out of N as we put it there. A save between any two steps comes out
// of N or stays there, so it is never what is dropped. One who wrote into ours in
// place while it stood under N counts as one who saved.
func (c *commit) swapBack(path string, tmp *heldDir, temp string, in *heldDir, name string, ours mark) error {
	for range maxBack {
		old, err := c.mark(tmp.d, temp)
		if err != nil {
			return c.stuck(path, tmp, temp, err)
		}
		same, err := c.holds(in.d, name, ours)
		if errors.Is(err, fs.ErrNotExist) {
			if err = tmp.d.renameNew(temp, in.d, name); errors.Is(err, fs.ErrExist) {
				continue
			}
			return c.stuck(path, tmp, temp, err)
		}
		if err != nil {
			return c.stuck(path, tmp, temp, err)
		}
		if !same {
			return c.drop(path, tmp, temp)
		}
		if err := tmp.d.exchange(temp, in.d, name); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return c.stuck(path, tmp, temp, err)
		}
		if same, err = c.holds(tmp.d, temp, ours); err != nil {
			return c.stuck(path, tmp, temp, err)
		}
		if same {
			return c.drop(path, tmp, temp)
		}
		ours = old
	}
	return c.stuck(path, tmp, temp, errors.New("others save too fast"))
}

// pullBack takes ours away again from N, where nothing was before.
//
//	N newer   T none    begin, or somebody saved: leave it
//	N none    T ours    after the name was taken out: drop T
//	N none    T newer   somebody saved before it was taken out: giveBack
//
// It reports whether N is free for what was there before.
func (c *commit) pullBack(path string, in *heldDir, name string, tmp *heldDir, temp string, ours mark) (free bool, err error) {
	same, err := c.holds(in.d, name, ours)
	if err == nil && !same {
		return false, nil
	}
	if err == nil {
		err = c.takeOut(in.d, name, tmp.d, temp)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, c.stuck(path, in, name, err)
	}
	same, err = c.holds(tmp.d, temp, ours)
	switch {
	case err != nil:
		return false, c.stuck(path, tmp, temp, err)
	case same:
		return true, c.drop(path, tmp, temp)
	}
	return false, c.giveBack(path, tmp, temp, in, name)
}

// giveBack returns to N what was taken out of it to T.
//
//	N none    T old     begin: T moves to N
//	N newer   T old     somebody made the name again; of two files, the newer one
//	                    replaced the old one: drop T. Two directories are merged,
//	                    name by name, by the same rule.
//
// What cannot be merged stays under T, and the error says so.
func (c *commit) giveBack(path string, tmp *heldDir, temp string, in *heldDir, name string) error {
	return c.stuck(path, tmp, temp, c.merge(tmp.d, temp, in.d, name, 0))
}

func (c *commit) merge(from dir, name string, to dir, toName string, depth int) error {
	exists := c.shift(from, name, to, toName)
	if !errors.Is(exists, fs.ErrExist) {
		return exists
	}
	old, err := from.lstat(name)
	if err != nil {
		return err
	}
	there, err := to.lstat(toName)
	switch {
	case errors.Is(err, fs.ErrNotExist) && depth <= maxDepth:
		return c.merge(from, name, to, toName, depth+1)
	case err != nil:
		return err
	case old.typ != Dir && there.typ != Dir:
		return from.unlink(name)
	case old.typ != Dir || there.typ != Dir || depth > maxDepth:
		return exists
	}
	src, err := from.openDir(name)
	if err != nil {
		return err
	}
	defer src.close()
	dst, err := to.openDir(toName)
	if err != nil {
		return err
	}
	defer dst.close()
	names, err := src.allNames()
	for _, n := range names {
		err = errors.Join(err, c.merge(src, n, dst, n, depth+1))
	}
	return errors.Join(err, from.rmdir(name))
}

// moveBack returns what was moved, by way of a name that is ours alone.
//
//	D moved   N none    begin
//	D newer   N none    its new name was saved over, written or taken away by
//	                    somebody: that stays, and there is nothing to return
//	T moved   D,N none  taken out: it goes to N
//	T moved   N newer   N was made again: as giveBack; what cannot be merged goes to D
func (c *commit) moveBack(u *unit, moved mark) error {
	same, err := c.holds(u.to.d, u.dest, moved)
	if err == nil && !same || errors.Is(err, fs.ErrNotExist) {
		return c.changedThere(u)
	}
	temp := c.w.tempName()
	if err == nil {
		err = c.takeOut(u.to.d, u.dest, u.in.d, temp)
	}
	if err != nil {
		return c.stuck(u.e.From, u.to, u.dest, err)
	}
	if same, err := c.holds(u.in.d, temp, moved); err == nil && !same {
		return errors.Join(c.giveBack(u.e.Path, u.in, temp, u.to, u.dest), c.stuck(u.e.From, u.to, u.dest, errors.New("saved over")))
	}
	err = c.merge(u.in.d, temp, u.in.d, u.name, 0)
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(c.stuck(u.e.From, u.to, u.dest, err), c.giveBack(u.e.Path, u.in, temp, u.to, u.dest))
	}
	return c.stuck(u.e.From, u.in, temp, err)
}

func (c *commit) changedThere(u *unit) error {
	return tool.PathErrorf(tool.Internal, u.e.From, "another program changed it where it had been moved to").
		WithNext("a person must look at %s", tool.QuotePath(u.e.Path))
}

// drop removes what a temporary name holds and nobody needs. It never removes a
// directory.
func (c *commit) drop(path string, tmp *heldDir, temp string) error {
	return c.stuck(path, tmp, temp, tmp.d.unlink(temp))
}

// stuck says where the bytes are when they could not be put back.
func (c *commit) stuck(path string, at *heldDir, name string, err error) error {
	if err == nil {
		return nil
	}
	return tool.PathErrorf(tool.Internal, path, "it could not be put back").
		WithNext("a person must look at %s", tool.QuotePath(join(at.path, name))).Because(err)
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
