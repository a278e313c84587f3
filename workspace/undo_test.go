package workspace

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// journaled is a box with a journal, whose state folder lies in the given
// directory, or beside the workspace.
func journaled(t testing.TB, stateIn string, opts Options) *box {
	t.Helper()
	opts.NoSync = true
	if opts.StateDir = stateIn; stateIn == "" {
		opts.StateDir = t.TempDir()
	}
	return newBox(t, opts)
}

// otherDevice is a folder on another file system than that of the tests.
func otherDevice(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wasmtools-test-")
	if err != nil {
		t.Skip("needs a second file system: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	here, err1 := os.Stat(t.TempDir())
	there, err2 := os.Stat(dir)
	if err1 != nil || err2 != nil || device(here) == device(there) {
		t.Skip("needs a second file system")
	}
	return dir
}

// do makes one commit, as a call of that name.
func (b *box) do(call string, f func(o *Overlay) error) {
	b.t.Helper()
	o := b.overlay()
	defer o.Close()
	if err := f(o); err != nil {
		b.t.Fatal(err)
	}
	if err := b.w.CommitBy(b.t.Context(), By{Session: "s", Turn: "t1", Call: call, Tool: "test"}, o.WriteSet(), b.protected(o)...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) protected(o *Overlay) []tool.ProtectedPath {
	p, err := o.Protected(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *box) undo(o UndoOptions) Undone {
	b.t.Helper()
	u, err := b.w.Undo(b.t.Context(), o)
	if err != nil {
		b.t.Fatalf("Undo(%+v) = %v", o, err)
	}
	return u
}

// clean checks that nothing is left of commits: no temporary names, and no file
// with a second name.
func (b *box) clean() {
	b.t.Helper()
	filepath.WalkDir(b.W, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			b.t.Error(err)
			return nil
		}
		if IsTemp(e.Name()) {
			b.t.Errorf("%s is left", p)
		}
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() && links(fi) > 1 {
			b.t.Errorf("%s has %d names", p, links(fi))
		}
		return nil
	})
}

func TestUndoEachChange(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name string
		do   func(o *Overlay) error
	}{
		{"new file", func(o *Overlay) error { return second(o.Write(ctx, "new/deep/f", []byte("x"), false)) }},
		{"empty file", func(o *Overlay) error { return second(o.Write(ctx, "e", nil, false)) }},
		{"overwrite", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("other"), true)) }},
		{"overwrite by nothing", func(o *Overlay) error { return second(o.Write(ctx, "a", nil, true)) }},
		{"edit", func(o *Overlay) error { return second(o.Edit(ctx, "run.sh", []Edit{{Old: "echo", New: "print"}})) }},
		{"delete", func(o *Overlay) error { return second(o.Remove(ctx, "run.sh", false)) }},
		{"delete a link", func(o *Overlay) error { return second(o.Remove(ctx, "in", false)) }},
		{"delete a link that leaves", func(o *Overlay) error { return second(o.Remove(ctx, "out", false)) }},
		{"delete a tree", func(o *Overlay) error { return second(o.Remove(ctx, "d", true)) }},
		{"delete an empty directory", func(o *Overlay) error { return second(o.Remove(ctx, "empty", true)) }},
		{"make a directory", func(o *Overlay) error { return o.Mkdir(ctx, "x/y/z") }},
		{"move a file", func(o *Overlay) error { return second(o.Rename(ctx, "a", "d/moved", false)) }},
		{"move over a file", func(o *Overlay) error { return second(o.Rename(ctx, "a", "run.sh", true)) }},
		{"move a directory", func(o *Overlay) error { return second(o.Rename(ctx, "d", "n/d2", false)) }},
		{"move a link", func(o *Overlay) error { return second(o.Rename(ctx, "in", "in2", false)) }},
		{"write what is there", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("one\n"), true)) }},
		{"a protected file", func(o *Overlay) error { return second(o.Write(ctx, ".vscode/tasks.json", []byte("{}"), false)) }},
		{"several", func(o *Overlay) error {
			for _, f := range []func() error{
				func() error { return second(o.Write(ctx, "a", []byte("2"), true)) },
				func() error { return second(o.Remove(ctx, "d/e", true)) },
				func() error { return second(o.Rename(ctx, "run.sh", "d/e", false)) },
				func() error { return second(o.Write(ctx, "d/n", []byte("n"), false)) },
				func() error { return second(o.Rename(ctx, "d", "dd", false)) },
			} {
				if err := f(); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/other device %v", c.name, other), func(t *testing.T) {
				state := ""
				if other {
					state = otherDevice(t)
				}
				b := journaled(t, state, Options{})
				b.guardOutside()
				b.build("a = one\n", "run.sh = echo\n", "d/e/f = deep", "d/e/g = deep", "d/link => e/f", "in => a", "out => $O/secret", "empty/")
				must(t, os.Chmod(b.W+"/run.sh", 0o750))
				must(t, os.Chmod(b.W+"/d/e/g", 0o444))
				must(t, os.Chmod(b.W+"/d/e", 0o700))
				before := tree(t, b.W)
				b.do("c1", c.do)
				after := tree(t, b.W)
				same := c.name == "write what is there"
				if same != (after == before) {
					t.Fatalf("the change made a difference: %v", !same)
				}
				b.clean()
				dry := b.undo(UndoOptions{DryRun: true})
				if tree(t, b.W) != after || dry.Seq != 0 || !same && dry.Diff == "" {
					t.Errorf("a dry run changed something, or shows nothing: %+v", dry)
				}
				u := b.undo(UndoOptions{})
				if got := tree(t, b.W); got != before {
					t.Errorf("after the undo\n%s\nwant\n%s\nnotes %q, conflicts %v", got, before, u.Notes, u.Conflicts)
				}
				b.clean()
				if same {
					return
				}
				// An undo is a commit like any other.
				b.undo(UndoOptions{Commit: u.Seq})
				if got := tree(t, b.W); got != after {
					t.Errorf("after the undo of the undo\n%s\nwant\n%s", got, after)
				}
				b.clean()
				log, err := b.w.Log(ctx)
				must(t, err)
				if len(log) != 3 || log[0].UndoneBy != 0 || log[1].UndoneBy != log[2].Seq {
					t.Errorf("the journal has %d commits, %+v", len(log), log[0].UndoneBy)
				}
			})
		}
	}
}

