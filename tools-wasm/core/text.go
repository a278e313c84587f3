package main

import (
	"bytes"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// encoding is how a file's bytes stand for text, as far as they are decoded
// here. All others the host decodes, as a whole: its tables would double the
// module.
type encoding uint8

const (
	utf8Plain encoding = iota
	utf8BOM
	utf16LE
	utf16BE
)

func (e encoding) String() string {
	return [...]string{"UTF-8", "UTF-8 with a byte order mark", "UTF-16LE with a byte order mark", "UTF-16BE with a byte order mark"}[e]
}

// mark returns the bytes that begin a file of this encoding.
func (e encoding) mark() string {
	return [...]string{"", "\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}[e]
}

func (e encoding) wide() bool { return e == utf16LE || e == utf16BE }

// encodingOf tells a file's encoding from its first bytes.
func encodingOf(head []byte) encoding {
	for e := utf8BOM; e <= utf16BE; e++ {
		if bytes.HasPrefix(head, []byte(e.mark())) {
			return e
		}
	}
	return utf8Plain
}

// sampleBytes is how much of a file decides whether it is text, as in most
// programs that ask; a NUL further on is missed, on purpose.
const sampleBytes = 8 << 10

// binaryKind names what head is the beginning of, or returns "" for text.
func binaryKind(head []byte) string {
	for _, m := range magic {
		if len(head) >= m.at+len(m.bytes) && string(head[m.at:m.at+len(m.bytes)]) == m.bytes {
			return m.kind
		}
	}
	if encodingOf(head).wide() {
		if bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")) {
			return "UTF-32 text"
		}
		return ""
	}
	control := 0
	for _, b := range head {
		if b >= ' ' && b != 0x7f {
			continue // nearly every byte
		}
		switch b {
		case 0:
			return kindBinary
		case '\t', '\n', '\r', '\f':
		default:
			control++
		}
	}
	if control*10 > len(head)*3 {
		return kindBinary
	}
	return ""
}

// kindBinary is what binaryKind says of bytes that only hardly are text. In an
// encoding that the host knows they may be.
const kindBinary = "binary data"

// Kinds that media.wasm shows in other ways than as text.
const (
	kindPDF      = "PDF document"
	kindNotebook = "Jupyter notebook"
)

var magic = []struct {
	at    int
	bytes string
	kind  string
}{
	{0, "\x89PNG\r\n\x1a\n", "PNG image"},
	{0, "\xff\xd8\xff", "JPEG image"},
	{0, "GIF87a", "GIF image"},
	{0, "GIF89a", "GIF image"},
	{8, "WEBPVP8", "WebP image"},
	{0, "%PDF-", kindPDF},
	{0, "PK\x03\x04", "ZIP archive or office document"},
	{0, "PK\x05\x06", "empty ZIP archive"},
	{0, "\x1f\x8b", "gzip data"},
	{0, "BZh", "bzip2 data"},
	{0, "\xfd7zXZ\x00", "xz data"},
	{0, "\x28\xb5\x2f\xfd", "Zstandard data"},
	{0, "7z\xbc\xaf\x27\x1c", "7-Zip archive"},
	{257, "ustar", "tar archive"},
	{0, "\x7fELF", "ELF program or library"},
	{0, "\x00asm", "WebAssembly module"},
	{0, "\xcf\xfa\xed\xfe", "Mach-O program or library"},
	{0, "\xca\xfe\xba\xbe", "Java class or universal Mach-O program"},
	{0, "SQLite format 3\x00", "SQLite database"},
	{4, "ftyp", "MPEG-4 or HEIF media"},
	{0, "\x1a\x45\xdf\xa3", "Matroska or WebM video"},
	{0, "OggS", "Ogg media"},
	{0, "fLaC", "FLAC audio"},
	{0, "ID3", "MP3 audio"},
	{8, "WAVEfmt", "WAV audio"},
	{8, "AVI LIST", "AVI video"},
	{0, "wOFF", "WOFF font"},
	{0, "wOF2", "WOFF2 font"},
	{0, "II*\x00", "TIFF image"},
	{0, "MM\x00*", "TIFF image"},
	{0, "\x00\x00\x01\x00", "Windows icon"},
}

// source gives the text of a file from its beginning, piece by piece, as UTF-8.
// Bytes that are no UTF-8 in a file that is read as such pass unchanged.
type source struct {
	call *guest.Call
	path string
	enc  encoding

	off  int64  // of the next byte to read
	head []byte // all of the file, if it was read already
	room int64  // for buf
	buf  []byte
	wide []byte // decoded piece of a UTF-16 file
	odd  []byte // bytes of a UTF-16 file that wait for their partner
	end  bool
}

const pieceBytes = 128 << 10

// newSource reads f from its beginning. If head is all of it, nothing is read
// again. Each page of memory that a call touches is made as it was afterwards, so
// a small file gets a small buffer, with room to see its end.
func (f *opened) newSource() *source {
	s := &source{call: f.call, path: f.path, enc: f.enc, off: int64(len(f.enc.mark())),
		room: min(pieceBytes, max(sampleBytes, f.info.Size+1))}
	if f.whole {
		s.head = f.head[s.off:]
	}
	return s
}

// next returns the next piece, valid until next is called again; io.EOF after
// the last one.
func (s *source) next() ([]byte, error) {
	if s.end {
		return nil, io.EOF
	}
	piece := s.head
	if piece != nil {
		s.end = true
	} else {
		if s.buf == nil {
			s.buf = make([]byte, s.room)
		}
		n, err := s.call.ReadAt(s.path, s.buf, s.off)
		if err == io.EOF {
			s.end = true
		} else if err != nil {
			return nil, err
		}
		piece = s.buf[:n]
	}
	s.off += int64(len(piece))
	if !s.enc.wide() {
		if len(piece) == 0 {
			return nil, io.EOF
		}
		return piece, nil
	}
	s.odd = append(s.odd, piece...)
	var used int
	s.wide, used = decodeWide(s.wide[:0], s.odd, s.enc, s.end)
	s.odd = append(s.odd[:0], s.odd[used:]...)
	if len(s.wide) == 0 && s.end {
		return nil, io.EOF
	}
	return s.wide, nil
}

// decodeWide appends the UTF-8 of the UTF-16 bytes p to out and returns how
// many bytes it used. Unless last is set it leaves half a unit, and a high
// surrogate whose partner may follow. What is no UTF-16 becomes U+FFFD.
func decodeWide(out, p []byte, enc encoding, last bool) ([]byte, int) {
	i := 0
	for i+1 < len(p) {
		r := rune(unit(p[i:], enc))
		size := 2
		if utf16.IsSurrogate(r) {
			switch {
			case i+3 < len(p):
				if r = utf16.DecodeRune(r, rune(unit(p[i+2:], enc))); r != utf8.RuneError {
					size = 4
				}
			case !last && r < 0xdc00:
				return out, i
			default:
				r = utf8.RuneError
			}
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	if last && i < len(p) {
		out = utf8.AppendRune(out, utf8.RuneError)
		i = len(p)
	}
	return out, i
}

func unit(p []byte, enc encoding) uint16 {
	if enc == utf16LE {
		return uint16(p[0]) | uint16(p[1])<<8
	}
	return uint16(p[1]) | uint16(p[0])<<8
}

// readWhole gives the text of a whole file as UTF-8, up to wholeBytes. An
// encoding that is neither named nor certain leaves the bytes as they are.
func readWhole(c *guest.Call, path, named string) (string, error) {
	if named != "" {
		t, err := c.ReadText(path, named)
		return string(t.Text), err
	}
	p, err := c.ReadFile(path, wholeBytes)
	if err != nil {
		return "", err
	}
	enc := encodingOf(p)
	if !enc.wide() && !utf8.Valid(p) {
		if t, err := c.ReadText(path, ""); err == nil {
			return string(t.Text), nil
		}
	}
	p = p[len(enc.mark()):]
	if enc.wide() {
		p, _ = decodeWide(make([]byte, 0, len(p)), p, enc, true)
	}
	return string(p), nil
}
