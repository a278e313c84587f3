package workspace

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace/charset"
)

const (
	maxEdits        = 1000
	maxReplacements = 1_000_000 // of one call; each costs a span
	maxCounted      = 1000      // occurrences of a text that should be unique
	maxTold         = 20        // line numbers in an error
	maxSpanLines    = 100       // line ranges in a result
)

var bom = []byte("\xef\xbb\xbf")

// span is one replacement: src[start:end] becomes text.
type span struct {
	start, end int
	text       []byte
	crlf       bool // LF of the new text became CRLF in text
	edit       int
}

// applyEdits finds each text in src, which is UTF-8 or of no known encoding, and
// splices the new ones in. It never decodes and writes back: a byte outside the
// spans stays what it is. The result is at most max bytes larger than nothing.
func applyEdits(ctx context.Context, src []byte, edits []Edit, max int64) (out []byte, spans []span, err error) {
	if len(edits) == 0 {
		return nil, nil, tool.Errorf(tool.InvalidArguments, "no edits are given").WithNext("give at least one edit")
	}
	if len(edits) > maxEdits {
		return nil, nil, tool.Errorf(tool.InvalidArguments, "%d edits; one call takes %d", len(edits), maxEdits).WithNext("split the call")
	}
	if enc := wideEncoding(src); enc != "" {
		return nil, nil, tool.Errorf(tool.Encoding, "the file begins as %s, but is not that throughout; its text cannot be edited as bytes", enc).
			WithNext("write the whole file, or convert it in a terminal")
	}
	m := newMatcher(src)
	size := int64(len(src))
	for i, e := range edits {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		found, err := m.find(e, len(edits) > 1, i)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range found {
			size += int64(len(s.text) - (s.end - s.start))
		}
		if spans = append(spans, found...); len(spans) > maxReplacements {
			return nil, nil, tool.Errorf(tool.TooLarge, "more than %d replacements", maxReplacements).WithNext("use a stream editor in a terminal")
		}
	}
	if size > max || size > maxEditBytes {
		return nil, nil, tool.Errorf(tool.TooLarge, "the file would have %d bytes", size).WithNext("insert less")
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.start < a.end {
			return nil, nil, tool.Errorf(tool.InvalidArguments, "edits %d and %d overlap near line %d", a.edit+1, b.edit+1, m.line(b.start)).
				WithNext("join them into one edit").With("edits", []int{a.edit, b.edit})
		}
	}
	out = make([]byte, 0, size)
	at := 0
	for _, s := range spans {
		out = append(out, src[at:s.start]...)
		out = append(out, s.text...)
		at = s.end
	}
	out = append(out, src[at:]...)
	if bytes.Equal(out, src) {
		return nil, nil, tool.Errorf(tool.NoChange, "the new text equals the old one")
	}
	return out, spans, nil
}

