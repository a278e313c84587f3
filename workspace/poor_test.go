package workspace

import (
	"errors"
	"os"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// TestPoorFileSystem works where names can neither be swapped nor doubled nor be
// kept from being replaced, as on FAT and some network file systems: one file in
// a call still goes, several at once are refused, and nothing is overwritten.
func TestPoorFileSystem(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		if isWindows {
			t.Skip("always so on this system")
		}
		b.build("f = f", "g = g", "d/x = x", "m = m")
		b.w.noExchange, b.w.noReplace, b.w.noLink = true, true, true
		one := func(f func(o *Overlay) error) error {
			o := b.overlay()
			must(t, f(o))
			return b.commit(o)
		}
		must(t,
			one(func(o *Overlay) error { return second(o.Write(t.Context(), "f", []byte("F"), true)) }),
			one(func(o *Overlay) error { return second(o.Write(t.Context(), "n/new", []byte("N"), false)) }),
			one(func(o *Overlay) error { return second(o.Remove(t.Context(), "g", false)) }),
			one(func(o *Overlay) error { return second(o.Remove(t.Context(), "d", true)) }),
			one(func(o *Overlay) error { return second(o.Rename(t.Context(), "m", "n/m", false)) }),
		)
		if b.read("f") != "F" || b.read("n/new") != "N" || b.read("n/m") != "m" {
			t.Error("a change is missing")
		}
		for _, gone := range []string{"g", "d", "m"} {
			if _, err := os.Lstat(b.W + "/" + gone); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", gone, err)
			}
		}
		err := one(func(o *Overlay) error {
			write(t, o, "f", "1")
			return second(o.Write(t.Context(), "n/new", []byte("2"), true))
		})
		wantCode(t, err, tool.NotAvailable)
		if b.read("f") != "F" || b.read("n/new") != "N" {
			t.Error("half of the set was done")
		}
		d, err := b.w.openDir(".")
		must(t, err)
		defer d.close()
		if err := d.renameNew("f", d, "n"); !errors.Is(err, os.ErrExist) {
			t.Errorf("renameNew onto a directory = %v", err)
		}
		b.build("here = mine")
		if err := d.renameNew("f", d, "here"); !errors.Is(err, os.ErrExist) || b.read("here") != "mine" {
			t.Errorf("renameNew onto a file = %v, it holds %q", err, b.read("here"))
		}
		noTemps(t, b)
	})
}

// TestTreesAreBounded: a removal names at most so many files, and goes at most so
// deep.
func TestTreesAreBounded(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/1 = x", "d/2 = x", "d/3/4 = x")
		o := b.overlay()
		pl, err := o.existing("d")
		must(t, err)
		for max, code := range map[int]tool.Code{4: tool.TooLarge, 5: ""} {
			names := 0
			walk := treeWalk{o: o, ctx: t.Context(), max: max, visit: func(item) error { names++; return nil }}
			if err := walk.run(pl); tool.CodeOf(err) != code {
				t.Errorf("walk with room for %d = %v after %d names; want %q", max, err, names, code)
			}
		}
		r, err := os.OpenRoot(b.W + "/d")
		must(t, err)
		for range maxDepth + 1 {
			must(t, r.Mkdir("s", 0o755))
			next, err := r.OpenRoot("s")
			must(t, err)
			r.Close()
			r = next
		}
		r.Close()
		_, err = o.Remove(t.Context(), "d", true)
		wantCode(t, err, tool.TooLarge)
	})
}
