package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/wasmtools/wasmtools/tool"
)

// UndoOptions says what is to be taken back. Without any of the first five it is
// the last commit that is in force and is no undo itself.
type UndoOptions struct {
	Commit  uint64 // a number of the journal
	Call    string // all commits of a call
	Turn    string // all commits of a turn
	Session string // of the call or turn, if several sessions have one of that name
	To      string // all commits since a checkpoint: its name, or the number of any record

	DryRun bool // find out what would be done, and do nothing
	By     By   // who wants it
}

// Undone is what an undo did, or would do.
type Undone struct {
	Commits   []Logged       // that are taken back, newest first
	Seq       uint64         // of the commit that did it; 0 if none did
	Writes    *tool.WriteSet // what is changed
	Diff      string         // of it, for people; about 1 MiB at most
	Notes     []string       // what is left as it is, and need not be a fault
	Conflicts []Conflict     // why nothing was done
}

// Conflict is a path that is not as its commit left it.
type Conflict struct {
	Path string `json:"path"`
	Why  string `json:"why"`
	Seq  uint64 `json:"seq"` // of the commit
}

const (
	maxUndoDiff  = 1 << 20
	maxUndoBytes = 256 << 20 // of content that is loaded to be shown; the rest is copied from file to file
	maxUndone    = 2000      // commits
	maxConflicts = 1000      // that are listed
)

// Undo takes commits back: their files get the content, the mode and the names
// that they had. It does so in one commit, which is journaled like any other and
// can be undone in turn.
//
// If any file is not as the journal says that the commit left it, nothing is
// touched, and Conflicts lists such files, the first 1,000 of them. Directories that a commit made go
// if they are empty. Secrets are left alone, as by every commit; protected paths
// are put back, because whoever may undo is a person.
//
// Errors: not_found if the journal has nothing of that name, invalid_arguments,
// and those of [Workspace.Commit].
func (w *Workspace) Undo(ctx context.Context, o UndoOptions) (Undone, error) {
	log, err := w.Log(ctx)
	if err != nil {
		return Undone{}, err
	}
	chosen, err := choose(log, o)
	if err != nil {
		return Undone{}, err
	}
	out := Undone{Commits: chosen}
	if err := w.journal.openNow(); err != nil {
		return out, journalError(err)
	}
	ov := w.Overlay(OverlayOptions{MaxBytes: maxUndoBytes})
	defer ov.Close()
	ov.putsBack = true
	r := reverter{o: ov, ctx: ctx, j: w.journal, out: &out}
	for _, l := range chosen {
		for i := len(l.Changes) - 1; i >= 0; i-- {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			r.seq = l.Seq
			if err := r.revert(&l.Changes[i]); err != nil {
				return out, err
			}
		}
	}
	out.Writes, out.Diff = ov.WriteSet(), ov.Diff(maxUndoDiff)
	if len(out.Conflicts) > 0 || o.DryRun || out.Writes.Empty() {
		return out, nil
	}
	allowed, err := ov.Protected(ctx)
	if err != nil {
		return out, err
	}
	c := &commit{w: w, ctx: ctx, by: o.By, set: out.Writes, allowed: allowed, restoring: map[*tool.Write]*LoggedChange{}}
	for i, op := range ov.ops {
		if op.restores != nil {
			c.restoring[&out.Writes.Entries[i]] = op.restores
		}
	}
	for _, l := range chosen {
		c.log.Undoes = append(c.log.Undoes, l.Seq)
	}
	if err := c.run(); err != nil {
		return out, err
	}
	out.Seq = c.log.Seq
	return out, nil
}

