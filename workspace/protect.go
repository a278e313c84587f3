package workspace

import (
	"cmp"
	"context"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/wasmtools/wasmtools/tool"
)

// maxMoved bounds the names of directories that one write set moves: each is
// looked at under its old path and its new one.
const maxMoved = 10 * maxNames

// Protected lists what of the pending changes is on the list of protected paths,
// in the order of the paths: what a yes has to name, and what
// [Workspace.Commit] takes as allowed. Of a removed directory that is protected
// as a whole only the directory is listed.
func (o *Overlay) Protected(ctx context.Context) ([]tool.ProtectedPath, error) {
	if len(o.ops) == 0 {
		return nil, ctx.Err()
	}
	j, err := o.w.newJudge(ctx, o.WriteSet().Entries, &o.view)
	if err != nil {
		return nil, err
	}
	if err := j.all(false); err != nil {
		return nil, err
	}
	return j.list(), nil
}

// Listed tells under which rules a path falls as it is now, links resolved. The
// path need not exist.
func (w *Workspace) Listed(ctx context.Context, path string) (Listed, error) {
	l, v, pl, err := w.listed(ctx, path)
	if err != nil || l.Protected != nil || pl.path == "" {
		return l, err
	}
	j, err := w.newJudge(ctx, []tool.Write{{Path: pl.path, Identity: pl.st.id}}, v)
	if err != nil {
		return Listed{}, err
	}
	l.Protected = j.rule(pl.path, pl.st.typ == Link)
	return l, nil
}

// RuleOf is [Listed.Rule] of a file that a command names. A path outside, and one
// that cannot be looked at, fall under none: the program will meet the same error.
func (w *Workspace) RuleOf(ctx context.Context, path string) (name string, secret bool) {
	if filepath.IsAbs(path) {
		return "", false
	}
	l, err := w.Listed(ctx, path)
	if err != nil {
		return "", false
	}
	return l.Rule()
}

// ListedByName is Listed without the paths that are protected because of what
// stands elsewhere, and so for reading: it costs a look at the path.
func (w *Workspace) ListedByName(ctx context.Context, path string) (Listed, error) {
	l, _, _, err := w.listed(ctx, path)
	return l, err
}

func (w *Workspace) listed(ctx context.Context, path string) (l Listed, v *view, pl place, err error) {
	v = &view{w: w}
	if pl, err = v.find(path, true); err != nil {
		if l.Secret = secretOf(err); l.Secret == nil {
			return l, v, pl, err
		}
		l.Path, _, err = w.CheckPath(path)
	} else {
		l.Path = pl.path
		var secret *entry
		if secret, err = w.aliasRule(ctx, path, pl.st); secret != nil {
			l.Secret = &secret.Rule
		}
	}
	if e := w.rules().protectedRule(l.Path); e != nil {
		l.Protected = &e.Rule
	}
	return l, v, pl, err
}

// judge finds out what of a write set is protected, by the tree as it is before
// and as it will be after.
type judge struct {
	w             *Workspace
	ctx           context.Context
	entries       []tool.Write
	before, after *view
	final         *view // whose names are where the set leaves things; after, unless that is the disk
	places        []gitPlace
	finder        *gitFinder
	git           map[gitKey]bool
	hits          map[string]*Rule
	trees         map[string]bool // directories that go as a whole
	moved         int
}

type gitKey struct {
	v   *view
	dir string
}

// newJudge looks for the places that repositories name. Those above a changed
// path are read now, others as the last survey found them.
func (w *Workspace) newJudge(ctx context.Context, entries []tool.Write, after *view) (*judge, error) {
	s, err := w.surveyed(ctx, (*survey).recent)
	if err != nil {
		return nil, err
	}
	j := &judge{w: w, ctx: ctx, entries: entries, before: &view{w: w}, after: after, final: after,
		places: s.places[:len(s.places):len(s.places)], git: map[gitKey]bool{}, hits: map[string]*Rule{}, trees: map[string]bool{}}
	j.finder = newGitFinder(j.before)
	j.finder.above()
	j.findPlaces(j.finder)
	return j, nil
}

// findPlaces looks for repositories in the directories on the way to what the set
// changes.
func (j *judge) findPlaces(g *gitFinder) {
	g.work(at{true, "."})
	for i := range j.entries {
		for _, p := range []string{j.entries[i].Path, j.entries[i].From} {
			for p != "" && p != "." {
				if p, _ = split(p); g.seen[g.abs(at{true, p})] {
					break
				}
				g.work(at{true, p})
			}
		}
	}
	if g.v.looksLikeGit(".") {
		g.repository(at{true, "."}, at{true, "."})
	}
	j.places = append(j.places, g.finish()...)
}

// rule gives the rule that protects a path, nil if none does. isLink says that a
// link stands there or comes there.
func (j *judge) rule(path string, isLink bool) *Rule {
	if e := j.w.rules().protectedRule(path); e != nil {
		return &e.Rule
	}
	if len(j.places) > 0 {
		folded := fold(path)
		for i := range j.places {
			if j.places[i].covers(folded, isLink) {
				return &j.places[i].rule
			}
		}
	}
	for end := 0; end < len(path); {
		start := end
		for end < len(path) && path[end] != '/' {
			end++
		}
		if isGitPart(path[start:end]) {
			dir := "."
			if start > 0 {
				dir = path[:start-1]
			}
			if j.looksLikeGit(j.before, dir) || j.looksLikeGit(j.after, dir) {
				return &gitDirRule
			}
		}
		end++
	}
	return nil
}

var gitDirRule = Rule{Name: "git", Glob: "HEAD, config, hooks and the like where git takes a directory for its own"}

