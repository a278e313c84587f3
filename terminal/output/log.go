package output

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Sizes of a [Log], SPEC: memory of 64 KiB from the beginning and 256 KiB from
// the end, and a spool of 64 MiB.
const (
	HeadBytes  = 64 << 10
	TailBytes  = 256 << 10
	SpoolBytes = 64 << 20

	// spoolHead is what of a full spool stays of the beginning; the rest of it
	// holds the end.
	spoolHead = 8 << 20
)

// Log keeps text by its offset from the beginning of the stream: its beginning
// and end in memory, and as much as the spool takes on disk. What is kept
// nowhere is counted. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	head  []byte // the first bytes
	tail  []byte // a ring: byte i of the stream stands at i % TailBytes
	total int64  // bytes that came
	spool *spool // nil: none
	lost  error  // why the spool is not written any more
}

// NewLog makes a log that spools to f, of which at most limit bytes are used; f
// may be nil. The log closes f.
func NewLog(f *os.File, limit int64) *Log {
	l := &Log{}
	if f != nil {
		l.spool = newSpool(f, limit)
	}
	return l
}

// Attach makes an empty log spool to f, as NewLog does.
func (l *Log) Attach(f *os.File, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total > 0 || l.spool != nil {
		f.Close()
		return
	}
	l.spool = newSpool(f, limit)
}

// OpenSpool gives the log back that a spool was written for, with the same
// limit: f holds what is left of total bytes. If more than total were written,
// what came last is not seen.
func OpenSpool(f *os.File, limit, total int64) (*Log, error) {
	l := NewLog(nil, 0)
	s := newSpool(f, limit)
	s.end = total
	for _, part := range [][2]int64{{0, min(HeadBytes, total)}, {max(total-TailBytes, 0), total}} {
		for off := part[0]; off < part[1]; {
			next, ok := s.kept(off)
			if !ok {
				break
			}
			p := make([]byte, min(32<<10, part[1]-next))
			n, err := s.read(p, next)
			if err != nil {
				return nil, err
			}
			if part[0] == 0 && next == int64(len(l.head)) && next < HeadBytes {
				l.head = append(l.head, p[:min(n, HeadBytes-len(l.head))]...)
			}
			if next >= total-TailBytes {
				l.keepTail(p[:n], next)
			}
			off = next + int64(n)
		}
	}
	l.spool, l.total = s, total
	return l, nil
}

// Write appends text. It keeps memory and disk within their limits and does not
// fail: a spool that cannot be written is given up, see [Log.Spool].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := HeadBytes - len(l.head); room > 0 {
		l.head = append(l.head, p[:min(room, len(p))]...)
	}
	if l.spool != nil && l.lost == nil {
		l.lost = l.spool.write(p, l.total)
	}
	l.keepTail(p, l.total)
	l.total += int64(len(p))
	return len(p), nil
}

// keepTail puts what stands at offset at into the ring.
func (l *Log) keepTail(p []byte, at int64) {
	if len(p) > TailBytes {
		at += int64(len(p) - TailBytes)
		p = p[len(p)-TailBytes:]
	}
	for len(p) > 0 {
		i := int(at % TailBytes)
		if want := min(TailBytes, i+len(p)); len(l.tail) < want {
			l.tail = append(l.tail, make([]byte, want-len(l.tail))...)
		}
		n := copy(l.tail[i:], p)
		p, at = p[n:], at+int64(n)
	}
}

// Size is how many bytes came so far; the offset of the next one.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Spool says why the spool is not written any more; nil while it is.
func (l *Log) Spool() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// ReadAt fills p from offset off, as far as there is text, and returns how many
// bytes it read. Where bytes are kept nowhere, it jumps over them and reports
// their number in gap: the text then begins at off+gap. At the end it returns
// io.EOF with what it read.
func (l *Log) ReadAt(p []byte, off int64) (n int, gap int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if off < 0 {
		return 0, 0, fmt.Errorf("output: offset %d is below zero", off)
	}
	if off >= l.total {
		return 0, 0, io.EOF
	}
	if next := l.kept(off); next > off {
		gap = next - off
	}
	at := off + gap
	for n < len(p) && at < l.total && l.kept(at) == at {
		k, err := l.readKept(p[n:], at)
		if err != nil {
			return n, gap, err
		}
		n, at = n+k, at+int64(k)
	}
	if at >= l.total {
		err = io.EOF
	}
	return n, gap, err
}

// kept is the first offset from off on whose byte is kept.
func (l *Log) kept(off int64) int64 {
	if off < int64(len(l.head)) {
		return off
	}
	first := max(l.total-TailBytes, 0)
	if off >= first {
		return off
	}
	if l.spool != nil {
		if next, ok := l.spool.kept(off); ok && next < first {
			return next
		}
	}
	return first
}

// readKept reads at an offset that is kept, up to the end of the place that has it.
func (l *Log) readKept(p []byte, at int64) (int, error) {
	first := max(l.total-TailBytes, 0)
	switch {
	case at < int64(len(l.head)):
		return copy(p, l.head[at:]), nil
	case at >= first:
		p = p[:min(int64(len(p)), l.total-at)]
		n := 0
		for n < len(p) {
			n += copy(p[n:], l.tail[int((at+int64(n))%TailBytes):])
		}
		return n, nil
	}
	return l.spool.read(p, at)
}

// Close gives the spool up. Memory stays readable.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spool == nil {
		return nil
	}
	s := l.spool
	l.spool = nil
	return s.f.Close()
}

// spool keeps the first head bytes of a stream in order, and behind them, in a
// ring, the last ones.
type spool struct {
	f          *os.File
	head, ring int64
	end        int64 // of what was written
}

func newSpool(f *os.File, limit int64) *spool {
	head := min(spoolHead, limit/2)
	return &spool{f: f, head: head, ring: limit - head}
}

// place is where the byte at off stands, and how many follow it there.
func (s *spool) place(off int64) (at, run int64) {
	if off < s.head {
		return off, s.head - off
	}
	i := (off - s.head) % s.ring
	return s.head + i, s.ring - i
}

func (s *spool) write(p []byte, off int64) error {
	for len(p) > 0 {
		at, run := s.place(off)
		if off >= s.head && int64(len(p)) > s.ring { // only the end of it will be left
			skip := int64(len(p)) - s.ring
			p, off = p[skip:], off+skip
			continue
		}
		n := min(int64(len(p)), run)
		if _, err := s.f.WriteAt(p[:n], at); err != nil {
			return err
		}
		p, off = p[n:], off+n
		s.end = off
	}
	return nil
}

// kept is the first offset from off on that the spool has.
func (s *spool) kept(off int64) (int64, bool) {
	if off < min(s.head, s.end) {
		return off, true
	}
	first := max(s.head, s.end-s.ring)
	next := max(off, first)
	return next, next < s.end
}

func (s *spool) read(p []byte, off int64) (int, error) {
	at, run := s.place(off)
	n := min(int64(len(p)), run, s.end-off)
	k, err := s.f.ReadAt(p[:n], at)
	if k == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	if k > 0 {
		err = nil
	}
	return k, err
}
