package workspace

import (
	"context"
	"io/fs"
	"slices"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	defaultListed = 200
	maxListed     = 1000
)

// List returns one page of a directory in byte order of the names. "" and "/"
// mean the root here. Only the names of the page are held and looked at, however
// large the directory is. Links are told and not followed; files of unfinished
// commits are left out.
func (o *Overlay) List(ctx context.Context, path string, opts ListOptions) (Page, error) {
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	if path == "" || path == "/" {
		path = "."
	}
	limit := opts.MaxResults
	switch {
	case limit == 0:
		limit = defaultListed
	case limit < 0 || limit > maxListed:
		return Page{}, tool.Errorf(tool.InvalidArguments, "max_results is %d; it must be 1 to %d", limit, maxListed).
			WithNext("choose a number in that range")
	}
	d, pl, err := o.openList(path)
	if err != nil {
		return Page{}, err
	}
	if d.w != nil {
		defer d.close()
	}
	after, err := OpenCursor(opts.Cursor, "list", pl.path)
	if err != nil {
		return Page{}, err
	}
	var page Page
	names := smallest{keep: limit + 1} // one more than asked for tells whether the list goes on
	add := func(name string) {
		page.Total++
		if name > after || after == "" {
			names.add(name)
		}
	}
	kids := o.kids[pl.path]
	if d.w != nil {
		buf := make([]byte, 32<<10)
		for n := 0; ; n++ {
			end, err := d.readNames(buf, func(name []byte, _ Type) bool {
				if IsTemp(string(name)) {
					return true
				}
				if _, ok := kids[string(name)]; !ok {
					add(string(name))
				}
				return true
			})
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return Page{}, pathError(path, err)
			}
			if end {
				break
			}
		}
	}
	for name, n := range kids {
		if n.typ != "" {
			add(name)
		}
	}
	list := names.sorted()
	if len(list) > limit {
		list = list[:limit]
		page.Truncated = true
		page.Next = SealCursor(list[limit-1], "list", pl.path)
	}
	page.Entries = make([]Info, 0, len(list))
	for _, name := range list {
		if err := ctx.Err(); err != nil {
			return Page{}, err
		}
		in, err := o.listed(ctx, d, pl.path, name)
		if err != nil {
			page.Skipped.Unreadable++
			continue
		}
		page.Entries = append(page.Entries, in)
	}
	return page, nil
}

// openList opens a directory of the view; the handle has no workspace if the
// directory exists in the overlay only.
func (o *Overlay) openList(asked string) (dir, place, error) {
	for try := 0; ; try++ {
		pl, err := o.find(asked, true)
		switch {
		case err != nil:
			return dir{}, pl, err
		case !pl.exists():
			return dir{}, pl, pathError(asked, fs.ErrNotExist)
		case pl.st.typ != Dir:
			next := "list the directory that holds it"
			if pl.st.typ == File {
				next = "read it, or " + next
			}
			return dir{}, pl, tool.PathErrorf(tool.NotRegular, asked, "a %s, not a directory", pl.st.typ.words()).WithNext("%s", next)
		}
		if err := o.guard(VerbList, pl.path, pl.disk, pl.onDisk, pl.st.id); err != nil {
			return dir{}, pl, pathError(asked, err)
		}
		if pl.node != nil && pl.node.fresh() {
			return dir{}, pl, nil
		}
		d, err := o.w.openDir(pl.disk)
		if err == nil {
			// The guard judged an identity: it has to be this one.
			var st stat
			if st, err = d.stat(); err == nil && st.id == pl.st.id {
				return d, pl, nil
			}
			d.close()
			if err == nil {
				err = errLink
			}
		}
		if err != errLink || try >= maxTries {
			return dir{}, pl, pathError(asked, err)
		}
	}
}

// listed tells of one entry. Of a secret it tells the name and the kind only.
func (o *Overlay) listed(ctx context.Context, d dir, parent, name string) (Info, error) {
	path := join(parent, name)
	var st stat
	var err error
	if n := o.names[path]; n != nil {
		st, _, err = o.lstat(path)
	} else {
		st, err = d.lstat(name)
	}
	if err != nil {
		return Info{}, err
	}
	secret := o.w.rules().secretRule(path)
	if secret == nil {
		if secret, err = o.w.aliasRule(ctx, path, st); err != nil {
			return Info{}, err
		}
	}
	if secret != nil {
		return Info{Path: path, Name: name, Type: st.typ, Secret: secret.Name}, nil
	}
	in := st.info(path)
	switch {
	case st.typ == Link:
		o.linkInfo(&in)
	case st.mount != 0 || st.id.Dev != 0:
		in.Outside = !o.w.sameMount(st)
	}
	return in, nil
}

// smallest keeps the first names of many in byte order, in bounded memory.
type smallest struct {
	names []string
	keep  int
	bound string // nothing from here on is wanted; "" while everything is
}

func (s *smallest) add(name string) {
	if s.bound != "" && name >= s.bound {
		return
	}
	if s.names = append(s.names, name); len(s.names) >= 4*s.keep+1024 {
		s.sorted()
		s.bound = s.names[len(s.names)-1]
	}
}

func (s *smallest) sorted() []string {
	slices.Sort(s.names)
	s.names = s.names[:min(len(s.names), s.keep)]
	return s.names
}
