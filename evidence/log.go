package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Options say where a record is kept. Only Dir is needed.
type Options struct {
	// Dir is the folder of one workspace's record; see [Dir]. It and its parent
	// are made with mode 0700 at the first record.
	Dir string

	// KeyFile holds the key that vouches for the record; it is made with mode
	// 0600 at the first record. Empty means "key" beside Dir, which the records
	// of all workspaces share.
	KeyFile string

	// Workspace is the real path that the record is about, for people.
	Workspace string

	// Program is written when this process begins to write: name and version.
	Program string

	// Secrets gives values that must never be written, beside those of
	// [Intent.Secrets]. It is called at every Begin and End and must be fast and
	// safe for concurrent use. Nil means none.
	Secrets func() []string

	// SegmentBytes is the size at which a new segment is begun; 0 means 16 MiB.
	SegmentBytes int64

	// Retain is applied whenever a segment is full. The zero value keeps all.
	Retain Retention
}

// Retention says what may be forgotten, in whole segments, oldest first. A
// segment goes when either bound asks for it. The newest segment always stays.
type Retention struct {
	MaxAge   time.Duration // of the newest record in a segment; 0: any age
	MaxBytes int64         // of all segments; 0: any size
}

// Dir is the folder of the record of the workspace at realPath, below the
// folder that holds wasmtools' state.
func Dir(stateDir, realPath string) string {
	sum := sha256.Sum256([]byte(realPath))
	return filepath.Join(stateDir, "evidence", hex.EncodeToString(sum[:16]))
}

// bounded reports whether r asks for anything to be forgotten.
func (r Retention) bounded() bool { return r.MaxAge > 0 || r.MaxBytes > 0 }

const (
	defaultSegment = 16 << 20 // some 16,000 calls; small enough to forget piecewise
	minSegment     = 4 << 10

	// checkpointEvery is how many lines lie between two signatures at most. A
	// signature costs about as much as three records.
	checkpointEvery = 1024

	// maxOpen bounds the calls that have no last word. Calls that wait for a
	// decision are bounded by the desk; this is for a caller that forgets them.
	maxOpen = 8192
)

// Log is the record of one workspace as one process writes it. It is a [Sink],
// and safe for concurrent use; other processes may write to the same folder.
type Log struct {
	o    Options
	now  func() time.Time
	boot func() [16]byte

	mu     sync.Mutex // taken before the lock file
	closed bool
	w      *writer // nil until the first record

	calls sync.Map // Handle -> *openCall
	count atomic.Int64

	shared atomic.Pointer[sharedValues]
}

// openCall is a call without a last word.
type openCall struct {
	mu      sync.Mutex
	seq     uint64
	red     *redactor
	effects tool.Effects
	streams []StreamHead
	raw     [][]byte // the beginning of each stream, before redaction
	events  int
	dropped int
	ended   bool
}

// Open prepares a record. It touches nothing on the disk: folder, key and first
// segment are made, or opened and checked, at the first Begin, whose error says
// what is wrong. Close it when no more calls come.
func Open(o Options) (*Log, error) {
	if o.Dir == "" {
		return nil, errors.New("evidence: Options.Dir is empty")
	}
	if o.KeyFile == "" {
		o.KeyFile = filepath.Join(filepath.Dir(o.Dir), keyName)
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegment
	}
	o.SegmentBytes = max(o.SegmentBytes, minSegment)
	return &Log{o: o, now: time.Now, boot: bootID}, nil
}

const keyName = "key"

var errClosed = errors.New("evidence: the record is closed")

// durable tells whether the intent has to be on the disk before the call acts.
func (c *openCall) durable() bool { return c.effects.Any(tool.Destroys | tool.Executes) }

// Begin implements [Sink].
func (l *Log) Begin(in Intent) (Handle, error) {
	if l.count.Load() >= maxOpen {
		return "", fmt.Errorf("evidence: %d calls were begun and not ended", maxOpen)
	}
	c := &openCall{red: l.redactor(in.Secrets), effects: in.Effects}
	l.mu.Lock()
	w, err := l.writer()
	if err != nil {
		l.mu.Unlock()
		return "", err
	}
	k := w.key
	l.mu.Unlock()

	members := encode(c.red.intent(in, k))

	l.mu.Lock()
	if w, err = l.writer(); err == nil {
		c.seq, err = w.append(typeIntent, 0, members)
	}
	l.mu.Unlock()
	if err != nil {
		return "", err
	}
	if c.durable() {
		go w.flusher.wait(c.seq) // whose error the Started event meets
	}
	h := Handle(strconv.FormatUint(c.seq, 10))
	l.calls.Store(h, c)
	l.count.Add(1)
	return h, nil
}

