package workspace

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// racyTime is how near to a change a file may have been read for its time to say
// nothing: the clocks of file systems tick in milliseconds.
const racyTime = 100 * time.Millisecond

// Commit puts a write set on the disk: every entry or none.
//
// Under locks that hold against other commits, it first checks that every name is
// what the set says it was (identity, content, mode, and that it may be written),
// then writes all new content to temporary files beside their places, and then
// puts them in place one by one. Each of these steps swaps or moves a name, never
// overwrites one, and looks at what came out: had anybody changed the name in
// between, the step and those before it are undone and nothing is lost.
//
// If anything is not as it was, the error is approval_mismatch and names the
// file. After a crash each file is old or new, never partly written.
//
// A path of the set that is on the list of protected paths ends the commit with
// protected, unless it is among allowed, or below one of them, under the same
// rule. What is allowed is what [Overlay.Protected] gave and a person, or a rule
// that names the path, agreed to. A secret is never changed.
//
// Commit may be called from several goroutines.
//
// What a commit takes away is kept in the journal, see [Workspace.Undo].
func (w *Workspace) Commit(ctx context.Context, ws *tool.WriteSet, allowed ...tool.ProtectedPath) error {
	return w.CommitBy(ctx, By{}, ws, allowed...)
}

// CommitBy is Commit on behalf of a call, which the journal names.
func (w *Workspace) CommitBy(ctx context.Context, by By, ws *tool.WriteSet, allowed ...tool.ProtectedPath) error {
	c := &commit{w: w, ctx: ctx, by: by, set: ws, allowed: allowed}
	return c.run()
}

func (c *commit) run() error {
	if c.set.Empty() {
		return nil
	}
	c.held = map[string]*heldDir{}
	c.sim.w = c.w
	defer c.close()
	if err := c.plan(c.set); err != nil {
		return err
	}
	unlock, err := c.w.lock(c.ctx, c.shards())
	if err != nil {
		return err
	}
	defer unlock()
	for _, step := range []func() error{c.check, c.mayChange, c.begin, c.stage, c.publish, c.mightChange, c.keep} {
		if err := step(); err != nil {
			stuck := c.rollback()
			if stuck == nil {
				c.abandon() // else the next opening tries again
			}
			return errors.Join(err, stuck)
		}
	}
	return errors.Join(c.finish(), c.endLog())
}

// commit is one run.
type commit struct {
	w       *Workspace
	ctx     context.Context
	by      By
	set     *tool.WriteSet
	allowed []tool.ProtectedPath

	sim   view
	held  map[string]*heldDir
	made  []*heldDir
	units []*unit

	// Directories that had to be made anew to be moved, and what they were.
	remade map[tool.Identity]tool.Identity

	locked int // staged files that are locked

	log     Logged // what the journal gets
	logging bool   // and has
	copied  int64  // bytes that were kept by copying them

	restoring map[*tool.Write]*LoggedChange // of an undo: what an entry puts back

	undo   []func() error // of the steps done, in their order
	late   []func() error // what to clear away once all is in place
	untidy bool           // not all of it could be
}

// heldDir is a directory that names of the set lie in, pinned by an open handle.
type heldDir struct {
	d       dir
	open    bool
	id      tool.Identity
	path    string   // on disk at the start; "" if the set makes it
	anchor  *heldDir // of a directory to be made: the nearest one that exists
	touched bool
}

// nearest is where temporary files for the directory can lie.
func (h *heldDir) nearest() *heldDir {
	for !h.open && h.anchor != nil {
		h = h.anchor
	}
	return h
}

// unit is one step: an entry, or the removal of a whole tree.
type unit struct {
	e    *tool.Write
	tree []tool.Write // of a removed directory: all its entries, itself last

	in   *heldDir // where the name is
	name string
	to   *heldDir // of a move: where it goes
	dest string

	// What the set says stands there now, on disk: nil if it is made by an
	// earlier unit, or if nothing is expected.
	now     *heldDir
	nowName string
	fresh   *heldDir // the directory made by an earlier unit that this one is about
	free    bool     // the name must be free on disk when the commit begins
	follows bool     // a move that takes the place of what the unit before it removes

	st   stat            // of what stands there, when checked
	seen map[string]stat // of a tree, by path in it
	temp string
	tmp  *heldDir
	own  mark // our temporary file

	old     *heldDir // where what the unit took out of its place is, until all is done; nil: nothing, or not yet
	oldName string

	logged []LoggedChange    // the journal's entries of the unit
	links  map[string]string // where links of a removed tree lead, by path

	lock   file // keeps the staged file from being taken for a leftover
	locked bool
}

