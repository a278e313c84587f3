package server

import (
	"encoding/json"
	"unicode/utf8"
)

// A scanner walks over JSON text once, checking every byte of it, and lets the
// caller remember where the values stand. It holds to RFC 8259 and is stricter
// than Go's decoders in one point: see [scanner.end].
type scanner struct {
	b    []byte
	i    int
	deep bool // the failure is nesting beyond maxDepth
	high bool // a byte over 0x7f was seen inside a string
}

// plain marks the bytes that stand for themselves inside a JSON string and
// need no thought.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte that is no space, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i == len(s.b) {
		return 0
	}
	return s.b[s.i]
}

// end reports whether nothing but space is left, and all text was valid UTF-8.
// Go's decoders would replace invalid bytes; then the name that was checked and
// the name that was sent are two things.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b) && (!s.high || utf8.Valid(s.b))
}

// value passes over one value whose containers stand at the given depth.
func (s *scanner) value(depth int) bool {
	switch c := s.peek(); c {
	case '"':
		return s.str()
	case '{':
		for more, ok := s.open(depth, '}'); ; more, ok = s.more('}') {
			if !ok || !more {
				return ok
			}
			if _, ok := s.key(); !ok || !s.value(depth+1) {
				return false
			}
		}
	case '[':
		for more, ok := s.open(depth, ']'); ; more, ok = s.more(']') {
			if !ok || !more {
				return ok
			}
			if !s.value(depth + 1) {
				return false
			}
		}
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// span passes over one value and returns its text.
func (s *scanner) span(depth int) ([]byte, bool) {
	s.space()
	from := s.i
	if !s.value(depth) {
		return nil, false
	}
	return s.b[from:s.i:s.i], true
}

// open enters the container that begins here and ends with last; more says
// whether it holds anything.
func (s *scanner) open(depth int, last byte) (more, ok bool) {
	if depth >= maxDepth {
		s.deep = true
		return false, false
	}
	s.i++
	if s.peek() == last {
		s.i++
		return false, true
	}
	return true, true
}

// more stands behind a member and passes over the comma or the end.
func (s *scanner) more(last byte) (more, ok bool) {
	switch s.peek() {
	case ',':
		s.i++
		return true, true
	case last:
		s.i++
		return false, true
	}
	return false, false
}

// key passes over a member's name and the colon.
func (s *scanner) key() (string, bool) {
	if s.peek() != '"' {
		return "", false
	}
	from := s.i
	if !s.str() {
		return "", false
	}
	raw := s.b[from:s.i]
	if s.peek() != ':' {
		return "", false
	}
	s.i++
	return known(raw), true
}

// str passes over a string; s.i stands on its first quote.
func (s *scanner) str() bool {
	b, j := s.b, s.i+1
	for {
		for j < len(b) && plain[b[j]] {
			j++
		}
		if j >= len(b) {
			return false
		}
		switch c := b[j]; {
		case c == '"':
			s.i = j + 1
			return true
		case c >= utf8.RuneSelf:
			s.high = true
			j++
		case c != '\\' || j+1 >= len(b):
			return false
		default:
			switch b[j+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				j += 2
			case 'u':
				if len(b)-j < 6 || !hex4(b[j+2:j+6]) {
					return false
				}
				j += 6
			default:
				return false
			}
		}
	}
}

func hex4(b []byte) bool {
	for _, c := range b {
		if !digit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && digit(s.b[s.i]) {
		s.i++
	}
	return s.i > from
}

func (s *scanner) at(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) number() bool {
	s.at('-')
	if !s.at('0') && !s.digits() {
		return false
	}
	if s.at('.') && !s.digits() {
		return false
	}
	if s.at('e') || s.at('E') {
		if !s.at('+') {
			s.at('-')
		}
		return s.digits()
	}
	return true
}

// unquote returns the text of a string that the scanner has passed.
func unquote(raw []byte) string {
	for _, c := range raw[1 : len(raw)-1] {
		if c == '\\' {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return "" // cannot be: the scanner has checked it
			}
			return s
		}
	}
	return string(raw[1 : len(raw)-1])
}
