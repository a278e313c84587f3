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

// TestSwapDuringWalk puts a link to the outside in the place of a file, and of a
// directory, after the walk has read its name and before it opens it, and again
// between counting the lines and showing them. The control does the same to a
// search that looks at a name and opens it afterwards.
func TestSwapDuringWalk(t *testing.T) {
	base := t.TempDir()
	out := filepath.Join(base, "o")
	writeTree(t, out, map[string]string{"f": "needle TOPSECRET\n"})
	n := 0
	fresh := func() string {
		n++
		dir := filepath.Join(base, fmt.Sprint("w", n))
		writeTree(t, dir, map[string]string{"d/f": "needle inside\n", "e/f": "needle inside\n", "plain": "needle plain\n"})
		return dir
	}
	swap := func(dir, name, target string) {
		full := filepath.Join(dir, name)
		if err := errors.Join(os.RemoveAll(full), os.Symlink(target, full)); err != nil {
			t.Error(err)
		}
	}
	swaps := func(dir, path string) {
		switch path {
		case "d/f":
			swap(dir, path, filepath.Join(out, "f"))
		case "e":
			swap(dir, path, out)
		}
	}

	dir := fresh()
	leaks := 0
	for _, path := range []string{"d/f", "e/f"} {
		full := filepath.Join(dir, path)
		if st, err := os.Lstat(full); err != nil || !st.Mode().IsRegular() {
			t.Fatal("the control does not begin with a file")
		}
		swaps(dir, path)
		swaps(dir, filepath.Dir(path))
		if b, _ := os.ReadFile(full); bytes.Contains(b, []byte("TOPSECRET")) {
			leaks++
		}
	}
	if leaks != 2 {
		t.Fatalf("the control leaks %d times; want 2", leaks)
	}

	g, err := newGrep(Request{Pattern: "needle", Mode: "content"})
	if err != nil {
		t.Fatal(err)
	}
	g.aim = aimLines
	ctx := context.Background()
	for _, during := range []bool{true, false} {
		dir := fresh()
		tr := newTree(t.Context(), overlay(t, dir, workspace.OverlayOptions{}))
		root, err := tr.root()
		if err != nil {
			t.Fatal(err)
		}
		wk := &walker{ctx: ctx, files: g.files, choose: func(path, _ string, _ bool) choice {
			if during {
				swaps(dir, path)
			}
			return undecided
		}}
		var hits []found
		for _, w := range wk.walk(root, func(w *worker) { w.scan = newScanner(g.pat) }) {
			hits = append(hits, w.found...)
		}
		if want := map[bool]int{true: 1, false: 3}[during]; len(hits) != want {
			t.Errorf("swap during the walk %v: %d files; want %d", during, len(hits), want)
		}
		swaps(dir, "d/f")
		swaps(dir, "e")
		var res Response
		g.answer(ctx, tr, hits, &res)
		equal(t, "lines", show(res.Lines), []string{"plain:1:needle plain"})
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
	writeTree(t, dir, map[string]string{"plan": "needle=TOPSECRET\n", "x": "needle\n"})
	if err := os.Link(filepath.Join(dir, "plan"), filepath.Join(dir, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	id := overlayID(t, dir, "plan")
	o := overlay(t, dir, workspace.OverlayOptions{Guard: func(_ workspace.Verb, p string, got tool.Identity) error {
		if p == "plan" || got == id {
			return tool.PathErrorf(tool.GrantMissing, p, "secret")
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
	if !res.AtLeast || res.Ended != tool.TooLarge || res.Total != maxDepth+1 {
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
