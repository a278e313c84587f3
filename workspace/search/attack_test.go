//go:build unix

package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// naiveGrep is what a search without the guards does: it follows links and
// opens whatever has a name. It is the control of the attacks below.
func naiveGrep(dir, needle string, depth int) (hits []string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		full := filepath.Join(dir, e.Name())
		st, err := os.Stat(full)
		switch {
		case err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0:
		case st.IsDir() && depth > 0:
			hits = append(hits, naiveGrep(full, needle, depth-1)...)
		case !st.IsDir():
			if b, _ := os.ReadFile(full); bytes.Contains(b, []byte(needle)) {
				hits = append(hits, full)
			}
		}
	}
	return hits
}

func TestLinksAreNeverFollowed(t *testing.T) {
	base := t.TempDir()
	dir, out := filepath.Join(base, "w"), filepath.Join(base, "o")
	writeTree(t, dir, map[string]string{"a/x": "needle\n"})
	writeTree(t, out, map[string]string{"secret": "needle TOPSECRET\n", "d/secret": "needle TOPSECRET\n", "ignore": "a\n"})
	for _, l := range [][2]string{
		{"../o/secret", "file"}, {"../o", "dir"}, {out, "abs"}, {"..", "up"}, {".", "loop"}, {"../../w", "a/again"}, {"../o/ignore", ".gitignore"}, {"../o/ignore", ".ignore"},
	} {
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	if hits := naiveGrep(dir, "TOPSECRET", 3); len(hits) < 5 {
		t.Fatalf("the control finds %d secrets; the attack is none", len(hits))
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, mode := range []string{"files", "content", "count"} {
		res := run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: mode})
		if res.Total != 1 || strings.Contains(fmt.Sprint(res), "TOPSECRET") {
			t.Errorf("%s: %+v; want a/x alone", mode, res)
		}
	}
	equal(t, "locate", paths(run(t, o, Request{Kind: "locate", Query: "**/secret"})), []string(nil))
	for _, path := range []string{"file", "dir", "dir/secret", "abs/secret", "up/o/secret", "a/again/../../o/secret"} {
		for _, kind := range []string{"grep", "locate"} {
			res, err := Run(context.Background(), o, Request{Kind: kind, Pattern: "needle", Query: "secret", Path: path})
			if err == nil {
				t.Errorf("%s in %s = %+v; want an error", kind, path, res)
			} else if strings.Contains(err.Error(), "TOPSECRET") || strings.Contains(err.Error(), base) {
				t.Errorf("%s in %s tells too much: %v", kind, path, err)
			}
		}
	}
}

func TestSpecialFilesNeverBlock(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"x": "needle\n"})
	for _, name := range []string{"fifo", ".gitignore", ".ignore"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	if res := run(t, o, Request{Kind: "grep", Pattern: "needle"}); res.Total != 1 {
		t.Errorf("grep beside a FIFO = %+v", res)
	}
	if _, err := Run(context.Background(), o, Request{Kind: "grep", Pattern: "needle", Path: "fifo"}); tool.CodeOf(err) != tool.NotRegular {
		t.Errorf("grep of a FIFO = %v; want not_regular", err)
	}
	equal(t, "names", paths(run(t, o, Request{Kind: "locate", Query: "*"})), []string{".gitignore", ".ignore", "fifo", "x"})
}

