package evidence

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
)

// segmentCheck is what one segment says for itself.
type segmentCheck struct {
	number uint64
	name   string
	wanted map[uint64]bool
	found  map[uint64]sum

	records int
	typ     string // of the first record
	first   position
	prev    sum // what the first record says that it follows
	end     position
	dubious bool // the last record is faulty itself

	header segmentMembers
	about  *logMembers
	prunes []prunedMembers
	calls  []callLine

	sig        string // the last signature in it
	signed     uint64 // is over this record
	signedHash sum

	faults []Fault
	more   int // that were not kept
}

// callLine is what joining needs to know of a line.
type callLine struct {
	typ     string
	seq     uint64
	of      uint64 // for gone: the process
	writer  uint64
	waiting bool
}

func (c *segmentCheck) fault(f Fault) {
	f.Segment = c.name
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	} else {
		c.more++
	}
}

// run follows the chain through the first limit bytes of the segment. Where a
// line does not follow, it finds out what happened there, and goes on with what
// the next lines say.
func (c *segmentCheck) run(path string, limit int64, ch *chain) error {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, limit), 256<<10)
	var (
		offset int64
		n      int
		prev   [2]sum // what the next line may follow: the hash that stands, and the one that should
		expect uint64
	)
	for {
		p, size, err := readLine(r)
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		n++
		at := offset
		offset += size
		fault := func(kind string, seq uint64, format string, args ...any) {
			c.fault(Fault{Kind: kind, Line: n, Offset: at, Seq: seq, Text: fmt.Sprintf(format, args...)})
			c.dubious = true
		}
		l, ok := parseLine(p)
		if !ok {
			fault(Damaged, 0, "this is no record")
			continue
		}
		end := position{l.seq, l.hash, c.number, offset}
		if c.records == 0 && expect == 0 {
			c.typ, c.first, expect = l.typ, position{seq: l.seq}, l.seq
			if c.prev, ok = c.begin(&l); !ok {
				fault(Missing, l.seq, "the beginning of the segment is missing: it begins with record %d", l.seq)
				c.take(&l, end)
				prev, expect = [2]sum{l.hash, l.hash}, l.seq+1
				continue
			}
			prev = [2]sum{c.prev, c.prev}
		}
		before := prev[0]
		follows := ch.next(&before, l.body) == l.hash
		if !follows && prev[1] != prev[0] {
			before = prev[1]
			follows = ch.next(&before, l.body) == l.hash
		}
		vouched := ch.vouches(&l)
		switch {
		case follows && vouched:
			if l.seq != expect && !c.dubious {
				fault(Reordered, l.seq, "record %d stands where %d should", l.seq, expect)
			}
			c.accept(&l, &before, end)
			prev, expect, c.dubious = [2]sum{l.hash, l.hash}, l.seq+1, false
		case follows:
			fault(Forged, l.seq, "the key does not vouch for record %d: somebody else wrote it", l.seq)
			prev[1] = l.hash
		case l.seq == expect || renumbered(ch, &l, expect, &prev[0]):
			fault(Edited, expect, "record %d is not as it was written", expect)
			end.seq = expect
			c.take(&l, end)
			prev = [2]sum{l.hash, ch.next(&prev[0], l.body)}
			expect++
		case l.seq > expect && vouched:
			fault(Missing, l.seq, "%s", records(expect, l.seq-1, "is missing", "are missing"))
			c.take(&l, end)
			prev, expect = [2]sum{l.hash, l.hash}, l.seq+1
		case l.seq > expect:
			fault(Forged, l.seq, "the key does not vouch for record %d", l.seq)
		default:
			fault(Reordered, l.seq, "record %d stands where %d should", l.seq, expect)
		}
	}
	if offset < limit {
		c.fault(Fault{Kind: Damaged, Line: n + 1, Offset: offset, Text: fmt.Sprintf("%d bytes at the end are no record", limit-offset)})
	}
	return nil
}

// begin returns the hash that the first line follows.
func (c *segmentCheck) begin(l *line) (prev sum, ok bool) {
	if l.typ == typeLog && l.seq == 1 && c.number == 1 {
		return prev, true
	}
	if l.typ != typeSegment || !l.unmarshal(&c.header) || len(c.header.Prev) != 2*len(prev) {
		c.header = segmentMembers{}
		return prev, false
	}
	_, err := hex.Decode(prev[:], []byte(c.header.Prev))
	return prev, err == nil
}

// take counts a line of which it is known that it is, or was, a record.
func (c *segmentCheck) take(l *line, end position) {
	c.records++
	c.end = end
	if c.wanted[l.seq] {
		c.found[l.seq] = l.hash
	}
}

// accept takes a good line, which follows before.
func (c *segmentCheck) accept(l *line, before *sum, end position) {
	c.take(l, end)
	switch l.typ {
	case typeIntent:
		c.calls = append(c.calls, callLine{typ: l.typ, seq: l.seq, writer: l.writer})
	case typeOutcome:
		prefix := `,"status":"` + string(Waiting) + `"`
		of := strconv.AppendUint([]byte(`,"of":`), l.of, 10)
		_, after, _ := bytes.Cut(l.body[:min(len(l.body), 256)], of)
		c.calls = append(c.calls, callLine{typ: l.typ, seq: l.seq, of: l.of, writer: l.writer, waiting: bytes.HasPrefix(after, []byte(prefix))})
	case typeClose, typeCheckpoint:
		var s signed
		if l.unmarshal(&s) {
			c.sig, c.signed, c.signedHash = s.Sig, l.seq-1, *before
		}
		if l.typ == typeClose {
			c.calls = append(c.calls, callLine{typ: l.typ, seq: l.seq, writer: l.writer})
		}
	case typeGone:
		var g struct{ Writer uint64 }
		if l.unmarshal(&g) {
			c.calls = append(c.calls, callLine{typ: l.typ, seq: l.seq, of: g.Writer})
		}
	case typeLog:
		var m logMembers
		if l.unmarshal(&m) {
			c.about = &m
		}
	case typePruned:
		var m prunedMembers
		if l.unmarshal(&m) {
			c.prunes = append(c.prunes, m)
		}
	}
}

// renumbered reports whether only the number of l was changed.
func renumbered(ch *chain, l *line, expect uint64, prev *sum) bool {
	_, rest, ok := number(l.body, `"seq":`)
	if !ok {
		return false
	}
	body := strconv.AppendUint([]byte(`"seq":`), expect, 10)
	return ch.next(prev, append(body, rest...)) == l.hash
}
