package search

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/workspace/charset"
)

// twin is the slow, simple form of a search: the whole text in memory, one line
// after the other, the regular expression engine on each, and nothing clever.
type twin struct {
	re        *regexp.Regexp
	multiline bool
}

func newTwin(t testing.TB, pattern string, literal, fold, multiline bool) twin {
	if literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	flags := syntax.Perl &^ syntax.OneLine
	if multiline {
		flags |= syntax.DotNL
	}
	if fold {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		t.Fatalf("twin: %v", err)
	}
	if tree, err = rewrite(tree, multiline); err != nil {
		t.Fatalf("twin: %v", err)
	}
	return twin{regexp.MustCompile(tree.String()), multiline}
}

type twinLine struct {
	number int
	text   string
	match  bool
}

// lines marks every line of b, without a NUL, that matches.
func (w twin) lines(b []byte) (out []twinLine, matches int) {
	b = bytes.TrimPrefix(b, utf8BOM)
	if !bytes.Contains(b, []byte{'\n'}) {
		b = bytes.ReplaceAll(b, []byte{'\r'}, []byte{'\n'})
	}
	if len(b) == 0 {
		if w.multiline {
			matches = len(w.re.FindAllIndex(b, -1))
		}
		return nil, matches
	}
	parts := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if w.multiline {
		all := w.re.FindAllIndex(b, -1)
		at := 0
		for i, p := range parts {
			hit := false
			for _, m := range all {
				// A match touches the line if it holds one of its bytes or its
				// end, or lies in it and is empty.
				if m[0] == m[1] {
					hit = hit || at <= m[0] && m[0] <= at+len(p)
				} else {
					hit = hit || m[0] <= at+len(p) && m[1] > at
				}
			}
			out = append(out, twinLine{i + 1, p, hit})
			at += len(p) + 1
		}
		matches = len(all)
	} else {
		for i, p := range parts {
			n := len(w.re.FindAllStringIndex(p, -1))
			matches += n
			out = append(out, twinLine{i + 1, p, n > 0})
		}
	}
	for i := range out {
		out[i].text, _ = cutLine([]byte(out[i].text), 0, 0, false, false)
	}
	return out, matches
}

// page gives the lines that a page of matching lines from..to should hold.
func (w twin) page(b []byte, contextLines, from, to int) []string {
	lines, _ := w.lines(b)
	var out []string
	owner := make([]int, len(lines)) // which match a line belongs to, plus one
	k := 0
	for i, l := range lines {
		if !l.match {
			continue
		}
		k++
		for j := max(0, i-contextLines); j < i; j++ {
			if owner[j] == 0 {
				owner[j] = k
			}
		}
		owner[i] = k
		for j := i + 1; j <= i+contextLines && j < len(lines) && !lines[j].match; j++ {
			owner[j] = k
		}
	}
	for i, l := range lines {
		if owner[i] > from && owner[i] <= to {
			out = append(out, fmt.Sprint(l.number, " ", l.match, " ", l.text))
		}
	}
	return out
}

// agree fails if the fast search of b finds anything but what the twin finds.
func agree(t *testing.T, pattern string, literal, fold, multiline bool, b []byte, tune func(*scanner)) {
	t.Helper()
	p, err := compile(pattern, literal, fold, multiline)
	if err != nil || literal && strings.ContainsRune(pattern, '\ufffd') {
		return // to the engine U+FFFD is any bad byte as well, to a literal search it is not
	}
	w := newTwin(t, pattern, literal, fold, multiline)
	s := newScanner(p)
	if tune != nil {
		tune(s)
	}
	what := fmt.Sprintf("pattern %q (literal %v, fold %v, multiline %v) in %q", pattern, literal, fold, multiline, clip(b))
	scan := func(a aim, out *page) tally {
		sum, err := s.scan(context.Background(), bytes.NewReader(b), int64(len(b)), false, a, out)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return sum
	}
	if _, utf16 := utf16Order(b); utf16 {
		return
	}
	if bytes.IndexByte(b, 0) >= 0 {
		if sum := scan(aimLines, nil); !sum.binary || sum.hits != 0 {
			t.Fatalf("%s: %+v; want binary", what, sum)
		}
		return
	}
	if e, err := charset.Detect(b); err == nil {
		if b, err = e.Decode(b); err != nil {
			t.Fatal(err)
		}
	}
	lines, matches := w.lines(b)
	hits := 0
	for _, l := range lines {
		if l.match {
			hits++
		}
	}
	if got := scan(aimLines, nil).hits; got != hits {
		t.Fatalf("%s: %d lines; the twin finds %d", what, got, hits)
	}
	if got := scan(aimMatches, nil).hits; got != matches {
		t.Fatalf("%s: %d matches; the twin finds %d", what, got, matches)
	}
	if got := scan(aimFirst, nil).hits > 0; got != (matches > 0) {
		t.Fatalf("%s: found %v; the twin %v", what, got, matches > 0)
	}
	for _, c := range []int{0, 2} {
		var all []string
		for from := 0; from < max(1, hits); from += 3 {
			out := newPage("f", c, from, min(hits, from+3))
			scan(aimShow, out)
			var got []string
			for _, l := range out.lines {
				got = append(got, fmt.Sprint(l.Line, " ", !l.Context, " ", l.Text))
			}
			same := slices.Equal[[]string]
			if tune != nil {
				same = func(a, b []string) bool { return slices.EqualFunc(a, b, cutOf) }
			}
			if want := w.page(b, c, from, from+3); !same(got, want) {
				t.Fatalf("%s: page %d with context %d:\ngot  %q\nwant %q", what, from/3, c, got, want)
			}
			all = append(all, got...)
			if hits == 0 {
				break
			}
		}
		if want := w.page(b, c, 0, hits); tune == nil && !slices.Equal(all, want) {
			t.Fatalf("%s: pages together:\ngot  %q\nwant %q", what, all, want)
		}
	}
}

