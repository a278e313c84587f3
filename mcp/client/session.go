package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// The eras of the protocol: older servers have a handshake and remember it, newer
// ones are told everything with each request.
const (
	older = "2025-11-25"
	newer = "2026-07-28"
)

// Bounds on what a server lists.
const (
	maxTools    = 2000
	maxPages    = 200
	maxListed   = 16 << 20 // bytes of all definitions
	maxProgress = 1000     // told of one call
)

// session is one connection to a server.
type session struct {
	link  link
	name  string
	about string
	meta  json.RawMessage // of each request, in the newer era; nil in the older

	next   atomic.Uint64
	mu     sync.Mutex
	calls  map[uint64]*pending
	broken error

	changed chan struct{} // the list has
	done    chan struct{} // closed when broken
}

// pending is a request that waits for its answer.
type pending struct {
	answer   chan message
	sink     tool.Sink // told of progress; may be nil
	progress int
}

func newSession(l link, name string) *session {
	s := &session{link: l, name: name, calls: map[uint64]*pending{}, changed: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		err := l.run(s.take)
		s.fail(err)
	}()
	return s
}

// fail ends the session: every request that waits is answered with err.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return
	}
	s.broken = err
	close(s.done)
	s.calls = nil
}

func (s *session) close() {
	s.fail(errors.New("the connection was closed"))
	s.link.close()
}

// take handles what comes.
func (s *session) take(line []byte) {
	m, err := decode(line)
	if err != nil {
		s.fail(err)
		return
	}
	switch {
	case m.Method == "":
		id, ok := idOf(m.ID)
		s.mu.Lock()
		p := s.calls[id]
		if ok && p != nil {
			delete(s.calls, id)
		}
		s.mu.Unlock()
		if ok && p != nil {
			p.answer <- m // it has room for one
		}
	case len(m.ID) > 0:
		s.refuse(m)
	case m.Method == "notifications/tools/list_changed":
		select {
		case s.changed <- struct{}{}:
		default:
		}
	case m.Method == "notifications/progress":
		s.progress(m.Params)
	}
}

// refuse answers a request of the server. It may ask whether we are there; asking
// a person, a model or for files through us is not for it.
func (s *session) refuse(m message) {
	answer := message{ID: m.ID, Result: json.RawMessage("{}")}
	if m.Method != "ping" {
		answer.Result, answer.Error = nil, &rpcError{methodNotFound, "this client does not do that"}
	}
	line, err := encode(answer)
	if err != nil {
		return
	}
	go func() { // the server may not be reading now
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.link.send(ctx, line)
	}()
}

