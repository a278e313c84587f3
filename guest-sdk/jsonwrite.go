package guest

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Null is JSON's null.
var Null = Value{kind: NullKind}

// String makes a JSON string. Invalid UTF-8 in s is written as U+FFFD.
func String(s string) Value { return Value{kind: StringKind, text: s} }

// Bool makes a JSON boolean.
func Bool(b bool) Value { return Value{kind: BoolKind, yes: b} }

// Int makes a JSON number.
func Int(n int64) Value { return Value{kind: NumberKind, text: strconv.FormatInt(n, 10)} }

// Float makes a JSON number; infinities and NaN, which JSON lacks, become null.
func Float(f float64) Value {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return Null
	}
	return Value{kind: NumberKind, text: strconv.FormatFloat(f, 'g', -1, 64)}
}

// Array makes a JSON array.
func Array(items ...Value) Value { return Value{kind: ArrayKind, items: items} }

// Object makes a JSON object. Fields whose value is missing are left out.
func Object(fields ...Field) Value { return Value{kind: ObjectKind, fields: fields} }

// F makes one member of an object from a Go value.
func F[T string | bool | int | int64 | float64 | Value | []Value | []string](key string, value T) Field {
	f := Field{Key: key}
	switch v := any(value).(type) {
	case string:
		f.Value = String(v)
	case bool:
		f.Value = Bool(v)
	case int:
		f.Value = Int(int64(v))
	case int64:
		f.Value = Int(v)
	case float64:
		f.Value = Float(v)
	case Value:
		f.Value = v
	case []Value:
		f.Value = Array(v...)
	case []string:
		f.Value = Array()
		for _, s := range v {
			f.Value.items = append(f.Value.items, String(s))
		}
	}
	return f
}

// JSON returns the value as JSON text without spaces; a missing Value is null.
func (v Value) JSON() []byte { return v.AppendJSON(nil) }

// AppendJSON appends the value as JSON text to buf.
func (v Value) AppendJSON(buf []byte) []byte {
	switch v.kind {
	case BoolKind:
		return strconv.AppendBool(buf, v.yes)
	case NumberKind:
		return append(buf, v.text...)
	case StringKind:
		return appendString(buf, v.text)
	case ArrayKind:
		buf = append(buf, '[')
		for i, item := range v.items {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = item.AppendJSON(buf)
		}
		return append(buf, ']')
	case ObjectKind:
		buf = append(buf, '{')
		first := true
		for _, f := range v.fields {
			if !f.Value.Exists() {
				continue
			}
			if !first {
				buf = append(buf, ',')
			}
			first = false
			buf = append(appendString(buf, f.Key), ':')
			buf = f.Value.AppendJSON(buf)
		}
		return append(buf, '}')
	}
	return append(buf, "null"...)
}

const hexDigits = "0123456789abcdef"

func appendString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	start := 0
	for i := plainLen(s); i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				buf = append(append(buf, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		buf = append(append(buf, s[start:i]...), '\\')
		switch c {
		case '"', '\\':
			buf = append(buf, c)
		case '\n':
			buf = append(buf, 'n')
		case '\r':
			buf = append(buf, 'r')
		case '\t':
			buf = append(buf, 't')
		default:
			buf = append(buf, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
		i += plainLen(s[i:])
	}
	return append(append(buf, s[start:]...), '"')
}

// TextLen returns how many bytes s takes inside a JSON string, without the
// quotes. The limits on results are measured so.
func TextLen(s string) int {
	n := len(s)
	for i := plainLen(s); i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				n += 2 // one bad byte becomes the three of U+FFFD
			}
			i += size
			continue
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		default:
			i++
			continue
		}
		i++
		i += plainLen(s[i:])
	}
	return n
}

// plainLen returns how many bytes at the beginning of s stand for themselves
// inside a JSON string: ASCII without controls, quote and backslash. It looks at
// eight at once and stops at the first eight that hold another, so it may return
// up to seven too few.
func plainLen(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		p := s[i : i+8]
		w := uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
			uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
		quote, backslash := w^ones*'"', w^ones*'\\'
		// A byte's top bit is set where it is too small, equal, or beyond ASCII; a
		// borrow can set more of them, but only above one that is.
		if ((w-ones*' ')&^w|(quote-ones)&^quote|(backslash-ones)&^backslash|w)&tops != 0 {
			break
		}
	}
	return i
}
