package guest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// toAny turns a Value into what encoding/json gives, numbers as json.Number.
func toAny(v guest.Value) any {
	switch v.Kind() {
	case guest.BoolKind:
		b, _ := v.Bool()
		return b
	case guest.NumberKind:
		return json.Number(v.JSON())
	case guest.StringKind:
		s, _ := v.Text()
		return s
	case guest.ArrayKind:
		out := []any{}
		for _, item := range v.Items() {
			out = append(out, toAny(item))
		}
		return out
	case guest.ObjectKind:
		out := map[string]any{}
		for _, f := range v.Fields() {
			out[f.Key] = toAny(f.Value)
		}
		return out
	}
	return nil
}

// strict reads p with encoding/json and reports what Parse must refuse besides:
// repeated names, invalid UTF-8, deep nesting.
func strict(p []byte) (value any, valid bool) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	if !utf8.Valid(p) {
		return nil, false
	}
	d = json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var names []map[string]bool // of the open objects; nil for arrays
	key := false
	depth := 0
	for {
		tok, err := d.Token()
		if err != nil {
			return value, err == io.EOF
		}
		in := len(names) > 0 && names[len(names)-1] != nil
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > 64 {
				return nil, false
			}
			if tok == json.Delim('{') {
				names = append(names, map[string]bool{})
			} else {
				names = append(names, nil)
			}
			key = tok == json.Delim('{')
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			names = names[:len(names)-1]
		default:
			if in && key {
				if names[len(names)-1][tok.(string)] {
					return nil, false
				}
				names[len(names)-1][tok.(string)] = true
				key = false
				continue
			}
		}
		key = len(names) > 0 && names[len(names)-1] != nil
	}
}

func checkParse(t *testing.T, p []byte) {
	t.Helper()
	v, err := guest.Parse(p)
	want, valid := strict(p)
	if valid != (err == nil) {
		t.Fatalf("Parse(%q): %v; encoding/json says valid = %v", p, err, valid)
	}
	if err != nil {
		if v.Exists() {
			t.Fatalf("Parse(%q) gave a value and an error", p)
		}
		return
	}
	if got := toAny(v); !reflect.DeepEqual(got, want) {
		t.Fatalf("Parse(%q) = %#v, want %#v", p, got, want)
	}
	again, err := guest.Parse(v.JSON())
	if err != nil || !reflect.DeepEqual(toAny(again), want) {
		t.Fatalf("%q is written as %q, which is not the same: %v", p, v.JSON(), err)
	}
}

