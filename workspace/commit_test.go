package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// must runs steps that prepare a test.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write prepares one change.
func write(t testing.TB, o *Overlay, path, text string) {
	t.Helper()
	_, err := o.Write(t.Context(), path, []byte(text), true)
	must(t, err)
}

// staging brings a commit to where everything is staged and nothing published.
func staging(t testing.TB, b *box, o *Overlay) *commit {
	t.Helper()
	c := &commit{w: b.w, ctx: t.Context(), held: map[string]*heldDir{}}
	c.sim.w = b.w
	must(t, c.plan(o.WriteSet()), c.check(), c.stage())
	return c
}

// bothSwaps runs f where names can be exchanged and where they cannot.
func bothSwaps(t *testing.T, f func(t *testing.T, b *box)) {
	eachWay(t, func(t *testing.T, b *box) {
		for _, no := range []bool{false, true} {
			t.Run(fmt.Sprint("noExchange=", no), func(t *testing.T) {
				b := newBox(t, b.opts)
				b.w.noExchange = no
				f(t, b)
			})
		}
	})
}

// noTemps fails if a commit left anything behind.
func noTemps(t testing.TB, b *box) {
	t.Helper()
	if s := tree(t, b.W); strings.Contains(s, tempPrefix) {
		t.Errorf("left behind:\n%s", s)
	}
}

func TestCommitKeepsModeAndBytes(t *testing.T) {
	bothSwaps(t, func(t *testing.T, b *box) {
		b.build("f = a", "g = b\r\n\xff")
		must(t, os.Chmod(b.W+"/f", 0o751|fs.ModeSetuid), os.Chmod(b.W+"/g", 0o600))
		o := b.overlay()
		write(t, o, "f", "new")
		_, err := o.Rename(t.Context(), "g", "sub/h", false)
		must(t, err, b.commit(o))
		if fi, _ := os.Stat(b.W + "/f"); fi.Mode() != 0o751|fs.ModeSetuid || b.read("f") != "new" {
			t.Errorf("f = %v %q; want the mode of the old file", fi.Mode(), b.read("f"))
		}
		if fi, _ := os.Stat(b.W + "/sub/h"); fi.Mode() != 0o600 || b.read("sub/h") != "b\r\n\xff" {
			t.Errorf("sub/h = %v %q", fi.Mode(), b.read("sub/h"))
		}
		noTemps(t, b)
	})
}

