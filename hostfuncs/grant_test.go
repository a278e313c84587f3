package hostfuncs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// space is a workspace with files inside and outside of what is granted.
func space(t *testing.T) *workspace.Workspace {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"src/a.go": "package a // needle\n", "src/deep/b.go": "package b // needle\n",
		"src/notes.txt": "needle\n", "secret/key": "needle\n", "top.txt": "needle\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func newCall(w *workspace.Workspace, g Grant) *Call {
	return &Call{Grant: g, Files: NewOverlay(w, g, nil, nil)}
}

// TestGrantHolds tries every file function on a name that is not granted. The
// control runs the same call with everything granted, and has to get further.
func TestGrantHolds(t *testing.T) {
	ctx := context.Background()
	granted := Grant{Read: []string{"src/**/*.go"}, Write: []string{"src/*.go"}}
	everything := Grant{Read: []string{"**"}, Write: []string{"**"}}
	for _, c := range []struct {
		name string
		call func(*Call) error
	}{
		{"Stat", func(c *Call) error { _, err := c.Stat(ctx, "secret/key"); return err }},
		{"Stat of a folder", func(c *Call) error { _, err := c.Stat(ctx, "secret"); return err }},
		{"List", func(c *Call) error { _, err := c.List(ctx, "secret", workspace.ListOptions{}); return err }},
		{"ReadAt", func(c *Call) error { _, err := c.ReadAt(ctx, "secret/key", make([]byte, 9), 0); return err }},
		{"ReadAt of another kind", func(c *Call) error { _, err := c.ReadAt(ctx, "src/notes.txt", make([]byte, 9), 0); return err }},
		{"ReadAt by a way round", func(c *Call) error { _, err := c.ReadAt(ctx, "src/../secret/key", make([]byte, 9), 0); return err }},
		{"ReadText", func(c *Call) error { _, err := c.ReadText(ctx, "secret/key", ""); return err }},
		{"ReadText in an encoding", func(c *Call) error { _, err := c.ReadText(ctx, "src/notes.txt", "latin1"); return err }},
		{"WriteText", func(c *Call) error { _, err := c.WriteText(ctx, "secret/new", "x", "", false); return err }},
		{"WriteText below the granted folder", func(c *Call) error { _, err := c.WriteText(ctx, "src/deep/b.go", "x", "utf-16", true); return err }},
		{"EditText", func(c *Call) error {
			_, err := c.EditText(ctx, "src/deep/b.go", []workspace.Edit{{Old: "needle", New: "x"}}, "latin1")
			return err
		}},
		{"Write", func(c *Call) error { _, err := c.Write(ctx, "secret/new", []byte("x"), false); return err }},
		{"Write below the granted folder", func(c *Call) error { _, err := c.Write(ctx, "src/deep/b.go", []byte("x"), true); return err }},
		{"Edit", func(c *Call) error {
			_, err := c.Edit(ctx, "src/deep/b.go", []workspace.Edit{{Old: "needle", New: "x"}})
			return err
		}},
		{"Remove", func(c *Call) error { _, err := c.Remove(ctx, "secret/key", false); return err }},
		{"Remove of a tree", func(c *Call) error { _, err := c.Remove(ctx, "src", true); return err }},
		{"Rename from", func(c *Call) error { _, err := c.Rename(ctx, "secret/key", "src/k.go", false); return err }},
		{"Rename to", func(c *Call) error { _, err := c.Rename(ctx, "src/a.go", "secret/a.go", false); return err }},
		{"Mkdir", func(c *Call) error { return c.Mkdir(ctx, "secret/more") }},
		{"Search in a file", func(c *Call) error {
			_, err := c.Search(ctx, search.Request{Kind: "grep", Pattern: "needle", Path: "secret/key"})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := space(t)
			if err := c.call(newCall(w, everything)); err != nil {
				t.Fatalf("with everything granted = %v; want nil, or the case proves nothing", err)
			}
			if err := c.call(newCall(w, granted)); tool.CodeOf(err) != tool.GrantMissing {
				t.Errorf("with %v = %v; want grant_missing", granted, err)
			}
			if err := c.call(newCall(w, Grant{})); tool.CodeOf(err) != tool.GrantMissing {
				t.Errorf("with no grant = %v; want grant_missing", err)
			}
		})
	}
}

// TestGrantAllows runs what is granted.
func TestGrantAllows(t *testing.T) {
	ctx := context.Background()
	c := newCall(space(t), Grant{Read: []string{"src/**/*.go"}, Write: []string{"src/*.go"}})
	buf := make([]byte, 9)
	if n, err := c.ReadAt(ctx, "src/deep/b.go", buf, 0); err != nil || string(buf[:n]) != "package b" {
		t.Errorf("ReadAt = %q, %v", buf[:n], err)
	}
	if c.Used().BytesRead != 9 {
		t.Errorf("BytesRead = %d, want 9", c.Used().BytesRead)
	}
	if n, err := c.ReadAt(ctx, "src/a.go", buf, 1000); n != 0 || err != nil {
		t.Errorf("ReadAt past the end = %d, %v; want 0, nil", n, err)
	}
	if _, err := c.ReadAt(ctx, "src/a.go", buf, -1); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("ReadAt(-1) = %v; want invalid_arguments", err)
	}
	if _, err := c.Edit(ctx, "src/a.go", []workspace.Edit{{Old: "needle", New: "thread"}}); err != nil {
		t.Errorf("Edit = %v", err)
	}
	if d, err := c.Diff(1 << 10); err != nil || d == "" {
		t.Errorf("Diff = %q, %v", d, err)
	}
	if n := len(c.Files.WriteSet().Entries); n != 1 {
		t.Errorf("%d entries in the write set, want 1", n)
	}
	if err := c.Discard(); err != nil || !c.Files.WriteSet().Empty() {
		t.Errorf("Discard = %v, and the write set is not empty", err)
	}
}

