package runtime

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

func TestParseResponse(t *testing.T) {
	r, err := parseResponse([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"},
		{"type":"resource_link","uri":"artifact:x","name":"n"}],"structuredContent":{"x":[1]},"unknown":{},
		"_meta":{"wasmtools/details":{"lines":[1,2]},"other":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 3 || string(r.Content[1].Data) != "hi" || r.Content[2].URI != "artifact:x" ||
		string(r.Structured) != `{"x":[1]}` || r.IsError || r.Code != "" || r.Details["lines"] == nil {
		t.Errorf("parseResponse = %+v", r)
	}
	r, err = parseResponse([]byte("{\"structuredContent\":{\"a\":\"\xff\"},\"isError\":false,\"_meta\":{\"wasmtools/code\":\"not_found\"}}"))
	if err != nil || !utf8.Valid(r.Structured) || r.Code != "" {
		t.Errorf("parseResponse = %+v, %v; want valid text and no code without an error", r, err)
	}
}

func TestParseResponseCodes(t *testing.T) {
	forged := map[tool.Code]bool{
		tool.NotRegistered: true, tool.NotExposed: true, tool.Denied: true, tool.ApprovalRequired: true,
		tool.ApprovalExpired: true, tool.ApprovalMismatch: true, tool.Cancelled: true, tool.MemoryLimit: true,
		tool.InvalidModule: true, tool.LockMismatch: true, tool.Internal: true,
	}
	for _, c := range append(tool.Codes[:], tool.CodeInfo{Code: "made_up"}, tool.CodeInfo{}) {
		r, err := parseResponse([]byte(`{"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"wasmtools/code":"` + string(c.Code) + `"}}`))
		want := c.Code
		if forged[want] || want.Number() == 0 {
			want = tool.Trap
		}
		if err != nil || r.Code != want {
			t.Errorf("code %q = %q, %v; want %q", c.Code, r.Code, err, want)
		}
	}
}

func TestParseResponseRefuses(t *testing.T) {
	for _, text := range []string{
		``, `null`, `true`, `"x"`, `[]`, `{`, `{}`, `{"content":[]}`, `{"content":{}}`, `{"content":[1]}`,
		`{"content":[{"type":"text","text":1}]}`, `{"content":[{"type":"video","data":""}]}`, `{"content":[{}]}`,
		`{"content":[{"type":"image","data":"***","mimeType":"image/png"}]}`,
		`{"content":[{"type":"image","data":"","mimeType":"image/png\r\nX: y"}]}`,
		`{"content":[{"type":"resource_link"}]}`,
		`{"structuredContent":[]}`, `{"structuredContent":1}`, `{"structuredContent":null}`,
		`{"content":[{"type":"text","text":"x"}]}{}`,
		`{"content":[` + strings.Repeat(`{"type":"text","text":""},`, maxBlocks) + `{"type":"text","text":""}]}`,
	} {
		if _, err := parseResponse([]byte(text)); tool.CodeOf(err) != tool.Trap {
			t.Errorf("parseResponse(%.60s) = %v; want trap", text, err)
		}
	}
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"ok"}],"structuredContent":{"a":1},"isError":true,"_meta":{"wasmtools/code":"not_found","wasmtools/details":{"a":[1]}}}`))
	f.Add([]byte(`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`))
	f.Add([]byte(`{"content":[{"type":"text","text":"1\tone\n2\t\"two\"\n"}],"_meta":{"wasmtools/details":{"path":"a","next":null,"n":2}}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		sameResponse(t, p)
		before := bytes.Clone(p)
		r, err := parseResponse(p)
		if err != nil {
			if tool.CodeOf(err) != tool.Trap {
				t.Errorf("parseResponse = %v; want trap", err)
			}
			return
		}
		clear(p) // the result must not be a view into what the guest gave
		if r.IsError != (r.Code != "") || r.Code != "" && !guestCodes[r.Code] {
			t.Errorf("IsError %v with code %q", r.IsError, r.Code)
		}
		for _, c := range r.Content {
			if !utf8.ValidString(c.Text) {
				t.Errorf("text %q is not UTF-8", c.Text)
			}
		}
		if r.Structured != nil && (!json.Valid(r.Structured) || !utf8.Valid(r.Structured) || r.Structured[0] != '{') {
			t.Errorf("structured content %q of %q", r.Structured, before)
		}
		if _, err := json.Marshal(r.Details); err != nil {
			t.Errorf("details that cannot be written: %v", err)
		}
	})
}

func FuzzDecodeEdits(f *testing.F) {
	f.Add([]byte(`{"edits":[{"old":"a","new":"b"},{"old":"c","new":"","all":true}]}`))
	f.Add([]byte(`{"edits":[]}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		edits, _, err := decodeEdits(p)
		if err != nil && tool.CodeOf(err) != tool.InvalidArguments && tool.CodeOf(err) != tool.TooLarge {
			t.Errorf("decodeEdits = %v", err)
		}
		if len(edits) > maxEdit {
			t.Errorf("%d edits", len(edits))
		}
	})
}

// sameResponse holds the short way against the one for every response; it reports
// whether p went the short way.
func sameResponse(t *testing.T, p []byte) bool {
	t.Helper()
	got, gotErr := parseResponse(p)
	want, wantErr := parseAny(p)
	if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) {
		t.Errorf("parseResponse(%q) = %+v, %v; parseAny gives %+v, %v", p, got, gotErr, want, wantErr)
	}
	_, ok := oneText(p)
	return ok
}

func TestOneText(t *testing.T) {
	texts := map[string]bool{ // whether it can go the short way
		"": true, "a": true, "two words": true, "\u00e4 \u65e5\u672c": true, "\x7f": true, "\u2028": true,
		`a\nb\t\"c\\ \/\r\b\f`: true, `\\`: true, `\\\"`: true,
		`a\u0041`: false, `\ud800`: false, "a\"b": false, "a\nb": false, "\xff": false, `\n` + "\xff": false, "a\x00": false, `\x`: false, `\`: false,
		`\` + "\x00": false, `\` + "\n": false, `"},{"type":"text","text":"b`: false,
	}
	tails := map[string]bool{
		`"}]}`: true, `"}],"_meta":{"wasmtools/details":{"a":[1,"x",null,{"b":2.5}]}}}`: true, `"}],"_meta":{"wasmtools/details":{}}}`: true,
		`"}],"_meta":{"wasmtools/details":null}}`: true, `"}],"_meta":{"wasmtools/details":[1]}}`: false,
		`"}],"_meta":{"wasmtools/details":{"a":1},"wasmtools/code":"x"}}`: false, `"}],"_meta":{"wasmtools/details":{"a":1}},"isError":true}`: false,
		`"}],"_meta":{"wasmtools/details":{"a":1}}}}`: false, `"}],"_meta":{"wasmtools/details":{"a":1}}} `: false, `"}],"structuredContent":{}}`: false,
		`"}],"isError":true}`: false, `"}]`: false, `"`: false, ``: false, `"}]}]}`: false,
		`"}],"_meta":{"wasmtools/details":{"a":1}},"_meta":{"wasmtools/details":{"b":2}}}`: false,
	}
	for text, textShort := range texts {
		for tail, tailShort := range tails {
			p := []byte(`{"content":[{"type":"text","text":"` + text + tail)
			if short := sameResponse(t, p); short != (textShort && tailShort) {
				t.Errorf("%q went the short way: %v; want %v", p, short, textShort && tailShort)
			}
		}
	}
}
