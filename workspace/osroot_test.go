//go:build linux

package workspace

import (
	"os"
	"syscall"
	"testing"
)

// TestOsRoot writes down what os.Root does and does not stop, because the
// fallback stands on it: a new toolchain that behaves otherwise shows here first.
func TestOsRoot(t *testing.T) {
	b := newBox(t, Options{})
	b.build("f = x", "d/", "l => f", "out => $O", "outfile => $O/secret", "absin => $W/f", "dang => nope", "dangout => $O/new", "m/",
		"c1 => f", "c2 => c1", "c3 => c2", "c4 => c3", "c5 => c4", "c6 => c5", "c7 => c6", "c8 => c7", "c9 => c8")
	if err := os.Link(b.O+"/secret", b.W+"/hard"); err != nil {
		t.Skip(err)
	}
	r, err := os.OpenRoot(b.W)
	must(t, err)
	defer r.Close()
	open := func(name string, flags int) error {
		f, err := r.OpenFile(name, flags|syscall.O_NONBLOCK, 0o644)
		if err == nil {
			f.Close()
		}
		return err
	}
	for _, c := range []struct {
		what  string
		works bool
		err   error
	}{
		{"out/secret", false, open("out/secret", os.O_RDONLY)},
		{"out/", false, open("out/", os.O_RDONLY)},
		{"out/.", false, open("out/.", os.O_RDONLY)},
		{"outfile", false, open("outfile", os.O_RDONLY)},
		{"outfile/", false, open("outfile/", os.O_RDONLY)},
		{"../W/f", false, open("../W/f", os.O_RDONLY)},
		{"/f", false, open("/f", os.O_RDONLY)},
		{"m/../../x", false, open("m/../../x", os.O_RDONLY)},
		{"empty", false, open("", os.O_RDONLY)},
		{"NUL", false, open("f\x00", os.O_RDONLY)},
		{"absolute link that points inside", false, open("absin", os.O_RDONLY)},
		{"inside link", true, open("l", os.O_RDONLY)},
		{"inside link with O_NOFOLLOW: followed all the same", true, open("l", os.O_RDONLY|syscall.O_NOFOLLOW)},
		{"creation through a dangling inside link", true, open("dang", os.O_RDWR|os.O_CREATE)},
		{"the same with O_EXCL", false, open("dang", os.O_RDWR|os.O_CREATE|os.O_EXCL)},
		{"creation through a dangling outside link", false, open("dangout", os.O_RDWR|os.O_CREATE)},
		{"hard link to an outside file, for writing", true, open("hard", os.O_RDWR)},
		{"eight links", true, open("c8", os.O_RDONLY)},
		{"nine links", false, open("c9", os.O_RDONLY)},
		{"making a link that leads out", true, r.Symlink("../O/secret", "made")},
		{"reading it", false, open("made", os.O_RDONLY)},
		{"rename into an outside link", false, r.Rename("f", "out/f")},
		{"RemoveAll of the root", false, r.RemoveAll(".")},
		{"RemoveAll of a link with a slash", true, r.RemoveAll("out/")},
	} {
		if (c.err == nil) != c.works {
			t.Errorf("%s: %v; works = %v was what we knew", c.what, c.err, c.works)
		}
	}
	if _, err := os.Stat(b.O + "/secret"); err != nil {
		t.Error("RemoveAll of a link emptied what it leads to")
	}
	os.WriteFile(b.W+"/g", []byte("g"), 0o644)
	if err := r.Rename("f", "g"); err != nil || b.read("g") != "x" {
		t.Errorf("Rename does not replace: %v", err)
	}
	must(t, os.Rename(b.W, b.W+"2"), os.Symlink(b.O, b.W))
	if p, err := r.ReadFile("g"); string(p) != "x" {
		t.Errorf("after the root was renamed: %q, %v", p, err)
	}
}
