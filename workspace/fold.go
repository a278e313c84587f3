package workspace

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Two names that some file system takes for one have one folded form. File
// systems differ in what they ignore (case, forms of composition, code points that
// are not seen, what stands after a colon, dots and blanks at the end), so the
// fold ignores all of it: on a system that does not, a few more names are
// protected than need be.

// maxFolds bounds how often a name is folded again because the last time changed
// it; three is the most that any name is known to need.
const maxFolds = 5

// appendFolded appends the folded form of a canonical path to dst, component by
// component. odd says that more than the case of ASCII letters differs.
func appendFolded(dst []byte, path string) (folded []byte, odd bool) {
	start := len(dst)
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c >= utf8.RuneSelf {
			odd = true
			end := i + 1
			for end < len(path) && path[end] != '/' {
				end++
			}
			begin := strings.LastIndexByte(path[:i], '/') + 1
			dst = append(dst[:start], foldUnicode(path[begin:end])...)
			if i = end; i == len(path) {
				break
			}
			c = '/'
		}
		switch {
		case c == '/':
			n := len(dst)
			dst = trimName(dst, start)
			odd = odd || len(dst) < n
			dst = append(dst, c)
			start = len(dst)
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	n := len(dst)
	dst = trimName(dst, start)
	return dst, odd || len(dst) < n
}

// trimName takes dots and blanks off the end of a name, unless it is nothing else.
func trimName(dst []byte, start int) []byte {
	end := len(dst)
	for end > start && (dst[end-1] == '.' || dst[end-1] == ' ') {
		end--
	}
	if end == start {
		return dst
	}
	return dst[:end]
}

// fold is the folded form of a path or name as a string.
func fold(path string) string {
	folded, _ := appendFolded(make([]byte, 0, len(path)), path)
	return string(folded)
}

// foldUnicode is the fold of letters. Bytes that are not UTF-8 stay, and so does a
// name in which nothing is seen.
func foldUnicode(s string) string {
	name := s
	for range maxFolds {
		next := norm.NFKC.String(foldRunes(norm.NFKC.String(s)))
		if next == s {
			break
		}
		s = next
	}
	if s == "" {
		return name
	}
	return strings.ReplaceAll(s, "/", "\u2215") // from letters that hold a slash, which separates nothing
}

func foldRunes(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteByte(s[i])
		case unseen(r):
		case r == 'ß' || r == 'ẞ': // the one letter whose full folding is plain ASCII
			b.WriteString("ss")
		default:
			b.WriteRune(foldRune(r))
		}
		i += n
	}
	return b.String()
}

// foldRune gives one letter for all that differ in case only: the first of them in
// order, in lower case.
func foldRune(r rune) rune {
	if unicode.SimpleFold(r) == r {
		return r
	}
	least := r
	for f := r; ; {
		if f < least {
			least = f
		}
		if f = unicode.SimpleFold(f); f == r {
			break
		}
	}
	return unicode.ToLower(least)
}

// unseen reports whether a code point is one that some system ignores in names,
// or that nobody sees: Default_Ignorable_Code_Point, and all that only formats.
func unseen(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	}
	return 0xe0000 <= r && r <= 0xe0fff || 0xfff0 <= r && r <= 0xfff8
}

// withoutStreams cuts every component of a folded path at its first colon: what
// stands after it names a stream of the file on NTFS. It returns nil if there is
// no colon.
func withoutStreams(folded []byte) []byte {
	if bytes.IndexByte(folded, ':') < 0 {
		return nil
	}
	out := make([]byte, 0, len(folded))
	for part := range bytes.SplitSeq(folded, []byte{'/'}) {
		if i := bytes.IndexByte(part, ':'); i > 0 {
			part = bytes.TrimRight(part[:i], ". ")
		}
		out = append(append(out, part...), '/')
	}
	return out[:len(out)-1]
}

// shortName takes a folded name apart that has the form of those that NTFS and
// FAT make up for long names: "git~1", "mcp~2.jso", "gi7eba~1".
func shortName(name []byte) (stem, ext []byte, ok bool) {
	t := bytes.IndexByte(name, '~')
	if t < 1 || t > 6 && utf8.RuneCount(name[:t]) > 6 {
		return nil, nil, false
	}
	i := t + 1
	for i < len(name) && '0' <= name[i] && name[i] <= '9' {
		i++
	}
	if i == t+1 || i < len(name) && (name[i] != '.' || utf8.RuneCount(name[i:]) > 4) {
		return nil, nil, false
	}
	if i < len(name) {
		ext = name[i+1:]
	}
	return name[:t], ext, true
}

// shortForm gives the stem (at most six letters) and the extension that the short
// name of a folded name has.
func shortForm(name string) (stem, ext string) {
	name = strings.TrimLeft(strings.ReplaceAll(name, " ", ""), ".")
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name, ext = name[:i], name[i+1:]
	}
	name = strings.ReplaceAll(name, ".", "")
	return cut(name, 6), cut(ext, 3)
}

// cut gives the first n letters.
func cut(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// hashed gives the first two letters of a short name's stem, if four hexadecimal
// digits come after them, as for the fifth long name and those that follow.
func hashed(stem []byte) (letters []byte, ok bool) {
	if len(stem) < 6 || utf8.RuneCount(stem) != 6 {
		return nil, false
	}
	for _, c := range stem[len(stem)-4:] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return nil, false
		}
	}
	return stem[:len(stem)-4], true
}