// choose picks the commits to take back, newest first.
func choose(log []Logged, o UndoOptions) ([]Logged, error) {
	var out []Logged
	add := func(take func(Logged) bool) {
		for _, l := range slices.Backward(log) {
			if l.Checkpoint == "" && take(l) {
				out = append(out, l)
			}
		}
	}
	set := 0
	for _, given := range []bool{o.Commit != 0, o.Call != "", o.Turn != "", o.To != ""} {
		if given {
			set++
		}
	}
	if set > 1 {
		return nil, tool.Errorf(tool.InvalidArguments, "a call, a turn, a commit and a checkpoint exclude each other").WithNext("give one of them")
	}
	what := "commit that can be undone"
	switch {
	case o.Commit != 0:
		what = fmt.Sprintf("commit %d", o.Commit)
		add(func(l Logged) bool { return l.Seq == o.Commit })
	case o.To != "":
		since, err := sinceOf(log, o.To)
		if err != nil {
			return nil, err
		}
		add(func(l Logged) bool { return l.Seq > since })
		if len(out) == 0 {
			return nil, tool.Errorf(tool.NoChange, "nothing was committed since %s", o.To)
		}
		if len(out) > maxUndone {
			return nil, tool.Errorf(tool.TooLarge, "%d commits; one undo takes back %d", len(out), maxUndone).WithNext("go back in several steps")
		}
		return out, nil
	case o.Call != "" || o.Turn != "":
		id, of := o.Call, func(b By) string { return b.Call }
		what = "commit of the call " + tool.QuotePath(o.Call)
		if o.Turn != "" {
			id, of = o.Turn, func(b By) string { return b.Turn }
			what = "commit of the turn " + tool.QuotePath(o.Turn)
		}
		add(func(l Logged) bool { return of(l.By) == id && (o.Session == "" || l.By.Session == o.Session) })
		var sessions []string
		for _, l := range out {
			if !slices.Contains(sessions, l.By.Session) {
				sessions = append(sessions, l.By.Session)
			}
		}
		if len(sessions) > 1 {
			return nil, tool.Errorf(tool.NotUnique, "%d sessions have a %s", len(sessions), what).WithNext("name the session: the last one is %s", sessions[0]).
				With("sessions", sessions[:min(len(sessions), 20)])
		}
	default:
		for _, l := range slices.Backward(log) {
			if l.Checkpoint == "" && l.UndoneBy == 0 && len(l.Undoes) == 0 {
				out = []Logged{l}
				break
			}
		}
	}
	if len(out) == 0 {
		return nil, tool.Errorf(tool.NotFound, "the journal has no %s", what).WithNext("look at the list of commits")
	}
	out = slices.DeleteFunc(out, func(l Logged) bool {
		if l.UndoneBy != 0 {
			set = -int(l.UndoneBy)
		}
		return l.UndoneBy != 0
	})
	if len(out) == 0 {
		return nil, tool.Errorf(tool.NoChange, "it was undone already, by commit %d", -set).WithNext("to have it back, undo that one")
	}
	return out, nil
}

// sinceOf is the number of the record that a checkpoint's name or a number means.
func sinceOf(log []Logged, to string) (uint64, error) {
	n, err := strconv.ParseUint(to, 10, 64)
	for _, l := range log {
		if l.Checkpoint == to || err == nil && l.Seq == n {
			return l.Seq, nil
		}
	}
	e := tool.Errorf(tool.NotFound, "the journal has no checkpoint %s", tool.QuotePath(to))
	for _, l := range slices.Backward(log) {
		if l.Checkpoint != "" {
			return 0, e.WithNext("the last one is %s", l.Checkpoint)
		}
	}
	return 0, e.WithNext("make one before the work begins")
}

// reverter turns changes around, one after the other, on an overlay.
type reverter struct {
	o      *Overlay
	ctx    context.Context
	j      *journal
	out    *Undone
	seq    uint64
	loaded int64
}

func (r *reverter) conflict(path, format string, args ...any) {
	if len(r.out.Conflicts) == maxConflicts {
		return
	}
	r.out.Conflicts = append(r.out.Conflicts, Conflict{Path: path, Why: fmt.Sprintf(format, args...), Seq: r.seq})
}

// fault makes a conflict of an error about a path, and returns every other one.
func (r *reverter) fault(path string, err error) error {
	var te *tool.Error
	if !errors.As(err, &te) {
		return err
	}
	why := te.Text
	if why == "" {
		why = string(te.Code)
	}
	r.conflict(path, "%s", why)
	return nil
}

// revert undoes one change in the overlay.
func (r *reverter) revert(l *LoggedChange) error {
	if l.Lost != "" {
		r.conflict(l.Path, "it cannot be put back: %s", l.Lost)
		return nil
	}
	pl, err := r.o.find(l.Path, false)
	if err != nil {
		return r.fault(l.Path, err)
	}
	switch l.Op {
	case tool.OpMkdir:
		return r.unmake(l, pl)
	case tool.OpMove:
		return r.moveBack(l, pl)
	case tool.OpDelete:
		if pl.exists() {
			r.conflict(l.Path, "a %s of this name stands there now", pl.st.typ.words())
			return nil
		}
		return r.fault(l.Path, r.bring(l, pl, nil))
	}
	// A write.
	if !pl.exists() {
		r.conflict(l.Path, "it is not there any more")
		return nil
	}
	if l.isLink() && pl.st.typ == Link { // of an undo
		_, err := r.o.Remove(r.ctx, l.Path, false)
		return r.fault(l.Path, err)
	}
	if pl.st.typ != File {
		r.conflict(l.Path, "a %s stands there now", pl.st.typ.words())
		return nil
	}
	if now, err := r.now(pl); err != nil {
		return r.fault(l.Path, err)
	} else if now != l.After {
		r.conflict(l.Path, "it was changed since")
		return nil
	}
	if l.Was == "" {
		_, err = r.o.Remove(r.ctx, l.Path, false)
		return r.fault(l.Path, err)
	}
	old, err := r.o.mayReplace(r.ctx, pl)
	if err != nil {
		return r.fault(l.Path, err)
	}
	return r.fault(l.Path, r.bring(l, pl, old))
}

