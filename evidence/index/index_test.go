package index

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

func newLog(t testing.TB) (*evidence.Log, *evidence.Reader) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "evidence", "w")
	l, err := evidence.Open(evidence.Options{Dir: dir, SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.End(must(t, l, evidence.Intent{Call: "first", Tool: "grep"}), evidence.Outcome{Status: evidence.Completed}); err != nil {
		t.Fatal(err)
	}
	r, err := evidence.OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

func must(t testing.TB, l *evidence.Log, in evidence.Intent) evidence.Handle {
	t.Helper()
	h, err := l.Begin(in)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func open(t testing.TB, r *evidence.Reader) *Index {
	t.Helper()
	x, err := Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// calls records n calls of all kinds.
func calls(t testing.TB, l *evidence.Log, n int, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for i := range n {
		path := pick("src/main.go", "src/a[1].go", "srcs", "docs/index.md", "src", "a*b", "é/ü.txt", "./x/")
		in := evidence.Intent{
			Call: fmt.Sprint("c", rnd.IntN(n)), Turn: "t1", Session: pick("s1", "s2"), Tool: pick("grep", "read_open", "write_file", "http_get", "Grep"),
			Source: tool.Builtin, Effects: []tool.Effects{tool.Reads, tool.Writes, tool.Writes | tool.Destroys, tool.UsesNetwork, 0}[rnd.IntN(5)],
		}
		if rnd.IntN(2) == 0 {
			in.Arguments, _ = json.Marshal(map[string]string{pick("path", "from", "other"): path})
		}
		h := must(t, l, in)
		a := evidence.Approval{Verdict: pick("allow", "deny", "declined", ""), By: pick("", "ada", "grace"), Channel: pick("", "terminal"), Ticket: fmt.Sprint("tk", i), Rule: evidence.Rule{Name: pick("", "edits"), File: pick("", "/c"), Line: 3}}
		if rnd.IntN(3) == 0 {
			if err := l.Event(h, evidence.Event{Kind: evidence.Decided, Approval: &a, Writes: []evidence.Write{{Path: path, From: pick("", "old/name")}}}); err != nil {
				t.Fatal(err)
			}
		}
		o := evidence.Outcome{Status: evidence.Status(pick("completed", "failed", "denied", "waiting", "")), Code: tool.Code(pick("", "not_found"))}
		if rnd.IntN(2) == 0 {
			o.Approval = evidence.Approval{Verdict: pick("allow", "deny", "expired"), By: pick("", "ada", "the rule"), Channel: "rule"}
		}
		if rnd.IntN(2) == 0 {
			o.Used = evidence.Used{Paths: []string{path, pick("src/deep/er/x", "zz")}, Hosts: []string{pick("Example.com:443", "api.example.com")}}
		}
		if o.Status == "" {
			continue // no outcome
		}
		if err := l.End(h, o); err != nil {
			t.Fatal(err)
		}
		if o.Status == evidence.Waiting && rnd.IntN(2) == 0 {
			o.Status = evidence.Completed
			if err := l.End(h, o); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestWhoDecided: one who was asked and decided nothing is not shown as the one
// who did.
func TestWhoDecided(t *testing.T) {
	l, r := newLog(t)
	call := func(last string, verdicts ...string) evidence.Handle {
		h := must(t, l, evidence.Intent{Call: last, Tool: "write_file"})
		for _, v := range verdicts {
			if err := l.Event(h, evidence.Event{Kind: evidence.Decided, Approval: &evidence.Approval{Verdict: v, By: "who says " + v, Channel: "elicitation"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.End(h, evidence.Outcome{Status: evidence.Denied, Code: tool.ApprovalExpired, Approval: evidence.Approval{Verdict: last, By: "who says " + last}}); err != nil {
			t.Fatal(err)
		}
		return h
	}
	want := map[evidence.Handle]string{
		call("declined-or-unavailable", "declined-or-unavailable"): "",
		call("expired", "declined-or-unavailable"):                 "",
		call("ask", "deny"):                      "who says deny",
		call("allow", "declined-or-unavailable"): "who says allow",
		call("deny", "declined-or-unavailable"):  "who says deny",
		call("declined-or-unavailable", "allow"): "who says allow",
	}
	for name, list := range map[string]func() ([]Row, error){
		"index": func() ([]Row, error) { return open(t, r).List(t.Context(), Filter{}) },
		"scan":  func() ([]Row, error) { return Scan(r, Filter{}) },
	} {
		rows, err := list()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if w, ours := want[row.ID]; ours && row.Approver != w {
				t.Errorf("%s: %s was decided by %q, want %q", name, row.Call, row.Approver, w)
			}
		}
	}
}

// TestRebuild: rows that somebody changed are listed as they are, and a rebuilt
// index says again what the record does.
func TestRebuild(t *testing.T) {
	l, r := newLog(t)
	calls(t, l, 20, 5)
	want, err := Scan(r, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, r)
	if _, err := x.List(t.Context(), Filter{}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.db.Exec(`UPDATE calls SET status = 'completed', tool = 'harmless'`); err != nil {
		t.Fatal(err)
	}
	got, err := x.List(t.Context(), Filter{})
	if err != nil || got[0].Tool != "harmless" {
		t.Fatalf("control: the list shows %+v, %v", got[0], err)
	}
	if _, err := x.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err = x.List(t.Context(), Filter{})
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rows, want %d; %v", len(got), len(want), err)
	}
	for i := range got {
		if got[i].Tool != want[i].Tool || got[i].Status != want[i].Status {
			t.Errorf("call %s is listed as %s %s, want %s %s", got[i].ID, got[i].Status, got[i].Tool, want[i].Status, want[i].Tool)
		}
	}
}

// TestTwin compares the index with a scan of the record, for many filters, while
// the record grows, is pruned, and its writer ends.
func TestTwin(t *testing.T) {
	l, r := newLog(t)
	x := open(t, r)
	rnd := rand.New(rand.NewPCG(7, 7))
	one := func(list ...string) string { return list[rnd.IntN(len(list))] }
	compare := func(step string) {
		t.Helper()
		all, err := Scan(r, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		chosen := 0
		for n := range 120 {
			var f Filter
			x.many = []int{0, 5, manyNames}[n%3]
			if n > 0 {
				for range 1 + rnd.IntN(3) {
					switch rnd.IntN(11) {
					case 0:
						f.Since = all[rnd.IntN(len(all))].At
					case 1:
						f.Until = all[rnd.IntN(len(all))].At.Add(time.Duration(rnd.IntN(3)-1) * 100 * time.Nanosecond)
					case 2:
						f.Tool = one("grep", "g*", "*_*", "?rep", "[g]rep", "none")
					case 3:
						f.Path = one("src", "src/", "./src/main.go", "src/*", "*.md", "src/a[1].go", "src/a[1]*", "a*b", "é", "x", "old", "no", "/", "s?c")
					case 4:
						f.Host = one("example.com:443", "EXAMPLE.*", "*example*", "api.example.com", "example.com")
					case 5:
						f.Approver = one("ada", "*a*", "the rule", "nobody")
					case 6:
						f.Session, f.Ticket = one("s1", "s2", "s3"), one("", "", "tk3")
					case 7:
						f.Call = one("first", "c1", "c2")
					case 8:
						f.Status = []evidence.Status{evidence.Status(one("completed", "denied", "waiting", "running", "interrupted")), evidence.Status(one("failed", "running"))}
					case 9:
						f.Effects = []tool.Effects{tool.Reads, tool.Destroys, tool.Writes | tool.UsesNetwork}[rnd.IntN(3)]
					case 10:
						f.Limit, f.Before = rnd.IntN(30), all[rnd.IntN(len(all))].ID
					}
				}
			}
			want, err := Scan(r, f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.List(t.Context(), f)
			if err != nil {
				t.Fatalf("%s: List(%+v): %v", step, f, err)
			}
			for i := range got {
				got[i].writer = 0
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: List(%+v) gives %d rows, the scan %d\n%+v\n%+v", step, f, len(got), len(want), got, want)
			}
			if len(want) > 0 && len(want) < len(all) {
				chosen++
			}
		}
		if chosen < 30 {
			t.Errorf("%s: only %d filters choose some of %d calls", step, chosen, len(all))
		}
	}
	calls(t, l, 150, 1)
	compare("at first")
	calls(t, l, 250, 2)
	compare("after more")
	if p, err := l.Prune(evidence.Retention{MaxBytes: 128 << 10}); err != nil || p.Segments == 0 {
		t.Fatalf("Prune = %+v, %v", p, err)
	}
	compare("after pruning")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	compare("after the writer")
	if n, err := x.Rebuild(t.Context()); err != nil || n == 0 {
		t.Fatalf("Rebuild = %d, %v", n, err)
	}
	compare("after rebuilding")
}

// TestDamage: whatever is done to the files, the next list is right.
func TestDamage(t *testing.T) {
	l, r := newLog(t)
	calls(t, l, 200, 3)
	want, err := Scan(r, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.Dir(), folder, file)
	other := func() []byte { // an index of another record
		l, r := newLog(t)
		calls(t, l, 50, 4)
		x := open(t, r)
		if _, err := x.List(t.Context(), Filter{}); err != nil {
			t.Fatal(err)
		}
		x.Close()
		p, err := os.ReadFile(filepath.Join(r.Dir(), folder, file))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}()
	edit := func(f func(p []byte) []byte) func() error {
		return func() error {
			p, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, f(p), 0o600)
		}
	}
	for name, damage := range map[string]func() error{
		"removed":           func() error { return os.RemoveAll(filepath.Dir(path)) },
		"emptied":           edit(func([]byte) []byte { return nil }),
		"rubbish":           edit(func(p []byte) []byte { return []byte(strings.Repeat("rubbish", len(p)/7)) }),
		"cut":               edit(func(p []byte) []byte { return p[:len(p)/2] }),
		"cut to a page":     edit(func(p []byte) []byte { return p[:4096] }),
		"header":            edit(func(p []byte) []byte { copy(p, "not SQLite"); return p }),
		"zeros in it":       edit(func(p []byte) []byte { clear(p[4096 : len(p)-4096]); return p }),
		"of another record": edit(func([]byte) []byte { return other }),
		"a folder": func() error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(path, "x"), 0o700)
		},
		"another schema": func() error {
			x, err := Open(context.Background(), r)
			if err != nil {
				return err
			}
			defer x.Close()
			_, err = x.db.Exec(`DROP TABLE hosts`)
			return err
		},
		"no position": func() error {
			x, err := Open(context.Background(), r)
			if err != nil {
				return err
			}
			defer x.Close()
			_, err = x.db.Exec(`DELETE FROM at`)
			return err
		},
	} {
		x := open(t, r)
		if _, err := x.List(t.Context(), Filter{}); err != nil {
			t.Fatal(err)
		}
		x.Close()
		if err := damage(); err != nil {
			t.Fatal(name, err)
		}
		x = open(t, r)
		got, err := x.List(t.Context(), Filter{})
		for i := range got {
			got[i].writer = 0
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: List = %d rows, %v; want %d", name, len(got), err, len(want))
		}
		x.Close()
	}
}

// TestAtOnce: several lists and a writer at once, beginning without an index.
func TestAtOnce(t *testing.T) {
	l, r := newLog(t)
	calls(t, l, 100, 5)
	var wg sync.WaitGroup
	wg.Go(func() { calls(t, l, 200, 6) })
	for range 4 {
		wg.Go(func() {
			for range 5 {
				x, err := Open(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if rows, err := x.List(t.Context(), Filter{}); err != nil || len(rows) < 101 {
					t.Errorf("List = %d rows, %v", len(rows), err)
				}
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	x := open(t, r)
	if rows, err := x.List(t.Context(), Filter{}); err != nil || len(rows) != 301 {
		t.Errorf("List = %d rows, %v", len(rows), err)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		p, s string
		want bool
	}{
		{"", "x", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*", "", true}, {"*b*", "abc", true}, {"a?c", "abc", true},
		{"a?c", "aéc", true}, {"a?c", "ac", false}, {"*a*a*a", "aaaaaaaa", true}, {"**x", "y", false}, {"[a]", "a", false}, {"[a]", "[a]", true},
	} {
		if got := matches(c.p, c.s); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.p, c.s, got)
		}
	}
}

// TestOpenedAtOnce opens and closes one index from many at a time, so that the
// first to open it and the last to close it meet.
func TestOpenedAtOnce(t *testing.T) {
	l, r := newLog(t)
	calls(t, l, 1, 5)
	for range 5 {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 5 {
					x, err := Open(t.Context(), r)
					if err != nil {
						t.Error(err)
						continue
					}
					if err := x.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := os.RemoveAll(filepath.Join(r.Dir(), folder)); err != nil {
			t.Fatal(err)
		}
	}
}