// TestListHidesWhatIsNotGranted lists folders that lead to granted files.
func TestListHidesWhatIsNotGranted(t *testing.T) {
	c := newCall(space(t), Grant{Read: []string{"src/**/*.go"}})
	names := func(path string) (out []string, denied int64) {
		p, err := c.List(context.Background(), path, workspace.ListOptions{})
		if err != nil {
			t.Fatalf("List(%q) = %v", path, err)
		}
		for _, e := range p.Entries {
			out = append(out, e.Path)
		}
		return out, p.Skipped.Denied
	}
	if got, denied := names("."); len(got) != 1 || got[0] != "src" || denied != 2 {
		t.Errorf("List(.) = %q, %d denied; want src, 2 denied", got, denied)
	}
	// notes.txt could be a folder that holds Go files, as far as the glob tells.
	if got, _ := names("src"); len(got) != 3 {
		t.Errorf("List(src) = %q", got)
	}
}

func TestSearchSeesOnlyWhatIsGranted(t *testing.T) {
	for _, c := range []struct {
		grant Grant
		want  int
	}{
		{Grant{Read: []string{"**"}}, 5},
		{Grant{Read: []string{"src/**/*.go"}}, 2},
		{Grant{Read: []string{"top.txt"}}, 1},
		{Grant{Write: []string{"**"}}, 0},
	} {
		r, err := newCall(space(t), c.grant).Search(context.Background(), search.Request{Kind: "grep", Pattern: "needle"})
		if err != nil || len(r.Files) != c.want {
			t.Errorf("with %v: %d files, %v; want %d", c.grant, len(r.Files), err, c.want)
		}
	}
}

func TestReadOnlyGrantWritesNothing(t *testing.T) {
	c := newCall(space(t), Grant{Read: []string{"**"}})
	if _, err := c.Write(context.Background(), "new", nil, false); err == nil {
		t.Error("Write with fs.read alone = nil")
	}
	if !c.Files.WriteSet().Empty() {
		t.Error("the write set is not empty")
	}
}

func TestGuard(t *testing.T) {
	for _, c := range []struct {
		grant Grant
		verb  workspace.Verb
		path  string
		want  bool
	}{
		{Grant{Read: []string{"**"}}, workspace.VerbRead, "a/b", true},
		{Grant{Read: []string{"**"}}, workspace.VerbWrite, "a/b", false},
		{Grant{Read: []string{"a/*"}}, workspace.VerbRead, "a/b", true},
		{Grant{Read: []string{"a/*"}}, workspace.VerbRead, "a/b/c", false},
		{Grant{Read: []string{"a/*"}}, workspace.VerbRead, "ab/c", false},
		{Grant{Read: []string{"a/*"}}, workspace.VerbList, "a", true},
		{Grant{Read: []string{"a/*"}}, workspace.VerbList, ".", true},
		{Grant{Read: []string{"a/*"}}, workspace.VerbList, "b", false},
		{Grant{Read: []string{"a/*"}}, workspace.VerbList, "a/b/c", false},
		{Grant{Read: []string{"a/**/x.go"}}, workspace.VerbList, "a/b/c", true},
		{Grant{Read: []string{"a/**/x.go"}}, workspace.VerbRead, "a/x.go", true},
		{Grant{Read: []string{"{a,b}/c"}}, workspace.VerbRead, "b/c", true},
		{Grant{Read: []string{"{a,b}/c"}}, workspace.VerbStat, "b", true},
		{Grant{Write: []string{"out/**"}}, workspace.VerbStat, "out/x", true},
		{Grant{Write: []string{"out/**"}}, workspace.VerbRead, "out/x", false},
		{Grant{Write: []string{"out/**"}}, workspace.VerbDelete, "out/x", true},
		{Grant{Write: []string{"out/**"}}, workspace.VerbDelete, "in/x", false},
		{Grant{Read: []string{"/**", "../**", "a/../../x", "["}}, workspace.VerbRead, "x", false},
		{Grant{Read: []string{"a"}}, workspace.Verb(99), "a", false}, // a verb that is added later
		{Grant{}, workspace.VerbStat, ".", false},
	} {
		err := Guard(c.grant)(c.verb, c.path, tool.Identity{})
		if (err == nil) != c.want {
			t.Errorf("Guard(%v)(%d, %q) = %v; want allowed: %v", c.grant, c.verb, c.path, err, c.want)
		}
		var te *tool.Error
		if err != nil && (!errors.As(err, &te) || te.Code != tool.GrantMissing || te.Path != c.path) {
			t.Errorf("Guard(%v)(%d, %q) = %#v; want grant_missing about the path", c.grant, c.verb, c.path, err)
		}
	}
}

// FuzzGuard compares the quick test for folders that lead somewhere with a slow
// one: a folder leads somewhere if a path that is matched begins with it.
func FuzzGuard(f *testing.F) {
	f.Add("a/**/b", "a/x/b")
	f.Add("{a,b}/*.go", "b/x.go")
	f.Add("*/[a-c]/**", "q/b/z/z")
	f.Fuzz(func(t *testing.T, glob, path string) {
		guard := Guard(Grant{Read: []string{glob}})
		if guard(workspace.VerbRead, path, tool.Identity{}) != nil {
			return
		}
		for i := range path {
			if path[i] == '/' && i > 0 {
				if err := guard(workspace.VerbList, path[:i], tool.Identity{}); err != nil {
					t.Errorf("%q matches %q, but %q cannot be listed: %v", glob, path, path[:i], err)
				}
			}
		}
	})
}
