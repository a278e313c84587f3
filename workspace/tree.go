package workspace

import (
	"context"
	"sort"

	"github.com/wasmtools/wasmtools/tool"
)

// item is one name of a tree in the view.
type item struct {
	path   string // in the view
	node   *node  // pending, or nil
	disk   string // where the disk has it
	onDisk bool
	st     stat

	// The open directory that holds it, and its name there, if it is on disk.
	d    dir
	name string

	empty bool // a directory on disk that holds nothing
}

// treeWalk visits a tree of the view, children before their directory, in byte
// order of the names. It follows no link and enters no other mount: meeting one
// is an error, because what it serves has to reach every name or none.
type treeWalk struct {
	o     *Overlay
	ctx   context.Context
	visit func(item) error
	max   int
	count int
}

// run visits pl and everything below it.
func (t *treeWalk) run(pl place) error {
	if pl.node != nil && pl.node.fresh() {
		return t.pending(pl.path, pl.node, 0)
	}
	return t.fromDisk(pl.path, pl.node, pl.disk, pl.st.id, 0)
}

func (t *treeWalk) pending(path string, n *node, depth int) error {
	switch {
	case n.typ == "":
		return nil
	case n.from != "":
		return t.fromDisk(path, n, n.from, tool.Identity{}, depth)
	case n.typ == Dir:
		if err := t.list(path, dir{}, "", depth); err != nil {
			return err
		}
	}
	if err := t.step(path); err != nil {
		return err
	}
	return t.visit(item{path: path, node: n, disk: n.base, onDisk: n.base != "", st: n.st})
}

// fromDisk starts at a path on disk. id is what is expected there, if it is
// known.
func (t *treeWalk) fromDisk(path string, n *node, disk string, id tool.Identity, depth int) error {
	parent, name := split(disk)
	d, err := t.o.w.openDir(parent)
	if err != nil {
		return err
	}
	defer d.close()
	return t.entry(item{path: path, node: n, disk: disk, onDisk: true, d: d, name: name}, id, depth)
}

func (t *treeWalk) entry(it item, want tool.Identity, depth int) error {
	if err := t.step(it.path); err != nil {
		return err
	}
	var err error
	if it.st, err = it.d.lstat(it.name); err != nil {
		return pathError(it.path, err)
	}
	if want != (tool.Identity{}) && it.st.id != want {
		return errLink
	}
	if !t.o.w.sameMount(it.st) {
		return pathError(it.path, errOtherMount)
	}
	if it.st.typ == Dir {
		sub, err := it.d.openDir(it.name)
		if err != nil {
			if err == errLink {
				return err
			}
			return pathError(it.path, err)
		}
		defer sub.close()
		got, err := sub.stat()
		if err != nil {
			return pathError(it.path, err)
		}
		if got.id != it.st.id {
			return errLink
		}
		before := t.count
		if err := t.list(it.path, sub, it.disk, depth); err != nil {
			return err
		}
		it.empty = t.count == before
	}
	return t.visit(it)
}

// list visits what is in a directory; d has no workspace if it is not on disk.
func (t *treeWalk) list(path string, d dir, disk string, depth int) error {
	if depth >= maxDepth {
		return tool.PathErrorf(tool.TooLarge, path, "directories lie more than %d deep in each other", maxDepth).
			WithNext("work on a directory further down")
	}
	kids := t.o.kids[path]
	names := make([]string, 0, len(kids))
	for name := range kids {
		names = append(names, name)
	}
	if d.w != nil {
		buf := make([]byte, 16<<10)
		for {
			end, err := d.readNames(buf, func(name []byte, _ Type) bool {
				if _, ok := kids[string(name)]; !ok {
					names = append(names, string(name))
				}
				return t.count+len(names) <= t.max
			})
			if err != nil {
				return pathError(path, err)
			}
			if t.count+len(names) > t.max {
				return t.tooMany(path)
			}
			if end {
				break
			}
		}
	}
	sort.Strings(names)
	for _, name := range names {
		var err error
		if n, ok := kids[name]; ok {
			err = t.pending(join(path, name), n, depth+1)
		} else {
			err = t.entry(item{path: join(path, name), disk: join(disk, name), onDisk: true, d: d, name: name}, tool.Identity{}, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *treeWalk) step(path string) error {
	if t.count++; t.count > t.max {
		return t.tooMany(path)
	}
	return t.ctx.Err()
}

func (t *treeWalk) tooMany(path string) error {
	return tool.PathErrorf(tool.TooLarge, path, "the tree holds more than %d names", t.max).
		WithNext("work on the directories in it one by one")
}
