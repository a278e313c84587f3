package workspace

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// begin writes into the journal what the commit is about to do.
func (c *commit) begin() error {
	j := c.w.journal
	if j == nil {
		return nil
	}
	c.log.At, c.log.By = time.Now().UTC(), c.by
	for _, u := range c.units {
		if u.e == nil || u.same() && u.e.Op == tool.OpWrite {
			continue
		}
		from := len(c.log.Changes)
		for i := range u.tree {
			e := &u.tree[i]
			st := u.st
			if len(u.tree) > 1 {
				st = u.seen[e.Path]
			}
			c.log.Changes = append(c.log.Changes, c.logged(u, e, st))
		}
		to := len(c.log.Changes)
		defer func() { u.logged = c.log.Changes[from:to] }()
	}
	if err := j.write(&c.log); err != nil {
		return journalError(err)
	}
	c.logging = true
	c.w.step("begun")
	return nil
}

// logged is an entry as the journal has it. st is what stands there, as far as
// it was looked at.
func (c *commit) logged(u *unit, e *tool.Write, st stat) LoggedChange {
	l := LoggedChange{
		Op: e.Op, Path: e.Path, From: e.From, ID: e.Identity, Before: e.Before, After: e.After, Mode: e.Mode,
		Size: st.size, UID: st.uid, GID: st.gid,
	}
	if e.Op == tool.OpMkdir || e.Op == tool.OpWrite && e.Identity == (tool.Identity{}) && u.now == nil {
		return l
	}
	switch {
	case e.Mode.IsDir():
		l.Was = Dir
	case e.Mode&fs.ModeSymlink != 0:
		l.Was = Link
		if e.Op == tool.OpDelete {
			var ok bool
			if l.Target, ok = u.links[e.Path]; !ok {
				l.Lost = "where the link led could not be read"
			}
		}
	case e.Mode.IsRegular():
		l.Was = File
		if e.Op != tool.OpMove && e.Before != "" {
			l.Kept = e.Before.Hex()
		}
	default:
		l.Was, l.Lost = Other, "a device, FIFO or socket"
	}
	if e.Permanent {
		l.Kept, l.Lost = "", "it was deleted permanently"
	}
	return l
}

// keep gives what the commit took out of its place a second name in the journal.
func (c *commit) keep() error {
	if !c.logging {
		return nil
	}
	if !slices.ContainsFunc(c.log.Changes, func(l LoggedChange) bool { return l.Kept != "" }) {
		return nil
	}
	unlock, err := c.w.journal.lock(context.WithoutCancel(c.ctx))
	if err != nil {
		return journalError(err)
	}
	defer unlock()
	c.w.step("keep")
	k := keeper{c: c, to: c.w.journal.kept.root}
	for _, u := range c.units {
		if u.old == nil || u.e == nil {
			continue
		}
		if err = k.unit(u.old.d, u.oldName, u.logged); err != nil {
			k.drop()
			return err
		}
	}
	if c.w.opts.NoSync {
		return nil
	}
	if err := k.to.sync(); err != nil {
		k.drop()
		return journalError(err)
	}
	return nil
}

// keeper gives files a second name in the journal, whose lock it holds.
type keeper struct {
	c    *commit
	kept map[string]*LoggedChange // of the unit, by path
	to   dir
	made []string
}

// unit keeps what one unit took out of its place: a file, or what is in a directory
// with that at its end.
func (k *keeper) unit(d dir, name string, logged []LoggedChange) error {
	k.kept = map[string]*LoggedChange{}
	for i := range logged {
		if l := &logged[i]; l.Kept != "" {
			k.kept[l.Path] = l
		}
	}
	l := &logged[len(logged)-1]
	switch {
	case len(k.kept) == 0:
		return nil
	case l.Was == Dir:
		return k.tree(d, name, l.Path, 0)
	}
	return k.file(d, name, l)
}

// drop takes the second names back: a file that has two is not written to.
func (k *keeper) drop() {
	for _, name := range k.made {
		k.to.unlink(name)
	}
}

