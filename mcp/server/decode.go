package server

import (
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits on what a client may send in one line.
const (
	// maxLine is the longest line; the SDK's own transport has the same limit.
	maxLine = 16 << 20
	// maxDepth is how deep containers may nest, the message itself included;
	// the SDK's decoder has the same limit.
	maxDepth = 1000
	// maxID is the longest id in bytes as sent. Ids are echoed and kept while
	// a call runs; real ones are counters or UUIDs.
	maxID = 1 << 10
	// maxInt is the largest integer id. Beyond it, readers that hold numbers
	// as doubles (the SDK too) take two ids for one.
	maxInt = 1<<53 - 1
)

// A message is one line, taken apart. The slices are raw JSON and point into
// the line; nil means that the member is absent.
type message struct {
	method string
	id     jsonrpc.ID
	rawID  []byte // the id as sent

	params, result, rerror []byte

	// Members of params, whatever the method; the receiver picks what its
	// method knows.
	name, arguments, cursor, requestID, meta []byte
	inputResponses, requestState             []byte
	// Members of params._meta.
	token                 []byte // progressToken
	version, client, caps []byte // the three that every 2026-07-28 request carries
}

// isCall reports whether an answer is due.
func (m *message) isCall() bool { return m.method != "" && m.rawID != nil }

// A fault is a line that is no message: what is answered, and to which id (nil
// where none could be read).
type fault struct {
	data  []byte // more for programs; may be nil
	code  int64
	text  string
	rawID []byte
}

// modern is the first version in which requests say who sends them.
const modern = "2026-07-28"

// The member names that the transport looks at. Anything else is passed over.
const (
	keyVersion = "io.modelcontextprotocol/protocolVersion"
	keyClient  = "io.modelcontextprotocol/clientInfo"
	keyCaps    = "io.modelcontextprotocol/clientCapabilities"
)

// known gives the name that stands in raw if it is one of those that matter,
// and "" otherwise, without allocating in the usual case.
func known(raw []byte) string {
	in := raw[1 : len(raw)-1]
	for _, c := range in {
		if c == '\\' {
			in = []byte(unquote(raw))
			break
		}
	}
	switch string(in) {
	case "jsonrpc":
		return "jsonrpc"
	case "id":
		return "id"
	case "method":
		return "method"
	case "params":
		return "params"
	case "result":
		return "result"
	case "error":
		return "error"
	case "name":
		return "name"
	case "arguments":
		return "arguments"
	case "cursor":
		return "cursor"
	case "requestId":
		return "requestId"
	case "inputResponses":
		return "inputResponses"
	case "requestState":
		return "requestState"
	case "_meta":
		return "_meta"
	case "progressToken":
		return "progressToken"
	case keyVersion:
		return keyVersion
	case keyClient:
		return keyClient
	case keyCaps:
		return keyCaps
	}
	return ""
}

// decode takes a line apart in one pass. The fault is nil if the line is a
// JSON-RPC 2.0 request, notification or response as MCP has them. A broken
// response gives neither a message nor a fault: it is dropped, since an error
// in return could be answered by an error, for ever.
//
// It refuses some lines that the SDK's decoder takes; TestStricter lists them.
func decode(line []byte) (message, *fault) {
	d := decoder{scanner: scanner{b: line}}
	switch d.peek() {
	case '{':
		if !d.top() || !d.end() {
			return message{}, d.syntax()
		}
	case '[':
		if !d.value(0) || !d.end() {
			return message{}, d.syntax()
		}
		return message{}, &fault{code: jsonrpc.CodeInvalidRequest, text: "batches are not served; send one message a line"}
	default:
		if !d.value(0) || !d.end() {
			return message{}, d.syntax()
		}
		return message{}, &fault{code: jsonrpc.CodeInvalidRequest, text: "a message is a JSON object"}
	}
	return d.shape()
}

type decoder struct {
	scanner
	m               message
	version, method []byte // jsonrpc and method as sent
	hasParams       bool
	twice           string // a member that stands twice
}

func (d *decoder) syntax() *fault {
	switch {
	case d.deep:
		return &fault{code: jsonrpc.CodeInvalidRequest, text: "nested deeper than " + strconv.Itoa(maxDepth) + " levels"}
	case d.i >= len(d.b) && d.high:
		return &fault{code: jsonrpc.CodeParseError, text: "the line ends early or is not valid UTF-8"}
	}
	return &fault{code: jsonrpc.CodeParseError, text: "not JSON: the fault is near byte " + strconv.Itoa(min(d.i, len(d.b)))}
}

// take passes over a value and stores its text in p, once.
func (d *decoder) take(p *[]byte, key string, depth int) bool {
	if *p != nil {
		d.twice = key
	}
	var ok bool
	*p, ok = d.span(depth)
	return ok
}

func (d *decoder) top() bool {
	for more, ok := d.open(0, '}'); ; more, ok = d.more('}') {
		if !ok || !more {
			return ok
		}
		key, ok := d.key()
		if !ok {
			return false
		}
		switch key {
		case "jsonrpc":
			ok = d.take(&d.version, key, 1)
		case "id":
			ok = d.take(&d.m.rawID, key, 1)
		case "method":
			ok = d.take(&d.method, key, 1)
		case "result":
			ok = d.take(&d.m.result, key, 1)
		case "error":
			ok = d.take(&d.m.rerror, key, 1)
		case "params":
			ok = d.params()
		default:
			ok = d.value(1)
		}
		if !ok {
			return false
		}
	}
}

func (d *decoder) params() bool {
	if d.hasParams {
		d.twice = "params"
	}
	d.hasParams = true
	if d.peek() != '{' {
		var ok bool
		d.m.params, ok = d.span(1)
		return ok
	}
	from := d.i
	for more, ok := d.open(1, '}'); ; more, ok = d.more('}') {
		if !ok || !more {
			d.m.params = d.b[from:d.i:d.i]
			return ok
		}
		key, ok := d.key()
		if !ok {
			return false
		}
		switch key {
		case "name":
			ok = d.take(&d.m.name, key, 2)
		case "arguments":
			ok = d.take(&d.m.arguments, key, 2)
		case "cursor":
			ok = d.take(&d.m.cursor, key, 2)
		case "requestId":
			ok = d.take(&d.m.requestID, key, 2)
		case "inputResponses":
			ok = d.take(&d.m.inputResponses, key, 2)
		case "requestState":
			ok = d.take(&d.m.requestState, key, 2)
		case "_meta":
			ok = d.meta()
		default:
			ok = d.value(2)
		}
		if !ok {
			return false
		}
	}
}

func (d *decoder) meta() bool {
	if d.m.meta != nil {
		d.twice = "_meta"
	}
	if d.peek() != '{' {
		var ok bool
		d.m.meta, ok = d.span(2)
		return ok
	}
	from := d.i
	for more, ok := d.open(2, '}'); ; more, ok = d.more('}') {
		if !ok || !more {
			d.m.meta = d.b[from:d.i:d.i]
			return ok
		}
		key, ok := d.key()
		if !ok {
			return false
		}
		switch key {
		case "progressToken":
			ok = d.take(&d.m.token, key, 3)
		case keyVersion:
			ok = d.take(&d.m.version, key, 3)
		case keyClient:
			ok = d.take(&d.m.client, key, 3)
		case keyCaps:
			ok = d.take(&d.m.caps, key, 3)
		default:
			ok = d.value(3)
		}
		if !ok {
			return false
		}
	}
}

// shape checks what the syntax cannot: versions, types and combinations.
func (d *decoder) shape() (message, *fault) {
	m := d.m
	invalid := func(text string) (message, *fault) {
		return message{}, &fault{code: jsonrpc.CodeInvalidRequest, text: text, rawID: m.rawID}
	}
	if m.rawID != nil {
		id, why := parseID(m.rawID)
		if why != "" {
			m.rawID = nil
			if d.method == nil && (m.result != nil || m.rerror != nil) {
				return message{}, nil
			}
			return invalid(why)
		}
		m.id = id
	}
	isResponse := d.method == nil && (m.result != nil || m.rerror != nil)
	switch {
	case isResponse && (m.rawID == nil || d.twice != "" || string(d.version) != `"2.0"`):
		return message{}, nil
	case string(d.version) != `"2.0"` && (len(d.version) < 2 || d.version[0] != '"' || unquote(d.version) != "2.0"):
		return invalid(`jsonrpc must be "2.0"`)
	case d.twice != "":
		return invalid("the member " + d.twice + " stands twice")
	case isResponse:
		if _, ok := m.response(); !ok {
			return message{}, nil
		}
		return m, nil
	case d.method == nil:
		return invalid("method is missing")
	case d.method[0] != '"':
		return invalid("method must be a string")
	case m.result != nil || m.rerror != nil:
		return invalid("a message is a request or a response, not both")
	}
	if m.method = unquote(d.method); m.method == "" {
		return invalid("method is empty")
	}
	switch {
	case string(m.params) == "null":
		m.params = nil
	case m.params != nil && m.params[0] != '{':
		_, f := invalid("params must be an object")
		f.code = jsonrpc.CodeInvalidParams
		return message{}, f
	}
	return m, nil
}

// parseID reads an id as MCP allows it, a string or an integer; why says what
// is wrong with any other.
func parseID(raw []byte) (id jsonrpc.ID, why string) {
	if len(raw) > maxID {
		return id, "id is longer than " + strconv.Itoa(maxID) + " bytes"
	}
	var v any
	if raw[0] == '"' {
		v = unquote(raw)
	} else {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < -maxInt || n > maxInt {
			return id, "id must be a string or an integer between -(2^53-1) and 2^53-1"
		}
		v = float64(n)
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return id, "id must be a string or an integer"
	}
	return id, ""
}

// response gives m, which is a response, as the SDK holds it; ok is false if
// its error is none.
func (m *message) response() (r *jsonrpc.Response, ok bool) {
	r = &jsonrpc.Response{ID: m.id, Result: m.result}
	if m.rerror == nil || string(m.rerror) == "null" {
		return r, true
	}
	// By way of a map, because names are exact in JSON-RPC and not in Go.
	var o map[string]json.RawMessage
	e := new(jsonrpc.Error)
	if json.Unmarshal(m.rerror, &o) != nil ||
		o["code"] != nil && json.Unmarshal(o["code"], &e.Code) != nil ||
		o["message"] != nil && json.Unmarshal(o["message"], &e.Message) != nil {
		return nil, false
	}
	e.Data = o["data"]
	r.Error = e
	return r, true
}

// str gives the text of raw if it is a JSON string.
func str(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	return unquote(raw), true
}
