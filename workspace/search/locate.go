package search

import (
	"context"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// locate is one request, checked.
type locate struct {
	glob  string   // else
	segs  []string // of glob, as far as a directory can be judged by them
	name  *nameQuery
	root  string // canonical; names are looked for below it
	limit int
	after *place // the page before ended here
}

func newLocate(req Request) (*locate, error) {
	l := new(locate)
	query := strings.TrimPrefix(req.Query, "./")
	switch {
	case strings.Trim(query, "/ ") == "":
		return nil, tool.Errorf(tool.InvalidArguments, "query is empty").WithNext("give a name, or a glob such as **/*.go")
	case climbs(query):
		return nil, tool.Errorf(tool.InvalidArguments, "query holds the name .., and names are looked for below the root").
			WithNext("write the path below the root without it")
	case len(query) > maxPattern:
		return nil, tool.Errorf(tool.InvalidArguments, "query has %d bytes; at most %d are allowed", len(query), maxPattern).
			WithNext("use a shorter one")
	}
	if strings.ContainsAny(query, "*?[{") {
		l.glob = plainGlob(query)
		if err := checkGlob(req.Query, l.glob); err != nil {
			return nil, err
		}
		segs := strings.Split(l.glob, "/")
		if strings.Contains(l.glob, "{") { // a brace may hold slashes
			segs = strings.Split(l.glob[:strings.IndexByte(l.glob, '{')], "/")
			segs[len(segs)-1] = "**"
		}
		l.segs = segs
	} else {
		l.name = newNameQuery(query)
	}
	var err error
	if l.limit, err = bounded("max_results", req.MaxResults, defaultResults, 1, maxResults); err != nil {
		return nil, err
	}
	return l, nil
}

func runLocate(ctx context.Context, o *workspace.Overlay, req Request) (Response, error) {
	l, err := newLocate(req)
	if err != nil {
		return Response{}, err
	}
	at, err := start(ctx, o, req.Path)
	if err != nil {
		return Response{}, err
	}
	if at.Type != workspace.Dir {
		return Response{}, tool.PathErrorf(tool.NotRegular, req.Path, "a %s, not a directory", at.Type).
			WithNext("name the directory to look in")
	}
	l.root = at.Path
	after, err := workspace.OpenCursor(req.Cursor, "locate", at.Path, req.Query)
	if err != nil {
		return Response{}, err
	}
	if after != "" {
		l.after = parsePlace(after)
	}

	soon, cancel := most(ctx)
	defer cancel()
	var res Response
	t := newTree(ctx, o)
	begin := l.begin()
	f, err := t.walkTo(begin, func(f *folder) { f.scope = f.scope.enter(f, nil) })
	if err != nil {
		code := tool.CodeOf(err)
		if begin != l.root && (code == tool.NotFound || code == tool.NotRegular || code == tool.InvalidArguments) {
			return res, nil // the directory with which the glob begins is not there, or cannot be
		}
		return res, named(req.Path, err)
	}
	wk := &walker{ctx: soon, choose: l.choose, enter: l.enter, see: l.see, report: reporter(ctx)}
	workers := wk.walk(f, func(w *worker) { w.top = newBest(l.limit+1, l.after) })
	top := newBest(l.limit+1, l.after)
	for _, w := range workers {
		top.merge(w.top)
		addSkipped(&res.Skipped, w.skipped)
	}
	l.named(t, top)
	res.Total = top.total
	res.Ended = wk.ended()
	res.AtLeast = res.Ended != ""
	page := top.sorted()
	if len(page) > l.limit {
		page = page[:l.limit]
		res.Next = workspace.SealCursor(page[l.limit-1].text(), "locate", at.Path, req.Query)
	}
	for _, p := range page {
		in, err := o.Lstat(p.path)
		if err != nil || in.Path != p.path {
			if tool.CodeOf(err) != tool.NotFound {
				res.Skipped.Refused(err) // by the identity, which the walk did not know yet
			}
			res.Total--
			continue
		}
		in.Ignored = p.ignored
		in.Path, in.Escaped = workspace.ShownPath(in.Path)
		in.Name, _ = workspace.ShownPath(in.Name)
		res.Entries = append(res.Entries, in)
	}
	return res, nil
}

// begin is where the walk starts: the root, or the directory that stands before
// a glob's first magic character. What is named so is searched even if ignored.
func (l *locate) begin() string {
	if l.glob == "" || l.root != "." {
		return l.root
	}
	dir, _ := doublestar.SplitPattern(l.glob)
	return dir
}

// choose has no opinion of its own: the ignore rules decide.
func (l *locate) choose(string, string, bool) choice { return undecided }

// enter reports whether something below a directory can match.
func (l *locate) enter(path string) bool {
	if l.glob == "" {
		return true
	}
	rel, _ := below(l.root, path)
	return leadsOn(l.segs, rel) || rel != path && leadsOn(l.segs, path)
}

func leadsOn(segs []string, dir string) bool {
	for name := range strings.SplitSeq(dir, "/") {
		switch {
		case len(segs) <= 1 && (len(segs) == 0 || segs[0] != "**"):
			return false // the last one is for a name in dir
		case segs[0] == "**":
			return true
		case !doublestar.MatchUnvalidated(segs[0], name):
			return false
		}
		segs = segs[1:]
	}
	return true
}

// see tests one name. A glob may be meant from the workspace root or from the
// directory that was asked for. What may not be shown is not entered.
func (l *locate) see(w *worker, f *folder, e workspace.DirEntry, path string) bool {
	p := place{path: path}
	rel, _ := below(l.root, path)
	if l.glob != "" {
		if !doublestar.MatchUnvalidated(l.glob, rel) && (rel == path || !doublestar.MatchUnvalidated(l.glob, path)) {
			return true
		}
	} else {
		var ok bool
		if p.rank, ok = l.name.rank(rel); !ok {
			return true
		}
	}
	if err := f.allowed(e.Name); err != nil {
		w.skipped.Refused(err)
		return false
	}
	w.top.add(p)
	return true
}

// named adds the file whose very path was asked for, if the walk did not go
// there because it is ignored.
func (l *locate) named(t *tree, top *best) {
	if l.name == nil {
		return
	}
	path := join(l.root, strings.Trim(l.name.text, "/"))
	in, err := t.o.Lstat(path)
	if err != nil || in.Path == "." || !isHidden(t, in) {
		return
	}
	p := place{path: in.Path, ignored: true}
	rel, _ := below(l.root, in.Path)
	p.rank, _ = l.name.rank(rel)
	top.add(p)
}

// isHidden reports whether broad walks leave a name out.
func isHidden(t *tree, in workspace.Info) bool {
	parts := strings.Split(in.Path, "/")
	for i, name := range parts {
		if isInnards(name, i < len(parts)-1 || in.Type == workspace.Dir) {
			return true
		}
	}
	dir, _ := split(in.Path)
	one := []workspace.Info{in}
	t.markIgnored(dir, one)
	return one[0].Ignored
}
