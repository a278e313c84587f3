// Package catalog decides which tools a turn gets. It is pure: a [List] follows
// from a [Snapshot] of the sources and from the [Facts] of the turn, without I/O,
// so every choice can be explained and replayed.
//
// Sources go into a [Registry], which merges them; [Plan] takes a snapshot of
// that through the stages of the pipeline, in their order. Every tool that falls
// out keeps the stage, a code and a reason.
package catalog

import (
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Source yields tools. Snapshot never blocks: a slow source keeps serving its
// last state. Both methods are safe for concurrent use.
type Source interface {
	Name() string // shown in errors and listings
	Snapshot() SourceState
}

// SourceState is what a source has at one moment.
type SourceState struct {
	Tools   []Entry
	Version uint64 // grows with every change
	At      time.Time
}

// Entry is one tool of a source with the facts about it.
type Entry struct {
	Tool      tool.Tool
	Available bool
	Reason    string // why it is not available

	Server  string   // the upstream server's name; empty if there is none
	About   string   // what the server says about itself, for ranking
	Aliases []string // further names that selectors see
}

// Watcher is implemented by sources that tell of their changes. A value that was
// received means that Snapshot has changed since the last one.
type Watcher interface {
	Changed() <-chan struct{}
}

// Static is a source whose tools never change and are always available.
func Static(name string, tools ...tool.Tool) Source {
	entries := make([]Entry, len(tools))
	for i, t := range tools {
		entries[i] = Entry{Tool: t, Available: true}
	}
	return Fixed(name, entries...)
}

// Fixed is a source whose entries never change.
func Fixed(name string, entries ...Entry) Source {
	return fixed{name: name, state: SourceState{Tools: entries, Version: 1, At: time.Now()}}
}

type fixed struct {
	name  string
	state SourceState
}

// Local is a source that may be one of this process: it has its tools in memory,
// and waits for nobody. A list is not made without such a source unless it hangs
// for seconds.
type Local interface {
	Source
	Local() bool
}

// Local implements [Local].
func (s fixed) Local() bool { return true }

func (s fixed) Name() string          { return s.name }
func (s fixed) Snapshot() SourceState { return s.state }
