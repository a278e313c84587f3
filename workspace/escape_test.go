package workspace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// verbs are all the ways to touch a path.
var verbs = []struct {
	name string
	do   func(o *Overlay, t testing.TB, path string) (text string, err error)
}{
	{"read", func(o *Overlay, t testing.TB, p string) (string, error) { return readAll(t, o, p) }},
	{"list", func(o *Overlay, t testing.TB, p string) (string, error) {
		page, err := o.List(t.Context(), p, ListOptions{})
		var s strings.Builder
		for _, e := range page.Entries {
			s.WriteString(e.Name + " ")
		}
		return s.String(), err
	}},
	{"write", func(o *Overlay, t testing.TB, p string) (string, error) {
		_, err := o.Write(t.Context(), p, []byte("PWN"), true)
		return "", err
	}},
	{"edit", func(o *Overlay, t testing.TB, p string) (string, error) {
		_, err := o.Edit(t.Context(), p, []Edit{{Old: "S", New: "Z", All: true}})
		return "", err
	}},
	{"remove", func(o *Overlay, t testing.TB, p string) (string, error) {
		_, err := o.Remove(t.Context(), p, true)
		return "", err
	}},
	{"move from", func(o *Overlay, t testing.TB, p string) (string, error) {
		_, err := o.Rename(t.Context(), p, "moved", false)
		return "", err
	}},
	{"move to", func(o *Overlay, t testing.TB, p string) (string, error) {
		_, err := o.Rename(t.Context(), "f", p, true)
		return "", err
	}},
	{"mkdir", func(o *Overlay, t testing.TB, p string) (string, error) {
		return "", o.Mkdir(t.Context(), p)
	}},
	{"stat", func(o *Overlay, t testing.TB, p string) (string, error) {
		in, err := o.Stat(t.Context(), p)
		if err == nil && in.Type == File && in.Size == int64(len(topSecret)) {
			return topSecret, nil
		}
		return in.Target, err
	}},
}

// TestNoEscape tries every verb on every path that leads out. None may read,
// name, make or change anything outside. What a verb does to a link itself (it
// may be removed or moved) is fine.
func TestNoEscape(t *testing.T) {
	paths := []string{
		"../O/secret", "a/../../O/secret", "$O/secret", "$W-evil/secret", "/proc/self/root$O/secret", "/proc/self/cwd/x",
		"file", "file/", "file/.", "rel", "chain", "dir/secret", "dir/../O/secret", "dir", "dir/", "dir/.", "dir/new", "dir/sub/new",
		"dang", "dang2", "dirdang/x", "up/O/secret", "up", "deep/up2/O/secret", "deep/in/secret", "evil/secret", "root$O/secret",
		"loop", "loop/x", "abs2/secret", "dotdot/W/f",
	}
	eachWay(t, func(t *testing.T, b *box) {
		for _, v := range verbs {
			var outside, evil string
			fresh := false
			for _, p := range paths {
				if !fresh {
					b = newBox(t, b.opts)
					os.Mkdir(b.W+"-evil", 0o755)
					os.WriteFile(b.W+"-evil/secret", []byte(topSecret), 0o644)
					b.build("f = inside", "a/", "file => $O/secret", "rel => ../O/secret", "chain => rel", "dir => $O",
						"dang => $O/new", "dang2 => ../O/new2", "dirdang => $O/nodir", "up => ..", "deep/up2 => ../..", "deep/in => ../dir",
						"evil => $W-evil", "root => /", "loop => loop", "abs2 => $O/../O", "dotdot => ../../"+lastTwo(b.W))
					outside, evil = tree(t, b.O), tree(t, b.W+"-evil")
				}
				path := strings.ReplaceAll(strings.ReplaceAll(p, "$O", b.O), "$W", b.W)
				o := b.overlay()
				text, err := v.do(o, t, path)
				if strings.Contains(text, topSecret) || strings.Contains(text, "secret") {
					t.Errorf("%s %s told %q", v.name, p, text)
				}
				if err != nil {
					if s := err.Error(); strings.Contains(strings.ReplaceAll(s, path, ""), b.O) {
						t.Errorf("%s %s: error names the outside: %s", v.name, p, s)
					}
				} else if err := b.commit(o); err != nil {
					t.Errorf("%s %s: commit: %v", v.name, p, err)
				}
				o.Close()
				fresh = o.WriteSet().Empty()
				if tree(t, b.O) != outside || tree(t, b.W+"-evil") != evil {
					t.Errorf("%s %s changed the outside", v.name, p)
				}
			}
		}
	})
}

