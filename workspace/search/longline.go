package search

import (
	"io"
	"unicode/utf8"
)

// each gives the matches in b, which is a line, or a part of one if it is not
// both the first and the last part, window by window. A match counts in the
// window that it begins in, outside the lap that the next one begins with, so
// that it is seen with what follows; the bytes before the lap let the engine see
// what comes before it. Matches that begin before from are left out. It returns
// where the last match ended.
func (s *scanner) each(b []byte, first, last bool, from int, fn func(start, end int) bool) int {
	if s.p.exact {
		n := &s.p.needles[0]
		m := mark{a: -1, b: -1, found: -1}
		limit := len(b)
		if !last {
			limit -= s.lap
		}
		if !first {
			from = max(from, utf8.UTFMax)
		}
		for {
			at := n.search(b, from, &m)
			if at >= limit {
				return from
			}
			from = at + len(n.text)
			if !fn(at, from) {
				return from
			}
		}
	}
	for off := 0; ; {
		w := b[off:min(len(b), off+s.window)]
		head := first && off == 0
		tail := off+len(w) == len(b)
		limit := off + len(w)
		if !tail || !last {
			limit -= s.lap
		}
		least := off
		if !head {
			least += utf8.UTFMax
		}
		var all [][]int
		if s.mayMatch(w) {
			all = s.p.re.FindAllIndex(w, -1)
		}
		for _, loc := range all {
			start, end := off+loc[0], off+loc[1]
			if start < max(from, least) || start >= limit && !(tail && last) {
				continue
			}
			from = end
			if !fn(start, end) {
				return from
			}
		}
		if tail || s.ctx.Err() != nil {
			return from
		}
		off = limit - utf8.UTFMax
	}
}

// inOne gives the first match in a line in which no window holds one: it may be
// longer than what two windows share. The engine reads the line at one go, rune
// by rune, so that the context can end it.
func (s *scanner) inOne(line []byte) (start, end int) {
	if !s.mayBeLong() || !s.mayMatch(line) {
		return -1, -1
	}
	loc := s.p.re.FindReaderIndex(&runes{s: s, b: line})
	if loc == nil || s.ctx.Err() != nil {
		return -1, -1
	}
	return loc[0], loc[1]
}

// mayBeLong reports whether a match can be longer than what two windows share.
// Without repetition it has at most as many characters as there are instructions.
func (s *scanner) mayBeLong() bool {
	return !s.p.exact && (s.p.endless || s.p.insts*utf8.UTFMax >= s.lap)
}

// runes gives a line to the engine until the context ends.
type runes struct {
	s *scanner
	b []byte
	n int
}

func (r *runes) ReadRune() (rune, int, error) {
	if r.n++; r.n*max(1, r.s.p.insts) > maxSteps/16 {
		r.n = 0
		if err := r.s.ctx.Err(); err != nil {
			return 0, 0, err
		}
	}
	if len(r.b) == 0 {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(r.b)
	r.b = r.b[n:]
	return c, n, nil
}

// mayMatch is false only if no match can lie in w.
func (s *scanner) mayMatch(w []byte) bool {
	if s.g == nil {
		return true
	}
	s.g.reset()
	return s.g.next(w, 0) >= 0
}

// longLine is a line that does not fit the buffer, while it passes by.
type longLine struct {
	open bool
	hit  bool
	from int // in the piece that comes next: where matches may begin
	text string
	head string // how the line begins, in case it is context

	matches int
	state   int32 // of the dfa, which judges the line as a whole
}

// longPiece searches the next part of a long line: all of the buffer, of which
// the caller keeps the last lap, or with last what completes the line.
func (s *scanner) longPiece(b []byte, last bool) error {
	l := &s.long
	first := !l.open
	if first {
		l.open = true
		l.state = dfaStart
		if s.out != nil {
			l.head, _ = cutLine(b, 0, 0, false, true)
		}
	}
	s.judge(b, first, last)
	if l.state == dfaMatch && !l.hit && (s.aim == aimFirst || s.aim == aimLines) {
		l.hit = true
		s.hits++
	}
	end := l.from
	if l.state < dfaStart && (!l.hit || s.aim == aimMatches) {
		end = s.each(b, first, last, l.from, func(start, end int) bool {
			if s.aim == aimMatches {
				s.hits++
				l.matches++
				return true
			}
			if !l.hit {
				l.hit = true
				s.hits++
				if s.out != nil {
					l.text, _ = cutLine(b, start, end, !first, !last)
				}
			}
			return false
		})
	}
	l.from = max(0, end-(len(b)-s.lap-utf8.UTFMax))
	if s.aim == aimFirst && l.hit {
		s.done = true
	}
	if !last {
		return nil
	}
	unseen := false
	switch {
	case l.hit || l.matches > 0 || l.state >= dfaStart:
	case l.state == dfaMatch: // longer than a window, so nobody can say where
		s.hits++
		l.hit, unseen, l.text = true, true, l.head
		s.done = s.aim == aimFirst
	case s.mayBeLong(): // the table cannot tell
		s.more = true
	}
	done := *l
	*l = longLine{}
	if s.out != nil {
		return s.out.long(done.hit, unseen, done.text, done.head)
	}
	return nil
}

// judge lets the dfa see what is new in a piece: all of the first one, and of
// the others what comes after the lap. As long as it goes on, no match has ended.
func (s *scanner) judge(b []byte, first, last bool) {
	l := &s.long
	if s.p.exact || s.d == nil {
		l.state = dfaUnsure
	}
	if l.state < dfaStart {
		return // it has judged
	}
	if !first {
		b = b[min(len(b), s.lap+utf8.UTFMax):]
	}
	l.state = s.d.run(l.state, b)
	if last {
		l.state = s.d.run(l.state, []byte{'\n'})
	}
}
