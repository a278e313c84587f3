package evidence

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/wasmtools/wasmtools/tool"
)

// VerifyOptions say what a record is held against. Only the folder is needed.
type VerifyOptions struct {
	// KeyFile is the key that must have made the record; "" means "key" beside
	// the folder.
	KeyFile string

	// Anchors were taken of this record before and kept elsewhere.
	Anchors []Anchor
}

// Fault is something that is not as it was written.
type Fault struct {
	Kind    string `json:"kind"`
	Segment string `json:"segment,omitempty"` // the file
	Line    int    `json:"line,omitempty"`    // in the file, from 1
	Offset  int64  `json:"offset,omitempty"`
	Seq     uint64 `json:"seq,omitempty"` // of the record
	Text    string `json:"text"`
}

func (f Fault) String() string {
	switch {
	case f.Segment != "" && f.Line > 0:
		return fmt.Sprintf("%s: %s:%d (byte %d): %s", f.Kind, f.Segment, f.Line, f.Offset, f.Text)
	case f.Segment != "":
		return fmt.Sprintf("%s: %s: %s", f.Kind, f.Segment, f.Text)
	}
	return f.Kind + ": " + f.Text
}

// The kinds of faults.
const (
	Edited    = "edited"    // bytes of a record were changed
	Missing   = "missing"   // records or files were removed, or the end cut off
	Forged    = "forged"    // a record that the key does not vouch for
	Reordered = "reordered" // a record stands where another one should, or twice
	Damaged   = "damaged"   // bytes that are no record
	Unsigned  = "unsigned"  // key, signature or head is missing or another one
	Unjoined  = "unjoined"  // the records contradict each other
)

// maxFaults bounds the list; the rest is counted.
const maxFaults = 100

