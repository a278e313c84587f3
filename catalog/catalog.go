// Package catalog decides which tools a turn gets. It is pure: it reads
// snapshots of sources and facts of a turn, and does no I/O, so every choice
// can be explained and replayed.
package catalog

import (
	"cmp"
	"fmt"
	"slices"
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
	s := static{name: name, state: SourceState{Version: 1, At: time.Now()}}
	for _, t := range tools {
		s.state.Tools = append(s.state.Tools, Entry{Tool: t, Available: true})
	}
	return s
}

type static struct {
	name  string
	state SourceState
}

func (s static) Name() string          { return s.name }
func (s static) Snapshot() SourceState { return s.state }

// State is where a tool stands on the way from registered to invocable.
type State string

const (
	Registered State = "registered" // known, but internal
	Public     State = "public"     // may be shown, but cannot work now
	Exposed    State = "exposed"    // in the list of this turn
)

// Item is one registered tool with the state it reached and, unless it is
// exposed, why it went no further.
type Item struct {
	Tool       tool.Tool
	Definition tool.Definition
	SourceName string
	State      State
	Code       tool.Code
	Reason     string
}

// List is what one turn gets: every registered tool in a stable order.
type List struct {
	Items  []Item
	byName map[string]int
}

// Plan merges the snapshots of sources into the list of a turn. Sources keep
// the order given, tools that of their source. Two tools of one name, or a
// name that no tool may have, are an error that names the sources.
func Plan(sources []Source) (List, error) {
	l := List{byName: map[string]int{}}
	for _, s := range sources {
		for _, e := range s.Snapshot().Tools {
			d := e.Tool.Definition()
			if !tool.ValidName(d.Name) {
				return List{}, fmt.Errorf("source %s: %q is not a tool name (want %s)", s.Name(), d.Name, tool.NamePattern)
			}
			if i, dup := l.byName[d.Name]; dup {
				return List{}, fmt.Errorf("tool %s comes from source %s and from source %s; remove or rename one", d.Name, l.Items[i].SourceName, s.Name())
			}
			l.byName[d.Name] = len(l.Items)
			l.Items = append(l.Items, place(s.Name(), d, e))
		}
	}
	return l, nil
}

func place(source string, d tool.Definition, e Entry) Item {
	it := Item{Tool: e.Tool, Definition: d, SourceName: source, State: Exposed}
	switch {
	case d.Visibility == tool.Hidden:
		it.State, it.Code, it.Reason = Registered, tool.NotExposed, "the tool is internal"
	case !e.Available:
		it.State, it.Code, it.Reason = Public, tool.NotAvailable, cmp.Or(e.Reason, "its source gives no reason")
	}
	return it
}

// Lookup finds a registered tool by its exact name.
func (l List) Lookup(name string) (Item, bool) {
	i, ok := l.byName[name]
	if !ok {
		return Item{}, false
	}
	return l.Items[i], true
}

// Exposed returns the definitions that the model is shown, in order.
func (l List) Exposed() []tool.Definition {
	var out []tool.Definition
	for _, it := range l.Items {
		if it.State == Exposed {
			out = append(out, it.Definition)
		}
	}
	return out
}

// Nearest returns up to n exposed names that look like name, best first, for
// an error text.
func (l List) Nearest(name string, n int) []string {
	type scored struct {
		name string
		d    int
	}
	var s []scored
	for _, it := range l.Items {
		if it.State == Exposed {
			if d := editDistance(name, it.Definition.Name); d <= max(3, len(name)/2) {
				s = append(s, scored{it.Definition.Name, d})
			}
		}
	}
	slices.SortStableFunc(s, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, x := range s[:min(n, len(s))] {
		out = append(out, x.name)
	}
	return out
}

// editDistance is Levenshtein's, over bytes; names are at most 64 bytes.
func editDistance(a, b string) int {
	if len(a) > 128 {
		a = a[:128]
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}
