package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Call is what a record says about one call.
type Call struct {
	Handle   Handle    `json:"id"`
	At       time.Time `json:"at"` // when the intent was written
	Status   Status    `json:"status"`
	Ended    time.Time `json:"ended,omitzero"` // when the last outcome was written
	Redacted bool      `json:"redacted,omitempty"`
	Cut      bool      `json:"cut,omitempty"` // the arguments are not whole: texts were too long

	Intent  Intent        `json:"intent"`
	Events  []CallEvent   `json:"events,omitempty"`
	Outcome *Outcome      `json:"outcome,omitempty"` // the last one; nil if there is none
	Earlier []CallOutcome `json:"earlier,omitempty"` // outcomes before the last: waiting
	Streams []StreamHead  `json:"streams,omitempty"`

	// Left out of the record because there were too many; 0 if all are there.
	EventsDropped int `json:"events_dropped,omitempty"`
	WritesTotal   int `json:"writes_total,omitempty"`
	PathsTotal    int `json:"paths_total,omitempty"`
	HostsTotal    int `json:"hosts_total,omitempty"`

	Writer uint64   `json:"writer"` // the process that wrote it; see the open line of this number
	Where  Cursor   `json:"-"`      // before the intent
	Seqs   []uint64 `json:"lines"`  // the numbers of its lines
}

// CallEvent is an event with its time.
type CallEvent struct {
	At time.Time `json:"at"`
	Event
}

// CallOutcome is an outcome with its time.
type CallOutcome struct {
	At time.Time `json:"at"`
	Outcome
}

// Acted reports whether the call may have had effects: it is known to have
// begun to act, or its outcome says that it was carried out.
func (c *Call) Acted() bool {
	if c.Outcome != nil && (!c.Outcome.Began.IsZero() || len(c.Outcome.Writes) > 0) {
		return true
	}
	return slices.ContainsFunc(c.Events, func(e CallEvent) bool { return e.Kind == Started })
}

// Joiner puts calls together from the lines of a record.
type Joiner struct {
	open   map[uint64]*Call
	closed map[uint64]bool // processes that have ended
}

// NewJoiner begins with nothing.
func NewJoiner() *Joiner {
	return &Joiner{open: map[uint64]*Call{}, closed: map[uint64]bool{}}
}

// Add takes the next line. It returns the call that this line ends, or nil. An
// event or outcome whose intent was not added is passed over.
func (j *Joiner) Add(l *Line) (*Call, error) {
	switch l.Type {
	case typeIntent:
		c := &Call{
			Handle: Handle(strconv.FormatUint(l.Seq, 10)), At: l.Time, Writer: l.Writer,
			Where: Cursor{l.Segment, l.Offset, l.Seq - 1}, Seqs: []uint64{l.Seq},
		}
		var rec intentRecord
		if err := decode(l, &rec); err != nil {
			return nil, err
		}
		c.Intent, c.Redacted, c.Cut = rec.Intent, rec.Redacted, rec.Cut
		j.open[l.Seq] = c
	case typeEvent:
		c := j.open[l.Of]
		if c == nil {
			return nil, nil
		}
		var rec eventRecord
		if err := decode(l, &rec); err != nil {
			return nil, err
		}
		if c.Seqs = append(c.Seqs, l.Seq); len(c.Events) < 4*maxEvents {
			c.Events = append(c.Events, CallEvent{l.Time, rec.Event})
		}
		c.WritesTotal = max(c.WritesTotal, rec.WritesTotal)
	case typeOutcome:
		c := j.open[l.Of]
		if c == nil {
			return nil, nil
		}
		var rec outcomeRecord
		if err := decode(l, &rec); err != nil {
			return nil, err
		}
		c.Seqs = append(c.Seqs, l.Seq)
		if c.Outcome != nil {
			c.Earlier = append(c.Earlier, CallOutcome{c.Ended, *c.Outcome})
		}
		c.Outcome, c.Ended, c.Status = &rec.Outcome, l.Time, rec.Status
		c.Streams, c.EventsDropped = rec.Streams, rec.Events
		c.WritesTotal, c.PathsTotal, c.HostsTotal = max(c.WritesTotal, rec.WritesTotal), rec.PathsTotal, rec.HostsTotal
		if rec.Status != Waiting {
			delete(j.open, l.Of)
			return c, nil
		}
	case typeClose:
		j.closed[l.Writer] = true
	case typeGone:
		var g struct{ Writer uint64 }
		if err := decode(l, &g); err != nil {
			return nil, err
		}
		j.closed[g.Writer] = true
	}
	return nil, nil
}

// Rest gives the calls that have not ended, oldest first. Those without any
// outcome are interrupted, or running if living says that their process is there.
func (j *Joiner) Rest(living map[uint64]bool) []*Call {
	list := make([]*Call, 0, len(j.open))
	for _, c := range j.open {
		if c.Outcome == nil {
			c.Status = Interrupted
			if living[c.Writer] && !j.closed[c.Writer] {
				c.Status = Running
			}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *Call) int {
		if a.Seqs[0] < b.Seqs[0] {
			return -1
		}
		return 1
	})
	return list
}

