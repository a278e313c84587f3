package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// web is a server over streamable HTTP: each message is posted, and the answer is
// one message or a stream of events.
type web struct {
	url     string
	headers http.Header
	client  *http.Client
	max     int64

	got    chan []byte
	failed chan error
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	session string
	version string
}

// errSession means that the server has forgotten the session.
var errSession = errors.New("it has forgotten the session")

func dialWeb(s Server, o Options) (link, error) {
	h := http.Header{}
	for name, v := range s.Headers {
		h.Set(name, v)
	}
	for name, secret := range s.SecretHeaders {
		v, err := o.Secret(secret)
		if err != nil {
			return nil, fmt.Errorf("the secret %s for the header %s cannot be had: %w; set it with wasmtools secret set %s", quoted(secret, 64), quoted(name, 64), err, secret)
		}
		h.Set(name, v)
	}
	at, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &web{url: s.URL, headers: h, max: s.MaxMessage, got: make(chan []byte), failed: make(chan error, 1), ctx: ctx, cancel: cancel}
	l.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10, TLSHandshakeTimeout: 10 * time.Second,
			// Calls have their own, shorter, time: this ends only what nobody waits for.
			ResponseHeaderTimeout: max(s.Timeout, connectTime) + connectTime, MaxConnsPerHost: 64, IdleConnTimeout: time.Minute,
		},
		// The headers hold secrets, which are for the host that was configured.
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != at.Scheme || r.URL.Host != at.Host || len(via) > 5 {
				return errors.New("it redirects to somewhere else")
			}
			return nil
		},
	}
	return l, nil
}

func (l *web) request(ctx context.Context, method string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = l.headers.Clone()
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	l.mu.Lock()
	if l.session != "" {
		r.Header.Set("Mcp-Session-Id", l.session)
	}
	if l.version != "" {
		r.Header.Set("MCP-Protocol-Version", l.version)
	}
	l.mu.Unlock()
	return l.client.Do(r)
}

// send posts one message. What is answered comes by run.
func (l *web) send(ctx context.Context, line []byte) error {
	// The answer may come long after the call that asked has gone, and be for
	// others too: it lives as long as the link.
	both, cancel := context.WithCancel(l.ctx)
	stop := context.AfterFunc(ctx, cancel)
	resp, err := l.request(both, http.MethodPost, line)
	if err != nil {
		stop()
		cancel()
		return err
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && len(id) <= 1024 {
		l.mu.Lock()
		l.session = id
		l.mu.Unlock()
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && l.hasSession():
		err = errSession
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		err = fmt.Errorf("it refused with HTTP status %d; its key may be missing or wrong (secret_headers)", resp.StatusCode)
	case resp.StatusCode/100 != 2:
		// An error may be told as a message in the body.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if m, bad := decode(bytes.TrimSpace(body)); bad == nil && m.Method == "" {
			go l.give(body)
		} else {
			err = fmt.Errorf("it answered HTTP status %d", resp.StatusCode)
		}
	}
	if err != nil || resp.StatusCode == http.StatusAccepted || resp.StatusCode/100 != 2 {
		resp.Body.Close()
		stop()
		cancel()
		return err
	}
	go func() {
		defer cancel()
		defer stop()
		defer resp.Body.Close()
		if err := l.body(resp); err != nil && both.Err() == nil {
			l.fail(err)
		}
	}()
	return nil
}

func (l *web) hasSession() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session != ""
}

// body gives the messages of an answer.
func (l *web) body(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		b, err := io.ReadAll(io.LimitReader(resp.Body, l.max+1))
		if err != nil {
			return err
		}
		if int64(len(b)) > l.max {
			return errTooLarge
		}
		if len(bytes.TrimSpace(b)) > 0 {
			l.give(b)
		}
		return nil
	case "text/event-stream":
		return l.events(resp.Body)
	}
	if resp.ContentLength == 0 {
		return nil
	}
	return fmt.Errorf("it answered with content of type %s", quoted(kind, 64))
}

// events reads a stream of events. Only their data counts.
func (l *web) events(r io.Reader) error {
	br, buf := bufio.NewReaderSize(r, 64<<10), []byte(nil)
	var data []byte
	for {
		line, err := readLine(br, &buf, l.max)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			if len(bytes.TrimSpace(data)) > 0 {
				l.give(data)
			}
			data = nil
		case bytes.HasPrefix(line, []byte("data:")):
			if int64(len(data)+len(line)) > l.max {
				return errTooLarge
			}
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(line[5:], []byte(" "))...)
		}
	}
}

func (l *web) give(b []byte) {
	select {
	case l.got <- bytes.Clone(b):
	case <-l.ctx.Done():
	}
}

func (l *web) fail(err error) {
	select {
	case l.failed <- err:
	default: // it has failed already
	}
}

// follow listens for what the server says by itself, where it does that.
func (l *web) follow() {
	for l.ctx.Err() == nil {
		resp, err := l.request(l.ctx, http.MethodGet, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			if err == nil {
				resp.Body.Close()
			}
			return // it says nothing by itself
		}
		err = l.body(resp)
		resp.Body.Close()
		if err != nil {
			return
		}
		select {
		case <-time.After(time.Second): // a stream may end at any time
		case <-l.ctx.Done():
		}
	}
}

func (l *web) run(take func([]byte)) error {
	for {
		select {
		case b := <-l.got:
			take(b)
		case err := <-l.failed:
			return err
		case <-l.ctx.Done():
			return errors.New("the connection was closed")
		}
	}
}

func (l *web) close() {
	if l.hasSession() && l.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		if resp, err := l.request(ctx, http.MethodDelete, nil); err == nil {
			resp.Body.Close()
		}
		cancel()
	}
	l.cancel()
	l.client.CloseIdleConnections()
}
