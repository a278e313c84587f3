package workspace

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

func edit(src, old, new string) (string, error) {
	out, _, err := applyEdits(context.Background(), []byte(src), []Edit{{Old: old, New: new}}, 1<<30)
	return string(out), err
}

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name, src, old, new, want string
		code                      tool.Code
	}{
		{"plain", "a\nb\nc\n", "b", "B", "a\nB\nc\n", ""},
		{"delete", "a\nDROP\nb\n", "DROP\n", "", "a\nb\n", ""},
		{"twice", "x\nx\n", "x", "y", "", tool.NotUnique},
		{"overlapping itself", "ababab\n", "abab", "Z", "", tool.NotUnique},
		{"empty old", "a", "", "x", "", tool.InvalidArguments},
		{"empty old, empty file", "", "", "x", "", tool.InvalidArguments},
		{"missing", "a\n", "b", "c", "", tool.NoMatch},
		{"no change", "a\n", "a", "a", "", tool.NoChange},

		{"LF text in a CRLF file", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n", ""},
		{"one line becomes two in a CRLF file", "a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n", ""},
		{"CRLF text in a CRLF file", "a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n", ""},
		{"CRLF text in an LF file", "a\nb\n", "a\r\nb", "x\r\ny", "", tool.NoMatch},
		{"CRLF text in a mixed file, LF place", "a\nb\nc\r\n", "a\r\nb", "x", "", tool.NoMatch},
		{"CRLF text in a mixed file, both places", "a\r\nb\r\nx\na\nb\n", "a\r\nb", "c", "c\r\nx\na\nb\n", ""},
		{"CRLF matched to the byte becomes LF", "a\r\nb\r\n", "a\r\nb\r\n", "a\nb\n", "a\nb\n", ""},
		{"LF matched to the byte becomes CRLF", "a\nb\n", "a\nb\n", "a\r\nb\r\n", "a\r\nb\r\n", ""},
		{"mixed file, LF matched to the byte", "a\r\nb\nc\nd\r\n", "b\nc", "x\r\ny\nz", "a\r\nx\r\ny\nz\nd\r\n", ""},
		{"LF text in a CRLF file, new with both", "a\r\nb\r\n", "a\nb", "x\r\ny\nz", "x\r\ny\r\nz\r\n", ""},
		{"LF text that removes a CRLF", "a\r\nb\r\n", "\nb", "", "a\r\n", ""},
		{"LF text in a CRLF file, no change", "a\r\nb\r\n", "a\nb", "a\nb", "", tool.NoChange},
		{"begins with a line end", "9\r\n10\r\n11\r\n", "\n10\n", "\nE\n", "9\r\nE\r\n11\r\n", ""},
		{"begins with a line end, no other", "9\r\n10\r\n", "\n10", "\nE", "9\r\nE\r\n", ""},
		{"mixed file, CRLF place", "a\nb\r\nc\r\nd\n", "b\nc", "x\ny", "a\nx\r\ny\r\nd\n", ""},
		{"mixed file, LF place", "a\r\nb\nc\nd\r\n", "b\nc", "x\ny", "a\r\nx\ny\nd\r\n", ""},
		{"mixed file, both places", "a\r\nb\r\nx\na\nb\n", "a\nb", "c", "", tool.NotUnique},
		{"mixed file, one line", "a\r\nb\nc\r\n", "c", "c\nd", "a\r\nb\nc\r\nd\r\n", ""},
		{"lone CR stays", "old mac\rline\nx=1\n", "x=1", "x=2", "old mac\rline\nx=2\n", ""},
		{"lone CR in the text", "a\rb\n", "a\rb", "c", "c\n", ""},
		{"CR at the end of the text splits a CRLF", "a\r\nb", "a\r", "c", "c\nb", ""},
		{"CRLF asked for in an LF file", "a\nb\n", "a\n", "a\r\n", "a\r\nb\n", ""},
		{"CR CR LF", "a\r\r\nb\nc\n", "a\r\nb", "x", "", tool.NoMatch},

		{"final newline absent", "a\nb", "a", "A", "A\nb", ""},
		{"final blank line", "a\nb\n\n", "a", "A", "A\nb\n\n", ""},
		{"trailing blanks elsewhere", "keep  \nx = 1;\nq \n", "x = 1;", "x = 2;", "keep  \nx = 2;\nq \n", ""},

		{"dollar and ampersand", "PLACE\n", "PLACE", "a $& $$ $' \\1 %s {0}", "a $& $$ $' \\1 %s {0}\n", ""},
		{"text is no regexp", "a.c abc\n", "a.c", "x", "x abc\n", ""},

		{"BOM kept", "\ufeffone\ntwo\n", "one", "1", "\ufeff1\ntwo\n", ""},
		{"BOM in old", "\ufeffone\n", "\ufeffone", "\ufeff1", "\ufeff1\n", ""},
		{"BOM in old only", "\ufeffone\n", "\ufeffone", "1", "\ufeff1\n", ""},
		{"BOM alone is no text", "\ufeffone\n", "\ufeff", "x", "", tool.NoMatch},

		{"Latin-1 elsewhere", "// \xe9\nx = 1\n", "x = 1", "x = 2", "// \xe9\nx = 2\n", ""},
		{"Latin-1, new not ASCII", "// \xe9\nx = 1\n", "x = 1", "x = é", "", tool.Encoding},
		{"Latin-1, old not ASCII", "caf\xe9\n", "café", "x", "", tool.Encoding},
		{"NUL elsewhere", "a\x00b\nkey=1\xff\xfe\x00", "key=1", "key=2", "a\x00b\nkey=2\xff\xfe\x00", ""},
		{"NUL, not found", "a\x00b\x00", "ab", "c", "", tool.Encoding},
		{"UTF-16", "\xff\xfea\x00b\x00", "a", "c", "", tool.Encoding},
		{"UTF-16 big", "\xfe\xff\x00a", "a", "c", "", tool.Encoding},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "a", "c", "", tool.Encoding},
		{"NFC asked, NFD there", "cafe\u0301 = 1\n", "café = 1", "x", "", tool.NoMatch},
		{"curly quotes are letters", "say “x”\n", `say "x"`, "y", "", tool.NoMatch},
		{"form feed and U+2028", "a\f\u2028b\n", "b", "c", "a\f\u2028c\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := edit(c.src, c.old, c.new)
			if got != c.want || tool.CodeOf(err) != c.code {
				t.Errorf("edit(%q, %q, %q) = %q, %v; want %q, %s", c.src, c.old, c.new, got, err, c.want, c.code)
			}
		})
	}
}

