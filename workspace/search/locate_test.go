package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

func TestLocateGlobs(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"top.go": "", "A.GO": "", "a/x.go": "", "a/b/y.go": "", "a/b/z.ts": "", ".env.example": "", ".github/w.yml": "", "dist/o.js": "", "dist/d/p.js": "",
		".gitignore": "dist\n*.log\n", "q.log": "", "n1": "", "n2": "", "n3": "", ".git/config": "",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, c := range []struct {
		query, path string
		want        []string
	}{
		{"*.go", "", []string{"top.go"}},
		{"**/*.go", "", []string{"a/b/y.go", "a/x.go", "top.go"}},
		{"a/*.go", "", []string{"a/x.go"}},
		{"a/**", "", []string{"a", "a/b", "a/b/y.go", "a/b/z.ts", "a/x.go"}},
		{"*", "a", []string{"a/b", "a/x.go"}},
		{"*.go", "a", []string{"a/x.go"}},
		{"a/b/*.go", "a", []string{"a/b/y.go"}},
		{"b/*.{go,ts}", "a", []string{"a/b/y.go", "a/b/z.ts"}},
		{"{a,dist}/**/*.go", "", []string{"a/b/y.go", "a/x.go"}},
		{".env*", "", []string{".env.example"}},
		{"**/*.yml", "", []string{".github/w.yml"}},
		{"n?", "", []string{"n1", "n2", "n3"}},
		{"n[!2]", "", []string{"n1", "n3"}},
		{"*.log", "", nil},
		{"**/*.js", "", nil},
		{"dist/**/*.js", "", []string{"dist/d/p.js", "dist/o.js"}},
		{"dist/*", "", []string{"dist/d", "dist/o.js"}},
		{"nowhere/*", "", nil},
		{"top.go/*", "", nil},
		{".git/*", "", []string{".git/config"}},
		{"**/config", "", nil},
	} {
		got := paths(run(t, o, Request{Kind: "locate", Query: c.query, Path: c.path}))
		want := c.want
		if c.query == "a/**" { // the walk begins in a, which is no answer to what is in it
			want = c.want[1:]
		}
		if !slices.Equal(got, want) {
			t.Errorf("locate %q in %q gives %q; want %q", c.query, c.path, got, want)
		}
	}
	if n := run(t, o, Request{Kind: "locate", Query: "*.log"}).Skipped.Ignored; n != 2 {
		t.Errorf("ignored = %d; want q.log and dist", n)
	}
}

func TestLocateNames(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"read.go": "", "x/read.go": "", "x/README.md": "", "x/reader/r.go": "", "x/thread.go": "", "a/r/e/a/d/deep.txt": "", "regexpadder.go": "", "zzz": "",
		"dist/bundle.js": "", ".gitignore": "dist\n", "my file.txt": "",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	locate := func(q, path string) []string { return paths(run(t, o, Request{Kind: "locate", Query: q, Path: path})) }
	equal(t, "read.go", locate("read.go", ""), []string{"read.go", "x/read.go", "x/thread.go", "regexpadder.go", "x/reader/r.go"})
	equal(t, "read", locate("read", ""), []string{"x/reader", "read.go", "x/read.go", "x/README.md", "x/thread.go", "x/reader/r.go", "regexpadder.go", "a/r/e/a/d", "a/r/e/a/d/deep.txt"})
	equal(t, "x/read", locate("x/read", ""), []string{"x/reader", "x/read.go", "x/README.md", "x/reader/r.go", "x/thread.go"})
	equal(t, "r.go in x", locate("r.go", "x"), []string{"x/reader/r.go", "x/read.go", "x/thread.go"})
	equal(t, "README", locate("readme.MD", ""), []string{"x/README.md"})
	equal(t, "with a space", locate("my file", ""), []string{"my file.txt"})
	equal(t, "nothing", locate("qqqq", ""), []string(nil))

	res := run(t, o, Request{Kind: "locate", Query: "dist/bundle.js"})
	if len(res.Entries) != 1 || res.Entries[0].Path != "dist/bundle.js" || !res.Entries[0].Ignored {
		t.Errorf("an ignored file named in full = %+v; want it, marked", res)
	}
}

