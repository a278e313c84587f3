package catalog

import (
	"errors"
	"slices"

	"github.com/wasmtools/wasmtools/tool"
)

var errNoRanker = errors.New("there is no ranker")

// exposed lists the items that are exposed by now.
func (p *plan) exposed() []int {
	var l []int
	for i := range p.list.Items {
		if p.list.Items[i].State == Exposed {
			l = append(l, i)
		}
	}
	return l
}

// pinned reports whether a tool is never ranked out: what the runtime brings
// itself, and what its program pinned.
func (p *plan) pinned(i int) bool {
	if i >= len(p.list.snapshot.entries) {
		return true // the catalog's own
	}
	e := &p.list.snapshot.entries[i]
	return e.origin.Source == tool.Builtin || e.origin.Source == tool.Native || p.pins[e.folded]
}

// exposure bounds the list. What fits is never ranked.
func (p *plan) exposure() {
	l := &p.list
	if p.facts.Exposure == ExposeAll {
		return
	}
	all := p.exposed()
	var others []int
	for _, i := range all {
		if l.Items[i].Pinned = p.pinned(i); !l.Items[i].Pinned {
			others = append(others, i)
		}
	}
	if len(all) <= Limit || len(others) == 0 {
		return
	}
	if p.facts.Exposure == ExposeStable {
		p.leave(others, "there are more tools than fit")
		return
	}
	room := max(0, Limit-(len(all)-len(others)))
	keep := p.best(others, room)
	for _, i := range others {
		if !keep[i] {
			it := &l.Items[i]
			it.State, it.Stage, it.Code = Available, StageExposure, tool.NotExposed
			it.Reason = "other tools fit the request better"
			if it.Rank == 0 {
				it.Reason = "there are more tools than fit"
			}
		}
	}
}

// best chooses n of the tools, by the request. Where the ranker has nothing to
// say, the order of the registry decides.
func (p *plan) best(among []int, n int) map[int]bool {
	l := &p.list
	hits, err := l.snapshot.rank(Query{Request: p.facts.Request, Context: p.facts.Context, Pack: p.facts.Pack}, among, len(among))
	if err != nil {
		l.note("tools were not ranked, so the first ones are shown: %v", err)
		hits = nil
	}
	keep := make(map[int]bool, n)
	for rank, h := range hits {
		it := &l.Items[h.Document]
		it.Rank, it.Score = rank+1, h.Score
		if len(keep) < n {
			keep[h.Document] = true
		}
	}
	for _, i := range among {
		if len(keep) == n {
			break
		}
		keep[i] = true
	}
	return keep
}

// Lookup finds a tool by its exact name, whatever state it is in.
func (l List) Lookup(name string) (Item, bool) {
	if l.snapshot == nil {
		return Item{}, false
	}
	i, ok := l.snapshot.byName[name]
	if !ok {
		i, ok = l.extra[name]
	}
	if !ok {
		return Item{}, false
	}
	return l.Items[i], true
}

// Exposed returns the definitions that the model is shown, in the order of the
// registry, which does not depend on the request: prompt caches hold.
func (l List) Exposed() []tool.Definition {
	var out []tool.Definition
	for i := range l.Items {
		if l.Items[i].State == Exposed {
			out = append(out, l.Items[i].Definition)
		}
	}
	return out
}

// Nearest returns up to n names of tools that can be called and look like name,
// best first, for an error text.
func (l List) Nearest(name string, n int) []string {
	type scored struct {
		name string
		d    int
	}
	var s []scored
	for i := range l.Items {
		it := &l.Items[i]
		if it.State != Exposed && !it.Deferred {
			continue
		}
		if d := editDistance(name, it.Definition.Name); d <= max(3, len(name)/2) {
			s = append(s, scored{it.Definition.Name, d})
		}
	}
	slices.SortStableFunc(s, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, x := range s[:min(n, len(s))] {
		out = append(out, x.name)
	}
	return out
}
