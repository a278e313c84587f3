package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestOverlayShowsItsChanges(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = one", "d/x = x", "d/y = y")
		before := tree(t, b.W)
		o := b.overlay()
		defer o.Close()
		ch, err := o.Write(t.Context(), "new/deep/g", []byte("made"), false)
		if err != nil || !ch.Created || ch.Path != "new/deep/g" || ch.Bytes != 4 || ch.SHA256 != tool.DigestOf([]byte("made")).Hex() {
			t.Errorf("write = %+v, %v", ch, err)
		}
		_, err = o.Write(t.Context(), "new/deep/g", []byte("again"), false)
		wantCode(t, err, tool.Exists)
		_, err = o.Write(t.Context(), "f", []byte("x"), false)
		wantCode(t, err, tool.Exists)
		must(t, second(o.Edit(t.Context(), "f", []Edit{{Old: "one", New: "two"}})), second(o.Edit(t.Context(), "f", []Edit{{Old: "two", New: "three"}})))
		if got, err := readAll(t, o, "f"); got != "three" || err != nil {
			t.Errorf("f = %q, %v", got, err)
		}
		must(t, second(o.Rename(t.Context(), "d", "e", false)), second(o.Remove(t.Context(), "e/y", false)))
		for _, gone := range []string{"d", "d/x", "e/y"} {
			_, err := o.Stat(t.Context(), gone)
			wantCode(t, err, tool.NotFound)
		}
		if got, err := readAll(t, o, "e/x"); got != "x" || err != nil {
			t.Errorf("e/x = %q, %v", got, err)
		}
		var names []string
		for _, p := range o.Pending() {
			names = append(names, fmt.Sprintf("%s %v", p.Path, p.Deleted))
		}
		slices.Sort(names)
		if want := []string{"d true", "e false", "e/y true", "f false", "new false", "new/deep false", "new/deep/g false"}; !slices.Equal(names, want) {
			t.Errorf("Pending = %q; want %q", names, want)
		}
		if tree(t, b.W) != before {
			t.Error("the overlay changed the disk")
		}
		o.Discard()
		if got, _ := readAll(t, o, "f"); got != "one" || !o.WriteSet().Empty() || o.Diff(0) != "" {
			t.Errorf("after Discard: f = %q, %+v", got, o.WriteSet())
		}
	})
}

// TestWriteSetIsSmall: what cancels itself out is not in the set.
func TestWriteSetIsSmall(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = one", "d/x = x")
		o := b.overlay()
		write(t, o, "tmp/a", "1")
		write(t, o, "tmp/a", "2")
		must(t, second(o.Rename(t.Context(), "tmp/a", "tmp/b", false)), second(o.Remove(t.Context(), "tmp", true)))
		if ws := o.WriteSet(); !ws.Empty() {
			t.Errorf("set = %+v; want none", ws)
		}
		for range 5 {
			must(t, second(o.Write(t.Context(), "f", []byte("x"), true)))
		}
		must(t, second(o.Rename(t.Context(), "f", "g", false)))
		ops := ""
		for _, e := range o.WriteSet().Entries {
			ops += fmt.Sprintf("%s %s;", e.Op, e.Path)
		}
		if want := "move g;write g;"; ops != want {
			t.Errorf("set = %s; want %s", ops, want)
		}
		must(t, b.commit(o))
		if b.read("g") != "x" {
			t.Errorf("g = %q", b.read("g"))
		}
	})
}

func TestReadAtSeesOneFile(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = " + strings.Repeat("a", 100))
		o := b.overlay()
		defer o.Close()
		p := make([]byte, 50)
		if n, err := o.ReadAt(t.Context(), "f", p, 0); n != 50 || err != nil {
			t.Fatalf("ReadAt = %d, %v", n, err)
		}
		os.WriteFile(b.W+"/t", []byte(strings.Repeat("b", 100)), 0o644)
		os.Rename(b.W+"/t", b.W+"/f")
		if n, err := o.ReadAt(t.Context(), "f", p, 50); n != 50 || err != nil || p[0] != 'a' {
			t.Errorf("second piece = %d, %v, %q; want the same file", n, err, p[:1])
		}
		if n, err := o.ReadAt(t.Context(), "f", p, 100); n != 0 || err != io.EOF {
			t.Errorf("at the end = %d, %v", n, err)
		}
		if n, err := o.ReadAt(t.Context(), "f", p, 1<<40); n != 0 || err != io.EOF {
			t.Errorf("past the end = %d, %v", n, err)
		}
		_, err := o.ReadAt(t.Context(), "f", p, -1)
		wantCode(t, err, tool.InvalidArguments)
		// Another path, and back: the file of now.
		o.ReadAt(t.Context(), "none", p, 0)
		if o.ReadAt(t.Context(), "f", p, 0); p[0] != 'b' {
			t.Errorf("opened again: %q", p[:1])
		}
	})
}