// Event implements [Sink]. Events over a bound of 128 a call are counted and
// not written, but for those that say who decided what.
func (l *Log) Event(h Handle, e Event) error {
	c, err := l.call(h)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return fmt.Errorf("evidence: call %s has ended", h)
	}
	if e.Kind == Output {
		e.Bytes = max(e.Bytes, int64(len(e.Text)))
		c.output(e)
	}
	if c.events++; c.events > maxEvents && e.Kind != ApprovalRequired && e.Kind != Decided && e.Kind != Started {
		c.dropped++
		return nil
	}
	l.mu.Lock()
	w, err := l.writer()
	if err == nil {
		_, err = w.append(typeEvent, c.seq, encode(c.red.event(e, w.key)))
	}
	l.mu.Unlock()
	if err != nil || e.Kind != Started || !c.durable() {
		return err
	}
	return w.flusher.wait(c.seq)
}

// output keeps the beginning of a stream. Twice of what is shown is kept, so
// that a secret at the border is recognised before the text is cut.
func (c *openCall) output(e Event) {
	i := slices.IndexFunc(c.streams, func(s StreamHead) bool { return s.Stream == e.Stream })
	if i < 0 {
		if len(c.streams) == maxStreams {
			return
		}
		i = len(c.streams)
		c.streams = append(c.streams, StreamHead{Stream: e.Stream})
		c.raw = append(c.raw, nil)
	}
	c.streams[i].Bytes += e.Bytes
	if room := 2*maxHeadBytes - len(c.raw[i]); room > 0 {
		c.raw[i] = append(c.raw[i], e.Text[:min(room, len(e.Text))]...)
	}
}

// heads are the streams as they are written: redacted, and where a stream goes
// on beyond what was kept, without the part in which a secret may have been cut.
func (c *openCall) heads() []StreamHead {
	heads := slices.Clone(c.streams)
	for i := range heads {
		s := &heads[i]
		s.Stream = c.red.clean(s.Stream, maxName)
		s.Head = c.red.text(string(c.raw[i]))
		if s.Bytes > int64(len(c.raw[i])) {
			margin := maxHeadBytes
			for _, v := range c.red.values {
				margin = max(margin, len(v))
			}
			s.Head = s.Head[:max(0, len(s.Head)-margin)]
		}
		s.Head = valid(s.Head[:min(len(s.Head), maxHeadBytes)])
	}
	return heads
}

// End implements [Sink].
func (l *Log) End(h Handle, o Outcome) error {
	c, err := l.call(h)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return fmt.Errorf("evidence: call %s has ended already", h)
	}
	if len(o.Secrets) > 0 {
		c.red.add(o.Secrets)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w, err := l.writer()
	if err != nil {
		return err
	}
	rec := c.red.outcome(o, w.key)
	rec.Streams, rec.Events = c.heads(), c.dropped
	if _, err := w.append(typeOutcome, c.seq, encode(rec)); err != nil {
		return err
	}
	if o.Status != Waiting {
		c.ended = true
		l.calls.Delete(h)
		l.count.Add(-1)
	}
	return nil
}

func (l *Log) call(h Handle) (*openCall, error) {
	v, ok := l.calls.Load(h)
	if !ok {
		return nil, fmt.Errorf("evidence: no call %q is open", string(h))
	}
	return v.(*openCall), nil
}

// Flush returns when everything that was recorded before is on the disk.
func (l *Log) Flush() error {
	l.mu.Lock()
	w := l.w
	if w == nil {
		l.mu.Unlock()
		return nil
	}
	seq := w.head.end.seq
	l.mu.Unlock()
	return w.flusher.wait(seq)
}

// Close signs and flushes the record. Calls without a last word are reported
// as interrupted from then on.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.w == nil {
		return nil
	}
	return l.w.close()
}

// writer opens the record at the first use. The caller holds l.mu.
func (l *Log) writer() (*writer, error) {
	if l.closed {
		return nil, errClosed
	}
	if l.w == nil {
		w, err := openWriter(l.o, l.now, l.boot(), &l.mu)
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		l.w = w
	}
	return l.w, nil
}

// sharedValues are the spellings of Options.Secrets, made once for each list.
type sharedValues struct {
	list []string
	red  *redactor
}

func (l *Log) redactor(own []string) *redactor {
	var base *redactor
	if l.o.Secrets != nil {
		list := l.o.Secrets()
		s := l.shared.Load()
		if s == nil || !slices.Equal(s.list, list) {
			s = &sharedValues{slices.Clone(list), newRedactor(list)}
			l.shared.Store(s)
		}
		base = s.red
	}
	if base == nil {
		return newRedactor(own)
	}
	r := &redactor{values: base.values, inside: base.inside, short: base.short}
	if len(own) > 0 {
		r.add(own)
	}
	return r
}
