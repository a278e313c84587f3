package budget

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
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
			n += jsonsize.Len(c.Text)
		}
	}
	return n + blockFrame*max(0, blocks-1)
}

// valueSize is how many bytes of JSON a value takes, without making them where
// its type is a usual one.
func valueSize(v any) int {
	switch v := v.(type) {
	case nil:
		return 4
	case string:
		return jsonsize.Len(v) + 2
	case bool:
		return len(strconv.FormatBool(v))
	case int:
		return len(strconv.Itoa(v))
	case int64:
		return len(strconv.FormatInt(v, 10))
	case map[string]any:
		n := 2
		for k, x := range v {
			n += jsonsize.Len(k) + 4 + valueSize(x)
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

// wholeLines is s without its last line if that is not whole and not most of it.
func wholeLines(s string) string {
	if at := strings.LastIndexByte(s, '\n'); at >= len(s)/2 {
		return s[:at+1]
	}
	return s
}