func TestList(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		for i := range 25 {
			b.build(fmt.Sprintf("d/n%02d = %d", i, i))
		}
		b.build("d/sub/", "d/"+tempName()+" = hidden", "file = x")
		o := b.overlay()
		write(t, o, "d/n05x", "new")
		must(t, second(o.Remove(t.Context(), "d/n07", false)))
		var got []string
		opts := ListOptions{MaxResults: 4}
		for pages := 0; ; pages++ {
			page, err := o.List(t.Context(), "d", opts)
			must(t, err)
			if page.Total != 26 || len(page.Entries) > 4 || pages > 10 {
				t.Fatalf("page %d = %+v", pages, page)
			}
			for _, e := range page.Entries {
				got = append(got, e.Name)
				if e.Path != "d/"+e.Name {
					t.Errorf("path %q of %q", e.Path, e.Name)
				}
			}
			if page.Truncated != (page.Next != "") {
				t.Errorf("truncated %v, next %q", page.Truncated, page.Next)
			}
			if opts.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if !slices.IsSorted(got) || len(got) != 26 || !slices.Contains(got, "n05x") || slices.Contains(got, "n07") || !slices.Contains(got, "sub") {
			t.Errorf("names = %q", got)
		}
		_, err := o.List(t.Context(), "file", ListOptions{})
		wantCode(t, err, tool.NotRegular)
		_, err = o.List(t.Context(), "none", ListOptions{})
		wantCode(t, err, tool.NotFound)
		page, err := o.List(t.Context(), "d/..", ListOptions{MaxResults: 1})
		must(t, err)
		for _, cursor := range []string{"!", "abc", "bjA1", SealCursor("", "list", "d"), SealCursor("n05", "list", "d") + "A", page.Next, strings.Repeat("A", maxCursor+1)} {
			_, err = o.List(t.Context(), "d", ListOptions{Cursor: cursor})
			wantCode(t, err, tool.InvalidArguments)
			if next := tool.AsError(err).Next; !strings.HasPrefix(next, "start again without cursor") {
				t.Errorf("List with the cursor %.40q: next move %q", cursor, next)
			}
		}
		// The same directory by another path goes on.
		first, err := o.List(t.Context(), "d", ListOptions{MaxResults: 1})
		must(t, err)
		if second, err := o.List(t.Context(), "./d/", ListOptions{MaxResults: 1, Cursor: first.Next}); err != nil || second.Entries[0].Name != "n01" {
			t.Errorf("the second page, by another path = %+v, %v", second, err)
		}
		for _, n := range []int{-1, 1001} {
			_, err = o.List(t.Context(), "d", ListOptions{MaxResults: n})
			wantCode(t, err, tool.InvalidArguments)
		}
	})
}

