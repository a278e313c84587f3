package server

import (
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Unlike encoding/json it leaves <, >
// and & alone: the text goes to a model, not into a page. Invalid UTF-8 becomes
// U+FFFD, one a byte.
func appendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = valid(s)
	}
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if plain[c] || c >= utf8.RuneSelf {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// valid replaces every invalid byte of s.
func valid(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for _, r := range s { // range gives U+FFFD for each invalid byte
		b.WriteRune(r)
	}
	return b.String()
}

// appendJSON appends raw if it is one JSON object, in a form that fits on one
// line; ok says whether it was. Raw comes from a module or another server, and
// a line end between two members would break the stream.
func appendJSON(dst []byte, raw []byte) (_ []byte, ok bool) {
	s := scanner{b: raw}
	if s.peek() != '{' || !s.value(0) || !s.end() {
		return dst, false
	}
	from := len(dst)
	dst = append(dst, raw...)
	for i, c := range dst[from:] {
		if c == '\n' || c == '\r' { // inside a string it would be no JSON
			dst[from+i] = ' '
		}
	}
	return dst, true
}

// clip returns the first n characters of s.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := 0
	for i := range s {
		if at == n {
			return s[:i]
		}
		at++
	}
	return s
}