func lastTwo(p string) string { return p[strings.LastIndex(p[:strings.LastIndex(p, "/")], "/")+1:] }

// TestNoEscapeControl shows that the same links lead out for plain calls.
func TestNoEscapeControl(t *testing.T) {
	b := newBox(t, Options{NoSync: true})
	b.build("file => $O/secret", "dir => $O", "dang => $O/new", "up => ..")
	for _, p := range []string{"file", "dir/secret", "up/O/secret", "../O/secret"} {
		if got, _ := os.ReadFile(b.W + "/" + p); string(got) != topSecret {
			t.Errorf("os.ReadFile(%s) = %q: the link leads nowhere", p, got)
		}
	}
	os.WriteFile(b.W+"/dang", nil, 0o644)
	if _, err := os.Stat(b.O + "/new"); err != nil {
		t.Errorf("a write through the dangling link made nothing: %v", err)
	}
}

// TestInsideLinks is the other half: what stays inside works, under its real
// name, and links stay links.
func TestInsideLinks(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("real.txt = inside", "l => real.txt", "l2 => l", "d/f = deep", "dl => d", "d/up => ../real.txt", "abs => $W/d/f", "self => .", "dang => d/new")
		b.guardOutside()
		o := b.overlay()
		for path, want := range map[string]string{
			"l": "inside", "l2": "inside", "dl/f": "deep", "d/up": "inside", "dl/up": "inside", "abs": "deep", "self/self/d/f": "deep", "./d/../real.txt": "inside",
			b.W + "/l2": "inside",
		} {
			if got, err := readAll(t, o, path); got != want || err != nil {
				t.Errorf("read %s = %q, %v; want %q", path, got, err, want)
			}
		}
		ch, err := o.Write(t.Context(), "l2", []byte("new"), true)
		if err != nil || ch.Path != "real.txt" {
			t.Errorf("write l2 = %+v, %v; want path real.txt", ch, err)
		}
		if _, err := o.Edit(t.Context(), "dl/f", []Edit{{Old: "deep", New: "deeper"}}); err != nil {
			t.Error(err)
		}
		_, err = o.Write(t.Context(), "dang", []byte("x"), false)
		wantCode(t, err, tool.Exists)
		if ch, err := o.Write(t.Context(), "dang", []byte("made"), true); err != nil || ch.Path != "d/new" {
			t.Errorf("write dang = %+v, %v; want path d/new", ch, err)
		}
		if err := b.commit(o); err != nil {
			t.Fatal(err)
		}
		if b.read("real.txt") != "new" || b.read("d/f") != "deeper" || b.read("d/new") != "made" {
			t.Error("a write through a link did not reach its target")
		}
		for _, l := range []string{"l", "l2", "dl", "dang"} {
			if fi, err := os.Lstat(b.W + "/" + l); err != nil || fi.Mode()&os.ModeSymlink == 0 {
				t.Errorf("%s is no link any more", l)
			}
		}

		in, err := b.overlay().Stat(t.Context(), "l2")
		if err != nil || in.Path != "real.txt" || in.Type != File {
			t.Errorf("Stat(l2) = %+v, %v", in, err)
		}
		c, in, err := b.w.Resolve("dl/up")
		if c != "real.txt" || in.ID != id(t, b.W+"/real.txt") || err != nil {
			t.Errorf("Resolve(dl/up) = %q, %+v, %v", c, in, err)
		}
	})
}

