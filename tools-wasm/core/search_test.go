package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
)

func tree() *guesttest.Host {
	h := guesttest.New()
	h.Put("a.go", "package a\n\nfunc A() {}\n")
	h.Put("d/b.go", "func B() {}\nfunc C() {}\n")
	h.Put("d/c.txt", "nothing\n")
	return h
}

func TestReadDiscoverList(t *testing.T) {
	h := tree()
	h.Files["l"] = &guesttest.File{Type: guest.TypeLink, Target: "d/b.go"}
	h.Files["o"] = &guesttest.File{Type: guest.TypeLink, Outside: true}
	h.Files["p"] = &guesttest.File{Type: guest.TypeOther}
	h.Put("x\n\x1b[31m", "").Ignored = true
	want := ".: 6 names\n" +
		"a.go\tfile\t23\t2026-01-02T03:04:05Z\n" +
		"d/\tdir\t2026-01-02T03:04:05Z\n" +
		"l\tlink -> d/b.go\t1970-01-01T00:00:00Z\n" +
		"o\tlink\t1970-01-01T00:00:00Z\toutside the workspace\n" +
		"p\tother (not a regular file)\t1970-01-01T00:00:00Z\n" +
		`"x\n\x1b[31m"` + "\tfile\t0\t2026-01-02T03:04:05Z\tignored by git\n"
	for _, p := range []string{"", "/", ".", "./"} {
		wantText(t, h.Call("read_discover", args("mode", "list", "path", p)), strings.Replace(want, ".:", map[string]string{"./": "."}[p]+map[bool]string{true: "", false: "."}[p == "./"]+":", 1))
	}
	wantText(t, h.Call("read_discover", args("mode", "list")), want)
	r := h.Call("read_discover", args("mode", "list", "path", "d"))
	wantText(t, r, "d: 2 names\nd/b.go\tfile\t24\t2026-01-02T03:04:05Z\nd/c.txt\tfile\t8\t2026-01-02T03:04:05Z\n")
	var s struct {
		Path      string
		Entries   []map[string]any
		Total     int
		Truncated bool
	}
	if err := json.Unmarshal(r.Structured, &s); err != nil || s.Path != "d" || s.Total != 2 || s.Truncated || s.Entries[0]["path"] != "d/b.go" || s.Entries[0]["size"] != 24.0 {
		t.Errorf("structure %s, %v", r.Structured, err)
	}
}

func TestReadDiscoverPages(t *testing.T) {
	h := guesttest.New()
	for i := range 7 {
		h.Put(fmt.Sprintf("f%d", i), "")
	}
	var got []string
	cursor := ""
	for range 10 {
		a := args("mode", "list", "max_results", 3)
		if cursor != "" {
			a = args("mode", "list", "max_results", 3, "cursor", cursor)
		}
		r := h.Call("read_discover", a)
		var s struct {
			Entries []struct{ Name string }
			Next    string
		}
		json.Unmarshal(r.Structured, &s)
		for _, e := range s.Entries {
			got = append(got, e.Name)
		}
		if s.Next == "" {
			break
		}
		if !strings.Contains(r.Text(), `[more: call again with cursor "`+s.Next+`"]`) || !strings.Contains(r.Text(), "7 names, 3 shown") {
			t.Errorf("the text does not name the next page: %s", r.Text())
		}
		cursor = s.Next
	}
	if fmt.Sprint(got) != "[f0 f1 f2 f3 f4 f5 f6]" {
		t.Errorf("pages give %v", got)
	}
}

func TestReadDiscoverLocate(t *testing.T) {
	h := tree()
	wantText(t, h.Call("read_discover", args("mode", "locate", "query", "*.go")),
		"2 matches\na.go\tfile\t23\t2026-01-02T03:04:05Z\nd/b.go\tfile\t24\t2026-01-02T03:04:05Z\n")
	wantText(t, h.Call("read_discover", args("mode", "locate", "query", "*.go", "root", "d")),
		"1 match\nd/b.go\tfile\t24\t2026-01-02T03:04:05Z\n")
	wantText(t, h.Call("read_discover", args("mode", "locate", "query", "zz")), "nothing is named like zz\n")
	wantText(t, h.Call("read_discover", args("mode", "locate", "query", "*.zz")), "nothing is named like *.zz; **/*.zz looks in every directory\n")
}

