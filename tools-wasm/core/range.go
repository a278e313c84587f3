package main

import (
	"io"
	"unicode/utf16"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// showRange shows bytes of the file as text without line numbers. The range is
// moved to whole characters; what was really shown stands in the notice.
func (f opened) showRange(sel guest.Value) (guest.Result, error) {
	start, length := sel.Get("offset").IntOr(0), sel.Get("length").IntOr(0)
	size := f.info.Size
	if start >= size {
		return guest.Result{}, f.pastEndBytes()
	}
	end := size
	if length < size-start {
		end = start + length
	}
	// A few bytes more on both sides, to find where characters begin and end.
	from := max(start-4, 0)
	room := int64(openBytes + 12) // text takes at least as many bytes in JSON,
	if f.enc.wide() {
		room *= 2 // or half as many
	}
	buf := make([]byte, min(end-from+8, room))
	n := 0
	if f.name != "" {
		n = copy(buf, f.head[from:])
	} else {
		var err error
		if n, err = f.call.ReadAt(f.path, buf, from); err != nil && err != io.EOF {
			return guest.Result{}, err
		}
	}
	buf = buf[:n]
	text, begin, stop, bad := f.decodeRange(buf, from, start, min(end, from+int64(n)))

	var next guest.Value
	if stop < end {
		next = guest.Object(guest.F("range", guest.Object(guest.F("offset", stop), guest.F("length", end-stop))))
	}
	note := "bytes " + itoa(begin) + "-" + itoa(stop-1) + " of " + itoa(size)
	if next.Exists() {
		note += "; next: " + string(next.JSON())
	}
	if text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	text += "[" + note + "]\n"
	if g := f; bad > 0 && !f.asked {
		// The range counts bytes of the file, and of no text, so it stays so.
		if g.decode("") == nil {
			g.doubt = "the file is " + g.name + "; set encoding to it, and a range counts the bytes of its text as UTF-8"
		}
		f.doubt = g.doubt
	}
	for _, n := range f.encodingNotes(bad) {
		if f.enc != utf8BOM || bad > 0 {
			text += "[" + n + "]\n"
		}
	}
	if f.name != "" {
		text += "[bytes are counted in its text as UTF-8]\n"
	}
	d := []guest.Field{
		guest.F("path", named(f.info.Path)), guest.F("size", size), guest.F("offset", begin), guest.F("length", stop-begin),
		guest.F("truncated", next.Exists()), guest.F("next", next), guest.F("encoding", f.encoding()),
	}
	return guest.Text(text).WithDetails(d...), nil
}

// decodeRange decodes the characters of buf, which begins at byte from of the
// file, that begin in [start, end), as far as they fit. It returns their text
// and which bytes they are. A mark at the file's very beginning is left out of
// the text.
func (f opened) decodeRange(buf []byte, from, start, end int64) (text string, begin, stop int64, bad int) {
	at := func(off int64) []byte { return buf[off-from:] }
	begin = start
	if f.enc.wide() {
		begin += begin & 1
		if pair := at(max(begin-2, from)); begin-2 >= from && len(pair) >= 4 {
			if utf16.DecodeRune(rune(unit(pair, f.enc)), rune(unit(pair[2:], f.enc))) != utf8.RuneError {
				begin += 2 // the second half of a pair
			}
		}
	} else {
		// A continuation byte belongs to the character before it, if one of up
		// to three bytes back really reaches here.
		for back := int64(1); back <= 3 && start-back >= from && begin < end; back++ {
			if _, n := utf8.DecodeRune(at(start - back)); int64(n) > back {
				begin = start - back + int64(n)
				break
			}
		}
	}
	stop = begin
	out := make([]byte, 0, min(end-begin, int64(len(buf))))
	size := 0
	mark := int64(len(f.enc.mark()))
	for stop < end && stop-from < int64(len(buf)) {
		if !f.enc.wide() && stop >= mark {
			// Most bytes are ASCII that stands for itself.
			rest := at(stop)
			rest = rest[:min(int64(len(rest)), end-stop, int64(openBytes-noticeRoom-size))]
			n := 0
			for n < len(rest) && plain[rest[n]] {
				n++
			}
			if n > 0 {
				out = append(out, rest[:n]...)
				size += n
				stop += int64(n)
				continue
			}
		}
		var piece []byte
		var n int
		wrong := false
		switch {
		case stop < mark:
			n = int(mark - stop)
		case f.enc.wide():
			piece, _ = decodeWide(nil, at(stop)[:min(4, len(at(stop)))], f.enc, true)
			r, first := utf8.DecodeRune(piece)
			piece = piece[:first]
			n = 2
			if r > 0xffff {
				n = 4
			}
			n = min(n, len(at(stop)))
		default:
			r, width := utf8.DecodeRune(at(stop))
			wrong = r == utf8.RuneError && width == 1
			piece, n = utf8.AppendRune(nil, r), width
		}
		if size += guest.TextLen(string(piece)); size > openBytes-noticeRoom {
			break
		}
		if wrong {
			bad++
		}
		out = append(out, piece...)
		stop += int64(n)
	}
	return string(out), begin, stop, bad
}

// plain has the bytes that are a character each, and one byte in the JSON that a
// client gets.
var plain = func() (t [256]bool) {
	for b := range 0x80 {
		t[b] = guest.TextLen(string(rune(b))) == 1
	}
	return t
}()