func TestUndoConflicts(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name    string
		do      func(o *Overlay) error
		meddle  func(W string) error
		path    string
		because string
	}{
		{"changed since", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("2"), true)) },
			func(W string) error { return os.WriteFile(W+"/a", []byte("3"), 0o644) }, "a", "changed since"},
		{"gone since", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("2"), true)) },
			func(W string) error { return os.Remove(W + "/a") }, "a", "not there any more"},
		{"made again since", func(o *Overlay) error { return second(o.Remove(ctx, "a", false)) },
			func(W string) error { return os.WriteFile(W+"/a", []byte("1"), 0o644) }, "a", "stands there now"},
		{"a link since", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("2"), true)) },
			func(W string) error { os.Remove(W + "/a"); return os.Symlink(W+"/b", W+"/a") }, "a", "link stands there"},
		{"moved file changed", func(o *Overlay) error { return second(o.Rename(ctx, "a", "m", false)) },
			func(W string) error { return os.WriteFile(W+"/m", []byte("3"), 0o644) }, "m", "changed since"},
		{"source taken", func(o *Overlay) error { return second(o.Rename(ctx, "a", "m", false)) },
			func(W string) error { return os.WriteFile(W+"/a", []byte("3"), 0o644) }, "m", "exists"},
		{"a secret by now", func(o *Overlay) error { return second(o.Rename(ctx, "b", "m", false)) },
			func(W string) error { os.Remove(W + "/m"); return os.WriteFile(W+"/m", nil, 0o644) }, "m", "changed since"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := journaled(t, "", Options{})
			b.build("a = 1", "b = same", "z = 1")
			b.do("c", func(o *Overlay) error {
				if err := c.do(o); err != nil {
					return err
				}
				return second(o.Write(ctx, "z", []byte("2"), true))
			})
			must(t, c.meddle(b.W))
			before := tree(t, b.W)
			u := b.undo(UndoOptions{})
			if len(u.Conflicts) != 1 || u.Conflicts[0].Path != c.path || !strings.Contains(u.Conflicts[0].Why, c.because) || u.Seq != 0 {
				t.Errorf("conflicts %+v; want one of %s: %s", u.Conflicts, c.path, c.because)
			}
			if tree(t, b.W) != before {
				t.Error("something was changed in spite of a conflict")
			}
		})
	}
}