func TestLocatePages(t *testing.T) {
	dir := t.TempDir()
	for i := range 230 {
		writeTree(t, dir, map[string]string{fmt.Sprintf("d%d/file%03d.txt", i%7, i): ""})
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, query := range []string{"**/*.txt", "file", "fl1"} {
		all := paths(run(t, o, Request{Kind: "locate", Query: query, MaxResults: maxResults}))
		var got []string
		req := Request{Kind: "locate", Query: query, MaxResults: 17}
		for pages := 0; ; pages++ {
			res := run(t, o, req)
			got = append(got, paths(res)...)
			if res.Total != len(all) {
				t.Fatalf("%s: total %d; want %d", query, res.Total, len(all))
			}
			if req.Cursor = res.Next; req.Cursor == "" {
				break
			}
			if pages > 20 {
				t.Fatal("pages without end")
			}
		}
		if len(all) < 20 || !slices.Equal(got, all) {
			t.Errorf("%s: pages give %d names, one page %d", query, len(got), len(all))
		}
	}
	next := run(t, o, Request{Kind: "locate", Query: "file", MaxResults: 1}).Next
	for _, req := range []Request{
		{Query: "file", Cursor: "abc"}, {Query: "file", Cursor: "MCAwIDAgMCAwIGE"},
		{Query: "fl1", Cursor: next}, {Query: "file", Path: "d1", Cursor: next},
	} {
		req.Kind = "locate"
		if res, err := Run(t.Context(), o, req); tool.CodeOf(err) != tool.InvalidArguments || !strings.HasPrefix(tool.AsError(err).Next, "start again without cursor") {
			t.Errorf("locate %q below %q with the cursor %q = %d names, %v; want an error about the cursor", req.Query, req.Path, req.Cursor, len(res.Entries), err)
		}
	}
	if n := len(run(t, o, Request{Kind: "locate", Query: "**/*.txt"}).Entries); n != defaultResults {
		t.Errorf("default page = %d; want %d", n, defaultResults)
	}
}

// TestLocatePrunes compares the pruned walk with matching every path.
func TestLocatePrunes(t *testing.T) {
	dir := t.TempDir()
	var all []string
	for _, a := range []string{"a", "b", "ab"} {
		for _, b := range []string{"a", "b", "ab"} {
			for _, c := range []string{"a.go", "b.ts"} {
				writeTree(t, dir, map[string]string{a + "/" + b + "/" + c: ""})
				all = append(all, a, a+"/"+b, a+"/"+b+"/"+c)
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, glob := range []string{"*", "*/*", "*/*/*", "a*/**", "**/a*", "*/b/*.go", "**/b/**", "{a,b}/*", "{a/b,b/a}/*", "[ab]/a*/?.??", "**", "*b/**/*.{go,ts}", "?/?/a.go", "*/{a,b}*/*", "**/*/**/a.go"} {
		var want []string
		for _, p := range all {
			if ok, _ := doublestar.Match(glob, p); ok {
				want = append(want, p)
			}
		}
		got := paths(run(t, o, Request{Kind: "locate", Query: glob}))
		if !slices.Equal(got, want) {
			t.Errorf("%s gives %q; want %q", glob, got, want)
		}
	}
}

func TestLocateTellsLinks(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a/x": "", "out/secret": ""})
	for _, l := range [][2]string{{"..", "a/up"}, {".", "a/self"}, {"x", "a/in"}, {"/etc", "a/etc"}, {"gone", "a/dangling"}} {
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "locate", Query: "a/*"})
	equal(t, "names", paths(res), []string{"a/dangling", "a/etc", "a/in", "a/self", "a/up", "a/x"})
	for _, e := range res.Entries {
		want := workspace.Link
		if e.Name == "x" {
			want = workspace.File
		}
		if e.Type != want || e.Outside != (e.Name == "etc") || e.Name == "in" && e.Target != "a/x" {
			t.Errorf("entry %+v", e)
		}
	}
	equal(t, "all", paths(run(t, o, Request{Kind: "locate", Query: "**/x"})), []string{"a/x"})
}

func TestMarkIgnored(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{".gitignore": "*.log\nbuild/\n", "a.log": "", "a.txt": "", "build/x/y.txt": "", "s/.gitignore": "!keep.log\n/only\n", "s/keep.log": "", "s/b.log": "", "s/only": "", "s/t/only": ""})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for dir, want := range map[string][]string{".": {"a.log", "build"}, "s": {"b.log", "only"}, "s/t": nil, "build": {"x"}, "build/x": {"y.txt"}} {
		page, err := o.List(context.Background(), dir, workspace.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		MarkIgnored(o, dir, page.Entries)
		var got []string
		for _, e := range page.Entries {
			if e.Ignored {
				got = append(got, e.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ignored in %s = %q; want %q", dir, got, want)
		}
	}
}

// TestScopesAsGit compares ignore files at several levels with git.
func TestScopesAsGit(t *testing.T) {
	git := needTool(t, "git")
	files := map[string]string{
		".gitignore":       "*.log\n!important.log\n/root.txt\nbuild/\n**/cache/**\n",
		"sub/.gitignore":   "!debug.log\nroot.txt\n/x/*.o\n!/x/keep.o\n",
		"sub/x/.gitignore": "*\n!*.c\n",
		"deep/.gitignore":  "*\n!a/\n!a/*.go\n",
	}
	var all []string
	for _, d := range []string{"", "sub/", "sub/x/", "deep/", "deep/a/", "build/", "sub/build/", "cache/", "sub/cache/q/"} {
		for _, n := range []string{"a.log", "important.log", "debug.log", "root.txt", "m.o", "keep.o", "m.c", "m.go", "plain"} {
			all = append(all, d+n)
		}
	}
	ignored := gitIgnored(t, git, files, all)
	var want []string
	for _, p := range all {
		if !ignored[p] {
			want = append(want, p)
		}
	}
	dir := t.TempDir()
	tree := map[string]string{}
	for _, p := range all {
		tree[p] = "needle"
	}
	writeTree(t, dir, tree)
	writeTree(t, dir, files)
	o := overlay(t, dir, workspace.OverlayOptions{})
	got := paths(run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: "count"}))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("grep searches\n%q; git ignores all but\n%q", got, want)
	}
}

// TestGlobsThatClimb: .. in a glob is refused by the argument's name; what names
// nothing in it is left out, and a directory that cannot be is one without names.
func TestGlobsThatClimb(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"d/a.go": "needle\n"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, glob := range []string{"../*", "d/../*", "..//*.go", "/../*", "d/../a.go"} {
		for _, req := range []Request{{Kind: "locate", Query: glob}, {Kind: "grep", Pattern: "needle", Glob: glob}} {
			_, err := Run(context.Background(), o, req)
			if name := map[string]string{"locate": "query", "grep": "glob"}[req.Kind]; tool.CodeOf(err) != tool.InvalidArguments || !strings.Contains(err.Error(), name+" holds") {
				t.Errorf("%s %s: %v; want invalid_arguments that names %s", req.Kind, glob, err, name)
			}
		}
	}
	for _, glob := range []string{"d//*.go", "./d/./*.go", "d/./a.g?", "/d/*.go", ".//**/*.go"} {
		for _, req := range []Request{{Kind: "locate", Query: glob}, {Kind: "grep", Pattern: "needle", Glob: glob}} {
			if res := run(t, o, req); res.Total != 1 {
				t.Errorf("%s %s finds %d; want 1", req.Kind, glob, res.Total)
			}
		}
	}
	for _, glob := range []string{strings.Repeat("n", 300) + "/*", "a\x00b/*", "d/a.go/*"} {
		if res := run(t, o, Request{Kind: "locate", Query: glob}); res.Total != 0 {
			t.Errorf("locate %.10q finds %d", glob, res.Total)
		}
	}
}