// TestSwapDuringWalk exchanges a file and a directory with links to the outside
// while searches run. The control shows that the exchange does lead out whoever
// looks at a name and opens it afterwards.
func TestSwapDuringWalk(t *testing.T) {
	base := t.TempDir()
	dir, out := filepath.Join(base, "w"), filepath.Join(base, "o")
	writeTree(t, dir, map[string]string{"d/f": "needle inside\n", "p/q": "needle inside\n"})
	writeTree(t, out, map[string]string{"f": "needle TOPSECRET\n"})
	if err := errors.Join(os.Symlink("../../o/f", filepath.Join(dir, "d/l")), os.Symlink("../o", filepath.Join(dir, "m"))); err != nil {
		t.Fatal(err)
	}
	swap := func(a, b string) {
		a, b = filepath.Join(dir, a), filepath.Join(dir, b)
		c := filepath.Join(base, "spare")
		if os.Rename(a, c) == nil {
			os.Rename(b, a)
			os.Rename(c, b)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				swap("d/f", "d/l")
				swap("d", "m")
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	control := 0
	for range 20_000 {
		full := filepath.Join(dir, "d/f")
		if st, err := os.Lstat(full); err == nil && st.Mode().IsRegular() {
			if b, _ := os.ReadFile(full); bytes.Contains(b, []byte("TOPSECRET")) {
				if control++; control > 3 {
					break
				}
			}
		}
	}
	if control == 0 {
		t.Skip("the exchange never hit between look and open; the attack shows nothing on this machine")
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for i := range 600 {
		res, err := Run(context.Background(), o, Request{Kind: "grep", Pattern: "needle", Mode: "content", Path: []string{"", "d"}[i%2]})
		if strings.Contains(fmt.Sprint(res, err), "TOPSECRET") {
			t.Fatalf("run %d leaked: %+v %v", i, res, err)
		}
	}
}

func TestUnreadableIsCounted(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"ok": "needle", "shut/x": "needle", "file": "needle"})
	for _, n := range []string{"shut", "file"} {
		full := filepath.Join(dir, n)
		if err := os.Chmod(full, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(full, 0o777) })
	}
	if _, err := os.ReadFile(filepath.Join(dir, "file")); err == nil {
		t.Skip("this user may read everything; run as another one to test what is refused")
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "needle"})
	if res.Total != 1 || res.Skipped.Unreadable != 2 {
		t.Errorf("grep = %+v; want one hit and two unreadable", res)
	}
	if res := run(t, o, Request{Kind: "locate", Query: "**/*"}); res.Skipped.Unreadable != 1 || res.Total != 3 {
		t.Errorf("locate = %+v; want three names and one unreadable", res)
	}
	if _, err := Run(context.Background(), o, Request{Kind: "grep", Pattern: "needle", Path: "file"}); tool.CodeOf(err) != tool.Permission {
		t.Errorf("grep of an unreadable file = %v; want permission", err)
	}
}

// TestGuardByIdentity: a secret under a second, harmless name stays secret.
func TestGuardByIdentity(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{".env": "needle=TOPSECRET\n", "x": "needle\n"})
	if err := os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	id := overlayID(t, dir, ".env")
	o := overlay(t, dir, workspace.OverlayOptions{Guard: func(_ workspace.Verb, p string, got tool.Identity) error {
		if p == ".env" || got == id {
			return tool.PathErrorf(tool.Protected, p, "secret")
		}
		return nil
	}})
	res := run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: "content"})
	if res.Total != 1 || res.Skipped.Denied != 2 {
		t.Errorf("grep = %+v; want x alone", res)
	}
	loc := run(t, o, Request{Kind: "locate", Query: "*"})
	if got := paths(loc); !slices.Equal(got, []string{"x"}) || loc.Skipped.Denied != 2 || loc.Total != 1 {
		t.Errorf("locate = %+v; want x alone", loc)
	}
}

func overlayID(t *testing.T, dir, name string) tool.Identity {
	t.Helper()
	in, err := overlay(t, dir, workspace.OverlayOptions{}).Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return in.ID
}

// TestDepthIsBounded: a tree deeper than the limit ends the walk there, and the
// answer says that it is not the whole.
func TestDepthIsBounded(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range maxDepth + 20 {
		if err := root.Mkdir("d", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile("f", []byte("needle"), 0o666); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = next
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "needle"})
	if !res.AtLeast || res.Total != maxDepth+1 {
		t.Errorf("a deep tree = %d files, at_least %v; want %d and true", res.Total, res.AtLeast, maxDepth+1)
	}
}

// TestManyNames: a hundred thousand names in one directory are no trouble.
func TestManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 100,000 files")
	}
	dir := t.TempDir()
	for i := range 100_000 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("f%06d", i)))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "locate", Query: "f0999*"})
	if res.Total != 100 || len(res.Entries) != 50 || res.Entries[0].Name != "f099900" {
		t.Errorf("locate = total %d, %d entries", res.Total, len(res.Entries))
	}
	if res := run(t, o, Request{Kind: "grep", Pattern: "x"}); res.Scanned != 100_000 || res.AtLeast {
		t.Errorf("grep = %+v", res)
	}
}
