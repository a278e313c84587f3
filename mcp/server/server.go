// Package server shows a set of tools to MCP clients over stdio, in both
// protocol eras: 2026-07-28, which has no sessions, and 2025-11-25 and older,
// which begin with initialize.
//
// It promises that one bad line never ends the session: what cannot be read is
// answered with a JSON-RPC error and the next line is served; that every call
// which was accepted is answered once, also when the backend panics; that
// cancelling a call, closing stdin and ending the context stop the call's
// context; and that nothing but protocol is written to the output. Memory is
// bounded: a line by 16 MiB, accepted requests by 1,024 and 64 MiB in all, calls
// that run by 64. Beyond these the server stops reading until there is room.
//
// It also asks the person behind a client about a call, where the backend wants
// that and the client can (elicitation). A yes counts once, for the call and the
// ticket it was given for; what comes back through a client is signed, and
// anything but a clear yes allows nothing.
//
// It decides nothing about tools. Arguments are checked by the backend, which
// also knows what needs approval and bounds results; this package checks the form
// of messages only. It cannot tell a person's yes from one that the client made
// up. It cannot stop a backend that ignores its context, nor take
// back a write that a client does not read: [Server.Run] then returns after its
// grace and leaves that goroutine behind.
//
// How it is built, and why, is told in docs/mcp.md. A program that serves MCP
// should set the collector's percentage to 400 (debug.SetGCPercent) unless GOGC
// is set: it halves the slowest calls for about 12 MB.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/tool"
)

// Limits on what runs and waits at the same time, for the whole server or for
// one connection.
const (
	maxRunning  = 64       // calls inside the backend, per server; those not counted that ask a client
	maxAccepted = 1024     // requests read and not yet answered, per connection
	maxHeld     = 64 << 20 // bytes of their lines, per connection
)

// grace is how long calls may go on after stdin has closed when
// [Options.Grace] is zero. Clients wait about as long before they kill.
const grace = 5 * time.Second

// parting is how long Run waits, at the very end, for calls that were cancelled
// and for a client that does not read.
const parting = time.Second

// Backend is what the server shows. Its methods are safe for concurrent use.
type Backend interface {
	// Tools is the list, in a stable order, the same for every client. It is
	// asked once, and again after each value from [Watcher.Changed].
	Tools() []tool.Definition

	// Call runs one call and returns what the client is shown. A failure, a
	// refusal and faulty arguments are results with IsError; a result with
	// [tool.NotRegistered] for a name that is not in Tools becomes a protocol
	// error. When ctx ends, Call should return soon, with [tool.Cancelled].
	Call(ctx context.Context, c Call, sink tool.Sink) tool.Result
}

// Watcher is an optional part of a Backend whose list can change.
type Watcher interface {
	// Changed gives a value after each change. Clients are then told.
	Changed() <-chan struct{}
}

// Decider is an optional part of a Backend that takes an answer which comes in
// a request of its own, as those of 2026-07-28 clients do. Without it they are
// not asked.
type Decider interface {
	// Decide answers a ticket that [Call.Approver] was offered. It returns
	// [approval.ErrAnswered] or [approval.ErrExpired] when it came too late.
	Decide(ticket string, d approval.Decision) error
}

// Call is one tools/call request.
type Call struct {
	Tool      string          // as the client wrote it; perhaps unknown
	Arguments json.RawMessage // valid JSON, {} if none were sent; not checked against any schema

	// Approver asks the person behind the client about this call. It takes no
	// part where the client or [Options.Elicitation] does not allow that.
	Approver approval.Approver

	// Ask shows the person behind the client a question of the model, where the
	// client can do that; else it is [ErrCannotAsk].
	Ask func(context.Context, Question) (Reply, error)

	// Patience is how long the call may wait for a person whom somebody else
	// asks, before the client would give up.
	Patience time.Duration
}

// Options describe a server. The zero value works.
type Options struct {
	Name         string // "wasmtools" if empty
	Title        string
	Version      string // "dev" if empty
	Instructions string // a hint for the model; Claude Code cuts at 2 KB

	// Notice takes lines for the person who runs the server, never for the
	// client; nil discards them.
	Notice io.Writer

	// Elicitation says which calls a client that can ask its person is asked
	// about. It is called for each question, from any goroutine, so that a change
	// counts at once. Nil means [ElicitAll].
	Elicitation func() Elicitation

	// Grace is how long accepted calls may go on after stdin has closed; they
	// are cancelled then. 0 means 5 seconds.
	Grace time.Duration
}

