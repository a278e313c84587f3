// Package client makes upstream MCP servers a source of tools: programs that
// speak on standard input and output, and addresses that speak streamable HTTP,
// of both eras of the protocol.
//
// A server is a stranger. What it sends is bounded before it is read, its
// definitions are checked and held against those that were accepted, its texts
// are only texts, and it gets no power through us: requests of its own are
// refused. Each server is alone: one that hangs, floods or dies is told by its own
// tools, and nobody else waits for it. A program and all that it started ends with
// its source.
//
// The client is our own because the SDK's reads messages of any size.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

// Server is an upstream server: a program, or an address.
type Server struct {
	Name string // up to 32 letters, digits, - and _; it begins the names of the tools

	Command string
	Args    []string
	Env     map[string]string
	PassEnv []string // names of variables of this process
	Dir     string   // absolute

	URL           string
	Headers       map[string]string
	SecretHeaders map[string]string // header -> name of a secret

	Trusted bool                   // believe its hints about its tools
	Has     func(name string) bool // which of its tools are left, by its own names; nil: all

	Timeout     time.Duration // of one call; 0: a minute
	MaxMessage  int64         // bytes; 0: 4 MiB
	Concurrency int           // calls at a time; 0: 4
}

// Options are what all servers share.
type Options struct {
	Host    *proctree.Host // runs programs; nil: none can be run
	PinsDir string         // "": no definitions are remembered
	Version string         // of this program, told to servers
	Env     func(name string) (string, bool)
	Secret  func(name string) (string, error)
	Notice  func(string) // remarks for a person; may be nil
}

// Source is one server. It is safe for concurrent use.
type Source struct {
	server Server
	o      Options
	pins   *Pins
	slots  chan struct{}

	state   atomic.Pointer[catalog.SourceState]
	now     atomic.Pointer[session]
	changed chan struct{}
	ready   chan struct{} // closed once it was reached, or could not be
	once    sync.Once
	cancel  context.CancelFunc
	ended   chan struct{}

	mu     sync.Mutex
	listed []remoteTool // what the server listed last
	about  string
	health Health
}

// Health is how it is with a server.
type Health struct {
	Server    string    `json:"server"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`
	Trouble   string    `json:"trouble,omitempty"` // why it is not connected
	Tools     int       `json:"tools"`             // that can be called
	Held      int       `json:"held"`              // that are held back
}

// Bounds on time.
const (
	connectTime = 30 * time.Second
	firstPause  = 500 * time.Millisecond
	longestWait = time.Minute
	steady      = time.Minute // connected for so long, a server is tried at once again
	pinsLooked  = 2 * time.Second
)

// Open connects to a server in the background, and again whenever that breaks,
// until Close.
func Open(s Server, o Options) *Source {
	s, o = s.complete(), o.complete()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Source{
		server: s, o: o, pins: OpenPins(o.PinsDir, s.Name), slots: make(chan struct{}, s.Concurrency),
		changed: make(chan struct{}, 1), ready: make(chan struct{}), cancel: cancel, ended: make(chan struct{}),
		health: Health{Server: s.Name, Since: time.Now(), Trouble: "it is being connected to"},
	}
	c.state.Store(&catalog.SourceState{Version: 1, At: time.Now()})
	go c.keep(ctx)
	return c
}

// complete fills in what was left to us.
func (s Server) complete() Server {
	if s.Timeout <= 0 {
		s.Timeout = time.Minute
	}
	if s.MaxMessage <= 0 {
		s.MaxMessage = 4 << 20
	}
	if s.Concurrency <= 0 {
		s.Concurrency = 4
	}
	return s
}

func (o Options) complete() Options {
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Secret == nil {
		o.Secret = func(string) (string, error) { return "", errors.New("there are no secrets") }
	}
	return o
}

// Name implements [catalog.Source].
func (c *Source) Name() string { return c.server.Name }

// Snapshot implements [catalog.Source].
func (c *Source) Snapshot() catalog.SourceState { return *c.state.Load() }

// Changed implements [catalog.Watcher].
func (c *Source) Changed() <-chan struct{} { return c.changed }

// Health says how it is with the server now.
func (c *Source) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// Ready waits until the server was reached, or could not be for the first time.
func (c *Source) Ready(ctx context.Context) {
	select {
	case <-c.ready:
	case <-ctx.Done():
	}
}

// Close ends the connection, and the program with everything that it started.
func (c *Source) Close() error {
	c.cancel()
	<-c.ended
	return nil
}

func (c *Source) session() *session { return c.now.Load() }