func (s *session) progress(params json.RawMessage) {
	var p struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total"`
		Message  string          `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id, ok := idOf(p.Token)
	s.mu.Lock()
	c := s.calls[id]
	tell := ok && c != nil && c.sink != nil && c.progress < maxProgress
	if tell {
		c.progress++
	}
	s.mu.Unlock()
	if tell {
		c.sink.Progress(whole(p.Progress), whole(p.Total), clean(p.Message, 1024))
	}
}

func whole(f float64) int64 {
	if !(f > 0) {
		return 0
	}
	return int64(min(f, 1<<53))
}

// ask sends a request and waits for its answer. A context that ends is told to
// the server.
func (s *session) ask(ctx context.Context, method string, params map[string]any, sink tool.Sink) (json.RawMessage, error) {
	id := s.next.Add(1)
	if params == nil {
		params = map[string]any{}
	}
	meta := map[string]any{}
	if s.meta != nil {
		if err := json.Unmarshal(s.meta, &meta); err != nil {
			return nil, err
		}
	}
	if sink != nil {
		meta["progressToken"] = id
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	line, err := encode(message{ID: strconv.AppendUint(nil, id, 10), Method: method, Params: raw})
	if err != nil {
		return nil, err
	}
	p := &pending{answer: make(chan message, 1), sink: sink}
	s.mu.Lock()
	if s.broken != nil {
		defer s.mu.Unlock()
		return nil, s.broken
	}
	s.calls[id] = p
	s.mu.Unlock()
	forget := func() {
		s.mu.Lock()
		delete(s.calls, id)
		s.mu.Unlock()
	}
	if err := s.link.send(ctx, line); err != nil {
		forget()
		if ctx.Err() != nil {
			s.withdraw(id) // it may have been sent
			return nil, ctx.Err()
		}
		s.fail(err)
		return nil, err
	}
	select {
	case m := <-p.answer:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-s.done:
		select {
		case m := <-p.answer: // it came last
			if m.Error == nil {
				return m.Result, nil
			}
		default:
		}
		return nil, s.why()
	case <-ctx.Done():
		forget()
		s.withdraw(id)
		return nil, ctx.Err()
	}
}

func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// withdraw tells the server that nobody waits any more.
func (s *session) withdraw(id uint64) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.tell(ctx, "notifications/cancelled", map[string]any{"requestId": id, "reason": "the call was withdrawn"})
	}()
}

func (s *session) tell(ctx context.Context, method string, params map[string]any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	line, err := encode(message{Method: method, Params: raw})
	if err != nil {
		return err
	}
	return s.link.send(ctx, line)
}

// greet finds out which era the server is of, and what it says about itself.
func (s *session) greet(ctx context.Context, version string) error {
	raw, err := s.ask(ctx, "initialize", map[string]any{
		"protocolVersion": older, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "wasmtools", "version": version},
	}, nil)
	var e *rpcError
	if errors.As(err, &e) && (e.Code == methodNotFound || e.Code == invalidRequest || e.Code == invalidParams || e.Code <= -32000) {
		s.meta, err = json.Marshal(map[string]any{
			"io.modelcontextprotocol/protocolVersion": newer, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "wasmtools", "version": version},
		})
		if w, ok := s.link.(*web); ok {
			w.speaks(newer)
		}
		return err
	}
	if err != nil {
		return err
	}
	var hello struct {
		Version      string `json:"protocolVersion"`
		Instructions string `json:"instructions"`
		Info         struct {
			Title       string `json:"title"`
			Description string `json:"description"`
		} `json:"serverInfo"`
	}
	if err := json.Unmarshal(raw, &hello); err != nil || hello.Version == "" {
		return errors.New("its greeting is none")
	}
	if w, ok := s.link.(*web); ok {
		w.speaks(hello.Version)
		go w.follow()
	}
	for _, t := range []string{hello.Info.Title, hello.Info.Description, hello.Instructions} {
		if t = clean(t, 2000); t != "" {
			s.about += t + "\n"
		}
	}
	return s.tell(ctx, "notifications/initialized", map[string]any{})
}

func (l *web) speaks(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(version) <= 32 {
		l.version = clean(version, 32)
	}
}

// remoteTool is a tool as the server lists it.
type remoteTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"inputSchema,omitempty"`
	Output      json.RawMessage `json:"outputSchema,omitempty"`
	Annotations *hints          `json:"annotations,omitempty"`
}

type hints struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// list asks for all tools, page by page.
func (s *session) list(ctx context.Context) ([]remoteTool, error) {
	var all []remoteTool
	cursor, size := "", 0
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		raw, err := s.ask(ctx, "tools/list", params, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, errors.New("its list of tools is none")
		}
		if size += len(raw); size > maxListed {
			return nil, fmt.Errorf("its list of tools has more than %d MiB", maxListed>>20)
		}
		for _, one := range page.Tools {
			var t remoteTool
			if err := json.Unmarshal(one, &t); err != nil {
				// One that cannot be read at all has no name to be told by.
				t = remoteTool{Name: "unreadable", Input: json.RawMessage("null")}
			}
			if all = append(all, t); len(all) > maxTools {
				return nil, fmt.Errorf("it lists more than %d tools", maxTools)
			}
		}
		if page.Next == "" {
			return all, nil
		}
		if page.Next == cursor || len(page.Next) > 4096 {
			return nil, errors.New("its list of tools has no end")
		}
		cursor = page.Next
	}
	return nil, errors.New("its list of tools has no end")
}
