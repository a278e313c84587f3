package server

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Methods that the connection treats itself.
const (
	methodCall        = "tools/call"
	methodList        = "tools/list"
	methodListen      = "subscriptions/listen"
	methodInitialize  = "initialize"
	methodPing        = "ping"
	notifyCancelled   = "notifications/cancelled"
	notifyInitialized = "notifications/initialized"
)

var (
	errClosed  = errors.New("the connection is closed")
	errStalled = errors.New("the client does not read")
)

// conn is the SDK's transport and connection in one: lines in, lines out.
//
// Unlike the SDK's own it parses a line once, survives lines that are no
// messages, and keeps what a request needs from its first byte to its answer
// in one place (see [request]). Read is called by one goroutine, the SDK's;
// everything else may be called by any.
type conn struct {
	ctx    context.Context // ends with the session; every call's context follows it
	cancel context.CancelFunc
	in     io.Reader
	lines  *lines
	grace  time.Duration

	principal principal

	writing chan struct{} // a lock that a closed connection can give up waiting for
	out     io.Writer
	writes  atomic.Uint64 // odd while a write is under way

	closed  chan struct{} // nothing is read or written any more
	drained chan struct{} // in has ended, and calls have had their time
	room    chan struct{} // a hint that a request was answered

	mu        sync.Mutex
	isClosed  bool
	isDrained bool
	inited    bool  // notifications/initialized was passed on
	legacy    bool  // a session of 2025-11-25 or older was begun, by initialize
	err       error // why reading or the whole session failed
	writeErr  error // why writing failed
	lost      int   // answers that could not be written
	accepted  map[jsonrpc.ID]*request
	byExtra   map[*mcpsdk.RequestExtra]*request // requests in the lane, not begun
	waiting   int                               // accepted requests that end by themselves
	held      int                               // bytes of accepted lines
	idle      chan struct{}                     // closed when waiting becomes 0; nil if nobody asks
	client    clientMark                        // the last 2026-07-28 client that the SDK agreed to
}

// A request is one accepted request, until its answer is written.
type request struct {
	message
	extra  mcpsdk.RequestExtra // its address names the request on its way through the SDK
	modern bool                // it speaks 2026-07-28
	begins bool                // it is the initialize that begins the session
	size   int

	// frame is the finished line of the answer, if it was made here. It is
	// written and read by the goroutine that answers.
	frame []byte

	cancelled bool   // under conn.mu
	cancel    func() // under conn.mu; nil until the call begins
}

// clientMark is what a 2026-07-28 request says about the client.
type clientMark struct{ version, client, caps string }

func (k *clientMark) is(m *message) bool {
	return k.version != "" && k.version == string(m.version) && k.client == string(m.client) && k.caps == string(m.caps)
}

type connKey struct{}

func newConn(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) *conn {
	c := &conn{
		in: in, lines: newLines(in), out: out, grace: grace,
		principal: newPrincipal(),
		writing:   make(chan struct{}, 1),
		closed:    make(chan struct{}),
		drained:   make(chan struct{}),
		room:      make(chan struct{}, 1),
		accepted:  make(map[jsonrpc.ID]*request),
		byExtra:   make(map[*mcpsdk.RequestExtra]*request),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// Connect makes a conn its own transport.
func (c *conn) Connect(context.Context) (mcpsdk.Connection, error) { return c, nil }

// SessionID is empty: stdio has one session.
func (c *conn) SessionID() string { return "" }

// Read returns the next message that the SDK has to see. At the end of the
// input it first gives running calls their time, because the SDK cancels them
// and stops answering as soon as Read fails.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.lines.next()
		var f *fault
		switch {
		case err == errLong:
			f = &fault{code: jsonrpc.CodeInvalidRequest, text: "the line is longer than " + strconv.Itoa(maxLine) + " bytes"}
		case err != nil:
			if err != io.EOF && !c.over() {
				c.fail(err)
			}
			c.drain(c.grace)
			return nil, io.EOF
		default:
			var m message
			if m, f = decode(line); f == nil {
				var msg jsonrpc.Message
				if msg, f = c.accept(m, len(line)); msg != nil {
					return msg, nil
				}
			}
		}
		if f != nil {
			if err := c.send(appendFault(nil, f)); err != nil {
				c.drain(0)
				return nil, io.EOF
			}
		}
		if c.over() {
			return nil, io.EOF
		}
	}
}

func (c *conn) over() bool {
	select {
	case <-c.closed:
		return true
	case <-c.ctx.Done():
		return true
	default:
		return false
	}
}

// accept decides what becomes of a message: the SDK gets what is returned; a
// fault is answered; with neither, nothing more happens.
func (c *conn) accept(m message, size int) (jsonrpc.Message, *fault) {
	switch {
	case m.isCall():
		return c.acceptCall(m, size)
	case m.rawID != nil:
		if r, ok := m.response(); ok {
			return r, nil
		}
	case m.method == notifyCancelled:
		if r := c.cancelRequest(m.requestID); r != nil && r.method == methodListen {
			// The SDK's own long request, which only it can end.
			return &jsonrpc.Request{Method: m.method, Params: m.params}, nil
		}
	case m.method == notifyInitialized:
		c.mu.Lock()
		first := !c.inited
		c.inited = true
		c.mu.Unlock()
		if first {
			return &jsonrpc.Request{Method: m.method, Params: m.params}, nil
		}
	}
	// All other notifications mean nothing to us, and the SDK queues without
	// bound what it is given.
	return nil, nil
}

