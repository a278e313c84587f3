// Package budget decides how much of a result a model is shown. What does not
// fit is kept whole as an artifact, and a receipt says how to read it.
//
// There are three gates. The first is inside each tool, which knows best what
// matters of its output. The second bounds structured content and details: the
// largest strings become receipts in place, or else the largest members. The third bounds the text of any
// tool. Long after a call, [Compact] takes old results out of a conversation
// in the same way.
//
// It promises that what it returns is within the gate, counted to the byte in
// the JSON that a client gets, notices and receipts included; that text is cut
// between characters only; and that nothing is left out without its bytes being
// counted. Everything but text, such as an image, passes untouched, whatever
// its size. So does an argument: a budget bounds what comes back, not what is
// sent.
//
// The package is pure. It stores through a [Keeper], which may refuse; it says
// nothing about whether a result is true, and it cannot tell a receipt of its
// own from text that a tool made to look like one.
package budget

import (
	"cmp"
	"path"
)

// Gates of a result that sets none, in bytes of JSON. A line end counts as two
// bytes, as it does on the wire; the quotes around a text are not counted.
const (
	Text       = 64 << 10
	Structured = 32 << 10
)

// Bounds on gates. Below the least text what was kept could not be read: a reader
// answers up to 24 KiB, and would be answered by a receipt again. Below the least
// structure receipts would have no room. Beyond the most a gate would be none.
const (
	LeastText       = 32 << 10
	LeastStructured = 16 << 10
	Most            = 4 << 20
)

const (
	// Unread is how much text stays where the model has no way to read an
	// artifact, or none can be kept: some whole output is worth more than none.
	Unread = 256 << 10

	// ErrorChars is how many characters of a failed call are shown: clients cut
	// longer ones without a word. What matters stands first in an error, so the
	// beginning stays before the receipt.
	ErrorChars = 8000
	errorHead  = 4 << 10

	// ends is how much is shown of the beginning and of the end of a text that is
	// shown neither whole nor by a receipt.
	ends = 1 << 10

	// maxParts is how many values of one result become artifacts of their own.
	// Beyond, all of it becomes one.
	maxParts = 16
)

// Gate is how much of one call is shown, in bytes of JSON. A figure that is not
// positive means that of [Text] or [Structured]; others are held within
// [LeastText] or [LeastStructured] and [Most].
type Gate struct {
	Text       int // of all text blocks together
	Structured int // of the structured content, and as much again of the details
}

// Gates are those of all tools. The zero value holds the defaults. It is not
// changed once it is in use: to change it while calls run, give others.
type Gates struct {
	Gate

	// Tools are those of single tools, by name or by globs with *; a figure that
	// is not positive means that of Gate. The name counts before a glob, and a
	// longer glob before a shorter one.
	Tools map[string]Gate
}

// For is the gate of one tool.
func (g Gates) For(tool string) Gate {
	own, named := g.Tools[tool]
	if !named {
		best := ""
		for glob, gate := range g.Tools {
			if fits, err := path.Match(glob, tool); err == nil && fits && cmp.Or(cmp.Compare(len(glob), len(best)), cmp.Compare(glob, best)) > 0 {
				best, own = glob, gate
			}
		}
	}
	if own.Text <= 0 {
		own.Text = g.Text
	}
	if own.Structured <= 0 {
		own.Structured = g.Structured
	}
	return own.whole()
}

// Under is g where it is below most, and else most. A figure of most that is not
// positive bounds nothing. It is for surfaces, which may lower a gate and never
// raise it.
func (g Gate) Under(most Gate) Gate {
	g = g.whole()
	if most.Text > 0 {
		g.Text = min(g.Text, max(most.Text, LeastText))
	}
	if most.Structured > 0 {
		g.Structured = min(g.Structured, max(most.Structured, LeastStructured))
	}
	return g
}

// whole puts figures in place of what is not set.
func (g Gate) whole() Gate {
	if g.Text <= 0 {
		g.Text = Text
	}
	if g.Structured <= 0 {
		g.Structured = Structured
	}
	return Gate{min(max(g.Text, LeastText), Most), min(max(g.Structured, LeastStructured), Most)}
}