var texts = []string{
	`{}`, `[]`, ` null `, `true`, `false`, `"x"`, `0`, `-0`, `1.5e+10`, `1E-3`, `{"a":{"b":[1,2,{"c":null}]}}`,
	`"\u00e4\ud83d\ude00\n\t\"\\\/\b\f\r"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00\ud800"`, `"\uD83D\uD83D\uDE00"`, "\"\u2028\"", `{"a":1,"b":2,"c":3}`,
	// Invalid ones.
	``, `{`, `[`, `"`, `"\`, `"\u12"`, `"\x"`, `01`, `1.`, `.5`, `1e`, `-`, `+1`, `tru`, `nul`, `truex`, `[1,]`, `{"a":1,}`, `{a:1}`, `{"a"}`, `{"a":}`,
	`{"a":1 "b":2}`, `[1 2]`, `{} {}`, `{"a":1,"a":2}`, "\"\n\"", "\"\xff\"", "\"\\n\xff\"", "\x00", `'x'`, `NaN`, "\ufeff{}",
	strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat(`{"a":`, 100000),
	`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1}`,
	`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"r":1,"c":1}`,
}

func TestParse(t *testing.T) {
	for _, s := range texts {
		checkParse(t, []byte(s))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range texts {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) { checkParse(t, p) })
}

// FuzzString: what is written as a string reads back as the text, invalid UTF-8
// as U+FFFD, and TextLen tells its length.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "a\"b\\c", "\x00\x1f\x7f\n\r\t", "ä€\U0001f600\u2028", "\xff\xc3", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(checkString)
}

func checkString(t *testing.T, s string) {
	p := guest.String(s).JSON()
	var got string
	if err := json.Unmarshal(p, &got); err != nil {
		t.Fatalf("%q is written as %q: %v", s, p, err)
	}
	if want := string([]rune(s)); got != want {
		t.Fatalf("%q reads back as %q, want %q", s, got, want)
	}
	if n := guest.TextLen(s); n != len(p)-2 {
		t.Fatalf("TextLen(%q) = %d, want %d", s, n, len(p)-2)
	}
}

// TestStringByWords: eight bytes are looked at together, so every byte stands in
// every place of them, alone and beside bytes that a borrow could confuse.
func TestStringByWords(t *testing.T) {
	for b := range 256 {
		for at := range 17 {
			for _, beside := range []string{"a", "!", " ", "#", "]", "\x7f"} {
				s := strings.Repeat(beside, 17)
				checkString(t, s[:at]+string([]byte{byte(b)})+s[at:])
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{
		{"0", 0, true}, {"-12", -12, true}, {"1.0", 1, true}, {"1e3", 1000, true}, {"1.5", 0, false}, {"1e400", 0, false},
		{"9223372036854775807", math.MaxInt64, true}, {"9223372036854775808", 0, false}, {"1e15", 1e15, true}, {"1e17", 1e17, true},
		{"-9223372036854775808", math.MinInt64, true}, {"-9223372036854775809", 0, false}, {"9223372036854775807.000", math.MaxInt64, true},
		{"9.223372036854775807e18", math.MaxInt64, true}, {"0.5e1", 5, true}, {"5e-1", 0, false}, {"10e-1", 1, true}, {"-0", 0, true}, {"0e99999999999999999999", 0, true},
		{"1e99999999999999999999", 0, false}, {"1e-99999999999999999999", 0, false}, {"100000000000000000000e-19", 10, true}, {"1E+3", 1000, true},
		{`"1"`, 0, false}, {"null", 0, false},
	} {
		v, err := guest.Parse([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := v.Int(); n != c.n || ok != c.ok {
			t.Errorf("Int of %s = %d, %v; want %d, %v", c.text, n, ok, c.n, c.ok)
		}
	}
	for _, f := range []float64{0, 1.5, -1e300, 1e-7, 123456789} {
		var got float64
		if err := json.Unmarshal(guest.Float(f).JSON(), &got); err != nil || got != f {
			t.Errorf("Float(%v) is written as %s", f, guest.Float(f).JSON())
		}
	}
	if got := string(guest.Array(guest.Float(math.NaN()), guest.Float(math.Inf(1))).JSON()); got != "[null,null]" {
		t.Errorf("NaN and infinity are written as %s", got)
	}
}

// TestMissing: every method works on what is not there.
func TestMissing(t *testing.T) {
	var v guest.Value
	deep := v.Get("a").Get("b")
	if deep.Exists() || deep.Kind() != guest.Missing || deep.Items() != nil || deep.Fields() != nil {
		t.Error("a missing value is not missing")
	}
	if deep.TextOr("x") != "x" || deep.IntOr(3) != 3 || deep.BoolOr(true) != true {
		t.Error("a missing value has no default")
	}
	if s := string(guest.Object(guest.F("a", deep), guest.F("b", 1), guest.F("c", []string{"x"}), guest.F("d", int64(2)), guest.F("e", []guest.Value{guest.Null})).JSON()); s != `{"b":1,"c":["x"],"d":2,"e":[null]}` {
		t.Errorf("object %s", s)
	}
	v, _ = guest.Parse([]byte(`{"n":null,"s":5}`))
	if !v.Get("n").Exists() || v.Get("s").TextOr("x") != "x" {
		t.Error("null exists, and a number is no text")
	}
}