func (j *judge) looksLikeGit(v *view, dir string) bool {
	k := gitKey{v, dir}
	is, known := j.git[k]
	if !known {
		is = v.looksLikeGit(dir)
		j.git[k] = is
	}
	return is
}

// look judges one path. A secret is an error: nothing may change one.
func (j *judge) look(path string, isLink bool) error {
	if r := j.w.rules().secretRule(path); r != nil {
		return refuseSecret(path, &r.Rule)
	}
	if _, known := j.hits[path]; known {
		return nil
	}
	if r := j.rule(path, isLink); r != nil {
		j.hits[path] = r
	}
	return nil
}

// all judges every path of the set. done says that the set is on the disk already.
func (j *judge) all(done bool) error {
	err := j.pass(done)
	if err == nil && len(j.hits) > 0 && len(j.after.names) > 0 {
		// What is changed may be the very settings that say what is protected.
		j.findPlaces(&gitFinder{v: j.after, shared: j.finder.shared})
		err = j.pass(done)
	}
	return err
}

// pass judges what the entries of the set name, what stands where in the end, and
// what is in directories that move.
func (j *judge) pass(done bool) error {
	j.moved = 0
	for i := range j.entries {
		e := &j.entries[i]
		link := e.Mode&fs.ModeSymlink != 0
		if err := j.look(e.Path, link); err != nil {
			return err
		}
		if e.Op == tool.OpMove {
			if err := j.look(e.From, link); err != nil {
				return err
			}
		}
		if e.Op == tool.OpDelete && e.Mode.IsDir() {
			j.trees[e.Path] = true
		}
	}
	for path, n := range j.final.names {
		if n.typ == "" {
			continue
		}
		if err := j.look(path, n.typ == Link); err != nil {
			return err
		}
		if n.from != "" && n.typ != File && n.typ != Link {
			at := n.from
			if done {
				at = path
			}
			if err := j.inside(at, n.from, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// inside judges what is in a directory that moves from one path to another.
func (j *judge) inside(where, from, to string) error {
	d, err := j.w.openDir(where)
	if err != nil {
		return nil // it is no directory, or is gone: the commit will tell
	}
	defer d.close()
	return j.insideDir(d, from, to, 0, [2]bool{j.hits[from] != nil, j.hits[to] != nil})
}

// insideDir goes through one directory. whole says under which of the two paths
// all of it is known to be protected.
func (j *judge) insideDir(d dir, from, to string, depth int, whole [2]bool) error {
	if depth > maxDepth {
		return tool.PathErrorf(tool.TooLarge, to, "directories lie more than %d deep in each other", maxDepth).
			WithNext("move the directories in it one by one")
	}
	if err := j.ctx.Err(); err != nil {
		return err
	}
	type name struct {
		name string
		typ  Type
	}
	var names []name
	var marks gitMarks
	buf := make([]byte, 16<<10)
	for {
		end, err := d.readNames(buf, func(n []byte, t Type) bool {
			j.moved++
			marks.see(n)
			names = append(names, name{string(n), t})
			return j.moved <= maxMoved
		})
		if j.moved > maxMoved {
			return tool.PathErrorf(tool.TooLarge, to, "the directories that would move hold more than %d names", maxMoved).
				WithNext("move the directories in it one by one")
		}
		if err != nil {
			return fail(from, err)
		}
		if end {
			break
		}
	}
	for i, p := range [2]string{from, to} {
		if marks.looksLikeOne() && !whole[i] {
			j.hits[p], whole[i] = &gitDirRule, true
		}
	}
	for _, n := range names {
		if j.final.names[join(to, n.name)] != nil {
			continue // the set itself says what stands there
		}
		if n.typ == "" {
			if st, err := d.lstat(n.name); err == nil {
				n.typ = st.typ
			}
		}
		below := whole
		for i, p := range [2]string{join(from, n.name), join(to, n.name)} {
			if r := j.w.rules().secretRule(p); r != nil {
				return refuseSecret(p, &r.Rule)
			}
			if whole[i] {
				continue
			}
			if r := j.rule(p, n.typ == Link); r != nil {
				j.hits[p], below[i] = r, true
			}
		}
		if n.typ != Dir {
			continue
		}
		sub, err := d.openDir(n.name)
		if err != nil {
			continue // its rights, or another file system: the move itself will tell
		}
		err = j.insideDir(sub, join(from, n.name), join(to, n.name), depth+1, below)
		sub.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// list gives the hits in the order of their paths. What goes with a directory that
// is listed under the same rule is left out.
func (j *judge) list() []tool.ProtectedPath {
	var out []tool.ProtectedPath
	for path, r := range j.hits {
		if !j.goesWith(path, r) {
			out = append(out, tool.ProtectedPath{Path: path, Rule: r.Name, Where: r.Where})
		}
	}
	slices.SortFunc(out, func(a, b tool.ProtectedPath) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

func (j *judge) goesWith(path string, r *Rule) bool {
	if n := j.final.names[path]; n != nil && n.typ != "" {
		return false
	}
	for path != "." {
		path, _ = split(path)
		if over := j.hits[path]; j.trees[path] && over != nil && over.Name == r.Name {
			return true
		}
	}
	return false
}

// refuse gives the error for the first hit that nobody allowed.
func (j *judge) refuse(allowed []tool.ProtectedPath) error {
	for _, p := range j.list() {
		if !slices.ContainsFunc(allowed, func(a tool.ProtectedPath) bool {
			return a.Rule == p.Rule && under(p.Path, a.Path)
		}) {
			return refuseProtected(p, j.hits[p.Path])
		}
	}
	return nil
}
