package channel

import (
	"errors"
	"fmt"
)

// proc is what the kernel says about one process.
type proc struct {
	Process
	parent  int
	session int    // id given by setsid
	tty     uint64 // device of the controlling terminal; 0: none
	confinement
}

// confinement are marks that a process inherits and cannot take off, whoever
// its parent becomes.
type confinement struct {
	noNewPrivs bool // set by every sandbox that uses seccomp or Landlock, and by bubblewrap
	pidSpaces  int  // how many process namespaces it is in
}

// more reports whether c is confined in a way that other is not.
func (c confinement) more(other confinement) bool {
	return c.noNewPrivs && !other.noNewPrivs || c.pidSpaces > other.pidSpaces
}

// table reads one process. Tests give their own.
type table func(pid int) (proc, error)

var (
	errGone   = errors.New("the process has ended")
	errHidden = errors.New("the system does not show the process")
)

// Bounds of the walk: deeper trees and ones that change all the time are
// refused.
const (
	maxAncestors = 256
	maxWalks     = 16
)

// lineage lists a process and its ancestors up to the first one that has no
// parent or is hidden. A pid says nothing by itself: between two looks the
// process may end and another get its number. So a parent counts only if the
// child still names it after it was read, and if it is not younger.
func lineage(read table, pid int) ([]proc, error) {
	var err error
	for range maxWalks {
		var line []proc
		if line, err = walk(read, pid); err == nil || !errors.Is(err, errGone) {
			return line, err
		}
	}
	return nil, err
}

func walk(read table, pid int) ([]proc, error) {
	p, err := read(pid)
	if err != nil {
		return nil, err
	}
	line := []proc{p}
	for p.parent > 0 {
		if len(line) == maxAncestors {
			return nil, fmt.Errorf("it has more than %d ancestors", maxAncestors)
		}
		parent, err := read(p.parent)
		if errors.Is(err, errHidden) {
			break
		}
		if err != nil {
			return nil, err
		}
		again, err := read(p.PID)
		if err != nil {
			return nil, err
		}
		if again.Process != p.Process || again.parent != p.parent || parent.Start > p.Start {
			return nil, errGone
		}
		line = append(line, parent)
		p = parent
	}
	return line, nil
}

// household is what belongs to us: to this runtime, and the other runtimes of
// this user.
type household struct {
	self      confinement
	leaders   map[Process]bool
	sessions  map[int]bool
	terminals map[uint64]bool
	runtimes  map[Process]bool // this one too
}

func newHousehold(self confinement, s Sessions, runtimes []Process) household {
	h := household{self: self, leaders: map[Process]bool{}, sessions: map[int]bool{}, terminals: map[uint64]bool{}, runtimes: map[Process]bool{}}
	for _, p := range s.Leaders() {
		h.leaders[p] = true
	}
	for _, id := range s.SIDs() {
		h.sessions[id] = true
	}
	for _, dev := range s.Terminals() {
		h.terminals[dev] = true
	}
	for _, p := range runtimes {
		h.runtimes[p] = true
	}
	return h
}

// refuse says why a process with these ancestors is no human; "" if it may be
// one.
func (h household) refuse(line []proc) string {
	for i, p := range line {
		whose := "it"
		if i > 0 {
			whose = fmt.Sprintf("its ancestor %d", p.PID)
		}
		switch {
		case h.leaders[p.Process]:
			return whose + " was started by a runtime for a model"
		case h.runtimes[p.Process]:
			return whose + " is a runtime"
		case h.sessions[p.session]:
			return whose + " belongs to a session that a runtime opened"
		case p.tty != 0 && h.terminals[p.tty]:
			return whose + " sits at a terminal that a runtime opened"
		}
	}
	if len(line) > 0 && line[0].more(h.self) {
		return "it is confined by a sandbox that the runtime is not in"
	}
	return ""
}
