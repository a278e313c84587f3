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
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Reader reads a record, also while processes write to it. It changes nothing
// and needs no key. It believes what it reads: whether the record is as it was
// written is for [Verify] to say. Lines that are no records are passed over.
type Reader struct{ dir string }

// OpenReader opens the record in dir. The error is fs.ErrNotExist if nothing was
// ever recorded there.
func OpenReader(dir string) (*Reader, error) {
	fi, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	if _, err := os.Lstat(filepath.Join(dir, headName)); err != nil {
		if list, e := listSegments(dir); e != nil || len(list) == 0 {
			return nil, err
		}
	}
	return &Reader{dir}, nil
}

// Dir is the folder of the record.
func (r *Reader) Dir() string { return r.dir }

// Line is one line of a record.
type Line struct {
	Segment uint64
	Offset  int64 // of its first byte in the segment
	Seq     uint64
	Writer  uint64
	Of      uint64 // for events and outcomes: the intent's Seq
	Type    string // intent, event, outcome, or one of those that hold the record together
	Time    time.Time
	Hash    string // hexadecimal
	Raw     []byte // the line without its end; good until the next line is asked for
}

// Cursor is a place between two lines. The zero Cursor stands before the first.
type Cursor struct {
	Segment uint64
	Offset  int64
	Seq     uint64 // of the line before it
}

// After is the place behind l.
func (l *Line) After() Cursor {
	return Cursor{l.Segment, l.Offset + int64(len(l.Raw)) + 1, l.Seq}
}

// Lines gives the lines after from, in order, up to what is written now.
func (r *Reader) Lines(from Cursor) iter.Seq2[*Line, error] {
	return func(yield func(*Line, error) bool) {
		numbers, err := listSegments(r.dir)
		if err != nil {
			yield(nil, err)
			return
		}
		numbers = slices.DeleteFunc(numbers, func(n uint64) bool { return n < from.Segment })
		limits := r.limits(numbers)
		for _, n := range numbers {
			offset := int64(0)
			if n == from.Segment {
				offset = from.Offset
			}
			limit, ok := limits[n]
			if !ok {
				limit = math.MaxInt64
			}
			if !r.segment(n, offset, limit, &from.Seq, yield) {
				return
			}
		}
	}
}

// limits are where the records of a segment end before the file does: the
// first line of a later segment says so.
func (r *Reader) limits(numbers []uint64) map[uint64]int64 {
	m := map[uint64]int64{}
	for _, n := range numbers {
		l, ok := r.first(n)
		var h segmentMembers
		if ok && l.Type == typeSegment && json.Unmarshal(l.Raw, &h) == nil {
			for _, s := range h.Skipped {
				m[s.Segment] = s.Offset
			}
		}
	}
	return m
}

// segment gives the lines of one segment between two offsets with numbers over
// *last.
func (r *Reader) segment(n uint64, offset, limit int64, last *uint64, yield func(*Line, error) bool) bool {
	f, err := os.OpenFile(filepath.Join(r.dir, segmentName(n)), os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true // pruned meanwhile
	}
	if err != nil {
		return yield(nil, err)
	}
	defer f.Close()
	br := bufio.NewReaderSize(io.NewSectionReader(f, offset, limit-offset), 256<<10)
	for {
		p, size, err := readLine(br)
		if err == io.EOF {
			return true
		} else if err != nil {
			return yield(nil, err)
		}
		at := offset
		offset += size
		l, ok := parseLine(p)
		if !ok || l.seq <= *last {
			continue
		}
		*last = l.seq
		if !yield(&Line{
			Segment: n, Offset: at, Seq: l.seq, Writer: l.writer, Of: l.of, Type: l.typ,
			Time: l.at(), Hash: hex.EncodeToString(l.hash[:]), Raw: p,
		}, nil) {
			return false
		}
	}
}

// ErrElsewhere says that a cursor is not one of this record, or not any more.
var ErrElsewhere = errors.New("evidence: this place is not in the record")

// Holds returns nil if the line before at is there and has the given hash, else
// ErrElsewhere: what somebody remembers of this record is then of no use.
func (r *Reader) Holds(at Cursor, hash string) error {
	f, err := os.OpenFile(filepath.Join(r.dir, segmentName(at.Segment)), os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrElsewhere
	} else if err != nil {
		return err
	}
	defer f.Close()
	p := make([]byte, max(0, min(at.Offset, maxLine+1)))
	if _, err := f.ReadAt(p, at.Offset-int64(len(p))); errors.Is(err, io.EOF) {
		return ErrElsewhere
	} else if err != nil {
		return err
	}
	p, ended := bytes.CutSuffix(p, []byte("\n"))
	l, ok := parseLine(p[bytes.LastIndexByte(p, '\n')+1:])
	if !ended || !ok || l.seq != at.Seq || hex.EncodeToString(l.hash[:]) != hash {
		return ErrElsewhere
	}
	return nil
}

// Size tells the newest segment and its size, and the number of the oldest line
// that is there: cheap ways to see whether there is anything new.
func (r *Reader) Size() (segment uint64, size int64, oldest uint64, err error) {
	numbers, err := listSegments(r.dir)
	if err != nil || len(numbers) == 0 {
		return 0, 0, 0, err
	}
	segment = numbers[len(numbers)-1]
	fi, err := os.Lstat(filepath.Join(r.dir, segmentName(segment)))
	if err != nil {
		return 0, 0, 0, err
	}
	for _, n := range numbers {
		if l, ok := r.first(n); ok {
			oldest = l.Seq
			break
		}
	}
	return segment, fi.Size(), oldest, nil
}

// Lock waits for the lock named name that goes with the record, for what is kept
// beside it. It goes with the process that holds it.
func (r *Reader) Lock(name string, shared bool) (unlock func(), err error) {
	f, err := openOwn(filepath.Join(r.dir, name+".lock"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, shared); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// logID reads the record's name from its first line.
func logID(l *line) (id [16]byte) {
	var m logMembers
	if json.Unmarshal(l.raw, &m) == nil && len(m.Log) == 2*len(id) {
		_, _ = hex.Decode(id[:], []byte(m.Log))
	}
	return id
}

// Call is the handle of the call that the line belongs to; "" for the lines that
// hold the record together.
func (l *Line) Call() Handle {
	switch {
	case l.Type == typeIntent:
		return Handle(strconv.FormatUint(l.Seq, 10))
	case l.Of > 0:
		return Handle(strconv.FormatUint(l.Of, 10))
	}
	return ""
}
