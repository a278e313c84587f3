// Package hostfuncs is the boundary: everything that a guest may ask of the
// host, in plain Go over the call's overlay, one file per capability, testable
// without a module. The runtime copies bytes in and out of guest memory and
// calls these functions; nothing else gives a guest power.
//
// Every function checks the call's grant, its quotas and its context, in this
// order: a call that is over a quota learns nothing more. What a function
// refuses is a [tool.Error]; nothing here panics on any argument.
//
// What stands between a path and the disk is the workspace's, not ours: a grant
// is judged on the canonical path that the overlay found, and a name that
// another process swaps after that is the overlay's to notice.
package hostfuncs

import (
	"context"
	"time"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Grant is what a person gave one tool of one module. The zero Grant gives
// nothing; a capability that the manifest asks for and the grant lacks is
// refused with grant_missing.
type Grant = manifest.Capabilities

// Call is everything that one call of a guest may touch. Every host function
// is a method of it. A Call belongs to one guest call; host functions of one
// call run one after another.
type Call struct {
	Invocation tool.Invocation
	Tool       int                // index in the module's manifest
	Grant      Grant              // of this tool
	Files      *workspace.Overlay // made by NewOverlay; nil: no workspace, every file function answers grant_missing
	Sink       tool.Sink          // nil drops everything
	Limits     Limits

	HTTP Fetcher                     // nil: no network
	Env  func(string) (string, bool) // the host's environment; nil: none
	KV   Store                       // nil: nothing is kept between calls

	// Preview says that the call is tried to find out what it would change: it
	// gets no network, and what it stores is dropped.
	Preview bool

	used  Usage
	tried map[string][]byte // what a previewed call stored; nil values are removed
	calls int64             // in parts of a call, see callParts
	notes notes
	over  *tool.Error
	now   func() time.Time // for tests; nil means time.Now
}

// Limits bound what one call may use. Zero fields mean the defaults of
// [DefaultLimits].
type Limits struct {
	MemoryBytes int64 // linear memory
	OutputBytes int64 // the response, JSON
	HostCalls   int64
	NoteBytes   int64 // log, emit and progress together
	NotesPerSec int
}

// DefaultLimits are the limits of a call whose module states none.
func DefaultLimits() Limits {
	return Limits{
		MemoryBytes: 64 << 20, // a Go guest with its collector works on 20 MiB of text in it
		OutputBytes: 1 << 20,  // more than any model reads at once
		HostCalls:   10_000,   // a walk over a large tree in pages is some hundred
		NoteBytes:   256 << 10,
		NotesPerSec: 100, // faster than a person reads; a terminal redraws 60 times
	}
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, def *int64 }{
		{&l.MemoryBytes, &d.MemoryBytes}, {&l.OutputBytes, &d.OutputBytes},
		{&l.HostCalls, &d.HostCalls}, {&l.NoteBytes, &d.NoteBytes},
	} {
		if *f.v <= 0 {
			*f.v = *f.def
		}
	}
	if l.NotesPerSec <= 0 {
		l.NotesPerSec = d.NotesPerSec
	}
	return l
}

// Usage is what a call has used so far.
type Usage struct {
	HostCalls int64 // of every kind
	BytesRead int64 // from files
	NoteBytes int64 // log, emit and progress

	Refused []tool.Refusal // each once, see [tool.Usage]

	Requests                 int64 // over HTTP
	BytesSent, BytesReceived int64
	Hosts                    []string // that answered last in a chain of redirects, each once
}

// Used tells what the call has used so far.
func (c *Call) Used() Usage { return c.used }

// Over is the quota error that the call ran into, or nil. It stays: a guest
// that hides the error of one function does not hide this.
func (c *Call) Over() *tool.Error { return c.over }

// exceed records the first quota that the call ran into.
func (c *Call) exceed(format string, args ...any) *tool.Error {
	if c.over == nil {
		c.over = tool.Errorf(tool.Quota, format, args...)
	}
	return c.over
}

// Kind says what a host function counts for.
type Kind int64

// A function of our own ABI is one call. What a language's runtime asks for by
// itself is cheap for the host and frequent (Go's collector reads the clock
// some dozen times in each cycle), so it counts for a part.
const (
	Work    Kind = callParts
	Support Kind = 1

	callParts = 16
)

// Enter opens a host function: it counts it and looks whether the call goes on.
// Every host function of every kind begins with it.
func (c *Call) Enter(ctx context.Context, k Kind) error {
	c.used.HostCalls++
	c.calls += int64(k)
	if limit := c.limits().HostCalls; c.calls > limit*callParts {
		return c.exceed("the module made more than %d host calls", limit)
	}
	if c.over != nil {
		return c.over
	}
	return ctx.Err()
}

func (c *Call) limits() Limits { return c.Limits.withDefaults() }

func (c *Call) sink() tool.Sink {
	if c.Sink == nil {
		return tool.Discard{}
	}
	return c.Sink
}

func (c *Call) time() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}
