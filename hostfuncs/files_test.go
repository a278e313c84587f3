package hostfuncs

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/workspace"
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
