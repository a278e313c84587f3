package evidence

import (
	"bytes"
	"io"
	"strings"
)

// CleanReader reads a text without its secrets: the values that it was given, and
// what the record would not keep either. It holds some hundred kilobytes of the
// text at a time.
//
// The edge: a private key of more than a megabyte, or a secret that is longer
// than that by its form alone, may be hidden in part only.
type CleanReader struct {
	from io.Reader
	red  *redactor

	window int // bytes that are looked at together
	margin int // bytes on both sides of a cut between two windows that decide about it

	in, out []byte
	err     error // of from
	inKey   bool  // the beginning of a private key went by, its end did not
}

const (
	cleanWindow = 256 << 10
	cleanMargin = 8 << 10
	maxClean    = 1 << 20 // of a text that cannot be cut anywhere
)

// Clean makes a reader of r without secrets. Values shorter than four bytes are
// not looked for inside a text.
func Clean(r io.Reader, values []string) *CleanReader {
	return newClean(r, values, cleanWindow, cleanMargin)
}

func newClean(r io.Reader, values []string, window, margin int) *CleanReader {
	c := &CleanReader{from: r, red: newRedactor(values), window: window, margin: margin}
	for _, v := range c.red.values {
		c.margin = max(c.margin, min(2*len(v), maxClean/8))
	}
	c.window = max(c.window, 4*c.margin)
	return c
}

// Hidden reports whether a secret was found in what was read so far.
func (c *CleanReader) Hidden() bool { return c.red.hit }

// Read implements [io.Reader].
func (c *CleanReader) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.err != nil && len(c.in) == 0 {
			return 0, c.err
		}
		c.next()
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// next cleans a further window.
func (c *CleanReader) next() {
	c.fill(c.window)
	if c.inKey && !c.leaveKey() {
		return
	}
	cut := c.cut()
	for cut == 0 && c.err == nil && len(c.in) < maxClean {
		c.fill(2 * len(c.in))
		cut = c.cut()
	}
	if cut == 0 { // all there is, or more than will be held
		cut = len(c.in)
		c.inKey = c.err == nil && openKey(c.in) >= 0
	}
	c.out = []byte(c.red.text(string(c.in[:cut])))
	c.in = c.in[:copy(c.in, c.in[cut:])]
}

// fill reads until n bytes are held, or there are no more.
func (c *CleanReader) fill(n int) {
	for len(c.in) < n && c.err == nil {
		if cap(c.in)-len(c.in) < 4<<10 {
			c.in = append(make([]byte, 0, max(2*len(c.in), n+4<<10)), c.in...)
		}
		var m int
		m, c.err = c.from.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+m]
	}
}

// leaveKey drops what is held as far as it is still the private key.
func (c *CleanReader) leaveKey() bool {
	const end, dashes = "-----END ", "-----"
	i := bytes.Index(c.in, []byte(end))
	if i < 0 {
		keep := min(len(c.in), len(end)-1)
		if c.err != nil {
			keep = 0
		}
		c.in = c.in[:copy(c.in, c.in[len(c.in)-keep:])]
		return false
	}
	i += len(end)
	if j := bytes.Index(c.in[i:], []byte(dashes)); j >= 0 && j < 64 {
		i += j + len(dashes)
	}
	c.in = c.in[:copy(c.in, c.in[i:])]
	c.inKey = false
	return true
}

// openKey is where a private key begins that does not end in p; -1 if none does.
func openKey(p []byte) int {
	for end := len(p); ; {
		i := bytes.LastIndex(p[:end], []byte("-----BEGIN "))
		if i < 0 || bytes.Contains(p[i:end], []byte("-----END ")) {
			return -1
		}
		label, _, _ := bytes.Cut(p[i+len("-----BEGIN "):min(len(p), i+80)], []byte("-----"))
		if bytes.Contains(label, []byte("PRIVATE KEY")) {
			return i
		}
		end = i
	}
}

// cut finds where what is held can be cut so that both parts, each for itself,
// lose what they lose together: at the end of a line, else of a word, else
// anywhere. It is 0 if there is no such place.
func (c *CleanReader) cut() int {
	if c.err != nil {
		return 0
	}
	last := len(c.in) - c.margin
	for _, at := range []string{"\n", " ", ""} {
		end := last
		for range 8 {
			if at != "" {
				end = bytes.LastIndexByte(c.in[:max(0, end)], at[0]) + 1
			} else {
				end -= c.margin / 8
			}
			if end <= c.margin {
				break
			}
			if i := openKey(c.in[:end]); i >= 0 {
				if end = i; end <= c.margin {
					break
				}
			}
			if c.parts(end) {
				return end
			}
			if at != "" {
				end--
			}
		}
	}
	return 0
}

// parts reports whether a cut at i changes nothing in its neighbourhood.
func (c *CleanReader) parts(i int) bool {
	from, to := max(0, i-c.margin), min(len(c.in), i+c.margin)
	before, after := string(c.in[from:i]), string(c.in[i:to])
	r := *c.red // what is found here is found again
	whole := r.text(before + after)
	first := r.text(before)
	return strings.HasPrefix(whole, first) && whole[len(first):] == r.text(after)
}
