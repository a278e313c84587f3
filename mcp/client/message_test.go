package client

import (
	"bufio"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// FuzzMessages: whatever comes, nothing fails but with an error, and what is kept
// of texts and names is fit to be shown.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"\u001b[2J"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}}]}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1e400}}`,
		strings.Repeat("[", 100), "{}\n{}", "\xff", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"!"}],"structuredContent":[1]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, buf := bufio.NewReaderSize(strings.NewReader(string(b)), 16), []byte(nil)
		for {
			line, err := readLine(r, &buf, 1<<16)
			if err != nil {
				break
			}
			m, err := decode(line)
			if err != nil {
				if !utf8.ValidString(err.Error()) || strings.ContainsRune(err.Error(), 0x1b) {
					t.Fatalf("%q", err)
				}
				continue
			}
			res := resultOf("s", m.Result)
			for _, c := range res.Content {
				if !utf8.ValidString(c.Text) {
					t.Fatalf("%q", c.Text)
				}
			}
			for _, text := range []string{string(m.Params), m.Method} {
				tl := remoteTool{Name: text, Description: text, Title: text, Input: m.Params}
				fault := faultOf(tl)
				name := localName("s", text)
				d := definition(Server{Name: "s"}, tl, name, fault == "")
				if !tool.ValidName(name) || !utf8.ValidString(d.Description) || len(d.Description) > maxDescription+600 || strings.ContainsAny(d.Title, "\x1b\x00") {
					t.Fatalf("%q %q", name, d.Description)
				}
				compare("s", []remoteTool{tl, tl}, nil)
			}
		}
	})
}