// TestGuardSeesEverything refuses one name and wants it refused on every way to
// it, and asked for by its canonical path before anything happens.
func TestGuardSeesEverything(t *testing.T) {
	refused := errors.New("refused")
	eachWay(t, func(t *testing.T, b *box) {
		b.build("secret.env = DENYME", "l => secret.env", "d/secret.env = DENYME", "dl => d", "d/x = x", "plain = p")
		want := id(t, b.W+"/secret.env")
		for _, v := range verbs {
			for _, p := range []string{"secret.env", "./d/../secret.env", "l", "dl/secret.env", "d/secret.env", "l/../secret.env"} {
				asked := 0
				o := b.w.Overlay(OverlayOptions{Guard: func(verb Verb, path string, got tool.Identity) error {
					if strings.HasSuffix(path, "secret.env") {
						asked++
						if path == "secret.env" && verb != VerbWrite && got != want {
							t.Errorf("%s %s: identity %v; want %v", v.name, p, got, want)
						}
						return refused
					}
					if strings.Contains(path, "..") || strings.HasPrefix(path, "dl/") {
						t.Errorf("%s %s: the guard saw %q", v.name, p, path)
					}
					return nil
				}})
				if p == "l" && (v.name == "remove" || strings.HasPrefix(v.name, "move")) {
					continue // the link itself
				}
				text, err := v.do(o, t, p)
				if strings.Contains(text, "DENYME") {
					t.Errorf("%s %s told %q", v.name, p, text)
				}
				if v.name == "list" || v.name == "mkdir" || v.name == "move to" {
					if err == nil {
						t.Errorf("%s %s worked", v.name, p)
					}
				} else if err != refused || asked == 0 {
					t.Errorf("%s %s = %v after %d questions; want the guard's error", v.name, p, err, asked)
				}
				if !o.WriteSet().Empty() {
					t.Errorf("%s %s: %+v", v.name, p, o.WriteSet())
				}
				o.Close()
			}
		}

		// A directory that holds it can neither go nor move, and what was moved is
		// still asked for under its old name.
		deny := func(prefix string) *Overlay {
			return b.w.Overlay(OverlayOptions{Guard: func(verb Verb, path string, _ tool.Identity) error {
				if under(path, prefix) && (verb == VerbRead || prefix == "d/secret.env") {
					return refused
				}
				return nil
			}})
		}
		o := deny("d/secret.env")
		if _, err := o.Remove(t.Context(), "d", true); err != refused {
			t.Errorf("Remove(d) = %v", err)
		}
		if _, err := o.Rename(t.Context(), "d", "e", false); err != refused {
			t.Errorf("Rename(d) = %v", err)
		}
		o = deny("d")
		must(t, second(o.Rename(t.Context(), "d", "e", false)))
		if got, err := readAll(t, o, "e/x"); err != refused {
			t.Errorf("read of what was moved = %q, %v", got, err)
		}
		must(t, second(o.Rename(t.Context(), "secret.env", "d2", false)))

		// Whoever may not read a file does not read it in a diff.
		o = deny("plain")
		write(t, o, "plain", "new")
		if d := o.Diff(0); strings.Contains(d, "-p") || !strings.Contains(d, "may not read") {
			t.Errorf("diff = %q", d)
		}
	})
}

func TestReadOnlyOverlay(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x")
		o := b.w.Overlay(OverlayOptions{ReadOnly: true})
		for _, v := range verbs {
			_, err := v.do(o, t, "f")
			switch v.name {
			case "read", "stat":
				must(t, err)
			case "list":
			default:
				wantCode(t, err, tool.Permission)
			}
		}
	})
}

func TestMaxBytes(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		o := b.w.Overlay(OverlayOptions{MaxBytes: 1000})
		write(t, o, "a", strings.Repeat("x", 600))
		_, err := o.Write(t.Context(), "b", make([]byte, 600), false)
		wantCode(t, err, tool.TooLarge)
		write(t, o, "a", "small")
		write(t, o, "b", strings.Repeat("x", 900))
		_, err = o.Edit(t.Context(), "b", []Edit{{Old: "x", New: "xx", All: true}})
		wantCode(t, err, tool.TooLarge)
		must(t, second(o.Remove(t.Context(), "b", false)))
		write(t, o, "c", strings.Repeat("x", 900))
	})
}

func TestMove(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("a = a", "b = b", "d/x = x", "e/", "dang => $O/none", "h = h")
		o := b.overlay()
		for _, c := range []struct {
			from, to  string
			overwrite bool
			code      tool.Code
		}{
			{"a", "a", false, tool.NoChange},
			{"a", "./a", true, tool.NoChange},
			{"d", "d/", false, tool.NoChange},
			{"a", "b", false, tool.Exists},
			{"a", "e", true, tool.Exists},
			{"a", "e/", true, tool.NotRegular},
			{"d", "a", true, tool.Exists},
			{"d", "e", true, tool.Exists},
			{"a", "dang", false, tool.Exists},
			{"a", "dang", true, tool.Exists},
			{"d", "d/sub", false, tool.InvalidArguments},
			{"none", "x", false, tool.NotFound},
			{"a", "new/", false, tool.NotRegular},
			{"a", "b/x", false, tool.NotRegular},
			{"a", "", false, tool.InvalidArguments},
			{"a", ".", true, tool.NotRegular},
			{"d", ".", true, tool.Exists},
			{"a", "../O/a", false, tool.OutsideRoot},
			{"a/", "x", false, tool.NotRegular},
			{"a", tempName(), false, tool.InvalidArguments},
		} {
			_, err := o.Rename(t.Context(), c.from, c.to, c.overwrite)
			if tool.CodeOf(err) != c.code {
				t.Errorf("Rename(%q, %q, %v) = %v; want %s", c.from, c.to, c.overwrite, err, c.code)
			}
		}
		if !o.WriteSet().Empty() {
			t.Fatalf("refused moves left %+v", o.WriteSet())
		}
		must(t, second(o.Rename(t.Context(), "a", "b", true)), second(o.Rename(t.Context(), "d", "n/m/", false)), second(o.Rename(t.Context(), "h", "H", false)))
		must(t, b.commit(o))
		if b.read("b") != "a" || b.read("n/m/x") != "x" || b.read("H") != "h" {
			t.Error("the moves are not there")
		}
	})
}

