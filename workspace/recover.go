package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// recoverPatience is how long the opening of a workspace waits for commits in
// flight before it leaves what died to the next opening.
const recoverPatience = 5 * time.Second

// recover settles the commits of processes that died in them: one that was in place
// stays, and any other is taken back. What somebody changed since stays as it is.
func (w *Workspace) recover() {
	j := w.journal
	if j == nil {
		return
	}
	open, err1 := j.seqs("open")
	late, err2 := j.seqs("late")
	if err1 != nil || err2 != nil || len(open)+len(late) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), recoverPatience)
	defer cancel()
	// Every commit holds some of the locks, so who has all is alone.
	all := make([]int, lockShards)
	for i := range all {
		all[i] = i
	}
	unlock, err := w.lock(ctx, all)
	if err != nil {
		w.notice("a commit was cut off, and others are in flight: it is settled when the workspace is opened again")
		return
	}
	defer unlock()
	if err := j.openNow(); err != nil {
		return
	}
	for _, folder := range []string{"late", "open"} {
		list, err := j.seqs(folder)
		if err != nil {
			return
		}
		for _, seq := range slices.Backward(list) {
			r, err := j.read(folder, seq)
			if err != nil {
				if folder == "open" {
					j.forget(seq) // torn, so nothing had been changed yet
				}
				continue
			}
			s := settler{w: w, r: &r, dirs: map[string]dir{}}
			s.settle(folder == "late")
			s.close()
		}
	}
}

func (w *Workspace) notice(text string) {
	if w.opts.Notice != nil {
		w.opts.Notice(text)
	}
}

// settler ends one commit that was cut off. All locks are held.
type settler struct {
	w    *Workspace
	r    *Logged
	dirs map[string]dir
	left []string // paths that could not be put back
}

func (s *settler) close() {
	for _, d := range s.dirs {
		d.close()
	}
}

// settle clears away what a commit left that is in place, and takes every other
// one back.
func (s *settler) settle(placed bool) {
	j := s.w.journal
	switch {
	case s.r.Checkpoint != "":
		_ = j.advance(s.r.Seq, "open", "done")
		return
	case placed:
		s.keep()
		s.tidy(true)
		_ = j.advance(s.r.Seq, "late", "done")
		return
	}
	for i := len(s.r.Changes) - 1; i >= 0; i-- {
		s.back(i)
	}
	s.tidy(false)
	j.forget(s.r.Seq)
	text := fmt.Sprintf("a commit of %d changes had been cut off: it was taken back", len(s.r.Changes))
	if len(s.left) > 0 {
		text += fmt.Sprintf(", but for what others have changed since, or could not be found: %s", tool.QuotePath(s.left[0]))
		if n := len(s.left) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
	}
	s.w.notice(text)
}

// dir opens a directory of the workspace once.
func (s *settler) dir(path string) (dir, bool) {
	if d, ok := s.dirs[path]; ok {
		return d, true
	}
	d, err := s.w.openDir(path)
	if err != nil {
		return d, false
	}
	s.dirs[path] = d
	return d, true
}

// at looks at a path.
func (s *settler) at(path string) (d dir, name string, st stat, there bool) {
	parent, name := split(path)
	d, ok := s.dir(parent)
	if !ok {
		return d, name, st, false
	}
	st, err := d.lstat(name)
	return d, name, st, err == nil
}

func (l *LoggedChange) isLink() bool { return l.Mode&fs.ModeSymlink != 0 }

// content digests a file; "" if it cannot.
func content(d dir, name string) tool.Digest {
	f, st, err := d.openFile(name)
	if err != nil {
		return ""
	}
	defer f.close()
	sum, stamp, _, err := digestFile(context.Background(), f, st, -1)
	if err != nil {
		return ""
	}
	return sum + stamp
}

// is reports whether a name holds the object that a change was about.
func is(st stat, l *LoggedChange) bool {
	return st.id == l.ID && l.ID != (tool.Identity{})
}

// find looks for what a change took out of its place: a temporary name that holds
// that object, in its directory or one above.
func (s *settler) find(l *LoggedChange, path string) (d dir, name string, ok bool) {
	for p, _ := split(path); ; p, _ = split(p) {
		d, open := s.dir(p)
		if open {
			if name, ok := s.findIn(d, l); ok {
				return d, name, true
			}
		}
		if p == "." {
			return dir{}, "", false
		}
	}
}

func (s *settler) findIn(d dir, l *LoggedChange) (string, bool) {
	for _, name := range temps(d) {
		st, err := d.lstat(name)
		if err != nil || isStaged(name) {
			continue
		}
		// overlayfs numbers a file anew when it is first moved.
		if is(st, l) || s.w.overlayfs && st.typ == File && l.Was == File && st.size == l.Size && l.Before != "" && content(d, name) == l.Before {
			return name, true
		}
	}
	return "", false
}

// temps lists the temporary names in a directory.
func temps(d dir) []string {
	c, err := d.reread()
	if err != nil {
		return nil
	}
	defer c.close()
	names, _ := c.allNames()
	return slices.DeleteFunc(names, func(n string) bool { return !IsTemp(n) })
}

