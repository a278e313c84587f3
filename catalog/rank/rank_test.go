package rank_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/rank"
)

func index(t testing.TB, o rank.Options, docs ...catalog.Document) catalog.Index {
	t.Helper()
	x, err := rank.New(o).Index(docs)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func top(t testing.TB, x catalog.Index, q catalog.Query, n int) []int {
	t.Helper()
	hits, err := x.Rank(q, nil, n)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, h := range hits {
		out = append(out, h.Document)
	}
	return out
}

// TestFinds: a request finds its tool by each of the ways that there are.
func TestFinds(t *testing.T) {
	docs := []catalog.Document{
		{Name: "createIssue", Description: "Opens a ticket."},
		{Name: "send_mail", Description: "Writes to people.", Input: json.RawMessage(`{"type":"object","properties":{"recipient":{"type":"string","description":"an address"}}}`)},
		{Name: "weather", Description: "预报天气"},
		{Name: "x1", Description: "nothing to see", Server: "github", About: "repositories and pull requests"},
		{Name: "kubernetes_pods", Description: "lists what runs"},
		{Name: "resize", Description: "Makes pictures smaller.", Packs: []string{"art"}},
	}
	x := index(t, rank.Options{}, docs...)
	for request, want := range map[string]int{
		"please create an issue":       0,
		"creating issues":              0, // other forms of the words
		"open tickets":                 0,
		"CREATE_ISSUE":                 0,
		"who is the recipient":         1,
		"addresses":                    1,
		"明天天气怎么样":                      2,
		"which repositories are there": 3,
		"kubernets pod":                4, // misspelt
	} {
		if got := top(t, x, catalog.Query{Request: request}, 1); got[0] != want {
			t.Errorf("%q finds %s", request, docs[got[0]].Name)
		}
	}
	if got := top(t, x, catalog.Query{Request: "qqq", Pack: "none"}, 6); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("a request for nothing: %v, want the order of the registry", got)
	}
	if got := top(t, x, catalog.Query{Request: "", Context: []string{"first", "make a picture smaller"}}, 1); got[0] != 5 {
		t.Errorf("by the request before: %v", got)
	}
	// A pack is preferred, and no more.
	same := index(t, rank.Options{}, catalog.Document{Name: "draw", Description: "draws"}, catalog.Document{Name: "draw2", Description: "draws", Packs: []string{"art"}}, catalog.Document{Name: "other", Packs: []string{"art"}})
	if got := top(t, same, catalog.Query{Request: "draws", Pack: "art"}, 3); got[0] != 1 || got[2] != 2 {
		t.Errorf("with a pack: %v", got)
	}
}

func TestAmong(t *testing.T) {
	var docs []catalog.Document
	for i := range 100 {
		docs = append(docs, catalog.Document{Name: fmt.Sprint("tool_", i), Description: "does a thing"})
	}
	x := index(t, rank.Options{}, docs...)
	for _, c := range []struct {
		among []int
		n     int
		want  int
	}{{nil, 20, 20}, {nil, 500, 100}, {nil, 0, 0}, {nil, -1, 0}, {[]int{}, 5, 0}, {[]int{7, 3}, 5, 2}, {[]int{-1, 7, 1 << 30}, 5, 1}} {
		hits, err := x.Rank(catalog.Query{Request: "thing"}, c.among, c.n)
		if err != nil || len(hits) != c.want {
			t.Errorf("among %v, %d: %d hits, %v", c.among, c.n, len(hits), err)
		}
		if !slices.IsSortedFunc(hits, func(a, b catalog.Hit) int { return int(math.Copysign(1, b.Score-a.Score)) }) && len(hits) > 1 {
			for i := 1; i < len(hits); i++ {
				if hits[i].Score > hits[i-1].Score || hits[i].Score == hits[i-1].Score && hits[i].Document < hits[i-1].Document {
					t.Errorf("among %v: %v", c.among, hits)
					break
				}
			}
		}
	}
	// The few best are the same whether all are sorted or not.
	all, few := top(t, x, catalog.Query{Request: "tool 42 thing"}, 100), top(t, x, catalog.Query{Request: "tool 42 thing"}, 5)
	if !slices.Equal(all[:5], few) || docs[few[0]].Name != "tool_42" {
		t.Errorf("%v, %v", all[:5], few)
	}
}

