package search

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

// aim is what a scan has to find out about a file.
type aim uint8

const (
	aimFirst   aim = iota // whether it matches
	aimLines              // how many lines match
	aimMatches            // how many matches there are
	aimShow               // the matching lines themselves, for a page
)

// tally is what a scan found out.
type tally struct {
	hits     int  // lines, or matches; at most 1 with aimFirst
	more     bool // hits is a lower bound
	binary   bool // a NUL ended it, or, in a named file, was taken for a line end
	tooLarge bool // to be searched with multiline
}

// scanner searches one file after another. It belongs to one goroutine.
type scanner struct {
	p      *pattern
	f      *finder // nil if the pattern has no needles
	g      *finder // the same for windows of a line that f is in the midst of
	d      *dfa    // nil if there is none, or none any more
	buf    []byte
	most   int // bytes that buf may have; a longer line passes by in pieces
	window int // the longest text given to the engine at once
	lap    int // what two windows of one line share

	// Of the file at hand.
	ctx   context.Context
	aim   aim
	out   *page // with aimShow
	hits  int
	more  bool
	done  bool // nothing more to look for
	steps int  // work since the context was last looked at
	long  longLine
}

func newScanner(p *pattern) *scanner {
	s := &scanner{p: p, buf: make([]byte, minBuffer), most: maxBuffer, window: maxWindow}
	if len(p.needles) > 0 {
		s.f, s.g = newFinder(p.needles), newFinder(p.needles)
	}
	if !p.exact {
		if !p.multiline {
			s.d = newDFA(p.prog)
		}
		s.window = min(maxWindow, max(64<<10, maxSteps/p.insts))
	}
	s.lap = min(overlap, s.window/4)
	return s
}

var (
	errStop    = errors.New("nothing more to look for")
	errRestart = errors.New("the file has to be read again")
)

// ends says how the lines of a file end.
type ends uint8

const (
	endsUnknown ends = iota
	endsLF
	endsCR // no LF in the whole file
)

// scan searches r from its start. size is a hint; 0 means unknown. A file with a
// NUL near its start is not searched, and one with a later NUL only up to there,
// unless it was named: then it is searched with each NUL as the end of a line.
func (s *scanner) scan(ctx context.Context, r io.ReadSeeker, size int64, named bool, a aim, out *page) (tally, error) {
	s.ctx, s.aim, s.out = ctx, a, out
	plain := false
	var empty page
	if out != nil {
		empty = *out
	}
	for how := endsUnknown; ; {
		s.hits, s.more, s.done, s.steps, s.long = 0, false, false, 0, longLine{}
		t := &text{r: r, left: size, named: named, crOnly: how == endsCR, plain: plain}
		if size <= 0 {
			t.left = -1
		}
		var sum tally
		var err error
		if s.p.multiline {
			sum.tooLarge, err = s.whole(t, size)
		} else {
			err = s.lines(t, &how)
		}
		switch err {
		case errRestart, errDecode:
			if _, err := r.Seek(0, io.SeekStart); err != nil {
				return tally{}, err
			}
			if err == errRestart {
				continue
			}
			plain, how = true, endsUnknown
			if out != nil {
				*out = empty
			}
			if p, ok := decoded(r, size); ok {
				r, size = bytes.NewReader(p), int64(len(p))
			} else if _, err := r.Seek(0, io.SeekStart); err != nil {
				return tally{}, err
			}
			continue
		case errBinary:
			return tally{binary: true}, nil
		case nil, errStop:
			sum.hits, sum.more, sum.binary = s.hits, s.more, t.binary
			return sum, nil
		}
		return tally{}, err
	}
}

// lines searches line by line.
func (s *scanner) lines(t *text, how *ends) error {
	n := 0
	for eof := false; !eof; {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if n == len(s.buf) {
			// Not one line end in the whole buffer.
			if len(s.buf) < s.most {
				s.buf = append(s.buf, make([]byte, min(len(s.buf), s.most-len(s.buf)))...)
			} else if err := s.longPiece(s.buf, false); err != nil {
				return err
			} else {
				n = copy(s.buf, s.buf[n-s.lap-utf8.UTFMax:])
			}
		}
		k, err := t.fill(s.buf[n:])
		if err == io.EOF {
			eof = true
		} else if err != nil {
			return err
		}
		fresh := n
		n += k
		data := s.buf[:n]
		if *how == endsUnknown && (eof || n == len(s.buf) && n >= s.most) {
			switch {
			case !loneCR(data):
				*how = endsLF
			case eof && !s.long.open:
				*how = endsCR
				replace(data, '\r', '\n')
				fresh = 0
			default:
				if *how, err = lineEnds(s.ctx, t); err == nil {
					err = errRestart
				}
				return err
			}
		}
		end := bytes.LastIndexByte(data[fresh:], '\n') + 1
		if end > 0 {
			end += fresh
			if *how == endsUnknown {
				*how = endsLF
			}
		}
		if eof {
			end = n
		}
		start := 0
		if s.long.open && end > 0 {
			stop := bytes.IndexByte(data[fresh:], '\n')
			if stop < 0 {
				stop, start = end, end
			} else {
				stop, start = fresh+stop, fresh+stop+1
			}
			if err := s.longPiece(data[:stop], true); err != nil {
				return err
			}
		}
		if err := s.complete(data[start:end]); err != nil {
			return err
		}
		if s.done {
			return errStop
		}
		n = copy(s.buf, data[end:])
	}
	return nil
}