func decode(l *Line, v any) error {
	if err := json.Unmarshal(l.Raw, v); err != nil {
		return fmt.Errorf("line %d in segment %d: %w", l.Seq, l.Segment, err)
	}
	return nil
}

// Living says which processes, by the number of their open line, write to the
// record now.
func (r *Reader) Living() map[uint64]bool { return living(r.dir) }

func living(dir string) map[uint64]bool {
	m := map[uint64]bool{}
	entries, err := os.ReadDir(filepath.Join(dir, writersName))
	if err != nil {
		return m
	}
	for _, e := range entries {
		if id, err := strconv.ParseUint(e.Name(), 10, 63); err == nil && alive(filepath.Join(dir, writersName, e.Name())) {
			m[id] = true
		}
	}
	return m
}

// Calls gives every call that was begun at since or later, in the order in which
// they ended; then those that have not ended, oldest first. The zero time means
// all.
func (r *Reader) Calls(since time.Time) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		j := NewJoiner()
		// Before the lines: a process that ends in between has written its last
		// word, which the lines then hold.
		alive := r.Living()
		for l, err := range r.Lines(r.cursorBefore(since)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if l.Type == typeIntent && l.Time.Before(since) {
				continue
			}
			c, err := j.Add(l)
			if err != nil {
				yield(nil, err)
				return
			}
			if c != nil && !yield(c, nil) {
				return
			}
		}
		for _, c := range j.Rest(alive) {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// cursorBefore finds a segment that begins before since, so that older ones are
// not read.
func (r *Reader) cursorBefore(since time.Time) Cursor {
	if since.IsZero() {
		return Cursor{}
	}
	numbers, err := listSegments(r.dir)
	if err != nil {
		return Cursor{}
	}
	best := Cursor{}
	for _, n := range numbers {
		l, ok := r.first(n)
		if !ok {
			continue
		}
		if !l.Time.Before(since) {
			break
		}
		best = Cursor{Segment: n, Seq: l.Seq - 1}
	}
	return best
}

// first is the first line of a segment.
func (r *Reader) first(n uint64) (l Line, ok bool) {
	var last uint64
	r.segment(n, 0, maxLine+1, &last, func(p *Line, err error) bool {
		if err == nil {
			l, ok = *p, true
			l.Raw = slices.Clone(p.Raw)
		}
		return false
	})
	return l, ok
}

// parseHandle gives the number of a call's intent.
func parseHandle(h Handle) (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(string(h), 10, 63)
	return seq, err == nil && seq > 0
}

// Call returns the call with this handle; fs.ErrNotExist if there is none.
func (r *Reader) Call(h Handle) (*Call, error) {
	seq, ok := parseHandle(h)
	if !ok {
		return nil, noCall(string(h))
	}
	numbers, err := listSegments(r.dir)
	if err != nil {
		return nil, err
	}
	from := Cursor{}
	for _, n := range numbers {
		if l, ok := r.first(n); ok {
			if l.Seq > seq {
				break
			}
			from = Cursor{Segment: n, Seq: l.Seq - 1}
		}
	}
	calls, err := r.collect(from, func(l *Line) bool { return l.Seq == seq }, func(*Call) bool { return true }, true)
	if err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, noCall(string(h))
	}
	return calls[0], nil
}

func noCall(id string) error { return fmt.Errorf("no call %q is recorded: %w", id, fs.ErrNotExist) }

// Find returns the calls that id means, newest first: the one with this handle,
// else those with this call id, which need only be unique in a session. It
// returns fs.ErrNotExist if there is none, and at most 100.
func (r *Reader) Find(id string) ([]*Call, error) {
	if c, err := r.Call(Handle(id)); err == nil {
		return []*Call{c}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	want := newRedactor(nil).clean(id, maxName) // as it was written
	calls, err := r.collect(Cursor{}, func(*Line) bool { return true }, func(c *Call) bool { return c.Intent.Call == want }, false)
	if err != nil {
		return nil, err
	}
	if len(calls) == 0 {
		return nil, noCall(id)
	}
	slices.Reverse(calls)
	return calls[:min(len(calls), 100)], nil
}

// collect joins the calls whose intents are wanted, in the order of their
// intents. With one it is done when the first has ended.
func (r *Reader) collect(from Cursor, intent func(*Line) bool, want func(*Call) bool, one bool) ([]*Call, error) {
	j := NewJoiner()
	alive := r.Living()
	var found []*Call
	for l, err := range r.Lines(from) {
		if err != nil {
			return nil, err
		}
		if l.Type == typeIntent && !intent(l) {
			continue
		}
		c, err := j.Add(l)
		if err != nil {
			return nil, err
		}
		if l.Type == typeIntent && !want(j.open[l.Seq]) {
			delete(j.open, l.Seq)
		}
		if c != nil {
			if found = append(found, c); one {
				return found, nil
			}
		}
	}
	found = append(found, j.Rest(alive)...)
	slices.SortFunc(found, func(a, b *Call) int {
		if a.Seqs[0] < b.Seqs[0] {
			return -1
		}
		return 1
	})
	return found, nil
}
