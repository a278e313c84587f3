package shell

import "strings"

// checkSed reads a program for GNU sed and returns what speaks against running
// it, or "". It knows the commands that print, edit and branch; what runs a
// program or names a file is told, and so is all that it does not know.
// The commands that it would run are returned for denies to look at.
func checkSed(prog string, file func(string) string) (bad string, runs []string) {
	s := &sedReader{src: prog, file: file}
	for s.bad == "" && s.pos < len(s.src) {
		s.command()
	}
	if s.bad == "" && s.open != 0 {
		s.fail("its braces do not match")
	}
	return s.bad, s.runs
}

type sedReader struct {
	src  string
	pos  int
	open int // braces
	bad  string
	runs []string // commands of e
	file func(string) string
}

func (s *sedReader) fail(why string) {
	if s.bad == "" {
		s.bad = "the sed program is not known to be safe: " + why
	}
}

func (s *sedReader) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *sedReader) skip(set string) {
	for s.pos < len(s.src) && strings.IndexByte(set, s.src[s.pos]) >= 0 {
		s.pos++
	}
}

// line returns the rest of the line and steps over it.
func (s *sedReader) line() string {
	rest := s.src[s.pos:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	s.pos += len(rest)
	return rest
}

func (s *sedReader) command() {
	s.skip(" \t\n;")
	if s.pos == len(s.src) {
		return
	}
	s.addresses()
	if s.bad != "" {
		return
	}
	s.skip(" \t")
	for s.peek() == '!' {
		s.pos++
		s.skip(" \t!")
	}
	c := s.peek()
	s.pos++
	switch c {
	case '{':
		s.open++
		return
	case '}':
		if s.open--; s.open < 0 {
			s.fail("its braces do not match")
		}
	case '#':
		s.line()
		return
	case 'p', 'P', 'd', 'D', 'g', 'G', 'h', 'H', 'x', 'n', 'N', 'z', 'F', '=':
	case 'l', 'q', 'Q', 'L':
		s.skip(" \t")
		s.skip("0123456789")
	case 'b', 't', 'T', ':':
		s.skip(" \t")
		start := s.pos
		for s.pos < len(s.src) && nameByte(s.src[s.pos], 1) {
			s.pos++
		}
		if c == ':' && s.pos == start {
			s.fail("a label without a name")
		}
	case 'a', 'i', 'c':
		s.text()
		return
	case 's':
		s.substitute()
	case 'y':
		d := s.peek()
		s.pos++
		if d == 0 || d == '\n' || d == '\\' || !s.until(d) || !s.until(d) {
			s.fail("y is not complete")
		}
	case 'r':
		s.skip(" \t")
		name := strings.TrimRight(s.line(), " \t")
		if name == "" || name == "/dev/stdin" {
			s.fail("r reads standard input")
		} else if bad := s.file(name); bad != "" {
			s.fail(bad)
		}
		return
	case 'e':
		s.runs = append(s.runs, s.line())
		s.fail("e runs a program")
	case 'w', 'W':
		s.fail("w writes a file")
	default:
		s.fail("command " + show(string(rune(c))) + " is not known")
	}
	s.end()
}

// end demands that a command is over.
func (s *sedReader) end() {
	s.skip(" \t")
	switch s.peek() {
	case 0, '\n', ';', '}', '#':
	default:
		s.fail("something follows a command")
	}
}

// addresses reads up to two addresses.
func (s *sedReader) addresses() {
	if !s.address() {
		return
	}
	s.skip(" \t")
	if s.peek() != ',' {
		return
	}
	s.pos++
	s.skip(" \t")
	if s.peek() == '+' || s.peek() == '~' {
		s.pos++
		if !digits(string(s.peek())) {
			s.fail("an address is not complete")
		}
		s.skip("0123456789")
		return
	}
	if !s.address() {
		s.fail("an address is not complete")
	}
}

func (s *sedReader) address() bool {
	switch c := s.peek(); {
	case c >= '0' && c <= '9':
		s.skip("0123456789")
		if s.peek() == '~' {
			s.pos++
			s.skip("0123456789")
		}
		return true
	case c == '$':
		s.pos++
		return true
	case c == '/', c == '\\':
		s.pos++
		if c == '\\' {
			c = s.peek()
			s.pos++
		}
		if c == 0 || c == '\n' || !s.until(c) {
			s.fail("an address is not complete")
			return true
		}
		s.skip("IM")
		return true
	}
	return false
}

// until steps over text up to an unescaped delimiter. A delimiter in brackets
// is refused: seds disagree about it.
func (s *sedReader) until(d byte) bool {
	bracket := false
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		s.pos++
		switch {
		case c == '\\' && s.pos < len(s.src):
			s.pos++
		case c == d:
			if bracket {
				s.fail("a delimiter stands between brackets")
			}
			return true
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		}
	}
	return false
}

func (s *sedReader) substitute() {
	d := s.peek()
	s.pos++
	if d == 0 || d == '\n' || d == '\\' || !s.until(d) {
		s.fail("s is not complete")
		return
	}
	// In the replacement brackets mean nothing.
	for {
		if s.pos >= len(s.src) {
			s.fail("s is not complete")
			return
		}
		c := s.src[s.pos]
		s.pos++
		if c == '\\' {
			s.pos++
			continue
		}
		if c == d {
			break
		}
	}
	for {
		switch c := s.peek(); {
		case c == 'g' || c == 'p' || c == 'i' || c == 'I' || c == 'm' || c == 'M' || c >= '0' && c <= '9':
			s.pos++
		case c == 'e':
			s.fail("the flag e runs a program")
			return
		case c == 'w':
			s.fail("the flag w writes a file")
			return
		default:
			return
		}
	}
}

// text steps over the text of a, i and c, which ends at a line that does not
// end in a backslash.
func (s *sedReader) text() {
	for {
		line := s.line()
		n := len(line) - len(strings.TrimRight(line, `\`))
		if s.pos < len(s.src) {
			s.pos++ // the newline
		}
		if n%2 == 0 || s.pos >= len(s.src) {
			return
		}
	}
}
