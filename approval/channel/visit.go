package channel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// How long a visitor may stall.
const (
	idleTime  = 10 * time.Second // between two messages, and for the first
	writeTime = 5 * time.Second  // for one line to be taken
	showTime  = 60 * time.Second // for all parts of a request
)

// visit is one connection.
type visit struct {
	server  *Server
	conn    net.Conn
	peer    proc
	user    string
	changed chan struct{} // one place: something changed since the visitor was told
	since   time.Time     // of the last message; guarded by server.mu
	lines   *bufio.Reader
}

// serve talks to one visitor until it leaves, stalls or talks nonsense.
func (v *visit) serve() {
	defer v.server.leave(v)
	if v.send(greeting{Wasmtools: protocol, Version: version, About: &v.server.o.About}) != nil {
		return
	}
	r := bufio.NewReaderSize(v.conn, maxMessage)
	v.lines = r
	for {
		_ = v.conn.SetReadDeadline(time.Now().Add(idleTime))
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			_ = v.send(reply{Error: failed(fmt.Errorf("%w: it is longer than %d bytes", errBad, maxMessage))})
		}
		if err != nil {
			return
		}
		if v.server.heard(v) {
			return
		}
		if v.handle(line) != nil {
			return
		}
	}
}

// handle answers one message. Its error ends the visit.
func (v *visit) handle(line []byte) error {
	m, err := parseMessage(line)
	if err != nil {
		return errors.Join(v.send(reply{Error: failed(err)}), err)
	}
	switch m.Op {
	case opList:
		return v.send(reply{OK: true, Waiting: v.server.list()})
	case opShow:
		p, err := v.server.find(m.Ticket)
		if err != nil {
			return v.send(reply{Error: failed(err)})
		}
		return v.show(p)
	case opAnswer:
		if err := v.server.answer(v, m); err != nil {
			return v.send(reply{Error: failed(err)})
		}
		return v.send(reply{OK: true})
	case opWatch:
		return v.watch()
	case opJoin:
		return v.send(reply{OK: true, Joinable: v.server.joinable()})
	case opAttach:
		return v.attach(m)
	}
	err = fmt.Errorf("%w: there is no such operation", errBad)
	return errors.Join(v.send(reply{Error: failed(err)}), err)
}

// show sends a request in parts.
func (v *visit) show(p *pending) error {
	body, err := json.Marshal(toWire(p.request))
	if err == nil && len(body) > maxShown {
		err = fmt.Errorf("the request takes more than %d bytes", maxShown)
	}
	if err != nil {
		return v.send(reply{Error: failed(err)})
	}
	deadline := time.Now().Add(showTime)
	for {
		part := body[:min(len(body), maxPart)]
		body = body[len(part):]
		if err := v.send(reply{OK: true, Part: part, More: len(body) > 0}); err != nil || len(body) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the visitor reads too slowly")
		}
	}
}

// watch sends a line whenever the list changed, until the visitor leaves. Ten
// changes that it did not read about yet are one line.
func (v *visit) watch() error {
	if err := v.send(reply{OK: true}); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = v.conn.SetReadDeadline(time.Time{})
		var b [1]byte
		_, _ = v.conn.Read(b[:]) // whatever comes, and the end, is the end
	}()
	v.server.count(1)
	defer func() {
		v.server.count(-1)
		v.conn.Close()
		<-gone
	}()
	for {
		select {
		case <-v.changed:
			if err := v.send(reply{OK: true}); err != nil {
				return err
			}
		case <-gone:
			return errors.New("the visitor has left")
		}
	}
}

// send writes one line within its time.
func (v *visit) send(x any) error {
	line, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_ = v.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err = v.conn.Write(append(line, '\n'))
	return err
}
