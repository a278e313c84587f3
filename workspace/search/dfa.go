package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// dfa tells which lines can match, a table look-up for each byte, where the
// engine takes some ten times as long. It knows ASCII only: a line with any
// other byte before its first match is left to the engine, as are the places of
// matches.
//
// States are made when they are first met. A pattern that needs too many makes
// the dfa give up, and then the engine does all the work.
type dfa struct {
	prog  *syntax.Prog
	next  []int32 // by state<<8 | byte; see the constants
	sets  []dfaSet
	known map[string]int32

	budget int // instructions that may still be looked at to make states
	mark   []uint32
	round  uint32
	stack  []uint32
	out    []uint32
	key    []byte
}

// dfaSet is a state: the instructions to go on with before the next byte, and
// what the bytes before mean to assertions.
type dfaSet struct {
	pcs   []uint32
	begin bool // at the begin of the line
	word  bool // after a word character
}

// What stands in next besides states. A line end leads back to the start state.
const (
	dfaUnknown = 0 // not yet made
	dfaMatch   = 1 // the line matches
	dfaUnsure  = 2 // no ASCII
	dfaStart   = 3 // the first state
)

const (
	maxDFAStates = 2_000   // half a megabyte of table for each thousand
	maxDFAWork   = 1 << 25 // some tenths of a second
)

func newDFA(prog *syntax.Prog) *dfa {
	d := &dfa{prog: prog, known: map[string]int32{}, budget: maxDFAWork, mark: make([]uint32, len(prog.Inst))}
	d.sets = make([]dfaSet, dfaStart)
	d.next = make([]int32, dfaStart<<8)
	d.state(dfaSet{begin: true})
	return d
}

// find gives the start of the first line at or after from, itself the start of a
// line, that matches, or that the engine has to judge; -1 if there is none. It is
// not ok if the dfa gives up.
func (d *dfa) find(b []byte, from int) (line int, sure, ok bool) {
	s := int32(dfaStart)
	for i := from; i < len(b); i++ {
		n := d.next[s<<8|int32(b[i])]
		if n < dfaStart {
			if n == dfaUnknown {
				if n = d.step(s, b[i]); n == dfaUnknown {
					return 0, false, false
				}
			}
			if n < dfaStart {
				return max(from, bytes.LastIndexByte(b[:i], '\n')+1), n == dfaMatch, true
			}
		}
		s = n
	}
	if len(b) > from && b[len(b)-1] != '\n' {
		n := d.next[s<<8|'\n']
		if n == dfaUnknown {
			if n = d.step(s, '\n'); n == dfaUnknown {
				return 0, false, false
			}
		}
		if n == dfaMatch {
			return max(from, bytes.LastIndexByte(b, '\n')+1), true, true
		}
	}
	return -1, false, true
}

// run goes on from a state over a part of a line. Once the answer is below
// dfaStart it stays: the line matches, or cannot be judged.
func (d *dfa) run(s int32, b []byte) int32 {
	for i := 0; i < len(b) && s >= dfaStart; i++ {
		n := d.next[s<<8|int32(b[i])]
		if n == dfaUnknown {
			n = d.step(s, b[i])
		}
		s = n
	}
	return s
}

// step makes one entry of the table.
func (d *dfa) step(s int32, c byte) int32 {
	n := d.target(s, c)
	if n != dfaUnknown {
		d.next[s<<8|int32(c)] = n
	}
	return n
}

func (d *dfa) target(s int32, c byte) int32 {
	if c >= 0x80 {
		return dfaUnsure
	}
	if d.budget -= len(d.prog.Inst) + 256; d.budget < 0 {
		return dfaUnknown
	}
	set := d.sets[s]
	var at syntax.EmptyOp
	if set.begin {
		at |= syntax.EmptyBeginText | syntax.EmptyBeginLine
	}
	word := c != '\n' && syntax.IsWordChar(rune(c))
	if c == '\n' {
		at |= syntax.EmptyEndText | syntax.EmptyEndLine
	}
	if set.word != word {
		at |= syntax.EmptyWordBoundary
	} else {
		at |= syntax.EmptyNoWordBoundary
	}

	d.round++
	d.out = d.out[:0]
	d.stack = append(append(d.stack[:0], set.pcs...), uint32(d.prog.Start)) // a match may begin anywhere
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.mark[pc] == d.round {
			continue
		}
		d.mark[pc] = d.round
		in := &d.prog.Inst[pc]
		switch in.Op {
		case syntax.InstMatch:
			return dfaMatch
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^at == 0 {
				d.stack = append(d.stack, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if c != '\n' && in.MatchRune(rune(c)) {
				d.out = append(d.out, in.Out)
			}
		}
	}
	if c == '\n' {
		return dfaStart
	}
	slices.Sort(d.out)
	return d.state(dfaSet{pcs: slices.Compact(d.out), word: word})
}

// state gives the number of a set, or dfaUnknown if there are too many.
func (d *dfa) state(set dfaSet) int32 {
	d.key = d.key[:0]
	flags := byte(0)
	if set.begin {
		flags |= 1
	}
	if set.word {
		flags |= 2
	}
	d.key = append(d.key, flags)
	for _, pc := range set.pcs {
		d.key = binary.LittleEndian.AppendUint32(d.key, pc)
	}
	if n, ok := d.known[string(d.key)]; ok {
		return n
	}
	n := int32(len(d.sets))
	if n == maxDFAStates {
		return dfaUnknown
	}
	set.pcs = slices.Clone(set.pcs)
	d.sets = append(d.sets, set)
	d.next = append(d.next, make([]int32, 256)...)
	d.known[string(d.key)] = n
	return n
}