// keep connects, again and again.
func (c *Source) keep(ctx context.Context) {
	defer close(c.ended)
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := c.live(ctx)
		if ctx.Err() != nil {
			return
		}
		c.away(err)
		if time.Since(began) > steady {
			pause = firstPause
		}
		// Servers that fail together are not to come back together.
		wait := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		pause = min(2*pause, longestWait)
	}
}

// dial makes a session that has greeted the server.
func dial(ctx context.Context, s Server, o Options) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var l link
	var err error
	if s.URL != "" {
		l, err = dialWeb(s, o)
	} else {
		l, err = startProcess(ctx, s, o)
	}
	if err != nil {
		return nil, err
	}
	ss := newSession(l, s.Name)
	if err := ss.greet(ctx, o.Version); err != nil {
		ss.close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it has not answered within %s", connectTime)
		}
		return nil, err
	}
	return ss, nil
}

// live is one connection, from its beginning to its end.
func (c *Source) live(ctx context.Context) error {
	ss, err := dial(ctx, c.server, c.o)
	if err != nil {
		return err
	}
	defer ss.close()
	defer c.now.CompareAndSwap(ss, nil)
	if err := c.relist(ctx, ss); err != nil {
		return err
	}
	c.now.Store(ss)
	c.publish(true)
	look := time.NewTicker(pinsLooked)
	defer look.Stop()
	pins := c.pins.state()
	for {
		select {
		case <-ss.changed:
			if err := c.relist(ctx, ss); err != nil {
				return err
			}
			c.publish(false)
			// A server that changes without end is listened to once a second.
			select {
			case <-time.After(time.Second):
			case <-ss.done:
			case <-ctx.Done():
			}
		case <-look.C:
			if now := c.pins.state(); now != pins {
				pins = now
				c.publish(false)
			}
		case <-ss.done:
			return ss.why()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Source) relist(ctx context.Context, ss *session) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	tools, err := ss.list(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it has not listed its tools within %s", connectTime)
	} else if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed, c.about = tools, ss.about
	return nil
}

// publish makes the entries of what was listed.
func (c *Source) publish(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pins, err := c.pins.load()
	diffs := compare(c.server.Name, c.listed, pins)
	if err == nil && pins == nil && connected { // the first time: what is there now is accepted
		err = c.pins.save(acceptable(diffs, c.listed))
	}
	if err != nil {
		c.o.Notice(fmt.Sprintf("server %s: %v", c.server.Name, err))
	}
	state := catalog.SourceState{At: time.Now(), Version: c.state.Load().Version + 1}
	held := 0
	for i, t := range c.listed {
		d := diffs[i]
		if c.server.Has != nil && !c.server.Has(t.Name) {
			d.Standing, d.Why = Gone, "the configuration takes this tool away"
		}
		e := catalog.Entry{Server: c.server.Name, About: c.about, Available: d.Standing == Accepted, Reason: d.Why}
		if tool.ValidName(t.Name) {
			e.Aliases = []string{t.Name}
		}
		switch d.Standing {
		case Changed, New:
			e.Reason += "; a person looks with wasmtools upstream show " + c.server.Name + ", and accepts with wasmtools upstream accept " + c.server.Name
		case Faulty:
			e.Reason = "it is held back: " + d.Why
		}
		if err != nil && e.Available {
			e.Available, e.Reason = false, "what was accepted of its server cannot be read; see wasmtools upstream show "+c.server.Name
		}
		if !e.Available {
			held++
		}
		e.Tool = &remote{source: c, name: t.Name, def: definition(c.server, t, d.Tool, d.Standing != Faulty)}
		state.Tools = append(state.Tools, e)
	}
	c.health = Health{Server: c.server.Name, Connected: true, Since: time.Now(), Tools: len(state.Tools) - held, Held: held}
	c.put(state)
}

// away keeps what is known, and says that it cannot be called.
func (c *Source) away(err error) {
	why := "the server " + c.server.Name + " is away: " + clean(err.Error(), 500)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.health.Connected || c.health.Trouble != why {
		c.o.Notice(why)
	}
	c.health = Health{Server: c.server.Name, Since: time.Now(), Trouble: why}
	old := c.state.Load()
	state := catalog.SourceState{At: time.Now(), Version: old.Version + 1}
	for _, e := range old.Tools {
		if e.Available {
			e.Available, e.Reason = false, why
		}
		state.Tools = append(state.Tools, e)
	}
	c.put(state)
}

func (c *Source) put(s catalog.SourceState) {
	c.state.Store(&s)
	c.once.Do(func() { close(c.ready) })
	select {
	case c.changed <- struct{}{}:
	default: // it is told already
	}
}
