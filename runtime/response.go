package runtime

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// maxBlocks bounds the content blocks of a response. Real ones have a handful.
const maxBlocks = 256

// guestCodes are the codes that a tool may report. The others speak for the
// host (approval, identity, stops) and would be forged.
var guestCodes = map[tool.Code]bool{
	tool.SchemaInvalid: true, tool.InvalidArguments: true, tool.NotAvailable: true,
	tool.OutsideRoot: true, tool.Protected: true, tool.NotFound: true, tool.NotRegular: true,
	tool.Exists: true, tool.NotUnique: true, tool.NoMatch: true, tool.NoChange: true,
	tool.Stale: true, tool.Encoding: true, tool.TooLarge: true, tool.Permission: true,
	tool.Timeout: true, tool.Quota: true, tool.GrantMissing: true, tool.Busy: true,
	tool.Lost: true, tool.Upstream: true, tool.Trap: true,
}

type response struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	Meta       struct {
		Code    string         `json:"wasmtools/code"`
		Details map[string]any `json:"wasmtools/details"`
	} `json:"_meta"`
}

type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
}

// parseResponse reads what a guest answered. Fields that it does not know are
// left out; what is not a result at all is a trap error.
func parseResponse(p []byte) (tool.Result, error) {
	if r, ok := oneText(p); ok {
		return r, nil
	}
	return parseAny(p)
}

// oneText reads the response of most calls: one text, and perhaps details. That
// takes a third of the time of a reader for every JSON, which for a short call
// is as much as the call. What it does not know it leaves to [parseAny].
func oneText(p []byte) (r tool.Result, ok bool) {
	p, begins := bytes.CutPrefix(p, []byte(`{"content":[{"type":"text","text":"`))
	if !begins {
		return r, false
	}
	text, p, ok := cutText(p)
	if !ok {
		return r, false
	}
	r.Content = []tool.Content{tool.Text(text)}
	if string(p) == "}]}" {
		return r, true
	}
	p, begins = bytes.CutPrefix(p, []byte(`}],"_meta":{"wasmtools/details":`))
	p, ends := bytes.CutSuffix(p, []byte("}}"))
	// Unmarshal takes one value and nothing behind it, so p is all of the details.
	return r, begins && ends && json.Unmarshal(p, &r.Details) == nil
}

// cutText reads the text of a JSON string whose first quote was passed, and
// returns what stands behind the last one. Not ok are \u escapes, which texts
// hardly have, and whatever is no JSON string in UTF-8.
func cutText(p []byte) (text string, rest []byte, ok bool) {
	end, escapes := 0, 0
	for ; ; end++ {
		if end >= len(p) || p[end] < ' ' {
			return "", nil, false
		}
		if p[end] == '"' {
			break
		}
		if p[end] == '\\' {
			end++
			escapes++
		}
	}
	p, rest = p[:end], p[end+1:]
	if !utf8.Valid(p) {
		return "", nil, false
	}
	if escapes == 0 {
		return string(p), rest, true
	}
	var b strings.Builder
	b.Grow(len(p) - escapes)
	for {
		i := bytes.IndexByte(p, '\\')
		if i < 0 {
			b.Write(p)
			return b.String(), rest, true
		}
		b.Write(p[:i])
		c := unescaped(p[i+1])
		if c == 0 {
			return "", nil, false
		}
		b.WriteByte(c)
		p = p[i+2:]
	}
}

// unescaped is the character that a backslash and c stand for; 0 if that takes
// more than c, or is nothing.
func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case '"', '\\', '/':
		return c
	}
	return 0
}

// parseAny reads every response.
func parseAny(p []byte) (tool.Result, error) {
	var r response
	if err := json.Unmarshal(p, &r); err != nil {
		return tool.Result{}, tool.Errorf(tool.Trap, "the module's response is not a JSON result").Because(err)
	}
	if t := bytes.TrimLeft(p, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return tool.Result{}, tool.Errorf(tool.Trap, "the module's response is not a JSON object")
	}
	if len(r.Content) > maxBlocks {
		return tool.Result{}, tool.Errorf(tool.Trap, "the module's response has %d content blocks; at most %d are allowed", len(r.Content), maxBlocks)
	}
	out := tool.Result{IsError: r.IsError, Details: r.Meta.Details}
	for i, b := range r.Content {
		c, why := b.content()
		if why != "" {
			return tool.Result{}, tool.Errorf(tool.Trap, "content block %d of the module's response %s", i, why)
		}
		out.Content = append(out.Content, c)
	}
	if s := bytes.TrimSpace(r.Structured); len(s) > 0 && string(s) != "null" {
		if s[0] != '{' {
			return tool.Result{}, tool.Errorf(tool.Trap, "the structured content of the module's response is not an object")
		}
		out.Structured = bytes.Clone(s)
		if !utf8.Valid(s) {
			out.Structured = bytes.ToValidUTF8(s, []byte("\uFFFD"))
		}
	}
	if len(out.Content) == 0 && out.Structured == nil {
		return tool.Result{}, tool.Errorf(tool.Trap, "the module's response has no content")
	}
	if out.IsError {
		out.Code = tool.Code(r.Meta.Code)
		if !guestCodes[out.Code] {
			out.Code = tool.Trap
		}
	}
	return out, nil
}

// content turns a block into ours, or says what is wrong with it.
func (b block) content() (tool.Content, string) {
	switch kind := tool.ContentKind(b.Type); kind {
	case tool.KindText:
		return tool.Text(b.Text), ""
	case tool.KindImage, tool.KindAudio:
		data, err := base64.StdEncoding.DecodeString(b.Data)
		if err != nil {
			return tool.Content{}, "has data that is not base64"
		}
		if !validMIME(b.MIMEType) {
			return tool.Content{}, "has no valid mimeType"
		}
		return tool.Content{Kind: kind, Data: data, MIMEType: b.MIMEType}, ""
	case tool.KindResourceLink:
		if b.URI == "" {
			return tool.Content{}, "has no uri"
		}
		return tool.Content{Kind: kind, URI: b.URI, Name: b.Name, MIMEType: b.MIMEType}, ""
	}
	return tool.Content{}, "has an unknown type"
}

// validMIME accepts a type and subtype of the characters that registered ones have.
func validMIME(s string) bool {
	major, minor, ok := strings.Cut(s, "/")
	if !ok || major == "" || minor == "" || len(s) > 127 {
		return false
	}
	return !strings.ContainsFunc(major+minor, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+-.", r))
	})
}
