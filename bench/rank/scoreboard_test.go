package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/rank"
)

var update = flag.Bool("update", false, "rewrite testdata/scoreboard.json")

var sets = []string{"livemcp", "bfcl_turns", "bfcl_live", "bfcl_py", "toole", "sealtools"}

// score is how well a ranker does on one data set: the share of needs that are met
// in the first 5, 10 and 20 tools, the share of queries whose needs are all met in
// the first 20, and the mean reciprocal rank of the first need.
type score struct {
	Recall5    float64 `json:"recall@5"`
	Recall10   float64 `json:"recall@10"`
	Recall20   float64 `json:"recall@20"`
	Complete20 float64 `json:"complete@20"`
	MRR        float64 `json:"mrr"`
}

func (s score) each() [5]float64 {
	return [5]float64{s.Recall5, s.Recall10, s.Recall20, s.Complete20, s.MRR}
}

var measures = [5]string{"recall@5", "recall@10", "recall@20", "complete@20", "MRR"}

func readTestSet(t testing.TB, name string) *dataSet {
	t.Helper()
	s, err := readSet(func(file string) (io.ReadCloser, error) {
		b, err := os.ReadFile(filepath.Join("testdata", name, file+".gz"))
		if err != nil {
			return nil, err
		}
		return gzip.NewReader(bytes.NewReader(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func measure(t testing.TB, s *dataSet, r catalog.Ranker) score {
	t.Helper()
	var sum score
	at := map[string]query{}
	for _, q := range s.queries {
		at[q.ID] = q
	}
	err := s.rank(r, func(l ranked) error {
		q := at[l.ID]
		first, met, m5, m10, m20 := 0, 0, 0, 0, 0
		for _, need := range q.Relevant {
			i := slices.IndexFunc(l.Ranked, func(id string) bool { return slices.Contains(need, id) })
			if i < 0 {
				continue
			}
			met++
			if first == 0 || i+1 < first {
				first = i + 1
			}
			m20++
			if i < 10 {
				m10++
			}
			if i < 5 {
				m5++
			}
		}
		n := float64(len(q.Relevant))
		sum.Recall5 += float64(m5) / n
		sum.Recall10 += float64(m10) / n
		sum.Recall20 += float64(m20) / n
		if met == len(q.Relevant) {
			sum.Complete20++
		}
		if first > 0 {
			sum.MRR += 1 / float64(first)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(s.queries))
	return score{sum.Recall5 / n, sum.Recall10 / n, sum.Recall20 / n, sum.Complete20 / n, sum.MRR / n}
}

func mean(board map[string]score) score {
	var m score
	for _, s := range sets {
		b := board[s]
		m.Recall5 += b.Recall5 / float64(len(sets))
		m.Recall10 += b.Recall10 / float64(len(sets))
		m.Recall20 += b.Recall20 / float64(len(sets))
		m.Complete20 += b.Complete20 / float64(len(sets))
		m.MRR += b.MRR / float64(len(sets))
	}
	return m
}

const boardFile = "testdata/scoreboard.json"

// tolerated is how much a figure may fall before it is a fault.
const tolerated = 0.005

// falls tells what has become worse.
func falls(before, now map[string]score) (out []string) {
	for _, set := range append(slices.Clone(sets), "mean") {
		was, is := before[set].each(), now[set].each()
		for i := range was {
			if is[i] < was[i]-tolerated {
				out = append(out, fmt.Sprintf("%s of %s fell from %.3f to %.3f", measures[i], set, was[i], is[i]))
			}
		}
	}
	return out
}

func boardOf(t testing.TB, r catalog.Ranker) map[string]score {
	t.Helper()
	board := map[string]score{}
	for _, name := range sets {
		board[name] = measure(t, readTestSet(t, name), r)
	}
	board["mean"] = mean(board)
	return board
}

// TestScoreboard holds the ranker against what it has reached before, and against
// what it has to reach.
func TestScoreboard(t *testing.T) {
	if testing.Short() {
		t.Skip("ranks 3,440 requests")
	}
	board := boardOf(t, rank.New(rank.Options{}))
	if *update {
		b, err := json.MarshalIndent(board, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(boardFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	var before map[string]score
	if err := json.Unmarshal(b, &before); err != nil {
		t.Fatal(err)
	}
	for _, f := range falls(before, board) {
		t.Error(f)
	}
	for _, set := range append(slices.Clone(sets), "mean") {
		t.Logf("%-10s %.3f", set, board[set].each())
	}
	if m := board["mean"]; m.Recall20 < 0.89 || m.Complete20 < 0.84 || board["livemcp"].Recall20 < 0.57 {
		t.Errorf("mean recall@20 %.3f (at least 0.89), complete@20 %.3f (0.84), livemcp recall@20 %.3f (0.57)", m.Recall20, m.Complete20, board["livemcp"].Recall20)
	}
}

// TestScoreboardFalls: a ranker that sees no descriptions is told apart.
func TestScoreboardFalls(t *testing.T) {
	s := readTestSet(t, "bfcl_turns")
	good := measure(t, s, rank.New(rank.Options{}))
	for i := range s.docs {
		s.docs[i].Description = ""
	}
	if f := falls(map[string]score{"bfcl_turns": good}, map[string]score{"bfcl_turns": measure(t, s, rank.New(rank.Options{}))}); len(f) == 0 {
		t.Error("ranking without descriptions is as good")
	}
}

// TestOutput is what the command prints.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tools.jsonl", `{"id":"a/x","name":"x","server":"a","description":"sends mail","parameters":{"to":{"type":"string","description":"who"}}}`+"\n"+`{"id":"b/y","name":"y","description":"reads files"}`+"\n")
	write("queries.jsonl", `{"id":"q","query":"read a file","relevant":[["b/y"]]}`+"\n")
	var out strings.Builder
	if err := run(&out, dir, "", 0); err != nil {
		t.Fatal(err)
	}
	var l ranked
	if err := json.Unmarshal([]byte(out.String()), &l); err != nil || l.ID != "q" || !slices.Equal(l.Ranked, []string{"b/y", "a/x"}) {
		t.Errorf("%v %s", err, out.String())
	}
	write("queries.jsonl", "{\n")
	if err := run(&out, dir, "", 0); err == nil || !strings.Contains(err.Error(), "queries.jsonl:1") {
		t.Errorf("%v", err)
	}
}

func BenchmarkRank(b *testing.B) {
	for _, name := range []string{"bfcl_turns", "livemcp", "sealtools"} {
		s := readTestSet(b, name)
		x, err := rank.New(rank.Options{}).Index(s.docs)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(len(s.docs)), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := x.Rank(catalog.Query{Request: s.queries[i%len(s.queries)].Query}, nil, 20); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("index-", len(s.docs)), func(b *testing.B) {
			for b.Loop() {
				if _, err := rank.New(rank.Options{}).Index(s.docs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
