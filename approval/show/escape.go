package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The marks. A literal mark in a text is escaped as well, so that two different
// texts never look the same.
const (
	opening = '⟨'
	closing = '⟩'
	tab     = '⇥'
	tabWide = "⇥   " // a tab always looks like this, whatever column it is in
)

// maxMarks is how many combining characters may follow one letter. Real text
// needs two or three; a stack of them draws over the lines around it.
const maxMarks = 3

// Block makes a text of several lines safe to show. Line feeds stay; every
// other control character, everything invisible, every space but the common
// one, bidirectional controls, unassigned and private characters and bytes that
// are not UTF-8 become ⟨names⟩. Letters of right-to-left scripts stay, because
// they are what such a text is made of; see [Inline] for single values.
func Block(s string) string { return escape(s, true, true) }

// Inline makes one value (a path, a host, a word) safe to show within a line:
// as Block, but line feeds become ⟨LF⟩ and right-to-left letters, which reorder
// what stands beside them, are named too.
func Inline(s string) string { return escape(s, false, false) }

// Clean returns s if it holds no character that [Inline] would name for its
// own sake, else Inline of it: for text that another process has made safe
// already, and should not be trusted to.
func Clean(s string) string {
	if plain(s) || !strings.ContainsFunc(s, func(r rune) bool { return invisible(r) || isRightToLeft(r) }) {
		return s
	}
	return Inline(s)
}

// command is a text that will run: line feeds stay, and the order of what is
// shown is the order of what is run.
func command(s string) string { return escape(s, true, false) }

func escape(s string, lines, rightToLeft bool) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := maxMarks // none may stand at the beginning
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "%cx%02X%c", opening, s[i], closing)
			marks = maxMarks
		case r == '\n' && lines:
			b.WriteByte('\n')
			marks = maxMarks
		case r == '\t':
			b.WriteString(tabWide)
			marks = maxMarks
		case unicode.Is(unicode.M, r) && !invisible(r):
			if marks == maxMarks {
				name(&b, r)
			} else {
				marks++
				b.WriteRune(r)
			}
		case invisible(r), r == opening, r == closing, r == tab, !rightToLeft && isRightToLeft(r):
			name(&b, r)
			marks = maxMarks
		default:
			b.WriteRune(r)
			marks = 0
			if r == ' ' {
				marks = maxMarks
			}
		}
		i += size
	}
	return b.String()
}

// plain reports whether s is printable ASCII, which needs nothing.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// invisible reports whether a person could not see r, or not tell it from
// something else of the same look.
func invisible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r < ' ' || r > '~'
	case !unicode.IsPrint(r): // controls, format characters, odd spaces, private, unassigned
		return true
	case r == '\u2800', r == '\ufffc': // a Braille cell without dots; the place of an object
		return true
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Bidi_Control)
}

// rightToLeft are the ranges whose characters, assigned or not, run from right
// to left (UAX #9, section 3.2, default classes R and AL).
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0590, Hi: 0x08FF, Stride: 1}, {Lo: 0xFB1D, Hi: 0xFDFF, Stride: 1}, {Lo: 0xFE70, Hi: 0xFEFF, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10FFF, Stride: 1}, {Lo: 0x1E800, Hi: 0x1EFFF, Stride: 1}},
}

func isRightToLeft(r rune) bool { return r >= 0x0590 && unicode.Is(rightToLeft, r) }

// name writes the name of r.
func name(b *strings.Builder, r rune) {
	n := known(r)
	if n == "" {
		n = fmt.Sprintf("U+%04X", r)
	}
	b.WriteRune(opening)
	b.WriteString(n)
	b.WriteRune(closing)
}

// known are short names that people know better than numbers.
func known(r rune) string {
	switch r {
	case 0x00:
		return "NUL"
	case 0x07:
		return "BEL"
	case 0x08:
		return "BS"
	case '\n':
		return "LF"
	case '\r':
		return "CR"
	case 0x1b:
		return "ESC"
	case 0x7f:
		return "DEL"
	case 0x9b:
		return "CSI"
	case 0xa0:
		return "NBSP"
	case 0xad:
		return "SHY"
	case 0x200b:
		return "ZWSP"
	case 0x200c:
		return "ZWNJ"
	case 0x200d:
		return "ZWJ"
	case 0x200e:
		return "LRM"
	case 0x200f:
		return "RLM"
	case 0x202a:
		return "LRE"
	case 0x202b:
		return "RLE"
	case 0x202c:
		return "PDF"
	case 0x202d:
		return "LRO"
	case 0x202e:
		return "RLO"
	case 0x2066:
		return "LRI"
	case 0x2067:
		return "RLI"
	case 0x2068:
		return "FSI"
	case 0x2069:
		return "PDI"
	case 0xfeff:
		return "BOM"
	}
	return ""
}

// mixed reports whether a word of s has letters of Latin and of a script that
// looks like it: the usual way to imitate a name.
func mixed(s string) bool {
	if plain(s) {
		return false
	}
	latin, other := false, false
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.Is(unicode.M, r):
			latin, other = false, false
		case unicode.Is(unicode.Latin, r):
			latin = true
		case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee):
			other = true
		}
		if latin && other {
			return true
		}
	}
	return false
}
