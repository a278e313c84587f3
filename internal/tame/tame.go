// Package tame lets what a program wrote to its terminal onto the terminal of a
// person who looks on.
//
// What it promises: of escape sequences only those pass that draw: that move the
// cursor, erase, scroll, colour, and switch between the two screens. Nothing
// passes that asks the terminal a question, whose answer would count as typed by
// the person, and nothing that reaches beyond the screen: the clipboard, titles,
// links, notifications, files, printers, windows, the history that was scrolled
// away, what keys and mouse send. [Filter.Reset] takes back what stays set.
//
// The edge: what is drawn is the program's, and may look like anything. It is
// meant for terminals that take UTF-8. Arrow keys, keypad and pastes do send
// what the program has asked for: pastes are marked as such.
package tame

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Limits.
const (
	maxSequence = 256     // bytes of one sequence; drawing needs less
	maxString   = 4 << 20 // bytes of a title, image or the like, which are all dropped
	maxNumber   = 32767   // of a parameter
)

const escape = 0x1b

type state int

const (
	ground  state = iota
	escaped       // behind ESC
	control       // behind ESC [
	long          // in a control sequence that is too long
	text          // in a string: title, clipboard, image, ...
	textEsc       // behind ESC in one
)

// Filter is the state of one stream. The zero value is ready.
type Filter struct {
	state  state
	seq    []byte // the sequence so far, without ESC and [
	rune   []byte // the code point so far
	length int    // of the string so far

	touched   bool // something was passed that may stay set
	alternate bool // the other screen is shown
	styled    bool // the cursor has another form
}

// Next appends to dst what may pass of p, which follows what earlier calls got.
func (f *Filter) Next(dst, p []byte) []byte {
	for _, b := range p {
		if len(f.rune) > 0 {
			if b&0xc0 == 0x80 {
				f.rune = append(f.rune, b)
				if utf8.FullRune(f.rune) {
					dst = f.whole(dst)
				}
				continue
			}
			dst = f.whole(dst)
		}
		dst = f.byte(dst, b)
	}
	return dst
}

// whole ends a code point. C1 controls are written with two bytes, and obeyed.
func (f *Filter) whole(dst []byte) []byte {
	for rest := f.rune; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		if r >= 0xa0 {
			dst = utf8.AppendRune(dst, r)
		}
	}
	f.rune = f.rune[:0]
	return dst
}

func (f *Filter) byte(dst []byte, b byte) []byte {
	switch f.state {
	case text, textEsc:
		return f.inText(dst, b)
	case escaped:
		return f.behindEscape(dst, b)
	case control, long:
		return f.inControl(dst, b)
	}
	switch {
	case b == escape:
		f.state, f.seq = escaped, f.seq[:0]
	case b >= 0x80:
		f.rune = append(f.rune[:0], b)
		if utf8.FullRune(f.rune) { // of which nothing can come
			dst = f.whole(dst)
		}
	case b >= ' ' && b < 0x7f, b >= '\a' && b <= '\r':
		dst = append(dst, b)
	case b == 0x0e || b == 0x0f: // the sets that lines are drawn with
		f.touched = true
		dst = append(dst, b)
	}
	return dst
}

const cancel, substitute = 0x18, 0x1a // end a sequence

// inText drops a string up to its end.
func (f *Filter) inText(dst []byte, b byte) []byte {
	f.length++
	switch {
	case f.state == textEsc && b != '\\':
		f.state, f.seq = escaped, f.seq[:0]
		return f.byte(dst, b)
	case f.state == textEsc, b == '\a', b == cancel, b == substitute, f.length > maxString:
		f.state = ground
	case b == escape:
		f.state = textEsc
	}
	return dst
}

func (f *Filter) behindEscape(dst []byte, b byte) []byte {
	switch {
	case b == escape:
		f.seq = f.seq[:0]
		return dst
	case b < ' ' || b >= 0x7f:
		f.state = ground
		return f.byte(dst, b)
	case b < '0': // more comes
		if f.seq = append(f.seq, b); len(f.seq) > 2 {
			f.state = ground
		}
		return dst
	case len(f.seq) == 0 && b == '[':
		f.state = control
		return dst
	case len(f.seq) == 0 && bytes.IndexByte([]byte("]PX^_k"), b) >= 0:
		f.state, f.length = text, 0
		return dst
	}
	f.state = ground
	switch seq := string(append(f.seq, b)); seq {
	case "c": // a reset takes more than the screen back
		f.touched, f.alternate = true, false
		return append(dst, reset+left+"\x1b[H\x1b[2J"...)
	case "7", "8", "D", "E", "H", "M", "=", ">", "(0", "(B", ")0", ")B", "#8":
		f.touched = true
		return append(append(dst, escape), seq...)
	}
	return dst
}

