package evidence

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/wasmtools/wasmtools/tool"
)

// What stands behind the record's end, or is missing before it, is settled by
// whoever appends next. Nothing is taken away or written over: what is no record
// stays where it is, and a new segment begins that says so. The reasons:
const (
	whyTorn    = "torn"    // a process was killed while it wrote
	whyPower   = "power"   // the machine stopped before what was written was flushed
	whyForeign = "foreign" // complete lines that the key does not vouch for
	whyRemoved = "removed" // something is missing that no crash takes away
	whyHead    = "head"    // the head is missing or damaged
)

// segmentMembers is the first line of a segment but the first one.
type segmentMembers struct {
	Number  uint64    `json:"number"`
	Prev    string    `json:"prev"` // the hash before
	Skipped []skipped `json:"skipped,omitempty"`
	Lost    *span     `json:"lost,omitempty"` // numbers of lines that were written and are not there
	Why     string    `json:"why,omitempty"`
}

// skipped are bytes at the end of a segment that are no records.
type skipped struct {
	Segment uint64      `json:"segment"`
	Offset  int64       `json:"offset"`
	Bytes   int64       `json:"bytes"`
	Digest  tool.Digest `json:"digest"` // of the first 16 MiB of them
}

type span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// maxSkipDigest bounds what is read of bytes that are no records.
const maxSkipDigest = 16 << 20

// settle compares the open segment with the head, and is done at once when
// they agree. At a process's start everything that may not have reached the disk
// is looked at if the machine was started since. The lock is held.
func (w *writer) settle(starting bool) error {
	fi, err := w.seg.Stat()
	if err != nil {
		return err
	}
	if gone(fi) {
		return w.fail(fmt.Errorf("the folder %s was removed while it was in use", w.o.Dir))
	}
	size, end := fi.Size(), &w.head.end
	same := w.sameBoot()
	if size == end.offset && (same || !starting) {
		return nil
	}
	from := *end
	if !same && starting || size < end.offset {
		from = w.head.durable
	}
	if size < end.offset && same || size < from.offset || from.segment != end.segment {
		return w.afterRemoval()
	}
	t, err := scanTail(w.seg, from, size, w.chain, same)
	if err != nil {
		return err
	}
	switch {
	case t.clean() && t.end.seq >= end.seq:
		if t.end == *end && w.head.boot == w.boot {
			return nil
		}
		w.head.end, w.head.boot = t.end, w.boot
		return w.head.write(w.headFile, w.key.mac, w.raw[:])
	case t.end.seq >= end.seq:
		m := segmentMembers{Why: t.why(), Skipped: t.skipped(w.segment)}
		return w.newSegment(m, t.end)
	case same:
		return w.afterRemoval()
	}
	m := segmentMembers{Why: whyPower, Skipped: t.skipped(w.segment), Lost: &span{t.end.seq + 1, end.seq}}
	if t.foreign {
		m.Why = whyForeign
	}
	t.end.seq = end.seq // a number is never given twice
	return w.newSegment(m, t.end)
}

// sameBoot reports whether the kernel that took the last line still runs, and so
// has lost nothing.
func (w *writer) sameBoot() bool { return w.boot != [16]byte{} && w.boot == w.head.boot }

// tail is what stands behind a known position.
type tail struct {
	end     position // of the last line that follows from it
	bytes   int64    // after that: no records
	digest  tool.Digest
	foreign bool // among them a complete line
}

func (t *tail) clean() bool { return t.bytes == 0 }

func (t *tail) why() string {
	if t.foreign {
		return whyForeign
	}
	return whyTorn
}

func (t *tail) skipped(segment uint64) []skipped {
	if t.clean() {
		return nil
	}
	return []skipped{{segment, t.end.offset, t.bytes, t.digest}}
}

