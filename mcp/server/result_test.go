package server

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

func encoded(t *testing.T, res tool.Result, modern bool) (line []byte, r *mcpsdk.CallToolResult) {
	t.Helper()
	s := New(&fake{}, Options{})
	line = s.encode(&request{message: message{rawID: []byte("1")}, modern: modern}, res)
	if strings.Count(string(line), "\n") != 1 || line[len(line)-1] != '\n' || !utf8.Valid(line) {
		t.Fatalf("%q: not one line of UTF-8", line)
	}
	var w struct{ Result *mcpsdk.CallToolResult }
	if err := json.Unmarshal(line, &w); err != nil || w.Result == nil {
		t.Fatalf("%s: %v", line, err)
	}
	return line, w.Result
}

// TestEncodeReadsBack lets the SDK's types read what the encoder writes.
func TestEncodeReadsBack(t *testing.T) {
	res := tool.Result{
		Content: []tool.Content{
			tool.Text("a <b> & \"c\"\n\xff"),
			{Kind: tool.KindImage, Data: []byte{0, 1, 0xff}, MIMEType: "image/png"},
			{Kind: tool.KindAudio, Data: []byte("x")},
			{Kind: tool.KindVideo, Data: []byte("v"), MIMEType: "video/mp4"},
			{Kind: tool.KindResourceLink, URI: "artifact:abc", MIMEType: "text/plain"},
			{Kind: "strange", Text: "shown as text"},
		},
		Structured: json.RawMessage("{\n \"n\": 1,\r\n \"s\": \"<\u2028>\" }"),
		Details:    map[string]any{"lines": []int{41, 88}, "html": "<b>"},
	}
	for _, modern := range []bool{false, true} {
		line, r := encoded(t, res, modern)
		if len(r.Content) != 6 {
			t.Fatalf("%d blocks in %s", len(r.Content), line)
		}
		if c := r.Content[0].(*mcpsdk.TextContent); c.Text != "a <b> & \"c\"\n\ufffd" {
			t.Errorf("text %q", c.Text)
		}
		if c := r.Content[1].(*mcpsdk.ImageContent); string(c.Data) != "\x00\x01\xff" || c.MIMEType != "image/png" {
			t.Errorf("image %+v", c)
		}
		if c := r.Content[2].(*mcpsdk.AudioContent); string(c.Data) != "x" || c.MIMEType == "" {
			t.Errorf("audio %+v", c)
		}
		if c := r.Content[3].(*mcpsdk.EmbeddedResource); string(c.Resource.Blob) != "v" || c.Resource.URI == "" || c.Resource.MIMEType != "video/mp4" {
			t.Errorf("video %+v", c.Resource)
		}
		if c := r.Content[4].(*mcpsdk.ResourceLink); c.URI != "artifact:abc" || c.Name == "" {
			t.Errorf("link %+v", c)
		}
		if c := r.Content[5].(*mcpsdk.TextContent); c.Text != "shown as text" {
			t.Errorf("unknown kind %+v", c)
		}
		if m, ok := r.StructuredContent.(map[string]any); !ok || m["n"] != 1.0 || m["s"] != "<\u2028>" {
			t.Errorf("structured %#v", r.StructuredContent)
		}
		if d, ok := r.Meta["wasmtools/details"].(map[string]any); !ok || d["html"] != "<b>" {
			t.Errorf("details %#v", r.Meta)
		}
		if _, ok := r.Meta[mcpsdk.MetaKeyServerInfo]; ok != modern {
			t.Errorf("server info in _meta: %v; modern: %v", ok, modern)
		}
		if strings.Contains(string(line), `"resultType":"complete"`) != modern {
			t.Errorf("resultType in %s; modern: %v", line, modern)
		}
		if r.IsError || strings.Contains(string(line), "isError") {
			t.Errorf("%s is no error", line)
		}
	}
}

func TestEncodeEmpty(t *testing.T) {
	line, _ := encoded(t, tool.Result{}, false)
	if got, want := string(line), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestEncodeError(t *testing.T) {
	res := tool.ErrorResult(tool.PathErrorf(tool.NotUnique, "a.go", "old occurs 3 times").With("lines", []int{1, 2, 3}))
	_, r := encoded(t, res, false)
	if !r.IsError || r.Meta["wasmtools/code"] != "not_unique" {
		t.Errorf("isError %v, _meta %v", r.IsError, r.Meta)
	}
	if d, _ := r.Meta["wasmtools/details"].(map[string]any); len(d) != 1 {
		t.Errorf("details %v", r.Meta)
	}
	if _, r := encoded(t, tool.Result{IsError: true}, false); r.Meta["wasmtools/code"] != "internal" {
		t.Errorf("an error without a code: %v", r.Meta)
	}
}

// A structured result that is no JSON object must not reach the line, and must
// not vanish either.
func TestEncodeRefusesBrokenStructure(t *testing.T) {
	for _, raw := range []string{`[]`, `7`, ``, `{"a":1}}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`} {
		_, r := encoded(t, tool.Result{Content: []tool.Content{tool.Text("t")}, Structured: json.RawMessage(raw)}, true)
		if !r.IsError || r.Meta["wasmtools/code"] != "internal" || r.StructuredContent != nil {
			t.Errorf("%.20q: isError %v, _meta %v, structured %v; want an internal error", raw, r.IsError, r.Meta, r.StructuredContent)
		}
	}
	_, r := encoded(t, tool.Result{Details: map[string]any{"x": math.NaN()}}, false)
	if d, _ := r.Meta["wasmtools/details"].(map[string]any); d["error"] == nil {
		t.Errorf("details that cannot be encoded: %v", r.Meta)
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	text := func(r *mcpsdk.CallToolResult) (all string, blocks int) {
		for _, c := range r.Content {
			if c, ok := c.(*mcpsdk.TextContent); ok {
				all += c.Text
				blocks++
			}
		}
		return
	}
	whole := tool.Result{IsError: true, Code: tool.Trap, Content: []tool.Content{tool.Text(strings.Repeat("é", maxErrorText))}}
	_, r := encoded(t, whole, false)
	if got, _ := text(r); got != whole.Content[0].Text {
		t.Error("a text of exactly the limit was changed")
	}
	var many tool.Result
	many.IsError = true
	many.Content = append(many.Content, tool.Text("first"+strings.Repeat("é", 5000)))
	for range 5000 {
		many.Content = append(many.Content, tool.Text("ab"))
	}
	many.Content = append(many.Content, tool.Content{Kind: tool.KindImage, Data: []byte("i")})
	_, r = encoded(t, many, false)
	got, _ := text(r)
	n := utf8.RuneCountInString(got)
	if n > maxErrorText || n < maxErrorText-60 || !strings.HasPrefix(got, "first") || !strings.Contains(got, "more characters]") {
		t.Errorf("%d characters, ending %q", n, got[len(got)-60:])
	}
	if _, ok := r.Content[len(r.Content)-1].(*mcpsdk.ImageContent); !ok {
		t.Error("the image behind the text is gone")
	}
	ok := whole
	ok.IsError = false
	ok.Content = []tool.Content{tool.Text(strings.Repeat("x", 100_000))}
	_, r = encoded(t, ok, false)
	if got, _ := text(r); len(got) != 100_000 {
		t.Error("the text of a success was cut")
	}
}