// tree keeps what is in a directory that was taken out of its place.
func (k *keeper) tree(in dir, name, path string, depth int) error {
	d, err := in.openDir(name)
	if err != nil {
		return pathError(path, err)
	}
	defer d.close()
	names, err := d.allNames()
	if err != nil {
		return pathError(path, err)
	}
	for _, n := range names {
		p := join(path, n)
		if l := k.kept[p]; l != nil {
			err = k.file(d, n, l)
		} else if st, e := d.lstat(n); e == nil && st.typ == Dir && depth < maxDepth {
			err = k.tree(d, n, p, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file keeps one file. Its content is known by its digest: if it is kept already,
// there is nothing to do.
func (k *keeper) file(d dir, name string, l *LoggedChange) error {
	st, err := d.lstat(name)
	if err != nil {
		return pathError(l.Path, err)
	}
	if have, err := k.to.lstat(l.Kept); err == nil && have.typ == File && have.size == st.size {
		return nil
	}
	k.to.unlink(l.Kept) // of another size: it is not what its name says
	if err := d.link(name, k.to, l.Kept); err == nil {
		k.made = append(k.made, l.Kept)
		return nil
	}
	// Another file system, or one without second names.
	c := k.c
	if c.copied += st.size; c.copied > maxCopied {
		if l.Op == tool.OpWrite {
			return nil // who asks for it back is told
		}
		return tool.PathErrorf(tool.TooLarge, l.Path, "more than %s would have to be copied to keep it for an undo, since the state folder lies on another file system", byteCount(maxCopied)).
			WithNext("delete less at once, or set permanent if no undo is needed")
	}
	if err := k.copy(d, name, l.Kept); err != nil {
		return journalError(err)
	}
	return nil
}

func (k *keeper) copy(d dir, name, kept string) error {
	from, _, err := d.openFile(name)
	if err != nil {
		return err
	}
	defer from.close()
	temp := tempName()
	f, err := k.to.create(temp, 0o600)
	if err != nil {
		return err
	}
	defer f.close()
	err = copyFile(f, from, nil)
	if err == nil && !k.c.w.opts.NoSync {
		err = f.sync()
	}
	if err == nil {
		err = k.to.renameNew(temp, k.to, kept)
	}
	if err != nil {
		k.to.unlink(temp)
		return err
	}
	k.made = append(k.made, kept)
	return nil
}

// copyFile copies what from holds; see, if not nil, is shown every byte. Where from
// is all zeros, to gets a hole: a sparse file stays about as small as it was.
func copyFile(to, from file, see io.Writer) error {
	buf := make([]byte, 256<<10)
	zeros := make([]byte, len(buf))
	var off int64
	for {
		n, err := from.readAt(buf, off)
		off += int64(n)
		if see != nil {
			see.Write(buf[:n])
		}
		put := to.write
		if n == len(buf) && bytes.Equal(buf, zeros) {
			put = to.skip
		}
		if e := put(buf[:n]); e != nil {
			return e
		}
		if err == io.EOF {
			return to.truncate(off)
		}
		if err != nil {
			return err
		}
	}
}

// abandon takes the record of a commit back that was rolled back.
func (c *commit) abandon() {
	if c.logging {
		c.w.journal.forget(c.log.Seq)
	}
}

// inPlace says that every change is where it belongs: a commit that dies from now
// on is not taken back.
func (c *commit) inPlace() error {
	if !c.logging {
		return nil
	}
	c.w.step("in place")
	return journalError(c.w.journal.advance(c.log.Seq, "open", "late"))
}

// endLog ends the record of a commit that has cleared away what it replaced.
func (c *commit) endLog() error {
	if !c.logging {
		return nil
	}
	c.w.step("end")
	if c.untidy {
		return nil // the next opening tries again
	}
	j := c.w.journal
	if err := j.advance(c.log.Seq, "late", "done"); err != nil {
		return journalError(err)
	}
	if j.due() {
		_ = j.prune(context.WithoutCancel(c.ctx), time.Now()) // the next one tries again
	}
	return nil
}
