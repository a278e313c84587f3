package search

import "unicode/utf8"

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
}

// longPiece searches the next part of a long line: all of the buffer, of which
// the caller keeps the last lap, or with last what completes the line.
func (s *scanner) longPiece(b []byte, last bool) error {
	l := &s.long
	first := !l.open
	if first {
		l.open = true
		if s.out != nil {
			l.head, _ = cutLine(b, 0, 0, false, true)
		}
	}
	end := l.from
	if !l.hit || s.aim == aimMatches {
		end = s.each(b, first, last, l.from, func(start, end int) bool {
			if s.aim == aimMatches {
				s.hits++
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
	done := *l
	*l = longLine{}
	if s.out != nil {
		return s.out.long(done.hit, done.text, done.head)
	}
	return nil
}
