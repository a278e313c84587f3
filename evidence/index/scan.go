package index

import (
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
)

// Scan gives what [Index.List] gives, without any index: it reads the whole
// record. It is for a record on a disk that cannot be written to, and it is what
// the index is tested against.
func Scan(record *evidence.Reader, f Filter) ([]Row, error) {
	var list []Row
	for c, err := range record.Calls(time.Time{}) {
		if err != nil {
			return nil, err
		}
		r, paths, hosts := rowOf(c)
		if f.chooses(&r, c, paths, hosts) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Row) int {
		if len(a.ID) != len(b.ID) { // decimal numbers without leading zeros
			return len(b.ID) - len(a.ID)
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list, nil
}

func rowOf(c *evidence.Call) (r Row, paths, hosts []string) {
	in := &c.Intent
	r = Row{
		ID: c.Handle, At: c.At, Status: c.Status, Call: in.Call, Turn: in.Turn, Session: in.Session, Tool: in.Tool,
		Source: in.Source, Module: in.Module, Effects: in.Effects.Strings(), Redacted: c.Redacted,
	}
	paths, hosts = named(in.Arguments)
	r.Summary = summary(paths, hosts)
	decided := func(a evidence.Approval) {
		a = decision(a)
		for _, p := range []struct {
			to  *string
			new string
		}{{&r.Approver, a.By}, {&r.Channel, a.Channel}, {&r.Rule, rule(a.Rule)}, {&r.Ticket, a.Ticket}} {
			if p.new != "" {
				*p.to = p.new
			}
		}
	}
	// Events and outcomes in the order in which they were written.
	outcomes := slices.Clone(c.Earlier)
	if c.Outcome != nil {
		outcomes = append(outcomes, evidence.CallOutcome{At: c.Ended, Outcome: *c.Outcome})
	}
	events := c.Events
	for len(events) > 0 || len(outcomes) > 0 {
		if len(outcomes) == 0 || len(events) > 0 && !events[0].At.After(outcomes[0].At) {
			if a := events[0].Approval; a != nil {
				decided(*a)
			}
			paths = append(paths, written(events[0].Writes)...)
			events = events[1:]
			continue
		}
		o := &outcomes[0]
		decided(o.Approval)
		own := append(written(o.Writes), o.Used.Paths...)
		paths, hosts = append(paths, own...), append(hosts, o.Used.Hosts...)
		if r.Summary == "" {
			r.Summary = summary(own, o.Used.Hosts)
		}
		r.Ended, r.Code = o.At, o.Code
		outcomes = outcomes[1:]
	}
	return r, paths, hosts
}

func (f *Filter) chooses(r *Row, c *evidence.Call, paths, hosts []string) bool {
	switch {
	case !f.Since.IsZero() && r.At.Before(f.Since.Truncate(time.Microsecond)),
		!f.Until.IsZero() && !r.At.Before(f.Until.Truncate(time.Microsecond)),
		!matches(f.Tool, r.Tool), !matches(f.Approver, r.Approver),
		f.Session != "" && f.Session != r.Session, f.Call != "" && f.Call != r.Call, f.Ticket != "" && f.Ticket != r.Ticket,
		len(f.Status) > 0 && !slices.Contains(f.Status, r.Status),
		f.Effects != 0 && !c.Intent.Effects.Any(f.Effects),
		f.Before != "" && (len(r.ID) > len(f.Before) || len(r.ID) == len(f.Before) && r.ID >= f.Before):
		return false
	}
	if p := cleanPath(f.Path); p != "" && !slices.ContainsFunc(paths, func(have string) bool {
		have = cleanPath(have)
		return matches(p, have) || !strings.ContainsAny(p, "*?") && strings.HasPrefix(have, p+"/")
	}) {
		return false
	}
	return f.Host == "" || slices.ContainsFunc(hosts, func(have string) bool { return matches(strings.ToLower(f.Host), strings.ToLower(have)) })
}

// matches compares with a pattern in which * stands for anything and ? for one
// character. An empty pattern matches everything.
func matches(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	p, t := []rune(pattern), []rune(s)
	i, j, star, mark := 0, 0, -1, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
