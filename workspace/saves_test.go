//go:build linux || darwin

package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// saver is an editor: each save has a number, and the last one must survive.
type saver struct {
	t    testing.TB
	b    *box
	path string
	last int
}

// text has one length, so that only the content tells two saves apart.
func (s *saver) text() string { return fmt.Sprintf("E %04d", s.last) }

func (s *saver) save(inPlace bool) {
	s.last++
	host := s.b.W + "/" + s.path
	os.MkdirAll(filepath.Dir(host), 0o755)
	if inPlace {
		must(s.t, os.WriteFile(host, []byte(s.text()), 0o644))
		return
	}
	tmp := s.b.W + "/editor"
	must(s.t, os.WriteFile(tmp, []byte(s.text()), 0o644), os.Rename(tmp, host))
}

// look is the content of a file, or what stands there instead.
func (b *box) look(path string) string {
	p, err := os.ReadFile(b.W + "/" + path)
	if errors.Is(err, os.ErrNotExist) {
		return "none"
	}
	if err != nil {
		return err.Error()
	}
	return string(p)
}

// TestSavesDuringCommit lets somebody save before each single step of each kind of
// change, once, twice, and before every step from one on; with a rename and in
// place; where the commit goes through and where a later unit fails. Whatever the
// commit answers, the last save must stand under its name, nothing may be left
// under a hidden name, and what nobody saved is as it was or as it was approved.
func TestSavesDuringCommit(t *testing.T) {
	type change struct {
		name string
		do   func(o *Overlay) error
		path string // what is saved
		old  map[string]string
		done map[string]string
	}
	// Before z fails, the rest is done.
	changes := []change{
		{"replace", func(o *Overlay) error { return second(o.Write(t.Context(), "f", []byte("N 0001"), true)) }, "f",
			map[string]string{"f": "F 0000"}, map[string]string{"f": "N 0001"}},
		{"create", func(o *Overlay) error { return second(o.Write(t.Context(), "new", []byte("N 0001"), true)) }, "new",
			map[string]string{"new": "none"}, map[string]string{"new": "N 0001"}},
		{"remove", func(o *Overlay) error { return second(o.Remove(t.Context(), "f", false)) }, "f",
			map[string]string{"f": "F 0000"}, map[string]string{"f": "none"}},
		{"remove a tree", func(o *Overlay) error { return second(o.Remove(t.Context(), "d", true)) }, "d/x",
			map[string]string{"d/x": "x", "d/s/y": "y"}, map[string]string{"d/x": "none", "d/s/y": "none"}},
		{"move, source saved", func(o *Overlay) error { return second(o.Rename(t.Context(), "f", "to", false)) }, "f",
			map[string]string{"f": "F 0000", "to": "none"}, map[string]string{"f": "none", "to": "F 0000"}},
		{"move, destination saved", func(o *Overlay) error { return second(o.Rename(t.Context(), "f", "to", false)) }, "to",
			map[string]string{"f": "F 0000", "to": "none"}, map[string]string{"f": "none", "to": "F 0000"}},
		{"move over, source saved", func(o *Overlay) error { return second(o.Rename(t.Context(), "f", "g", true)) }, "f",
			map[string]string{"f": "F 0000", "g": "G 0000"}, map[string]string{"f": "none", "g": "F 0000"}},
		{"move over, destination saved", func(o *Overlay) error { return second(o.Rename(t.Context(), "f", "g", true)) }, "g",
			map[string]string{"f": "F 0000", "g": "G 0000"}, map[string]string{"f": "none", "g": "F 0000"}},
	}
	bothSwaps(t, func(t *testing.T, b *box) {
		// run makes one commit and returns how many steps it had. save says how to
		// save before a step, if at all.
		run := func(c change, fails bool, what string, save func(step int) (now, inPlace bool)) int {
			t.Helper()
			must(t, os.RemoveAll(b.W+"/d"), os.RemoveAll(b.W+"/to"), os.RemoveAll(b.W+"/new"))
			b.build("f = F 0000", "g = G 0000", "d/x = x", "d/s/y = y", "z = z")
			o := b.overlay()
			must(t, c.do(o))
			if fails {
				write(t, o, "z", "Z")
			}
			s := &saver{t: t, b: b, path: c.path}
			step, placed := 0, false
			b.w.onStep = func(op string) {
				step++
				if step == 1 && fails {
					must(t, os.WriteFile(b.W+"/z", []byte("theirs"), 0o644))
				}
				if now, inPlace := save(step); now && !(op == "rename" && b.w.noExchange) {
					s.save(inPlace)
					placed = placed || inPlace
				}
			}
			err := b.commit(o)
			b.w.onStep = nil
			what = fmt.Sprintf("%s, fails=%v, %s: commit = %v", c.name, fails, what, err)
			want := c.done
			if err != nil {
				want = c.old
			}
			if fails && err == nil || err != nil && tool.CodeOf(err) != tool.ApprovalMismatch || err != nil && s.last == 0 && !fails {
				t.Errorf("%s", what)
			}
			for path, text := range want {
				got := b.look(path)
				if path == c.path && s.last > 0 {
					text = s.text()
				}
				// In a moved file that has both names for a moment, nobody can tell by
				// which one it was written.
				if got != text && !(placed && c.path != "f" && strings.HasPrefix(c.name, "move") && (b.look("f") == s.text() || b.look(c.path) == s.text())) {
					t.Errorf("%s\n%s = %q; want %q", what, path, got, text)
				}
			}
			if fails && b.look("z") != "theirs" {
				t.Errorf("%s\nz = %q", what, b.look("z"))
			}
			if got := tree(t, b.W); strings.Contains(got, tempPrefix) {
				t.Errorf("%s\nleft behind:\n%s", what, got)
				names, _ := filepath.Glob(b.W + "/" + tempPrefix + "*")
				for _, n := range names {
					os.RemoveAll(n)
				}
			}
			return step
		}
		for _, c := range changes {
			for _, fails := range []bool{false, true} {
				steps := run(c, fails, "no save", func(int) (bool, bool) { return false, false })
				for first := 1; first <= steps+1; first++ {
					for _, in := range []bool{false, true} {
						run(c, fails, fmt.Sprintf("save before %d, in place %v", first, in), func(n int) (bool, bool) { return n == first, in })
						if b.opts.NoOpenat2 || testing.Short() || !in && c.name != "replace" {
							continue
						}
						for gap := 1; gap <= 3; gap++ {
							run(c, fails, fmt.Sprintf("saves before %d, in place %v, and %d", first, in, first+gap),
								func(n int) (bool, bool) { return n == first || n == first+gap, in && n == first })
						}
					}
					run(c, fails, fmt.Sprintf("saves before %d to %d", first, first+9), func(n int) (bool, bool) { return n >= first && n < first+10, false })
				}
			}
		}
	})
}

