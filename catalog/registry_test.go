package catalog_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// moody is a source that does what its mood says.
type moody struct {
	mood  atomic.Pointer[func() catalog.SourceState]
	asked atomic.Int64
}

func (m *moody) Name() string { return "moody" }
func (m *moody) Snapshot() catalog.SourceState {
	m.asked.Add(1)
	return (*m.mood.Load())()
}
func (m *moody) set(f func() catalog.SourceState) { m.mood.Store(&f) }

func state(version uint64, tools ...string) catalog.SourceState {
	s := catalog.SourceState{Version: version}
	for _, n := range tools {
		s.Tools = append(s.Tools, sample{name: n, from: tool.Host}.entry())
	}
	return s
}

// TestSourcesThatFail: one that hangs or panics keeps what it had, and the others
// are as they are.
func TestSourcesThatFail(t *testing.T) {
	var m moody
	m.set(func() catalog.SourceState { return state(1, "old") })
	r := catalog.NewRegistry(nil, &m, catalog.Static("good", sample{name: "good", from: tool.Host}))
	look := func() (catalog.List, []catalog.SourceFact) {
		t.Helper()
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return plan(t, s, catalog.Facts{}, catalog.Options{}), s.Sources
	}
	if l, s := look(); fmt.Sprint(names(l)) != "[old good]" || s[0].Trouble != "" {
		t.Errorf("%v %+v", names(l), s)
	}
	m.set(func() catalog.SourceState { panic("gone mad") })
	if l, s := look(); fmt.Sprint(names(l)) != "[old good]" || s[0].Trouble == "" || len(l.Notes) != 1 {
		t.Errorf("after a panic: %v %+v %q", names(l), s, l.Notes)
	}
	hang, asked := make(chan struct{}), m.asked.Load()
	m.set(func() catalog.SourceState { <-hang; return state(2, "new") })
	for range 3 {
		if l, s := look(); fmt.Sprint(names(l)) != "[old good]" || s[0].Trouble == "" {
			t.Errorf("while it hangs: %v %+v", names(l), s)
		}
	}
	if n := m.asked.Load() - asked; n != 1 {
		t.Errorf("a source that hangs was asked %d times", n)
	}
	close(hang)
	for l, _ := look(); fmt.Sprint(names(l)) != "[new good]"; l, _ = look() {
	}
}

// TestDefinitionsThatFail: what a source hands out is its own code as well. A nil
// tool, or one whose definition panics, costs only the source's news.
func TestDefinitionsThatFail(t *testing.T) {
	for name, bad := range map[string]tool.Tool{"nil": nil, "panics": mad{}} {
		t.Run(name, func(t *testing.T) {
			var m moody
			broken := func() catalog.SourceState {
				return catalog.SourceState{Version: 2, Tools: []catalog.Entry{{Tool: bad, Available: true}}}
			}
			m.set(func() catalog.SourceState { return state(1, "old") })
			r := catalog.NewRegistry(nil, &m, catalog.Static("good", sample{name: "good", from: tool.Host}))
			for _, step := range []struct {
				says    func() catalog.SourceState
				want    string
				trouble bool
			}{
				{func() catalog.SourceState { return state(1, "old") }, "[old good]", false},
				{broken, "[old good]", true},
				{broken, "[old good]", true},
				{func() catalog.SourceState { return state(3, "new") }, "[new good]", false},
			} {
				m.set(step.says)
				s, err := r.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				l := plan(t, s, catalog.Facts{}, catalog.Options{})
				if got := fmt.Sprint(names(l)); got != step.want || (s.Sources[0].Trouble != "") != step.trouble {
					t.Errorf("tools %s, trouble %q; want %s, trouble %v", got, s.Sources[0].Trouble, step.want, step.trouble)
				}
			}
		})
	}
}

// mad is a tool that cannot say what it is.
type mad struct{ tool.Tool }

func (mad) Definition() tool.Definition { panic("gone mad") }

// TestSnapshotIsKept: as long as no source has a new version there is one
// snapshot, so its index is made once.
func TestSnapshotIsKept(t *testing.T) {
	var m moody
	m.set(func() catalog.SourceState { return state(1, "a") })
	r := catalog.NewRegistry(nil, &m)
	first, err := r.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := r.Snapshot(); again != first {
		t.Error("there are two snapshots of one version")
	}
	m.set(func() catalog.SourceState { return state(2, "a", "b") })
	if next, _ := r.Snapshot(); next == first {
		t.Error("a new version is not seen")
	}
	// Later, a name that cannot be costs its tool, and not the others.
	for i, names := range [][]string{{"a", "a"}, {"a", "tool_search"}, {"a", "b c"}} {
		m.set(func() catalog.SourceState { return state(uint64(3+i), names...) })
		s, err := r.Snapshot()
		if err != nil || s.Sources[0].Trouble == "" || len(plan(t, s, catalog.Facts{}, catalog.Options{}).Items) != 1 {
			t.Errorf("%v: %v, %+v", names, err, s)
		}
		if _, err := catalog.NewRegistry(nil, &m).Snapshot(); err == nil {
			t.Errorf("%v are accepted at first", names)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{20, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := catalog.NewRegistry(ranker(backwards), catalog.Static("core", sample{name: "read_open", from: tool.Builtin}), fixedOf(many(n, sample{name: "s__m", from: tool.MCP, server: "s", text: "does something useful"})))
			for b.Loop() {
				s, err := r.Snapshot()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := catalog.Plan(s, catalog.Facts{Request: "do something"}, catalog.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fixedOf(tools []sample) catalog.Source {
	var entries []catalog.Entry
	for _, s := range tools {
		entries = append(entries, s.entry())
	}
	return catalog.Fixed("many", entries...)
}

// slow is a tool that takes its time to say what it is, as any does on a machine
// that has no time for it.
type slow struct{ sample }

func (s slow) Definition() tool.Definition {
	time.Sleep(time.Second)
	return s.sample.Definition()
}

// local is a source that says of itself where it is.
type local struct {
	moody
	here bool
}

func (l *local) Local() bool { return l.here }

// What this process has in memory is never missing from a list because the machine
// was busy; others are waited for a moment only.
func TestLocalSourcesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func() catalog.SourceState { time.Sleep(time.Minute); return state(1, "late") }
		away, here := &local{}, &local{here: true}
		away.set(late)
		here.set(func() catalog.SourceState { time.Sleep(time.Second); return state(1, "here") })
		r := catalog.NewRegistry(nil, catalog.Static("fixed", slow{sample{name: "fixed", from: tool.Host}}), here, away)
		s, err := r.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if l := plan(t, s, catalog.Facts{}, catalog.Options{}); fmt.Sprint(names(l)) != "[fixed here]" {
			t.Errorf("at first: %v", names(l))
		}
		time.Sleep(2 * time.Minute)
		if s, _ = r.Snapshot(); fmt.Sprint(names(plan(t, s, catalog.Facts{}, catalog.Options{}))) != "[fixed here late]" {
			t.Error("what came later is not listed")
		}
		time.Sleep(2 * time.Minute) // the questions that are open end
	})
}