// wideEncoding names an encoding in which no text has the bytes that it has in
// UTF-8.
func wideEncoding(src []byte) string {
	switch {
	case bytes.HasPrefix(src, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(src, []byte("\x00\x00\xfe\xff")):
		return "UTF-32"
	case bytes.HasPrefix(src, []byte("\xff\xfe")), bytes.HasPrefix(src, []byte("\xfe\xff")):
		return "UTF-16"
	}
	return ""
}

// matcher finds texts in one file.
//
// Line ends are the one thing in which a text need not equal the file: whoever
// read the file did not see whether a line ends in LF or CRLF. So an LF in the
// text matches either in the file, and where it met a CRLF, or the text has no
// line end that could tell, LF in the new text become the line ends of the place.
// Whoever writes CRLF knows: such a text matches to the byte. A text with line
// ends that matches to the byte is replaced by the new text to the byte.
type matcher struct {
	src   []byte
	start int // after a byte order mark, which is no part of the text
	crlf  int // line ends that are CRLF
	lf    int // line ends that are LF alone
	utf8  int // is src valid UTF-8: 0 not known yet, 1 yes, -1 no
	doubt *charset.Undecided
}

func newMatcher(src []byte) *matcher {
	m := &matcher{src: src}
	if bytes.HasPrefix(src, bom) {
		m.start = len(bom)
	}
	m.crlf = bytes.Count(src, []byte("\r\n"))
	m.lf = bytes.Count(src, []byte("\n")) - m.crlf
	return m
}

func (m *matcher) valid() bool {
	if m.utf8 == 0 {
		m.utf8 = -1
		if utf8.Valid(m.src) {
			m.utf8 = 1
		}
	}
	return m.utf8 > 0
}

// doubts is what a file that is no UTF-8 may be, asked for where it matters.
func (m *matcher) doubts() *charset.Undecided {
	if m.doubt == nil {
		m.doubt = &charset.Undecided{}
		if _, err := charset.Detect(m.src); err != nil {
			m.doubt = err.(*charset.Undecided)
		}
	}
	return m.doubt
}

// notUTF8 refuses what only a known encoding would make possible.
func (m *matcher) notUTF8(text string) *tool.Error {
	u := m.doubts()
	if len(u.Candidates) == 0 {
		return tool.Errorf(tool.Encoding, "the file is not UTF-8; %s", text).
			WithNext("keep to ASCII in this file, or convert it in a terminal")
	}
	e := u.For("")
	e.Text += "; " + text
	return e
}

func (m *matcher) find(e Edit, several bool, index int) ([]span, error) {
	which := "old"
	if several {
		which = fmt.Sprintf("old of edit %d", index+1)
	}
	fail := func(code tool.Code, format string, args ...any) *tool.Error {
		err := tool.Errorf(code, which+" "+format, args...)
		if several {
			err.With("edit", index)
		}
		return err
	}
	if e.Old == "" {
		return nil, fail(tool.InvalidArguments, "is empty").WithNext("give the text to replace; to fill an empty file, write it")
	}
	old, text := e.Old, e.New
	if m.start > 0 {
		// Whoever copies the first line may copy the mark; it stays where it is.
		if o, ok := strings.CutPrefix(old, string(bom)); ok && o != "" {
			old, text = o, strings.TrimPrefix(text, string(bom))
		}
	}
	if !isASCII(text) && !m.valid() {
		return nil, m.notUTF8("the new text is not ASCII, and could mix two encodings")
	}

	limit := maxCounted
	if e.All {
		limit = maxReplacements + 1
	}
	at := m.occurrences([]byte(old), limit, !e.All)
	switch {
	case len(at) == 0:
		if !isASCII(old) && !m.valid() {
			return nil, m.notUTF8("its letters that are not ASCII cannot be matched")
		}
		if bytes.IndexByte(m.src, 0) >= 0 {
			return nil, tool.Errorf(tool.Encoding, "%s does not occur as bytes, and the file holds NUL bytes (binary, or UTF-16 without a mark)", which).
				WithNext("leave the file, or convert it in a terminal")
		}
		err := fail(tool.NoMatch, "does not occur")
		if !m.suggestLineEnds(err, which, old) {
			m.suggest(err, old)
		}
		return nil, err
	case len(at) > 1 && !e.All:
		err := fail(tool.NotUnique, "occurs %s", "")
		m.tellLines(err, which, at)
		return nil, err
	case len(at) > maxReplacements:
		return nil, fail(tool.TooLarge, "occurs more than %d times", maxReplacements).WithNext("use a stream editor in a terminal")
	}
	spans := make([]span, len(at))
	for i, r := range at {
		// In some encodings the second byte of a character looks like ASCII.
		if r.start > m.start && m.src[r.start-1] >= utf8.RuneSelf && !m.valid() && len(m.doubts().Candidates) > 0 {
			return nil, m.notUTF8(fmt.Sprintf("what %s has in line %d may be the half of a character", which, m.line(r.start)))
		}
		fitted, crlf := m.fit(text, old, r)
		spans[i] = span{start: r.start, end: r.end, text: fitted, crlf: crlf, edit: index}
	}
	return spans, nil
}

// region is a match in the file.
type region struct{ start, end int }

// occurrences lists where old occurs, up to limit, from left to right; with
// overlap also those that begin inside another.
func (m *matcher) occurrences(old []byte, limit int, overlap bool) []region {
	var out []region
	switch {
	case bytes.Contains(old, []byte("\r\n")):
		// It says itself how its lines end.
	case m.crlf > 0 && bytes.HasSuffix(old, []byte("\r")):
		out = m.mixed(old, limit, overlap) // the others could end inside a CRLF
	case m.crlf == 0 || !bytes.Contains(old, []byte("\n")):
		out = m.plain(old, limit, overlap)
	case m.lf == 0:
		out = m.plain(bytes.ReplaceAll(old, []byte("\n"), []byte("\r\n")), limit, overlap)
	default:
		out = m.mixed(old, limit, overlap)
	}
	if len(out) == 0 && len(old) > 0 {
		// What line ends cannot explain may still be there to the byte.
		out = m.plain(old, limit, overlap)
	}
	return out
}

func (m *matcher) plain(old []byte, limit int, overlap bool) []region {
	var out []region
	for at := m.start; len(out) < limit; {
		i := bytes.Index(m.src[at:], old)
		if i < 0 {
			break
		}
		at += i
		out = append(out, region{at, at + len(old)})
		if overlap {
			at++
		} else {
			at += len(old)
		}
	}
	return out
}

// mixed looks in a file that has line ends of both kinds. It runs over the file
// as if every CRLF were an LF (Knuth, Morris and Pratt: never back in the file,
// so a hostile text costs no more than a plain one).
func (m *matcher) mixed(old []byte, limit int, overlap bool) []region {
	next := make([]int32, len(old)+1)
	next[0] = -1
	for i, k := 0, int32(-1); i < len(old); {
		for k >= 0 && old[i] != old[k] {
			k = next[k]
		}
		i++
		k++
		next[i] = k
	}
	var out []region
	k := int32(0)
	for i := m.start; i < len(m.src) && len(out) < limit; i++ {
		c := m.src[i]
		if c == '\r' && i+1 < len(m.src) && m.src[i+1] == '\n' {
			continue
		}
		for k >= 0 && (int(k) == len(old) || c != old[k]) {
			k = next[k]
		}
		k++
		if int(k) < len(old) {
			continue
		}
		out = append(out, region{m.back(i+1, len(old)), i + 1})
		if overlap {
			k = next[k]
		} else {
			k = 0
		}
	}
	return out
}

// back finds where a match of n characters that ends at end begins.
func (m *matcher) back(end, n int) int {
	i := end
	for ; n > 0; n-- {
		i--
		if m.src[i] == '\n' && i > m.start && m.src[i-1] == '\r' {
			i--
		}
	}
	return i
}

// fit gives the text that goes to r, and whether LF in it became CRLF.
func (m *matcher) fit(text, old string, r region) (fitted []byte, crlf bool) {
	fitted = []byte(text)
	told := strings.Contains(old, "\n") && string(m.src[r.start:r.end]) == old
	if told || !strings.Contains(text, "\n") || m.ending(r) != "\r\n" {
		return fitted, false
	}
	fitted = []byte(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n"))
	return fitted, len(fitted) > len(text)
}

// ending is how lines end at a match: in it, else after it, else before it.
func (m *matcher) ending(r region) string {
	kind := func(i int) string {
		if i > m.start && m.src[i-1] == '\r' {
			return "\r\n"
		}
		return "\n"
	}
	switch {
	case m.crlf+m.lf == 0:
		return ""
	case m.lf == 0:
		return "\r\n"
	case m.crlf == 0:
		return "\n"
	}
	if i := bytes.IndexByte(m.src[r.start:r.end], '\n'); i >= 0 {
		return kind(r.start + i)
	}
	if i := bytes.IndexByte(m.src[r.end:], '\n'); i >= 0 {
		return kind(r.end + i)
	}
	return kind(bytes.LastIndexByte(m.src[:r.start], '\n'))
}

// suggestLineEnds completes err if old occurs but for CRLF that are LF in the
// file, and reports whether it does.
func (m *matcher) suggestLineEnds(err *tool.Error, which, old string) bool {
	lf := strings.ReplaceAll(old, "\r\n", "\n")
	if lf == old {
		return false
	}
	at := m.occurrences([]byte(lf), 1, true)
	if len(at) == 0 {
		return false
	}
	first, last := m.line(at[0].start), m.line(max(at[0].start, at[0].end-1))
	err.Text = which + " does not occur with CRLF line ends"
	err.Next = fmt.Sprintf("lines %d-%d have this text with other line ends; give old with LF, which matches both kinds", first, last)
	return true
}

// line is the 1-based number of the line that an offset lies in, in the counting
// of every tool here: a line ends with its LF.
func (m *matcher) line(off int) int { return bytes.Count(m.src[:off], []byte("\n")) + 1 }

func (m *matcher) tellLines(err *tool.Error, which string, at []region) {
	lines := make([]int, 0, maxTold)
	last, n := 0, 1
	for _, r := range at[:min(len(at), maxTold)] {
		// A text that begins with a line end is said to be on the next line,
		// where its letters are.
		from := r.start
		for from < r.end && (m.src[from] == '\n' || m.src[from] == '\r') {
			from++
		}
		if from == r.end {
			from = r.start
		}
		n += bytes.Count(m.src[last:max(last, from)], []byte("\n"))
		last = max(last, from)
		lines = append(lines, n)
	}
	count := fmt.Sprint(len(at))
	if len(at) >= maxCounted {
		count = fmt.Sprintf("at least %d", len(at))
	}
	text := strings.Trim(fmt.Sprint(lines), "[]")
	more := ""
	if len(at) > len(lines) {
		more = ", and more"
	}
	err.Text = fmt.Sprintf("%s occurs %s times (lines %s%s)", which, count, strings.ReplaceAll(text, " ", ", "), more)
	err.Next = "add a neighbouring line to make it unique, or set replace_all"
	err.With("count", len(at)).With("lines", lines)
}

// spanLines says which lines of the new file the replacements are.
func spanLines(out []byte, spans []span) []LineRange {
	var lines []LineRange
	shift, last, n := 0, 0, 1
	for _, s := range spans[:min(len(spans), maxSpanLines)] {
		start := s.start + shift
		n += bytes.Count(out[last:start], []byte("\n"))
		last = start
		text := bytes.TrimSuffix(s.text, []byte("\n"))
		lines = append(lines, LineRange{n, n + bytes.Count(text, []byte("\n"))})
		shift += len(s.text) - (s.end - s.start)
	}
	return lines
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