// lineEnds reads what is left of a file that so far holds CR and no LF.
func lineEnds(ctx context.Context, t *text) (ends, error) {
	buf := make([]byte, minBuffer)
	for {
		if err := ctx.Err(); err != nil {
			return endsUnknown, err
		}
		n, err := t.fill(buf)
		if bytes.IndexByte(buf[:n], '\n') >= 0 {
			return endsLF, nil
		}
		if err == io.EOF {
			return endsCR, nil
		}
		if err != nil {
			return endsUnknown, err
		}
	}
}

// complete searches whole lines; only the file's last may lack its end.
func (s *scanner) complete(b []byte) error {
	if s.done || len(b) == 0 {
		return nil
	}
	if s.f != nil {
		s.f.reset()
	}
	var err error
	if s.d != nil && !s.p.selective() {
		err = s.byTable(b)
	} else {
		err = s.byNeedle(b, 0)
	}
	if err == nil && !s.done && s.out != nil {
		err = s.out.pass(b)
	}
	return err
}

// byTable lets the dfa find the lines.
func (s *scanner) byTable(b []byte) error {
	for pos := 0; pos < len(b); {
		from, sure, ok := s.d.find(b, pos)
		if !ok {
			s.d = nil
			return s.byNeedle(b, pos)
		}
		if from < 0 {
			break
		}
		to := bytes.IndexByte(b[from:], '\n') + from
		if to < from {
			to = len(b)
		}
		if sure && (s.aim == aimFirst || s.aim == aimLines) {
			s.hits++
			s.done = s.aim == aimFirst
		} else if err := s.line(b, from, to, from); err != nil {
			return err
		}
		if s.done {
			return nil
		}
		pos = to + 1
	}
	return nil
}

// byNeedle goes from needle to needle, or without any from line to line.
func (s *scanner) byNeedle(b []byte, pos int) error {
	for pos < len(b) {
		at := pos
		if s.f != nil {
			if at = s.f.next(b, pos); at < 0 {
				break
			}
		}
		if s.p.exact && s.aim == aimMatches {
			s.hits++
			pos = at + len(s.p.needles[0].text)
			continue
		}
		from := pos
		if s.f != nil {
			from = pos + bytes.LastIndexByte(b[pos:at], '\n') + 1
		}
		to := bytes.IndexByte(b[at:], '\n') + at
		if to < at {
			to = len(b)
		}
		if err := s.line(b, from, to, at); err != nil || s.done {
			return err
		}
		pos = to + 1
	}
	return nil
}

// line searches b[from:to], a line in which the finder stopped at at.
func (s *scanner) line(b []byte, from, to, at int) error {
	if s.steps += (to - from + 16) * max(1, s.p.insts); s.steps > maxSteps/4 {
		s.steps = 0
		if err := s.ctx.Err(); err != nil {
			return err
		}
	}
	line := b[from:to]
	if s.d != nil && s.f != nil && s.p.selective() {
		// A needle is there; the table says cheaply whether more is.
		at, sure, ok := s.d.find(line, 0)
		switch {
		case !ok:
			s.d = nil
		case at < 0:
			return nil
		case sure && (s.aim == aimFirst || s.aim == aimLines):
			s.hits++
			s.done = s.aim == aimFirst
			return nil
		}
	}
	if s.aim == aimMatches {
		s.hits += s.count(line)
		return nil
	}
	first, last := at-from, 0
	if s.p.exact {
		last = first + len(s.p.needles[0].text)
	} else {
		if first, last = s.first(line); first < 0 {
			return nil
		}
	}
	s.hits++
	switch s.aim {
	case aimFirst:
		s.done = true
	case aimShow:
		return s.out.match(b, from, to, first, last)
	}
	return nil
}

// first gives the first match in a line, or -1.
func (s *scanner) first(line []byte) (start, end int) {
	if len(line) <= s.window {
		if loc := s.p.re.FindIndex(line); loc != nil {
			return loc[0], loc[1]
		}
		return -1, -1
	}
	start, end = -1, -1
	s.each(line, true, true, 0, func(a, b int) bool {
		start, end = a, b
		return false
	})
	if start < 0 {
		return s.inOne(line)
	}
	return start, end
}

func (s *scanner) count(line []byte) int {
	if !s.p.exact && len(line) <= s.window {
		return len(s.p.re.FindAllIndex(line, -1))
	}
	n := 0
	s.each(line, true, true, 0, func(int, int) bool { n++; return true })
	if n == 0 {
		if start, _ := s.inOne(line); start >= 0 {
			n = 1
		}
	}
	return n
}
