package jsonsize_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
)

// FuzzSize: what encoding/json writes is never longer than was counted, and for
// text without the characters that encoders differ on exactly as long. A
// beginning and an end keep to their bytes and end between characters.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"", "a\n\"\\\t\r", "\x00\x1f\x7f", "é世🙂", "\xff\xf0\x9f", "\u2028\u2029<>&", "\b\f", strings.Repeat("é\n", 100)} {
		f.Add(s, 7)
		f.Add(s, 0)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		want, got := b.Len()-3, jsonsize.Len(s)
		if got < want || got > want && !strings.ContainsAny(s, "\b\f") {
			t.Errorf("Len(%q) = %d, want %d", s, got, want)
		}
		n = n % 1000
		for _, c := range []struct{ part, rest string }{
			{jsonsize.Prefix(s, n), strings.TrimPrefix(s, jsonsize.Prefix(s, n))}, {jsonsize.Suffix(s, n), strings.TrimSuffix(s, jsonsize.Suffix(s, n))},
		} {
			if size := jsonsize.Len(c.part); size > max(n, 0) || len(c.part)+len(c.rest) != len(s) {
				t.Errorf("of %q within %d: %q, %d bytes", s, n, c.part, size)
			}
			if utf8.ValidString(s) && (!utf8.ValidString(c.part) || len(c.rest) > 0 && jsonsize.Len(c.part)+6 < n) {
				t.Errorf("of %q within %d: %q is cut inside a character, or too early", s, n, c.part)
			}
		}
	})
}