func TestEditSeveral(t *testing.T) {
	apply := func(src string, edits ...Edit) (string, []span, error) {
		out, spans, err := applyEdits(context.Background(), []byte(src), edits, 1<<30)
		return string(out), spans, err
	}
	// Each matches the original, not what another made.
	if got, _, err := apply("a\nb\n", Edit{Old: "a", New: "b"}, Edit{Old: "b", New: "c"}); got != "b\nc\n" || err != nil {
		t.Errorf("edits = %q, %v; want b, c", got, err)
	}
	if _, _, err := apply("abc\n", Edit{Old: "ab", New: "x"}, Edit{Old: "bc", New: "y"}); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("overlapping edits: %v", err)
	}
	if _, _, err := apply("abc\n", Edit{Old: "abc", New: "x"}, Edit{Old: "b", New: "y"}); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("nested edits: %v", err)
	}
	if got, _, err := apply("ab\n", Edit{Old: "a", New: "1"}, Edit{Old: "b", New: "2"}); got != "12\n" || err != nil {
		t.Errorf("neighbouring edits = %q, %v", got, err)
	}
	if _, _, err := apply("a\n", Edit{Old: "a", New: "b"}, Edit{Old: "zz", New: "y"}); tool.CodeOf(err) != tool.NoMatch || !strings.Contains(err.Error(), "edit 2") {
		t.Errorf("one of two missing: %v", err)
	}
	if _, _, err := apply("a\n"); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("no edits: %v", err)
	}
	got, spans, err := apply("aXbXc\nX\n", Edit{Old: "X", New: "\n", All: true})
	if got != "a\nb\nc\n\n\n" || len(spans) != 3 || err != nil {
		t.Errorf("all = %q, %v, %v", got, spans, err)
	}
	if got, _, err := apply("aaa\n", Edit{Old: "aa", New: "b", All: true}); got != "ba\n" || err != nil {
		t.Errorf("all of a text that overlaps itself = %q, %v; want ba", got, err)
	}
	if _, _, err := apply("a\n", Edit{Old: "x", New: "y", All: true}); tool.CodeOf(err) != tool.NoMatch {
		t.Errorf("all of none: %v", err)
	}
	got, spans, _ = apply("1\n2\n3\n4\n", Edit{Old: "2", New: "two\nzwei"}, Edit{Old: "4", New: "four"})
	if want := []LineRange{{2, 3}, {5, 5}}; !reflect.DeepEqual(spanLines([]byte(got), spans), want) {
		t.Errorf("spanLines = %v; want %v", spanLines([]byte(got), spans), want)
	}
	if _, _, err := applyEdits(context.Background(), []byte("aaaa"), []Edit{{Old: "a", New: strings.Repeat("b", 1000), All: true}}, 3999); tool.CodeOf(err) != tool.TooLarge {
		t.Errorf("result over the limit: %v", err)
	}
}

