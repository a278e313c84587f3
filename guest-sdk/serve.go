package guest

import (
	"errors"
	"unsafe"
)

// A request's header, as in docs/abi.md.
const (
	headerLen = 32
	maxCallID = 256
)

type request struct {
	tool     uint32
	deadline int64
	callID   string
	args     []byte
}

var errRequest = errors.New("the request is not one of guest ABI version 1")

// decodeRequest takes a request apart; args is a part of p.
func decodeRequest(p []byte) (request, error) {
	if len(p) < headerLen || u32(p) != ABIVersion {
		return request{}, errRequest
	}
	r := request{tool: u32(p[4:]), deadline: int64(uint64(u32(p[8:])) | uint64(u32(p[12:]))<<32)}
	idLen, argsLen := uint64(u32(p[16:])), uint64(u32(p[20:]))
	if idLen > maxCallID || headerLen+idLen+argsLen != uint64(len(p)) {
		return request{}, errRequest
	}
	for _, b := range p[24:headerLen] {
		if b != 0 {
			return request{}, errRequest
		}
	}
	r.callID = string(p[headerLen : headerLen+idLen])
	r.args = p[headerLen+idLen:]
	return r, nil
}

func u32(p []byte) uint32 {
	return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
}

// Serve runs one request against host and returns the response. In a module
// the exported wt_call does it; tests call it through package guesttest. It
// does not panic: a tool that does answers with the code trap, and the module
// stays usable.
func Serve(host ABI, req []byte) []byte {
	return serve(host, req).response()
}

func serve(host ABI, req []byte) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			res = ErrorResult(Fail(Trap, "the tool panicked: "+panicText(p)))
		}
	}()
	r, err := decodeRequest(req)
	if err != nil {
		return ErrorResult(Fail(Internal, err.Error()))
	}
	if int64(r.tool) >= int64(len(registered.tools)) {
		return ErrorResult(Fail(Internal, "the module has no tool of index "+itoa(int64(r.tool))))
	}
	c := &Call{ID: r.callID, Deadline: r.deadline, RawArgs: r.args, host: host, tool: &registered.tools[r.tool]}
	// The values of the arguments are parts of the request, not copies.
	if c.Args, err = parseText(unsafe.String(unsafe.SliceData(r.args), len(r.args))); err != nil {
		return ErrorResult(c.Invalid(Fault{"$", err.Error()}))
	}
	if c.Args.Kind() != ObjectKind {
		return ErrorResult(c.Invalid(Fault{"$", "is not an object"}))
	}
	if faults := beyondInt(nil, "$", registered.schemas[r.tool], c.Args); faults != nil {
		return ErrorResult(outOfRange(faults))
	}
	res, err = c.tool.Call(c)
	if err != nil {
		return ErrorResult(err)
	}
	return res
}

func panicText(p any) string {
	switch p := p.(type) {
	case error:
		return p.Error()
	case string:
		return p
	}
	return "with a value that is no text"
}
