package channel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/approval/show"
)

// Joined is a session that a person takes part in.
type Joined interface {
	Type(p []byte) error
	Resize(ctx context.Context, cols, rows int) error
	Done() <-chan struct{} // closed at the session's end
	Leave()
}

// Session is what a person can take part in, as a list has it.
type Session struct {
	ID         string    `json:"id"`
	Workspace  string    `json:"workspace"` // its real path
	Profile    string    `json:"profile"`
	Foreground string    `json:"foreground,omitempty"` // the program that has the terminal
	Since      time.Time `json:"since"`
}

// joinable is what can be joined, as far as it fits into a reply.
func (s *Server) joinable() []Session {
	if s.o.Joinable == nil {
		return nil
	}
	l := s.o.Joinable()
	return l[:min(len(l), maxListed)]
}

// Joinable lists what [Client.Attach] takes, the oldest first; at most 256.
func (c *Client) Joinable() ([]Session, error) {
	r, err := c.ask(message{Op: opJoin})
	for i := range r.Joinable {
		s := &r.Joinable[i]
		for _, p := range []*string{&s.ID, &s.Workspace, &s.Profile, &s.Foreground} {
			*p = show.Clean(*p)
		}
	}
	return r.Joinable, err
}

// maxBehind is how much output a visitor may be behind. A session waits for
// nobody: whoever is further behind misses what came, and sees the end of it anew.
const maxBehind = 1 << 20

// maxShownPart is how much output one reply shows. It is small, so that a visitor
// on a slow line gets one within [writeTime].
const maxShownPart = 16 << 10

// backlog is output that a visitor has not been sent yet.
type backlog struct {
	mu     sync.Mutex
	buf    []byte
	missed bool
	more   chan struct{} // one place
}

func newBacklog() *backlog { return &backlog{more: make(chan struct{}, 1)} }

// put adds output; it never waits.
func (b *backlog) put(p []byte) {
	b.mu.Lock()
	switch {
	case b.missed:
	case len(b.buf)+len(p) > maxBehind:
		b.buf, b.missed = nil, true
	default:
		b.buf = append(b.buf, p...)
	}
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take gives what has come; missed says that it is not all.
func (b *backlog) take() (p []byte, missed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, b.buf = b.buf, nil
	return p, b.missed
}

// attach lets a visitor take part in a session until it leaves. Only who sits at
// a terminal may: what is typed runs without a question.
func (v *visit) attach(m message) error {
	refuse := func(err error) error { return v.send(reply{Error: failed(err)}) }
	switch {
	case v.server.o.Join == nil:
		return refuse(ErrNoSession)
	case v.peer.tty == 0:
		return refuse(fmt.Errorf("%w: it has no controlling terminal, so nobody sits there", ErrRefused))
	}
	output := newBacklog()
	typist, err := v.server.o.Join(m.Session, output.put)
	if err != nil {
		return refuse(fmt.Errorf("%w: %v", ErrNoSession, err))
	}
	defer typist.Leave()
	if err := v.send(reply{OK: true}); err != nil {
		return err
	}
	var late atomic.Bool
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		v.obey(typist, m.ReadOnly, &late)
	}()
	defer func() {
		// What was typed before it left still counts: it may be on its way.
		end := time.AfterFunc(partingTime, func() {
			late.Store(true)
			v.conn.Close()
		})
		<-gone
		end.Stop()
	}()
	anew := false
	viewer := typist
	show := func() error {
		p, missed := output.take()
		if missed {
			if viewer != typist {
				viewer.Leave()
			}
			again := newBacklog()
			if viewer, err = v.server.o.Join(m.Session, again.put); err != nil { // it has ended meanwhile
				viewer = typist
				return nil
			}
			output, anew = again, true
			return nil
		}
		for len(p) > 0 {
			n := min(len(p), maxShownPart)
			if err := v.send(reply{OK: true, Part: p[:n], Anew: anew}); err != nil {
				return err
			}
			p, anew = p[n:], false
		}
		return nil
	}
	defer func() {
		if viewer != typist {
			viewer.Leave()
		}
	}()
	for {
		select {
		case <-output.more:
			if err := show(); err != nil {
				return err
			}
		case <-gone:
			return errors.New("the visitor has left")
		case <-typist.Done():
			err := show()
			if err == nil {
				err = v.send(reply{Error: failed(ErrOver)})
			}
			return errors.Join(ErrOver, err)
		}
	}
}

// obey does what the visitor types, until it leaves, or until it is too late.
func (v *visit) obey(j Joined, readOnly bool, late *atomic.Bool) {
	ctx, cancel := context.WithCancel(context.Background())
	sizes, resized := make(chan message, 1), make(chan struct{})
	go func() {
		defer close(resized)
		for m := range sizes {
			_ = j.Resize(ctx, m.Cols, m.Rows) // a size that does not fit changes nothing
		}
	}()
	defer func() {
		cancel()
		close(sizes)
		<-resized
	}()
	_ = v.conn.SetReadDeadline(time.Time{})
	for !late.Load() {
		line, err := v.lines.ReadSlice('\n')
		if err != nil {
			return
		}
		m, err := parseMessage(line)
		if err != nil || readOnly {
			return
		}
		v.server.heard(v)
		switch m.Op {
		case opType:
			// What a program does not take is lost, as at any terminal.
			if err := j.Type(m.Data); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
		case opResize:
			// Programs draw anew for each size, so that takes its time: of many sizes
			// only the last counts.
			select {
			case <-sizes:
			default:
			}
			sizes <- m
		default:
			return
		}
	}
}

// Attach takes part in a session of this runtime. The client serves for nothing
// else from then on. Errors: [ErrNoSession], [ErrRefused].
func (c *Client) Attach(session string, readOnly bool) (*Attached, error) {
	if _, err := c.ask(message{Op: opAttach, Session: session, ReadOnly: readOnly}); err != nil {
		return nil, err
	}
	_ = c.conn.SetDeadline(time.Time{})
	return &Attached{c: c}, nil
}

// Attached is a client in a session. It is safe for concurrent use, but for Next,
// which may be called beside the others only.
type Attached struct {
	c      *Client
	typing sync.Mutex
}

// Next gives more of what the terminal shows; anew says that something before it
// was missed, so that what stands on the screen is not what stood there. Its
// error says that it is over: [ErrOver] if the session has ended.
func (a *Attached) Next() (p []byte, anew bool, err error) {
	r, err := a.c.reply()
	if errors.Is(err, errEnded) {
		err = errCut
	}
	return r.Part, r.Anew, err
}

var errCut = errors.New("the runtime has ended, or took this visitor for one that does not read")

// maxTyped is how much one message types.
const maxTyped = 16 << 10

// Type types.
func (a *Attached) Type(p []byte) error {
	a.typing.Lock()
	defer a.typing.Unlock()
	for len(p) > 0 {
		n := min(len(p), maxTyped)
		if err := a.tell(message{Op: opType, Data: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Resize gives the session's terminal a size.
func (a *Attached) Resize(cols, rows int) error {
	a.typing.Lock()
	defer a.typing.Unlock()
	return a.tell(message{Op: opResize, Cols: cols, Rows: rows})
}