// What is kept is another name of the file that was taken away: who has it open
// can still write to it, and then it is not put back as if it were what it was.
func TestUndoOfAWriterInPlace(t *testing.T) {
	b := journaled(t, "", Options{})
	b.build("log = one\n")
	f, err := os.OpenFile(b.W+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer f.Close()
	b.do("c", func(o *Overlay) error { return second(o.Remove(t.Context(), "log", false)) })
	if _, err := f.WriteString("two\n"); err != nil {
		t.Fatal(err)
	}
	u := b.undo(UndoOptions{})
	if len(u.Conflicts) != 1 || !strings.Contains(u.Conflicts[0].Why, "has written to it since") {
		t.Errorf("conflicts %+v", u.Conflicts)
	}
}

func TestUndoChooses(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, "", Options{})
	put := func(session, turn, call, name, text string) {
		t.Helper()
		o := b.overlay()
		_, err := o.Write(ctx, name, []byte(text), true)
		must(t, err)
		must(t, b.w.CommitBy(ctx, By{Session: session, Turn: turn, Call: call}, o.WriteSet()))
	}
	put("s1", "t1", "call-1", "a", "1")
	must(t, second(b.w.Checkpoint(ctx, "start", By{})))
	put("s1", "t1", "call-2", "b", "1")
	put("s1", "t2", "call-3", "a", "2")
	put("s2", "t1", "call-1", "c", "1")

	for _, c := range []struct {
		name string
		o    UndoOptions
		code tool.Code
		want string // the files that would change
	}{
		{"the last", UndoOptions{}, "", "c"},
		{"a call", UndoOptions{Call: "call-3"}, "", "a"},
		{"a call of two sessions", UndoOptions{Call: "call-1"}, tool.NotUnique, ""},
		{"a call of one session", UndoOptions{Call: "call-1", Session: "s2"}, "", "c"},
		{"a turn of one session", UndoOptions{Turn: "t1", Session: "s2"}, "", "c"},
		{"back to a checkpoint", UndoOptions{To: "start"}, "", "c a b"},
		{"back to a number", UndoOptions{To: "4"}, "", "c"},
		{"a commit", UndoOptions{Commit: 3}, "", "b"},
		{"no such checkpoint", UndoOptions{To: "nope"}, tool.NotFound, ""},
		{"no such call", UndoOptions{Call: "call-9"}, tool.NotFound, ""},
		{"no such commit", UndoOptions{Commit: 99}, tool.NotFound, ""},
		{"a checkpoint is no commit", UndoOptions{Commit: 2}, tool.NotFound, ""},
		{"two ways", UndoOptions{Commit: 1, Call: "call-3"}, tool.InvalidArguments, ""},
		{"since the end", UndoOptions{To: "5"}, tool.NoChange, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.DryRun = true
			u, err := b.w.Undo(ctx, c.o)
			if tool.CodeOf(err) != c.code {
				t.Fatalf("error %v; want the code %q", err, c.code)
			}
			var paths []string
			if u.Writes != nil {
				for _, e := range u.Writes.Entries {
					paths = append(paths, e.Path)
				}
			}
			if got := strings.Join(paths, " "); got != c.want || len(u.Conflicts) > 0 {
				t.Errorf("changes %q, conflicts %v; want %q", got, u.Conflicts, c.want)
			}
		})
	}
	// call-1 of s1 made a, which call-3 changed: alone it cannot be undone.
	if u := b.undo(UndoOptions{Call: "call-1", Session: "s1"}); len(u.Conflicts) != 1 {
		t.Errorf("conflicts %+v; want one", u.Conflicts)
	}
	b.undo(UndoOptions{To: "start"})
	if b.read("a") != "1" {
		t.Errorf("a holds %q", b.read("a"))
	}
	if _, err := b.w.Undo(ctx, UndoOptions{Call: "call-3"}); tool.CodeOf(err) != tool.NoChange || !strings.Contains(err.Error(), "undone already, by commit 6") {
		t.Errorf("a second undo: %v", err)
	}
	b.undo(UndoOptions{}) // the only one that is left
	if got := tree(t, b.W); strings.Contains(got, `"a"`) {
		t.Errorf("left: %s", got)
	}
	if _, err := b.w.Undo(ctx, UndoOptions{}); tool.CodeOf(err) != tool.NotFound {
		t.Errorf("with nothing left: %v", err)
	}
	for _, name := range []string{"start", "12", "-x", "a b", strings.Repeat("x", 101), "a\x1b"} {
		if _, err := b.w.Checkpoint(ctx, name, By{}); err == nil {
			t.Errorf("a checkpoint %q was made", name)
		}
	}
}

