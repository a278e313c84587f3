package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAppendString holds appendString against encoding/json.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c\n\t\r\x00\x1f\x7f", "<script>&amp;", "é\u2028\U0001f600", "\xff\xfe", "a\xc3", "\xed\xa0\x80x", "\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString([]byte("x"), s)[1:]
		if !utf8.Valid(got) || bytes.ContainsAny(got, "\n\r") {
			t.Fatalf("appendString(%q) = %q: not one line of UTF-8", s, got)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		var have, want string
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("appendString(%q) = %s: %v", s, got, err)
		}
		if err := json.Unmarshal(b.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if have != want {
			t.Fatalf("appendString(%q) reads back as %q; want %q", s, have, want)
		}
	})
}

// FuzzAppendJSON: whatever is taken stays the same value on one line, and only
// objects are.
func FuzzAppendJSON(f *testing.F) {
	for _, s := range []string{`{}`, "{\n\"a\": [1,\r\n2]}", `[]`, `{"a":1}x`, "{\"a\":\"\n\"}", `{"a":"<\u2028>"}`, "{\"a\":\"\xff\"}", "null", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := appendJSON(nil, raw)
		var o map[string]any
		err := json.Unmarshal(raw, &o)
		isObject := err == nil && o != nil && utf8.Valid(raw)
		if ok != isObject && !(isObject && strings.Count(string(raw), "{")+strings.Count(string(raw), "[") > maxDepth) {
			t.Fatalf("appendJSON(%q) = %v; encoding/json says %v", raw, ok, err)
		}
		if !ok {
			return
		}
		var a, b bytes.Buffer
		if json.Compact(&a, raw) != nil || json.Compact(&b, got) != nil || a.String() != b.String() || bytes.ContainsAny(got, "\r\n") {
			t.Fatalf("appendJSON(%q) = %q: another value, or two lines", raw, got)
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"éé", 1, "é"}, {"éé", 2, "éé"}, {"\xff\xff\xff", 2, "\xff\xff"}, {"a", 0, ""}} {
		if got := clip(c.s, c.n); got != c.want {
			t.Errorf("clip(%q, %d) = %q; want %q", c.s, c.n, got, c.want)
		}
	}
	for n := 10; n < 20; n++ {
		if got := shorten(strings.Repeat("é", 20), n); len(got) > n || !utf8.ValidString(got) || !strings.HasSuffix(got, "[cut]") {
			t.Errorf("shorten(20 x é, %d) = %q", n, got)
		}
	}
}
