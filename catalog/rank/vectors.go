package rank

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/wasmtools/wasmtools/catalog"
)

// Vectors are word vectors, such as GloVe's: words of like meaning point in like
// directions. A table is read once and never modified.
type Vectors struct {
	dimensions int
	rows       map[string]int32
	values     []int8 // rows of length 1, by 127
}

// Bounds on a table.
const (
	maxVectorWords = 1 << 20
	maxDimensions  = 1024
	maxVectorLine  = 64 << 10
)

// ReadVectors reads a table of text: a word and its numbers a line, with blanks
// between them, at most limit words (0: all). The commonest words come first in
// such tables, so a limit keeps those.
func ReadVectors(r io.Reader, limit int) (*Vectors, error) {
	v := &Vectors{rows: map[string]int32{}}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 4096), maxVectorLine)
	if limit <= 0 || limit > maxVectorWords {
		limit = maxVectorWords
	}
	for line := 1; s.Scan() && len(v.rows) < limit; line++ {
		f := strings.Fields(s.Text())
		if len(f) == 2 && line == 1 {
			continue // the header that some have
		}
		if v.dimensions == 0 {
			v.dimensions = len(f) - 1
		}
		if len(f)-1 != v.dimensions || v.dimensions < 2 || v.dimensions > maxDimensions {
			return nil, fmt.Errorf("line %d of the word vectors has %d numbers, not %d", line, len(f)-1, v.dimensions)
		}
		row := make([]float64, v.dimensions)
		sum := 0.0
		for i, t := range f[1:] {
			x, err := strconv.ParseFloat(t, 64)
			if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
				return nil, fmt.Errorf("line %d of the word vectors: %q is no number", line, t)
			}
			row[i] = x
			sum += x * x
		}
		if _, twice := v.rows[f[0]]; twice || sum == 0 {
			continue
		}
		v.rows[f[0]] = int32(len(v.rows))
		for _, x := range row {
			v.values = append(v.values, int8(math.Round(127*x/math.Sqrt(sum))))
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(v.rows) == 0 {
		return nil, errors.New("there are no word vectors in it")
	}
	return v, nil
}

func (v *Vectors) row(word string) []int8 {
	i, ok := v.rows[word]
	if !ok {
		return nil
	}
	return v.values[int(i)*v.dimensions : (int(i)+1)*v.dimensions]
}

// What a word brings along: its nearest words among those of the tools, if they
// are near enough, and what they count.
const (
	expansion   = 0.3
	nearEnough  = 0.55
	mostNear    = 5
	maxExpanded = 100  // words of a request
	maxKept     = 4096 // words whose neighbours are remembered
)

// neighbours finds the words of an index that are like others.
type neighbours struct {
	v     *Vectors
	words []likely

	mu   sync.Mutex
	kept map[string][]neighbour
}

type likely struct {
	row  []int8
	term int32
}

type neighbour struct {
	term     int32
	likeness float64
}

func newNeighbours(v *Vectors, docs []catalog.Document, ids map[string]int32) *neighbours {
	n := &neighbours{v: v, kept: map[string][]neighbour{}}
	seen := map[string]bool{}
	for i := range docs {
		for _, text := range []string{docs[i].Name, docs[i].Title, docs[i].Description} {
			eachWord(text, func(word, stem string) {
				if seen[word] {
					return
				}
				seen[word] = true
				if row := v.row(word); row != nil {
					n.words = append(n.words, likely{row, ids[stem]})
				}
			})
		}
	}
	return n
}

// of gives the neighbours of a word; safe for concurrent use.
func (n *neighbours) of(word string) []neighbour {
	n.mu.Lock()
	got, ok := n.kept[word]
	n.mu.Unlock()
	if ok {
		return got
	}
	if row := n.v.row(word); row != nil {
		for _, w := range n.words {
			sum := int32(0)
			for i, x := range row {
				sum += int32(x) * int32(w.row[i])
			}
			if c := float64(sum) / (127 * 127); c > nearEnough && c < 0.999 {
				got = append(got, neighbour{w.term, c})
			}
		}
		slices.SortStableFunc(got, func(a, b neighbour) int { return cmp.Compare(b.likeness, a.likeness) })
		got = slices.Clip(got[:min(len(got), mostNear)])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.kept) < maxKept {
		n.kept[word] = got
	}
	return got
}