func TestReadDiscoverRefuses(t *testing.T) {
	h := tree()
	for _, c := range []struct {
		args string
		code guest.Code
		says string
	}{
		{args("mode", "list", "query", "x"), guest.SchemaInvalid, `$.query: is not an argument of mode "list"`},
		{args("mode", "locate", "query", "x", "path", "d"), guest.SchemaInvalid, `$.path: is not an argument of mode "locate"`},
		{args("mode", "locate"), guest.SchemaInvalid, "$.query: missing"},
		{args("mode", "list", "path", "a.go"), guest.NotRegular, ""},
		{args("mode", "list", "path", "nope"), guest.NotFound, ""},
		{args("mode", "list", "path", "../x"), guest.OutsideRoot, ""},
		{args("mode", "list", "path", "skill:a/b"), guest.InvalidArguments, "read_open"},
	} {
		wantError(t, h.Call("read_discover", c.args), c.code, c.says)
	}
}

func TestGrep(t *testing.T) {
	h := tree()
	for _, c := range []struct{ args, want string }{
		{args("pattern", "func"), "2 files\na.go\nd/b.go\n"},
		{args("pattern", "func", "mode", "files", "limit", 1), "2 files, 1-1 shown\na.go\n[more: call again with \"offset\":1]\n"},
		{args("pattern", "func", "offset", 1), "2 files, 2-2 shown\nd/b.go\n"},
		{args("pattern", "func", "mode", "count"), "3 matches in 2 files\na.go: 1\nd/b.go: 2\n"},
		{args("pattern", "nothing", "mode", "count"), "1 match in 1 file\nd/c.txt: 1\n"},
		{args("pattern", "func", "mode", "content"), "3 matches in 2 files\na.go:3: func A() {}\nd/b.go:1: func B() {}\nd/b.go:2: func C() {}\n"},
		{args("pattern", "func", "mode", "content", "limit", 2), "3 matches in 2 files, from match 1\na.go:3: func A() {}\nd/b.go:1: func B() {}\n[more: call again with \"offset\":2]\n"},
		{args("pattern", "func", "mode", "content", "offset", 2), "3 matches in 2 files, from match 3\nd/b.go:2: func C() {}\n"},
		{args("pattern", "A()", "literal", true, "mode", "content"), "1 match in 1 file\na.go:3: func A() {}\n"},
		{args("pattern", "FUNC a", "ignore_case", true), "1 file\na.go\n"},
		{args("pattern", "--files"), "no match in 3 files\n"},
		{args("pattern", "zzz", "path", "d"), "no match in 2 files below d\n"},
	} {
		wantText(t, h.Call("grep", c.args), c.want)
	}
	wantError(t, h.Call("grep", args("pattern", "foo(")), guest.InvalidArguments, "literal")
	wantError(t, h.Call("grep", args("pattern", "func", "offset", 9)), guest.InvalidArguments, "2 files")
	wantError(t, h.Call("grep", args("pattern", "func", "offset", 9, "mode", "content")), guest.InvalidArguments, "3 matches")
	wantError(t, h.Call("grep", args("pattern", "func", "context", 2)), guest.SchemaInvalid, "$.context")
	for _, n := range []string{"9223372036854775808", "1e300", "18446744073709551616"} {
		for _, key := range []string{"offset", "limit", "context"} {
			wantError(t, h.Call("grep", `{"pattern":"func","mode":"content","`+key+`":`+n+`}`), guest.InvalidArguments, "$."+key, n)
		}
		wantError(t, h.Call("read_discover", `{"mode":"list","max_results":`+n+`}`), guest.InvalidArguments, "$.max_results")
	}
}

