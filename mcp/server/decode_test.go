package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestDecode(t *testing.T) {
	const ok = 0
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		line string
		code int64
		id   string // echoed with the fault
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, ok, ""},
		{`{"jsonrpc":"2.0","id":"a","method":"ping","params":null}`, ok, ""},
		{`{"jsonrpc":"2.0","method":"x","params":{}}`, ok, ""},
		{"\t {\"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"ping\" }\r", ok, ""},
		{`{"jsonrpc":"2\u002e0","\u0069d":1,"method":"p"}`, ok, ""},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, ok, ""},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, ok, ""},
		{`{"jsonrpc":"2.0","id":-0,"method":"p"}`, ok, ""},
		{`{"jsonrpc":"2.0","id":9007199254740991,"method":"p"}`, ok, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":` + deep(maxDepth-2) + `}}`, ok, ""},

		{`{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":` + deep(maxDepth-1) + `}}`, -32600, ""},
		{strings.Repeat(`[`, 1<<20), -32600, ""},
		{``, -32700, ""},
		{`{`, -32700, ""},
		{`nul`, -32700, ""},
		{"\x00", -32700, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"p"} x`, -32700, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"p"}{}`, -32700, ""},
		{`{"jsonrpc":"2.0","id":01,"method":"p"}`, -32700, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"p",}`, -32700, ""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\x00b\"}", -32700, ""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"\x"}`, -32700, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"\u12"}`, -32700, ""},
		{`7`, -32600, ""},
		{`"x"`, -32600, ""},
		{`[]`, -32600, ""},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, ""},
		{`{}`, -32600, ""},
		{`{"id":1,"method":"p"}`, -32600, "1"},
		{`{"jsonrpc":"1.0","id":1,"method":"p"}`, -32600, "1"},
		{`{"jsonrpc":2.0,"id":1,"method":"p"}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":null,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":1.5,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":1e3,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":9007199254740992,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":99999999999999999999999,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":{},"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":[1],"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":true,"method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", maxID) + `","method":"p"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"p"}`, -32600, "2"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","result":{}}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":{"name":"a","n\u0061me":"b"}}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":{"_meta":{},"_meta":{}}}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":{},"params":{}}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":[]}`, -32602, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"p","params":7}`, -32602, "1"},
	} {
		shown := c.line[:min(len(c.line), 100)]
		m, f := decode([]byte(c.line))
		switch {
		case c.code == ok && f != nil:
			t.Errorf("decode(%q) = fault %d %s; want a message", shown, f.code, f.text)
		case c.code == ok && m.rawID == nil && m.method == "":
			t.Errorf("decode(%q) was dropped; want a message", shown)
		case c.code != ok && f == nil:
			t.Errorf("decode(%q) = %+v; want fault %d", shown, m, c.code)
		case c.code != ok && (f.code != c.code || string(f.rawID) != c.id):
			t.Errorf("decode(%q) = fault %d to id %s; want %d to id %s", shown, f.code, f.rawID, c.code, c.id)
		}
	}
}

// A broken response must not be answered.
func TestDecodeDropsBrokenResponses(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`,
		`{"id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"error":7}`,
	} {
		if m, f := decode([]byte(line)); f != nil || m.isCall() || m.method != "" || m.rawID != nil {
			t.Errorf("decode(%s) = %+v, %v; want neither a message nor a fault", line, m, f)
		}
	}
}

