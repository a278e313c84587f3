package evidence

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
)

// Export writes all lines to w as they stand, for somebody who has neither the
// folder nor the key: [VerifyExport] checks them against the public half. With
// choose, only its lines are written; those are no chain any more.
func (r *Reader) Export(w io.Writer, choose func(*Line) bool) (lines int, err error) {
	unlock, err := r.Lock("prune", true)
	if err == nil { // else the record is on a read-only disk, where nobody prunes
		defer unlock()
	}
	bw := bufio.NewWriterSize(w, 256<<10)
	for l, err := range r.Lines(Cursor{}) {
		if err != nil {
			return lines, err
		}
		if choose != nil && !choose(l) {
			continue
		}
		if _, err := bw.Write(append(l.Raw, '\n')); err != nil {
			return lines, err
		}
		lines++
	}
	return lines, bw.Flush()
}

// VerifyExport checks lines that were exported: that they are one chain without
// gaps, and signed with the key whose public half is given (from an anchor, or
// from [Report.Key]). "" takes the key that the lines themselves name, which only
// shows that somebody made them in one piece.
//
// Unlike [Verify] it knows no end: what follows the last signature, Report.Signed,
// is chained and not signed, and lines may have been cut off behind it.
func VerifyExport(r io.Reader, public string, anchors []Anchor) (Report, error) {
	v := &verifier{public: public}
	v.report = Report{Faults: []Fault{}, Segments: 1, Key: public}
	rep := &v.report
	c := newChain(nil)
	br := bufio.NewReaderSize(r, 256<<10)
	seg := &segmentCheck{name: "line", wanted: map[uint64]bool{}, found: map[uint64]sum{}}
	for _, a := range anchors {
		seg.wanted[a.Seq] = true
	}
	var log [16]byte
	type signature struct {
		seq  uint64
		hash sum
		sig  string
	}
	var last *signature
	var at position
	var prunes []prunedMembers
	var start *segmentCheck
	for n := 1; ; n++ {
		p, size, err := readLine(br)
		if err == io.EOF {
			if size > 0 {
				rep.fault(Fault{Kind: Damaged, Line: n, Text: "the last line is not whole"})
			}
			break
		} else if err != nil {
			return *rep, err
		}
		fault := func(kind string, seq uint64, format string, args ...any) {
			rep.fault(Fault{Kind: kind, Segment: "export", Line: n, Seq: seq, Text: fmt.Sprintf(format, args...)})
		}
		l, ok := parseLine(p)
		if !ok {
			fault(Damaged, 0, "this is no record")
			continue
		}
		one := &segmentCheck{number: 1, name: "export", typ: l.typ, first: position{seq: l.seq}, wanted: seg.wanted, found: seg.found}
		prev := at.hash
		switch {
		case n == 1:
			if prev, ok = one.begin(&l); !ok {
				fault(Missing, l.seq, "the export begins with record %d, not with the beginning of a segment", l.seq)
				prev = sum{}
			}
			one.prev, start = prev, one
			rep.First, at.seq = l.seq, l.seq-1
		case l.typ == typeSegment && l.unmarshal(&one.header):
		}
		expect := at.seq + 1
		if lost := one.header.Lost; lost != nil && lost.From == expect && lost.To+1 == l.seq {
			rep.note(Fault{Kind: whyPower, Segment: "export", Line: n, Seq: l.seq, Text: records(lost.From, lost.To, "was", "were") + " not flushed when the machine stopped"})
			expect = l.seq
		}
		switch {
		case l.seq > expect:
			fault(Missing, l.seq, "%s", records(expect, l.seq-1, "is missing", "are missing"))
		case l.seq < expect:
			fault(Reordered, l.seq, "record %d stands where %d should", l.seq, expect)
			continue
		case c.next(&prev, l.body) != l.hash:
			fault(Edited, l.seq, "record %d is not as it was written", l.seq)
		}
		one.accept(&l, &prev, position{l.seq, l.hash, 1, 0})
		seg.calls = append(seg.calls, one.calls...)
		prunes = append(prunes, one.prunes...)
		if one.about != nil {
			log = logID(&l)
			rep.Log, rep.Workspace = one.about.Log, one.about.Workspace
			switch {
			case v.public == "":
				v.public, rep.Key = one.about.Key, one.about.Key
			case v.public != one.about.Key:
				fault(Unsigned, l.seq, "the record was begun with another key")
			}
		}
		if one.sig != "" {
			last = &signature{one.signed, one.signedHash, one.sig}
		}
		rep.Records++
		at = position{seq: l.seq, hash: l.hash}
	}
	rep.Last, v.found = at.seq, seg.found
	if log == [16]byte{} { // the beginning was pruned: an anchor knows the name
		for _, a := range anchors {
			if n, err := hex.Decode(log[:], []byte(cutTo(a.Log, 32))); err == nil && n == len(log) {
				rep.Log = a.Log
				break
			}
		}
	}
	v.head.log = log
	if start != nil && start.first.seq > 1 {
		explained := false
		for _, p := range prunes {
			explained = explained || v.explains(p, start)
		}
		if explained {
			rep.Pruned = start.first.seq - 1
		} else {
			rep.fault(Fault{Kind: Missing, Segment: "export", Line: 1, Seq: start.first.seq, Text: "nothing signed explains why " + records(1, start.first.seq-1, "is missing", "are missing")})
		}
	}
	switch {
	case last == nil:
		rep.fault(Fault{Kind: Unsigned, Segment: "export", Text: "nothing in it is signed"})
	case !verifySig(v.public, last.sig, statement(typeCheckpoint, log, last.seq, last.hash, "")):
		rep.fault(Fault{Kind: Unsigned, Segment: "export", Seq: last.seq + 1, Text: fmt.Sprintf("the signature over record %d does not hold", last.seq)})
	default:
		rep.Signed = last.seq
	}
	v.calls([]*segmentCheck{seg})
	v.anchors(anchors)
	rep.OK = rep.FaultsTotal == 0
	return *rep, nil
}
