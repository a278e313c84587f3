package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// killedSets are commits that are killed at each of their steps.
var killedSets = map[string]func(ctx context.Context, o *Overlay) error{
	"files": func(ctx context.Context, o *Overlay) error {
		return errors.Join(
			second(o.Write(ctx, "new/f", []byte("new"), false)),
			second(o.Write(ctx, "a", []byte("after"), true)),
			second(o.Edit(ctx, "run.sh", []Edit{{Old: "echo", New: "print"}})),
			second(o.Remove(ctx, "gone", false)),
		)
	},
	"trees": func(ctx context.Context, o *Overlay) error {
		return errors.Join(
			second(o.Remove(ctx, "d", true)),
			second(o.Rename(ctx, "m", "n/m", false)),
			second(o.Rename(ctx, "a", "b", false)),
			second(o.Rename(ctx, "run.sh", "gone", true)),
			second(o.Remove(ctx, "in", false)),
		)
	},
	"one": func(ctx context.Context, o *Overlay) error {
		return second(o.Write(ctx, "a", []byte("after"), true))
	},
	"mixed": func(ctx context.Context, o *Overlay) error {
		return errors.Join(
			second(o.Write(ctx, "d/e/f", []byte("changed"), true)),
			second(o.Rename(ctx, "d", "dd", false)),
			second(o.Write(ctx, "dd/x", []byte("x"), false)),
			second(o.Remove(ctx, "m", true)),
			second(o.Write(ctx, "m", []byte("a file now"), false)),
		)
	},
}

// TestDieInCommit is a process of TestKilledInCommit.
func TestDieInCommit(t *testing.T) {
	at, err := strconv.Atoi(os.Getenv("WASMTOOLS_TEST_DIE_AT"))
	if err != nil {
		t.Skip("runs in TestKilledInCommit")
	}
	w, err := Open(os.Getenv("WASMTOOLS_TEST_DIE_IN"), Options{StateDir: os.Getenv("WASMTOOLS_TEST_DIE_STATE"), NoSync: true})
	must(t, err)
	w.noExchange = os.Getenv("WASMTOOLS_TEST_DIE_POOR") != ""
	o := w.Overlay(OverlayOptions{})
	must(t, killedSets[os.Getenv("WASMTOOLS_TEST_DIE_SET")](t.Context(), o))
	step := 0
	w.onStep = func(string) {
		if step++; step == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	must(t, w.Commit(t.Context(), o.WriteSet()))
	if at > 0 {
		fmt.Println("THROUGH")
	}
}

// A commit is killed before each of its steps in turn. Whoever opens the
// workspace next finds all of it or none, and nothing left over; without the
// journal some of these kills leave half.
func TestKilledInCommit(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for set := range killedSets {
		for _, way := range []string{"", "no exchange", "no journal"} {
			if testing.Short() && way == "no exchange" {
				continue
			}
			t.Run(set+"/"+way, func(t *testing.T) {
				t.Parallel()
				olds, news, halves := 0, 0, 0
				for at := 1; ; at++ {
					b := journaled(t, "", Options{})
					b.guardOutside()
					b.build("a = before", "run.sh = echo", "gone = old", "d/e/f = deep", "d/e/g = deep", "d/l => e/f", "m/x = 1", "in => a")
					must(t, os.Chmod(b.W+"/run.sh", 0o750))
					before := tree(t, b.W)
					o := b.overlay()
					must(t, killedSets[set](t.Context(), o))
					other := journaled(t, "", Options{})
					must(t, os.CopyFS(other.W, os.DirFS(b.W)))
					must(t, os.Chmod(other.W+"/run.sh", 0o750))
					oo := other.overlay()
					must(t, killedSets[set](t.Context(), oo))
					must(t, other.commit(oo))
					after := tree(t, other.W)

					state := b.opts.StateDir
					if way == "no journal" {
						state = ""
					}
					child := exec.Command(self, "-test.run", "^TestDieInCommit$")
					child.Env = append(os.Environ(), "WASMTOOLS_TEST_DIE_AT="+strconv.Itoa(at), "WASMTOOLS_TEST_DIE_IN="+b.W,
						"WASMTOOLS_TEST_DIE_STATE="+state, "WASMTOOLS_TEST_DIE_SET="+set)
					if way == "no exchange" {
						child.Env = append(child.Env, "WASMTOOLS_TEST_DIE_POOR=1")
					}
					out, err := child.CombinedOutput()
					through := strings.Contains(string(out), "THROUGH")
					if !through && !strings.Contains(fmt.Sprint(err), "killed") {
						t.Fatalf("%v: %s", err, out)
					}
					var notices []string
					w, err := Open(b.W, Options{StateDir: state, NoSync: true, Notice: func(s string) { notices = append(notices, s) }})
					must(t, err)
					staged(b)
					switch got := tree(t, b.W); {
					case got == before:
						olds++
					case got == after:
						news++
					case way == "no journal":
						halves++
					default:
						t.Errorf("killed at step %d (%q): neither before nor after\n%s", at, notices, got)
					}
					if way != "no journal" {
						b.clean()
						for _, folder := range folders[:2] {
							if list, _ := w.journal.seqs(folder); len(list) > 0 {
								t.Errorf("killed at step %d: %d records are still in %s", at, len(list), folder)
							}
						}
						if tree(t, b.W) == after {
							u, err := w.Undo(t.Context(), UndoOptions{})
							if err != nil || len(u.Conflicts) > 0 || tree(t, b.W) != before {
								t.Errorf("killed at step %d (%q): the undo: %v, %+v", at, notices, err, u.Conflicts)
							}
						}
					}
					w.Close()
					if through {
						break
					}
				}
				t.Logf("%d before, %d after, %d half", olds, news, halves)
				if way == "no journal" && halves == 0 && set != "one" {
					t.Error("no kill left half of a commit: the control shows nothing")
				}
				if way != "no journal" && (olds == 0 || news == 0) {
					t.Error("the kills did not come on both sides of the commit")
				}
			})
		}
	}
}

// staged removes staged files, as the next commit in that directory by another
// process does.
func staged(b *box) {
	for _, d := range []string{".", "new", "d", "dd", "n", "m", "d/e"} {
		h, err := b.w.openDir(d)
		if err != nil {
			continue
		}
		id, _ := h.stat()
		b.w.swept = sweptDirs{}
		b.w.sweep(h, id.id, time.Now())
		h.close()
	}
}