func (f *Filter) inControl(dst []byte, b byte) []byte {
	switch {
	case b == escape:
		f.state, f.seq = escaped, f.seq[:0]
	case b == cancel || b == substitute:
		f.state = ground
	case b < ' ': // is obeyed in between
		s := f.state
		f.state = ground
		dst = f.byte(dst, b)
		f.state = s
	case b == 0x7f:
	case b > 0x7f:
		f.state = ground
		return f.byte(dst, b)
	case b >= '@':
		whole := f.state == control
		f.state = ground
		if whole {
			dst = f.draw(dst, b)
		}
	case len(f.seq) == maxSequence:
		f.state = long
	default:
		f.seq = append(f.seq, b)
	}
	return dst
}

// draw passes a control sequence if it draws.
func (f *Filter) draw(dst []byte, final byte) []byte {
	params, between := f.seq, []byte(nil)
	if i := bytes.IndexFunc(params, func(r rune) bool { return r < '0' }); i >= 0 {
		params, between = params[:i], params[i:]
	}
	private := byte(0)
	if len(params) > 0 && params[0] >= '<' {
		private, params = params[0], params[1:]
	}
	if !numbers(params) {
		return dst
	}
	switch key := string(private) + string(between) + string(final); key {
	case "\x00h", "\x00l", "?h", "?l":
		if params = f.modes(private, params, final == 'h'); len(params) == 0 {
			return dst
		}
	case "\x00J", "?J":
		if bytes.Contains(params, []byte("3")) { // what was scrolled away
			return dst
		}
	case "\x00T":
		if bytes.ContainsAny(params, ";:") { // follows the mouse
			return dst
		}
	case "\x00s", "\x00u":
		if len(params) > 0 {
			return dst
		}
	case "\x00 q":
		f.styled = true
	case "\x00!p", "?K":
	default:
		if private != 0 || len(between) > 0 || bytes.IndexByte([]byte("@ABCDEFGHIKLMPSXZ`abdefgmr"), final) < 0 {
			return dst
		}
	}
	f.touched = true
	dst = append(dst, escape, '[')
	if private != 0 {
		dst = append(dst, private)
	}
	return append(append(append(dst, params...), between...), final)
}

// numbers tells whether params are numbers that no terminal chokes on.
func numbers(params []byte) bool {
	for _, n := range bytes.FieldsFunc(params, func(r rune) bool { return r == ';' || r == ':' }) {
		if v, err := strconv.Atoi(string(n)); err != nil || v > maxNumber {
			return false
		}
	}
	return true
}

// Modes that draw, or that a program needs keys for: insert; cursor keys, origin,
// wrapping, blinking, cursor, the other screen, marked pastes, whole pictures.
var (
	plainModes   = []string{"4"}
	privateModes = []string{"1", "6", "7", "12", "25", "47", "1047", "1048", "1049", "2004", "2026"}
)

// modes lists those of params that may be set.
func (f *Filter) modes(private byte, params []byte, set bool) []byte {
	allowed := plainModes
	if private == '?' {
		allowed = privateModes
	}
	var out [][]byte
	for _, m := range bytes.Split(params, []byte{';'}) {
		name := string(bytes.TrimLeft(m, "0"))
		if !slices.Contains(allowed, name) {
			continue
		}
		out = append(out, []byte(name))
		if private == '?' && (name == "47" || name == "1047" || name == "1049") {
			f.alternate = set
		}
	}
	return bytes.Join(out, []byte{';'})
}

const (
	// reset: sets of letters, colours, insert, origin, wrapping, keys, cursor,
	// pastes, pictures, and the part of the screen that scrolls.
	reset = "\x0f\x1b(B\x1b)B\x1b[0m\x1b[4l\x1b[?6l\x1b[?7h\x1b[?1l\x1b>\x1b[?25h\x1b[?2004l\x1b[?2026l\x1b7\x1b[r\x1b8"
	left  = "\x1b[?1049l"
)

// Reset gives what brings the terminal back, and begins anew. It is empty if
// nothing can have stayed set.
func (f *Filter) Reset() []byte {
	var out []byte
	if f.touched {
		if f.alternate {
			out = append(out, left...)
		}
		out = append(out, reset...)
		if f.styled {
			out = append(out, "\x1b[0 q"...)
		}
	}
	*f = Filter{}
	return out
}