// TestGrepRequest checks that every argument reaches the host, and the shape of
// context, gaps, cut lines and what was skipped.
func TestGrepRequest(t *testing.T) {
	h := guesttest.New()
	var got guesttest.Request
	h.Search = func(q guesttest.Request) (guesttest.Response, error) {
		got = q
		return guesttest.Response{
			Lines: []guesttest.Line{
				{Path: "a", Line: 1, Text: "before", Context: true}, {Path: "a", Line: 2, Text: "hit"},
				{Path: "a", Line: 9, Text: "again", Cut: true, Gap: true},
			},
			Total: 6, TotalFiles: 1, AtLeast: true, Scanned: 7,
			Skipped: guesttest.Skipped{Ignored: 3, Binary: 1, TooLarge: 2, Unreadable: 4, OtherFS: 5, Denied: 6, Protected: 7},
		}, nil
	}
	r := h.Call("grep", args("pattern", "p", "path", "d", "glob", "*.go", "mode", "content", "ignore_case", true,
		"literal", true, "multiline", true, "context", 2, "limit", 5, "offset", 4))
	want := guesttest.Request{Kind: "grep", Pattern: "p", Path: "d", Glob: "*.go", Mode: "content", IgnoreCase: true,
		Literal: true, Multiline: true, Context: 2, Limit: 5, Offset: 4}
	if got != want {
		t.Errorf("request %+v, want %+v", got, want)
	}
	wantText(t, r, "at least 6 matches in 1 file, from match 5\na-1- before\na:2: hit\n--\na:9: again [line cut]\n"+
		"[skipped: 3 ignored by git, 1 binary, 2 too large, 4 unreadable, 5 on another file system, 6 denied, 7 protected]\n")
	if d := r.Details(); d["skipped"].(obj)["denied"] != 6.0 || d["at_least"] != true || d["shown"] != 2.0 {
		t.Errorf("details %v", d)
	}
}

// TestGrepOffsetPastTheEnd: the error tells how many there are of what the offset
// counts, which in mode count are files and not matches.
func TestGrepOffsetPastTheEnd(t *testing.T) {
	h := guesttest.New()
	h.Search = func(guesttest.Request) (guesttest.Response, error) {
		return guesttest.Response{Total: 5, TotalFiles: 1, Scanned: 1}, nil
	}
	for mode, says := range map[string]string{"files": "past the end of 5 files", "count": "past the end of 1 file;", "content": "past the end of 5 matches"} {
		r := h.Call("grep", args("pattern", "p", "mode", mode, "offset", 9))
		wantError(t, r, guest.InvalidArguments, says, "use an offset below")
	}
}

// TestGrepSaysWhereItEnded: that nothing was found before a limit ended the
// search is no answer but an error with the way on; what was found comes with it.
func TestGrepSaysWhereItEnded(t *testing.T) {
	h := guesttest.New()
	for _, code := range []guest.Code{guest.Timeout, guest.TooLarge} {
		for _, total := range []int{0, 1} {
			h.Search = func(guesttest.Request) (guesttest.Response, error) {
				r := guesttest.Response{Total: total, AtLeast: true, Ended: string(code), Scanned: 1}
				if total > 0 {
					r.Files = []guesttest.FileHit{{Path: "a"}}
				}
				return r, nil
			}
			r := h.Call("grep", args("pattern", "p", "path", "big"))
			if r.IsError != (total == 0) || total == 0 && r.Meta.Code != string(code) {
				t.Errorf("%d found: error %v, code %q; want %v, %s", total, r.IsError, r.Meta.Code, total == 0, code)
			}
			if d := r.Details(); d["ended"] != string(code) || !strings.Contains(r.Text(), "ended the search") || !strings.Contains(r.Text(), "a nearer path, or a glob") {
				t.Errorf("%d found: %q, details %v", total, r.Text(), d)
			}
		}
	}
}

// TestGrepShowsNothingSilently: a match that has no line to be shown is told.
func TestGrepShowsNothingSilently(t *testing.T) {
	h := guesttest.New()
	h.Search = func(q guesttest.Request) (guesttest.Response, error) {
		return guesttest.Response{Total: 3, TotalFiles: 2, Lines: []guesttest.Line{{Path: "a", Line: 1, Text: "qq", Cut: true, Unseen: true}}}, nil
	}
	wantText(t, h.Call("grep", args("pattern", "q+foo", "mode", "content")), "3 matches in 2 files\n"+
		"a:1: qq [line cut; its match is too long to be placed and may lie beyond this beginning]\n"+
		"[2 matches not shown: the files changed, or could not be read again]\n")
}

