package config

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in bytes
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

func (f Fault) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
	if f.Hint != "" {
		s += "; " + f.Hint
	}
	return s
}

// Faults is everything that is wrong with a file, in the order of the lines.
// Nothing is taken from a file that has any.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, 0, len(f))
	for _, one := range f {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// maxFaults bounds what is told of one file.
const maxFaults = 100

// nearest is the known word that a mistyped one may have meant; "" if none is
// near.
func nearest(word string, known []string) string {
	best, at := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k, at); d <= at && d < max(len(word), len(k)) {
			best, at = k, d-1
		}
	}
	return best
}

// distance counts insertions, removals, replacements and swaps of neighbours
// that turn a into b; anything over limit may be told as limit+1.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) > limit || len(a) > 64 || len(b) > 64 {
		return limit + 1
	}
	var rows [3][65]int
	for j := range len(b) + 1 {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := &rows[(i-1)%3], &rows[i%3], &rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}

// clip bounds a stranger's text that stands in a message.
func clip(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}
