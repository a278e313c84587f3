package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// codeCancelled answers a request that was cancelled before it began; the
// protocol names no code for it.
const codeCancelled = -32000

// appendHead begins the line of an answer; the result and "}\n" follow.
func appendHead(dst, rawID []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, rawID...)
	return append(dst, `,"result":`...)
}

// maxFaultText bounds the text of a protocol error: the SDK quotes what it
// could not read, however long.
const maxFaultText = 1000

// appendFault appends the line that answers f.
func appendFault(dst []byte, f *fault) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if f.rawID == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, f.rawID...)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, f.code, 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, shorten(f.text, maxFaultText))
	if f.data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, f.data...)
	}
	return append(dst, "}}\n"...)
}

// faultOf is the fault that stands for an error of the SDK's about r. Many of
// them carry no code; all those are about requests that make no sense where
// they stand.
func faultOf(r *request, err error) *fault {
	f := &fault{code: jsonrpc.CodeInvalidRequest, rawID: r.rawID}
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &wire) && wire.Code != 0:
		f.code = wire.Code
		if json.Valid(wire.Data) {
			f.data = bytes.ReplaceAll(wire.Data, []byte{'\n'}, []byte{' '})
		}
	case errors.Is(err, context.Canceled):
		f.code = codeCancelled
	}
	f.text = strings.ReplaceAll(err.Error(), laneMethod, r.method)
	return f
}
