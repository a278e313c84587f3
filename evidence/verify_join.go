package evidence

import (
	"encoding/hex"
	"fmt"
	"slices"
)

// join follows the chain from segment to segment.
func (v *verifier) join(checks []*segmentCheck) {
	r := &v.report
	var prunes []prunedMembers
	for _, c := range checks {
		prunes = append(prunes, c.prunes...)
		if c.about != nil && v.public == "" {
			v.public = c.about.Key
		}
	}
	var before *segmentCheck
	for _, c := range checks {
		r.Segments++
		r.Records += c.records
		for _, f := range c.faults {
			r.fault(f)
		}
		r.FaultsTotal += c.more
		if c.records == 0 {
			continue
		}
		v.identity(c)
		v.border(before, c, prunes)
		if r.First == 0 {
			r.First = c.first.seq
		}
		v.last, before, r.Last = c.end, c, c.end.seq
		if c.signed > 0 {
			if verifySig(v.public, c.sig, statement(typeCheckpoint, v.head.log, c.signed, c.signedHash, "")) {
				r.Signed = c.signed
			} else {
				r.fault(Fault{Kind: Unsigned, Segment: c.name, Seq: c.signed + 1, Text: fmt.Sprintf("the signature over record %d does not hold", c.signed)})
			}
		}
	}
}

// restarted reports whether the machine may have been started since the last
// line, so that what was not flushed may be lost.
func (v *verifier) restarted() bool { return v.boot == [16]byte{} || v.boot != v.head.boot }

// identity holds the record's first line against key and head.
func (v *verifier) identity(c *segmentCheck) {
	if c.about == nil {
		return
	}
	r := &v.report
	r.Workspace = c.about.Workspace
	if v.headed && c.about.Log != hex.EncodeToString(v.head.log[:]) {
		r.fault(Fault{Kind: Unsigned, Segment: c.name, Seq: c.first.seq, Text: "the head is that of another record"})
	}
	if v.key != nil && c.about.Key != v.key.public() {
		r.fault(Fault{Kind: Unsigned, Segment: c.name, Seq: c.first.seq, Text: "the record was begun with another key"})
	}
}

// border judges where c begins, after before.
func (v *verifier) border(before, c *segmentCheck, prunes []prunedMembers) {
	r := &v.report
	if c.records == 0 {
		return
	}
	seq, hash := uint64(0), sum{}
	if before != nil {
		seq, hash = before.end.seq, before.end.hash
	}
	at := Fault{Kind: Missing, Segment: c.name, Line: 1, Seq: c.first.seq}
	if c.typ == typeSegment && c.header.Number != c.number {
		r.fault(Fault{Kind: Reordered, Segment: c.name, Line: 1, Seq: c.first.seq, Text: fmt.Sprintf("says that it is segment %d", c.header.Number)})
	}
	if before == nil && c.first.seq > 1 {
		if i := slices.IndexFunc(prunes, func(p prunedMembers) bool { return v.explains(p, c) }); i >= 0 {
			r.Pruned = prunes[i].Through
			seq, hash = prunes[i].Through, c.prev
		} else {
			at.Text = records(1, c.first.seq-1, "is missing", "are missing")
			r.fault(at)
			seq, hash = c.first.seq-1, c.prev
		}
	}
	lost := c.header.Lost
	switch {
	case lost != nil && lost.From == seq+1 && lost.To+1 == c.first.seq && c.prev == hash:
		r.note(Fault{Kind: whyPower, Segment: c.name, Line: 1, Seq: c.first.seq, Text: records(lost.From, lost.To, "was", "were") + " not flushed when the machine stopped"})
	case c.first.seq > seq+1:
		at.Text = records(seq+1, c.first.seq-1, "is missing", "are missing")
		r.fault(at)
	case c.first.seq < seq+1:
		at.Kind, at.Text = Reordered, fmt.Sprintf("begins with record %d where %d should be", c.first.seq, seq+1)
		r.fault(at)
	case c.prev != hash && (before == nil || !before.dubious):
		at.Kind, at.Text = Edited, fmt.Sprintf("record %d does not follow from record %d", c.first.seq, seq)
		r.fault(at)
	}
	switch c.header.Why {
	case whyRemoved:
		r.fault(Fault{Kind: Missing, Segment: c.name, Line: 1, Seq: c.first.seq, Text: fmt.Sprintf("the process that wrote record %d found that records before it had been removed", c.first.seq)})
	case whyHead:
		r.fault(Fault{Kind: Unsigned, Segment: c.name, Line: 1, Seq: c.first.seq, Text: fmt.Sprintf("the process that wrote record %d found the head missing or damaged; records before it may be missing", c.first.seq)})
	case whyForeign:
		r.fault(Fault{Kind: Forged, Segment: c.name, Line: 1, Seq: c.first.seq, Text: fmt.Sprintf("the process that wrote record %d found lines before it that the key does not vouch for", c.first.seq)})
	}
}

