package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// maxErrorText is how many characters of text a failed call shows. Claude Code
// cuts near 11,000; what matters stands first in our error texts.
const maxErrorText = 8000

// presentable gives r as it can be sent: structured content that is one line of
// JSON, error texts within their limit.
func presentable(r tool.Result) tool.Result {
	if r.Structured != nil {
		flat, ok := appendJSON(make([]byte, 0, len(r.Structured)), r.Structured)
		if !ok {
			// Leaving it out would give an answer that looks whole.
			r = tool.ErrorResult(tool.Errorf(tool.Internal, "the tool's structured result is not a JSON object"))
		} else {
			r.Structured = flat
		}
	}
	if r.IsError {
		r.Content = clipErrors(r.Content, maxErrorText)
		if r.Code == "" {
			r.Code = tool.Internal
		}
	}
	return r
}

// clipErrors keeps the first n characters of the text blocks together, the
// words that say what was cut included. Other blocks stay.
func clipErrors(in []tool.Content, n int) []tool.Content {
	const notice = 48 // characters kept free for those words
	chars := 0
	for i := range in {
		if in[i].Kind == tool.KindText {
			chars += utf8.RuneCountInString(in[i].Text)
		}
	}
	if chars <= n {
		return in
	}
	out := make([]tool.Content, 0, min(len(in), 16))
	room, last := n-notice, -1
	for _, c := range in {
		if c.Kind == tool.KindText {
			if room == 0 {
				continue
			}
			c.Text = clip(c.Text, room)
			room -= utf8.RuneCountInString(c.Text)
			last = len(out)
		}
		out = append(out, c)
	}
	out[last].Text += fmt.Sprintf("\n[cut: %d more characters]", chars-(n-notice))
	return out
}

// appendResult appends the members of a tools/call result, without the braces.
// The result is presentable.
func appendResult(dst []byte, r *tool.Result) []byte {
	dst = append(dst, `"content":[`...)
	for i := range r.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendContent(dst, &r.Content[i], i)
	}
	dst = append(dst, ']')
	if r.Structured != nil {
		dst = append(dst, `,"structuredContent":`...)
		dst = append(dst, r.Structured...)
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	return dst
}

// appendContent appends one block. MCP has no video block; a video is sent as
// an embedded resource, the only block that carries bytes of any type.
func appendContent(dst []byte, c *tool.Content, i int) []byte {
	mime := c.MIMEType
	if mime == "" {
		mime = "application/octet-stream"
	}
	switch c.Kind {
	case tool.KindImage, tool.KindAudio:
		dst = append(dst, `{"type":"`...)
		dst = append(dst, c.Kind...)
		dst = append(dst, `","data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, c.Data)
		dst = append(dst, `","mimeType":`...)
		dst = appendString(dst, mime)
	case tool.KindVideo:
		uri := c.URI
		if uri == "" {
			uri = "wasmtools:result/" + strconv.Itoa(i)
		}
		dst = append(dst, `{"type":"resource","resource":{"uri":`...)
		dst = appendString(dst, uri)
		dst = append(dst, `,"mimeType":`...)
		dst = appendString(dst, mime)
		dst = append(dst, `,"blob":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, c.Data)
		dst = append(dst, `"}`...)
	case tool.KindResourceLink:
		name := c.Name
		if name == "" {
			name = c.URI
		}
		dst = append(dst, `{"type":"resource_link","uri":`...)
		dst = appendString(dst, c.URI)
		dst = append(dst, `,"name":`...)
		dst = appendString(dst, name)
		if c.MIMEType != "" {
			dst = append(dst, `,"mimeType":`...)
			dst = appendString(dst, c.MIMEType)
		}
	default:
		dst = append(dst, `{"type":"text","text":`...)
		dst = appendString(dst, c.Text)
	}
	return append(dst, '}')
}

// appendResultMeta appends the members of a result's _meta, each with a comma
// behind it.
func appendResultMeta(dst []byte, r *tool.Result) []byte {
	if r.IsError {
		dst = append(dst, `"wasmtools/code":`...)
		dst = appendString(dst, string(r.Code))
		dst = append(dst, ',')
	}
	if len(r.Details) > 0 {
		dst = append(dst, `"wasmtools/details":`...)
		dst = append(dst, details(r.Details)...)
		dst = append(dst, ',')
	}
	return dst
}

func details(m map[string]any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return []byte(`{"error":"the details cannot be encoded"}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
