package server

import (
	"fmt"
	"io"
	"time"
)

// A client that does not read for ten minutes is given up. Otherwise one that
// closes its end without reading would keep the server for ever: the end of in
// stands behind lines that wait for room. The time is counted in looks, so that
// a stopped server does not count.
const (
	look    = time.Minute
	lookMax = 10
)

// watchWrites fails the connection when one write takes too long.
func (c *conn) watchWrites() {
	t := time.NewTicker(look)
	defer t.Stop()
	var last uint64
	for same := 0; ; {
		select {
		case <-c.closed:
			return
		case <-t.C:
		}
		now := c.writes.Load()
		if now%2 == 0 || now != last {
			last, same = now, 0
			continue
		}
		if same++; same >= lookMax {
			c.fail(errStalled)
			c.Close()
			return
		}
	}
}

// drain lets the accepted requests end: for as long as grace unless the
// session's context ends, then cancelled and for a moment more.
func (c *conn) drain(grace time.Duration) {
	if grace > 0 && !c.idleWithin(grace, c.ctx.Done()) {
		grace = 0
	}
	c.cancel()
	if grace == 0 {
		c.idleWithin(parting, nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isDrained {
		c.isDrained = true
		close(c.drained)
	}
}

// idleWithin waits until no accepted request is left; it returns false if that
// takes too long, the connection fails, or enough is closed.
func (c *conn) idleWithin(d time.Duration, enough <-chan struct{}) bool {
	c.mu.Lock()
	if c.waiting == 0 {
		c.mu.Unlock()
		return true
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-idle:
		return true
	case <-t.C:
	case <-enough:
	case <-c.closed:
	}
	return false
}

// stop ends everything and makes a blocked Read return, where that is possible.
func (c *conn) stop() {
	c.cancel()
	c.Close()
	if in, ok := c.in.(io.Closer); ok {
		go in.Close() // on some systems it waits for the read that it cannot end
	}
}

// Close ends reading and writing; the SDK calls it too.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isClosed {
		c.isClosed = true
		close(c.closed)
	}
	return nil
}

// fail remembers the first failure.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// verdict says how the session ended. A client that went away while nothing was
// owed to it has ended it in order, even if something was still being said.
func (c *conn) verdict() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	owed := c.waiting + c.lost
	switch {
	case c.err != nil:
		return fmt.Errorf("mcp: %w", c.err)
	case owed > 0 && c.writeErr != nil:
		return fmt.Errorf("mcp: %d requests were not answered: %w", owed, c.writeErr)
	case owed > 0:
		return fmt.Errorf("mcp: %d requests were not answered in time", owed)
	}
	return nil
}
