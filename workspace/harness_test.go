package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

const topSecret = "TOPSECRET"

// box is a workspace W beside an outside directory O that holds a secret. When
// the test ends, O must be what it was when the test had built its tree.
type box struct {
	t    testing.TB
	w    *Workspace
	W, O string
	opts Options
	real *os.Root // of a race: the directory that is swapped, whatever its name
}

// eachWay runs f with both mechanisms.
func eachWay(t *testing.T, f func(t *testing.T, b *box)) {
	t.Helper()
	for _, no := range []bool{false, true} {
		name := "openat2"
		if no {
			name = "root"
		}
		t.Run(name, func(t *testing.T) { f(t, newBox(t, Options{NoOpenat2: no, NoSync: true})) })
	}
}

func newBox(t testing.TB, opts Options) *box {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, W: base + "/W", O: base + "/O", opts: opts}
	for _, d := range []string{b.W, b.O} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.O+"/secret", []byte(topSecret), 0o644); err != nil {
		t.Fatal(err)
	}
	b.w, err = Open(b.W, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.w.Close() })
	if !opts.NoOpenat2 && isLinux && !b.w.openat2 {
		t.Skipf("openat2 does not work here: %s", b.w.Mechanism())
	}
	return b
}

// build makes entries below W: "d/" a directory, "a => b" a link, "a = text" a
// file. $O in a link stands for the outside directory.
func (b *box) build(entries ...string) {
	b.t.Helper()
	for _, e := range entries {
		var err error
		switch {
		case strings.Contains(e, " => "):
			name, target, _ := strings.Cut(e, " => ")
			os.MkdirAll(filepath.Dir(b.W+"/"+name), 0o755)
			err = os.Symlink(strings.ReplaceAll(strings.ReplaceAll(target, "$O", b.O), "$W", b.W), b.W+"/"+name)
		case strings.HasSuffix(e, "/"):
			err = os.MkdirAll(b.W+"/"+e, 0o755)
		default:
			name, text, _ := strings.Cut(e, " = ")
			os.MkdirAll(filepath.Dir(b.W+"/"+name), 0o755)
			err = os.WriteFile(b.W+"/"+name, []byte(text), 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// guardOutside fails the test if O is not the same at its end.
func (b *box) guardOutside() {
	b.t.Helper()
	before := tree(b.t, b.O)
	b.t.Cleanup(func() {
		if after := tree(b.t, b.O); after != before {
			b.t.Errorf("the outside changed:\n%s\nwas\n%s", after, before)
		}
	})
}

func (b *box) overlay() *Overlay { return b.w.Overlay(OverlayOptions{}) }

func (b *box) commit(o *Overlay) error { return b.w.Commit(b.t.Context(), o.WriteSet()) }

func (b *box) read(name string) string {
	b.t.Helper()
	p, err := os.ReadFile(b.W + "/" + name)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(p)
}

// tree describes everything below a directory: names, types, modes, content.
func tree(t testing.TB, root string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		line := fmt.Sprintf("%q %v", rel, fi.Mode())
		switch {
		case fi.Mode().IsRegular():
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(c))
		case fi.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			line += " -> " + target
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

func readAll(t testing.TB, o *Overlay, path string) (string, error) {
	t.Helper()
	var out []byte
	buf := make([]byte, 512)
	for {
		n, err := o.ReadAt(t.Context(), path, buf, int64(len(out)))
		out = append(out, buf[:n]...)
		if err == io.EOF {
			return string(out), nil
		}
		if err != nil {
			return string(out), err
		}
	}
}

// wantCode fails unless err is a *tool.Error of that code whose text names no
// host path.
func wantCode(t testing.TB, err error, code tool.Code) {
	t.Helper()
	if tool.CodeOf(err) != code {
		t.Errorf("err = %v; want %s", err, code)
		return
	}
	var te *tool.Error
	if !errors.As(err, &te) {
		t.Errorf("%v is no *tool.Error", err)
		return
	}
	if s := te.Text + te.Next; strings.Contains(s, os.TempDir()+"/") {
		t.Errorf("error text %q names a host path", s)
	}
}
