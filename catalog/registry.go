package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/wasmtools/wasmtools/tool"
)

// patience is how long a registry waits for sources that break their word not to
// block. All of them together cost a snapshot no more than this.
const patience = 20 * time.Millisecond

// localPatience is that with a source of this process, which answers from memory:
// on a busy machine it may not have been given the processor yet, and a list
// without it would be wrong.
const localPatience = 5 * time.Second

// Registry merges sources. It is safe for concurrent use.
type Registry struct {
	ranker Ranker

	mu      sync.Mutex
	sources []*watched
	last    *Snapshot
}

// NewRegistry makes a registry of sources, which keep the order given; tools keep
// that of their source. ranker may be nil: then tools are never ranked.
func NewRegistry(ranker Ranker, sources ...Source) *Registry {
	r := &Registry{ranker: ranker}
	for _, s := range sources {
		r.sources = append(r.sources, &watched{source: s, name: s.Name()})
	}
	return r
}

// watched is a source with what it said last.
type watched struct {
	source  Source
	name    string
	known   bool // state and entries are what it said
	state   SourceState
	entries []entry
	asked   time.Time   // of the question that is open
	open    chan answer // nil: none
	trouble string      // why state is not the present one
	late    bool        // it was waited for in vain
}

type answer struct {
	state   SourceState
	entries []entry // nil: as before
	trouble string
}

// ask asks the source, unless an earlier question is still open. Everything that
// is the source's own code, its definitions too, runs beside us: it may hang, and
// it may panic.
func (w *watched) ask() {
	if _, never := w.source.(fixed); w.open != nil || never && w.known {
		return
	}
	w.asked, w.open = time.Now(), make(chan answer, 1)
	go func(to chan<- answer, name string, known bool, version uint64) {
		defer func() {
			if v := recover(); v != nil {
				to <- answer{trouble: fmt.Sprintf("it failed: %.200v", v)}
			}
		}()
		a := answer{state: w.source.Snapshot()}
		if !known || a.state.Version != version {
			a.entries = make([]entry, len(a.state.Tools))
			for i, e := range a.state.Tools {
				a.entries[i] = newEntry(name, e.Tool.Definition(), e)
			}
		}
		to <- a
	}(w.open, w.name, w.known, w.state.Version)
}

func (w *watched) patience() time.Duration {
	if l, ok := w.source.(Local); ok && l.Local() {
		return localPatience
	}
	return patience
}

// take takes the answer in, waiting for it until deadline.
func (w *watched) take(deadline time.Time) {
	if w.open == nil {
		return
	}
	var a answer
	select {
	case a = <-w.open:
	default:
		late := time.NewTimer(time.Until(deadline))
		defer late.Stop()
		select {
		case a = <-w.open:
		case <-late.C:
			w.trouble, w.late = "it has not answered since "+w.asked.UTC().Format(time.RFC3339), true
			return
		}
	}
	w.open, w.trouble, w.late = nil, a.trouble, false
	if a.trouble != "" {
		return
	}
	w.state, w.known = a.state, true
	if a.entries != nil {
		w.entries = a.entries
	}
}

// SourceFact is what is known of a source.
type SourceFact struct {
	Name    string
	Tools   int
	At      time.Time // of what is known
	Trouble string    // why it may be old; empty if it is not
}

// Snapshot is what all sources have at one moment. It is never modified.
type Snapshot struct {
	Sources []SourceFact

	entries  []entry
	byName   map[string]int
	versions []version
	ranker   Ranker

	indexed sync.Once
	index   Index
	fault   error
}

type version struct {
	number  uint64
	trouble string
}

// entry is an Entry with what is often asked of it.
type entry struct {
	Entry
	source string
	def    tool.Definition
	origin tool.Origin
	folded string   // the name, as it is compared
	names  []string // folded, with its aliases
	tokens int
}

// Snapshot merges what the sources have now. Two tools of one name, and a name
// that no tool may have, are an error that names the sources the first time; later
// the new one is left out, and its source has the reason. A source that fails
// or does not answer keeps what it had, and delays nobody for more than a moment.
func (r *Registry) Snapshot() (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.sources {
		w.take(time.Time{}) // what came too late the last time
		w.ask()
	}
	began := time.Now()
	now := make([]version, len(r.sources))
	for i, w := range r.sources {
		if !w.late { // who was waited for once is not waited for again
			w.take(began.Add(w.patience()))
		}
		now[i] = version{w.state.Version, w.trouble}
	}
	if r.last != nil && slices.Equal(r.last.versions, now) {
		return r.last, nil
	}
	s, err := r.merge(now)
	if err == nil {
		r.last = s
	}
	return s, err
}

