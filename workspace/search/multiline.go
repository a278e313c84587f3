package search

import (
	"bytes"
	"io"
)

// whole searches a file as one text, in which matches may span lines.
func (s *scanner) whole(t *text, size int64) (tooLarge bool, err error) {
	most := maxWhole
	if !s.p.exact {
		most = min(most, max(minBuffer, maxSteps*4/s.p.insts))
	}
	buf := s.buf
	if want := min(size+1, int64(most)); int64(len(buf)) < want {
		buf = make([]byte, want)
	}
	n := 0
	for {
		if err := s.ctx.Err(); err != nil {
			return false, err
		}
		k, err := t.fill(buf[n:])
		n += k
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if n == len(buf) {
			if n >= most {
				return true, nil
			}
			buf = append(buf, make([]byte, min(n, most-n))...)
		}
	}
	s.buf = buf
	b := buf[:n]
	if loneCR(b) {
		replace(b, '\r', '\n')
	}
	if s.f != nil {
		if s.f.reset(); s.f.next(b, 0) < 0 {
			return false, nil
		}
	}
	return false, s.spans(b)
}

// spans goes through the matches in a whole text, and the lines that they touch.
func (s *scanner) spans(b []byte) error {
	var err error
	shown := -1 // where the last line that counted ends
	s.matches(b, func(start, end int) bool {
		switch s.aim {
		case aimFirst:
			s.hits = 1
			return false
		case aimMatches:
			s.hits++
			return true
		}
		if start == len(b) && (len(b) == 0 || b[len(b)-1] == '\n') {
			return false // behind the last line's end there is no line
		}
		for at := start; at == start || at < end; {
			lo := bytes.LastIndexByte(b[:at], '\n') + 1
			hi := bytes.IndexByte(b[at:], '\n') + at
			if hi < at {
				hi = len(b)
			}
			at = hi + 1
			if hi <= shown {
				continue
			}
			shown = hi
			s.hits++
			if s.out != nil {
				if err = s.out.match(b, lo, hi, max(start, lo)-lo, max(start, lo, min(end, hi))-lo); err != nil {
					return false
				}
			}
		}
		return true
	})
	if err == nil && s.out != nil {
		err = s.out.pass(b)
	}
	return err
}

// matches calls fn for each match in a whole text until fn returns false.
func (s *scanner) matches(b []byte, fn func(start, end int) bool) {
	switch {
	case s.p.exact:
		n := &s.p.needles[0]
		m := mark{a: -1, b: -1, found: -1}
		for at := n.search(b, 0, &m); at != none; at = n.search(b, at+len(n.text), &m) {
			if !fn(at, at+len(n.text)) {
				return
			}
		}
	case s.aim == aimFirst:
		if loc := s.p.re.FindIndex(b); loc != nil {
			fn(loc[0], loc[1])
		}
	default:
		all := s.p.re.FindAllIndex(b, maxMatches+1)
		if len(all) > maxMatches {
			all, s.more = all[:maxMatches], true
		}
		for _, loc := range all {
			if !fn(loc[0], loc[1]) {
				return
			}
		}
	}
}
