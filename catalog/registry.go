package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
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
		r.sources = append(r.sources, &watched{source: s})
	}
	return r
}

// watched is a source with what it said last.
type watched struct {
	source  Source
	state   SourceState
	asked   time.Time   // of the question that is open
	open    chan answer // nil: none
	trouble string      // why state is not the present one

	read    bool // entries are those of version
	version uint64
	entries []entry
	fault   string // why entries are older than state
}

// entriesOf reads the definitions of a new state. They are a source's own code: if
// that fails, what was read before stays, as with a source that fails.
func (w *watched) entriesOf() {
	if w.read && w.version == w.state.Version {
		return
	}
	w.version, w.fault = w.state.Version, ""
	w.read = w.open == nil && w.trouble == "" // else its first answer is to come
	defer func() {
		if v := recover(); v != nil {
			w.fault = fmt.Sprintf("its definitions cannot be read: %.200v", v)
		}
	}()
	name := w.source.Name()
	entries := make([]entry, 0, len(w.state.Tools))
	for _, e := range w.state.Tools {
		entries = append(entries, newEntry(name, e.Tool.Definition(), e))
	}
	w.entries = entries
}

type answer struct {
	state   SourceState
	trouble string
}

// ask asks the source, unless an earlier question is still open.
func (w *watched) ask() {
	if w.open != nil {
		return
	}
	if f, ok := w.source.(fixed); ok {
		w.state = f.state
		return
	}
	w.asked, w.open = time.Now(), make(chan answer, 1)
	go func(to chan<- answer) {
		defer func() {
			if v := recover(); v != nil {
				to <- answer{trouble: fmt.Sprintf("it failed: %.200v", v)}
			}
		}()
		to <- answer{state: w.source.Snapshot()}
	}(w.open)
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
			w.trouble = "it has not answered since " + w.asked.UTC().Format(time.RFC3339)
			return
		}
	}
	w.open, w.trouble = nil, a.trouble
	if a.trouble == "" {
		w.state = a.state
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
// that no tool may have, are an error that names the sources. A source that fails
// or does not answer keeps what it had, and delays nobody for more than a moment.
func (r *Registry) Snapshot() (*Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.sources {
		w.take(time.Time{}) // what came too late the last time
		w.ask()
	}
	deadline := time.Now().Add(patience)
	now := make([]version, len(r.sources))
	for i, w := range r.sources {
		w.take(deadline)
		w.entriesOf()
		now[i] = version{w.state.Version, cmp.Or(w.trouble, w.fault)}
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

func (r *Registry) merge(versions []version) (*Snapshot, error) {
	n := 0
	for _, w := range r.sources {
		n += len(w.entries)
	}
	s := &Snapshot{entries: make([]entry, 0, n), byName: make(map[string]int, n), versions: versions, ranker: r.ranker}
	for i, w := range r.sources {
		name := w.source.Name()
		s.Sources = append(s.Sources, SourceFact{Name: name, Tools: len(w.entries), At: w.state.At, Trouble: versions[i].trouble})
		for _, e := range w.entries {
			d := e.def
			if !tool.ValidName(d.Name) {
				return nil, fmt.Errorf("source %s: %q is not a tool name (want %s)", name, d.Name, tool.NamePattern)
			}
			if d.Name == SearchName || d.Name == InvokeName {
				return nil, fmt.Errorf("source %s: the name %s is the catalog's own; rename the tool", name, d.Name)
			}
			if i, dup := s.byName[d.Name]; dup {
				return nil, fmt.Errorf("tool %s comes from source %s and from source %s; remove or rename one", d.Name, s.entries[i].source, name)
			}
			s.byName[d.Name] = len(s.entries)
			s.entries = append(s.entries, e)
		}
	}
	return s, nil
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
		if h.Document >= 0 && h.Document < len(left) && left[h.Document] && len(hits) < n {
			left[h.Document] = false
			hits = append(hits, h)
		}
	}
	return hits, nil
}
