package tool

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// QuotePath returns p as it can stand in one line of text: unchanged if every
// rune is printable, else as a Go string literal, so that control characters,
// line ends, bidirectional marks and invalid UTF-8 in a file name cannot forge
// lines or reorder what a person reads.
func QuotePath(p string) string {
	plain := p != "" && utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool {
		return !unicode.IsPrint(r)
	})
	if plain {
		return p
	}
	return strconv.Quote(p)
}
