package shell

import (
	"maps"
	"slices"
)

// Bounds on what is followed of a shell's state.
const (
	maxCwds = 8   // working directories that a command may run in
	maxAlts = 128 // texts that one word may be
)

// state is what is known about a shell at one point of the text. A nil state
// is one that is not reached.
type state struct {
	cwds []string         // every directory it may be in; nil if that is not known
	vars map[string]field // variables that the text has set for certain
}

func (s *state) clone() *state {
	return &state{cwds: slices.Clone(s.cwds), vars: maps.Clone(s.vars)}
}

// join returns what is known when either a or b holds.
func join(a, b *state) *state {
	if a == nil {
		return b
	}
	if b == nil || a == b {
		return a
	}
	out := &state{vars: map[string]field{}}
	if a.cwds != nil && b.cwds != nil {
		out.cwds = union(a.cwds, b.cwds)
		if len(out.cwds) > maxCwds {
			out.cwds = nil
		}
	}
	for name, x := range a.vars {
		y, ok := b.vars[name]
		if !ok {
			continue // it may not be set at all
		}
		out.vars[name] = either(x, y)
	}
	return out
}

// either is the field that is x or y.
func either(x, y field) field {
	switch {
	case x.alts != nil && y.alts != nil:
		alts := union(x.alts, y.alts)
		if len(alts) <= maxAlts {
			return field{src: x.src, alts: alts}
		}
	case numeric(x) && numeric(y):
		return field{src: x.src, kind: number}
	}
	return field{src: x.src, many: x.many || y.many}
}

// numeric reports whether f is a whole number whatever else it is.
func numeric(f field) bool {
	if f.alts == nil {
		return f.kind == number
	}
	for _, a := range f.alts {
		if !integer(a) {
			return false
		}
	}
	return true
}

// integer reports whether s is an optional minus and decimal digits.
func integer(s string) bool {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	return digits(s) && len(s) <= 18
}

// digits reports whether s is one or more decimal digits.
func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
