package search

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// page collects the lines of one file that belong to one page of a result.
//
// A page is a run of matching lines with their context. A context line belongs
// to the match before it, if it is close enough to be that match's context, else
// to the match after it. So two pages never hold the same line, and together
// they hold what one page of unlimited size would.
type page struct {
	path     string
	context  int
	from, to int // the matching lines of this file that are wanted, counted from 0

	lines   []Line
	seen    int  // matching lines so far
	pos     int  // in the buffer: up to here its lines are dealt with
	number  int  // of the line at pos
	owed    int  // context lines that the last match still has
	wanted  bool // the last match is on this page
	covered int  // the last line that belongs to a match so far
	carry   []Line
}

func newPage(path string, context, from, to int) *page {
	return &page{path: path, context: context, from: from, to: to, number: 1}
}

// match takes the line b[lo:hi], in which b[lo+start:lo+end] matches.
func (p *page) match(b []byte, lo, hi, start, end int) error {
	p.after(b, lo)
	if p.seen >= p.to {
		return errStop
	}
	skipped := b[p.pos:lo]
	p.number += bytes.Count(skipped, []byte{'\n'})
	if p.wanted = p.seen >= p.from; p.wanted {
		p.before(skipped)
		text, cut := cutLine(b[lo:hi], start, end, false, false)
		p.add(Line{Line: p.number, Text: text, Cut: cut})
	}
	p.matched()
	p.pos = min(hi+1, len(b))
	return nil
}

// matched counts the line at hand as one more match.
func (p *page) matched() {
	p.seen++
	p.covered = p.number
	p.number++
	p.owed = p.context
}

// full reports that nothing more can come onto the page.
func (p *page) full() bool { return p.seen >= p.to && p.owed == 0 }

// after gives the last match its context lines, as far as they stand before to.
func (p *page) after(b []byte, to int) {
	for p.owed > 0 && p.pos < to {
		hi := bytes.IndexByte(b[p.pos:], '\n') + p.pos
		if hi < p.pos {
			hi = len(b)
		}
		text, cut := "", false
		if p.wanted {
			text, cut = cutLine(b[p.pos:hi], 0, 0, false, false)
		}
		p.pay(text, cut)
		p.pos = min(hi+1, len(b))
	}
}

// pay adds one line to the context of the last match.
func (p *page) pay(text string, cut bool) {
	if p.wanted {
		p.add(Line{Line: p.number, Text: text, Cut: cut, Context: true})
	}
	p.covered = p.number
	p.number++
	p.owed--
}

// before adds the context before the line at hand: the last lines of skipped,
// which ends there, and before them those of earlier buffers.
func (p *page) before(skipped []byte) {
	if p.context == 0 {
		return
	}
	lines := p.tail(skipped)
	for _, l := range lines {
		if l.Line > p.covered && l.Line >= p.number-p.context {
			p.add(l)
		}
	}
}

// tail gives the last lines that may become context: those of b, which ends
// before line p.number, after those that earlier buffers left.
func (p *page) tail(b []byte) []Line {
	var rev []Line
	for n := p.number - 1; len(b) > 0 && len(rev) < p.context; n-- {
		body := b
		if body[len(body)-1] == '\n' {
			body = body[:len(body)-1]
		}
		lo := bytes.LastIndexByte(body, '\n') + 1
		text, cut := cutLine(body[lo:], 0, 0, false, false)
		rev = append(rev, Line{Line: n, Text: text, Cut: cut, Context: true})
		b = b[:lo]
	}
	keep := max(0, len(p.carry)-(p.context-len(rev)))
	out := append([]Line(nil), p.carry[min(keep, len(p.carry)):]...)
	for i := len(rev) - 1; i >= 0; i-- {
		out = append(out, rev[i])
	}
	return out
}

// pass says that the buffer holds no more matches.
func (p *page) pass(b []byte) error {
	p.after(b, len(b))
	if p.full() {
		return errStop
	}
	rest := b[p.pos:]
	p.number += bytes.Count(rest, []byte{'\n'})
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		p.number++
	}
	if p.context > 0 {
		p.carry = p.tail(rest)
	}
	p.pos = 0
	return nil
}

// long takes a line that was longer than the buffer.
func (p *page) long(hit, unseen bool, text, head string) error {
	switch {
	case hit:
		if p.seen >= p.to {
			return errStop
		}
		if p.wanted = p.seen >= p.from; p.wanted {
			p.before(nil)
			p.add(Line{Line: p.number, Text: text, Cut: true, Unseen: unseen})
		}
		p.matched()
	case p.owed > 0:
		p.pay(head, true)
	default:
		p.number++
		if p.context > 0 {
			p.carry = append(p.carry, Line{Line: p.number - 1, Text: head, Cut: true, Context: true})
			p.carry = p.carry[max(0, len(p.carry)-p.context):]
		}
	}
	return nil
}

func (p *page) add(l Line) {
	l.Path = p.path
	if n := len(p.lines); n > 0 {
		l.Gap = p.lines[n-1].Line+1 != l.Line
	}
	p.lines = append(p.lines, l)
}

// cutLine gives what is shown of a line: all of it but its CR, or 2,000 code
// points around line[start:end]. more says that the line goes on before or after
// what is given. The text is valid UTF-8, with U+FFFD for each bad byte.
func cutLine(line []byte, start, end int, moreBefore, moreAfter bool) (text string, cut bool) {
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	start = min(start, len(line))
	end = min(max(start, end), len(line))
	lo, hi := 0, len(line)
	if len(line) > maxLineRunes {
		// Walk from the match to both sides, evenly, a code point at a time.
		lo, hi = start, start
		runes := 0
		for hi < end && runes < maxLineRunes {
			_, n := utf8.DecodeRune(line[hi:])
			hi += n
			runes++
		}
		for runes < maxLineRunes && (lo > 0 || hi < len(line)) {
			if lo > 0 {
				_, n := utf8.DecodeLastRune(line[:lo])
				lo -= n
				runes++
			}
			if hi < len(line) && runes < maxLineRunes {
				_, n := utf8.DecodeRune(line[hi:])
				hi += n
				runes++
			}
		}
	}
	return validUTF8(line[lo:hi]), moreBefore || moreAfter || lo > 0 || hi < len(line)
}

func validUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	out.Grow(len(b) + 16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