// explains reports whether p, if it is signed, says why nothing stands before c.
func (v *verifier) explains(p prunedMembers, c *segmentCheck) bool {
	return p.Hash == hex.EncodeToString(c.prev[:]) && p.Through < c.first.seq && p.Through+1 >= c.first.seq-c.lostBefore() &&
		verifySig(v.public, p.Sig, statement(typePruned, v.head.log, p.Through, c.prev, ""))
}

func (c *segmentCheck) lostBefore() uint64 {
	if l := c.header.Lost; l != nil && l.To >= l.From {
		return l.To - l.From + 1
	}
	return 0
}

// tail holds the end of the record against the head.
func (v *verifier) tail(checks []*segmentCheck) {
	if !v.headed {
		return
	}
	r, h := &v.report, &v.head
	at := Fault{Kind: Missing}
	if len(checks) > 0 {
		at.Segment = checks[len(checks)-1].name
	}
	switch {
	case v.last.seq < h.durable.seq, v.last.seq < h.end.seq && !v.restarted():
		at.Text = fmt.Sprintf("the record ends with %d, but %d was written: ", v.last.seq, h.end.seq) + records(v.last.seq+1, h.end.seq, "is missing", "are missing")
		r.fault(at)
	case v.last.seq < h.end.seq:
		at.Kind, at.Text = whyPower, records(v.last.seq+1, h.end.seq, "was", "were")+" not flushed when the machine stopped"
		r.note(at)
	default:
		if got, ok := v.found[h.end.seq]; h.end.seq > 0 && (!ok || got != h.end.hash) && r.FaultsTotal == 0 {
			at.Kind, at.Text = Edited, fmt.Sprintf("record %d is not the one that the head vouches for", h.end.seq)
			r.fault(at)
		}
	}
	for _, c := range checks {
		if c.number > h.end.segment && c.records > 1 {
			r.fault(Fault{Kind: Unsigned, Segment: c.name, Text: "stands after the end that the head vouches for"})
		}
	}
}

// calls joins intents and outcomes.
func (v *verifier) calls(checks []*segmentCheck) {
	type state struct {
		writer  uint64
		outcome bool
	}
	r := &v.report
	open := map[uint64]*state{}
	ended := map[uint64]bool{} // processes
	for _, c := range checks {
		for _, e := range c.calls {
			switch e.typ {
			case typeIntent:
				r.Calls++
				open[e.seq] = &state{writer: e.writer}
			case typeOutcome:
				s := open[e.of]
				switch {
				case s == nil && e.of < r.First:
				case s == nil:
					r.fault(Fault{Kind: Unjoined, Segment: c.name, Seq: e.seq, Text: fmt.Sprintf("record %d is an outcome of call %d, which has none or no intent", e.seq, e.of)})
				case e.waiting:
					s.outcome = true
				default:
					delete(open, e.of)
				}
			case typeClose:
				ended[e.writer] = true
			case typeGone:
				ended[e.of] = true
			}
		}
	}
	for _, s := range open {
		switch {
		case s.outcome:
			r.Waiting++
		case v.living[s.writer] && !ended[s.writer]:
			r.Running++
		default:
			r.Interrupted++
		}
	}
}

// anchors holds the record against what was kept elsewhere.
func (v *verifier) anchors(list []Anchor) {
	r := &v.report
	same := false
	for _, a := range list {
		if a.Log != r.Log {
			continue
		}
		same = true
		got, ok := v.found[a.Seq]
		switch {
		case a.Key != v.public || !a.check():
			r.fault(Fault{Kind: Unsigned, Seq: a.Seq, Text: fmt.Sprintf("the anchor of %s was signed with another key", a.Time.Format("2006-01-02 15:04:05"))})
		case ok && hex.EncodeToString(got[:]) == a.Hash:
			r.Anchored = max(r.Anchored, a.Seq)
		case ok:
			r.fault(Fault{Kind: Edited, Seq: a.Seq, Text: fmt.Sprintf("record %d is not the one that was anchored on %s", a.Seq, a.Time.Format("2006-01-02 15:04:05"))})
		case a.Seq <= r.Pruned:
			r.note(Fault{Kind: "pruned", Seq: a.Seq, Text: fmt.Sprintf("record %d was anchored and has been removed on purpose since", a.Seq)})
		default:
			r.fault(Fault{Kind: Missing, Seq: a.Seq, Text: fmt.Sprintf("record %d was anchored on %s and is missing", a.Seq, a.Time.Format("2006-01-02 15:04:05"))})
		}
	}
	if len(list) > 0 && !same {
		r.fault(Fault{Kind: Missing, Text: "none of the anchors is of this record: it was begun anew, or the anchors belong to another one"})
	}
}