func TestRemoveNeedsRecursive(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/x = x", "e/")
		o := b.overlay()
		for _, p := range []string{"d", "e", "d/"} {
			_, err := o.Remove(t.Context(), p, false)
			wantCode(t, err, tool.InvalidArguments)
		}
		_, err := o.Remove(t.Context(), "none", true)
		wantCode(t, err, tool.NotFound)
		ch, err := o.Remove(t.Context(), "d/", true)
		if err != nil || ch.Removed != 2 {
			t.Errorf("Remove(d/) = %+v, %v", ch, err)
		}
	})
}

func TestDiff(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = a\nb\nc\n", "bin = a\x00b", "gone = x\n", "d/x = 1\n", "latin = caf\xe9\n", "big = "+strings.Repeat("line\n", 300_000), "odd\nname = x\n")
		o := b.overlay()
		must(t, second(o.Edit(t.Context(), "f", []Edit{{Old: "b", New: "B"}})), second(o.Edit(t.Context(), "latin", []Edit{{Old: "caf", New: "CAF"}})))
		write(t, o, "bin", "c\x00d")
		write(t, o, "new", "n\n")
		write(t, o, "big", "small\n")
		write(t, o, "odd\nname", "y\n")
		must(t, second(o.Remove(t.Context(), "gone", false)), second(o.Remove(t.Context(), "d", true)), o.Mkdir(t.Context(), "m"))
		d := o.Diff(0)
		for _, want := range []string{
			"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n", "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
			"binary file bin: now 3 bytes", "large file big: now 6 bytes", "delete directory d\n", "create directory m\n", "-café\n+CAFé\n", `"a/odd\nname"`,
		} {
			if !strings.Contains(d, want) {
				t.Errorf("diff lacks %q:\n%s", want, d)
			}
		}
		if strings.Contains(d, "\nname") {
			t.Error("a name forges a line")
		}
		for max := 1; max < len(d)+10; max += 37 {
			cut := o.Diff(max)
			if len(cut) > max+200 || !strings.HasSuffix(cut, "\n") || len(cut) < len(d) && !strings.Contains(cut, "...") {
				t.Fatalf("Diff(%d) = %d bytes: %q", max, len(cut), cut)
			}
		}
	})
}

func TestDirHandle(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("d/f = text", "d/sub/g = g", "d/out => $O", "d/in => f")
		b.guardOutside()
		h, err := b.w.OpenDir("d")
		must(t, err)
		defer h.Close()
		var names []string
		for {
			part, err := h.Read(1)
			must(t, err)
			if len(part) == 0 {
				break
			}
			for _, e := range part {
				names = append(names, e.Name+" "+string(e.Type))
			}
		}
		slices.Sort(names)
		if want := []string{"f file", "in link", "out link", "sub dir"}; !slices.Equal(names, want) {
			t.Errorf("Read = %q; want %q", names, want)
		}
		f, in, err := h.OpenFile("f")
		must(t, err)
		p, err := io.ReadAll(f)
		f.Close()
		if string(p) != "text" || in.Path != "d/f" || in.Size != 4 || err != nil {
			t.Errorf("OpenFile = %q, %+v, %v", p, in, err)
		}
		sub, err := h.OpenDir("sub")
		must(t, err)
		if sub.Path() != "d/sub" {
			t.Errorf("Path = %q", sub.Path())
		}
		sub.Close()
		for _, n := range []string{"out", "in", "..", ".", "", "sub/g", "../d", "f\x00", "/etc", "none"} {
			if _, err := h.OpenDir(n); err == nil {
				t.Errorf("OpenDir(%q) worked", n)
			}
			if _, _, err := h.OpenFile(n); err == nil {
				t.Errorf("OpenFile(%q) worked", n)
			}
		}
		if in, err := h.Stat("out"); err != nil || in.Type != Link {
			t.Errorf("Stat(out) = %+v, %v", in, err)
		}
		if _, err := b.w.OpenDir("d/out"); tool.CodeOf(err) != tool.NotRegular {
			t.Errorf("OpenDir(d/out) = %v", err)
		}
	})
}