// TestCommitMismatch changes one thing between the call and the commit. Nothing
// of the set may then be done.
func TestCommitMismatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *box)
		code   tool.Code
	}{
		{"content", func(b *box) { os.WriteFile(b.W+"/edited", []byte("XXXXX"), 0o644) }, tool.ApprovalMismatch},
		{"content, time put back", func(b *box) {
			fi, _ := os.Stat(b.W + "/edited")
			os.WriteFile(b.W+"/edited", []byte("XXXXX"), 0o644)
			os.Chtimes(b.W+"/edited", fi.ModTime(), fi.ModTime())
		}, tool.ApprovalMismatch},
		{"same bytes in another file", func(b *box) {
			os.WriteFile(b.W+"/t", []byte("first"), 0o644)
			os.Rename(b.W+"/t", b.W+"/edited")
		}, tool.ApprovalMismatch},
		{"mode", func(b *box) { os.Chmod(b.W+"/edited", 0o755) }, tool.ApprovalMismatch},
		{"gone", func(b *box) { os.Remove(b.W + "/edited") }, tool.ApprovalMismatch},
		{"a link", func(b *box) { os.Remove(b.W + "/edited"); os.Symlink(b.O+"/secret", b.W+"/edited") }, tool.ApprovalMismatch},
		{"a directory", func(b *box) { os.Remove(b.W + "/edited"); os.Mkdir(b.W+"/edited", 0o755) }, tool.ApprovalMismatch},
		{"read-only", func(b *box) { os.Chmod(b.W+"/edited", 0o444) }, tool.ApprovalMismatch},
		{"new file exists", func(b *box) { os.WriteFile(b.W+"/new", []byte("mine"), 0o644) }, tool.ApprovalMismatch},
		{"new file is a dangling link", func(b *box) { os.Symlink(b.O+"/made", b.W+"/new") }, tool.ApprovalMismatch},
		{"new directory is a file", func(b *box) { os.WriteFile(b.W+"/nd", nil, 0o644) }, tool.ApprovalMismatch},
		{"new directory is a link", func(b *box) { os.Symlink(b.O, b.W+"/nd") }, tool.ApprovalMismatch},
		{"removed file changed", func(b *box) { os.WriteFile(b.W+"/removed", []byte("X"), 0o644) }, tool.ApprovalMismatch},
		{"removed tree got a file", func(b *box) { os.WriteFile(b.W+"/tree/sub/extra", nil, 0o644) }, tool.ApprovalMismatch},
		{"removed tree lost a file", func(b *box) { os.Remove(b.W + "/tree/sub/x") }, tool.ApprovalMismatch},
		{"file in removed tree changed", func(b *box) { os.WriteFile(b.W+"/tree/sub/x", []byte("X"), 0o644) }, tool.ApprovalMismatch},
		{"moved file changed", func(b *box) { os.WriteFile(b.W+"/moved", []byte("X"), 0o644) }, tool.ApprovalMismatch},
		{"destination exists", func(b *box) { os.WriteFile(b.W+"/dest", []byte("mine"), 0o644) }, tool.ApprovalMismatch},
		{"replaced file changed", func(b *box) { os.WriteFile(b.W+"/over", []byte("X"), 0o644) }, tool.ApprovalMismatch},
		{"parent is another directory", func(b *box) {
			os.Rename(b.W+"/p", b.W+"/p2")
			os.Mkdir(b.W+"/p", 0o755)
		}, tool.ApprovalMismatch},
		{"parent is a link to it", func(b *box) {
			os.Rename(b.W+"/p", b.W+"/p2")
			os.Symlink("p2", b.W+"/p")
		}, tool.ApprovalMismatch},
		{"parent is a link to the outside", func(b *box) {
			os.Rename(b.W+"/p", b.W+"/p2")
			os.Symlink(b.O, b.W+"/p")
		}, tool.ApprovalMismatch},
		{"nothing", func(b *box) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothSwaps(t, func(t *testing.T, b *box) {
				b.build("edited = first", "removed = r", "tree/sub/x = x", "tree/y = y", "moved = m", "over = o", "onto = n", "p/f = pf")
				b.guardOutside()
				o := b.overlay()
				write(t, o, "p/f", "changed")
				write(t, o, "nd/deep/file", "text")
				write(t, o, "new", "text")
				_, err := o.Edit(t.Context(), "edited", []Edit{{Old: "first", New: "second"}})
				must(t, err)
				must(t, second(o.Remove(t.Context(), "removed", false)), second(o.Remove(t.Context(), "tree", true)),
					second(o.Rename(t.Context(), "moved", "dest", false)), second(o.Rename(t.Context(), "onto", "over", true)))
				c.change(b)
				before := tree(t, b.W)
				err = b.commit(o)
				if tool.CodeOf(err) != c.code {
					t.Fatalf("commit = %v; want %q", err, c.code)
				}
				after := tree(t, b.W)
				if c.code != "" && after != before {
					t.Errorf("the refused commit changed something:\n%s\nwas\n%s", after, before)
				}
				if c.code == "" && (after == before || b.read("edited") != "second" || b.read("over") != "n" || b.read("dest") != "m" || b.read("p/f") != "changed") {
					t.Errorf("the commit did not do it all:\n%s", after)
				}
				noTemps(t, b)
			})
		})
	}
}

