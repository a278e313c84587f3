package rank

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
)

// HybridOptions bound what an embedder costs. A zero field means the default.
type HybridOptions struct {
	Patience time.Duration // for the request's vector; 300 ms
	Rest     time.Duration // after a failure, during which words alone rank; 30 s
	Weight   float64       // of the likeness of meaning, beside 1 for words; 1
	Notice   func(string)  // is told of failures; may be nil
}

// Hybrid ranks by words and by meaning: the sum of a ranker's scores and of the
// cosines of an embedder's vectors, each divided by its best. The vectors of tools
// are made in the background, and remembered by their text. Until they are there,
// and whenever the embedder fails or is slow, words alone rank.
func Hybrid(words catalog.Ranker, e catalog.Embedder, o HybridOptions) catalog.Ranker {
	o.Patience = cmp.Or(o.Patience, 300*time.Millisecond)
	o.Rest = cmp.Or(o.Rest, 30*time.Second)
	o.Weight = cmp.Or(o.Weight, 1)
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	return &hybrid{words: words, embedder: e, o: o, known: map[key][]float32{}}
}

type key [sha256.Size]byte

// Bounds on what is asked for and remembered.
const (
	embedBatch   = 64
	embedText    = 2000     // bytes of one tool
	embedKnown   = 16 << 20 // numbers of all vectors: 64 MiB
	embedAtOnce  = 60 * time.Second
	embedLongest = 8192 // numbers of a vector
)

type hybrid struct {
	words    catalog.Ranker
	embedder catalog.Embedder
	o        HybridOptions

	mu     sync.Mutex
	known  map[key][]float32
	held   int       // numbers in known
	resume time.Time // before that, the embedder rests
}

type hybridIndex struct {
	h     *hybrid
	words catalog.Index
	n     int
	keys  []key

	mu      sync.Mutex
	vectors [][]float32 // nil until all are there
	asked   bool
	texts   []string
}

// Index implements [catalog.Ranker].
func (h *hybrid) Index(docs []catalog.Document) (catalog.Index, error) {
	words, err := h.words.Index(docs)
	if err != nil {
		return nil, err
	}
	x := &hybridIndex{h: h, words: words, n: len(docs)}
	for i := range docs {
		d := &docs[i]
		p, _ := parameters(d.Input)
		var name []string
		eachWord(trimServer(d), func(w, _ string) { name = append(name, w) })
		t := strings.Join(name, " ") + ". " + d.Title + " " + d.Description + " " + p + " " + d.Server
		t = strings.ToValidUTF8(t[:min(len(t), embedText)], "")
		x.texts = append(x.texts, t)
		x.keys = append(x.keys, sha256.Sum256([]byte(t)))
	}
	x.fetch()
	return x, nil
}

// rests reports whether the embedder is not to be asked now.
func (h *hybrid) rests() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.resume)
}

func (h *hybrid) failed(err error) {
	h.mu.Lock()
	h.resume = time.Now().Add(h.o.Rest)
	h.mu.Unlock()
	h.o.Notice(fmt.Sprintf("tools are ranked by words alone for %s: the embedder: %v", h.o.Rest, err))
}

// forget gives up all vectors, since new ones are not comparable to them.
func (h *hybrid) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.known)
	h.held = 0
}

