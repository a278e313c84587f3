package workspace

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Looking for what might have been meant is a courtesy, so it has small bounds:
// it never decides what is written.
const (
	suggestBytes = 1 << 20 // of the file that are looked at
	suggestLines = 20_000
	suggestOld   = 200 // lines of the text
	suggestShown = 12  // lines that the error shows
	suggestWidth = 200 // bytes of each
)

// suggest adds the lines that come nearest to a text that does not occur, with
// what cannot be seen made visible.
func (m *matcher) suggest(err *tool.Error, old string) {
	file := splitLines(m.src[m.start:], suggestBytes, suggestLines)
	want := splitLines([]byte(old), suggestBytes, suggestOld)
	start, ok := nearest(file, want)
	if !ok {
		return
	}
	end := min(start+len(want), len(file))
	var b strings.Builder
	fmt.Fprintf(&b, "read the lines again and copy them exactly; did you mean lines %d-%d (→ tab, ␍ CR, · blank at the end)?", start+1, end)
	for i := start; i < min(end, start+suggestShown); i++ {
		fmt.Fprintf(&b, "\n%d\t%s", i+1, visible(file[i]))
	}
	if end-start > suggestShown {
		fmt.Fprintf(&b, "\n... %d more lines", end-start-suggestShown)
	}
	err.Next = b.String()
	err.With("nearest", map[string]int{"start": start + 1, "end": end})
}

func splitLines(p []byte, maxBytes, maxLines int) [][]byte {
	p = p[:min(len(p), maxBytes)]
	var out [][]byte
	for len(p) > 0 && len(out) < maxLines {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			out = append(out, p)
			break
		}
		out = append(out, p[:i])
		p = p[i+1:]
	}
	return out
}

// nearest finds the line at which a text of lines comes closest: where most of
// its lines stand in the right distance from each other when blanks do not
// count, else where the longest of them has its most similar one.
func nearest(file, want [][]byte) (int, bool) {
	at := map[string][]int{}
	longest, size := -1, 0
	for i, l := range want {
		k := squeeze(l)
		if k == "" {
			continue
		}
		if len(at[k]) < 8 {
			at[k] = append(at[k], i)
		}
		if len(k) > size {
			longest, size = i, len(k)
		}
	}
	if longest < 0 || len(file) == 0 {
		return 0, false
	}
	votes := map[int]int{}
	best, bestVotes := 0, 0
	for i, l := range file {
		for _, j := range at[squeeze(l)] {
			s := i - j
			if s < 0 {
				s = 0
			}
			if votes[s]++; votes[s] > bestVotes {
				best, bestVotes = s, votes[s]
			}
		}
	}
	if bestVotes > 0 {
		return best, true
	}
	pairs := bigrams(want[longest])
	bestScore := 0.5 // less alike than this is noise
	found := false
	for i, l := range file {
		if s := alike(pairs, l); s > bestScore {
			best, bestScore, found = max(0, i-longest), s, true
		}
	}
	return best, found
}

// squeeze drops blanks, so that indentation and line ends do not count.
func squeeze(l []byte) string {
	l = l[:min(len(l), 500)]
	var b []byte
	for _, c := range l {
		if c != ' ' && c != '\t' && c != '\r' {
			b = append(b, c)
		}
	}
	return string(b)
}

func bigrams(l []byte) map[[2]byte]int {
	s := squeeze(l)
	m := map[[2]byte]int{}
	for i := 1; i < len(s); i++ {
		m[[2]byte{s[i-1], s[i]}]++
	}
	return m
}

// alike is Dice's coefficient over pairs of neighbouring bytes.
func alike(want map[[2]byte]int, l []byte) float64 {
	s := squeeze(l)
	if len(s) < 2 || len(want) == 0 {
		return 0
	}
	total, hit := 0, 0
	for _, n := range want {
		total += n
	}
	seen := map[[2]byte]int{}
	for i := 1; i < len(s); i++ {
		p := [2]byte{s[i-1], s[i]}
		if seen[p] < want[p] {
			seen[p]++
			hit++
		}
	}
	return 2 * float64(hit) / float64(total+len(s)-1)
}

// visible shows a line with its tabs, carriage returns and trailing blanks.
func visible(l []byte) string {
	cut := ""
	if len(l) > suggestWidth {
		l, cut = l[:suggestWidth], "…"
	}
	body := bytes.TrimRight(l, " ")
	blanks := len(l) - len(body)
	if cut != "" {
		body, blanks = l, 0
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(string(body), "\ufffd") {
		switch {
		case r == '\t':
			b.WriteRune('→')
		case r == '\r':
			b.WriteRune('␍')
		case r == ' ':
			b.WriteByte(' ')
		case !isPrint(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + strings.Repeat("·", blanks) + cut
}