// merge makes one list of all. At first a name that cannot be is an error, which
// stops a program whose parts do not fit. Later it costs only the source whose new
// tool it is that tool: others are not to suffer from what one of them lists.
func (r *Registry) merge(versions []version) (*Snapshot, error) {
	n := 0
	for _, w := range r.sources {
		n += len(w.entries)
	}
	s := &Snapshot{entries: make([]entry, 0, n), byName: make(map[string]int, n), versions: versions, ranker: r.ranker}
	for i, w := range r.sources {
		fact := SourceFact{Name: w.name, Tools: len(w.entries), At: w.state.At, Trouble: versions[i].trouble}
		for _, e := range w.entries {
			if err := s.fits(w.name, e.def.Name); err != nil {
				if r.last == nil {
					return nil, err
				}
				fact.Trouble = cmp.Or(fact.Trouble, "a tool is left out: "+err.Error())
				continue
			}
			s.byName[e.def.Name] = len(s.entries)
			s.entries = append(s.entries, e)
		}
		s.Sources = append(s.Sources, fact)
	}
	return s, nil
}

// fits reports whether a tool of a source can have this name.
func (s *Snapshot) fits(source, name string) error {
	i, dup := s.byName[name]
	switch {
	case !tool.ValidName(name):
		return fmt.Errorf("source %s: %q is not a tool name (want %s)", source, name, tool.NamePattern)
	case name == SearchName || name == InvokeName:
		return fmt.Errorf("source %s: the name %s is the catalog's own; rename the tool", source, name)
	case dup:
		return fmt.Errorf("tool %s comes from source %s and from source %s; remove or rename one", name, s.entries[i].source, source)
	}
	return nil
}

func newEntry(source string, d tool.Definition, e Entry) entry {
	x := entry{Entry: e, source: source, def: d, origin: e.Tool.Origin(), folded: Fold(d.Name), tokens: Tokens(d)}
	x.origin.Source = tool.ParseSource(string(x.origin.Source))
	x.names = []string{x.folded}
	for _, a := range e.Aliases {
		if a = Fold(a); a != "" {
			x.names = append(x.names, a)
		}
	}
	return x
}

// Fold gives a name in the form in which selectors compare names: trimmed, NFKC,
// lower case.
func Fold(name string) string {
	return strings.ToLower(norm.NFKC.String(strings.TrimSpace(name)))
}

// Tokens estimates how many tokens of a model's context a definition takes: the
// bytes of its name, description and schema as JSON, by four, rounded up.
func Tokens(d tool.Definition) int {
	b, err := json.Marshal(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
	}{d.Name, d.Description, schemaOf(d)})
	if err != nil {
		return (len(d.Name) + len(d.Description) + len(d.Input) + 3) / 4
	}
	return (len(b) + 3) / 4
}

func schemaOf(d tool.Definition) json.RawMessage {
	if len(d.Input) == 0 {
		return json.RawMessage("{}")
	}
	return d.Input
}

// ranked gives the index over all tools, made once.
func (s *Snapshot) ranked() (Index, error) {
	s.indexed.Do(func() {
		defer func() {
			if v := recover(); v != nil {
				s.index, s.fault = nil, fmt.Errorf("the ranker failed: %.200v", v)
			}
		}()
		if s.ranker == nil {
			s.fault = errNoRanker
			return
		}
		docs := make([]Document, len(s.entries))
		for i := range s.entries {
			e := &s.entries[i]
			docs[i] = Document{
				Name: e.def.Name, Title: e.def.Title, Description: e.def.Description, Input: e.def.Input,
				Server: e.Server, About: e.About, Packs: e.def.Packs,
			}
		}
		s.index, s.fault = s.ranker.Index(docs)
	})
	return s.index, s.fault
}

// rank orders the tools among: the best n first. What a ranker gives beyond that
// is left out: other tools, tools twice. It may give fewer.
func (s *Snapshot) rank(q Query, among []int, n int) (hits []Hit, err error) {
	index, err := s.ranked()
	if err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			hits, err = nil, fmt.Errorf("the ranker failed: %.200v", v)
		}
	}()
	given, err := index.Rank(q, among, n)
	if err != nil {
		return nil, err
	}
	left := make([]bool, len(s.entries))
	for _, i := range among {
		left[i] = true
	}
	hits = make([]Hit, 0, min(n, len(given)))
	for _, h := range given {
		if math.IsNaN(h.Score) || math.IsInf(h.Score, 0) {
			h.Score = 0
		}
		if h.Document >= 0 && h.Document < len(left) && left[h.Document] && len(hits) < n {
			left[h.Document] = false
			hits = append(hits, h)
		}
	}
	return hits, nil
}