// TestOverlayIsBounded: a call cannot make the host hold more than it can commit.
func TestOverlayIsBounded(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		o := b.overlay()
		deep := strings.Repeat("d/", 2000) + "f"
		_, err := o.Write(t.Context(), deep, nil, false)
		wantCode(t, err, tool.TooLarge)
		wantCode(t, o.Mkdir(t.Context(), deep), tool.TooLarge)
		b.build("f = x")
		_, err = o.Rename(t.Context(), "f", deep, false)
		wantCode(t, err, tool.TooLarge)
		if !o.WriteSet().Empty() {
			t.Errorf("refused calls left %d entries", len(o.WriteSet().Entries))
		}
		for i := 0; ; i++ {
			err := o.Mkdir(t.Context(), fmt.Sprintf("d%d/%s", i, strings.Repeat("d/", 200)))
			if err != nil {
				wantCode(t, err, tool.TooLarge)
				break
			}
			if len(o.ops) > maxNames {
				t.Fatal("no bound")
			}
		}
	})
}

// TestLongNames: deep trees of long names end with a code before they take the
// host's memory. Control: as many short ones are made.
func TestLongNames(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		make := func(name string, n int) (made int, err error) {
			o := b.overlay()
			defer o.Close()
			for ; made < n && err == nil; made++ {
				err = o.Mkdir(t.Context(), fmt.Sprintf("%d/%s", made, strings.Repeat(name+"/", 100)))
			}
			return made, err
		}
		if n, err := make("x", 100); err != nil {
			t.Errorf("control: short names end after %d: %v", n, err)
		}
		n, err := make(strings.Repeat("x", 30), 1000)
		wantCode(t, err, tool.TooLarge)
		if n > 100 {
			t.Errorf("%d trees of long names were made", n)
		}
	})
}

// A write set that is loaded again is the same write set, or the error names what
// changed on the disk.
func TestLoad(t *testing.T) {
	loaded := 0
	for round := range 200 {
		r := rand.New(rand.NewPCG(uint64(round), 11))
		b := newBox(t, Options{NoSync: true})
		b.build("a/b/c = 1", "a/d = 2", "b = 3", "in => b", "c/", "a/l => ../b")
		o := b.overlay()
		for range 1 + r.IntN(8) {
			var known []string
			filepath.WalkDir(b.W, func(p string, _ fs.DirEntry, _ error) error {
				if p != b.W {
					known = append(known, strings.TrimPrefix(p, b.W+"/"))
				}
				return nil
			})
			p, q := randomPath(r, known), randomPath(r, known)
			switch r.IntN(5) {
			case 0, 1:
				o.Write(t.Context(), p, bytes.Repeat([]byte("x"), r.IntN(9)), true)
			case 2:
				o.Remove(t.Context(), p, true)
			case 3:
				o.Rename(t.Context(), p, q, r.IntN(2) == 0)
			case 4:
				o.Mkdir(t.Context(), p)
			}
		}
		ws := o.WriteSet()
		again := b.overlay()
		if err := again.Load(t.Context(), ws); err != nil {
			t.Fatalf("round %d: %v\n%+v", round, err, ws.Entries)
		}
		var want, got []string
		overlayView(t, o, ".", &want)
		overlayView(t, again, ".", &got)
		if !slices.Equal(got, want) || again.WriteSet().Binding() != ws.Binding() || again.Diff(0) != "" {
			t.Fatalf("round %d: loaded it shows\n%q\nwant\n%q", round, got, want)
		}
		if ws.Empty() {
			continue
		}
		loaded++
		// Something that the set is about changed since.
		e := ws.Entries[r.IntN(len(ws.Entries))]
		path := e.Path
		if e.Op == tool.OpMove {
			path = e.From
		}
		if e.Identity == (tool.Identity{}) || e.Mode.IsDir() || e.Mode&fs.ModeSymlink != 0 {
			continue
		}
		if err := os.WriteFile(b.W+"/"+path, []byte("other"), 0o644); err != nil {
			continue // it is below what is moved in the set
		}
		if err := b.overlay().Load(t.Context(), ws); tool.CodeOf(err) != tool.Stale {
			t.Fatalf("round %d: %s changed: %v", round, path, err)
		}
	}
	if loaded < 100 {
		t.Errorf("only %d sets were not empty", loaded)
	}
}