// TestGrepSays: binary files and names that are no text are told in every mode.
func TestGrepSays(t *testing.T) {
	h := guesttest.New()
	h.Search = func(q guesttest.Request) (guesttest.Response, error) {
		total := 2
		if q.Mode == "files" {
			total = 1
		}
		return guesttest.Response{Total: total, TotalFiles: 1, Files: []guesttest.FileHit{{Path: `b\xff`, Count: 2, Binary: true, Escaped: true}}}, nil
	}
	for mode, want := range map[string]string{
		"files":   "1 file\nb\\xff (binary) (name is not UTF-8, cannot be opened)\n",
		"count":   "2 matches in 1 file\nb\\xff: 2 (binary) (name is not UTF-8, cannot be opened)\n",
		"content": "2 matches in 1 file\nb\\xff: 2 matches (binary) (name is not UTF-8, cannot be opened)\n",
	} {
		r := h.Call("grep", args("pattern", "x", "mode", mode))
		wantText(t, r, want)
	}
}

// TestGrepPages follows the pages of a search whose lines are long: none is over
// the limit, and together they hold every match once.
func TestGrepPages(t *testing.T) {
	for _, mode := range []string{"content", "files", "count"} {
		h := guesttest.New()
		for i := range 150 {
			h.Put(fmt.Sprintf("dir/%03d/%s.txt", i, strings.Repeat("n", 120)), "x "+strings.Repeat("\"ä", i*3)+"\n")
		}
		offset, got := 0, 0
		for pages := 0; ; pages++ {
			r := h.Call("grep", args("pattern", "x", "mode", mode, "limit", 10000, "offset", offset))
			if r.IsError || pages > 150 {
				t.Fatal(pages, r.Text())
			}
			if n := guest.TextLen(r.Text()); n > grepBytes {
				t.Errorf("%s: a page takes %d bytes in JSON; at most %d are allowed", mode, n, grepBytes)
			}
			for l := range strings.Lines(r.Text()) {
				if strings.HasPrefix(l, "dir/") {
					if !strings.HasPrefix(l, fmt.Sprintf("dir/%03d/", got)) {
						t.Fatalf("%s: match %d is %.20q", mode, got, l)
					}
					got++
				}
			}
			next, ok := r.Details()["next_offset"].(float64)
			if !ok {
				break
			}
			offset = int(next)
		}
		if got != 150 {
			t.Errorf("%s: the pages hold %d matches, want 150", mode, got)
		}
	}
}

// TestGrepOneHugeMatch: a match whose context does not fit is still shown.
func TestGrepOneHugeMatch(t *testing.T) {
	h := guesttest.New()
	h.Search = func(q guesttest.Request) (guesttest.Response, error) {
		var r guesttest.Response
		for i := range 20 {
			r.Lines = append(r.Lines, guesttest.Line{Path: strings.Repeat("p", 100), Line: i + 1, Text: strings.Repeat("€", 2000), Context: i != 10})
		}
		r.Total, r.TotalFiles, r.NextOffset = 2, 1, 1
		return r, nil
	}
	r := h.Call("grep", args("pattern", "x", "mode", "content", "context", 10))
	if n := guest.TextLen(r.Text()); r.IsError || n > grepBytes || !strings.Contains(r.Text(), ":11: €") || !strings.Contains(r.Text(), `"offset":1`) {
		t.Errorf("error %v, %d bytes: %.200s", r.IsError, n, r.Text())
	}
	h.Search = func(q guesttest.Request) (guesttest.Response, error) {
		return guesttest.Response{Total: 1, Lines: []guesttest.Line{{Path: strings.Repeat("\x01", 4000), Line: 1, Text: strings.Repeat("\x01", 2000)}}}, nil
	}
	r = h.Call("grep", args("pattern", "x", "mode", "content"))
	if n := guest.TextLen(r.Text()); r.IsError || n > grepBytes {
		t.Errorf("error %v, %d bytes", r.IsError, n)
	}
}

func TestStamp(t *testing.T) {
	for _, ms := range []int64{0, 1, -1, 951782400000, 1709164800000, 1767323045999, 253402300799000, -62135596800000, 4102444800000} {
		if got, want := stamp(ms), time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05Z"); got != want {
			t.Errorf("stamp(%d) = %s, want %s", ms, got, want)
		}
	}
	for day := int64(0); day < 200000; day += 13 {
		if got, want := stamp(day*86400000), time.Unix(day*86400, 0).UTC().Format("2006-01-02T15:04:05Z"); got != want {
			t.Fatalf("stamp of day %d = %s, want %s", day, got, want)
		}
	}
}
