package httpfetch

import (
	"bytes"
	"sort"
	"strconv"
)

// decoding undoes one kind of escapes. It is lenient, and wrong for text that
// only looks escaped; that is no harm, since what it yields is only searched.
type decoding struct {
	mark byte // what every escape begins with

	// unit reads the escape that text begins with: the character it stands for
	// and its length, 2 or more, or 0 if it is none.
	unit func(text []byte) (c byte, n int)
}

var decodings = []decoding{
	{'%', percentUnit},
	{'\\', backslashUnit},
	{'&', entityUnit},
}

// other stands for a character that is not ASCII: no secret holds one.
const other = 0xff

// origin leads from places in a decoded text back to the text it came from.
type origin []struct {
	plain int // from this place on
	shift int // this much is added
}

func (o origin) of(plain int) int {
	i := sort.Search(len(o), func(i int) bool { return o[i].plain > plain })
	if i == 0 {
		return plain
	}
	return plain + o[i-1].shift
}

// decode gives the decoded text and the way back. Places between escapes cost
// nothing but the copy.
func (d decoding) decode(text []byte) (plain []byte, from origin) {
	for start, i := 0, 0; ; {
		next := bytes.IndexByte(text[i:], d.mark)
		if next < 0 {
			return append(plain, text[start:]...), from
		}
		i += next
		c, n := d.unit(text[i:])
		if n == 0 {
			i++
			continue
		}
		plain = append(append(plain, text[start:i]...), c)
		i += n
		start = i
		from = append(from, struct{ plain, shift int }{len(plain), i - len(plain)})
	}
}

func percentUnit(text []byte) (byte, int) { return hexUnit(text, 1, 2) }

// hexUnit reads the digits that stand after a prefix.
func hexUnit(text []byte, prefix, digits int) (byte, int) {
	if len(text) < prefix+digits {
		return 0, 0
	}
	n, err := strconv.ParseUint(string(text[prefix:prefix+digits]), 16, 32)
	if err != nil {
		return 0, 0
	}
	return ascii(n), prefix + digits
}

func ascii(n uint64) byte {
	if n > 0x7f {
		return other
	}
	return byte(n)
}

// backslashUnit reads the escapes of JSON, and \x and \' of its relatives.
func backslashUnit(text []byte) (byte, int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch c := text[1]; c {
	case 'u':
		return hexUnit(text, 2, 4)
	case 'x':
		return hexUnit(text, 2, 2)
	case '"', '\\', '/', '\'':
		return c, 2
	case 'b', 'f', 'n', 'r', 't':
		return other, 2 // a control character: no secret holds one
	}
	return 0, 0
}

// maxEntity is the longest entity that is read; leading zeros are legal.
const maxEntity = 16

var entities = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

// entityUnit reads the escapes of HTML and XML.
func entityUnit(text []byte) (byte, int) {
	end := bytes.IndexByte(text[:min(len(text), maxEntity)], ';')
	if end < 2 {
		return 0, 0
	}
	name := string(text[1:end])
	if c, ok := entities[name]; ok {
		return c, end + 1
	}
	if name[0] != '#' {
		return 0, 0
	}
	digits, base := name[1:], 10
	if len(digits) > 0 && (digits[0] == 'x' || digits[0] == 'X') {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, 0
	}
	return ascii(n), end + 1
}