// TestCommitRollsBack lets something happen in the middle of a commit, after the
// checks: the steps already done have to be undone, and what somebody else made
// must survive.
func TestCommitRollsBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		late  func(b *box)
		after func(t *testing.T, b *box)
	}{
		{"last file is replaced", func(b *box) {
			os.WriteFile(b.W+"/t", []byte("theirs"), 0o644)
			os.Rename(b.W+"/t", b.W+"/z")
		}, func(t *testing.T, b *box) {
			if b.read("z") != "theirs" {
				t.Errorf("z = %q: their file is lost", b.read("z"))
			}
		}},
		{"last file is written in place", func(b *box) { os.WriteFile(b.W+"/z", []byte("their"), 0o644) }, func(t *testing.T, b *box) {
			if b.read("z") != "their" {
				t.Errorf("z = %q: their bytes are lost", b.read("z"))
			}
		}},
		{"last file is written in place and its time put back", func(b *box) {
			os.WriteFile(b.W+"/z", []byte("their"), 0o644)
			os.Chtimes(b.W+"/z", future, future)
		}, func(t *testing.T, b *box) {
			if b.read("z") != "their" {
				t.Errorf("z = %q: their bytes are lost", b.read("z"))
			}
		}},
		{"new name is taken", func(b *box) { os.WriteFile(b.W+"/new", []byte("theirs"), 0o644) }, func(t *testing.T, b *box) {
			if b.read("new") != "theirs" {
				t.Errorf("new = %q: their file is lost", b.read("new"))
			}
		}},
		{"removed tree gets a file", func(b *box) { os.WriteFile(b.W+"/tree/theirs", []byte("theirs"), 0o644) }, func(t *testing.T, b *box) {
			if b.read("tree/theirs") != "theirs" {
				t.Error("their file is lost")
			}
		}},
		{"destination is taken", func(b *box) { os.WriteFile(b.W+"/dest", []byte("theirs"), 0o644) }, func(t *testing.T, b *box) {
			if b.read("dest") != "theirs" {
				t.Error("their file is lost")
			}
		}},
		{"moved file is replaced by a link out", func(b *box) {
			os.Remove(b.W + "/moved")
			os.Symlink(b.O+"/secret", b.W+"/moved")
		}, func(t *testing.T, b *box) {
			if fi, err := os.Lstat(b.W + "/moved"); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
				t.Error("their link is lost")
			}
		}},
		{"parent moves away", func(b *box) {
			os.Rename(b.W+"/p", b.W+"/p2")
			os.Symlink(b.O, b.W+"/p")
		}, func(t *testing.T, b *box) {
			if b.read("p2/f") != "pf" {
				t.Errorf("p2/f = %q", b.read("p2/f"))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothSwaps(t, func(t *testing.T, b *box) {
				b.build("a = a", "p/f = pf", "tree/x = x", "moved = m", "z = zzzzz", "gone = g")
				must(t, os.Chtimes(b.W+"/z", future, future))
				b.guardOutside()
				o := b.overlay()
				write(t, o, "a", "A")
				write(t, o, "nd/x", "x")
				must(t, second(o.Remove(t.Context(), "gone", false)))
				write(t, o, "p/f", "PF")
				write(t, o, "new", "text")
				must(t, second(o.Rename(t.Context(), "moved", "dest", false)), second(o.Remove(t.Context(), "tree", true)))
				write(t, o, "z", "Z")

				cm := staging(t, b, o)
				defer cm.close()
				c.late(b)
				want := withoutTemps(tree(t, b.W))
				err := cm.publish()
				if tool.CodeOf(err) != tool.ApprovalMismatch {
					t.Errorf("publish = %v; want approval_mismatch", err)
				}
				must(t, cm.rollback())
				if got := tree(t, b.W); got != want {
					t.Errorf("after the rollback\n%s\nwant\n%s", got, want)
				}
				c.after(t, b)
			})
		})
	}
}