// TestLinksThemselves: a link can be told, moved and removed without a look at
// what it leads to.
func TestLinksThemselves(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = x", "out => $O/secret", "outd => $O", "in => f", "dang => nope", "sub/rel => ../f", "sub/deep/esc => ../../f")
		b.guardOutside()
		o := b.overlay()
		page, err := o.List(t.Context(), ".", ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Info{}
		for _, e := range page.Entries {
			got[e.Name] = e
			if strings.Contains(e.Target, "O") {
				t.Errorf("%s tells the outside target %q", e.Name, e.Target)
			}
		}
		if e := got["out"]; e.Type != Link || !e.Outside {
			t.Errorf("out = %+v; want an outside link", e)
		}
		if e := got["in"]; e.Type != Link || e.Outside || e.Target != "f" {
			t.Errorf("in = %+v; want a link to f", e)
		}
		if e := got["dang"]; e.Type != Link || e.Outside || e.Target != "nope" {
			t.Errorf("dang = %+v; want a link to nope", e)
		}
		in, err := o.Stat(t.Context(), "out")
		if err != nil || in.Type != Link || !in.Outside {
			t.Errorf("Stat(out) = %+v, %v; want the link itself", in, err)
		}
		_, err = o.Remove(t.Context(), "outd/", true)
		wantCode(t, err, tool.NotRegular)
		_, err = o.Rename(t.Context(), "f", "dang", true)
		wantCode(t, err, tool.Exists)
		// From the top it would lead out.
		_, err = o.Rename(t.Context(), "sub/deep/esc", "esc", false)
		wantCode(t, err, tool.OutsideRoot)
		for _, step := range []error{
			second(o.Remove(t.Context(), "outd", true)),
			second(o.Remove(t.Context(), "out", false)),
			second(o.Rename(t.Context(), "dang", "sub/dang", false)),
		} {
			if step != nil {
				t.Error(step)
			}
		}
		if err := b.commit(o); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"out": false, "outd": false, "dang": false, "sub/dang": true, "in": true} {
			if _, err := os.Lstat(b.W + "/" + name); errors.Is(err, os.ErrNotExist) == want {
				t.Errorf("Lstat(%s) = %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func id(t testing.TB, path string) tool.Identity {
	t.Helper()
	parent := path[:strings.LastIndex(path, "/")]
	w, err := Open(parent, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	st, err := w.root.lstat(path[len(parent)+1:])
	if err != nil {
		t.Fatal(err)
	}
	return st.id
}

func TestRootIsRefused(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("a/", "f = keep", "self => .", "a/up => ..")
		o := b.overlay()
		for _, p := range []string{"", ".", "./", "/", "a/..", "a/../", b.W, b.W + "/", "self/.", "a/up/.", "a/up/a/.."} {
			if _, err := o.Remove(t.Context(), p, true); err == nil {
				t.Errorf("Remove(%q) worked", p)
			}
			if _, err := o.Rename(t.Context(), p, "x", false); err == nil {
				t.Errorf("Rename(%q, x) worked", p)
			}
			if _, err := o.Rename(t.Context(), "f", p, true); err == nil {
				t.Errorf("Rename(f, %q) worked", p)
			}
			if _, err := o.Write(t.Context(), p, []byte("x"), true); err == nil {
				t.Errorf("Write(%q) worked", p)
			}
			if _, err := o.Edit(t.Context(), p, []Edit{{Old: "a", New: "b"}}); err == nil {
				t.Errorf("Edit(%q) worked", p)
			}
		}
		if !o.WriteSet().Empty() {
			t.Errorf("write set = %+v", o.WriteSet())
		}
		for _, p := range []string{"", ".", "/", "a/..", b.W} {
			if page, err := o.List(t.Context(), p, ListOptions{}); err != nil || page.Total != 3 {
				t.Errorf("List(%q) = %+v, %v; want 3 names", p, page, err)
			}
		}
	})
}

// TestRootRenamed: the handle means the directory, not its name.
func TestRootRenamed(t *testing.T) {
	eachWay(t, func(t *testing.T, b *box) {
		b.build("f = old")
		os.Rename(b.W, b.W+"2")
		if err := os.Symlink(b.O, b.W); err != nil {
			t.Fatal(err)
		}
		b.guardOutside()
		o := b.overlay()
		if got, err := readAll(t, o, "f"); got != "old" || err != nil {
			t.Errorf("read = %q, %v", got, err)
		}
		if _, err := o.Write(t.Context(), "g", []byte("x"), false); err != nil {
			t.Fatal(err)
		}
		if err := b.commit(o); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.W + "2/g"); err != nil {
			t.Error(err)
		}
	})
}