func (c *conn) acceptCall(m message, size int) (jsonrpc.Message, *fault) {
	if m.method == laneMethod {
		return nil, &fault{code: jsonrpc.CodeMethodNotFound, text: "no such method", rawID: m.rawID}
	}
	if !c.waitForRoom(size) {
		return nil, nil
	}
	r := &request{message: m, size: size}
	version, isText := str(m.version)
	r.modern = isText && version >= modern
	lane := m.method == methodCall || m.method == methodList

	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.era(r, version, isText); f != nil {
		return nil, f
	}
	if c.accepted[m.id] != nil {
		// Answered without an id, or the client would take it for the answer
		// to the call that runs.
		return nil, &fault{code: jsonrpc.CodeInvalidRequest, text: "id " + string(m.rawID) + " is in use by a request that is not answered yet"}
	}
	c.accepted[m.id] = r
	c.held += size
	if m.method != methodListen {
		c.waiting++
	}
	if !lane {
		return &jsonrpc.Request{ID: m.id, Method: m.method, Params: m.params}, nil
	}
	c.byExtra[&r.extra] = r
	req := &jsonrpc.Request{ID: m.id, Method: laneMethod, Extra: &r.extra}
	if r.modern && !c.client.is(&m) {
		req.Params = append(append([]byte(`{"_meta":`), m.meta...), '}')
	}
	return req, nil
}

// era judges a request that does not say that it speaks 2026-07-28. Only what
// initialize has begun goes on without saying so: the SDK takes any request for
// such a one as soon as another has said something. c.mu is held.
func (c *conn) era(r *request, version string, isText bool) *fault {
	f := &fault{code: jsonrpc.CodeInvalidParams, rawID: r.rawID}
	switch {
	case r.modern:
		return nil
	case r.version != nil && !isText:
		f.text = "_meta field " + keyVersion + " must be a string"
		return f
	case r.method == methodInitialize:
		r.begins, c.legacy = !c.legacy, true
		return nil
	case c.legacy, r.method == methodPing:
		return nil
	case isText:
		f.code = mcpsdk.CodeUnsupportedProtocolVersion
		f.text = "unsupported protocol version: without initialize only " + modern + " is spoken"
		f.data = append(append([]byte(`{"supported":["`+modern+`"],"requested":`), r.version...), '}')
		return f
	}
	f.text = "missing _meta field " + keyVersion + `: every request carries it ("` + modern + `") and ` + keyCaps +
		", unless the session began with initialize"
	return f
}

// waitForRoom blocks while too much is accepted already. It returns false if
// the session ended meanwhile.
func (c *conn) waitForRoom(size int) bool {
	for {
		c.mu.Lock()
		full := len(c.accepted) >= maxAccepted || (c.held > 0 && c.held+size > maxHeld)
		c.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-c.room:
		case <-c.closed:
			return false
		case <-c.ctx.Done():
			return false
		}
	}
}

// begin returns the request that extra names, and takes the function that
// cancels it. It returns nil if extra is not ours.
func (c *conn) begin(extra *mcpsdk.RequestExtra, cancel func()) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.byExtra[extra]
	if r == nil {
		return nil
	}
	delete(c.byExtra, extra)
	r.cancel = cancel
	if r.cancelled {
		cancel()
	}
	if r.modern { // the SDK has let it pass, so its _meta is in order
		if !c.client.is(&r.message) {
			c.client = clientMark{string(r.version), string(r.client), string(r.caps)}
		}
	}
	return r
}

// cancelRequest cancels the request with the id in raw and returns it; nil if
// there is none, or it was cancelled before.
func (c *conn) cancelRequest(raw []byte) *request {
	if raw == nil {
		return nil
	}
	id, why := parseID(raw)
	if why != "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.accepted[id]
	if r == nil || r.cancelled {
		return nil
	}
	r.cancelled = true
	if r.cancel != nil {
		r.cancel()
	}
	return r
}

// take removes the request with this id; its id may be used again.
func (c *conn) take(id jsonrpc.ID) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.accepted[id]
	if r != nil {
		delete(c.accepted, id)
		delete(c.byExtra, &r.extra)
	}
	return r
}

// answered counts r as done, after its answer was written or could not be.
func (c *conn) answered(r *request, err error) {
	c.mu.Lock()
	c.held -= r.size
	if r.method != methodListen {
		c.waiting--
		if err != nil {
			c.lost++
		}
	}
	if c.waiting == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
	c.mu.Unlock()
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// Write sends what the SDK wants to say.
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	resp, ok := msg.(*jsonrpc.Response)
	if !ok {
		line, err := jsonrpc.EncodeMessage(msg)
		if err != nil {
			return err
		}
		return c.send(append(line, '\n'))
	}
	r := c.take(resp.ID)
	if r == nil {
		return nil // nobody asked
	}
	var err error
	switch {
	case resp.Error != nil:
		if r.begins { // it has not
			c.mu.Lock()
			c.legacy = false
			c.mu.Unlock()
		}
		err = c.send(appendFault(nil, faultOf(r, resp.Error)))
	case r.frame != nil:
		err = c.send(r.frame)
		freeFrame(r.frame)
		r.frame = nil
	default:
		line := appendHead(nil, r.rawID)
		line = append(line, resp.Result...)
		err = c.send(append(line, "}\n"...))
	}
	c.answered(r, err)
	return err
}

// send writes one whole line.
func (c *conn) send(line []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return errClosed
	}
	defer func() { <-c.writing }()
	select {
	case <-c.closed: // a line may be half out; nothing may follow it
		return errClosed
	default:
	}
	c.writes.Add(1)
	n, err := c.out.Write(line)
	c.writes.Add(1)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.mu.Lock()
		c.writeErr = err
		c.mu.Unlock()
		c.Close()
	}
	return err
}
