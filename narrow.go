package wasmtools

import (
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime"
)

// Limits bound what one call of a module may use. A zero field means the
// default. A module that states less keeps to that; one that states more is
// refused, but for the built-in module.
type Limits struct {
	MemoryBytes int64         // of linear memory; 64 MiB
	OutputBytes int64         // of the answer and what comes before it; 1 MiB
	HostCalls   int64         // 10,000
	Time        time.Duration // without waiting for its turn; 30 s
	Concurrency int           // calls of one tool at once; 4
}

func (l Limits) engine() runtime.Limits {
	return runtime.Limits{
		Limits: hostfuncs.Limits{MemoryBytes: l.MemoryBytes, OutputBytes: l.OutputBytes, HostCalls: l.HostCalls},
		Time:   l.Time, Concurrency: l.Concurrency,
	}
}

// narrowed is a source of which some tools were taken away. They stay
// registered, with the reason.
type narrowed struct {
	catalog.Source
	has func(name string) bool
}

// Local implements [catalog.Local].
func (n narrowed) Local() bool {
	l, ok := n.Source.(catalog.Local)
	return ok && l.Local()
}

// Snapshot implements [catalog.Source].
func (n narrowed) Snapshot() catalog.SourceState {
	s := n.Source.Snapshot()
	tools := make([]catalog.Entry, len(s.Tools))
	for i, e := range s.Tools {
		if e.Available && !n.has(e.Tool.Definition().Name) {
			e.Available, e.Reason = false, "the configuration takes this tool away"
		}
		tools[i] = e
	}
	s.Tools = tools
	return s
}
