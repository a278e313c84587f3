package channel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/tool"
)

// How long a runtime may take.
const (
	dialTime  = 5 * time.Second
	replyTime = 10 * time.Second

	crowdPause = 20 * time.Millisecond // before connecting again
)

// errEnded: an answer may have been taken or not; the record says it.
var errEnded = errors.New("the runtime ended before it replied; look at what it recorded with `wasmtools evidence list`")

// Client talks to one runtime. It is not safe for concurrent use.
type Client struct {
	conn  net.Conn
	lines *bufio.Reader
	about About

	dir, name string // of the socket
}

// Problem is a runtime that could not be spoken to.
type Problem struct {
	Runtime Process
	Err     error
}

func (p Problem) Error() string { return fmt.Sprintf("runtime %d: %v", p.Runtime.PID, p.Err) }
func (p Problem) Unwrap() error { return p.Err }

// Find connects to every runtime that has a socket in dir. Sockets that nobody
// listens at are removed. A folder that does not exist holds none. The caller
// closes the clients.
func Find(ctx context.Context, dir string) ([]*Client, []Problem, error) {
	return FindOthers(ctx, dir, nil)
}

// FindOthers is [Find] without the runtimes that known reports; nil knows none.
func FindOthers(ctx context.Context, dir string, known func(Process) bool) ([]*Client, []Problem, error) {
	f, err := visitFolder(dir)
	if f == nil {
		return nil, nil, err
	}
	defer f.close()
	names, err := f.sockets()
	if err != nil {
		return nil, nil, err
	}
	type visited struct {
		client *Client
		err    error
	}
	all := make([]visited, len(names))
	var wg sync.WaitGroup
	places := make(chan struct{}, maxDials)
	for i, name := range names {
		if who, _ := owner(name); known != nil && known(who) {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			all[i].client, all[i].err = f.dial(ctx, dir, name)
			if errors.Is(all[i].err, errEnded) { // while it was dialled: it removed its name before
				all[i].client, all[i].err = f.dial(ctx, dir, name)
			}
		})
	}
	wg.Wait()
	var found []*Client
	var problems []Problem
	for i, name := range names {
		who, _ := owner(name)
		switch c, err := all[i].client, all[i].err; {
		case c != nil:
			found = append(found, c)
		case errors.Is(err, syscall.ECONNREFUSED):
			_ = f.remove(name) // its runtime was killed
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, Problem{who, err})
		}
	}
	return found, problems, nil
}

// maxDials bounds how many runtimes are spoken to at once: one that hangs must
// not make a person wait for each.
const maxDials = 16

// visitFolder opens the folder for a client; both results are nil if there is
// none.
func visitFolder(dir string) (*folder, error) {
	if !supported {
		return nil, fmt.Errorf("the channel for approvals: %w", errors.ErrUnsupported)
	}
	f, err := openFolder(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// Another opens a second connection to the same runtime.
func (c *Client) Another(ctx context.Context) (*Client, error) {
	f, err := visitFolder(c.dir)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, fs.ErrNotExist
	}
	defer f.close()
	return f.dial(ctx, c.dir, c.name)
}

// dial connects and reads the greeting.
func (f *folder) dial(ctx context.Context, dir, name string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", f.address(name))
	for errors.Is(err, syscall.EAGAIN) { // a crowd stands before us
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(crowdPause):
			conn, err = d.DialContext(ctx, "unix", f.address(name))
		}
	}
	if err != nil {
		return nil, err
	}
	uid, err := listenerOf(conn.(*net.UnixConn))
	if err == nil && uid != os.Geteuid() {
		err = errors.New("the socket belongs to another user")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c, err := newClient(conn, time.Now().Add(dialTime))
	if err == nil {
		c.dir, c.name = dir, name
	}
	return c, err
}

func newClient(conn net.Conn, deadline time.Time) (*Client, error) {
	c := &Client{conn: conn, lines: bufio.NewReaderSize(conn, 64<<10)}
	var g greeting
	_ = conn.SetDeadline(deadline)
	err := c.read(&g)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("it does not answer")
	case err != nil:
	case g.Wasmtools != protocol || g.Version != version && g.Error == nil:
		err = errors.New("it speaks another version of the protocol")
	case g.Error != nil:
		err = g.Error.err()
	case g.About == nil:
		err = errors.New("it does not say who it is")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.about = *g.About
	return c, nil
}

// About says which runtime this is.
func (c *Client) About() About { return c.about }

// Close ends the visit.
func (c *Client) Close() error { return c.conn.Close() }

// read reads one line of at most maxReply bytes.
func (c *Client) read(x any) error {
	var line []byte
	for {
		part, err := c.lines.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxReply {
			return fmt.Errorf("the runtime sent a line of more than %d bytes", maxReply)
		}
		if err == nil {
			break
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
			return errEnded
		default:
			return err
		}
	}
	return json.Unmarshal(line, x)
}

// ask sends a message and reads one reply.
func (c *Client) ask(m message) (reply, error) {
	m.Version = version
	line, err := json.Marshal(m)
	if err != nil {
		return reply{}, err
	}
	_ = c.conn.SetDeadline(time.Now().Add(replyTime))
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return reply{}, err
	}
	return c.reply()
}

