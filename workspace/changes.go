package workspace

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Changed is a path that is not what it was when a checkpoint was made.
type Changed struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"`              // "new", "changed", "deleted" or "moved"
	From    string   `json:"from,omitempty"`    // where it was then, if it was moved
	Commits []uint64 `json:"commits"`           // that had a part in it
	Outside bool     `json:"outside,omitempty"` // something else changed it since the last of them: no undo takes that back
	Diff    string   `json:"diff,omitempty"`    // of its text, if what it was is kept
}

// origin is what is known of a path of now: what it was at the beginning.
type origin struct {
	path    string // then; "" if it was made since
	was     Type
	before  tool.Digest
	kept    string
	after   tool.Digest // as the last commit left it; "" for what is no file, or was only moved
	commits []uint64
}

// Changes lists what was changed by commits since a checkpoint, given by its name
// or by the number of a record; "" means since the journal begins. What was
// changed and changed back is left out. Paths are in byte order.
func (w *Workspace) Changes(ctx context.Context, since string) ([]Changed, error) {
	log, err := w.Log(ctx)
	if err != nil {
		return nil, err
	}
	var from uint64
	if since != "" {
		if from, err = sinceOf(log, since); err != nil {
			return nil, err
		}
	}
	if err := w.journal.openNow(); err != nil {
		return nil, journalError(err)
	}
	now, gone := map[string]*origin{}, map[string]*origin{}
	for _, l := range log {
		if l.Seq <= from && since != "" {
			continue
		}
		for i := range l.Changes {
			follow(now, gone, &l.Changes[i], l.Seq)
		}
	}
	var out []Changed
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c, ok := w.changed(ctx, path, now[path]); ok {
			out = append(out, c)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		out = append(out, w.gone(ctx, gone[path]))
	}
	slices.SortStableFunc(out, func(a, b Changed) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// follow brings the picture past one more change.
func follow(now, gone map[string]*origin, l *LoggedChange, seq uint64) {
	take := func(path string) *origin {
		o := now[path]
		if o == nil {
			o = &origin{path: path, was: l.Was, before: l.Before}
			now[path] = o
		}
		if len(o.commits) == 0 || o.commits[len(o.commits)-1] != seq {
			o.commits = append(o.commits, seq)
		}
		if o.kept == "" && l.Kept != "" && o.before == l.Before {
			o.kept = l.Kept
		}
		return o
	}
	switch l.Op {
	case tool.OpMove:
		o := take(l.From)
		o.was = l.Was
		var below []string
		for p := range now {
			if under(p, l.From) {
				below = append(below, p)
			}
		}
		moved := map[string]*origin{}
		for _, p := range below {
			moved[l.Path+p[len(l.From):]] = now[p]
			delete(now, p)
		}
		maps.Copy(now, moved)
	case tool.OpDelete:
		o := take(l.Path)
		delete(now, l.Path)
		if o.path != "" {
			gone[o.path] = o
		}
	default:
		if l.Was == "" && now[l.Path] == nil {
			if g := gone[l.Path]; g != nil {
				delete(gone, l.Path)
				now[l.Path] = g
			} else {
				now[l.Path] = &origin{}
			}
		}
		take(l.Path).after = l.After
	}
}

// changed compares what a path was with what it is.
func (w *Workspace) changed(ctx context.Context, path string, o *origin) (Changed, bool) {
	c := Changed{Path: path, Kind: "changed", Commits: o.commits}
	switch {
	case o.path == "":
		c.Kind = "new"
	case o.path != path:
		c.Kind, c.From = "moved", o.path
	}
	st, _, err := w.lstatPath(path)
	if err != nil {
		// Something else removed it.
		c.Outside = true
		if o.path == "" {
			return c, false
		}
		c.Kind = "deleted"
		return c, true
	}
	if st.typ != File {
		c.Outside = o.was == File || o.after != "" && st.typ != Link
		return c, o.path != path || o.was != st.typ
	}
	if w.secret(path) != nil {
		return c, true // and no word about what it holds
	}
	f, st, err := w.openFile(path)
	if err != nil {
		return c, true
	}
	defer f.close()
	sum, stamp, text, err := digestFile(ctx, f, st, maxDiffBytes)
	if err != nil {
		return c, true
	}
	if o.path == path && o.was == File && sum == o.before && sum != "" {
		return c, false
	}
	c.Outside = o.after != "" && sum != o.after || o.after == "" && o.before != "" && sum != o.before
	ch := change{Write: tool.Write{Op: tool.OpWrite, Path: path, After: sum + stamp, Blob: text, Size: st.size}}
	if o.path != "" {
		if sum == o.before {
			return c, true // moved, and no more
		}
		ch.Identity, ch.Before = tool.Identity{Ino: 1}, o.before
		ch.before = w.journal.content(ctx, o)
	}
	c.Diff = ch.text()
	return c, true
}

// gone describes what is not there any more.
func (w *Workspace) gone(ctx context.Context, o *origin) Changed {
	c := Changed{Path: o.path, Kind: "deleted", Commits: o.commits}
	if _, _, err := w.lstatPath(o.path); err == nil {
		c.Outside = true // made again by something else
	}
	if w.secret(o.path) != nil {
		return c
	}
	ch := change{Write: tool.Write{Op: tool.OpDelete, Path: o.path, Before: o.before}}
	switch o.was {
	case Dir:
		ch.Mode = fs.ModeDir
	case Link:
		ch.Mode = fs.ModeSymlink
	default:
		ch.before = w.journal.content(ctx, o)
	}
	c.Diff = ch.text()
	return c
}

func (c *change) text() string {
	var b strings.Builder
	c.diff(&b)
	return b.String()
}

// content reads what was kept of a file, if it is small enough to be shown and
// still what it was; nil if not.
func (j *journal) content(ctx context.Context, o *origin) []byte {
	if o.kept == "" {
		return nil
	}
	f, st, err := j.kept.root.openFile(o.kept)
	if err != nil {
		return nil
	}
	defer f.close()
	if st.size > maxDiffBytes {
		return nil
	}
	sum, text, err := digestAll(ctx, f, maxDiffBytes)
	if err != nil || sum != o.before {
		return nil
	}
	return text
}