// future is a time that can vouch for nothing.
var future = time.Now().Add(time.Hour).Truncate(time.Second)

func withoutTemps(s string) string {
	var out []string
	for l := range strings.SplitSeq(s, "\n") {
		if !strings.Contains(l, tempPrefix) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// TestPlantedTempName: even a temporary name that was foreseen is no way out.
func TestPlantedTempName(t *testing.T) {
	bothSwaps(t, func(t *testing.T, b *box) {
		b.build("f = x", "d/x = x")
		name := tempName()
		b.w.tempName = func() string { return name }
		must(t, os.Symlink(b.O+"/secret", b.W+"/"+name), os.Symlink(b.O+"/secret", b.W+"/"+stagedName(name)))
		b.guardOutside()
		for _, step := range []func(o *Overlay) error{
			func(o *Overlay) error { return second(o.Write(t.Context(), "f", []byte("PWN"), true)) },
			func(o *Overlay) error { return second(o.Write(t.Context(), "new", []byte("PWN"), true)) },
			func(o *Overlay) error { return second(o.Remove(t.Context(), "f", false)) },
			func(o *Overlay) error { return second(o.Remove(t.Context(), "d", true)) },
		} {
			o := b.overlay()
			must(t, step(o))
			if err := b.commit(o); err == nil {
				t.Error("a commit used a name that was taken")
			}
			if fi, err := os.Lstat(b.W + "/" + name); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
				t.Error("the planted link is gone: it was not ours to remove")
			}
		}
		if b.read("f") != "x" || b.read("d/x") != "x" {
			t.Error("the failed commits changed something")
		}
	})
}

// TestRemoveTwice takes a name out of a directory and then the directory: the
// first must not be kept where the second would find a name too many.
func TestRemoveTwice(t *testing.T) {
	bothSwaps(t, func(t *testing.T, b *box) {
		b.build("d/s/x = x", "d/y = y", "d/z = z", "over = o", "e/f = f")
		o := b.overlay()
		must(t, second(o.Remove(t.Context(), "d/s", true)), second(o.Remove(t.Context(), "d/y", false)), second(o.Rename(t.Context(), "d/z", "over", true)),
			second(o.Rename(t.Context(), "d", "e/d2", false)))
		write(t, o, "new", "n")
		must(t, second(o.Remove(t.Context(), "e", true)), b.commit(o))
		if got := tree(t, b.W); strings.Count(got, "\n") != 2 || b.read("over") != "z" {
			t.Errorf("left:\n%s\nwant new and over", got)
		}
	})
}

// TestStepsThatFail makes each step of a long commit fail in turn: after every
// one the tree must be what it was.
func TestStepsThatFail(t *testing.T) {
	bothSwaps(t, func(t *testing.T, b *box) {
		b.build("a = a", "b = b", "tree/x = x", "tree/s/y = y", "m = m", "over = o", "onto = n")
		before := tree(t, b.W)
		o := b.overlay()
		write(t, o, "a", "A")
		write(t, o, "nd/x/y", "y")
		must(t, second(o.Remove(t.Context(), "tree", true)), second(o.Rename(t.Context(), "m", "nd/m", false)),
			second(o.Rename(t.Context(), "onto", "over", true)), second(o.Remove(t.Context(), "b", false)))
		write(t, o, "nd/m", "changed")
		for n := 1; ; n++ {
			cm := staging(t, b, o)
			if n > len(cm.units) {
				cm.rollback()
				cm.close()
				break
			}
			cm.units = cm.units[:n]
			must(t, cm.publish(), cm.rollback())
			for _, u := range cm.units {
				if u.tmp != nil {
					cm.removeOwn(u)
				}
			}
			cm.close()
			if got := withoutTemps(tree(t, b.W)); got != before {
				t.Fatalf("undone after %d steps:\n%s\nwant\n%s", n, got, before)
			}
		}
		must(t, b.commit(o))
		if b.read("nd/m") != "changed" || b.read("over") != "n" {
			t.Error("the whole commit did not do it all")
		}
		noTemps(t, b)
	})
}

// TestParallelEdits: eight calls edit one file at the same time. Each that
// says it succeeded must be found in the file.
func TestParallelEdits(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		var lines strings.Builder
		for i := range 100 {
			fmt.Fprintln(&lines, i+1)
		}
		b.build("f = " + lines.String())
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				// As callers do: a mismatch is tried again with the present state.
				for range 50 {
					o := b.overlay()
					_, err := o.Edit(t.Context(), "f", []Edit{{Old: fmt.Sprintf("\n%d0\n", i+1), New: fmt.Sprintf("\nE%d\n", i+1)}})
					if err == nil {
						err = b.commit(o)
					}
					if errs[i] = err; tool.CodeOf(err) != tool.ApprovalMismatch {
						return
					}
				}
			})
		}
		wg.Wait()
		got := b.read("f")
		for i, err := range errs {
			if has := strings.Contains(got, fmt.Sprintf("\nE%d\n", i+1)); has != (err == nil) {
				t.Errorf("edit %d: error %v, in the file: %v", i, err, has)
			}
			if err != nil && tool.CodeOf(err) != tool.ApprovalMismatch {
				t.Error(err)
			}
		}
		if n := strings.Count(got, "\n"); n != 100 {
			t.Errorf("%d lines; want 100", n)
		}
		noTemps(t, b)
	})
}

