package channel

import (
	"errors"
	"strings"
	"testing"
)

// tree is a made-up process table.
func tree(ps ...proc) table {
	return func(pid int) (proc, error) {
		for _, p := range ps {
			if p.PID == pid {
				return p, nil
			}
		}
		return proc{}, errGone
	}
}

func made(pid int, start uint64, parent int) proc {
	return proc{Process: Process{PID: pid, Start: start}, parent: parent, session: pid}
}

func TestLineage(t *testing.T) {
	deep := []proc{made(1, 1, 0)}
	for pid := 2; pid <= 2*maxAncestors; pid++ {
		deep = append(deep, made(pid, uint64(pid), pid-1))
	}
	hidden := func(pid int) (proc, error) {
		if pid == 1 {
			return proc{}, errHidden
		}
		return tree(made(5, 5, 1))(pid)
	}
	for _, c := range []struct {
		name string
		read table
		pid  int
		want int // ancestors with itself; 0: an error
	}{
		{"up to init", tree(made(1, 1, 0), made(4, 4, 1), made(9, 9, 4)), 9, 3},
		{"ended", tree(made(1, 1, 0)), 9, 0},
		{"parent's pid is another's now", tree(made(1, 1, 0), made(4, 20, 1), made(9, 9, 4)), 9, 0},
		{"a ring", tree(made(4, 4, 9), made(9, 4, 4)), 9, 0},
		{"its own parent", tree(made(4, 4, 4)), 4, 0},
		{"deep", tree(deep[:maxAncestors]...), maxAncestors, maxAncestors},
		{"too deep", tree(deep...), 2 * maxAncestors, 0},
		{"hidden parent", hidden, 5, 1},
	} {
		line, err := lineage(c.read, c.pid)
		if (err != nil) != (c.want == 0) || len(line) != c.want {
			t.Errorf("%s: lineage = %d ancestors, %v; want %d", c.name, len(line), err, c.want)
		}
	}
}

// TestLineageWhileParentsChange: a parent that ends while it is being read is
// found out, and the walk is done again.
func TestLineageWhileParentsChange(t *testing.T) {
	orphaned := false
	read := func(pid int) (proc, error) {
		if pid == 4 && !orphaned {
			orphaned = true // 4 ends; its pid is 7's sibling at once, its child goes to 1
			return made(4, 2, 1), nil
		}
		if orphaned {
			return tree(made(1, 1, 0), made(4, 3, 1), made(9, 9, 1))(pid)
		}
		return tree(made(9, 9, 4))(pid)
	}
	line, err := lineage(read, 9)
	if err != nil || len(line) != 2 || line[1].PID != 1 {
		t.Fatalf("lineage = %v, %v; want 9 and 1", line, err)
	}
	if _, err := lineage(func(pid int) (proc, error) {
		p := made(pid, 5, pid+1)
		if pid == 9 {
			return p, nil
		}
		return proc{}, errGone
	}, 9); !errors.Is(err, errGone) {
		t.Fatalf("a parent that is never there: %v", err)
	}
}

// household of the tests: runtime 100, session leader 200 with session 201,
// terminal 0x8803.
type ours struct{}

func (ours) Leaders() []Process  { return []Process{{200, 2}} }
func (ours) SIDs() []int         { return []int{201} }
func (ours) Terminals() []uint64 { return []uint64{0x8803} }

func TestRefuse(t *testing.T) {
	h := newHousehold(confinement{pidSpaces: 1}, ours{}, []Process{{100, 1}})
	with := func(p proc, change func(*proc)) proc { change(&p); return p }
	for _, c := range []struct {
		name string
		line []proc
		want string // part of the reason; "" for a human
	}{
		{"a human", []proc{made(9, 9, 4), made(4, 4, 1), made(1, 1, 0)}, ""},
		{"a human whose shell got the pid of a leader that ended", []proc{made(200, 9, 1)}, ""},
		{"a human at another terminal", []proc{with(made(9, 9, 1), func(p *proc) { p.tty = 0x8804 })}, ""},
		{"the leader", []proc{made(200, 2, 100)}, "it was started by a runtime"},
		{"below the leader", []proc{made(9, 9, 200), made(200, 2, 100)}, "its ancestor 200 was started"},
		{"the runtime", []proc{made(100, 1, 1)}, "it is a runtime"},
		{"below a runtime", []proc{made(9, 9, 100), made(100, 1, 1)}, "its ancestor 100 is a runtime"},
		{"an orphan of the session", []proc{with(made(9, 9, 1), func(p *proc) { p.session = 201 })}, "session that a runtime opened"},
		{"below one", []proc{made(9, 9, 8), with(made(8, 8, 1), func(p *proc) { p.session = 201 })}, "its ancestor 8 belongs to a session"},
		{"at our terminal", []proc{with(made(9, 9, 1), func(p *proc) { p.tty = 0x8803 })}, "terminal that a runtime opened"},
		{"confined", []proc{with(made(9, 9, 1), func(p *proc) { p.noNewPrivs = true })}, "confined"},
		{"in a process namespace", []proc{with(made(9, 9, 1), func(p *proc) { p.pidSpaces = 2 })}, "confined"},
	} {
		got := h.refuse(c.line)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: refuse = %q, want %q", c.name, got, c.want)
		}
	}
	confined := newHousehold(confinement{noNewPrivs: true, pidSpaces: 2}, NoSessions{}, nil)
	if why := confined.refuse([]proc{with(made(9, 9, 1), func(p *proc) { p.noNewPrivs, p.pidSpaces = true, 2 })}); why != "" {
		t.Errorf("a human beside a runtime in one container is refused: %s", why)
	}
}