func TestDecodeMembers(t *testing.T) {
	line := `{"params":{"x":1,"inputResponses":{"requestState":"inner"},"requestState":"s","name":"n","arguments":{"name":"inner","_meta":{"progressToken":9}},"cursor":"c","requestId":7,` +
		`"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientInfo":{"a":1},` +
		`"io.modelcontextprotocol/clientCapabilities":{},"y":[1,2]}},"method":"m","id":"\u0069","jsonrpc":"2.0"}`
	m, f := decode([]byte(line))
	if f != nil {
		t.Fatal(f.text)
	}
	got := []string{m.method, fmt.Sprint(m.id.Raw()), string(m.rawID), string(m.name), string(m.arguments), string(m.cursor),
		string(m.requestID), string(m.token), string(m.version), string(m.client), string(m.caps), string(m.inputResponses), string(m.requestState)}
	want := []string{"m", "i", `"\u0069"`, `"n"`, `{"name":"inner","_meta":{"progressToken":9}}`, `"c"`, `7`, `"t"`, `"v"`, `{"a":1}`, `{}`, `{"requestState":"inner"}`, `"s"`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !json.Valid(m.params) || !json.Valid(m.meta) {
		t.Errorf("params %s, _meta %s: want whole values", m.params, m.meta)
	}
}

// stricter lists every kind of line that the SDK's decoder takes and ours does
// not, with an example. FuzzDecodeLine allows no other.
var stricter = []struct {
	why  string
	line string
	is   func(line []byte, msg jsonrpc.Message) bool
}{
	{"anything after the value", `{"jsonrpc":"2.0","id":1,"method":"p"}x`, func(line []byte, _ jsonrpc.Message) bool {
		dec := json.NewDecoder(bytes.NewReader(line))
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return false
		}
		_, err := dec.Token()
		return err != io.EOF
	}},
	{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", func(line []byte, _ jsonrpc.Message) bool {
		return !utf8.Valid(line)
	}},
	{"an id that is null, or not a string or an exact integer", `{"jsonrpc":"2.0","id":1.5,"method":"p"}`, func(line []byte, _ jsonrpc.Message) bool {
		raw, ok := lastMember(line, "id")
		if !ok {
			return false
		}
		_, why := parseID(raw)
		return why != ""
	}},
	{"a member that stands twice", `{"jsonrpc":"2.0","id":1,"id":1,"method":"p"}`, func(line []byte, _ jsonrpc.Message) bool {
		var o map[string]json.RawMessage
		if json.Unmarshal(line, &o) != nil {
			return false
		}
		return hasTwice(line) || hasTwice(o["params"]) || hasTwice(metaOf(o["params"]))
	}},
	{"an empty method, or one that is null", `{"jsonrpc":"2.0","id":1,"method":""}`, func(_ []byte, msg jsonrpc.Message) bool {
		r, ok := msg.(*jsonrpc.Request)
		return ok && r.Method == ""
	}},
	{"a request with a result or an error", `{"jsonrpc":"2.0","id":1,"method":"p","result":{}}`, func(line []byte, msg jsonrpc.Message) bool {
		_, isReq := msg.(*jsonrpc.Request)
		_, res := lastMember(line, "result")
		_, err := lastMember(line, "error")
		return isReq && (res || err)
	}},
	{"a response with neither", `{"jsonrpc":"2.0","id":1}`, func(line []byte, msg jsonrpc.Message) bool {
		_, isResp := msg.(*jsonrpc.Response)
		_, res := lastMember(line, "result")
		_, err := lastMember(line, "error")
		return isResp && !res && !err
	}},
	{"params that are no object", `{"jsonrpc":"2.0","id":1,"method":"p","params":[1]}`, func(line []byte, msg jsonrpc.Message) bool {
		raw, ok := lastMember(line, "params")
		return ok && raw[0] != '{' && string(raw) != "null"
	}},
}

// lastMember is the slow way to find a member of an object: the last one wins.
func lastMember(line []byte, name string) (json.RawMessage, bool) {
	var o map[string]json.RawMessage
	if json.Unmarshal(line, &o) != nil {
		return nil, false
	}
	raw, ok := o[name]
	return raw, ok
}

func metaOf(params json.RawMessage) json.RawMessage {
	raw, _ := lastMember(params, "_meta")
	return raw
}

func hasTwice(object json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return false
		}
		if seen[k.(string)] {
			return true
		}
		seen[k.(string)] = true
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return false
		}
	}
	return false
}

// TestStricter keeps the list honest: each example is taken by the SDK, refused
// by us, and recognised by its own rule.
func TestStricter(t *testing.T) {
	for _, s := range stricter {
		msg, err := jsonrpc.DecodeMessage([]byte(s.line))
		if err != nil {
			t.Errorf("%s: the SDK refuses %q: %v", s.why, s.line, err)
			continue
		}
		m, f := decode([]byte(s.line))
		if f == nil && (m.rawID != nil || m.method != "") {
			t.Errorf("%s: decode(%q) takes it", s.why, s.line)
		}
		if !s.is([]byte(s.line), msg) {
			t.Errorf("%s: the rule does not know its own example %q", s.why, s.line)
		}
	}
}