// TestParallelParents: several calls make files in one directory that none of
// them has found. All of them succeed.
func TestParallelParents(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		for round := range 20 {
			var overlays []*Overlay
			for i := range 6 {
				o := b.overlay()
				write(t, o, fmt.Sprintf("r%d/d/f%d", round, i), "x")
				overlays = append(overlays, o)
			}
			var wg sync.WaitGroup
			for _, o := range overlays {
				wg.Go(func() {
					if err := b.commit(o); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			entries, err := os.ReadDir(fmt.Sprintf("%s/r%d/d", b.W, round))
			if err != nil || len(entries) != 6 {
				t.Fatalf("%d files, %v; want 6", len(entries), err)
			}
		}
	})
}

// TestReadersSeeWholeFiles reads a file all the time while it is replaced.
func TestReadersSeeWholeFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		const size = 100_000
		b.build("f = " + strings.Repeat("a", size))
		quit := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
				}
				p, err := os.ReadFile(b.W + "/f")
				if err != nil || len(p) != size || len(bytes.Trim(p, string(p[:1]))) != 0 {
					t.Errorf("read %d bytes, %v", len(p), err)
					return
				}
			}
		})
		for i := range 60 {
			o := b.overlay()
			write(t, o, "f", strings.Repeat(string(rune('a'+i%26)), size))
			must(t, b.commit(o))
		}
		close(quit)
		wg.Wait()
	})
}