// now digests what a file holds at this point of the undo.
func (r *reverter) now(pl place) (tool.Digest, error) {
	if pl.node != nil && pl.node.fresh() {
		return pl.node.op.After, nil
	}
	f, st, err := r.o.w.openFile(pl.disk)
	if err != nil {
		return "", pathError(pl.path, err)
	}
	defer f.close()
	sum, _, _, err := digestFile(r.ctx, f, st, -1)
	return sum, pathError(pl.path, err)
}

// unmake removes a directory that a commit made, if it is empty.
func (r *reverter) unmake(l *LoggedChange, pl place) error {
	if !pl.exists() || pl.st.typ != Dir {
		return nil
	}
	count := 0
	walk := treeWalk{o: r.o, ctx: r.ctx, visit: func(item) error { count++; return nil }, max: maxNames}
	if err := walk.run(pl); err != nil {
		return r.fault(l.Path, err)
	}
	if count > 1 {
		r.out.Notes = append(r.out.Notes, fmt.Sprintf("the directory %s stays, since it is not empty", tool.QuotePath(l.Path)))
		return nil
	}
	_, err := r.o.Remove(r.ctx, l.Path, true)
	return r.fault(l.Path, err)
}

func (r *reverter) moveBack(l *LoggedChange, pl place) error {
	if !pl.exists() || pl.st.typ != l.Was {
		r.conflict(l.Path, "what was moved there from %s is not there any more", tool.QuotePath(l.From))
		return nil
	}
	if l.Was == File && l.Before != "" {
		now, err := r.now(pl)
		if err != nil {
			return r.fault(l.Path, err)
		}
		if now != l.Before {
			r.conflict(l.Path, "it was changed since it was moved there from %s", tool.QuotePath(l.From))
			return nil
		}
	}
	_, err := r.o.Rename(r.ctx, l.Path, l.From, false)
	return r.fault(l.Path, err)
}

// bring puts back what a change took away. old is what stands there, of a file
// that was overwritten.
func (r *reverter) bring(l *LoggedChange, pl place, old *change) error {
	if err := r.o.guard(VerbWrite, pl.path, pl.disk, pl.onDisk, pl.st.id); err != nil {
		return pathError(l.Path, err)
	}
	if old == nil {
		if err := r.o.parentWritable(pl); err != nil {
			return pathError(l.Path, err)
		}
	}
	if err := r.o.room(pl); err != nil {
		return err
	}
	switch l.Was {
	case Dir:
		r.o.makeParents(pl)
		c := r.o.addDir(pl.path)
		c.Mode, c.restores = l.Mode, l
	case Link:
		if _, err := r.o.record(pl, []byte(l.Target), nil); err != nil {
			return err
		}
		n := r.o.names[pl.path]
		n.typ, n.st.typ = Link, Link
		n.op.Mode, n.op.restores = l.Mode, l
	default:
		data, sum, size, err := r.load(l)
		if err != nil {
			return err
		}
		if _, err := r.o.recordAs(pl, data, sum, size, old); err != nil {
			return err
		}
		op := r.o.names[pl.path].op
		op.restores = l
		if old == nil {
			op.Mode = l.Mode
		}
	}
	return nil
}

// load checks that the content of a change is still kept, and reads it if it is
// small enough to be shown.
func (r *reverter) load(l *LoggedChange) (data []byte, sum tool.Digest, size int64, err error) {
	gone := func(why string) error {
		return tool.PathErrorf(tool.Lost, l.Path, "%s", why)
	}
	f, st, err := r.j.kept.root.openFile(l.Kept)
	if err != nil {
		return nil, "", 0, gone("what it held before was not kept")
	}
	defer f.close()
	keep := int64(-1)
	if r.loaded+st.size <= maxUndoBytes/2 && st.size <= maxDiffBytes {
		keep = st.size
	}
	sum, data, err = digestAll(r.ctx, f, keep)
	if err != nil {
		return nil, "", 0, pathError(l.Path, err)
	}
	if l.Before != "" && sum != l.Before {
		return nil, "", 0, gone("what was kept of it is not what it held: a program that had it open has written to it since")
	}
	r.loaded += int64(len(data))
	return data, sum, st.size, nil
}
