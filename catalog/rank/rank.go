// Package rank orders tools by how well they fit a request: by words and by runs
// of characters, in memory, without a network or a model.
//
// A score is the sum of two parts, each divided by its best in this query. The
// first is BM25 over fields (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework", 2009): the name, split into words, the descriptions of the tool, of
// its parameters and of its server. The second is the cosine of character 3- and
// 4-grams of name and description, which finds other forms of a word. Tools of the
// server that has the best tool are raised, because a task often takes several of
// them. The weights are round numbers that reference measurements left open; none
// was fitted to requests.
//
// The index is built once for a registry snapshot. Ranking allocates little, and
// equal scores keep the order of the registry, so that it is deterministic.
package rank

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/wasmtools/wasmtools/catalog"
)

// Options say what a ranker knows besides words.
type Options struct {
	// Vectors, if there are any, also find words of like meaning.
	Vectors *Vectors
}

// New makes a ranker. It is safe for concurrent use.
func New(o Options) catalog.Ranker { return ranker{o} }

type ranker struct{ o Options }

// The weights.
const (
	weightName        = 2.0
	weightText        = 1.0
	weightParameter   = 0.5
	weightParameterIs = 0.3
	weightServer      = 1.0
	weightAbout       = 0.5

	k1 = 1.2
	b  = 0.5

	// maxTimes is how often a word counts in one field: saying it again is no
	// reason to be found first.
	maxTimes = 4

	weightGrams   = 0.6
	serverBonus   = 0.3
	packBonus     = 0.15
	weightContext = 0.1 // of the request before this one
)

const fields = 6

var weights = [fields]float64{weightName, weightText, weightParameter, weightParameterIs, weightServer, weightAbout}

// index is made of the tools of one snapshot.
type index struct {
	n       int
	terms   postings
	grams   postings
	server  []int32 // of each tool; -1: none
	servers int
	packs   [][]string
	near    *neighbours // nil: no vectors

	scratch sync.Pool // *scratch
}

// postings are, for each term, the tools that have it, with what it adds to their
// scores.
type postings struct {
	ids    map[string]int32
	start  []int32 // of each term, in docs and gain; one more than terms
	docs   []int32
	gain   []float32
	weight []float32 // of each term, in a query
}

type scratch struct {
	words, grams, total []float64
	best                []float64 // by server
}

// Index implements [catalog.Ranker].
func (r ranker) Index(docs []catalog.Document) (catalog.Index, error) {
	x := &index{n: len(docs), server: make([]int32, len(docs)), packs: make([][]string, len(docs))}
	counts := make([]counted, len(docs))
	var sums [fields]float64
	words := newCounter()
	grams := newCounter()
	names := map[string]int32{}
	abouts := map[string][]fieldCount{} // a server's text is the same for all its tools
	for i := range docs {
		d := &docs[i]
		x.packs[i] = d.Packs
		x.server[i] = -1
		if d.Server != "" {
			id, ok := names[d.Server]
			if !ok {
				id = int32(len(names))
				names[d.Server] = id
			}
			x.server[i] = id
		}
		c := &counts[i]
		name := trimServer(d)
		c.field(words, 0, name)
		c.field(words, 1, d.Title+" "+d.Description)
		p, is := parameters(d.Input)
		c.field(words, 2, p)
		c.field(words, 3, is)
		key := d.Server + "\x00" + d.About
		about, ok := abouts[key]
		if !ok {
			var shared counted
			shared.field(words, 4, d.Server)
			shared.field(words, 5, d.About)
			about = shared.list
			abouts[key] = about
		}
		c.list = append(c.list, about...)
		for _, f := range c.list {
			sums[f.field] += float64(f.n)
			c.length[f.field] += float64(f.n)
		}
		c.gramsOf(grams, name+" "+d.Title+" "+d.Description)
	}
	x.servers = len(names)
	var mean [fields]float64
	for f := range mean {
		mean[f] = max(sums[f]/float64(max(len(docs), 1)), 1e-9)
	}
	x.terms = words.postings(len(docs), func(doc int, each func(term int32, gain float64)) {
		c := &counts[doc]
		slices.SortStableFunc(c.list, func(a, b fieldCount) int { return cmp.Compare(a.term, b.term) })
		for i := 0; i < len(c.list); {
			term, tf := c.list[i].term, 0.0
			for ; i < len(c.list) && c.list[i].term == term; i++ {
				f := c.list[i].field
				tf += weights[f] * float64(min(c.list[i].n, maxTimes)) / (1 - b + b*c.length[f]/mean[f])
			}
			each(term, tf*(k1+1)/(k1+tf))
		}
	}, func(n, df int) float64 { return math.Log(1 + (float64(n-df)+0.5)/(float64(df)+0.5)) }, false)
	x.grams = grams.postings(len(docs), func(doc int, each func(term int32, gain float64)) {
		for _, g := range counts[doc].grams {
			each(g.term, 1+math.Log(float64(g.n)))
		}
	}, func(n, df int) float64 { return math.Log(1 + float64(n)/float64(df)) }, true)
	if r.o.Vectors != nil {
		x.near = newNeighbours(r.o.Vectors, docs, x.terms.ids)
	}
	x.scratch.New = func() any {
		return &scratch{words: make([]float64, x.n), grams: make([]float64, x.n), total: make([]float64, x.n), best: make([]float64, x.servers)}
	}
	return x, nil
}