func TestCommitChecksTheSet(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x", "d/", "l => d", "ln => f")
		b.guardOutside()
		fid := id(t, b.W+"/f")
		dig := tool.DigestOf([]byte("x"))
		blob := []byte("new")
		good := tool.Write{Op: tool.OpWrite, Path: "f", Identity: fid, Before: dig, After: tool.DigestOf(blob), Mode: 0o644, Size: 3, Blob: blob}
		for name, change := range map[string]func(*tool.Write){
			"climbs":             func(e *tool.Write) { e.Path = "../O/secret" },
			"absolute":           func(e *tool.Write) { e.Path = b.O + "/secret" },
			"not clean":          func(e *tool.Write) { e.Path = "d/../f" },
			"root":               func(e *tool.Write) { e.Path = "." },
			"empty":              func(e *tool.Write) { e.Path = "" },
			"NUL":                func(e *tool.Write) { e.Path = "f\x00" },
			"through a link":     func(e *tool.Write) { e.Path, e.Identity, e.Before = "l/new", tool.Identity{}, "" },
			"onto a link":        func(e *tool.Write) { e.Path = "ln" },
			"temporary name":     func(e *tool.Write) { e.Path, e.Identity, e.Before = tempName(), tool.Identity{}, "" },
			"other content":      func(e *tool.Write) { e.Blob = []byte("bad") },
			"no content":         func(e *tool.Write) { e.Blob = nil },
			"other before":       func(e *tool.Write) { e.Before = tool.DigestOf([]byte("y")) },
			"no before":          func(e *tool.Write) { e.Before = "" },
			"other identity":     func(e *tool.Write) { e.Identity.Ino++ },
			"no identity":        func(e *tool.Write) { e.Identity = tool.Identity{} },
			"unknown op":         func(e *tool.Write) { e.Op = "chmod" },
			"move into itself":   func(e *tool.Write) { e.Op, e.From, e.Path = tool.OpMove, "d", "d/e" },
			"move from outside":  func(e *tool.Write) { e.Op, e.From, e.Path = tool.OpMove, "../O/secret", "got" },
			"replace unremoved":  func(e *tool.Write) { e.Op, e.From, e.Path, e.Replaced = tool.OpMove, "f", "ln", tool.Identity{Ino: 1} },
			"delete of the root": func(e *tool.Write) { e.Op, e.Path, e.Mode = tool.OpDelete, ".", fs.ModeDir },
		} {
			e := good
			change(&e)
			before := tree(t, b.W)
			if err := b.w.Commit(t.Context(), &tool.WriteSet{Entries: []tool.Write{e}}); err == nil || tool.CodeOf(err) == tool.Internal {
				t.Errorf("%s: commit = %v", name, err)
			}
			if tree(t, b.W) != before {
				t.Errorf("%s: the commit changed something", name)
			}
		}
		must(t, b.w.Commit(t.Context(), &tool.WriteSet{Entries: []tool.Write{good}}))
		if b.read("f") != "new" {
			t.Error("the good set did nothing: the cases above test nothing")
		}
	})
}

func TestCommitCancelled(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x")
		o := b.overlay()
		write(t, o, "f", "y")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.w.Commit(ctx, o.WriteSet()); !errors.Is(err, context.Canceled) || b.read("f") != "x" {
			t.Errorf("commit = %v, f = %q", err, b.read("f"))
		}
		noTemps(t, b)
	})
}

func TestSameBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = same")
		old := id(t, b.W+"/f")
		o := b.overlay()
		ch, err := o.Write(t.Context(), "f", []byte("same"), true)
		if err != nil || ch.Created || len(o.WriteSet().Entries) != 1 {
			t.Fatalf("write = %+v, %v with %+v; want one entry to approve", ch, err, o.WriteSet())
		}
		must(t, b.commit(o))
		if id(t, b.W+"/f") != old {
			t.Error("the file was replaced by an equal one")
		}
		os.WriteFile(b.W+"/f", []byte("other"), 0o644)
		wantCode(t, b.commit(o), tool.ApprovalMismatch)
	})
}

func TestReadOnlyFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x", "g = y")
		must(t, os.Chmod(b.W+"/f", 0o444))
		o := b.overlay()
		_, err := o.Write(t.Context(), "f", []byte("y"), true)
		wantCode(t, err, tool.Permission)
		_, err = o.Edit(t.Context(), "f", []Edit{{Old: "x", New: "y"}})
		wantCode(t, err, tool.Permission)
		_, err = o.Rename(t.Context(), "g", "f", true)
		wantCode(t, err, tool.Permission)
		if b.read("f") != "x" {
			t.Error("it changed")
		}
		// rename needs only the directory's rights: the control.
		if err := os.Rename(b.W+"/g", b.W+"/f"); err != nil {
			t.Error(err)
		}
	})
}
