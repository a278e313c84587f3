// Package output turns what a terminal program writes into text that can be
// kept, read by offset and shown to a model: escapes are taken out, carriage
// returns and backspaces edit the line as they would on a screen, and however
// much comes, memory and disk stay bounded.
//
// It reads bytes of programs that nobody trusts. No input makes it panic, grow
// without bound or take more than linear time.
package output

import (
	"bytes"
	"unicode/utf8"
)

const (
	// maxEscape is how many bytes of an unfinished escape are held. A terminal
	// gives up on such strings too; what comes after them is text again.
	maxEscape = 4 << 10
	// maxLine is how many code points of a line can still be edited. The first
	// half of a longer line is given out and cannot be reached any more.
	maxLine = 16 << 10
	// maxWork is how many cells escapes may blank or move in one line; a few bytes
	// could otherwise ask for the work of a whole line again and again. Programs
	// that draw a line use far less.
	maxWork = 256 << 10
)

// Cleaner is a streaming filter. Its zero value is ready. It is not safe for
// concurrent use.
//
// What it knows of a terminal is one line: CR, BS, and the escapes that move in
// a line or erase parts of it (CUF, CUB, CHA, HPA, EL, ECH, DCH). A code point
// is one cell. Other escapes are dropped, and so are C0 controls other than tab
// and line feed, DEL, and C1 controls, which are never interpreted. A byte that
// is no UTF-8 becomes U+FFFD.
type Cleaner struct {
	line []rune // the line that is not finished
	col  int    // where the next code point goes; may be behind the end
	work int    // cells that escapes have touched in this line

	state  state
	escape []byte // of the escape that is open: its parameters
	length int    // bytes of it so far
	utf    []byte // of a code point that is not whole yet

	// Width is how far escapes can move in a line, as the terminal's columns do;
	// 0 means 120. Without it a few bytes could make a line of any length.
	Width int

	// Marks, if not nil, is told of each OSC string, without its introducer and
	// end. It is how a shell says where a command begins and ends. The text before
	// has been given out by then, as far as it is finished.
	Marks func(osc []byte)

	// Control, if not nil, is told of each CSI sequence that is no editing of a
	// line: its parameters with whatever stands among them, and its final byte.
	// It must not keep the slice.
	Control func(params []byte, final byte)

	stopping, found bool // see Next
}

type state uint8

const (
	ground    state = iota
	afterESC        // ESC
	inCSI           // ESC [
	inOSC           // ESC ]
	oscESC          // ESC in an OSC: perhaps its end
	inString        // DCS, SOS, PM, APC: ends with ST
	stringESC       // ESC in one of those
	oneMore         // ESC and an intermediate byte: one more follows
)

// Write cleans p and appends what became final to dst.
func (c *Cleaner) Write(dst, p []byte) []byte {
	dst, _ = c.write(dst, p)
	return dst
}

// Next cleans p up to the end of the first OSC string that ends in it. It
// returns what is left of p then, and the string, which is valid until the next
// call; found is false if none ended and nothing is left. Other than Marks it
// lets the caller do something with the line that is not finished.
func (c *Cleaner) Next(dst, p []byte) (out, rest, osc []byte, found bool) {
	c.stopping, c.found = true, false
	out, rest = c.write(dst, p)
	found, c.stopping, c.found = c.found, false, false
	if found {
		osc = c.escape
	}
	return out, rest, osc, found
}

func (c *Cleaner) write(dst, p []byte) (out, rest []byte) {
	for len(p) > 0 && !c.found {
		if c.state == ground && len(c.utf) == 0 {
			if len(c.line) == 0 && c.col == 0 {
				var n int
				if dst, n = lines(dst, p); n > 0 {
					p = p[n:]
					continue
				}
			}
			if n := plain(p); n > 0 {
				dst = c.cells(dst, p[:n])
				p = p[n:]
				continue
			}
		}
		b := p[0]
		p = p[1:]
		if c.state != ground {
			dst = c.inEscape(dst, b)
			continue
		}
		if b >= utf8.RuneSelf || len(c.utf) > 0 {
			dst = c.multibyte(dst, b)
			continue
		}
		dst = c.control(dst, b)
	}
	return dst, p
}

