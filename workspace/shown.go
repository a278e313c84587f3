package workspace

import (
	"strings"
	"unicode/utf8"
)

// ShownPath gives a path as JSON can carry it. A name that is not UTF-8 cannot be
// written there: its bad bytes become \xNN, and the second result says so,
// because the text is then no path that could be opened.
func ShownPath(path string) (string, bool) {
	if utf8.ValidString(path) {
		return path, false
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := 0; i < len(path); {
		r, n := utf8.DecodeRuneInString(path[i:])
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x`)
			b.WriteByte(hex[path[i]>>4])
			b.WriteByte(hex[path[i]&15])
		} else {
			b.WriteString(path[i : i+n])
		}
		i += n
	}
	return b.String(), true
}
