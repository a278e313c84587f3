package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Joined is a session that a person takes part in.
type Joined interface {
	Type(p []byte) error
	Resize(ctx context.Context, cols, rows int) error
	Done() <-chan struct{} // closed at the session's end
	Leave()
}

// maxBehind is how many pieces of output a visitor may be behind before it is
// let go: a session waits for nobody.
const maxBehind = 1024

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
	output, behind := make(chan []byte, maxBehind), make(chan struct{}, 1)
	j, err := v.server.o.Join(m.Session, func(p []byte) {
		for len(p) > 0 {
			n := min(len(p), maxPart)
			select {
			case output <- bytes.Clone(p[:n]):
			default:
				select {
				case behind <- struct{}{}:
				default:
				}
				return
			}
			p = p[n:]
		}
	})
	if err != nil {
		return refuse(fmt.Errorf("%w: %v", ErrNoSession, err))
	}
	defer j.Leave()
	if err := v.send(reply{OK: true}); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		v.obey(j, m.ReadOnly)
	}()
	defer func() {
		v.conn.Close()
		<-gone
	}()
	for {
		select {
		case p := <-output:
			if err := v.send(reply{OK: true, Part: p}); err != nil {
				return err
			}
		case <-behind:
			return errors.New("the visitor reads too slowly")
		case <-gone:
			return errors.New("the visitor has left")
		case <-j.Done():
			for len(output) > 0 {
				if err := v.send(reply{OK: true, Part: <-output}); err != nil {
					return err
				}
			}
			return errors.New("the session has ended")
		}
	}
}

// obey does what the visitor types, until it leaves.
func (v *visit) obey(j Joined, readOnly bool) {
	for {
		_ = v.conn.SetReadDeadline(time.Time{})
		line, err := v.lines.ReadSlice('\n')
		if err != nil {
			return
		}
		m, err := parseMessage(line)
		switch {
		case err != nil || readOnly:
			return
		case m.Op == opType:
			err = j.Type(m.Data)
		case m.Op == opResize:
			_ = j.Resize(context.Background(), m.Cols, m.Rows) // a size that does not fit changes nothing
		default:
			return
		}
		if err != nil {
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
	return &Attached{c}, nil
}

// Attached is a client in a session. Next may be called beside the others, which
// may not be called beside each other.
type Attached struct{ c *Client }

// Next gives more of what the terminal shows. Its error says that it is over.
func (a *Attached) Next() ([]byte, error) {
	r, err := a.c.reply()
	return r.Part, err
}

// maxTyped is how much one message types.
const maxTyped = 16 << 10

// Type types.
func (a *Attached) Type(p []byte) error {
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
	return a.tell(message{Op: opResize, Cols: cols, Rows: rows})
}