func TestEditErrorsTellLines(t *testing.T) {
	_, err := edit("a\nfoo\nb\nfoo\nc\n\tfoo\n", "foo", "x")
	te := tool.AsError(err)
	if want := []int{2, 4, 6}; !reflect.DeepEqual(te.Details["lines"], want) || !strings.Contains(err.Error(), "2, 4, 6") || !strings.Contains(err.Error(), "3 times") {
		t.Errorf("%v with %v; want lines %v", err, te.Details, want)
	}
	_, err = edit("x\r\nfoo\r\ny\r\nfoo\r\n", "\nfoo\n", "x")
	if te := tool.AsError(err); !reflect.DeepEqual(te.Details["lines"], []int{2, 4}) {
		t.Errorf("%v with %v; want lines 2, 4", err, te.Details)
	}
	_, err = edit(strings.Repeat("foo\n", 5000), "foo", "x")
	te = tool.AsError(err)
	if lines, _ := te.Details["lines"].([]int); len(lines) != maxTold || !strings.Contains(te.Text, "at least 1000") {
		t.Errorf("many matches: %q, %v", te.Text, te.Details)
	}

	_, err = edit("func a() {\n\treturn 1\n}\nfunc b() {\n\treturn 2 \n}\n", "func b() {\n    return 2\n}", "x")
	te = tool.AsError(err)
	if te.Code != tool.NoMatch || !strings.Contains(te.Next, "lines 4-6") || !strings.Contains(te.Next, "5\t→return 2·") {
		t.Errorf("suggestion = %q; want lines 4-6 with the tab and the blank shown", te.Next)
	}
	_, err = edit("alpha beta gamma\r\nother\n", "alpha beta gamna", "x")
	if te = tool.AsError(err); !strings.Contains(te.Next, "lines 1-1") || !strings.Contains(te.Next, "gamma␍") {
		t.Errorf("suggestion = %q; want line 1 with its CR", te.Next)
	}
	_, err = edit("abc\n", "completely different", "x")
	if te = tool.AsError(err); te.Next != "" {
		t.Errorf("suggestion = %q for nothing alike", te.Next)
	}
}

// slowMatches is the twin of matcher.occurrences: it tries every start and
// compares character by character, with CRLF as one character that equals LF,
// unless the text has a CRLF itself.
func slowMatches(src, old []byte) []region {
	told := bytes.Contains(old, []byte("\r\n"))
	next := func(p []byte, i int) (byte, int) {
		if !told && p[i] == '\r' && i+1 < len(p) && p[i+1] == '\n' {
			return '\n', i + 2
		}
		return p[i], i + 1
	}
	var out []region
	start := 0
	if bytes.HasPrefix(src, bom) {
		start = 3
	}
	for i := start; i < len(src); i++ {
		if !told && i > start && src[i] == '\n' && src[i-1] == '\r' {
			continue
		}
		a, b := i, 0
		for a < len(src) && b < len(old) {
			x, a2 := next(src, a)
			y, b2 := next(old, b)
			if x != y {
				break
			}
			a, b = a2, b2
		}
		if b == len(old) {
			out = append(out, region{i, a})
		}
	}
	return out
}

func randomText(r *rand.Rand, n int) []byte {
	pieces := []string{"a", "a", "b", "ab", "\n", "\r\n", "\r", "\t", "\xff", "é", "aab", "\r\r\n", "\x00"}
	var b []byte
	if r.IntN(5) == 0 {
		b = append(b, bom...)
	}
	style := r.IntN(3)
	for range n {
		p := pieces[r.IntN(len(pieces))]
		if style == 0 {
			p = strings.ReplaceAll(p, "\r", "")
		}
		if style == 1 && p == "\n" {
			p = "\r\n"
		}
		b = append(b, p...)
	}
	return b
}

