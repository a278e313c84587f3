package server

import (
	"context"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

// laneMethod is the name under which tools/call and tools/list pass through the
// SDK. Clients cannot use it.
//
// For the standard names the SDK decodes params twice more, at 25 µs and 32 KiB
// of garbage each, though the connection has read them already. A custom method
// may come without params, and still has the SDK's queue, its goroutine per
// request, its check that a session has begun, and its answers. What was read
// travels beside it, found by the address of [request.extra]. Only a 2026-07-28
// request from a client that this connection has not seen carries its _meta, so
// that the SDK can judge it.
const laneMethod = "wasmtools/lane"

// laneParams are the params of such a request.
type laneParams struct{ mcpsdk.ParamsBase }

// framed stands for a result whose line is finished and waits in
// [request.frame]. The SDK must be given something that it can encode; the
// connection never sends it.
type framed struct{ mcpsdk.ResultBase }

func (*framed) MarshalJSON() ([]byte, error) { return []byte{'0'}, nil }

// GetMeta claims to name the server already, so that the SDK does not.
func (*framed) GetMeta() map[string]any { return framedMeta }

func (*framed) SetMeta(map[string]any) {}

var (
	framedMeta = map[string]any{mcpsdk.MetaKeyServerInfo: nil}
	inFrame    = &framed{}
)

// addLane installs the method and the middleware that serves it.
func (s *Server) addLane() {
	notFound := func(context.Context, *mcpsdk.ServerSession, *laneParams) (*framed, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such method"}
	}
	if err := mcpsdk.AddReceivingCustomMethod(s.sdk, laneMethod, notFound); err != nil {
		panic(err) // the name is ours: only a new SDK could make it a standard one
	}
	s.sdk.AddReceivingMiddleware(func(next mcpsdk.MethodHandler) mcpsdk.MethodHandler {
		return func(ctx context.Context, method string, req mcpsdk.Request) (mcpsdk.Result, error) {
			c, _ := ctx.Value(connKey{}).(*conn)
			if method != laneMethod || c == nil {
				return next(ctx, method, req)
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			r := c.begin(req.GetExtra(), cancel)
			if r == nil {
				return next(ctx, method, req)
			}
			if r.method == methodList {
				return s.serveList(r)
			}
			defer context.AfterFunc(c.ctx, cancel)()
			ss, _ := req.GetSession().(*mcpsdk.ServerSession)
			return s.serveCall(ctx, c, ss, r)
		}
	})
}

func invalidParams(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}

func (s *Server) serveList(r *request) (mcpsdk.Result, error) {
	if cursor, ok := str(r.cursor); r.cursor != nil && (!ok || cursor != "") && string(r.cursor) != "null" {
		return nil, invalidParams("unknown cursor: the list has one page")
	}
	l := s.listing()
	f := appendHead(newFrame(), r.rawID)
	f = append(f, `{"tools":`...)
	f = append(f, l.tools...)
	if r.modern {
		f = append(f, `,"ttlMs":`...)
		f = strconv.AppendInt(f, listTTL, 10)
		f = append(f, `,"cacheScope":"private","resultType":"complete","_meta":{`...)
		f = s.appendInfo(f)
		f = append(f, '}')
	}
	r.frame = append(f, "}}\n"...)
	return inFrame, nil
}

func (s *Server) serveCall(ctx context.Context, c *conn, ss *mcpsdk.ServerSession, r *request) (mcpsdk.Result, error) {
	name, ok := str(r.name)
	if !ok || name == "" {
		return nil, invalidParams("name must be a string: the name of a tool")
	}
	call := Call{Tool: name, Arguments: r.arguments}
	if call.Arguments == nil || string(call.Arguments) == "null" {
		call.Arguments = []byte("{}")
	}
	var sink tool.Sink = tool.Discard{}
	p := newProgress(ss, r.token)
	if p != nil {
		sink = p
	}
	if r.modern && r.requestState != nil {
		if err := s.takeReply(c, r, call); err != nil {
			r.frame = s.encode(r, tool.ErrorResult(err))
			return inFrame, nil
		}
	}
	ask := &asker{s: s, c: c, ss: ss, r: r, call: call, ctx: ctx, p: p}
	call.Approver, call.Patience, call.Ask = ask, patience, ask.ask
	res := s.run(ctx, call, ask, sink)
	if p != nil {
		p.end()
	}
	if q := ask.questionFor(&res); q != nil {
		r.frame = append(append(append(appendHead(newFrame(), r.rawID), '{'), q...), "}}\n"...)
		return inFrame, nil
	}
	if res.IsError && res.Code == tool.NotRegistered && !s.listing().names[name] {
		return nil, invalidParams("unknown tool: " + res.PlainText())
	}
	r.frame = s.encode(r, res)
	return inFrame, nil
}

// run hands the call to the backend once there is room for it.
func (s *Server) run(ctx context.Context, call Call, ask *asker, sink tool.Sink) (res tool.Result) {
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		return tool.ErrorResult(ctx.Err())
	}
	var left sync.Once
	ask.leave = func() { left.Do(func() { <-s.running }) }
	defer func() {
		ask.leave()
		if p := recover(); p != nil {
			s.notice("a call of %s panicked: %v\n%s", tool.QuotePath(clip(call.Tool, 64)), p, debug.Stack())
			res = tool.ErrorResult(tool.Errorf(tool.Internal, "the runtime failed while it served this call"))
		}
	}()
	if err := ctx.Err(); err != nil {
		return tool.ErrorResult(err)
	}
	growStack()
	return s.backend.Call(ctx, call, sink)
}

// growStack makes room for a call on the stack of the goroutine that the SDK
// began for it. A call into a module needs some 20 KiB. Left alone, the stack
// would be doubled four times on the way there, each time with more frames to be
// moved: a seventh of the time of a short read (paired rounds of 300 calls).
//
//go:noinline
func growStack() byte {
	var room [28 << 10]byte
	return room[stackTop]
}

var stackTop int // unknown to the compiler, which would else drop the array

// encode makes the whole line that answers r.
func (s *Server) encode(r *request, res tool.Result) []byte {
	res = presentable(res)
	f := appendHead(newFrame(), r.rawID)
	f = append(f, '{')
	f = appendResult(f, &res)
	if r.modern {
		f = append(f, `,"resultType":"complete"`...)
	}
	if r.modern || res.IsError || len(res.Details) > 0 {
		f = append(f, `,"_meta":{`...)
		f = appendResultMeta(f, &res)
		if r.modern {
			f = s.appendInfo(f)
		} else {
			f = f[:len(f)-1] // the comma
		}
		f = append(f, '}')
	}
	return append(f, "}}\n"...)
}

// appendInfo appends the member of _meta that names the server.
func (s *Server) appendInfo(dst []byte) []byte {
	dst = append(dst, `"`+mcpsdk.MetaKeyServerInfo+`":`...)
	return append(dst, s.info...)
}

// Frames are reused: a result is encoded straight into the line that carries
// it, and that line is as large as the result.
var frames = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxPooled is the largest frame that is kept for reuse.
const maxPooled = 1 << 20

func newFrame() []byte { return (*frames.Get().(*[]byte))[:0] }

func freeFrame(b []byte) {
	if cap(b) <= maxPooled {
		frames.Put(&b)
	}
}
