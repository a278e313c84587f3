// Package charset tells how the bytes of a file stand for text, and turns one
// into the other without losing any.
//
// It promises that text which [Encoding.Decode] gave becomes the very bytes it
// was made of when [Encoding.Encode] gets it, for the whole and for each part
// that begins and ends between characters. A file for which that does not hold
// is refused, never repaired. It does not promise that what [Detect] says is
// what a file's author meant: bytes do not tell for certain. Detect keeps to
// what is likely by a wide margin, and otherwise says what comes into question.
package charset

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/wasmtools/wasmtools/tool"
)

// Encoding is one way in which bytes stand for text. Encodings of equal value
// are the same. The zero Encoding is none; its methods must not be called.
type Encoding struct {
	name   string
	Marked bool // a file of it begins with a byte order mark
}

// The encodings that need no table.
var (
	UTF8    = Encoding{name: "UTF-8"}
	UTF16LE = Encoding{name: "UTF-16LE"}
	UTF16BE = Encoding{name: "UTF-16BE"}
)

// Mark is the byte order mark as text. Decode keeps it, so that Encode gives it
// back.
const Mark = "\ufeff"

// Name is what [Lookup] takes: a label of the WHATWG's Encoding Standard.
func (e Encoding) Name() string { return e.name }

// String names the encoding for people.
func (e Encoding) String() string {
	if e.Marked {
		return e.name + " with a byte order mark"
	}
	return e.name
}

// Wide reports whether ASCII text has other bytes in e than in UTF-8.
func (e Encoding) Wide() bool { return e.name == UTF16LE.name || e.name == UTF16BE.name }

// labels are names beside those of the Encoding Standard, or of another sense.
var labels = map[string]Encoding{
	"ascii":        UTF8, // what can be written in it has the same bytes
	"us-ascii":     UTF8,
	"utf-8-bom":    {UTF8.name, true},
	"utf-8-sig":    {UTF8.name, true},
	"utf-16":       {UTF16LE.name, true},
	"utf-16le-bom": {UTF16LE.name, true},
	"utf-16be-bom": {UTF16BE.name, true},
	"cp949":        {name: "EUC-KR"},
	"cp932":        {name: "Shift_JIS"},
	"cp936":        {name: "GBK"},
}

// refused are those of the standard's that are no encodings of whole files, or
// in which a byte means what those before it say, so that no part can be replaced.
var refused = []string{"replacement", "x-user-defined", "iso-2022-jp"}

// Lookup finds an encoding by name, in any case: utf-8, utf-16le, utf-16be,
// gb18030, gbk, big5, shift_jis, euc-jp, euc-kr, windows-1252 (latin1),
// windows-1251, koi8-r and the others of the Encoding Standard with their
// aliases. utf-8-sig, utf-16, utf-16le-bom and utf-16be-bom have a byte order
// mark. The error is an *[tool.Error] with the code encoding.
func Lookup(name string) (Encoding, error) {
	key := strings.ToLower(strings.TrimSpace(name))
	if e, ok := labels[key]; ok {
		return e, nil
	}
	if x, err := htmlindex.Get(key); err == nil {
		if label, err := htmlindex.Name(x); err == nil && !slices.Contains(refused, label) {
			return Encoding{name: spelled(label)}, nil
		}
	}
	return Encoding{}, tool.Errorf(tool.Encoding, "there is no encoding %s here", tool.QuotePath(clip(name))).
		WithNext("use a name such as utf-8, utf-16le, gb18030, shift_jis, euc-kr or windows-1252")
}

// spelled writes a label of the Encoding Standard as its title has it.
func spelled(label string) string {
	switch label {
	case "gbk", "gb18030", "euc-kr", "euc-jp", "koi8-r", "koi8-u", "utf-8", "utf-16le", "utf-16be":
		return strings.ToUpper(label)
	case "shift_jis":
		return "Shift_JIS"
	case "big5":
		return "Big5"
	}
	if rest, ok := strings.CutPrefix(label, "iso-"); ok {
		return "ISO-" + strings.ToUpper(rest)
	}
	return label
}