// trimServer is a tool's name without its server's, which counts by itself.
func trimServer(d *catalog.Document) string {
	if n := len(d.Server); n > 0 && len(d.Name) > n+2 && d.Name[:n] == d.Server && d.Name[n:n+2] == "__" {
		return d.Name[n+2:]
	}
	return d.Name
}

// Bounds on what is read of a schema.
const (
	maxSchema     = 64 << 10
	maxParameters = 100
	maxDepth      = 3
)

// parameters gives the names and the descriptions of a schema's properties.
func parameters(schema json.RawMessage) (names, texts string) {
	if len(schema) == 0 || len(schema) > maxSchema {
		return "", ""
	}
	left := maxParameters
	var walk func(raw json.RawMessage, depth int)
	walk = func(raw json.RawMessage, depth int) {
		var s struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Items      json.RawMessage            `json:"items"`
		}
		if depth > maxDepth || json.Unmarshal(raw, &s) != nil {
			return
		}
		keys := make([]string, 0, len(s.Properties))
		for k := range s.Properties {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if left--; left < 0 {
				return
			}
			names += k + " "
			var d struct {
				Description string `json:"description"`
				Enum        []any  `json:"enum"`
			}
			if json.Unmarshal(s.Properties[k], &d) == nil {
				texts += d.Description + " "
				for _, e := range d.Enum[:min(len(d.Enum), 20)] {
					if t, ok := e.(string); ok {
						texts += t + " "
					}
				}
			}
			walk(s.Properties[k], depth+1)
		}
		if len(s.Items) > 0 {
			walk(s.Items, depth+1)
		}
	}
	walk(schema, 0)
	return names, texts
}

// counted is one tool's terms.
type counted struct {
	list   []fieldCount
	length [fields]float64
	grams  []fieldCount
}

type fieldCount struct {
	term  int32
	field int8
	n     int32
}

func (c *counted) field(w *counter, field int, text string) {
	c.list = append(c.list, w.count(int8(field), func(add func([]byte)) {
		words(text, func(term string) { add([]byte(term)) })
	})...)
}

func (c *counted) gramsOf(w *counter, text string) {
	c.grams = w.count(0, func(add func([]byte)) { grams(text, add) })
}

// counter gives terms their numbers.
type counter struct {
	ids map[string]int32
	n   []int32 // of each term, in the text that is counted
	in  []int32
}

func newCounter() *counter { return &counter{ids: map[string]int32{}} }

func (c *counter) count(field int8, terms func(add func(term []byte))) []fieldCount {
	c.in = c.in[:0]
	terms(func(t []byte) {
		id, ok := c.ids[string(t)]
		if !ok {
			id = int32(len(c.ids))
			c.ids[string(t)] = id
			c.n = append(c.n, 0)
		}
		if c.n[id]++; c.n[id] == 1 {
			c.in = append(c.in, id)
		}
	})
	out := make([]fieldCount, len(c.in))
	for i, id := range c.in {
		out[i] = fieldCount{id, field, c.n[id]}
		c.n[id] = 0
	}
	return out
}

// postings turns the terms of all tools around. weigh gives a term's weight by how
// many tools have it; with unit, each tool's gains are made a vector of length 1.
func (c *counter) postings(n int, of func(doc int, each func(term int32, gain float64)), weigh func(n, df int) float64, unit bool) postings {
	p := postings{ids: c.ids, start: make([]int32, len(c.ids)+1), weight: make([]float32, len(c.ids))}
	for doc := range n {
		of(doc, func(term int32, _ float64) { p.start[term+1]++ })
	}
	for t := range p.weight {
		p.weight[t] = float32(weigh(n, int(p.start[t+1])))
		p.start[t+1] += p.start[t]
	}
	p.docs, p.gain = make([]int32, p.start[len(c.ids)]), make([]float32, p.start[len(c.ids)])
	next := slices.Clone(p.start[:len(c.ids)])
	for doc := range n {
		length := 1.0
		if unit {
			sum := 0.0
			of(doc, func(term int32, gain float64) { sum += square(gain * float64(p.weight[term])) })
			length = math.Sqrt(max(sum, 1e-9))
		}
		of(doc, func(term int32, gain float64) {
			p.docs[next[term]] = int32(doc)
			p.gain[next[term]] = float32(gain * float64(p.weight[term]) / length)
			next[term]++
		})
	}
	return p
}

