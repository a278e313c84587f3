package workspace

import (
	"crypto/sha256"

	"github.com/wasmtools/wasmtools/tool"
)

// An undo puts back what no call can make: links, and files and directories with
// the owner and the mode that they had. Its content is copied from the journal
// where it is too large to be held.

// fromJournal reports whether the content of an entry is to be had there.
func (c *commit) fromJournal(e *tool.Write) bool {
	return c.restoring[e] != nil && e.Blob == nil
}

// copyBack writes what the journal kept into f.
func (c *commit) copyBack(f file, e *tool.Write) error {
	k, _, err := c.w.journal.kept.root.openFile(c.restoring[e].Kept)
	if err != nil {
		return err
	}
	defer k.close()
	h := sha256.New()
	if err := copyFile(f, k, h); err != nil {
		return err
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	if tool.SumDigest(sum) != e.After {
		return mismatch(e.Path, "what the journal kept of it changed")
	}
	return nil
}

// stageLink makes a link beside its place. Only an undo does that, and only where
// one stood.
func (c *commit) stageLink(u *unit) error {
	if c.restoring[u.e] == nil || u.now != nil {
		return tool.PathErrorf(tool.InvalidArguments, u.e.Path, "a write set cannot make a link")
	}
	u.tmp, u.temp = u.in.nearest(), c.w.tempName()
	if err := u.tmp.d.symlink(string(u.e.Blob), u.temp); err != nil {
		return pathError(u.e.Path, err)
	}
	c.undo = append(c.undo, func() error { return c.removeOwn(u) })
	st, err := u.tmp.d.lstat(u.temp)
	if err != nil {
		return pathError(u.e.Path, err)
	}
	u.own = mark{st: st}
	return nil
}
