// Package jsonsize counts what text takes in JSON, without making it. Limits of
// what a model is shown are in those bytes.
package jsonsize

import "unicode/utf8"

// Len is the length of s in a JSON string, without the quotes. Where encoders
// differ it is the longer form, but for <, > and &, which no surface of ours
// escapes. An invalid byte is U+FFFD there, raw or escaped.
func Len(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if c := ascii[s[i]]; c != 0 {
			n, i = n+int(c), i+1
			continue
		}
		size, width := at(s, i)
		n, i = n+size, i+width
	}
	return n
}

// ascii is how many bytes of JSON a character takes; 0 beyond ASCII. A table is
// four times as quick as the conditions, and every text of every call is counted.
var ascii = func() (t [256]uint8) {
	for i := range utf8.RuneSelf {
		size, _ := at(string(rune(i)), 0)
		t[i] = uint8(size)
	}
	return t
}()

// at is how many bytes of JSON the character at i takes, and how many of s.
func at(s string, i int) (size, width int) {
	c := s[i]
	switch {
	case c >= utf8.RuneSelf:
		r, w := utf8.DecodeRuneInString(s[i:])
		switch {
		case w == 1:
			return len(`\ufffd`), 1
		case r == '\u2028' || r == '\u2029':
			return 6, w
		}
		return w, w
	case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
		return 2, 1
	case c < ' ':
		return 6, 1
	}
	return 1, 1
}

// Prefix is the longest beginning of s of whole characters that takes at most n
// bytes of JSON.
func Prefix(s string, n int) string {
	size := 0
	for i := 0; i < len(s); {
		c, w := at(s, i)
		if size += c; size > n {
			return s[:i]
		}
		i += w
	}
	return s
}

// Suffix is the longest end of s of whole characters that takes at most n bytes
// of JSON.
func Suffix(s string, n int) string {
	if from := len(s) - max(n, 0); from > 0 { // no character takes fewer bytes than it has
		for i := 0; i < utf8.UTFMax-1 && from < len(s) && !utf8.RuneStart(s[from]); i++ {
			from++
		}
		s = s[from:]
	}
	over, i := Len(s)-n, 0
	for over > 0 && i < len(s) {
		c, w := at(s, i)
		over, i = over-c, i+w
	}
	return s[i:]
}