func TestNoJournal(t *testing.T) {
	for _, opts := range []Options{{}, {StateDir: t.TempDir(), Journal: JournalOptions{Off: true}}} {
		b := newBox(t, opts)
		b.do("c", func(o *Overlay) error { return second(o.Write(t.Context(), "a", []byte("1"), false)) })
		if _, err := b.w.Undo(t.Context(), UndoOptions{}); tool.CodeOf(err) != tool.NotAvailable {
			t.Errorf("Undo = %v", err)
		}
	}
}

func TestJournalIsPruned(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, "", Options{Journal: JournalOptions{MaxBytes: 250, MaxAge: time.Hour}})
	for i := range 6 {
		b.do("c", func(o *Overlay) error {
			return second(o.Write(ctx, "a", []byte(strings.Repeat(fmt.Sprint(i), 100)), true))
		})
	}
	kept := func() int {
		e, err := os.ReadDir(b.w.journal.path("kept"))
		must(t, err)
		return len(e)
	}
	if n := kept(); n != 5 {
		t.Fatalf("%d contents are kept, want 5", n)
	}
	must(t, b.w.journal.prune(ctx, time.Now()))
	log, err := b.w.Log(ctx)
	must(t, err)
	if len(log) != 2 || kept() != 2 {
		t.Errorf("%d commits and %d contents are left; want 2 and 2", len(log), kept())
	}
	b.undo(UndoOptions{})
	b.undo(UndoOptions{})
	if got := b.read("a"); got != strings.Repeat("3", 100) {
		t.Errorf("after two undos: %q", got[:5])
	}
	must(t, b.w.journal.prune(ctx, time.Now().Add(2*time.Hour)))
	if log, _ = b.w.Log(ctx); len(log) != 1 {
		t.Errorf("%d commits are left after their time; want the newest", len(log))
	}
	// A commit that has begun needs what it names.
	r := Logged{Changes: []LoggedChange{{Op: tool.OpWrite, Path: "x", Was: File, Before: tool.DigestOf(nil), Kept: "needed"}}}
	must(t, b.w.journal.write(&r))
	must(t, os.WriteFile(b.w.journal.path("kept", "needed"), []byte("x"), 0o600))
	must(t, os.WriteFile(b.w.journal.path("kept", "needless"), []byte("x"), 0o600))
	must(t, b.w.journal.prune(ctx, time.Now().Add(2*time.Hour)))
	if _, err := os.Stat(b.w.journal.path("kept", "needed")); err != nil {
		t.Error("what an open commit needs was removed")
	}
	if _, err := os.Stat(b.w.journal.path("kept", "needless")); err == nil {
		t.Error("what nobody needs is left")
	}
}

