package hostfuncs

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
	"github.com/wasmtools/wasmtools/workspace/search"
)

// TestListMarksIgnored: a listing shows ignored names and says so, also when the
// directory is named through a link.
func TestListMarksIgnored(t *testing.T) {
	w := space(t)
	for name, text := range map[string]string{".gitignore": "*.txt\n", "src/.gitignore": "!notes.txt\n"} {
		if err := os.WriteFile(filepath.Join(w.RealPath(), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("src", filepath.Join(w.RealPath(), "way")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		dir, name string
		want      bool
	}{{".", "top.txt", true}, {".", "src", false}, {"src", "notes.txt", false}, {"way", "notes.txt", false}, {"way", "a.go", false}} {
		page, err := newCall(w, Grant{Read: []string{"**"}}).List(context.Background(), c.dir, workspace.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range page.Entries {
			if e.Name == c.name {
				found = true
				if e.Ignored != c.want {
					t.Errorf("List(%q): %s ignored = %v, want %v", c.dir, e.Name, e.Ignored, c.want)
				}
			}
		}
		if !found {
			t.Errorf("List(%q) = %v, without %s", c.dir, page.Entries, c.name)
		}
	}
}

// TestRefusedNamesAreCountedAlike: what is protected counts as protected, what
// was not granted as denied, whoever looks: a listing, a grep or a locate.
func TestRefusedNamesAreCountedAlike(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	for _, p := range []string{own, filepath.Join(dir, "src")} {
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(dir, workspace.Options{Deny: []string{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, c := range []struct {
		grant             string
		protected, denied int64
	}{{"**", 1, 0}, {"src/**", 1, 1}} {
		call := newCall(w, Grant{Read: []string{c.grant}})
		page, err := call.List(context.Background(), ".", workspace.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]workspace.Skipped{"list": page.Skipped}
		for _, req := range []search.Request{{Kind: "grep", Pattern: "x"}, {Kind: "locate", Query: "*"}} {
			res, err := call.Search(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			got[req.Kind] = res.Skipped
		}
		for how, s := range got {
			if s.Protected != c.protected || s.Denied != c.denied {
				t.Errorf("%s, granted %s: %d protected and %d denied, want %d and %d", how, c.grant, s.Protected, s.Denied, c.protected, c.denied)
			}
		}
	}
}

// TestListShowsNamesThatAreNotText: a name that JSON cannot carry is shown with
// its bytes escaped, marked, and beside a name that looks like the escape.
func TestListShowsNamesThatAreNotText(t *testing.T) {
	w := space(t)
	if err := os.WriteFile(filepath.Join(w.RealPath(), "bad\xff.txt"), nil, 0o644); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(w.RealPath(), `bad\xff.txt`), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := newCall(w, Grant{Read: []string{"**"}}).List(context.Background(), ".", workspace.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	escaped, plain := 0, 0
	for _, e := range page.Entries {
		if e.Path == `bad\xff.txt` && e.Name == e.Path {
			if e.Escaped {
				escaped++
			} else {
				plain++
			}
		}
	}
	if escaped != 1 || plain != 1 {
		t.Errorf("%d escaped and %d plain names in %v; want one of each", escaped, plain, page.Entries)
	}
}