// lines takes whole lines that need no editing, as most output is, and returns
// how many bytes they are. A terminal ends them with CR LF.
func lines(dst, p []byte) ([]byte, int) {
	n := 0
	for {
		i := bytes.IndexByte(p[n:], '\n')
		if i < 0 {
			return dst, n
		}
		line := p[n : n+i]
		if i > 0 && line[i-1] == '\r' {
			line = line[:i-1]
		}
		if plain(line) < len(line) {
			return dst, n
		}
		dst = append(append(dst, line...), '\n')
		n += i + 1
	}
}

// plain is how many bytes at the start of p are printable ASCII and tabs.
func plain(p []byte) int {
	for i, b := range p {
		if b < 0x20 && b != '\t' || b >= 0x7f {
			return i
		}
	}
	return len(p)
}

func (c *Cleaner) cells(dst, p []byte) []byte {
	for _, b := range p {
		dst = c.put(dst, rune(b))
	}
	return dst
}

// put writes one code point into the line.
func (c *Cleaner) put(dst []byte, r rune) []byte {
	if c.col < len(c.line) {
		c.line[c.col] = r
		c.col++
		return dst
	}
	for len(c.line) < c.col {
		c.line = append(c.line, ' ')
	}
	c.line = append(c.line, r)
	c.col++
	if len(c.line) >= maxLine {
		dst = c.release(dst, maxLine/2)
	}
	return dst
}

// release gives the first n code points of the line out.
func (c *Cleaner) release(dst []byte, n int) []byte {
	for _, r := range c.line[:n] {
		dst = utf8.AppendRune(dst, r)
	}
	c.line = append(c.line[:0], c.line[n:]...)
	c.col = max(c.col-n, 0)
	return dst
}

func (c *Cleaner) newline(dst []byte) []byte {
	dst = append(c.release(dst, len(c.line)), '\n')
	c.col, c.work = 0, 0
	return dst
}

// control takes a byte below 0x80 that is no printable ASCII.
func (c *Cleaner) control(dst []byte, b byte) []byte {
	switch b {
	case '\n':
		return c.newline(dst)
	case '\r':
		c.col = 0
	case '\b':
		c.col = max(c.col-1, 0)
	case '\t':
		return c.put(dst, '\t')
	case 0x1b:
		c.state, c.length, c.escape = afterESC, 0, c.escape[:0]
	}
	return dst
}

// multibyte takes a byte of a code point beyond ASCII.
func (c *Cleaner) multibyte(dst []byte, b byte) []byte {
	c.utf = append(c.utf, b)
	for len(c.utf) > 0 && utf8.FullRune(c.utf) {
		r, n := utf8.DecodeRune(c.utf)
		rest := c.utf[n:]
		switch {
		case r == utf8.RuneError && n == 1:
			dst = c.put(dst, utf8.RuneError)
		case r < 0x20 || r == 0x7f: // what follows half a code point
			c.utf = append(c.utf[:0], rest...)
			dst = c.control(dst, byte(r))
			continue
		case r >= 0x80 && r < 0xa0: // C1, written as UTF-8
		default:
			dst = c.put(dst, r)
		}
		c.utf = append(c.utf[:0], rest...)
	}
	return dst
}