// Random commits, and then back to the start: everything is as it was.
func TestUndoProperty(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(uint64(round), 7))
		b := journaled(t, "", Options{})
		b.guardOutside()
		b.build("a/b/c = 1", "a/d = 2", "b = 3", "in => b", "out => $O/secret", "c/", "a/l => ../b")
		start := tree(t, b.W)
		for i := range 12 {
			o := b.overlay()
			for range 1 + r.IntN(4) {
				var known []string
				filepath.WalkDir(b.W, func(p string, _ fs.DirEntry, _ error) error {
					if p != b.W {
						known = append(known, strings.TrimPrefix(p, b.W+"/"))
					}
					return nil
				})
				p, q := randomPath(r, known), randomPath(r, known)
				switch r.IntN(6) {
				case 0, 1:
					o.Write(t.Context(), p, fmt.Appendf(nil, "%d.%d", i, r.IntN(9)), r.IntN(3) > 0)
				case 2:
					o.Remove(t.Context(), p, true)
				case 3:
					o.Rename(t.Context(), p, q, r.IntN(2) == 0)
				case 4:
					o.Mkdir(t.Context(), p)
				case 5:
					o.Edit(t.Context(), p, []Edit{{Old: "1", New: "one"}})
				}
			}
			ws := o.WriteSet()
			if err := b.w.CommitBy(t.Context(), By{Call: fmt.Sprint(i)}, ws, b.protected(o)...); err != nil {
				t.Fatalf("round %d, commit %d: %v\n%+v", round, i, err, ws.Entries)
			}
			o.Close()
		}
		log, err := b.w.Log(t.Context())
		must(t, err)
		end := tree(t, b.W)
		if r.IntN(2) == 0 { // all at once
			u := b.undo(UndoOptions{To: firstSeq(t, b)})
			if got := tree(t, b.W); got != start {
				t.Fatalf("round %d: after the undo\n%s\nwant\n%s\nit was\n%s\nnotes %q, conflicts %+v\n%+v", round, got, start, end, u.Notes, u.Conflicts, u.Writes.Entries)
			}
			u = b.undo(UndoOptions{Commit: u.Seq})
			if got := tree(t, b.W); got != end {
				t.Fatalf("round %d: after the undo of the undo\n%s\nwant\n%s\nnotes %q, conflicts %+v", round, got, end, u.Notes, u.Conflicts)
			}
		} else {
			for range log {
				if log, _ := b.w.Log(t.Context()); len(log) > 0 && log[0].UndoneBy == 0 {
					u := b.undo(UndoOptions{})
					if len(u.Conflicts) > 0 {
						t.Fatalf("round %d: conflicts %+v", round, u.Conflicts)
					}
				}
			}
			if got := tree(t, b.W); got != start {
				t.Fatalf("round %d: after all undos\n%s\nwant\n%s", round, got, start)
			}
		}
		b.clean()
	}
}

// firstSeq adds a record below all commits, to go back to.
func firstSeq(t *testing.T, b *box) string {
	t.Helper()
	must(t, os.WriteFile(b.w.journal.path("done", recordName(0)), []byte(`{"seq":0,"checkpoint":"start"}`), 0o600))
	return "start"
}