// FuzzDecodeLine holds decode against the SDK's decoder: what ours takes, the
// SDK's takes with the same meaning; what only the SDK's takes is on the list.
func FuzzDecodeLine(f *testing.F) {
	for _, s := range stricter {
		f.Add([]byte(s.line))
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"noop","arguments":{"a":[1,-2.5e3,"\ud83d\ude00é"]},"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"w","inputResponses":{"approve":{"action":"accept"}},"requestState":"\u0041"}}`,
		`{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"m","data":{"a":null}}}`,
		`{"jsonrpc":"2.0","id":0,"result":{"a":"b"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\ud800"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":1,"method":"a\u0000b","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"p","Params":{},"ID":2}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, fault := decode(line)
		ours := fault == nil && (m.method != "" || m.rawID != nil)
		if (fault == nil || fault.code != jsonrpc.CodeParseError) && (fault == nil || !strings.HasPrefix(fault.text, "nested")) && !json.Valid(line) {
			t.Fatalf("decode(%q) is content with what encoding/json calls no JSON", line)
		}
		msg, err := jsonrpc.DecodeMessage(line)
		switch {
		case ours && err != nil:
			t.Fatalf("decode(%q) takes what the SDK refuses: %v", line, err)
		case !ours && err == nil:
			for _, s := range stricter {
				if s.is(line, msg) {
					return
				}
			}
			t.Fatalf("decode(%q) refuses what the SDK takes as %#v; fault %+v", line, msg, fault)
		case !ours:
			return
		}
		switch msg := msg.(type) {
		case *jsonrpc.Request:
			if m.method != msg.Method || m.id != msg.ID || m.isCall() != msg.IsCall() {
				t.Fatalf("decode(%q) = %q %v; the SDK has %q %v", line, m.method, m.id, msg.Method, msg.ID)
			}
			sameJSON(t, "params", m.params, msg.Params)
			var p struct {
				Name, Arguments, Cursor, RequestID, Meta json.RawMessage
			}
			var o map[string]json.RawMessage
			_ = json.Unmarshal(msg.Params, &o)
			p.Name, p.Arguments, p.Cursor, p.RequestID, p.Meta = o["name"], o["arguments"], o["cursor"], o["requestId"], o["_meta"]
			sameJSON(t, "name", m.name, p.Name)
			sameJSON(t, "arguments", m.arguments, p.Arguments)
			sameJSON(t, "cursor", m.cursor, p.Cursor)
			sameJSON(t, "requestId", m.requestID, p.RequestID)
			sameJSON(t, "_meta", m.meta, p.Meta)
			sameJSON(t, "inputResponses", m.inputResponses, o["inputResponses"])
			sameJSON(t, "requestState", m.requestState, o["requestState"])
			var meta map[string]json.RawMessage
			_ = json.Unmarshal(p.Meta, &meta)
			sameJSON(t, "progressToken", m.token, meta["progressToken"])
			sameJSON(t, keyVersion, m.version, meta[keyVersion])
			sameJSON(t, keyClient, m.client, meta[keyClient])
			sameJSON(t, keyCaps, m.caps, meta[keyCaps])
		case *jsonrpc.Response:
			got, _ := m.response()
			if got.ID != msg.ID || (got.Error == nil) != (msg.Error == nil) {
				t.Fatalf("decode(%q) = %+v; the SDK has %+v", line, got, msg)
			}
			sameJSON(t, "result", got.Result, msg.Result)
			if msg.Error != nil && got.Error.Error() != msg.Error.Error() {
				t.Fatalf("decode(%q): error %v; the SDK has %v", line, got.Error, msg.Error)
			}
		}
	})
}

func sameJSON(t *testing.T, what string, a, b json.RawMessage) {
	t.Helper()
	if string(bytes.TrimSpace(b)) == "null" && a == nil {
		b = nil // absent and null are the same to us
	}
	if (a == nil) != (b == nil) {
		t.Fatalf("%s: %q and %q", what, a, b)
	}
	if a == nil {
		return
	}
	if string(a) != string(bytes.TrimSpace(b)) {
		t.Fatalf("%s: %q and %q", what, a, b)
	}
}
