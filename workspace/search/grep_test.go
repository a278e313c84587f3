package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

func run(t testing.TB, o *workspace.Overlay, req Request) Response {
	t.Helper()
	res, err := Run(context.Background(), o, req)
	if err != nil {
		t.Fatalf("Run(%+v): %v", req, err)
	}
	return res
}

func paths(res Response) []string {
	var out []string
	for _, f := range res.Files {
		out = append(out, f.Path)
	}
	for _, e := range res.Entries {
		out = append(out, e.Path)
	}
	return out
}

func show(lines []Line) []string {
	var out []string
	for _, l := range lines {
		sep := ":"
		if l.Context {
			sep = "-"
		}
		gap := ""
		if l.Gap {
			gap = "-- "
		}
		out = append(out, fmt.Sprintf("%s%s%s%d%s%s", gap, l.Path, sep, l.Line, sep, l.Text))
	}
	return out
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !bytes.Equal(a, b) {
		t.Errorf("%s = %s; want %s", what, a, b)
	}
}

func TestGrepFilesNewestFirst(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"old": "x", "new": "x", "b": "x", "a": "x", "other": "y"})
	at := time.Unix(1_700_000_000, 0)
	for name, age := range map[string]time.Duration{"old": 9, "b": 5, "a": 5, "new": 1} {
		if err := os.Chtimes(filepath.Join(dir, name), at, at.Add(-age*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "x"})
	equal(t, "files", paths(res), []string{"new", "a", "b", "old"})
	if res.Total != 4 || res.TotalFiles != 4 || res.NextOffset != 0 || res.AtLeast || res.Scanned != 5 {
		t.Errorf("res = %+v", res)
	}
	res = run(t, o, Request{Kind: "grep", Pattern: "x", Limit: 2})
	equal(t, "page 1", paths(res), []string{"new", "a"})
	if res.NextOffset != 2 || res.Total != 4 {
		t.Errorf("page 1 = %+v", res)
	}
	equal(t, "page 2", paths(run(t, o, Request{Kind: "grep", Pattern: "x", Limit: 2, Offset: 2})), []string{"b", "old"})
	equal(t, "past the end", run(t, o, Request{Kind: "grep", Pattern: "x", Offset: 99}).Files, []FileHit(nil))
}

func TestGrepCountsMatchesNotLines(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "xx x\nx\n", "b": "no\n", "c": "x"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "x", Mode: "count"})
	if len(res.Files) != 2 || res.Files[0].Count != 4 || res.Files[1].Count != 1 || res.Total != 5 || res.TotalFiles != 2 {
		t.Errorf("count = %+v", res)
	}
	res = run(t, o, Request{Kind: "grep", Pattern: "x|n", Mode: "count", Path: "a"})
	if res.Total != 4 {
		t.Errorf("count in a = %+v", res)
	}
}

func TestGrepContentPagesAreDisjoint(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a": "1\nhit a2\n3\n4\n5\n6\nhit a7\nhit a8\n9\n",
		"b": "hit b1\n2\n3\n4\nhit b5",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	req := Request{Kind: "grep", Pattern: "hit", Mode: "content", Context: 1}
	whole := run(t, o, req)
	equal(t, "content", show(whole.Lines), []string{
		"a-1-1", "a:2:hit a2", "a-3-3", "-- a-6-6", "a:7:hit a7", "a:8:hit a8", "a-9-9",
		"b:1:hit b1", "b-2-2", "-- b-4-4", "b:5:hit b5",
	})
	if whole.Total != 5 || whole.TotalFiles != 2 {
		t.Errorf("totals = %+v", whole)
	}
	for limit := 1; limit <= 5; limit++ {
		var all []Line
		req.Limit, req.Offset = limit, 0
		for pages := 0; ; pages++ {
			res := run(t, o, req)
			all = append(all, res.Lines...)
			if res.Total != 5 {
				t.Errorf("limit %d: total %d", limit, res.Total)
			}
			if res.NextOffset == 0 {
				break
			}
			if req.Offset = res.NextOffset; pages > 5 {
				t.Fatal("pages without end")
			}
		}
		for i := range all {
			all[i].Gap = whole.Lines[min(i, len(whole.Lines)-1)].Gap // a page's first line has none before it
		}
		equal(t, fmt.Sprintf("pages of %d", limit), all, whole.Lines)
	}
}

