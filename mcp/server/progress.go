package server

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

// progressEvery is the shortest time between two progress notifications of one
// call. What comes faster is merged: the newest is sent.
const progressEvery = 100 * time.Millisecond

// maxProgressText bounds the text of one notification, in characters.
const maxProgressText = 500

// progress is the sink of a call whose client asked for progress.
//
// Partial output is dropped: no notification exists for it, and as the text of
// a progress message it would pass by every bound on results. The result holds
// the whole output. There is no artifact store here; a backend that has one
// answers Artifact itself.
//
// Sending happens in a goroutine of its own that exists only while there is
// something to send, since a sink must not wait for a slow client.
type progress struct {
	tool.Discard
	ss    *mcpsdk.ServerSession
	token json.RawMessage

	mu      sync.Mutex
	next    *mcpsdk.ProgressNotificationParams // to be sent
	last    float64                            // the newest value given to next
	begun   bool
	sending chan struct{} // closed when the sender has gone; nil if there is none
	over    chan struct{} // closed by end
}

// newProgress returns nil if token is none that can be sent back.
func newProgress(ss *mcpsdk.ServerSession, token []byte) *progress {
	if ss == nil || token == nil {
		return nil
	}
	if _, why := parseID(token); why != "" { // tokens are what ids are
		return nil
	}
	return &progress{ss: ss, token: json.RawMessage(token), over: make(chan struct{})}
}

// Progress takes a new state of the call. The protocol wants values that grow:
// with a known total a value that does not is dropped; without one the value is
// only a count of steps, and one more is counted.
func (p *progress) Progress(done, total int64, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.over:
		return
	default:
	}
	value := float64(done)
	if p.begun && value <= p.last {
		if total > 0 {
			return
		}
		value = p.last + 1
	}
	p.begun, p.last = true, value
	p.next = &mcpsdk.ProgressNotificationParams{
		ProgressToken: p.token,
		Progress:      value,
		Total:         float64(max(0, total)),
		Message:       clip(note, maxProgressText),
	}
	if p.sending == nil {
		p.sending = make(chan struct{})
		go p.send(p.sending)
	}
}

// send sends until nothing has come for one interval.
func (p *progress) send(gone chan struct{}) {
	defer close(gone)
	for {
		p.mu.Lock()
		n := p.next
		p.next = nil
		if n == nil {
			p.sending = nil
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		// A failed write ends the session elsewhere.
		_ = p.ss.NotifyProgress(context.Background(), n)
		select {
		case <-time.After(progressEvery):
		case <-p.over:
			return
		}
	}
}

// end stops progress before the answer is written: nothing may follow that.
func (p *progress) end() {
	p.mu.Lock()
	close(p.over)
	gone := p.sending
	p.mu.Unlock()
	if gone != nil {
		<-gone
	}
}