func mismatch(path, format string, args ...any) *tool.Error {
	return tool.PathErrorf(tool.ApprovalMismatch, path, format, args...)
}

// fail turns an error of the system into one about a path of the set.
func fail(path string, err error) error {
	switch {
	case err == errLink:
		return mismatch(path, "a link stands on the way to it now")
	case errors.Is(err, fs.ErrNotExist):
		return mismatch(path, "it, or its directory, is not there any more")
	}
	return pathError(path, err)
}

// plan finds out, without changing anything, in which directories the units work
// and what each expects to find, given those before it.
func (c *commit) plan(ws *tool.WriteSet) error {
	for i := range ws.Entries {
		for _, p := range []string{ws.Entries[i].Path, ws.Entries[i].From} {
			if p == "" && ws.Entries[i].Op != tool.OpMove {
				continue
			}
			clean, _, err := checkPath(c.w.real, p)
			if err != nil {
				return err
			}
			if _, name := split(clean); clean != p || clean == "." || IsTemp(name) {
				return tool.PathErrorf(tool.InvalidArguments, p, "not a canonical path that a write set can hold")
			}
		}
	}
	for _, group := range unitsOf(ws.Entries) {
		u := &unit{e: &group[len(group)-1], tree: group}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.place(u); err != nil {
			return err
		}
		c.units = append(c.units, u)
	}
	return nil
}

