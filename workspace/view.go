package workspace

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// view is the tree as it will be once some pending changes have been done: the
// disk, and on top of it the names that differ. All its paths are canonical.
type view struct {
	w     *Workspace
	names map[string]*node
	kids  map[string]map[string]*node // the same nodes by directory and name
	ways  map[string]map[string]bool  // the names in a directory at or below which a node is
}

// node is one name that differs from the disk.
type node struct {
	typ  Type   // of what stands here; "" if nothing does, nor below
	from string // what stands here is what the disk has at this path, with everything below
	st   stat   // of what stands here, as far as it is known

	// For a file with pending content. base is then the disk's file below it, if
	// there is one.
	data []byte
	base string
	op   *change // what made it so: a write or a mkdir

	held *heldDir // in a commit: the directory that is to be made here
}

// fresh reports whether the view made what stands here.
func (n *node) fresh() bool { return n.typ != "" && n.from == "" }

func (v *view) set(path string, n *node) {
	if v.names == nil {
		v.names = map[string]*node{}
		v.kids = map[string]map[string]*node{}
		v.ways = map[string]map[string]bool{}
	}
	parent, name := split(path)
	if v.kids[parent] == nil {
		v.kids[parent] = map[string]*node{}
	}
	v.names[path], v.kids[parent][name] = n, n
	for {
		if v.ways[parent] == nil {
			v.ways[parent] = map[string]bool{}
		}
		if v.ways[parent][name] {
			return
		}
		v.ways[parent][name] = true
		if parent == "." {
			return
		}
		parent, name = split(parent)
	}
}

// clearBelow forgets all nodes below a directory.
func (v *view) clearBelow(path string) {
	for name := range v.ways[path] {
		p := join(path, name)
		v.clearBelow(p)
		delete(v.names, p)
	}
	delete(v.kids, path)
	delete(v.ways, path)
}

// moveBelow takes the nodes below one directory to another.
func (v *view) moveBelow(from, to string) {
	ways := v.ways[from]
	delete(v.kids, from)
	delete(v.ways, from)
	for name := range ways {
		p := join(from, name)
		if n := v.names[p]; n != nil {
			delete(v.names, p)
			v.set(join(to, name), n)
		}
		v.moveBelow(p, join(to, name))
	}
}

// lookup finds what a path shows: the node that stands exactly there, if there
// is one, and the path on disk, if the disk has a say.
func (v *view) lookup(path string) (n *node, disk string, onDisk bool) {
	if len(v.names) == 0 {
		return nil, path, true
	}
	disk, onDisk = ".", true
	for start := 0; start < len(path); {
		end := start
		for end < len(path) && path[end] != '/' {
			end++
		}
		name := path[start:end]
		n = v.names[path[:end]]
		switch {
		case name == ".":
		case n == nil:
			if onDisk {
				disk = join(disk, name)
			}
		case n.from != "":
			disk, onDisk = n.from, true
		case n.base != "":
			disk, onDisk = n.base, true
		default:
			disk, onDisk = "", false
		}
		start = end + 1
	}
	return n, disk, onDisk
}

// lstat is a look at the view.
func (v *view) lstat(path string) (st stat, target string, err error) {
	n, disk, onDisk := v.lookup(path)
	if n != nil {
		if n.typ == "" {
			return stat{}, "", fs.ErrNotExist
		}
		if n.fresh() {
			return n.st, "", nil
		}
	}
	if !onDisk {
		return stat{}, "", fs.ErrNotExist
	}
	return v.w.lstatPath(disk)
}

// place is a name that a path led to.
type place struct {
	path    string // canonical, in the view
	asked   string // as requested
	wantDir bool
	viaLink bool  // the path held a link that was followed at its end
	node    *node // pending, or nil
	disk    string
	onDisk  bool // disk says where the view takes the name from
	missing int  // 0: it exists; else as in walkLinks
	st      stat // if it exists
}

func (p place) exists() bool { return p.missing == 0 }

// find resolves a requested path in the view.
func (v *view) find(asked string, follow bool) (place, error) {
	clean, wantDir, err := v.w.CheckPath(asked)
	if err != nil {
		return place{}, err
	}
	if err := v.w.secret(clean); err != nil {
		return place{}, pathError(asked, err)
	}
	pl := place{path: clean, asked: asked, wantDir: wantDir}
	if _, name := split(clean); IsTemp(name) {
		return place{}, tool.PathErrorf(tool.InvalidArguments, asked, "names of this form are kept for the files of unfinished commits").
			WithNext("use another name")
	}

	// Most paths hold no link, and then one look tells all.
	st, _, err := v.lstat(clean)
	switch {
	case err == nil && !(st.typ == Link && follow):
		pl.st = st
	case err == nil || err == errLink || errors.Is(err, fs.ErrNotExist):
		linkAtEnd := err == nil
		pl.path, pl.st, pl.missing, err = v.w.walkLinks(clean, follow, v.lstat, v.w.secret)
		for try := 0; err == errLink && try < maxTries; try++ {
			pl.path, pl.st, pl.missing, err = v.w.walkLinks(clean, follow, v.lstat, v.w.secret)
		}
		if err != nil {
			return place{}, pathError(asked, err)
		}
		pl.viaLink = linkAtEnd
	default:
		return place{}, pathError(asked, err)
	}
	if pl.exists() && wantDir && pl.st.typ != Dir {
		return place{}, pathError(asked, syscall.ENOTDIR)
	}
	pl.node, pl.disk, pl.onDisk = v.lookup(pl.path)
	if pl.path != clean {
		err = v.w.secret(pl.path)
	}
	if err == nil && pl.onDisk && pl.disk != pl.path {
		err = v.w.secret(pl.disk)
	}
	if err != nil {
		return place{}, pathError(asked, err)
	}
	return pl, nil
}