// Server serves one [Backend]. It is safe for concurrent use.
type Server struct {
	backend Backend
	opts    Options
	sdk     *mcpsdk.Server
	info    []byte // the encoded Implementation, for _meta
	running chan struct{}
	list    atomic.Pointer[listing]
	listMu  sync.Mutex // one builder at a time
	states  states
	noticed sync.Mutex
}

// New makes a server. It neither asks the backend for anything nor starts a
// goroutine.
func New(backend Backend, opts Options) *Server {
	if opts.Name == "" {
		opts.Name = "wasmtools"
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.Grace <= 0 {
		opts.Grace = grace
	}
	s := &Server{backend: backend, opts: opts, running: make(chan struct{}, maxRunning)}
	impl := &mcpsdk.Implementation{Name: opts.Name, Title: opts.Title, Version: opts.Version}
	s.info, _ = json.Marshal(impl) // three strings: cannot fail
	_, changes := backend.(Watcher)
	caps := &mcpsdk.ServerCapabilities{Tools: &mcpsdk.ToolCapabilities{ListChanged: changes}}
	shelf, hasShelf := backend.(Shelf)
	if hasShelf {
		caps.Resources = &mcpsdk.ResourceCapabilities{}
	}
	s.sdk = mcpsdk.NewServer(impl, &mcpsdk.ServerOptions{
		Instructions: opts.Instructions,
		// No logging: the protocol has given it up, and it would show one
		// client what another one does.
		Capabilities: caps,
		SetCacheable: func(_ context.Context, _ mcpsdk.Request, c *mcpsdk.Cacheable) {
			c.TTLMs, c.CacheScope = listTTL, "private"
		},
	})
	s.addLane()
	if hasShelf {
		s.addShelf(shelf)
	}
	return s
}

// Run serves one client until in ends, ctx ends, or out fails, and owns both
// until then. It returns nil if the client ended the session in order, which
// is: in ended and every accepted call was answered.
//
// Calls that run when in ends have [Options.Grace] to finish; when ctx ends
// they are cancelled at once. Either way Run returns within a bounded time. If
// in is an io.Closer it is closed at the end, so that a blocked read returns. An
// inherited stdin is not interrupted, but for a pipe on Linux, and then one
// goroutine stays behind in it.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, done := pollable(in)
	defer done()
	c := newConn(ctx, in, out, s.opts.Grace)
	ss, err := s.sdk.Connect(context.WithValue(context.WithoutCancel(ctx), connKey{}, c), c, nil)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	if w, ok := s.backend.(Watcher); ok {
		go s.watch(ctx, w.Changed())
	}
	go c.watchWrites()
	ended := make(chan struct{})
	go func() {
		_ = ss.Wait() // conn knows what went wrong, and better
		close(ended)
	}()

	select {
	case <-ended:
	case <-c.drained: // by Read, at the end of in
	case <-c.closed: // by a failed write
		c.drain(0)
	case <-ctx.Done():
		c.drain(0)
	}
	c.stop()
	select {
	case <-ended:
	case <-time.After(parting):
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.verdict()
}

// listing returns the stored list, and makes it if there is none.
func (s *Server) listing() *listing {
	if l := s.list.Load(); l != nil {
		return l
	}
	s.listMu.Lock()
	defer s.listMu.Unlock()
	if l := s.list.Load(); l != nil {
		return l
	}
	l := newListing(s.backend.Tools(), s.notice)
	s.list.Store(l)
	return l
}

// watch replaces the stored list after each change and tells the clients.
func (s *Server) watch(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changed:
			if !ok {
				return
			}
		}
		old := s.listing()
		s.listMu.Lock()
		l := newListing(s.backend.Tools(), s.notice)
		s.list.Store(l)
		s.listMu.Unlock()
		if string(old.tools) != string(l.tools) {
			s.announce()
		}
	}
}

// announce sends list_changed, to old clients and to those that listen. The SDK
// does that only when its own set of tools changes, so a tool that nobody can
// see or call comes and goes there.
func (s *Server) announce() {
	const marker = "list_changed"
	s.sdk.AddTool(&mcpsdk.Tool{Name: marker, InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	s.sdk.RemoveTools(marker)
}

// notice writes one line for the person who runs the server.
func (s *Server) notice(format string, args ...any) {
	if s.opts.Notice == nil {
		return
	}
	s.noticed.Lock()
	defer s.noticed.Unlock()
	fmt.Fprintf(s.opts.Notice, "mcp: "+format+"\n", args...)
}
