package search

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/workspace/charset"
)

var (
	errBinary = errors.New("binary")
	errDecode = errors.New("not UTF-8: to be looked at as a whole")
)

// text reads a file as the text that is searched: without a byte order mark,
// UTF-16 (told by its mark) as UTF-8, and with a lone CR as LF if that is how
// the file ends its lines. Bytes that are no UTF-8 are errDecode unless plain is
// set.
type text struct {
	r      io.Reader
	plain  bool  // the bytes are searched as they are
	inRune bool  // the last piece ended within a character
	left   int64 // bytes that r is expected to hold; at 0 it is not asked again; below: unknown
	named  bool  // NUL is a line end and not the end of the search
	crOnly bool
	binary bool // a NUL was seen
	begun  bool
}

// fill reads until p is full or the file ends, then with io.EOF. The first time
// it looks at no more than ripgrep looks at first: a NUL there is errBinary. A
// NUL that comes later ends the text.
func (t *text) fill(p []byte) (int, error) {
	first := !t.begun
	if first {
		p = p[:min(len(p), sniffed)]
	}
	n, err := t.read(p)
	if first && n > 0 {
		t.begun = true
		if big, ok := utf16Order(p[:n]); ok {
			t.r, t.left = &utf16Reader{r: io.MultiReader(bytes.NewReader(bytes.Clone(p[2:n])), t.rest()), big: big}, -1
			n, err = t.read(p)
		} else if bytes.HasPrefix(p[:n], utf8BOM) {
			n = copy(p, p[len(utf8BOM):n])
		} else if looksWide(p[:n]) && !t.plain {
			return 0, errDecode
		}
	}
	if !t.plain && !t.whole(p[:n]) && !(first && bytes.IndexByte(p[:n], 0) >= 0) {
		return 0, errDecode
	}
	if i := bytes.IndexByte(p[:n], 0); i >= 0 {
		t.binary = true
		switch {
		case t.named:
			replace(p[:n], 0, '\n')
		case first:
			return 0, errBinary
		default:
			n, err = i, io.EOF
		}
	}
	if t.crOnly {
		replace(p[:n], '\r', '\n')
	}
	return n, err
}

// whole reports whether the next piece goes on as UTF-8.
func (t *text) whole(p []byte) bool {
	if t.inRune {
		for i := 0; i < utf8.UTFMax-1 && len(p) > 0 && !utf8.RuneStart(p[0]); i++ {
			p = p[1:]
		}
	}
	end := p
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if at := len(p) - i; utf8.RuneStart(p[at]) {
			if !utf8.FullRune(p[at:]) {
				end = p[:at]
			}
			break
		}
	}
	t.inRune = len(end) < len(p)
	return utf8.Valid(end)
}

// looksWide reports whether a file that begins with p may be UTF-16 without a
// mark.
func looksWide(p []byte) bool {
	if bytes.IndexByte(p[:min(len(p), 1<<10)], 0) < 0 {
		return false
	}
	e, err := charset.Detect(p[:len(p)&^1])
	return err == nil && e.Wide()
}

// decoded is the text of a whole file that is not UTF-8, if its encoding is
// certain. Larger files are searched as bytes.
func decoded(r io.Reader, size int64) ([]byte, bool) {
	if size > maxDecoded {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	if err != nil || len(data) > maxDecoded {
		return nil, false
	}
	e, err := charset.Detect(data)
	if err != nil {
		return nil, false
	}
	out, err := e.Decode(data)
	return out, err == nil
}

// rest is what r still holds, as far as it is expected to.
func (t *text) rest() io.Reader {
	if t.left < 0 {
		return t.r
	}
	return io.LimitReader(t.r, t.left)
}

func (t *text) read(p []byte) (n int, err error) {
	for n < len(p) && t.left != 0 && err == nil {
		var k int
		k, err = t.r.Read(p[n:])
		n += k
		if t.left > 0 {
			t.left = max(0, t.left-int64(k))
		}
	}
	if t.left == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func replace(b []byte, old, new byte) {
	for {
		i := bytes.IndexByte(b, old)
		if i < 0 {
			return
		}
		b[i] = new
		b = b[i+1:]
	}
}

// loneCR reports whether b holds a CR although it holds no LF.
func loneCR(b []byte) bool {
	return bytes.IndexByte(b, '\r') >= 0 && bytes.IndexByte(b, '\n') < 0
}

func utf16Order(b []byte) (big, ok bool) {
	if len(b) < 2 {
		return false, false
	}
	return b[0] == 0xfe, b[0] == 0xff && b[1] == 0xfe || b[0] == 0xfe && b[1] == 0xff
}

// utf16Reader turns UTF-16 into UTF-8; what is no character becomes U+FFFD.
type utf16Reader struct {
	r    io.Reader
	big  bool
	in   []byte
	out  []byte // of buf, not yet given away
	buf  []byte
	done error
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.done != nil {
			return 0, u.done
		}
		u.more()
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

func (u *utf16Reader) more() {
	if u.in == nil {
		u.in = make([]byte, 0, 16<<10)
	}
	n, err := u.r.Read(u.in[len(u.in):cap(u.in)])
	u.in = u.in[:len(u.in)+n]
	u.done = err
	out := u.buf[:0]
	i := 0
	for len(u.in)-i >= 2 {
		r := rune(u.unit(i))
		size := 2
		if utf16.IsSurrogate(r) {
			if len(u.in)-i < 4 && err == nil {
				break // the other half comes with the next read
			}
			pair := rune(utf8.RuneError)
			if len(u.in)-i >= 4 {
				pair = utf16.DecodeRune(r, rune(u.unit(i+2)))
			}
			if r = pair; r != utf8.RuneError {
				size = 4
			}
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	if err != nil && i < len(u.in) {
		out = utf8.AppendRune(out, utf8.RuneError) // half a unit at the end
		i = len(u.in)
	}
	u.in = u.in[:copy(u.in[:cap(u.in)], u.in[i:])]
	u.buf, u.out = out, out
}

func (u *utf16Reader) unit(i int) uint16 {
	if u.big {
		return uint16(u.in[i])<<8 | uint16(u.in[i+1])
	}
	return uint16(u.in[i+1])<<8 | uint16(u.in[i])
}