// tell sends a message that has no reply.
func (a *Attached) tell(m message) error {
	m.Version = version
	line, err := json.Marshal(m)
	if err == nil {
		_, err = a.c.conn.Write(append(line, '\n'))
	}
	return err
}

func (c *Client) reply() (reply, error) {
	var r reply
	if err := c.read(&r); err != nil {
		return r, err
	}
	if r.Error != nil {
		return r, r.Error.err()
	}
	if !r.OK {
		return r, errors.New("the runtime sent a reply that says nothing")
	}
	return r, nil
}

// List is everything that waits at this runtime, oldest first.
func (c *Client) List() ([]Waiting, error) {
	r, err := c.ask(message{Op: opList})
	for i := range r.Waiting {
		r.Waiting[i].Summary = show.Clean(r.Waiting[i].Summary)
	}
	return r.Waiting, err
}

// Show is the whole request of a ticket; its Writes have no content, which the
// diff shows.
func (c *Client) Show(ticket string) (approval.Request, error) {
	r, err := c.ask(message{Op: opShow, Ticket: ticket})
	var body bytes.Buffer
	for ; ; r, err = c.reply() {
		if err != nil {
			return approval.Request{}, err
		}
		if body.Len()+len(r.Part) > maxShown {
			return approval.Request{}, fmt.Errorf("the request takes more than %d bytes", maxShown)
		}
		body.Write(r.Part)
		if !r.More {
			break
		}
		_ = c.conn.SetDeadline(time.Now().Add(replyTime))
	}
	var w wireRequest
	if err := json.Unmarshal(body.Bytes(), &w); err != nil {
		return approval.Request{}, err
	}
	return w.request(), nil
}

// Reply is a person's answer.
type Reply struct {
	Ticket  string
	Binding tool.Digest // of the request as it was shown
	Verdict approval.Verdict
	Reason  string         // for a no; the model reads it; at most [MaxReason] bytes
	Watch   bool           // given in the list of `approvals watch`
	Save    *approval.Rule // the request's Offer, after it was shown
}

// Answer hands a reply in. Errors: [ErrNoSuch], [ErrChanged], [ErrRefused],
// approval.ErrAnswered, approval.ErrExpired, approval.ErrNotOffered.
func (c *Client) Answer(a Reply) error {
	m := message{Op: opAnswer, Ticket: a.Ticket, Binding: a.Binding, Verdict: a.Verdict, Reason: a.Reason, Channel: "cli", Save: saveOf(a.Save)}
	if a.Watch {
		m.Channel = "watch"
	}
	_, err := c.ask(m)
	return err
}

// Watch calls changed whenever the list may have changed, until ctx ends or
// the runtime does; the client serves for nothing else from then on.
func (c *Client) Watch(ctx context.Context, changed func()) error {
	if _, err := c.ask(message{Op: opWatch}); err != nil {
		return err
	}
	_ = c.conn.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	for {
		if _, err := c.reply(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		changed()
	}
}