func square(f float64) float64 { return f * f }

// Rank implements [catalog.Index].
func (x *index) Rank(q catalog.Query, among []int, n int) ([]catalog.Hit, error) {
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	x.score(s, q)
	if among == nil {
		among = make([]int, x.n)
		for i := range among {
			among[i] = i
		}
	}
	hits := make([]catalog.Hit, 0, len(among))
	for _, i := range among {
		if i >= 0 && i < x.n {
			hits = append(hits, catalog.Hit{Document: i, Score: s.total[i]})
		}
	}
	order := func(a, b catalog.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document))
	}
	if n = max(0, min(n, len(hits))); n*8 < len(hits) {
		hits = best(hits, n, order)
	} else {
		slices.SortFunc(hits, order)
	}
	return hits[:n], nil
}

// best moves the first n in order to the front, sorted: a heap whose root is the
// worst that is kept.
func best(hits []catalog.Hit, n int, order func(a, b catalog.Hit) int) []catalog.Hit {
	if n == 0 {
		return hits[:0]
	}
	heap := hits[:n]
	sift := func(i int) {
		for {
			worst := i
			for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
				if order(heap[c], heap[worst]) > 0 {
					worst = c
				}
			}
			if worst == i {
				return
			}
			heap[i], heap[worst] = heap[worst], heap[i]
			i = worst
		}
	}
	for i := n/2 - 1; i >= 0; i-- {
		sift(i)
	}
	for _, h := range hits[n:] {
		if order(h, heap[0]) < 0 {
			heap[0] = h
			sift(0)
		}
	}
	slices.SortFunc(heap, order)
	return heap
}

// maxQueryTerms bounds what one request costs.
const maxQueryTerms = 2000

// score fills s.total.
func (x *index) score(s *scratch, q catalog.Query) {
	clear(s.words)
	clear(s.grams)
	clear(s.best)
	x.byWords(s.words, q.Request, 1)
	if n := len(q.Context); n > 0 {
		x.byWords(s.words, q.Context[n-1], weightContext)
	}
	x.byGrams(s.grams, q.Request)
	topWords, topGrams, top := highest(s.words), highest(s.grams), 0.0
	for i := range s.total {
		s.total[i] = s.words[i]/topWords + weightGrams*s.grams[i]/topGrams
		top = max(top, s.total[i])
		if v := x.server[i]; v >= 0 {
			s.best[v] = max(s.best[v], s.total[i])
		}
	}
	for i := range s.total {
		if v := x.server[i]; v >= 0 {
			s.total[i] += serverBonus * s.best[v]
		}
		if q.Pack != "" && slices.Contains(x.packs[i], q.Pack) {
			s.total[i] += packBonus * top
		}
	}
}

// highest is the highest score, to divide by.
func highest(scores []float64) float64 {
	m := 0.0
	for _, v := range scores {
		m = max(m, v)
	}
	if m == 0 {
		return 1
	}
	return m
}

func (x *index) byWords(scores []float64, text string, weight float64) {
	seen := map[int32]bool{}
	add := func(term int32, w float64) {
		if seen[term] || len(seen) > maxQueryTerms {
			return
		}
		seen[term] = true
		for p := x.terms.start[term]; p < x.terms.start[term+1]; p++ {
			scores[x.terms.docs[p]] += w * float64(x.terms.gain[p])
		}
	}
	var asked []string
	eachWord(text, func(word, stem string) {
		if id, ok := x.terms.ids[stem]; ok {
			add(id, weight)
		}
		asked = append(asked, word)
	})
	if x.near == nil {
		return
	}
	for _, w := range asked[:min(len(asked), maxExpanded)] {
		for _, n := range x.near.of(w) {
			add(n.term, weight*expansion*n.likeness)
		}
	}
}

func (x *index) byGrams(scores []float64, text string) {
	counts := map[int32]int{}
	var order []int32
	grams(text, func(g []byte) {
		if id, ok := x.grams.ids[string(g)]; ok && len(counts) <= maxQueryTerms {
			if counts[id]++; counts[id] == 1 {
				order = append(order, id)
			}
		}
	})
	for _, id := range order {
		w := (1 + math.Log(float64(counts[id]))) * float64(x.grams.weight[id])
		for p := x.grams.start[id]; p < x.grams.start[id+1]; p++ {
			scores[x.grams.docs[p]] += w * float64(x.grams.gain[p])
		}
	}
}
