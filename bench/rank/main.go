// Command rank ranks the tools of a data set for each of its queries, and prints
// one list a query. Formats: see README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/rank"
)

func main() {
	vectors := flag.String("vectors", "", "a table of word vectors, a word and its numbers a line")
	limit := flag.Int("words", 40_000, "how many words of it are read")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: rank [-vectors FILE] DIR"); flag.PrintDefaults() }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *vectors, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "rank:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, dir, vectors string, limit int) error {
	var o rank.Options
	if vectors != "" {
		f, err := os.Open(vectors)
		if err != nil {
			return err
		}
		defer f.Close()
		if o.Vectors, err = rank.ReadVectors(f, limit); err != nil {
			return err
		}
	}
	open := func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) }
	set, err := readSet(open)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := set.rank(rank.New(o), func(l ranked) error { return enc.Encode(l) }); err != nil {
		return err
	}
	return w.Flush()
}

// ranked is one line of what is printed.
type ranked struct {
	ID     string   `json:"id"`
	Ranked []string `json:"ranked"`
	MS     float64  `json:"ms"`
}

// dataSet is a catalogue with queries.
type dataSet struct {
	ids     []string
	docs    []catalog.Document
	queries []query
}

type query struct {
	ID       string     `json:"id"`
	Query    string     `json:"query"`
	Context  []string   `json:"context"`
	Relevant [][]string `json:"relevant"`
}

func readSet(open func(name string) (io.ReadCloser, error)) (*dataSet, error) {
	var s dataSet
	err := lines(open, "tools.jsonl", func(line []byte) error {
		var t struct {
			ID, Name, Server, Description string
			About                         string                     `json:"server_description"`
			Parameters                    map[string]json.RawMessage `json:"parameters"`
		}
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": t.Parameters})
		if err != nil {
			return err
		}
		s.ids = append(s.ids, t.ID)
		s.docs = append(s.docs, catalog.Document{Name: t.Name, Description: t.Description, Server: t.Server, About: t.About, Input: schema})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &s, lines(open, "queries.jsonl", func(line []byte) error {
		var q query
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		s.queries = append(s.queries, q)
		return nil
	})
}

func lines(open func(string) (io.ReadCloser, error), name string, each func([]byte) error) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewScanner(f)
	r.Buffer(make([]byte, 64<<10), 16<<20)
	for n := 1; r.Scan(); n++ {
		if len(r.Bytes()) == 0 {
			continue
		}
		if err := each(r.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return r.Err()
}

// shown is how many tools a list has.
const shown = 20

func (s *dataSet) rank(r catalog.Ranker, each func(ranked) error) error {
	x, err := r.Index(s.docs)
	if err != nil {
		return err
	}
	for _, q := range s.queries {
		began := time.Now()
		hits, err := x.Rank(catalog.Query{Request: q.Query, Context: q.Context}, nil, shown)
		if err != nil {
			return err
		}
		l := ranked{ID: q.ID, MS: float64(time.Since(began).Microseconds()) / 1000}
		for _, h := range hits {
			l.Ranked = append(l.Ranked, s.ids[h.Document])
		}
		if err := each(l); err != nil {
			return err
		}
	}
	return nil
}
