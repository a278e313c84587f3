package runtime

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// The functions of the guest ABI that reach beyond files: the network, the
// module's store, the environment. Each needs its grant.

const (
	maxHTTPRequest = 256 << 10 // of the request's JSON; the fetcher bounds each part
	maxHTTPBody    = 8 << 20
)

// httpRequest is a request as guests write it.
type httpRequest struct {
	Method  string             `json:"method"`
	URL     string             `json:"url"`
	Headers []hostfuncs.Header `json:"headers"`
}

// httpResponse is the head of an answer.
type httpResponse struct {
	Status  int                `json:"status"`
	URL     string             `json:"url"`
	Headers []hostfuncs.Header `json:"headers"`
}

func init() {
	abiFunctions["http_request"] = hostFunc{"iiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		var req httpRequest
		if err := mem.decode(a[0], a[1], maxHTTPRequest, &req); err != nil {
			return l.fail(err)
		}
		if uint32(a[3]) > maxHTTPBody {
			return l.fail(tool.Errorf(tool.TooLarge, "a request body of %d bytes; at most %d can be sent", uint32(a[3]), maxHTTPBody))
		}
		body := bytes.Clone(mem.view(a[2], a[3]))
		resp, err := l.call.Fetch(l.term.context(), hostfuncs.HTTPRequest{Method: req.Method, URL: req.URL, Headers: req.Headers, Body: body})
		if err != nil {
			return l.fail(err)
		}
		head, err := json.Marshal(httpResponse{resp.Status, resp.URL, resp.Headers})
		if err != nil {
			return l.fail(err)
		}
		out := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(resp.Body)), uint32(len(head)))
		return l.give(string(append(append(out, head...), resp.Body...)), nil)
	}}
	abiFunctions["kv_get"] = hostFunc{"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		key, err := mem.text(a[0], a[1], hostfuncs.MaxKey)
		if err != nil {
			return l.fail(err)
		}
		value, ok, err := l.call.KVGet(l.term.context(), key)
		if err == nil && !ok {
			err = tool.Errorf(tool.NotFound, "the store has no such key")
		}
		return l.give(string(value), err)
	}}
	abiFunctions["kv_set"] = hostFunc{"iiii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		key, err := mem.text(a[0], a[1], hostfuncs.MaxKey)
		if err != nil {
			return l.fail(err)
		}
		value := append([]byte{}, mem.view(a[2], a[3])...)
		return l.done(l.call.KVSet(l.term.context(), key, value))
	}}
	abiFunctions["kv_remove"] = hostFunc{"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		key, err := mem.text(a[0], a[1], hostfuncs.MaxKey)
		if err != nil {
			return l.fail(err)
		}
		return l.done(l.call.KVSet(l.term.context(), key, nil))
	}}
	abiFunctions["config_get"] = hostFunc{"ii>I", hostfuncs.Work, func(l *lease, mem guestMemory, a []uint64) uint64 {
		name, err := mem.text(a[0], a[1], hostfuncs.MaxKey)
		if err != nil {
			return l.fail(err)
		}
		value, ok := l.call.Getenv(name)
		if !ok {
			err = tool.Errorf(tool.NotFound, "no such setting was granted, or it is not set").WithNext("ask a person to grant env for it")
		}
		return l.give(value, err)
	}}
}

// grain is how fine the call's guest sees time pass.
func (l *lease) grain() time.Duration {
	if l.call.Grant.Clock {
		return 1
	}
	return clockGrain
}
