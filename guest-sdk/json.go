package guest

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is the type of a JSON value.
type Kind uint8

const (
	Missing Kind = iota // the zero Value: no such member or element
	NullKind
	BoolKind
	NumberKind
	StringKind
	ArrayKind
	ObjectKind
)

// Value is one JSON value. The zero Value stands for one that is missing; every
// method works on it, so that a chain of Get calls needs no checks in between.
type Value struct {
	kind   Kind
	yes    bool
	text   string // of a string; the literal of a number
	items  []Value
	fields []Field
}

// Field is one member of an object.
type Field struct {
	Key   string
	Value Value
}

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// Exists reports whether the value was there at all; null exists.
func (v Value) Exists() bool { return v.kind != Missing }

// Get returns the member named key, or the missing Value.
func (v Value) Get(key string) Value {
	for i := range v.fields {
		if v.fields[i].Key == key {
			return v.fields[i].Value
		}
	}
	return Value{}
}

// Items returns the elements of an array, Fields the members of an object in
// the order of the text. Both are nil for other kinds and must not be changed.
func (v Value) Items() []Value  { return v.items }
func (v Value) Fields() []Field { return v.fields }

// Text returns the value of a string.
func (v Value) Text() (string, bool) { return v.text, v.kind == StringKind }

// Bool returns the value of a boolean.
func (v Value) Bool() (value, ok bool) { return v.yes, v.kind == BoolKind }

// Int returns a number that is a whole one, in any spelling (1, 1.0, 1e3), as
// JSON Schema's integer has it. It is not ok for one that no int64 holds; where
// a tool's input schema asks for an integer, the SDK refuses such arguments with
// invalid_arguments before the tool runs.
func (v Value) Int() (int64, bool) {
	n, _, ok := v.whole()
	return n, ok
}

// Float returns the value of a number.
func (v Value) Float() (float64, bool) {
	if v.kind != NumberKind {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.text, 64)
	return f, err == nil
}

// TextOr returns the value of a string, or otherwise if it is none.
func (v Value) TextOr(otherwise string) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return otherwise
}

// IntOr returns the value of a whole number, or otherwise if it is none.
func (v Value) IntOr(otherwise int64) int64 {
	if n, ok := v.Int(); ok {
		return n
	}
	return otherwise
}

// BoolOr returns the value of a boolean, or otherwise if it is none.
func (v Value) BoolOr(otherwise bool) bool {
	if b, ok := v.Bool(); ok {
		return b
	}
	return otherwise
}

// maxDepth bounds nesting, and with it recursion, when a text is parsed. The
// host checks arguments to the same depth.
const maxDepth = 64

// SyntaxError says why a text is not JSON, and at which byte.
type SyntaxError struct {
	Offset int
	Text   string
}

func (e *SyntaxError) Error() string {
	return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Text
}

// Parse reads one JSON text (RFC 8259) and nothing after it. It is strict: a
// name that occurs twice in one object, invalid UTF-8 and nesting beyond 64
// levels are errors. An escaped surrogate without its partner becomes U+FFFD,
// as in encoding/json.
func Parse(p []byte) (Value, error) { return parseText(string(p)) }

func parseText(s string) (Value, error) {
	d := decoder{s: s}
	v := d.value(0)
	if d.err == nil {
		d.space()
		if d.i < len(d.s) {
			d.fail("text after the value")
		}
	}
	if d.err != nil {
		return Value{}, d.err
	}
	return v, nil
}

type decoder struct {
	s   string
	i   int
	err error
}

func (d *decoder) fail(text string) {
	if d.err == nil {
		d.err = &SyntaxError{Offset: d.i, Text: text}
	}
}

