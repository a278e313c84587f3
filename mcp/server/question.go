package server

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
)

// A question is cut where clients cut or scroll: they draw it into a dialog or
// above a prompt, and what is out of sight is not read.
const (
	maxQuestionLines = 80
	maxQuestionText  = 6000 // characters
	maxQuestionLine  = 240  // characters of one line
)

// questionText is what the person sees: all of the request if it fits, else its
// title, its warnings and as much of the rest as fits, with a count of what does
// not and where it can be seen.
func questionText(r approval.Request) string { return fit(show.Lines(r, show.Options{}), r.Ticket) }

func fit(lines []show.Line, ticket string) string {
	const closing = 300 // characters kept free for the last line
	keep := make([]bool, len(lines))
	n, chars := 0, 0
	take := func(i int) bool {
		size := min(utf8.RuneCountInString(lines[i].Text), maxQuestionLine+16) + 1
		if n >= maxQuestionLines || chars+size > maxQuestionText-closing {
			return false
		}
		keep[i] = true
		n++
		chars += size
		return true
	}
	for i, l := range lines {
		if l.Kind == show.Title || l.Kind == show.Warning {
			take(i)
		}
	}
	cut := false
	for i := range lines {
		if !keep[i] && (cut || !take(i)) {
			cut = true // and nothing after it, or the text would have holes
		}
	}
	var b strings.Builder
	left, shortened := 0, false
	for i, l := range lines {
		if !keep[i] {
			left++
			continue
		}
		text := clip(l.Text, maxQuestionLine)
		b.WriteString(text)
		if len(text) < len(l.Text) {
			b.WriteString(" [...]")
			shortened = true
		}
		b.WriteByte('\n')
	}
	switch {
	case left > 0:
		fmt.Fprintf(&b, "\nNot all is shown: %d more lines. See all of it before you allow it: wasmtools approvals show %s\n", left, ticket)
	case shortened:
		fmt.Fprintf(&b, "\nLong lines are cut, marked [...]. See all of it: wasmtools approvals show %s\n", ticket)
	}
	return b.String()
}
