package search

import (
	"container/heap"
	"slices"
	"strconv"
	"strings"
)

// How well a name answers a query, the best first.
const (
	sameName   = iota // the base name is the query
	nameStart         // the base name begins with it
	inName            // the base name holds it
	inPath            // the path holds it
	nameLetter        // the base name holds its letters in this order
	pathLetter        // the path does
)

// rank orders answers: by class, then by how far the letters are spread, the
// length of the name (of the path, for a query with a slash), the depth and the
// length of the path.
type rank [5]int

// nameQuery is what a fuzzy query asks for, without regard to case.
type nameQuery struct {
	text    string // as given
	low     string // lower case
	letters string // low without spaces
}

func newNameQuery(text string) *nameQuery {
	low := strings.ToLower(text)
	return &nameQuery{text: text, low: low, letters: strings.ReplaceAll(low, " ", "")}
}

func (q *nameQuery) rank(path string) (rank, bool) {
	low := strings.ToLower(path)
	name := base(low)
	target := name
	if strings.Contains(q.low, "/") {
		// Such a query is the end of a path: what comes before is the depth.
		target = low
		if rest, ok := strings.CutSuffix(low, q.low); ok && (rest == "" || strings.HasSuffix(rest, "/")) {
			target = q.low
		}
	}
	r := rank{0, 0, len(target), strings.Count(path, "/"), len(path)}
	switch {
	case target == q.low:
		r[0] = sameName
	case strings.HasPrefix(target, q.low):
		r[0] = nameStart
	case strings.Contains(target, q.low):
		r[0] = inName
	case strings.Contains(low, q.low):
		r[0] = inPath
	default:
		if n := spread(name, q.letters); n >= 0 {
			r[0], r[1] = nameLetter, n
		} else if n := spread(low, q.letters); n >= 0 {
			r[0], r[1] = pathLetter, n
		} else {
			return rank{}, false
		}
	}
	return r, true
}

// spread gives the length of a stretch of s that holds the letters in order,
// the one that ends where they are first complete, or -1.
func spread(s, letters string) int {
	end := 0
	for i := range len(letters) {
		at := strings.IndexByte(s[end:], letters[i])
		if at < 0 {
			return -1
		}
		end += at + 1
	}
	begin := end
	for i := len(letters) - 1; i >= 0; i-- {
		begin = strings.LastIndexByte(s[:begin], letters[i])
	}
	return end - begin
}

// place is one answer.
type place struct {
	rank    rank
	path    string
	ignored bool
}

func (p place) compare(q place) int {
	if c := slices.Compare(p.rank[:], q.rank[:]); c != 0 {
		return c
	}
	return strings.Compare(p.path, q.path)
}

// text is the place in the form that a cursor holds.
func (p place) text() string {
	var b []byte
	for _, n := range p.rank {
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, ' ')
	}
	return string(append(b, p.path...))
}

// parsePlace reads what text wrote; nil for what it did not.
func parsePlace(s string) *place {
	p := new(place)
	for i := range p.rank {
		num, rest, ok := strings.Cut(s, " ")
		n, err := strconv.Atoi(num)
		if err != nil || !ok {
			return nil
		}
		p.rank[i], s = n, rest
	}
	p.path = s
	return p
}

// best keeps the first few places after a cursor, whatever the number of all.
type best struct {
	keep  int
	after *place
	heap  placeHeap
	total int
}

func newBest(keep int, after *place) *best { return &best{keep: keep, after: after} }

func (b *best) add(p place) {
	b.total++
	if b.after != nil && p.compare(*b.after) <= 0 {
		return
	}
	b.push(p)
}

func (b *best) push(p place) {
	if len(b.heap) < b.keep {
		heap.Push(&b.heap, p)
	} else if p.compare(b.heap[0]) < 0 {
		b.heap[0] = p
		heap.Fix(&b.heap, 0)
	}
}

func (b *best) merge(from *best) {
	b.total += from.total
	for _, p := range from.heap {
		b.push(p)
	}
}

func (b *best) sorted() []place {
	out := slices.Clone([]place(b.heap))
	slices.SortFunc(out, place.compare)
	return out
}

// placeHeap has the last place on top.
type placeHeap []place

func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h placeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *placeHeap) Push(x any)        { *h = append(*h, x.(place)) }
func (h *placeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