func TestChanges(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, "", Options{})
	b.build("same = 1", "edit = one\n", "gone = old\n", "move = m\n", "both = 1\n", "dir/x = x", "back = 1")
	if got, err := b.w.Changes(ctx, ""); err != nil || len(got) != 0 {
		t.Errorf("at first: %v, %v", got, err)
	}
	b.do("c1", func(o *Overlay) error { return second(o.Write(ctx, "before", []byte("b"), false)) })
	must(t, second(b.w.Checkpoint(ctx, "here", By{})))
	b.do("c2", func(o *Overlay) error {
		for _, err := range []error{
			second(o.Edit(ctx, "edit", []Edit{{Old: "one", New: "two"}})),
			second(o.Remove(ctx, "gone", false)),
			second(o.Rename(ctx, "move", "moved", false)),
			second(o.Rename(ctx, "dir", "dir2", false)),
			second(o.Write(ctx, "new", []byte("n\n"), false)),
			second(o.Write(ctx, "both", []byte("2\n"), true)),
			second(o.Write(ctx, "back", []byte("2"), true)),
			second(o.Write(ctx, "temp", []byte("t"), false)),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	b.do("c3", func(o *Overlay) error {
		for _, err := range []error{
			second(o.Edit(ctx, "edit", []Edit{{Old: "two", New: "three"}})),
			second(o.Edit(ctx, "moved", []Edit{{Old: "m", New: "mm"}})),
			second(o.Write(ctx, "dir2/x", []byte("y"), true)),
			second(o.Write(ctx, "back", []byte("1"), true)),
			second(o.Remove(ctx, "temp", false)),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	must(t, os.WriteFile(b.W+"/both", []byte("3\n"), 0o644))
	got, err := b.w.Changes(ctx, "here")
	must(t, err)
	var lines []string
	for _, c := range got {
		lines = append(lines, fmt.Sprintf("%s %s %s %v %v", c.Kind, c.Path, c.From, c.Commits, c.Outside))
	}
	want := `changed both  [3] true
moved dir2 dir [3] false
changed dir2/x  [4] false
changed edit  [3 4] false
deleted gone  [3] false
moved moved move [3 4] false
new new  [3] false`
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for _, c := range got {
		if c.Path == "edit" && !strings.Contains(c.Diff, "-one\n+three\n") || c.Path == "gone" && !strings.Contains(c.Diff, "-old\n") || c.Path == "moved" && !strings.Contains(c.Diff, "-m\n+mm\n") {
			t.Errorf("the diff of %s:\n%s", c.Path, c.Diff)
		}
	}
	b.undo(UndoOptions{Call: "c3"})
	if got, _ := b.w.Changes(ctx, "3"); len(got) != 0 {
		t.Errorf("after the undo there are still changes: %+v", got)
	}
}

func TestPermanentDeletion(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, "", Options{})
	b.build("d/x = 1", "d/y = 2", "f = 3")
	b.do("c", func(o *Overlay) error {
		ch, err := o.RemovePermanently(ctx, "d", true)
		if err == nil && (ch.Removed != 3 || !strings.Contains(o.Diff(0), "delete permanently d/x\n")) {
			t.Errorf("%+v\n%s", ch, o.Diff(0))
		}
		return err
	})
	b.clean()
	if e, err := os.ReadDir(b.w.journal.path("kept")); err != nil || len(e) != 0 {
		t.Errorf("%d contents are kept, %v", len(e), err)
	}
	u := b.undo(UndoOptions{})
	if len(u.Conflicts) != 3 || !strings.Contains(u.Conflicts[0].Why, "deleted permanently") {
		t.Errorf("conflicts %+v", u.Conflicts)
	}
	one, other := b.overlay(), b.overlay()
	must(t, second(one.Remove(ctx, "f", false)), second(other.RemovePermanently(ctx, "f", false)))
	if one.WriteSet().Binding() == other.WriteSet().Binding() {
		t.Error("an approval of a deletion would be one of a permanent deletion")
	}
}

// What somebody put into the journal's folders, or tore, is left out or removed:
// it stops nobody from opening the workspace, and from undoing the rest.
func TestDamagedJournal(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, "", Options{})
	b.guardOutside()
	b.build("a = 1", "z = 1")
	b.do("c", func(o *Overlay) error { return second(o.Write(ctx, "a", []byte("2"), true)) })
	b.do("c2", func(o *Overlay) error { return second(o.Write(ctx, "z", []byte("2"), true)) })
	j := b.w.journal
	before := tree(t, b.W)
	bad := map[string]string{
		"torn": `{"seq":50,"chan`, "empty": "", "other number": `{"seq":7}`, "no record": `[1,2]`,
		"leaves by its path":    `{"seq":50,"changes":[{"op":"write","path":"../O/secret","was":"","after":"x"}]}`,
		"leaves by its content": `{"seq":50,"changes":[{"op":"delete","path":"x","was":"file","kept":"../../O/secret"}]}`,
		"climbs":                `{"seq":50,"changes":[{"op":"move","path":"x","from":"a/../../O/secret","was":"file"}]}`,
		"absolute":              `{"seq":50,"changes":[{"op":"delete","path":"/etc/passwd","was":"file"}]}`,
		"a link to the outside": "",
	}
	for name, text := range bad {
		for _, folder := range folders {
			p := j.path(folder, recordName(50))
			if name == "a link to the outside" {
				must(t, os.Symlink(b.O+"/secret", p))
			} else {
				must(t, os.WriteFile(p, []byte(text), 0o600))
			}
			w, err := Open(b.W, b.opts)
			if err != nil {
				t.Fatalf("%s in %s: %v", name, folder, err)
			}
			if log, err := w.Log(ctx); err != nil || len(log) != 2 {
				t.Errorf("%s in %s: %d commits, %v", name, folder, len(log), err)
			}
			if err := w.journal.prune(ctx, time.Now()); err != nil {
				t.Errorf("%s in %s: prune: %v", name, folder, err)
			}
			w.Close()
			os.Remove(p)
			if got := tree(t, b.W); got != before {
				t.Fatalf("%s in %s changed the tree:\n%s", name, folder, got)
			}
		}
	}
	// Content that is not what it says.
	log, err := b.w.Log(ctx)
	must(t, err)
	kept := j.path("kept", log[len(log)-1].Changes[0].Kept)
	must(t, os.Remove(kept), os.Symlink(b.O+"/secret", kept))
	u := b.undo(UndoOptions{})
	if len(u.Conflicts) != 1 || !strings.Contains(u.Conflicts[0].Why, "not kept") || strings.Contains(u.Diff, topSecret) {
		t.Errorf("kept content is a link: %+v", u)
	}
	must(t, os.Remove(kept), os.WriteFile(kept, []byte("9"), 0o600))
	if u := b.undo(UndoOptions{}); len(u.Conflicts) != 1 || !strings.Contains(u.Conflicts[0].Why, "not what it held") {
		t.Errorf("kept content was changed: %+v", u)
	}
}

// What is deleted on another file system than that of the journal is copied, up to
// a limit: beyond it nothing is deleted, unless nobody wants it back.
func TestDeletionTooLargeToKeep(t *testing.T) {
	ctx := t.Context()
	b := journaled(t, otherDevice(t), Options{})
	b.build("d/small = 1")
	must(t, os.WriteFile(b.W+"/d/huge", nil, 0o644))
	if err := os.Truncate(b.W+"/d/huge", maxCopied+1); err != nil {
		t.Skip("needs sparse files: ", err)
	}
	o := b.overlay()
	must(t, second(o.Remove(ctx, "d", true)))
	if err := b.commit(o); tool.CodeOf(err) != tool.TooLarge || !strings.Contains(err.Error(), "permanent") {
		t.Errorf("commit = %v", err)
	}
	if fi, err := os.Stat(b.W + "/d/huge"); err != nil || fi.Size() != maxCopied+1 || b.read("d/small") != "1" {
		t.Errorf("something was deleted: %v", err)
	}
	b.clean()
	if e, _ := os.ReadDir(b.w.journal.path("kept")); len(e) != 0 {
		t.Errorf("%d contents are kept of what was not deleted", len(e))
	}
	b.do("c", func(o *Overlay) error { return second(o.RemovePermanently(ctx, "d", true)) })
	if _, err := os.Stat(b.W + "/d"); err == nil {
		t.Error("it was not deleted permanently")
	}
}
