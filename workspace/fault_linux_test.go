package workspace

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// TestFaults lets each step of a commit fail, with each of the errors that disks
// have: the commit is all there or not at all, the error has a code that says
// what to do, and nothing is left over. A disk that is full stays full; one that
// is read-only from a step on lets nothing be put back, and then the next opening
// does it.
func TestFaults(t *testing.T) {
	makes := []string{"create", "write", "mkdir", "link", "symlink", "journal", "sync"}
	for _, c := range []struct {
		name string
		err  error
		code tool.Code
		// lasts says which steps fail from then on; nil: that one alone.
		lasts func(op string) bool
	}{
		{"EIO", syscall.EIO, tool.Internal, nil},
		{"ENOSPC", syscall.ENOSPC, tool.Permission, func(op string) bool { return slices.Contains(makes, op) }},
		{"EDQUOT", syscall.EDQUOT, tool.Permission, func(op string) bool { return slices.Contains(makes, op) }},
		{"EACCES", syscall.EACCES, tool.Permission, nil},
		{"EROFS", syscall.EROFS, tool.Permission, func(string) bool { return true }},
	} {
		for set, do := range killedSets {
			t.Run(c.name+"/"+set, func(t *testing.T) {
				t.Parallel()
				failed, passed := 0, 0
				for at := 1; ; at++ {
					b := journaled(t, "", Options{})
					b.guardOutside()
					b.build("a = before", "run.sh = echo", "gone = old", "d/e/f = deep", "d/e/g = deep", "d/l => e/f", "m/x = 1", "in => a")
					before := tree(t, b.W)
					o := b.overlay()
					must(t, do(t.Context(), o))
					step, hit, where := 0, false, ""
					fault := func(op string) error {
						if c.err == syscall.ENOSPC || c.err == syscall.EDQUOT {
							if !slices.Contains(makes, op) {
								return nil
							}
						}
						if step++; step == at || step > at && c.lasts != nil && c.lasts(op) {
							if !hit {
								where = op
							}
							hit = true
							return c.err
						}
						return nil
					}
					b.w.opts.NoSync = false // the syncs are steps
					b.w.onFault = fault
					must(t, b.w.journal.openNow())
					b.w.journal.kept.onFault = fault
					err := b.commit(o)
					b.w.onFault, b.w.journal.kept.onFault = nil, nil
					if !hit {
						if err != nil {
							t.Fatalf("without a fault: %v", err)
						}
						t.Logf("%d steps: %d commits failed, %d passed all the same", at-1, failed, passed)
						if failed == 0 {
							t.Error("no fault made the commit fail: the test shows nothing")
						}
						return
					}
					what := fmt.Sprintf("a fault in step %d, %s", at, where)
					if err != nil {
						failed++
						if code := tool.CodeOf(err); code != c.code && code != tool.Internal {
							t.Errorf("%s: the code %s; want %s: %v", what, code, c.code, err)
						}
					} else {
						passed++
					}
					// The disk is well again, and somebody opens the workspace.
					w, oerr := Open(b.W, b.opts)
					must(t, oerr)
					w.Close()
					staged(b)
					now := tree(t, b.W)
					switch {
					case err != nil && now == before:
					case now == before:
						t.Errorf("%s: no error, and nothing was changed", what)
					default:
						// All must be there: an undo finds each file as it was left.
						u, uerr := b.w.Undo(t.Context(), UndoOptions{})
						if uerr != nil || len(u.Conflicts) > 0 || tree(t, b.W) != before {
							t.Errorf("%s (%v): half of the commit is there: %v %+v\n%s", what, err, uerr, u.Conflicts, now)
						}
					}
					b.clean()
					if list, _ := b.w.journal.seqs("open"); len(list) > 0 {
						t.Errorf("%s: an open record is left", what)
					}
				}
			})
		}
	}
}

// Modes are faults too: what must not be changed is told before anything is done.
func TestReadOnlyBits(t *testing.T) {
	b := journaled(t, "", Options{})
	b.build("f = 1", "d/x = 1")
	must(t, os.Chmod(b.W+"/f", 0o444))
	o := b.overlay()
	for what, err := range map[string]error{
		"write": second(o.Write(t.Context(), "f", []byte("2"), true)),
		"edit":  second(o.Edit(t.Context(), "f", []Edit{{Old: "1", New: "2"}})),
	} {
		if tool.CodeOf(err) != tool.Permission {
			t.Errorf("%s: %v", what, err)
		}
	}
	// It became read-only between the look and the commit.
	write(t, o, "d/x", "2")
	must(t, os.Chmod(b.W+"/d/x", 0o444))
	if err := b.commit(o); tool.CodeOf(err) != tool.ApprovalMismatch && tool.CodeOf(err) != tool.Permission {
		t.Errorf("commit: %v", err)
	}
	if b.read("d/x") != "1" {
		t.Error("a read-only file was changed")
	}
	b.clean()
}