// Report is what a verification found.
type Report struct {
	Log       string `json:"log,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Key       string `json:"key,omitempty"` // the public half
	OK        bool   `json:"ok"`

	Segments int    `json:"segments"`
	Records  int    `json:"records"` // lines that were checked
	First    uint64 `json:"first"`   // their numbers
	Last     uint64 `json:"last"`
	Signed   uint64 `json:"signed"`           // the last line before a signature
	Pruned   uint64 `json:"pruned,omitempty"` // everything up to this line was removed on purpose
	Anchored uint64 `json:"anchored,omitempty"`

	Calls       int `json:"calls"`
	Waiting     int `json:"waiting"`
	Running     int `json:"running"`
	Interrupted int `json:"interrupted"` // an intent without an outcome, whose process is gone

	Faults      []Fault `json:"faults"`
	FaultsTotal int     `json:"faults_total"`

	// Notes are not as in a record that nothing ever interrupted, and are
	// explained: what a killed process or a crash of the machine left.
	Notes []Fault `json:"notes,omitempty"`
}

func (r *Report) fault(f Fault) {
	if r.FaultsTotal++; len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, f)
	}
}

func (r *Report) note(f Fault) {
	if len(r.Notes) < maxFaults {
		r.Notes = append(r.Notes, f)
	}
}

// Verify checks all of a record, also while processes write to it. The error
// is for what could not be read; what was read and is wrong is in the report.
// A folder without any record is fs.ErrNotExist.
func Verify(dir string, o VerifyOptions) (Report, error) {
	if o.KeyFile == "" {
		o.KeyFile = filepath.Join(filepath.Dir(dir), keyName)
	}
	v := &verifier{dir: dir, wanted: map[uint64]bool{}, found: map[uint64]sum{}}
	v.report.Faults = []Fault{}
	unlock, err := v.snapshot()
	if err != nil {
		return v.report, err
	}
	defer unlock()
	if err := v.keys(o.KeyFile); err != nil {
		return v.report, err
	}
	v.wanted[v.head.end.seq], v.wanted[v.head.durable.seq] = true, true
	for _, a := range o.Anchors {
		v.wanted[a.Seq] = true
	}
	if err := v.limits(); err != nil {
		return v.report, err
	}
	checks, err := v.segments()
	if err != nil {
		return v.report, err
	}
	v.join(checks)
	v.tail(checks)
	v.calls(checks)
	v.anchors(o.Anchors)
	v.report.OK = v.report.FaultsTotal == 0
	return v.report, nil
}

type verifier struct {
	dir     string
	numbers []uint64
	sizes   map[uint64]int64
	living  map[uint64]bool
	raw     [headSize]byte
	boot    [16]byte

	key    *key // nil if it cannot be had
	head   head
	headed bool // the head is good
	public string

	limit  map[uint64]int64 // where the records of a segment end, if that is before its end
	wanted map[uint64]bool  // numbers of lines whose hashes are needed
	found  map[uint64]sum
	last   position // the last good line
	report Report
}

// snapshot fixes what is looked at: writers are held off for that instant,
// removal of old segments until the end.
func (v *verifier) snapshot() (unlock func(), err error) {
	numbers, err := listSegments(v.dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(v.dir, headName)); errors.Is(err, fs.ErrNotExist) && len(numbers) == 0 {
		return nil, fmt.Errorf("nothing is recorded in %s: %w", v.dir, fs.ErrNotExist)
	}
	unlock = func() {}
	// Locks need files that can be opened for writing on some systems. A record
	// that lies on a read-only disk has no writers, and is read without.
	if f, err := openOwn(filepath.Join(v.dir, pruneName), os.O_RDWR|os.O_CREATE); err == nil {
		if err := lockFile(f, true); err != nil {
			f.Close()
			return nil, err
		}
		unlock = func() { f.Close() }
	}
	if f, err := openOwn(filepath.Join(v.dir, lockName), os.O_RDWR); err == nil {
		defer f.Close()
		if err := lockFile(f, true); err != nil {
			unlock()
			return nil, err
		}
	}
	v.boot = bootID()
	v.living = living(v.dir)
	if f, err := openOwn(filepath.Join(v.dir, headName), os.O_RDONLY); err == nil {
		err = readHead(f, v.raw[:])
		f.Close()
		if err != nil {
			unlock()
			return nil, err
		}
	}
	if v.numbers, err = listSegments(v.dir); err != nil {
		unlock()
		return nil, err
	}
	v.sizes = map[uint64]int64{}
	for _, n := range v.numbers {
		fi, err := os.Lstat(filepath.Join(v.dir, segmentName(n)))
		if err != nil {
			unlock()
			return nil, err
		}
		v.sizes[n] = fi.Size()
	}
	return unlock, nil
}

// keys reads key and head and compares them.
func (v *verifier) keys(path string) error {
	k, err := readKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.report.fault(Fault{Kind: Unsigned, Text: "the key is gone, so nothing vouches for the record"})
	case err != nil:
		v.report.fault(Fault{Kind: Unsigned, Text: "the key cannot be used: " + err.Error()})
	default:
		v.key, v.public = k, k.public()
		v.report.Key = v.public
	}
	var macKey []byte
	if v.key != nil {
		macKey = v.key.mac
	}
	var whole bool
	v.head, whole, err = decodeHead(v.raw[:], macKey)
	v.headed = err == nil
	switch {
	case v.headed && !whole && !v.restarted():
		v.report.fault(Fault{Kind: Unsigned, Segment: headName, Text: "one half of the head was damaged, so the last record may be missing"})
		fallthrough
	case v.headed:
		v.report.Log = hex.EncodeToString(v.head.log[:])
	default:
		v.report.fault(Fault{Kind: Unsigned, Segment: headName, Text: "the head is missing, damaged, or not made with this key, so the end of the record cannot be known"})
	}
	return nil
}

// limits finds out which bytes are known to be no records: those that the first
// line of a later segment describes, and what a process or the machine may have
// left behind the end that the head vouches for.
func (v *verifier) limits() error {
	v.limit = map[uint64]int64{}
	c := v.chain()
	for _, n := range v.numbers {
		for _, s := range v.header(n, c).Skipped {
			if err := v.skip(s); err != nil {
				return err
			}
		}
	}
	if !v.headed {
		return nil
	}
	for _, n := range v.numbers {
		if _, known := v.limit[n]; known || n < v.head.end.segment {
			continue
		}
		if err := v.unsettled(n, c); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) chain() *chain {
	if v.key == nil {
		return newChain(nil)
	}
	return newChain(v.key.mac)
}

// header is the first line of segment n if the key vouches for it.
func (v *verifier) header(n uint64, c *chain) (m segmentMembers) {
	f, err := openOwn(filepath.Join(v.dir, segmentName(n)), os.O_RDONLY)
	if err != nil {
		return m // whoever reads the segment says so
	}
	defer f.Close()
	p, _, err := readLine(bufio.NewReaderSize(io.NewSectionReader(f, 0, v.sizes[n]), 16<<10))
	if err != nil {
		return m
	}
	l, ok := parseLine(p)
	s := segmentCheck{number: n}
	prev, ok2 := sum{}, false
	if ok {
		prev, ok2 = s.begin(&l)
	}
	if !ok2 || !c.follows(&prev, &l) {
		return m
	}
	return s.header
}

// skip compares what a later segment says about the end of an earlier one.
func (v *verifier) skip(s skipped) error {
	name := segmentName(s.Segment)
	f, err := openOwn(filepath.Join(v.dir, name), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // pruned, or missing, which shows elsewhere
	} else if err != nil {
		return err
	}
	defer f.Close()
	v.limit[s.Segment] = s.Offset
	p := make([]byte, max(0, min(s.Bytes, maxSkipDigest, v.sizes[s.Segment]-s.Offset)))
	if _, err := f.ReadAt(p, s.Offset); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	at := Fault{Kind: whyTorn, Segment: name, Offset: s.Offset}
	if v.sizes[s.Segment] != s.Offset+s.Bytes || tool.DigestOf(p) != s.Digest {
		at.Kind, at.Text = Edited, "what stands here is not what was found and passed over"
		v.report.fault(at)
		return nil
	}
	at.Text = fmt.Sprintf("%d bytes at the end are no record; the segment after it says so", s.Bytes)
	v.report.note(at)
	return nil
}

// unsettled looks at the end of the record as the next writer would.
func (v *verifier) unsettled(n uint64, c *chain) error {
	name, size, h := segmentName(n), v.sizes[n], &v.head
	f, err := openOwn(filepath.Join(v.dir, name), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if n > h.end.segment {
		p, err := io.ReadAll(io.NewSectionReader(f, 0, min(size, maxSkipDigest)))
		if err != nil || !c.begun(p) || bytes.IndexByte(p, '\n') >= 0 {
			return err
		}
		v.limit[n] = 0
		v.report.note(Fault{Kind: whyTorn, Segment: name, Text: "begun by a process that was killed, and not used"})
		return nil
	}
	from := h.end
	if v.restarted() {
		from = h.durable
	}
	if size < from.offset {
		return nil
	}
	t, err := scanTail(f, from, size, c, !v.restarted())
	if err != nil {
		return err
	}
	if t.clean() || t.foreign {
		return nil
	}
	v.limit[n] = t.end.offset
	text := "%d bytes at the end are the beginning of a record whose writer was killed"
	if v.restarted() {
		text = "%d bytes at the end were being written when the machine stopped"
	}
	v.report.note(Fault{Kind: whyTorn, Segment: name, Offset: t.end.offset, Text: fmt.Sprintf(text, t.bytes)})
	return nil
}

// segments checks every segment for itself, several at once.
func (v *verifier) segments() ([]*segmentCheck, error) {
	checks := make([]*segmentCheck, len(v.numbers))
	errs := make([]error, len(v.numbers))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), max(1, len(v.numbers))) {
		wg.Go(func() {
			c := v.chain()
			for i := range next {
				n := v.numbers[i]
				limit, ok := v.limit[n]
				if !ok {
					limit = v.sizes[n]
				}
				checks[i] = &segmentCheck{number: n, name: segmentName(n), wanted: v.wanted, found: map[uint64]sum{}}
				errs[i] = checks[i].run(filepath.Join(v.dir, checks[i].name), limit, c)
			}
		})
	}
	for i := range v.numbers {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, c := range checks {
		for seq, h := range c.found {
			v.found[seq] = h
		}
	}
	return checks, errors.Join(errs...)
}

// records puts numbers from one to another into words.
func records(from, to uint64, one, several string) string {
	if from == to {
		return fmt.Sprintf("record %d %s", from, one)
	}
	return fmt.Sprintf("records %d to %d %s", from, to, several)
}

// Summary is the report for a person, in a few lines.
func (r Report) Summary() string {
	var b strings.Builder
	if r.OK {
		fmt.Fprintf(&b, "ok: %d records in %d segments, %d to %d, signed up to %d\n", r.Records, r.Segments, r.First, r.Last, r.Signed)
	} else {
		fmt.Fprintf(&b, "not as it was written: %d faults in %d records\n", r.FaultsTotal, r.Records)
	}
	fmt.Fprintf(&b, "calls: %d, of which waiting %d, running %d, interrupted %d\n", r.Calls, r.Waiting, r.Running, r.Interrupted)
	if r.Pruned > 0 {
		fmt.Fprintf(&b, "pruned: records up to %d were removed on purpose\n", r.Pruned)
	}
	if r.Anchored > 0 {
		fmt.Fprintf(&b, "anchored: record %d stands as it was anchored\n", r.Anchored)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&b, "fault: %s\n", f)
	}
	if n := r.FaultsTotal - len(r.Faults); n > 0 {
		fmt.Fprintf(&b, "and %d more\n", n)
	}
	return b.String()
}

// unmarshal is for the few lines of which verification reads the members.
func (l *line) unmarshal(v any) bool { return json.Unmarshal(l.raw, v) == nil }