// inEscape takes a byte of an open escape.
func (c *Cleaner) inEscape(dst []byte, b byte) []byte {
	c.length++
	if c.length > maxEscape { // no end in sight: it is text again
		c.state = ground
		return c.Write(dst, []byte{b})
	}
	switch c.state {
	case afterESC:
		switch {
		case b == '[':
			c.state = inCSI
		case b == ']':
			c.state = inOSC
		case b == 'P', b == 'X', b == '^', b == '_':
			c.state = inString
		case b >= 0x20 && b <= 0x2f:
			c.state = oneMore
		case b == 0x1b:
			c.length = 0
		default:
			c.state = ground
			if b < 0x20 || b >= 0x80 {
				return c.Write(dst, []byte{b})
			}
		}
	case oneMore:
		if b < 0x20 || b > 0x2f {
			c.state = ground
			if b < 0x20 || b >= 0x80 {
				return c.Write(dst, []byte{b})
			}
		}
	case inCSI:
		switch {
		case b >= 0x40 && b <= 0x7e:
			c.state = ground
			dst = c.csi(dst, b)
		case b == 0x1b:
			c.state, c.length, c.escape = afterESC, 0, c.escape[:0]
		case b == 0x18, b == 0x1a: // CAN, SUB end it
			c.state = ground
		case b < 0x20: // a control inside works as if it stood before
			at := c.state
			c.state = ground
			dst = c.control(dst, b)
			c.state = at
		case b >= 0x80:
			c.state = ground
			return c.Write(dst, []byte{b})
		default:
			c.escape = append(c.escape, b)
		}
	case inOSC:
		switch b {
		case 0x07:
			c.state = ground
			c.mark()
		case 0x1b:
			c.state = oscESC
		case 0x18, 0x1a:
			c.state = ground
		default:
			c.escape = append(c.escape, b)
		}
	case oscESC:
		if b == '\\' {
			c.state = ground
			c.mark()
			return dst
		}
		c.state, c.length, c.escape = afterESC, 0, c.escape[:0]
		return c.inEscape(dst, b)
	case inString:
		switch b {
		case 0x1b:
			c.state = stringESC
		case 0x18, 0x1a:
			c.state = ground
		}
	case stringESC:
		if b == '\\' {
			c.state = ground
			return dst
		}
		c.state, c.length, c.escape = afterESC, 0, c.escape[:0]
		return c.inEscape(dst, b)
	}
	return dst
}

func (c *Cleaner) mark() {
	c.found = c.stopping
	if c.Marks != nil {
		c.Marks(c.escape)
	}
}

// csi does what a finished CSI sequence does to the line.
func (c *Cleaner) csi(dst []byte, final byte) []byte {
	if c.Control != nil && !editing(final) {
		c.Control(c.escape, final)
	}
	n, ok := parameter(c.escape)
	if !ok {
		return dst // private, with intermediates, or more than one parameter
	}
	count := max(n, 1)
	if final == 'K' && n == 1 || final == 'X' || final == 'P' {
		if c.work += len(c.line); c.work > maxWork {
			return dst
		}
	}
	switch final {
	case 'C': // CUF
		c.moveTo(c.col + count)
	case 'D': // CUB
		c.col = max(c.col-count, 0)
	case 'G', '`': // CHA, HPA
		c.moveTo(count - 1)
	case 'K': // EL
		c.erase(n)
	case 'X': // ECH
		for i := c.col; i < len(c.line) && i < c.col+count; i++ {
			c.line[i] = ' '
		}
	case 'P': // DCH
		if c.col < len(c.line) {
			c.line = append(c.line[:c.col], c.line[min(c.col+count, len(c.line)):]...)
		}
	}
	return dst
}

func editing(final byte) bool {
	switch final {
	case 'C', 'D', 'G', '`', 'K', 'X', 'P', 'm':
		return true
	}
	return false
}

// moveTo moves to the right no further than the terminal, or the line, is wide.
func (c *Cleaner) moveTo(col int) {
	width := c.Width
	if width <= 0 {
		width = 120
	}
	c.col = min(col, max(width-1, len(c.line)))
}

func (c *Cleaner) erase(how int) {
	switch how {
	case 0:
		c.line = c.line[:min(c.col, len(c.line))]
	case 1:
		for i := range min(c.col+1, len(c.line)) {
			c.line[i] = ' '
		}
	case 2:
		c.line = c.line[:0]
	}
}

// parameter reads the one parameter of a CSI sequence; 0 if there is none.
func parameter(p []byte) (int, bool) {
	n := 0
	for _, b := range p {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = min(n*10+int(b-'0'), 1<<20)
	}
	return n, true
}

// Pending is the line that is not finished, as it stands now.
func (c *Cleaner) Pending() string {
	return string(c.line)
}

// Column is where in its line the next code point goes, from 0.
func (c *Cleaner) Column() int { return c.col }

// Flush gives out what is left, at the end of the stream. A code point that was
// cut off becomes U+FFFD, an escape that was is dropped.
func (c *Cleaner) Flush(dst []byte) []byte {
	if len(c.utf) > 0 {
		c.utf = c.utf[:0]
		dst = c.put(dst, utf8.RuneError)
	}
	c.state = ground
	dst = c.release(dst, len(c.line))
	c.col = 0
	return dst
}