// checkEdit holds one edit against the twin, and undoes it by its spans.
func checkEdit(t *testing.T, src, old, text []byte, all bool) {
	t.Helper()
	if len(old) == 0 {
		return
	}
	m := newMatcher(src)
	got := m.occurrences(old, 1<<20, true)
	want := slowMatches(src, old)
	if len(want) > 0 && !slices.Equal(got, want) {
		t.Fatalf("occurrences of %q in %q = %v; want %v", old, src, got, want)
	}
	if len(want) == 0 {
		// What is left is to the byte.
		for _, r := range got {
			if !bytes.Equal(src[r.start:r.end], old) {
				t.Fatalf("occurrences of %q in %q = %v, which is %q", old, src, r, src[r.start:r.end])
			}
		}
	}
	before := bytes.Clone(src)
	out, spans, err := applyEdits(context.Background(), src, []Edit{{Old: string(old), New: string(text), All: all}}, 1<<30)
	if !bytes.Equal(src, before) {
		t.Fatalf("applyEdits changed its source")
	}
	if err != nil {
		switch tool.CodeOf(err) {
		case tool.NotUnique, tool.NoMatch, tool.NoChange, tool.Encoding:
		default:
			t.Fatalf("edit of %q: %v", src, err)
		}
		return
	}
	// The inverse edit, by spans, must give every byte back, and what lies
	// between the spans must be the same bytes.
	var back []byte
	at, shift := 0, 0
	for _, s := range spans {
		o := s.start + shift
		if !bytes.Equal(out[at:o], src[at-shift:s.start]) {
			t.Fatalf("bytes before span %v changed: %q became %q", s, src, out)
		}
		back = append(append(back, out[at:o]...), src[s.start:s.end]...)
		at = o + len(s.text)
		shift += len(s.text) - (s.end - s.start)
	}
	back = append(back, out[at:]...)
	if !bytes.Equal(back, src) {
		t.Fatalf("edit and inverse edit of %q gave %q", src, back)
	}
	if bytes.HasPrefix(src, bom) != bytes.HasPrefix(out, bom) && bytes.HasPrefix(src, bom) {
		t.Fatalf("the byte order mark went: %q became %q", src, out)
	}
}

func TestEditAgainstSlowTwin(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		src := randomText(r, r.IntN(40))
		var old []byte
		if len(src) > 0 && r.IntN(4) > 0 {
			i := r.IntN(len(src))
			old = bytes.Clone(src[i:min(len(src), i+1+r.IntN(8))])
			if r.IntN(2) == 0 {
				old = bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n"))
			}
		} else {
			old = randomText(r, 1+r.IntN(4))
		}
		checkEdit(t, src, old, randomText(r, r.IntN(5)), r.IntN(2) == 0)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\r\nb\nc"), []byte("a\nb"), []byte("x\ny"), false)
	f.Add([]byte("\xef\xbb\xbfone\r\n"), []byte("one"), []byte("1\n"), true)
	f.Add([]byte("aaaa"), []byte("aa"), []byte(""), true)
	f.Add([]byte("\r\r\n\n\r"), []byte("\r\n"), []byte("\n"), false)
	f.Fuzz(func(t *testing.T, src, old, text []byte, all bool) {
		if len(src) > 2000 || len(old) > 200 || len(text) > 200 {
			return
		}
		checkEdit(t, src, old, text, all)
	})
}

// TestEditWorkIsBounded feeds texts that make a careless search quadratic. With
// one that compares anew at each place the first of them takes hours.
func TestEditWorkIsBounded(t *testing.T) {
	start := time.Now()
	line := "a\r\n"
	src := strings.Repeat(line, 1<<18) + "x\n"
	for _, old := range []string{
		strings.Repeat("a\n", 50_000) + "b",
		strings.Repeat("a\n", 1<<17),
		strings.Repeat("a", 1<<20),
	} {
		if _, err := edit(src, old, "y"); err == nil {
			t.Errorf("edit succeeded")
		}
	}
	if _, err := edit(strings.Repeat("a", 2<<20), strings.Repeat("a", 1<<18)+"b", "y"); tool.CodeOf(err) != tool.NoMatch {
		t.Errorf("periodic text: %v", err)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}

func TestEditHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := applyEdits(ctx, []byte("a"), []Edit{{Old: "a", New: "b"}}, 1<<20); err != context.Canceled {
		t.Errorf("err = %v; want %v", err, context.Canceled)
	}
}