// back undoes one change, as far as it was done.
func (s *settler) back(i int) {
	l := &s.r.Changes[i]
	d, name, st, there := s.at(l.Path)
	switch l.Op {
	case tool.OpMkdir:
		if there && st.typ == Dir {
			d.rmdir(name) // if it is empty
		}
	case tool.OpWrite:
		switch {
		case l.Was == "":
			if there && (st.typ == File && content(d, name) == l.After || st.typ == Link && l.isLink()) {
				d.unlink(name)
			}
		case there && is(st, l):
		case there && (st.typ != File || content(d, name) != l.After):
			s.left = append(s.left, l.Path)
		default:
			td, temp, ok := s.find(l, l.Path)
			if !ok {
				s.left = append(s.left, l.Path)
				return
			}
			s.put(td, temp, d, name, there, l.Path)
		}
	case tool.OpDelete:
		if there || s.inRemoved(i) {
			return // not gone yet, or made again since, or in a directory that comes back whole
		}
		if td, temp, ok := s.find(l, l.Path); !ok || td.renameNew(temp, d, name) != nil {
			s.left = append(s.left, l.Path)
		}
	case tool.OpMove:
		from, old, was, still := s.at(l.From)
		switch {
		case still && is(was, l):
			if there && is(st, l) {
				d.unlink(name) // it had got its second name
			}
		case still:
			s.left = append(s.left, l.From)
		case there && is(st, l):
			if d.renameNew(name, from, old) != nil {
				s.left = append(s.left, l.From)
			}
		default:
			if td, temp, ok := s.find(l, l.From); !ok || td.renameNew(temp, from, old) != nil {
				s.left = append(s.left, l.From)
			}
		}
	}
}

// put brings what stands under a temporary name to its place, which holds what
// the commit wrote, or nothing.
func (s *settler) put(td dir, temp string, d dir, name string, there bool, path string) {
	var err error
	switch {
	case !there:
		err = td.renameNew(temp, d, name)
	default:
		if err = td.exchange(temp, d, name); err == nil {
			err = td.unlink(temp)
		} else if err == errNoExchange {
			err = td.rename(temp, d, name)
		}
	}
	if err != nil {
		s.left = append(s.left, path)
	}
}

// inRemoved reports whether the i-th change is that of a name in a directory that
// the same commit removed: it comes back, and goes, with that, whose change comes
// right after those of what was in it.
func (s *settler) inRemoved(i int) bool {
	l := &s.r.Changes[i]
	if l.Op != tool.OpDelete {
		return false
	}
	for _, o := range s.r.Changes[i+1:] {
		if o.Op != tool.OpDelete {
			return false
		}
		if o.Was == Dir && o.Path != l.Path && under(l.Path, o.Path) {
			return true
		}
	}
	return false
}

// unit is the i-th change, with those before it that it speaks for.
func (s *settler) unit(i int) []LoggedChange {
	from := i
	for from > 0 && s.r.Changes[from-1].Op == tool.OpDelete && s.r.Changes[i].Op == tool.OpDelete && s.r.Changes[i].Was == Dir &&
		s.r.Changes[from-1].Path != s.r.Changes[i].Path && under(s.r.Changes[from-1].Path, s.r.Changes[i].Path) {
		from--
	}
	return s.r.Changes[from : i+1]
}

// moved is where the later changes of the commit brought what the i-th one put at
// its path.
func (s *settler) moved(i int) string {
	path := s.r.Changes[i].Path
	for _, l := range s.r.Changes[i+1:] {
		if l.Op == tool.OpMove && under(path, l.From) {
			path = l.Path + path[len(l.From):]
		}
	}
	return path
}

// tidy removes what the commit had put under temporary names, or in the journal,
// beside what is in its place: second names, and new content that is not needed.
func (s *settler) tidy(placed bool) {
	news := map[tool.Digest]bool{}
	old := map[tool.Identity]bool{}
	for i := range s.r.Changes {
		l := &s.r.Changes[i]
		old[l.ID] = true
		if l.Op == tool.OpWrite {
			news[l.After] = true
		}
	}
	kept := s.w.journal.kept.root
	for i := range s.r.Changes {
		l := &s.r.Changes[i]
		path := s.moved(i)
		switch {
		case placed:
		case l.Op == tool.OpMove:
			path = l.From
		default:
			path = l.Path
		}
		_, _, st, there := s.at(path)
		here := there && is(st, l)
		if here && l.Kept != "" {
			if k, err := kept.lstat(l.Kept); err == nil && is(k, l) {
				kept.unlink(l.Kept)
			}
		}
		for p, _ := split(path); ; p, _ = split(p) {
			if d, ok := s.dir(p); ok {
				for _, name := range temps(d) {
					st, err := d.lstat(name)
					switch {
					case err != nil || st.typ != File:
					case here && is(st, l):
						d.unlink(name)
					case !old[st.id] && st.nlink == 1 && ours(st) && news[content(d, name)]:
						d.unlink(name)
					}
				}
			}
			if p == "." {
				break
			}
		}
	}
}

// keep gives what is still under temporary names of a commit that is in place a
// name in the journal, and clears it away.
func (s *settler) keep() {
	k := keeper{c: &commit{w: s.w, ctx: context.Background()}, to: s.w.journal.kept.root}
	for i := range s.r.Changes {
		l := &s.r.Changes[i]
		if l.Was == "" || l.Op == tool.OpMove || s.inRemoved(i) {
			continue
		}
		d, temp, ok := s.find(l, s.moved(i))
		if !ok {
			continue
		}
		unit := s.unit(i)
		switch err := k.unit(d, temp, unit); {
		case err != nil: // what cannot be kept stays for a day under its temporary name
		case l.Was == Dir:
			want := map[string]*tool.Write{}
			for _, o := range unit {
				want[o.Path] = &tool.Write{}
			}
			removeTree(d, temp, want, l.Path) // what somebody put into it meanwhile stays
		default:
			d.unlink(temp)
		}
	}
	_ = k.to.sync()
}