func TestGrepLineNumbers(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"ff":   "l1\n\fx\u2028y\vz\u0085\nl3\nneedle\n",
		"crlf": "1\r\n2\r\nneedle\r\n",
		"cr":   "1\r2\rneedle\r4",
		"both": "1\r2\r3\nneedle\n",
		"big":  strings.Repeat("x\r", 3<<20) + "needle\rend",
		"big2": strings.Repeat("x\r", 3<<20) + "needle\n",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "^needle$", Mode: "content"})
	equal(t, "lines", show(res.Lines), []string{"big:3145729:needle", "both:2:needle", "cr:3:needle", "crlf:3:needle", "ff:4:needle"})
}

func TestGrepLongLines(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a.js":   strings.Repeat("x", 100_000) + "needle" + strings.Repeat("é", 100_000) + "\nshort needle\n",
		"bad":    "\xfe" + strings.Repeat("\xfe", 3000) + "needle\n",
		"ends":   "needle" + strings.Repeat("x", 2500) + "\n",
		"border": strings.Repeat("x", maxLineRunes-6) + "needle\n",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, p := range []string{"needle", "n[e]{2}dle", "(?i)NEEDLE"} {
		res := run(t, o, Request{Kind: "grep", Pattern: p, Mode: "content"})
		if len(res.Lines) != 5 {
			t.Fatalf("%q: %d lines; want 5", p, len(res.Lines))
		}
		for _, l := range res.Lines {
			n := utf8.RuneCountInString(l.Text)
			if !strings.Contains(l.Text, "needle") || !utf8.ValidString(l.Text) || n > maxLineRunes {
				t.Errorf("%q: %s:%d shows %d runes of %.40q...", p, l.Path, l.Line, n, l.Text)
			}
			if long := l.Path != "border" && !strings.HasPrefix(l.Text, "short"); l.Cut != long || long && n != maxLineRunes {
				t.Errorf("%q: %s:%d: cut %v, %d runes", p, l.Path, l.Line, l.Cut, n)
			}
		}
	}
}

// endless is a line of n bytes with a needle at one place, that nobody holds.
type endless struct {
	n, at, pos int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.pos >= e.n {
		return 0, io.EOF
	}
	k := int(min(int64(len(p)), e.n-e.pos))
	for i := range p[:k] {
		p[i] = 'x'
	}
	for i := max(e.pos, e.at); i < min(e.pos+int64(k), e.at+6); i++ {
		p[i-e.pos] = "needle"[i-e.at]
	}
	e.pos += int64(k)
	return k, nil
}

func (e *endless) Seek(int64, int) (int64, error) { e.pos = 0; return 0, nil }