// cutOf reports whether got shows the line want or a part of it; what a buffer
// of some bytes shows of a line is shorter than what one of megabytes does.
func cutOf(got, want string) bool {
	a := strings.SplitN(got, " ", 3)
	b := strings.SplitN(want, " ", 3)
	return a[0] == b[0] && a[1] == b[1] && strings.Contains(b[2], strings.Trim(a[2], "\ufffd\r"))
}

func clip(b []byte) []byte {
	if len(b) > 300 {
		return append(bytes.Clone(b[:300]), "..."...)
	}
	return b
}

var twinPatterns = []string{
	"a", "ab", "foo", "foo|bar", "fo+", "(foo|ba)r", "f.o", "^foo", "foo$", "^$", "^", "$", `\bfoo\b`, `\w+`, `\s`, `[^a]`, "a*", "x?y",
	"(?i)foo", "(?i)kiss", "(?i)[ks]", "[a-c]o", `\x{212A}`, "é", "[éè]", ".", "..", "fo{2}", "(fo){2}", "a|b|c|d", "(?:ab|cd)(?:ef|gh)", `\Afoo`, `foo\z`, "(?s)o.b",
	"f(?i:OO)b", "(|foo)bar", "(a|b|)c", "\ufffd", `[\x{fffd}a]b`, `o\r`, `\r?$`, "k", "S", "foo.*bar", "bar.*foo", "(?-s).b", "(?U)a+b", `\Bo`,
}

var twinWords = []string{"foo", "bar", "Foo", "FOO", "kiss", "\u212Ai\u017Fs", "ab", "cdef", " ", "\t", "é", "è", "\xff", "\xc3", "a", "o", "fo", "\r", "\n", "\n", "\n", "\r\n", "\f", "\u2028", "\ufffd", "x", "y", "c", "\v", "\u0085"}

func TestTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	rounds := 20
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		var b []byte
		for range rng.IntN(60) {
			b = append(b, twinWords[rng.IntN(len(twinWords))]...)
		}
		for _, p := range twinPatterns {
			agree(t, p, false, false, false, b, nil)
			agree(t, p, false, true, false, b, nil)
			agree(t, p, false, false, true, b, nil)
			agree(t, p, true, rng.IntN(2) == 0, false, b, nil)
		}
	}
}

// TestTwinInPieces makes the buffer small, so that texts of some hundred bytes
// meet every border that files of megabytes meet.
func TestTwinInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		var b []byte
		for range 20 + rng.IntN(200) {
			w := twinWords[rng.IntN(len(twinWords))]
			if w == "\n" && rng.IntN(3) > 0 {
				continue // long lines
			}
			b = append(b, w...)
		}
		for _, p := range []string{"foo", "foo|kiss", "(?i)foo", `\bfoo\b`, "f[o]{2}", "^foo", "foo$", "ab", "é", "kis{2}"} {
			for _, size := range []int{40, 64, 100} {
				agree(t, p, false, false, false, b, func(s *scanner) { s.shrink(size) })
			}
		}
	}
}

// shrink makes a scanner take n bytes at a time.
func (s *scanner) shrink(n int) {
	s.buf, s.most = make([]byte, n), n
	s.window = n
	s.lap = n / 4
}

func FuzzTwin(f *testing.F) {
	for i, p := range twinPatterns {
		f.Add(p, []byte(strings.Join(twinWords[i%len(twinWords):], "")), false, i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, pattern string, b []byte, literal, fold, multiline bool) {
		if len(pattern) > 200 || len(b) > 4<<10 {
			return
		}
		agree(t, pattern, literal, fold, multiline, b, nil)
	})
}

// TestTwinWhenTheTableGivesUp lets the dfa run out of states and of work in the
// midst of a text.
func TestTwinWhenTheTableGivesUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	gaveUp := 0
	for range 30 {
		var b []byte
		for range 300 {
			b = append(b, "abab x\n"[rng.IntN(7)])
		}
		for _, p := range []string{"(a|b)*a(a|b){12}$", "[ab]a.{9}b", `a\b.*\bx`, "^a.*b$"} {
			for _, budget := range []int{0, 2_000, 20_000, maxDFAWork} {
				agree(t, p, false, false, false, b, func(s *scanner) {
					s.d.budget = budget
					if _, _, ok := s.d.find(b, 0); !ok {
						gaveUp++
					}
				})
			}
		}
	}
	if gaveUp == 0 {
		t.Error("the table never gave up: the test shows nothing")
	}
}

func FuzzPrefilter(f *testing.F) {
	for _, p := range twinPatterns {
		f.Add(p, []byte("xx foo\nbar\n"), true)
	}
	f.Fuzz(func(t *testing.T, pattern string, line []byte, fold bool) {
		// Whatever the pattern matches must hold a needle, or the search is blind.
		p, err := compile(pattern, false, fold, true)
		if err != nil || len(pattern) > 200 || len(line) > 1<<10 || len(p.needles) == 0 {
			return
		}
		w := newTwin(t, pattern, false, fold, true)
		find := newFinder(p.needles)
		for _, m := range w.re.FindAllIndex(line, -1) {
			find.reset()
			if find.next(line[m[0]:m[1]], 0) < 0 {
				t.Fatalf("pattern %q matches %q, which holds none of %+v", pattern, line[m[0]:m[1]], p.needles)
			}
		}
	})
}
