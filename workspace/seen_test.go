package workspace

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

func TestSeen(t *testing.T) {
	b := newBox(t, Options{NoSync: true})
	for _, c := range []struct {
		name    string
		require bool
		steps   string // r: the session reads f; o: somebody changes it; b: and back; t: touches it; w: the session writes it; m: it moves the directory there and back; d: it deletes it, and somebody makes it again
		code    tool.Code
	}{
		{"never read", false, "", ""},
		{"read", false, "r", ""},
		{"read and changed", false, "ro", tool.Stale},
		{"read, changed, read", false, "ror", ""},
		{"read and touched", false, "rt", ""},
		{"read, changed and changed back", false, "rob", ""},
		{"own write", false, "rw", ""},
		{"own write, changed", false, "wo", tool.Stale},
		{"changed, own edit matches afresh", false, "roe", ""},
		{"read, moved", false, "rm", ""},
		{"read, changed, moved", false, "rom", tool.Stale},
		{"read, deleted, made by somebody", false, "rd", ""},
		{"required, never read", true, "", tool.Stale},
		{"required, read", true, "r", ""},
		{"required, written", true, "w", ""},
		{"required, made by somebody", true, "rd", tool.Stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.RemoveAll(b.W + "/d")
			os.RemoveAll(b.W + "/e")
			b.build("d/f = one\n")
			s := NewSeen(c.require)
			overlay := func() *Overlay { return b.w.Overlay(OverlayOptions{Seen: s}) }
			commit := func(o *Overlay) {
				t.Helper()
				ws := o.WriteSet()
				must(t, b.w.Commit(t.Context(), ws))
				s.Committed(ws)
			}
			read := func(o *Overlay) {
				buf := make([]byte, 2)
				if _, err := o.ReadAt(t.Context(), "d/f", buf, 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range c.steps {
				o := overlay()
				switch step {
				case 'r':
					read(o)
					s.Read(o)
				case 'o':
					must(t, os.WriteFile(b.W+"/d/f", []byte("two\n"), 0o644))
				case 'b':
					must(t, os.WriteFile(b.W+"/d/f", []byte("one\n"), 0o644))
				case 't':
					later := time.Now().Add(time.Hour)
					must(t, os.Chtimes(b.W+"/d/f", later, later))
				case 'w':
					_, err := o.Write(t.Context(), "d/f", []byte("mine\n"), true)
					if c.require && tool.CodeOf(err) == tool.Stale {
						read(o) // in the same call
						_, err = o.Write(t.Context(), "d/f", []byte("mine\n"), true)
					}
					must(t, err)
					commit(o)
				case 'e':
					must(t, second(o.Edit(t.Context(), "d/f", []Edit{{Old: "two", New: "edited"}})))
					commit(o)
				case 'm':
					must(t, second(o.Rename(t.Context(), "d", "e", false)))
					commit(o)
					o = overlay()
					must(t, second(o.Rename(t.Context(), "e", "d", false)))
					commit(o)
				case 'd':
					must(t, second(o.Remove(t.Context(), "d/f", false)))
					commit(o)
					must(t, os.WriteFile(b.W+"/d/f", []byte("another\n"), 0o644))
				}
				o.Close()
			}
			o := overlay()
			if _, err := o.Write(t.Context(), "d/f", []byte("new\n"), true); tool.CodeOf(err) != c.code {
				t.Errorf("Write = %v; want the code %q", err, c.code)
			}
			// Without the guard it passes: the control.
			if _, err := b.overlay().Write(t.Context(), "d/f", []byte("new\n"), true); err != nil {
				t.Errorf("without a guard: %v", err)
			}
			if _, err := overlay().Edit(t.Context(), "d/f", []Edit{{Old: "\n", New: "!\n"}}); err != nil {
				t.Errorf("an edit: %v", err)
			}
		})
	}
}

func TestSeenIsBounded(t *testing.T) {
	s := NewSeen(false)
	for i := range 3 * maxSeen {
		s.put(fmt.Sprint(i), "x", stat{})
	}
	if n := len(s.files); n > maxSeen {
		t.Errorf("%d files are remembered", n)
	}
	if _, ok := s.files[fmt.Sprint(3*maxSeen-1)]; !ok {
		t.Error("the newest is forgotten")
	}
}

func BenchmarkSeen(b *testing.B) {
	x := newBox(b, Options{NoSync: true})
	for _, size := range []int{2 << 10, 100 << 10, 10 << 20} {
		must(b, os.WriteFile(x.W+"/f", make([]byte, size), 0o644))
		buf := make([]byte, 2<<10)
		for _, guarded := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/guarded=%v", size>>10, guarded), func(b *testing.B) {
				var s *Seen
				if guarded {
					s = NewSeen(false)
				}
				for b.Loop() {
					o := x.w.Overlay(OverlayOptions{Seen: s})
					if _, err := o.ReadAt(b.Context(), "f", buf, 0); err != nil {
						b.Fatal(err)
					}
					if s != nil {
						s.Read(o)
					}
					o.Close()
				}
			})
		}
	}
}