// TestGrepHugeLine: 100 MB in one line are found and shown in bounded memory,
// wherever the pieces are cut.
func TestGrepHugeLine(t *testing.T) {
	const size = 100 << 20
	for _, pattern := range []string{"needle", "n[e]+dle"} {
		p, err := compile(pattern, false, false, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{0, maxBuffer - 3, 5*maxBuffer - overlap - 2, size - 6} {
			s := newScanner(p)
			out := newPage("f", 1, 0, 1)
			sum, err := s.scan(context.Background(), &endless{n: size, at: at}, size, false, aimShow, out)
			if err != nil || sum.hits != 1 || len(out.lines) != 1 {
				t.Fatalf("%s at %d: %+v, %v, %d lines", pattern, at, sum, err, len(out.lines))
			}
			if l := out.lines[0]; !strings.Contains(l.Text, "needle") || !l.Cut || l.Line != 1 || len(l.Text) > maxLineRunes {
				t.Errorf("%s at %d: line %d, cut %v, %.20q", pattern, at, l.Line, l.Cut, l.Text)
			}
			if len(s.buf) > maxBuffer {
				t.Errorf("the buffer grew to %d bytes", len(s.buf))
			}
		}
	}
}

// TestGrepHugeMatch: a match longer than any window is the same in all modes,
// and its line is shown, even where nobody can say at which byte it begins.
func TestGrepHugeMatch(t *testing.T) {
	dir := t.TempDir()
	long := func(n int) string { return strings.Repeat("q", n) + "foo" }
	writeTree(t, dir, map[string]string{
		"a-line":   long(1_200_000) + "\n",
		"b-among":  "x\n" + strings.Repeat("z", 70_000) + long(1_200_000) + " end\nqfoo\n",
		"c-utf8":   "é" + long(1_200_000) + "\n",
		"d-buffer": "x\n" + long(5_000_000) + "\nx\n",
		"e-eof":    long(maxBuffer),
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, pattern := range []string{"q+foo", "q[^x]+o$"} {
		matches := 6
		if pattern == "q[^x]+o$" {
			matches = 5 // one line goes on
		}
		if n := run(t, o, Request{Kind: "grep", Pattern: pattern}).Total; n != 5 {
			t.Errorf("%s: %d files; want 5", pattern, n)
		}
		if n := run(t, o, Request{Kind: "grep", Pattern: pattern, Mode: "count"}).Total; n != matches {
			t.Errorf("%s: count gives %d; want %d", pattern, n, matches)
		}
		res := run(t, o, Request{Kind: "grep", Pattern: pattern, Mode: "content"})
		if res.Total != matches || len(res.Lines) != matches || res.AtLeast {
			t.Fatalf("%s: total %d, %d lines, at least %v; want %d lines", pattern, res.Total, len(res.Lines), res.AtLeast, matches)
		}
		for _, l := range res.Lines {
			piece := l.Path == "d-buffer" || l.Path == "e-eof"
			if l.Cut != (l.Text != "qfoo") || l.Unseen != piece || l.Text == "" || l.Path == "d-buffer" && l.Line != 2 {
				t.Errorf("%s: %s:%d: cut %v, unseen %v, %.10q", pattern, l.Path, l.Line, l.Cut, l.Unseen, l.Text)
			}
			if l.Path == "b-among" && l.Line == 2 && !strings.HasPrefix(strings.TrimLeft(l.Text, "z"), "q") {
				t.Errorf("%s: the cut is not at the match: %.20q", pattern, l.Text)
			}
		}
	}
	// Nothing else in such a line is a match, and nothing is doubted that is ASCII.
	for _, mode := range []string{"files", "content", "count"} {
		if res := run(t, o, Request{Kind: "grep", Pattern: "q+bar", Mode: mode}); res.Total != 0 || res.AtLeast {
			t.Errorf("%s: %+v", mode, res)
		}
	}
}

// TestGrepHugeDoubt: where neither the engine nor the table can see all of a
// line, every mode says that there may be more.
func TestGrepHugeDoubt(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"f": "é" + strings.Repeat("q", 5_000_000) + "foo\n"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, mode := range []string{"files", "content", "count"} {
		for _, path := range []string{"", "f"} {
			if res := run(t, o, Request{Kind: "grep", Pattern: "q+foo", Mode: mode, Path: path}); res.Total == 0 && !res.AtLeast {
				t.Errorf("%s of %q: %+v", mode, path, res)
			}
		}
	}
}

func TestGrepBinary(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"nul":  "needle\x00needle\nneedle\n",
		"late": "needle\n" + strings.Repeat("y\n", 3<<20) + "\x00\nneedle\n",
		"text": "needle\n",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, mode := range []string{"files", "content", "count"} {
		res := run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: mode})
		// The NUL in late comes after all that files mode looks at.
		binary := map[string]int64{"files": 1, "content": 2, "count": 2}[mode]
		if res.TotalFiles != 2 || res.Skipped.Binary != binary || res.Scanned != 3 {
			t.Errorf("%s: %+v", mode, res)
		}
		res = run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: mode, Path: "nul"})
		if res.TotalFiles != 1 || len(res.Files) != 1 || !res.Files[0].Binary || len(res.Lines) != 0 || res.Skipped.Binary != 1 {
			t.Errorf("%s of a named binary file: %+v", mode, res)
		}
	}
	if n := run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: "count", Path: "nul"}).Total; n != 3 {
		t.Errorf("count in a named binary file = %d; want 3", n)
	}
}

