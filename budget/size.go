package budget

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// blockFrame is what a further text block takes beside its text:
// ,{"type":"text","text":""}
const blockFrame = 26

// textSize is how many bytes of JSON the text blocks take, but for the frame of
// the first. Joined to one text they take fewer.
func textSize(in []tool.Content) int {
	n, blocks := 0, 0
	for _, c := range in {
		if c.Kind == tool.KindText {
			blocks++
			n += encoded(c.Text)
		}
	}
	return n + blockFrame*max(0, blocks-1)
}

// encoded is the length of s in a JSON string, without the quotes. Where
// encoders differ it is the longer form, but for <, > and &, which no surface of
// ours escapes. An invalid byte is U+FFFD there, raw or escaped.
func encoded(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if c := ascii[s[i]]; c != 0 {
			n, i = n+int(c), i+1
			continue
		}
		size, width := encodedAt(s, i)
		n, i = n+size, i+width
	}
	return n
}

// ascii is how many bytes of JSON a character takes; 0 beyond ASCII. A table is
// four times as quick as the conditions, and every text of every call is counted.
var ascii = func() (t [256]uint8) {
	for i := range utf8.RuneSelf {
		size, _ := encodedAt(string(rune(i)), 0)
		t[i] = uint8(size)
	}
	return t
}()

// encodedAt is how many bytes of JSON the character at i takes, and how many of s.
func encodedAt(s string, i int) (size, width int) {
	c := s[i]
	switch {
	case c >= utf8.RuneSelf:
		r, w := utf8.DecodeRuneInString(s[i:])
		switch {
		case w == 1:
			return len(`\ufffd`), 1
		case r == '\u2028' || r == '\u2029':
			return 6, w
		}
		return w, w
	case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
		return 2, 1
	case c < ' ':
		return 6, 1
	}
	return 1, 1
}

// valueSize is how many bytes of JSON a value takes, without making them where
// its type is a usual one.
func valueSize(v any) int {
	switch v := v.(type) {
	case nil:
		return 4
	case string:
		return encoded(v) + 2
	case bool:
		return len(strconv.FormatBool(v))
	case int:
		return len(strconv.Itoa(v))
	case int64:
		return len(strconv.FormatInt(v, 10))
	case map[string]any:
		n := 2
		for k, x := range v {
			n += encoded(k) + 4 + valueSize(x)
		}
		return n
	case []any:
		n := 2
		for _, x := range v {
			n += 1 + valueSize(x)
		}
		return n
	}
	p, err := marshal(v)
	if err != nil {
		return 0 // the surface says so
	}
	return len(p)
}

// marshal is JSON as the surfaces write it: nothing is escaped for pages.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// head is the beginning of s: at most n bytes, whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}

// tail is the end of s: at most n bytes, whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for i := 0; i < utf8.UTFMax-1 && from < len(s) && !utf8.RuneStart(s[from]); i++ {
		from++
	}
	return s[from:]
}

// headWithin is head, and takes at most n bytes of JSON as well.
func headWithin(s string, n int) string {
	s = head(s, n)
	size := 0
	for i := 0; i < len(s); {
		c, w := encodedAt(s, i)
		if size += c; size > n {
			return s[:i]
		}
		i += w
	}
	return s
}

// tailWithin is tail, and takes at most n bytes of JSON as well.
func tailWithin(s string, n int) string {
	s = tail(s, n)
	over := encoded(s) - n
	i := 0
	for over > 0 {
		c, w := encodedAt(s, i)
		over, i = over-c, i+w
	}
	return s[i:]
}

// wholeLines is s without its last line if that is not whole and not most of it.
func wholeLines(s string) string {
	if at := strings.LastIndexByte(s, '\n'); at >= len(s)/2 {
		return s[:at+1]
	}
	return s
}