// scanTail follows the chain from a position to the end of a file of the given
// size, within the boot in which it was written or after it.
func scanTail(f io.ReaderAt, from position, size int64, c *chain, same bool) (tail, error) {
	t := tail{end: from}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from.offset, size-from.offset), 64<<10)
	for {
		p, n, err := readLine(r)
		if err == io.EOF {
			break
		} else if err != nil {
			return t, err
		}
		l, ok := parseLine(p)
		if !ok || l.seq != t.end.seq+1 || !c.follows(&t.end.hash, &l) {
			break
		}
		t.end.seq, t.end.hash = l.seq, l.hash
		t.end.offset += n
	}
	t.bytes = size - t.end.offset
	if t.bytes == 0 {
		return t, nil
	}
	rest := make([]byte, min(t.bytes, maxSkipDigest))
	if _, err := f.ReadAt(rest, t.end.offset); err != nil && !errors.Is(err, io.EOF) {
		return t, err
	}
	t.digest, t.foreign = tool.DigestOf(rest), c.foreign(rest, same)
	return t, nil
}

// follows checks hash and code of a line.
func (c *chain) follows(prev *sum, l *line) bool {
	return c.next(prev, l.body) == l.hash && c.vouches(l)
}

// vouches checks the code alone; true without a key.
func (c *chain) vouches(l *line) bool {
	if c.mac == nil {
		return true
	}
	m := c.code(&l.hash)
	return hmac.Equal(m[:], l.mac[:])
}

// foreign reports whether p, which follows the end of the chain, is something
// that nobody of ours can have left there. A process that is killed leaves the
// beginning of one line. A crash of the machine can leave anything that was
// written, in pieces and with rubbish between, but no whole line that the key
// does not vouch for.
func (c *chain) foreign(p []byte, same bool) bool {
	if same {
		const begins = `{"hash":"`
		n := min(len(p), len(begins))
		return bytes.IndexByte(p, '\n') >= 0 || string(p[:n]) != begins[:n]
	}
	for len(p) > 0 {
		text, rest, complete := bytes.Cut(p, []byte("\n"))
		if l, ok := parseLine(text); ok && complete && !c.vouches(&l) {
			return true
		}
		p = rest
	}
	return false
}