// codec is nil for UTF-8.
func (e Encoding) codec() encoding.Encoding {
	switch e.name {
	case UTF8.name:
		return nil
	case UTF16LE.name:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case UTF16BE.name:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	x, _ := htmlindex.Get(strings.ToLower(e.name)) // Lookup found it there
	return x
}

// Decode gives the text of p as UTF-8, with the mark if there is one. If p is
// not what Encode would make of that text, it is an *[tool.Error] with the code
// encoding. What is UTF-8 is returned as it is.
func (e Encoding) Decode(p []byte) ([]byte, error) {
	text, n := e.survives(p, true)
	if n < len(p) {
		return nil, tool.Errorf(tool.Encoding, "the file is not %s throughout: its bytes near offset %d would not survive", e, n).
			WithNext("name another encoding, or convert the file in a terminal")
	}
	return text, nil
}

// stepBytes is how much is decoded before it is compared: what is something else
// mostly shows it early.
const stepBytes = 16 << 10

// survives decodes p for as long as encoding gives the same bytes again, and
// says how many do. The text is kept if keep is set and all of them survive.
func (e Encoding) survives(p []byte, keep bool) (text []byte, n int) {
	c := e.codec()
	if c == nil {
		return p, valid(p)
	}
	dec, enc := c.NewDecoder(), c.NewEncoder()
	buf := make([]byte, 4*stepBytes)
	if keep {
		text = make([]byte, 0, len(p)+len(p)/2)
	}
	for n < len(p) {
		end := min(n+stepBytes, len(p))
		made, used, err := dec.Transform(buf, p[n:end], end == len(p))
		if used == 0 || err != nil && err != transform.ErrShortSrc {
			return nil, n
		}
		back, err := enc.Bytes(buf[:made])
		if err != nil || !bytes.Equal(back, p[n:n+used]) {
			same := 0 // of the bytes that came; there may be more than were used
			for same < min(used-1, len(back)) && back[same] == p[n+same] {
				same++
			}
			return nil, n + same
		}
		if keep {
			text = append(text, buf[:made]...)
		}
		n += used
	}
	return text, n
}

// Show gives the text of p as UTF-8 for reading only: what is none becomes
// U+FFFD.
func (e Encoding) Show(p []byte) []byte {
	if c := e.codec(); c != nil {
		if text, err := c.NewDecoder().Bytes(p); err == nil {
			return text
		}
	}
	return bytes.ToValidUTF8(p, []byte("\ufffd"))
}

// valid is how many bytes of p are UTF-8.
func valid(p []byte) int {
	if utf8.Valid(p) {
		return len(p)
	}
	i := 0
	for {
		r, n := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// Encode gives the bytes of text, which is UTF-8. A character that e does not
// have is an *[tool.Error] with the code encoding that names it; the details
// have it as "character".
func (e Encoding) Encode(text []byte) ([]byte, error) {
	c := e.codec()
	if c == nil {
		return text, nil
	}
	if !utf8.Valid(text) {
		return nil, tool.Errorf(tool.Encoding, "the text is not UTF-8")
	}
	out, err := c.NewEncoder().Bytes(text)
	if err == nil {
		return out, nil
	}
	bad := utf8.RuneError
	enc := c.NewEncoder()
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			continue
		}
		if _, err := enc.String(string(r)); err != nil {
			bad = r
			break
		}
	}
	return nil, tool.Errorf(tool.Encoding, "the file is %s, which has no character %q (U+%04X)", e, bad, bad).
		WithNext("write the text without it, or convert the file to UTF-8 first").With("character", string(bad))
}

// Undecided is the error of [Detect].
type Undecided struct {
	// Candidates are the encodings that the bytes may be in, the likely ones
	// first. There are none if they are hardly text.
	Candidates []Encoding
}

// Wide reports whether ASCII text has other bytes in the likeliest candidate
// than in UTF-8.
func (u *Undecided) Wide() bool { return len(u.Candidates) > 0 && u.Candidates[0].Wide() }

// Names gives the candidates as Lookup takes them.
func (u *Undecided) Names() []string {
	names := make([]string, len(u.Candidates))
	for i, c := range u.Candidates {
		names[i] = strings.ToLower(c.name)
	}
	return names
}

func (u *Undecided) Error() string {
	if len(u.Candidates) == 0 {
		return "the bytes are no text in an encoding that is known here"
	}
	return "the encoding is not certain: " + strings.Join(u.Names(), ", ") + " come into question"
}

// For makes an *[tool.Error] of it, with the code encoding.
func (u *Undecided) For(path string) *tool.Error {
	if len(u.Candidates) == 0 {
		return tool.PathErrorf(tool.Encoding, path, "the file is no text in an encoding that is known here").
			WithNext("leave it, or inspect it with a program that knows the format")
	}
	return tool.PathErrorf(tool.Encoding, path, "the file is not UTF-8, and its encoding is not certain; it may be %s", list(u.Names())).
		WithNext("set encoding to the one in which read_open shows the text right").With("candidates", u.Names())
}

func list(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