func (d *decoder) space() {
	for d.i < len(d.s) {
		switch d.s[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

// take moves over c if it is the next byte.
func (d *decoder) take(c byte) bool {
	if d.i < len(d.s) && d.s[d.i] == c {
		d.i++
		return true
	}
	return false
}

func (d *decoder) word(w string, v Value) Value {
	if len(d.s)-d.i < len(w) || d.s[d.i:d.i+len(w)] != w {
		d.fail("unknown word")
		return Value{}
	}
	d.i += len(w)
	return v
}

func (d *decoder) value(depth int) Value {
	d.space()
	if d.i >= len(d.s) {
		d.fail("the text ends where a value is due")
		return Value{}
	}
	switch c := d.s[d.i]; {
	case c == '{' || c == '[':
		if depth >= maxDepth {
			d.fail("nested too deeply")
			return Value{}
		}
		d.i++
		if c == '{' {
			return d.object(depth + 1)
		}
		return d.array(depth + 1)
	case c == '"':
		return Value{kind: StringKind, text: d.string()}
	case c == 't':
		return d.word("true", Value{kind: BoolKind, yes: true})
	case c == 'f':
		return d.word("false", Value{kind: BoolKind})
	case c == 'n':
		return d.word("null", Value{kind: NullKind})
	case c == '-' || isDigit(c):
		return d.number()
	}
	d.fail("a value cannot begin so")
	return Value{}
}

func (d *decoder) array(depth int) Value {
	v := Value{kind: ArrayKind}
	d.space()
	if d.take(']') {
		return v
	}
	for d.err == nil {
		v.items = append(v.items, d.value(depth))
		d.space()
		if d.take(']') {
			break
		}
		if !d.take(',') {
			d.fail("expected , or ]")
		}
	}
	return v
}

// manyFields is where looking for a repeated name turns from comparing all
// names to a map, so that a large object does not cost the square of its size.
const manyFields = 16

func (d *decoder) object(depth int) Value {
	v := Value{kind: ObjectKind}
	var seen map[string]struct{}
	d.space()
	if d.take('}') {
		return v
	}
	for d.err == nil {
		d.space()
		if d.i >= len(d.s) || d.s[d.i] != '"' {
			d.fail("expected a name in quotes")
			break
		}
		at := d.i
		key := d.string()
		if seen == nil && len(v.fields) >= manyFields {
			seen = make(map[string]struct{}, 2*manyFields)
			for _, f := range v.fields {
				seen[f.Key] = struct{}{}
			}
		}
		twice := false
		if seen != nil {
			_, twice = seen[key]
			seen[key] = struct{}{}
		} else {
			twice = v.Get(key).Exists()
		}
		if twice {
			d.i = at
			d.fail("a name occurs twice")
			break
		}
		d.space()
		if !d.take(':') {
			d.fail("expected :")
			break
		}
		v.fields = append(v.fields, Field{key, d.value(depth)})
		d.space()
		if d.take('}') {
			break
		}
		if !d.take(',') {
			d.fail("expected , or }")
		}
	}
	return v
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (d *decoder) digits() bool {
	start := d.i
	for d.i < len(d.s) && isDigit(d.s[d.i]) {
		d.i++
	}
	return d.i > start
}

func (d *decoder) number() Value {
	start := d.i
	d.take('-')
	if !d.take('0') && !d.digits() {
		d.fail("a number needs digits")
	}
	if d.take('.') && !d.digits() {
		d.fail("a number needs digits after its point")
	}
	if d.take('e') || d.take('E') {
		if !d.take('+') {
			d.take('-')
		}
		if !d.digits() {
			d.fail("an exponent needs digits")
		}
	}
	return Value{kind: NumberKind, text: d.s[start:d.i]}
}

// string reads a string whose opening quote is the next byte.
func (d *decoder) string() string {
	d.i++
	start := d.i
	for d.i < len(d.s) {
		switch c := d.s[d.i]; {
		case c == '"':
			s := d.s[start:d.i]
			d.i++
			if !utf8.ValidString(s) {
				d.fail("invalid UTF-8")
			}
			return s
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			d.fail("a control character in a string")
			return ""
		}
		d.i++
	}
	d.fail("the text ends inside a string")
	return ""
}

// escaped goes on with a string that began at start, from its first backslash.
func (d *decoder) escaped(start int) string {
	// A text of many megabytes is decoded into room of its own size, once.
	end := d.i
	for end < len(d.s) && d.s[end] != '"' {
		if d.s[end] == '\\' {
			end++
		}
		end++
	}
	var out strings.Builder
	out.Grow(min(end, len(d.s)) - start)
	out.WriteString(d.s[start:d.i])
	for d.i < len(d.s) {
		c := d.s[d.i]
		switch {
		case c == '"':
			d.i++
			if !utf8.ValidString(out.String()) {
				d.fail("invalid UTF-8")
			}
			return out.String()
		case c < ' ':
			d.fail("a control character in a string")
			return ""
		case c != '\\':
			out.WriteByte(c)
			d.i++
			continue
		}
		if d.i+1 >= len(d.s) {
			break
		}
		c = d.s[d.i+1]
		switch c {
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := d.unit(d.i)
			if r < 0 {
				d.fail("\\u needs four hexadecimal digits")
				return ""
			}
			d.i += 6
			if utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, d.unit(d.i)); pair != utf8.RuneError {
					r = pair
					d.i += 6
				} else {
					r = utf8.RuneError
				}
			}
			out.WriteRune(r)
			continue
		default:
			d.fail("unknown escape")
			return ""
		}
		out.WriteByte(c)
		d.i += 2
	}
	d.fail("the text ends inside a string")
	return ""
}

// unit reads a \uXXXX escape that begins at byte i, or returns -1.
func (d *decoder) unit(i int) rune {
	if len(d.s)-i < 6 || d.s[i] != '\\' || d.s[i+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range []byte(d.s[i+2 : i+6]) {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