// readLine returns the next line without its end, and how many bytes it takes
// with it; nil for one of more than maxLine bytes, which is passed over. It
// returns io.EOF when no complete line is left. What it returns is good until the
// next call.
func readLine(r *bufio.Reader) (p []byte, n int64, err error) {
	p, err = r.ReadSlice('\n')
	if err == nil {
		return p[:len(p)-1], int64(len(p)), nil
	}
	var long []byte
	for n = int64(len(p)); ; n += int64(len(p)) {
		if n <= maxLine+1 {
			long = append(long, p...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		p, err = r.ReadSlice('\n')
	}
	switch {
	case err != nil:
		return nil, n, err
	case n > maxLine+1:
		return nil, n, nil
	}
	return long[:len(long)-1], n, nil
}

// newSegment begins the segment after the present one; its first line goes on
// from prev, which is where the chain stands.
func (w *writer) newSegment(m segmentMembers, prev position) error {
	number := w.head.end.segment
	var f *os.File
	for range 1000 {
		number++
		var err error
		f, err = openOwn(w.path(segmentName(number)), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
		if err == nil {
			break
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A process was killed between making this file and saying so.
		left, foreign, err := w.leftOver(number)
		if err != nil {
			return err
		}
		m.Skipped = append(m.Skipped, left)
		switch {
		case foreign:
			m.Why = whyForeign
		case m.Why == "":
			m.Why = whyTorn
		}
	}
	if f == nil {
		return w.fail(fmt.Errorf("no free segment in %s", w.o.Dir))
	}
	m.Number, m.Prev = number, hex.EncodeToString(prev.hash[:])
	at := position{prev.seq, prev.hash, number, 0}
	line := w.chain.appendLine(nil, &at, w.writerOf(at), w.now(), typeSegment, 0, encode(m))
	_, err := f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(w.o.Dir)
	}
	if err != nil {
		f.Close()
		_ = os.Remove(w.path(segmentName(number))) // nothing vouches for it yet
		return err
	}
	if w.seg != nil {
		w.seg.Close()
	}
	w.seg, w.segment = f, number
	w.head.end, w.head.durable, w.head.boot = at, at, w.boot
	if err := w.head.write(w.headFile, w.key.mac, w.raw[:]); err != nil {
		return err
	}
	return w.headFile.Sync()
}

// leftOver describes a segment that the head does not know.
func (w *writer) leftOver(number uint64) (s skipped, foreign bool, err error) {
	f, err := openOwn(w.path(segmentName(number)), os.O_RDONLY)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return s, false, err
	}
	p, err := io.ReadAll(io.LimitReader(f, maxSkipDigest))
	return skipped{number, 0, fi.Size(), tool.DigestOf(p)}, !w.chain.begun(p), err
}

// begun reports whether p can be what is left of the beginning of a segment:
// its first line or a part of it, or zeros where the machine stopped.
func (c *chain) begun(p []byte) bool {
	first, rest, complete := bytes.Cut(p, []byte("\n"))
	if complete {
		l, ok := parseLine(first)
		return ok && l.typ == typeSegment && c.vouches(&l) && len(rest) == 0
	}
	return !c.foreign(p, true) || len(bytes.Trim(p, "\x00")) == 0
}

// afterRemoval goes on after something that was certainly there is not any
// more. The record says so for ever; refusing to record would help whoever
// removed it.
func (w *writer) afterRemoval() error {
	return w.newSegment(segmentMembers{Why: whyRemoved}, w.head.end)
}

// afterDamage goes on when the head's file was damaged while this process
// runs.
func (w *writer) afterDamage(raw [headSize]byte) error {
	numbers, err := listSegments(w.o.Dir)
	if err != nil {
		return err
	}
	w.raw = raw
	return w.headLost(numbers)
}

// headLost goes on from the last line that can be found, or that this process
// knows of.
func (w *writer) headLost(numbers []uint64) error {
	h := head{log: w.head.log, boot: w.boot, count: w.head.count, end: w.head.end}
	for _, n := range numbers {
		end, log, err := w.followSegment(n)
		if err != nil {
			return err
		}
		if end.seq > h.end.seq {
			h.end.seq, h.end.hash = end.seq, end.hash
		}
		if log != [16]byte{} {
			h.log = log
		}
		h.end.segment = max(h.end.segment, n)
	}
	w.head = h
	return w.newSegment(segmentMembers{Why: whyHead}, h.end)
}

// followSegment returns the last line of a segment that the key vouches for.
func (w *writer) followSegment(n uint64) (end position, log [16]byte, err error) {
	f, err := openOwn(w.path(segmentName(n)), os.O_RDONLY)
	if err != nil {
		return end, log, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		p, _, err := readLine(r)
		if err == io.EOF {
			return end, log, nil
		} else if err != nil {
			return end, log, err
		}
		l, ok := parseLine(p)
		if !ok || !w.chain.vouches(&l) {
			continue
		}
		end.seq, end.hash = l.seq, l.hash
		if l.typ == typeLog {
			log = logID(&l)
		}
	}
}

// openSegment opens segment n for appending.
func (w *writer) openSegment(n uint64) error {
	f, err := openOwn(w.path(segmentName(n)), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	if w.seg != nil {
		// Whoever began the next segment flushed this one.
		w.seg.Close()
	}
	w.seg, w.segment = f, n
	return nil
}

func (w *writer) createSegment(n uint64) error {
	f, err := openOwn(w.path(segmentName(n)), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	w.seg, w.segment = f, n
	return nil
}

// ownFolder makes the folder of a record and its parents, and refuses one that
// is not ours alone.
func ownFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is a link or a file, not a folder", dir)
	}
	return checkPrivate(fi, dir)
}

// openOwn opens a file of the record's folder, which is ours alone.
func openOwn(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// listSegments gives the numbers of the segments in a folder, in order.
func listSegments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []uint64
	for _, e := range entries {
		if n, ok := segmentNumber(e.Name()); ok {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}