// unitsOf cuts a set into entries and removed trees. A tree's own entry is its
// last, and everything in it comes right before.
func unitsOf(entries []tool.Write) [][]tool.Write {
	var out [][]tool.Write
	for end := len(entries); end > 0; {
		start := end - 1
		if e := entries[start]; e.Op == tool.OpDelete && e.Mode.IsDir() {
			for start > 0 && entries[start-1].Op == tool.OpDelete && under(entries[start-1].Path, e.Path) && entries[start-1].Path != e.Path {
				start--
			}
		}
		out = append(out, entries[start:end])
		end = start
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// place locates one unit in the tree as the units before it leave it.
func (c *commit) place(u *unit) error {
	e := u.e
	path := e.Path
	if e.Op == tool.OpMove {
		path = e.From
	}
	var err error
	parent, name := split(path)
	u.name = name
	if u.in, err = c.dirOf(parent, path); err != nil {
		return err
	}
	n, disk, onDisk := c.sim.lookup(path)

	// What the entry is about.
	switch {
	case e.Op == tool.OpMkdir || e.Op == tool.OpWrite && e.Identity == tool.Identity{}:
		if n != nil && n.typ != "" {
			return mismatch(path, "the write set makes it twice")
		}
		u.free = n == nil
	case n != nil && n.typ == "":
		return mismatch(path, "the write set takes it away before")
	case n != nil && n.fresh() && n.base == "":
		if n.typ != Dir || e.Identity != (tool.Identity{}) {
			return mismatch(path, "the write set changes what it made itself")
		}
		u.fresh = c.freshDir(n)
	case !onDisk:
		return mismatch(path, "it does not exist")
	default:
		p, name := split(disk)
		if u.now, err = c.hold(p, path); err != nil {
			return err
		}
		u.nowName = name
	}

	// What it leaves.
	switch e.Op {
	case tool.OpMkdir:
		if u.free && u.in.open {
			// Somebody made the directory meanwhile: then there is nothing to do,
			// and what is below it is on disk.
			if st, err := u.in.d.lstat(u.name); err == nil && st.typ == Dir {
				u.free, u.e = false, nil
				return nil
			}
		}
		h := &heldDir{anchor: u.in.nearest()}
		c.made = append(c.made, h)
		u.fresh = h
		c.sim.set(path, &node{typ: Dir, st: stat{typ: Dir}, held: h})
	case tool.OpWrite:
		n := &node{typ: File, st: stat{typ: File}, data: e.Blob}
		if u.now != nil {
			n.base = disk
		}
		c.sim.set(path, n)
	case tool.OpDelete:
		c.readLinks(u)
		c.sim.clearBelow(path)
		c.sim.set(path, &node{})
	case tool.OpMove:
		return c.placeMove(u, n, disk)
	default:
		return tool.PathErrorf(tool.InvalidArguments, path, "a write set cannot hold %q", string(e.Op))
	}
	return nil
}

// readLinks reads where the links lead that a unit removes, from where the disk has
// them before the commit: units before this one may bring them to their paths.
func (c *commit) readLinks(u *unit) {
	if c.w.journal == nil {
		return
	}
	for i := range u.tree {
		e := &u.tree[i]
		if e.Mode&fs.ModeSymlink == 0 {
			continue
		}
		if _, disk, onDisk := c.sim.lookup(e.Path); onDisk {
			if st, target, err := c.w.lstatPath(disk); err == nil && st.typ == Link {
				if u.links == nil {
					u.links = map[string]string{}
				}
				u.links[e.Path] = target
			}
		}
	}
}

func (c *commit) placeMove(u *unit, n *node, disk string) error {
	e := u.e
	if under(e.Path, e.From) {
		return tool.PathErrorf(tool.InvalidArguments, e.Path, "a directory cannot be moved into itself")
	}
	parent, name := split(e.Path)
	var err error
	if u.to, err = c.dirOf(parent, e.Path); err != nil {
		return err
	}
	u.dest = name
	there, _, _ := c.sim.lookup(e.Path)
	if there != nil && there.typ != "" {
		return mismatch(e.Path, "the write set makes it twice")
	}
	if e.Replaced != (tool.Identity{}) {
		// What is replaced goes by an entry of its own, right before.
		prev := len(c.units) - 1
		if prev < 0 || c.units[prev].e == nil || c.units[prev].e.Op != tool.OpDelete || c.units[prev].e.Path != e.Path || c.units[prev].e.Identity != e.Replaced {
			return tool.PathErrorf(tool.InvalidArguments, e.Path, "a move that replaces a file must follow the removal of it")
		}
		u.follows = u.now != nil && c.units[prev].now != nil
	}
	u.free = there == nil
	moved := &node{typ: File, from: disk}
	switch {
	case e.Mode.IsDir():
		moved.typ = Dir
	case e.Mode&fs.ModeSymlink != 0:
		moved.typ = Link
	}
	if u.fresh != nil {
		moved = &node{typ: Dir, st: stat{typ: Dir}, held: u.fresh}
	} else if n != nil && n.base != "" {
		return mismatch(e.From, "the write set changes it before it moves it")
	}
	c.sim.set(e.Path, moved)
	c.sim.moveBelow(e.From, e.Path)
	c.sim.set(e.From, &node{})
	return nil
}

// dirOf gives the directory at a path of the tree as it is so far.
func (c *commit) dirOf(path, about string) (*heldDir, error) {
	n, disk, onDisk := c.sim.lookup(path)
	if n != nil && n.typ == Dir && n.fresh() {
		return c.freshDir(n), nil
	}
	if !onDisk || n != nil && n.typ == "" {
		return nil, mismatch(about, "its directory does not exist")
	}
	return c.hold(disk, about)
}

func (c *commit) freshDir(n *node) *heldDir { return n.held }

// hold opens a directory of the disk, once.
func (c *commit) hold(path, about string) (*heldDir, error) {
	if h := c.held[path]; h != nil {
		return h, nil
	}
	d, err := c.w.openDir(path)
	if err != nil {
		return nil, fail(about, err)
	}
	st, err := d.stat()
	if err != nil {
		d.close()
		return nil, fail(about, err)
	}
	h := &heldDir{d: d, open: true, id: st.id, path: path}
	c.held[path] = h
	return h, nil
}

func (c *commit) close() {
	for _, u := range c.units {
		u.unlock()
	}
	for _, h := range c.held {
		h.d.close()
	}
	for _, h := range c.made {
		if h.open {
			h.d.close()
		}
	}
}

// shards lists what has to be locked.
func (c *commit) shards() []int {
	seen := [lockShards]bool{}
	var out []int
	add := func(h *heldDir, name string) {
		if h == nil {
			return
		}
		if n := shardOf(h.nearest().id, name); !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	for _, u := range c.units {
		add(u.in, u.name)
		add(u.to, u.dest)
		add(u.now, u.nowName)
	}
	return out
}