// TestSaveStorm saves without any pause while commits run.
func TestSaveStorm(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		rounds := 2000
		if testing.Short() {
			rounds = 300
		}
		b.build("f = E 0000")
		s := &saver{t: t, b: b, path: "f"}
		quit := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					s.save(false)
				}
			}
		})
		edit := func() (string, error) {
			o := b.overlay()
			defer o.Close()
			text, err := readAll(t, o, "f")
			must(t, err)
			if _, err := o.Edit(t.Context(), "f", []Edit{{Old: text, New: "X" + text[1:]}}); err != nil {
				return text, err
			}
			return text, b.commit(o)
		}
		done, refused := 0, 0
		for range rounds {
			switch _, err := edit(); tool.CodeOf(err) {
			case "":
				done++
			case tool.ApprovalMismatch, tool.NotFound, tool.NoMatch, tool.NoChange, tool.Busy:
				refused++
			default:
				t.Errorf("commit = %v", err)
			}
		}
		close(quit)
		wg.Wait()
		got := b.read("f")
		if want := s.text(); got != want && got != "X"+want[1:] {
			t.Errorf("f = %q after %s, %d edits and %d refusals", got, want, done, refused)
		}
		noTemps(t, b)
		t.Logf("%d edits, %d refusals, %d saves", done, refused, s.last)
		s.save(false)
		if _, err := edit(); err != nil || b.read("f") != "X"+s.text()[1:] {
			t.Errorf("in peace: %v, f = %q", err, b.read("f"))
		}
	})
}