// TestSameForAll: the ranking does not depend on who asks at the same time.
func TestSameForAll(t *testing.T) {
	var docs []catalog.Document
	for i := range 300 {
		docs = append(docs, catalog.Document{Name: fmt.Sprint("tool", i%7, "_", i), Description: strings.Repeat("word ", i%13), Server: fmt.Sprint("s", i%5)})
	}
	x := index(t, rank.Options{}, docs...)
	want := map[string][]int{}
	for i := range 20 {
		q := fmt.Sprint("tool ", i, " word")
		want[q] = top(t, x, catalog.Query{Request: q}, 20)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for q, w := range want {
				if got := top(t, x, catalog.Query{Request: q}, 20); !slices.Equal(got, w) {
					t.Errorf("%q: %v, then %v", q, w, got)
				}
			}
		})
	}
	wg.Wait()
	again := index(t, rank.Options{}, docs...)
	for q, w := range want {
		if got := top(t, again, catalog.Query{Request: q}, 20); !slices.Equal(got, w) {
			t.Errorf("%q in a second index: %v, then %v", q, w, got)
		}
	}
}

func TestVectors(t *testing.T) {
	table := "3 2\ncar 1 0\nvehicle 0.9 0.1\nboat -1 0.2\n"
	v, err := rank.ReadVectors(strings.NewReader(table), 0)
	if err != nil {
		t.Fatal(err)
	}
	docs := []catalog.Document{{Name: "boat", Description: "rent a boat"}, {Name: "vehicle", Description: "rent a vehicle"}}
	if got := top(t, index(t, rank.Options{Vectors: v}, docs...), catalog.Query{Request: "car"}, 1); got[0] != 1 {
		t.Errorf("with vectors: %v", got)
	}
	if got := top(t, index(t, rank.Options{}, docs...), catalog.Query{Request: "car"}, 1); got[0] != 0 {
		t.Errorf("control, without: %v", got)
	}
	for _, bad := range []string{"", "a\n", "a 1 2\nb 1\n", "a 1 x\n", "a 1 inf\n", "a 0 0\n", "a " + strings.Repeat("1 ", 2000), strings.Repeat("x", 1<<20)} {
		if _, err := rank.ReadVectors(strings.NewReader(bad), 0); err == nil {
			t.Errorf("accepted: %.40q", bad)
		}
	}
}

func FuzzRank(f *testing.F) {
	f.Add("create an issue", "createIssue", "Opens a ticket", `{"type":"object","properties":{"a":{"description":"b"}}}`)
	f.Add("\xff\xfe", "天气", strings.Repeat("long", 50), `{"properties":{"a":{"properties":{"a":{"properties":{"a":{}}}}}}}`)
	f.Add("", "", "\u0301", "[")
	f.Fuzz(func(t *testing.T, request, name, text, schema string) {
		x := index(t, rank.Options{}, catalog.Document{Name: name, Description: text, Input: json.RawMessage(schema), Server: name}, catalog.Document{Name: "other", About: text})
		hits, err := x.Rank(catalog.Query{Request: request, Context: []string{text}}, nil, 5)
		if err != nil || len(hits) != 2 {
			t.Fatal(hits, err)
		}
		for _, h := range hits {
			if math.IsNaN(h.Score) || math.IsInf(h.Score, 0) || h.Score < 0 {
				t.Fatalf("score %v", h.Score)
			}
		}
	})
}

// TestHostileDocuments: what a server writes costs no more than its share.
func TestHostileDocuments(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 9000) + "{}" + strings.Repeat("}}", 9000)
	docs := []catalog.Document{
		{Name: "flood", Description: strings.Repeat("issue create tool ", 1<<18), Input: json.RawMessage(deep)},
		{Name: "create_issue", Description: "creates an issue"},
	}
	for i := range 40 {
		docs = append(docs, catalog.Document{Name: fmt.Sprint("other_", i), Description: "does something else"})
	}
	if got := top(t, index(t, rank.Options{}, docs...), catalog.Query{Request: strings.Repeat("create an issue ", 1<<14)}, 1); got[0] != 1 {
		t.Errorf("a description that says a word a million times wins")
	}
}

func FuzzVectors(f *testing.F) {
	f.Add("3 2\ncar 1 0\n", "car")
	f.Add("a 1e308 1e308\nb 0 1\n", "b")
	f.Add("\xff 1 2\n", "\xff")
	f.Fuzz(func(t *testing.T, table, word string) {
		v, err := rank.ReadVectors(strings.NewReader(table), 100)
		if err != nil {
			return
		}
		hits, err := index(t, rank.Options{Vectors: v}, catalog.Document{Name: word}, catalog.Document{Name: "other"}).Rank(catalog.Query{Request: word}, nil, 2)
		if err != nil || len(hits) != 2 || math.IsNaN(hits[0].Score) {
			t.Fatal(hits, err)
		}
	})
}