// embed asks for vectors and checks them.
func (h *hybrid) embed(ctx context.Context, texts []string) (v [][]float32, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("it failed: %.100v", p)
		}
	}()
	if v, err = h.embedder.Embed(ctx, texts); err != nil {
		return nil, err
	}
	if len(v) != len(texts) {
		return nil, fmt.Errorf("it gave %d vectors for %d texts", len(v), len(texts))
	}
	for i := range v {
		if len(v[i]) == 0 || len(v[i]) > embedLongest || len(v[i]) != len(v[0]) {
			return nil, errors.New("its vectors are of different lengths")
		}
		if v[i], err = unit(v[i]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func unit(v []float32) ([]float32, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) || sum == 0 {
		return nil, errors.New("a vector of it has no direction")
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out, nil
}

// fetch begins to get the vectors of the tools, if nobody does.
func (x *hybridIndex) fetch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asked || x.vectors != nil || x.h.rests() {
		return
	}
	x.asked = true
	go func() {
		err := x.fill()
		x.mu.Lock()
		x.asked = false
		x.mu.Unlock()
		if err != nil {
			x.h.failed(err)
		}
	}()
}

func (x *hybridIndex) fill() error {
	h := x.h
	var missing []int
	h.mu.Lock()
	seen := map[key]bool{}
	for i, k := range x.keys {
		if _, ok := h.known[k]; !ok && !seen[k] {
			seen[k] = true
			missing = append(missing, i)
		}
	}
	h.mu.Unlock()
	got := map[key][]float32{}
	for batch := range slices.Chunk(missing, embedBatch) {
		var texts []string
		for _, i := range batch {
			texts = append(texts, x.texts[i])
		}
		ctx, cancel := context.WithTimeout(context.Background(), embedAtOnce)
		v, err := h.embed(ctx, texts)
		cancel()
		if err != nil {
			return err
		}
		h.mu.Lock()
		for n, i := range batch {
			got[x.keys[i]] = v[n]
			if h.held+len(v[n]) <= embedKnown {
				h.known[x.keys[i]] = v[n]
				h.held += len(v[n])
			}
		}
		h.mu.Unlock()
	}
	all := make([][]float32, x.n)
	h.mu.Lock()
	for i, k := range x.keys {
		if all[i] = h.known[k]; all[i] == nil {
			all[i] = got[k]
		}
	}
	h.mu.Unlock()
	for _, v := range all {
		if len(v) != len(all[0]) { // another model answers now
			h.forget()
			return errors.New("its vectors are of different lengths")
		}
	}
	x.mu.Lock()
	x.vectors = all
	x.mu.Unlock()
	return nil
}

// Rank implements [catalog.Index].
func (x *hybridIndex) Rank(q catalog.Query, among []int, n int) ([]catalog.Hit, error) {
	x.mu.Lock()
	vectors := x.vectors
	x.mu.Unlock()
	if vectors == nil {
		x.fetch()
	}
	if vectors == nil || strings.TrimSpace(q.Request) == "" || x.h.rests() {
		return x.words.Rank(q, among, n)
	}
	hits, err := x.words.Rank(q, among, x.n)
	if err != nil || len(hits) == 0 {
		return hits, err
	}
	asked := make(chan [][]float32, 1)
	ctx, cancel := context.WithTimeout(context.Background(), x.h.o.Patience)
	defer cancel()
	go func() { // it may not mind its context
		v, err := x.h.embed(ctx, []string{strings.ToValidUTF8(q.Request[:min(len(q.Request), embedText)], "")})
		if err == nil && len(v[0]) != len(vectors[0]) {
			err = errors.New("its vectors are of different lengths")
			x.h.forget()
			x.mu.Lock()
			x.vectors = nil
			x.mu.Unlock()
		}
		if err != nil {
			x.h.failed(err)
			v = nil
		}
		asked <- v
	}()
	var v [][]float32
	select {
	case v = <-asked:
	case <-ctx.Done():
		x.h.failed(fmt.Errorf("it has not answered within %s", x.h.o.Patience))
	}
	if v == nil {
		return hits[:max(0, min(n, len(hits)))], nil
	}
	topWords, topMeaning := 0.0, 0.0
	meaning := make([]float64, len(hits))
	for i, h := range hits {
		sum := 0.0
		for d, f := range vectors[h.Document] {
			sum += float64(f) * float64(v[0][d])
		}
		meaning[i] = max(sum, 0)
		topWords, topMeaning = max(topWords, h.Score), max(topMeaning, meaning[i])
	}
	for i := range hits {
		hits[i].Score = hits[i].Score/cmp.Or(topWords, 1) + x.h.o.Weight*meaning[i]/cmp.Or(topMeaning, 1)
	}
	slices.SortFunc(hits, func(a, b catalog.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Document, b.Document))
	})
	return hits[:max(0, min(n, len(hits)))], nil
}
