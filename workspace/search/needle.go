package search

import (
	"bytes"
	"strings"
)

// byFrequency orders bytes from the most to the least frequent in source code
// (counted over Go's own source tree). What is not in it is rarer still.
const byFrequency = " et\t0rn\naiso,xlcfudp.1/():mg2\"=hb_S4{}3TyE6Av\\8RICOP5Dk9wMFNL7XBV[]U*G-H!&W+z<%Y;|Kq'>jQ`ZJ#^$?@~"

// rarity is 0 for the most frequent byte and about 100 for a rare one.
func rarity(c byte) int {
	if i := strings.IndexByte(byFrequency, c); i >= 0 {
		return i
	}
	return len(byFrequency)
}

// needle is one string to look for, by its rarest byte: the library's search
// for one byte runs at the speed of memory, and a rare byte seldom lies.
type needle struct {
	text string // lower case if fold
	off  int    // of the anchor in text
	a, b byte   // the anchor, and its other case if fold; else equal
	fold bool
}

func newNeedle(text string, fold bool) needle {
	if fold {
		text = lowerASCII(text)
	}
	n := needle{text: text, fold: fold}
	best := -1
	for i := range len(text) {
		r := rarity(text[i])
		if fold && text[i] != upperASCII(text[i]) {
			// Both cases are looked for, so the letter is as frequent as the more
			// frequent of the two, and costs a second search.
			r = min(r, rarity(upperASCII(text[i]))) / 2
		}
		if r > best {
			best, n.off = r, i
		}
	}
	n.a, n.b = text[n.off], text[n.off]
	if fold {
		n.b = upperASCII(n.a)
	}
	return n
}

func upperASCII(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c &^ 0x20
	}
	return c
}

func (n *needle) at(b []byte, i int) bool {
	if i < 0 || len(b)-i < len(n.text) {
		return false
	}
	if !n.fold {
		return b[i] == n.text[0] && string(b[i:i+len(n.text)]) == n.text
	}
	for j := range len(n.text) {
		c := b[i+j]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != n.text[j] {
			return false
		}
	}
	return true
}

// finder looks for any of a pattern's needles in one buffer after another. It
// remembers where each anchor comes next, so that a needle that is not there
// costs one pass over the buffer and not one for every hit of another.
type finder struct {
	needles []needle
	marks   []mark
}

// mark is the state of one needle: where its anchors come next, and where it
// was found at or after the last position asked for.
type mark struct {
	a, b  int
	found int
}

const none = int(^uint(0) >> 1) // no such place in the buffer

func newFinder(needles []needle) *finder {
	return &finder{needles: needles, marks: make([]mark, len(needles))}
}

// reset starts a new buffer.
func (f *finder) reset() {
	for i := range f.marks {
		f.marks[i] = mark{a: -1, b: -1, found: -1}
	}
}

// next gives the first place at or after from where a needle begins, or -1.
// Places asked for must not go down until reset.
func (f *finder) next(buf []byte, from int) int {
	first := none
	for i := range f.needles {
		m := &f.marks[i]
		if m.found < from {
			m.found = f.needles[i].search(buf, from, m)
		}
		first = min(first, m.found)
	}
	if first == none {
		return -1
	}
	return first
}

func (n *needle) search(buf []byte, from int, m *mark) int {
	at := from + n.off // of the anchor
	for {
		if m.a < at {
			m.a = indexFrom(buf, n.a, at)
		}
		hit := m.a
		if n.a != n.b {
			if m.b < at {
				m.b = indexFrom(buf, n.b, at)
			}
			hit = min(hit, m.b)
		}
		if hit == none {
			return none
		}
		if n.at(buf, hit-n.off) {
			return hit - n.off
		}
		at = hit + 1
	}
}

func indexFrom(buf []byte, c byte, from int) int {
	if from >= len(buf) {
		return none
	}
	if i := bytes.IndexByte(buf[from:], c); i >= 0 {
		return from + i
	}
	return none
}
