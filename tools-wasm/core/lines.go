package main

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// Lines end at LF or CRLF; at a lone CR only in a file without any LF; never at
// a form feed or one of Unicode's line ends. The end belongs to its line, so
// that a file of ten lines has ten, with or without a last line end. The host's
// search splits in the same way.

// keptBytes is how much of a wanted line is kept: enough for linePoints code
// points of four bytes, and for the CR before a line end.
const keptBytes = 4*linePoints + 4

// line is one wanted line.
type line struct {
	number int64
	start  int64  // byte of the text at which it begins
	length int64  // bytes, without the line end
	text   []byte // of these, the first keptBytes at most; valid during the call only
	ending ending // how it ended
}

type ending uint8

const (
	noEnding ending = iota
	endLF
	endCRLF
	endCR
)

// splitter takes a text in pieces and hands out the lines from first to last,
// then only counts.
type splitter struct {
	first, last int64
	loneCR      bool
	each        func(line)

	count  int64  // lines finished
	kept   []byte // of the line that is not finished
	start  int64  // where it begins
	length int64  // of it so far
	prevCR bool   // its last byte is a CR
}

// skipBytes is how much is counted at once before the first wanted line.
const skipBytes = 4 << 10

func (s *splitter) feed(p []byte) {
	end := byte('\n')
	if s.loneCR {
		end = '\r'
	}
	for len(p) > 0 {
		number := s.count + 1
		switch {
		case number > s.last:
			s.skip(p, countByte(p, end), end)
			return
		case number < s.first:
			block := p[:min(len(p), skipBytes)]
			if n := countByte(block, end); number+n < s.first {
				s.skip(block, n, end)
				p = p[len(block):]
				continue
			}
			// The first wanted line begins in this block.
			for s.count+1 < s.first {
				i := bytes.IndexByte(p, end)
				s.skip(p[:i+1], 1, end)
				p = p[i+1:]
			}
			continue
		}
		i := bytes.IndexByte(p, end)
		if i < 0 {
			s.grow(p)
			return
		}
		s.grow(p[:i])
		s.finish(endLF)
		p = p[i+1:]
	}
}

// skip goes over p, in which n lines end, none of which is wanted.
func (s *splitter) skip(p []byte, n int64, end byte) {
	s.count += n
	if n == 0 {
		s.length += int64(len(p))
		return
	}
	tail := int64(len(p) - 1 - bytes.LastIndexByte(p, end))
	s.start += s.length + int64(len(p)) - tail
	s.length, s.prevCR = tail, false
}

func (s *splitter) grow(p []byte) {
	if len(p) == 0 {
		return
	}
	s.length += int64(len(p))
	s.prevCR = p[len(p)-1] == '\r'
	if n := s.count + 1; n >= s.first && n <= s.last && len(s.kept) < keptBytes {
		s.kept = append(s.kept, p[:min(len(p), keptBytes-len(s.kept))]...)
	}
}

func (s *splitter) finish(how ending) {
	s.count++
	endBytes := int64(1)
	length := s.length
	switch {
	case how == noEnding:
		endBytes = 0
	case s.loneCR:
		how = endCR
	case s.prevCR:
		how = endCRLF
		length--
		s.kept = s.kept[:min(int64(len(s.kept)), length)]
	}
	if s.count >= s.first && s.count <= s.last {
		s.each(line{number: s.count, start: s.start, length: length, text: s.kept, ending: how})
	}
	s.start += s.length + endBytes
	s.length, s.kept, s.prevCR = 0, s.kept[:0], false
}

// close ends the last line, if the text does not end in a line end.
func (s *splitter) close() {
	if s.length > 0 {
		s.finish(noEnding)
	}
}

// hasLoneCR reports whether lines end at a lone CR: the text has a CR and no
// LF. It reads to the first LF, at most scanBytes.
func (f *opened) hasLoneCR() (bool, error) {
	if !f.enc.wide() && bytes.IndexByte(f.head, '\n') >= 0 {
		return false, nil
	}
	s := f.newSource()
	cr := false
	for s.off < scanBytes {
		p, err := s.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, err
		}
		if bytes.IndexByte(p, '\n') >= 0 {
			return false, nil
		}
		cr = cr || bytes.IndexByte(p, '\r') >= 0
	}
	return cr, nil
}

// shown is a line as it can stand in an answer.
type shown struct {
	text  string // valid UTF-8, at most linePoints code points
	whole bool   // all of the line
	bad   int    // bytes that are no UTF-8, each shown as U+FFFD
}

func show(l line) shown {
	if len(l.text) <= linePoints && int64(len(l.text)) == l.length && utf8.Valid(l.text) {
		return shown{text: string(l.text), whole: true} // nearly every line
	}
	var out []byte
	s := shown{}
	i := 0
	for points := 0; i < len(l.text) && points < linePoints; points++ {
		r, n := utf8.DecodeRune(l.text[i:])
		if r == utf8.RuneError && n == 1 {
			s.bad++
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	s.text = string(out)
	s.whole = int64(i) == l.length
	return s
}
