// Package evidence_test measures what recording costs a call, and how fast a
// record of 100,000 lines is searched and verified. README.md has the figures.
package evidence_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/evidence/index"
	"github.com/wasmtools/wasmtools/tool"
)

func open(b testing.TB, dir string) *evidence.Log {
	b.Helper()
	l, err := evidence.Open(evidence.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// call records what Turn.Call does for one call: a call that reads has an
// intent and an outcome, one with effects three events between them.
func call(b testing.TB, l *evidence.Log, in evidence.Intent, pad int) {
	h, err := l.Begin(in)
	check(b, err)
	o := evidence.Outcome{
		Status: evidence.Completed, Output: tool.DigestOf(nil), OutputBytes: 8000, Began: time.Now(),
		Used: evidence.Used{HostCalls: 4, BytesRead: 9000, Paths: []string{"src/main.go"}, MemoryPeak: 4 << 20, Fuel: 123456},
	}
	if in.Effects.Any(tool.Writes | tool.Destroys) {
		a := evidence.Approval{Verdict: "allow", Rule: evidence.Rule{Name: "edits", File: "/home/me/.config/wasmtools/wasmtools.toml", Line: 12}, By: "me", Channel: "terminal", Ticket: "f6szff44k3d66exqm444pu6j3m"}
		w := []evidence.Write{{Op: tool.OpWrite, Path: "src/main.go", Before: tool.DigestOf(nil), After: tool.DigestOf(nil), Size: 1234}}
		check(b, l.Event(h, evidence.Event{Kind: evidence.ApprovalRequired, Approval: &a, Writes: w}))
		check(b, l.Event(h, evidence.Event{Kind: evidence.Decided, Approval: &a}))
		check(b, l.Event(h, evidence.Event{Kind: evidence.Started}))
		o.Approval, o.Writes = a, w
	}
	if pad > 0 {
		o.Message = strings.Repeat("x", pad)
	}
	check(b, l.End(h, o))
}

func intent(e tool.Effects) evidence.Intent {
	args := `{"path":"src/main.go","old":"func main() {","new":"func Main() {"}`
	return evidence.Intent{
		Call: "call-17", Turn: "t17", Session: "aok723mirvlx7bowuddto2xbnq", Asked: time.Now(), Tool: "replace_block", Source: tool.Builtin, From: "core",
		Module: tool.DigestOf(nil), Definition: tool.DigestOf(nil), Effects: e, Arguments: json.RawMessage(args), Input: tool.DigestOf([]byte(args)),
	}
}

// p50 reports the median of b.N runs of f, which is what a call's overhead is
// promised as.
func p50(b *testing.B, f func()) {
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		t := time.Now()
		f()
		took = append(took, time.Since(t))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name    string
		effects tool.Effects
	}{{"read", tool.Reads}, {"write", tool.Writes}, {"destroy", tool.Writes | tool.Destroys}} {
		b.Run(c.name, func(b *testing.B) {
			l := open(b, filepath.Join(b.TempDir(), "evidence", "w"))
			in := intent(c.effects)
			call(b, l, in, 0)
			p50(b, func() { call(b, l, in, 0) })
		})
	}
}

// BenchmarkChains compares one chain for all processes, which is what there
// is, with one for each: four writers that do not share anything.
func BenchmarkChains(b *testing.B) {
	for _, c := range []struct {
		name    string
		writers int
		shared  bool
	}{{"one-writer", 1, true}, {"four-writers-one-chain", 4, true}, {"four-writers-four-chains", 4, false}} {
		b.Run(c.name, func(b *testing.B) {
			base := filepath.Join(b.TempDir(), "evidence")
			logs := make([]*evidence.Log, c.writers)
			in := intent(tool.Reads)
			for i := range logs {
				dir := filepath.Join(base, "w")
				if !c.shared {
					dir = filepath.Join(base, fmt.Sprint("w", i))
				}
				logs[i] = open(b, dir)
				call(b, logs[i], in, 0)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for i, l := range logs {
				wg.Go(func() {
					for n := i; n < b.N; n += len(logs) {
						call(b, l, in, 0)
					}
				})
			}
			wg.Wait()
		})
	}
}

// record has lines of about 1 KiB, two for each call.
func record(b *testing.B, lines int) string {
	dir := filepath.Join(b.TempDir(), "evidence", "w")
	l := open(b, dir)
	pad := strings.Repeat("some text of a call ", 40)
	for i := range lines / 2 {
		in := intent(tool.Reads)
		path := fmt.Sprintf("src/dir%d/file%d.go", i%100, i)
		in.Call, in.Tool = fmt.Sprint("call-", i), []string{"read_open", "grep", "replace_block", "read_discover"}[i%4]
		in.Arguments = fmt.Appendf(nil, `{"path":%q,"note":%q}`, path, pad[:450])
		h, err := l.Begin(in)
		check(b, err)
		o := evidence.Outcome{Status: []evidence.Status{evidence.Completed, evidence.Failed}[i%10/9], Message: pad[:690], Used: evidence.Used{HostCalls: 3, Paths: []string{path}, Fuel: 1}}
		if i%20 == 0 {
			o.Used.Hosts = []string{fmt.Sprintf("host%d.example.com:443", i%7)}
			o.Approval = evidence.Approval{Verdict: "allow", By: []string{"ada", "grace"}[i%3%2], Channel: "terminal"}
		}
		check(b, l.End(h, o))
	}
	check(b, l.Close())
	return dir
}

func BenchmarkVerify(b *testing.B) {
	dir := record(b, 100_000)
	b.ResetTimer()
	var r evidence.Report
	for b.Loop() {
		var err error
		r, err = evidence.Verify(dir, evidence.VerifyOptions{})
		check(b, err)
		if !r.OK {
			b.Fatal(r.Summary())
		}
	}
	b.ReportMetric(float64(r.Records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	p, err := evidence.PlanPrune(dir, evidence.Retention{MaxBytes: 1})
	check(b, err)
	b.ReportMetric(float64(p.Bytes)/float64(p.Through), "B/record")
}

// BenchmarkList opens the index, brings it up to date with one new call, and
// lists: what the command does. "build" makes the index from nothing, "scan"
// reads the record without one.
func BenchmarkList(b *testing.B) {
	dir := record(b, 100_000)
	r, err := evidence.OpenReader(dir)
	check(b, err)
	list := func(f index.Filter) int {
		x, err := index.Open(b.Context(), r)
		check(b, err)
		defer x.Close()
		rows, err := x.List(b.Context(), f)
		check(b, err)
		return len(rows)
	}
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			x, err := index.Open(b.Context(), r)
			check(b, err)
			_, err = x.Rebuild(b.Context())
			check(b, err)
			check(b, x.Close())
		}
	})
	l := open(b, dir)
	for _, c := range []struct {
		name string
		f    index.Filter
	}{
		{"newest", index.Filter{}},
		{"tool", index.Filter{Tool: "grep"}},
		{"tool-pattern", index.Filter{Tool: "re*"}},
		{"status", index.Filter{Status: []evidence.Status{evidence.Failed}}},
		{"path", index.Filter{Path: "src/dir7"}},
		{"path-pattern", index.Filter{Path: "*file1?3*"}},
		{"host", index.Filter{Host: "host3*"}},
		{"approver", index.Filter{Approver: "ada"}},
		{"time", index.Filter{Since: time.Now().Add(-time.Hour), Until: time.Now()}},
		{"all-of-them", index.Filter{Tool: "*", Path: "src/*", Host: "*", Approver: "*", Status: []evidence.Status{evidence.Completed}, Since: time.Now().Add(-time.Hour)}},
		{"nothing", index.Filter{Tool: "none", Path: "*none*"}},
	} {
		c.f.Limit = 50
		b.Run(c.name, func(b *testing.B) {
			n := 0
			p50(b, func() { n = list(c.f) })
			b.ReportMetric(float64(n), "rows")
			call(b, l, intent(tool.Reads), 0)
		})
	}
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			_, err := index.Scan(r, index.Filter{Tool: "grep", Limit: 50})
			check(b, err)
		}
	})
}
