package show

import (
	"strings"
	"unicode/utf8"
)

// What begins a row that a stranger wrote, and every row that goes on with a
// line that was too long for one.
const (
	bar  = "  | "
	more = "  > "
)

// minWidth is what wrapping needs at least; a narrower terminal wraps itself.
const minWidth = 24

type printer struct {
	width int
	lines []Line
}

func (p *printer) line(k Kind, text string) { p.wrap(k, "", text) }

func (p *printer) label(text string) {
	p.lines = append(p.lines, Line{Plain, ""})
	p.wrap(Label, "", text)
}

func (p *printer) warn(text string) { p.wrap(Warning, "  warning: ", text) }

// field is a short fact of the host's.
func (p *printer) field(name, value string) {
	if value == "" {
		return
	}
	// Wide enough for a digest in 80 columns.
	head := name + strings.Repeat(" ", max(1, 8-len(name)))
	p.wrap(Plain, head, value)
}

// quoteAll is text of a stranger, already escaped, of any number of lines.
func (p *printer) quoteAll(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		p.quote(Quoted, line)
	}
}

// quote is one line of it.
func (p *printer) quote(k Kind, line string) { p.wrap(k, bar, line) }

// wrap appends text as one line, or as several if it is wider than the terminal:
// the terminal's own wrapping would begin a row with whatever a stranger wrote.
func (p *printer) wrap(k Kind, first, text string) {
	if p.width < minWidth {
		p.lines = append(p.lines, Line{k, first + text})
		return
	}
	head := first
	for {
		n := fits(text, p.width-columns(head))
		p.lines = append(p.lines, Line{k, head + text[:n]})
		text, head = text[n:], more
		if text == "" {
			return
		}
	}
}

// Fit cuts a line to so many columns.
func Fit(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return s[:fits(s, width)]
}

// fits is how many bytes of s take at most width columns, at least one
// character.
func fits(s string, width int) int {
	used := 0
	for i, r := range s {
		w := runeColumns(r)
		if used+w > width && i > 0 {
			return i
		}
		used += w
	}
	return len(s)
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns is a bound: what is not ASCII takes two columns at most, and a
// row that ends early does no harm.
func runeColumns(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	return 2
}