func TestGrepUTF16(t *testing.T) {
	dir := t.TempDir()
	pad := strings.Repeat("pad \U0001F600 line\n", 40_000)
	enc := func(s string, big bool) string {
		var b []byte
		put := func(u uint16) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		put(0xfeff)
		for _, r := range s {
			if r >= 0x10000 {
				put(0xd800 + uint16((r-0x10000)>>10))
				put(0xdc00 + uint16((r-0x10000)&0x3ff))
			} else {
				put(uint16(r))
			}
		}
		return string(b)
	}
	writeTree(t, dir, map[string]string{
		"be": enc(pad+"needle é\r\n", true), "le": enc(pad+"needle é\r\n", false),
		"half": enc("needle", false) + "\x00\xd8" + "x",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "^needle", Mode: "content"})
	equal(t, "lines", show(res.Lines), []string{"be:40001:needle é", "half:1:needle\ufffd\ufffd", "le:40001:needle é"})
}

func TestGrepErrors(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "x"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, c := range []struct {
		req  Request
		code tool.Code
		says string
	}{
		{Request{Kind: "grep", Pattern: "foo("}, tool.InvalidArguments, "missing closing ): `foo(`; correct the RE2 syntax, or set literal"},
		{Request{Kind: "grep", Pattern: `\`}, tool.InvalidArguments, "trailing backslash"},
		{Request{Kind: "grep", Pattern: `(?=x)`}, tool.InvalidArguments, "set literal"},
		{Request{Kind: "grep"}, tool.InvalidArguments, "pattern is empty"},
		{Request{Kind: "grep", Pattern: "a\nb"}, tool.InvalidArguments, "set multiline"},
		{Request{Kind: "grep", Pattern: `a\nb`}, tool.InvalidArguments, "set multiline"},
		{Request{Kind: "grep", Pattern: "a\nb", Literal: true}, tool.InvalidArguments, "set multiline"},
		{Request{Kind: "grep", Pattern: `[\r\n]`}, tool.InvalidArguments, "set multiline"},
		{Request{Kind: "grep", Pattern: strings.Repeat("a", maxPattern+1)}, tool.InvalidArguments, "bytes"},
		{Request{Kind: "grep", Pattern: `(\w{1000}){9}`}, tool.InvalidArguments, ""},
		{Request{Kind: "grep", Pattern: `((a?){90}){90}`}, tool.InvalidArguments, ""},
		{Request{Kind: "grep", Pattern: "x", Mode: "lines"}, tool.InvalidArguments, "files, content or count"},
		{Request{Kind: "grep", Pattern: "x", Limit: maxLimit + 1}, tool.InvalidArguments, "limit"},
		{Request{Kind: "grep", Pattern: "x", Limit: -1}, tool.InvalidArguments, "limit"},
		{Request{Kind: "grep", Pattern: "x", Offset: -1}, tool.InvalidArguments, "offset"},
		{Request{Kind: "grep", Pattern: "x", Context: maxContext + 1}, tool.InvalidArguments, "context"},
		{Request{Kind: "grep", Pattern: "x", Glob: "[a"}, tool.InvalidArguments, "glob"},
		{Request{Kind: "grep", Pattern: "x", Glob: strings.Repeat("{a,b}", 20)}, tool.InvalidArguments, "braces"},
		{Request{Kind: "grep", Pattern: "x", Path: "nope"}, tool.NotFound, "nope"},
		{Request{Kind: "grep", Pattern: "x", Path: "../x"}, tool.OutsideRoot, ""},
		{Request{Kind: "grep", Pattern: "x", Path: "/etc"}, tool.OutsideRoot, ""},
		{Request{Kind: "dance"}, tool.InvalidArguments, "grep or locate"},
		{Request{Kind: "locate"}, tool.InvalidArguments, "query is empty"},
		{Request{Kind: "locate", Query: "[a"}, tool.InvalidArguments, "glob"},
		{Request{Kind: "locate", Query: "../*"}, tool.InvalidArguments, ""},
		{Request{Kind: "locate", Query: "x", MaxResults: maxResults + 1}, tool.InvalidArguments, "max_results"},
		{Request{Kind: "locate", Query: "x", Cursor: "!"}, tool.InvalidArguments, "cursor"},
		{Request{Kind: "locate", Query: "x", Cursor: "AAAA"}, tool.InvalidArguments, "cursor"},
		{Request{Kind: "locate", Query: "x", Path: "a"}, tool.NotRegular, "not a directory"},
	} {
		_, err := Run(context.Background(), o, c.req)
		if tool.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("Run(%.80v) = %v; want %s with %q", c.req, err, c.code, c.says)
		} else if strings.Contains(err.Error(), dir) {
			t.Errorf("Run(%.80v) names the host's path: %v", c.req, err)
		}
	}
	if res := run(t, o, Request{Kind: "grep", Pattern: "nothing"}); res.Total != 0 || res.Scanned != 1 {
		t.Errorf("no match = %+v; want success with total 0", res)
	}
}

func TestGrepDeadlineAndCancel(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		writeTree(t, dir, map[string]string{fmt.Sprintf("d%d/f", i): "needle\n"})
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for _, req := range []Request{{Kind: "grep", Pattern: "needle"}, {Kind: "locate", Query: "f"}, {Kind: "locate", Query: "**/f"}} {
		res, err := Run(over, o, req)
		if req.Path = "."; tool.CodeOf(err) != tool.Timeout && (err != nil || !res.AtLeast || res.Ended != tool.Timeout) {
			t.Errorf("%s after the deadline = %+v, %v; want at_least", req.Kind, res, err)
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(gone, o, Request{Kind: "grep", Pattern: "needle"}); tool.CodeOf(err) != tool.Cancelled {
		t.Errorf("a cancelled search = %v; want cancelled", err)
	}

	// A deadline in the midst: the clock runs out at the tenth file.
	late := &lateContext{Context: context.Background(), done: make(chan struct{})}
	var seen atomic.Int32
	o = overlay(t, dir, workspace.OverlayOptions{Guard: func(v workspace.Verb, p string, _ tool.Identity) error {
		if v == workspace.VerbRead && strings.HasSuffix(p, "/f") && seen.Add(1) == 10 {
			close(late.done)
		}
		return nil
	}})
	g, err := newGrep(Request{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	var res Response
	hits, err := g.below(late, newTree(late, o), ".", &res)
	if err != nil || !res.AtLeast || res.Ended != tool.Timeout || len(hits) < 5 || len(hits) > 10 {
		t.Errorf("a search cut short = %d files, %+v, %v; want some of the first ten and at_least", len(hits), res, err)
	}
}

// lateContext is past its deadline as soon as done is closed.
type lateContext struct {
	context.Context
	done chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.done }
func (c *lateContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestGrepSeesPendingChanges(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"edited": "needle on disk\n", "gone": "needle\n", "moved": "needle moved\n", "d/in": "needle in\n", "d/e/deep": "needle deep\n", "plain": "needle plain\n",
		"x/y": "needle of a directory that goes\n", ".gitignore": "nothing\n", "z.log": "needle log\n",
	})
	o := overlay(t, dir, workspace.OverlayOptions{})
	ctx := context.Background()
	must := func(_ workspace.Change, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(o.Write(ctx, "edited", []byte("changed\nneedle pending\n"), true))
	must(o.Write(ctx, "new/dir/file", []byte("needle new\n"), false))
	must(o.Remove(ctx, "gone", false))
	must(o.Remove(ctx, "x", true))
	must(o.Rename(ctx, "moved", "moved2", false))
	must(o.Rename(ctx, "d", "dd", false))
	must(o.Write(ctx, "dd/in2", []byte("needle in2\n"), false))
	must(o.Write(ctx, ".gitignore", []byte("*.log\n"), true))
	res := run(t, o, Request{Kind: "grep", Pattern: "needle", Mode: "content"})
	equal(t, "lines", show(res.Lines), []string{
		"dd/e/deep:1:needle deep", "dd/in:1:needle in", "dd/in2:1:needle in2", "edited:2:needle pending",
		"moved2:1:needle moved", "new/dir/file:1:needle new", "plain:1:needle plain",
	})
	if res.Skipped.Ignored != 1 {
		t.Errorf("skipped = %+v; the pending .gitignore ignores one name", res.Skipped)
	}
	for path, want := range map[string]int{"dd": 3, "new": 1, "edited": 1, "moved2": 1, "new/dir/file": 1} {
		if res := run(t, o, Request{Kind: "grep", Pattern: "needle", Path: path}); res.Total != want {
			t.Errorf("grep in %s finds %d; want %d", path, res.Total, want)
		}
	}
	if _, err := Run(ctx, o, Request{Kind: "grep", Pattern: "needle", Path: "gone"}); tool.CodeOf(err) != tool.NotFound {
		t.Errorf("grep in what is deleted = %v; want not_found", err)
	}
	res = run(t, o, Request{Kind: "locate", Query: "**/*"})
	equal(t, "names", paths(res), []string{".gitignore", "dd", "dd/e", "dd/e/deep", "dd/in", "dd/in2", "edited", "moved2", "new", "new/dir", "new/dir/file", "plain"})
}

func TestGrepMultilineTooLarge(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"big": strings.Repeat("a\n", maxWhole/2+1), "small": "a\nb\n"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	res := run(t, o, Request{Kind: "grep", Pattern: "a\nb", Multiline: true})
	if res.Total != 1 || res.Skipped.TooLarge != 1 {
		t.Errorf("multiline = %+v", res)
	}
	if _, err := Run(context.Background(), o, Request{Kind: "grep", Pattern: "a\nb", Multiline: true, Path: "big"}); tool.CodeOf(err) != tool.TooLarge {
		t.Errorf("multiline in a named large file = %v; want too_large", err)
	}
}

func TestGrepGlobs(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a.go": "x", "a_test.go": "x", "s/b.go": "x", "s/b.ts": "x", "s/t/c.tsx": "x", "s/d e.md": "x", "s/f,g": "x"})
	o := overlay(t, dir, workspace.OverlayOptions{})
	for glob, want := range map[string][]string{
		"*.go":            {"a.go", "a_test.go", "s/b.go"},
		"*.go !*_test.go": {"a.go", "s/b.go"},
		"*.go,*.ts":       {"a.go", "a_test.go", "s/b.go", "s/b.ts"},
		"*.{ts,tsx}":      {"s/b.ts", "s/t/c.tsx"},
		"s/*.go":          {"s/b.go"},
		"s/**":            {"s/b.go", "s/b.ts", "s/d e.md", "s/f,g", "s/t/c.tsx"},
		"**/*.tsx":        {"s/t/c.tsx"},
		"./s/*.ts":        {"s/b.ts"},
		"/*.go":           {"a.go", "a_test.go"},
		"!s":              {"a.go", "a_test.go"},
		"!s/":             {"a.go", "a_test.go"},
		`d\ e.md`:         {"s/d e.md"},
		`f\,g`:            {"s/f,g"},
		"[ab].*":          {"a.go", "s/b.go", "s/b.ts"},
		" , ":             {"a.go", "a_test.go", "s/b.go", "s/b.ts", "s/d e.md", "s/f,g", "s/t/c.tsx"},
		"nothing":         nil,
	} {
		got := paths(run(t, o, Request{Kind: "grep", Pattern: "x", Glob: glob, Mode: "count"}))
		if !slices.Equal(got, want) {
			t.Errorf("glob %q gives %q; want %q", glob, got, want)
		}
	}
}

func TestNamesThatLie(t *testing.T) {
	dir := t.TempDir()
	names := []string{"two\nlines.txt", "bad\xff.txt", "rtl\u202etxt.exe", "good.txt", "esc\x1b[31m.txt"}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("needle\n"), 0o666); err != nil {
			t.Skipf("the file system refuses %q: %v", n, err)
		}
	}
	o := overlay(t, dir, workspace.OverlayOptions{})
	for _, req := range []Request{{Kind: "grep", Pattern: "needle"}, {Kind: "grep", Pattern: "needle", Mode: "content"}, {Kind: "locate", Query: "**/*"}} {
		b, err := json.Marshal(run(t, o, req))
		if err != nil {
			t.Fatal(err)
		}
		var res Response
		if err := json.Unmarshal(b, &res); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, f := range res.Files {
			got[f.Path] = f.Escaped
		}
		for _, l := range res.Lines {
			got[l.Path] = l.Escaped
		}
		for _, e := range res.Entries {
			got[e.Path] = e.Escaped
		}
		want := map[string]bool{"two\nlines.txt": false, `bad\xff.txt`: true, "rtl\u202etxt.exe": false, "good.txt": false, "esc\x1b[31m.txt": false}
		equal(t, req.Kind+" "+req.Mode, got, want)
		if bytes.ContainsAny(b, "\n\x1b") {
			t.Errorf("%s: the JSON holds raw control characters: %q", req.Kind, b)
		}
	}
}

func TestErrorsKeepTheGuardsWords(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"secret": "needle", "d/secret": "needle", "d/open": "needle", "closed/x": "needle"})
	no := tool.Errorf(tool.GrantMissing, "the guard says no")
	o := overlay(t, dir, workspace.OverlayOptions{Guard: func(v workspace.Verb, p string, _ tool.Identity) error {
		if strings.HasSuffix(p, "secret") || p == "closed" {
			return no
		}
		return nil
	}})
	for _, req := range []Request{
		{Kind: "grep", Pattern: "needle", Path: "secret"}, {Kind: "grep", Pattern: "needle", Path: "closed"},
		{Kind: "grep", Pattern: "needle", Path: "closed/x"}, {Kind: "locate", Query: "x", Path: "closed"}, {Kind: "locate", Query: "closed/*"},
	} {
		if _, err := Run(context.Background(), o, req); !errors.Is(err, no) {
			t.Errorf("Run(%+v) = %v; want the guard's error", req, err)
		}
	}
	res := run(t, o, Request{Kind: "grep", Pattern: "needle"})
	equal(t, "files", paths(res), []string{"d/open"})
	if res.Skipped.Denied != 3 {
		t.Errorf("denied = %d; want 3", res.Skipped.Denied)
	}
	res = run(t, o, Request{Kind: "locate", Query: "**/*"})
	equal(t, "names", paths(res), []string{"d", "d/open"})
	if res.Skipped.Denied != 3 {
		t.Errorf("denied names = %d; want 3", res.Skipped.Denied)
	}
	res = run(t, o, Request{Kind: "locate", Query: "secret"})
	if len(res.Entries) != 0 || res.Skipped.Denied != 3 {
		t.Errorf("locate of what is denied = %+v", res)
	}
}
