package output_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/terminal/output"
)

// clean cleans in chunks of n bytes; 0 is all at once.
func clean(p []byte, n int) string {
	var c output.Cleaner
	var out []byte
	for len(p) > 0 {
		k := len(p)
		if n > 0 {
			k = min(n, k)
		}
		out = c.Write(out, p[:k])
		p = p[k:]
	}
	return string(c.Flush(out))
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "one\ntwo\n", "one\ntwo\n"},
		{"no end", "one", "one"},
		{"CRLF", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"progress", "10%\r20%\r100%\ndone\n", "100%\ndone\n"},
		{"shorter after longer", "downloading\rok\n", "okwnloading\n"},
		{"erased", "downloading\r\x1b[Kok\n", "ok\n"},
		{"erased whole", "downloading\x1b[2K\rok\n", "ok\n"},
		{"erased to the left", "abcdef\x1b[3D\x1b[1K\n", "    ef\n"},
		{"backspace", "passs\b\bt\n", "pasts\n"},
		{"backspace at the border", "\b\b\bx\n", "x\n"},
		{"overstrike", "b\bbo\bol\bld\bd\n", "bold\n"},
		{"colours", "\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m\n", "red x\n"},
		{"right", "a\x1b[3Cb\n", "a   b\n"},
		{"column", "abc\x1b[2GX\n", "aXc\n"},
		{"deleted", "abcdef\r\x1b[2P\n", "cdef\n"},
		{"blanked", "abcdef\r\x1b[2X\n", "  cdef\n"},
		{"title", "\x1b]0;evil title\x07text\n", "text\n"},
		{"link", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\\n", "text\n"},
		{"clipboard", "\x1b]52;c;aGk=\x07x\n", "x\n"},
		{"DCS", "\x1bP1$r0m\x1b\\x\n", "x\n"},
		{"APC", "\x1b_Gf=100;AAAA\x1b\\x\n", "x\n"},
		{"charset", "\x1b(B\x1b)0x\n", "x\n"},
		{"two-byte", "\x1b7x\x1b8\x1b=\x1b>\x1bM\n", "x\n"},
		{"bracketed paste", "\x1b[?2004hx\x1b[?2004l\n", "x\n"},
		{"kitty", "\x1b[>1ux\x1b[<u\n", "x\n"},
		{"bell and others", "a\x07b\x00c\x0e\x0fd\x7fe\n", "abcde\n"},
		{"C1 as bytes", "a\x9b31mb\n", "a\uFFFD31mb\n"},
		{"C1 as UTF-8", "a\u009b31mb\n", "a31mb\n"},
		{"UTF-8", "é日本🙂\n", "é日本🙂\n"},
		{"half of UTF-8", "a\xe6\x97\nb\xff\xfe\n", "a\uFFFD\uFFFD\nb\uFFFD\uFFFD\n"},
		{"cut off", "a\xe6\x97", "a\uFFFD"},
		{"wide over narrow", "é日\rab\n", "ab\n"},
		{"LF in CSI", "a\x1b[\n1mb\n", "a\nb\n"},
		{"CAN ends it", "a\x1b[31\x18b\x1b]0;t\x18c\n", "abc\n"},
		{"ESC ESC", "a\x1b\x1b[1mb\n", "ab\n"},
		{"ESC in OSC", "a\x1b]0;t\x1b[1mb\n", "ab\n"},
		{"open at the end", "a\x1b[31", "a"},
		{"tab", "a\tb\n", "a\tb\n"},
	} {
		for n := range len(c.in) + 1 {
			if got := clean([]byte(c.in), n); got != c.want {
				t.Errorf("%s: %q in chunks of %d is %q; want %q", c.name, c.in, n, got, c.want)
				break
			}
		}
	}
}

// TestEscapeWithoutEnd: a string that never ends is given up, and what follows
// is seen.
func TestEscapeWithoutEnd(t *testing.T) {
	for _, intro := range []string{"\x1b]", "\x1bP", "\x1b[", "\x1b_"} {
		in := intro + strings.Repeat("1", 8000) + "\nseen\n"
		if got := clean([]byte(in), 0); !strings.HasSuffix(got, "\nseen\n") {
			t.Errorf("after %q without an end, %q is left", intro, got[max(0, len(got)-20):])
		}
	}
}

// TestMarks: OSC strings are told, whole and in their place.
func TestMarks(t *testing.T) {
	var marks []string
	var c output.Cleaner
	var out []byte
	c.Marks = func(p []byte) { marks = append(marks, fmt.Sprintf("%d:%s", len(out), p)) }
	for _, b := range []byte("a\n\x1b]133;C;n1\x07b\n\x1b]133;D;0;n1\x1b\\\x1b]0;cut\x18c\n") {
		out = c.Write(out, []byte{b})
	}
	if got := fmt.Sprint(marks); got != "[2:133;C;n1 4:133;D;0;n1]" || string(out) != "a\nb\nc\n" {
		t.Errorf("marks %s in %q", got, out)
	}
}

// TestLineLimits: neither a line without end nor moves without end hold or make
// more than a bounded amount.
func TestLineLimits(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	if got := clean([]byte(long), 0); got != long {
		t.Errorf("a line of %d bytes became one of %d", len(long), len(got))
	}
	var c output.Cleaner
	out := c.Write(nil, []byte(long))
	if len(c.Pending()) > 32<<10 || len(out)+len(c.Pending()) != len(long) {
		t.Errorf("%d bytes are held of a line of %d", len(c.Pending()), len(long))
	}
	moves := strings.Repeat("\x1b[99999Cx\n\x1b[99999Gx\n", 1000)
	if got := clean([]byte(moves), 0); len(got) > 20*len(moves) {
		t.Errorf("%d bytes of moves made %d", len(moves), len(got))
	}
}

// op is one thing that a program does to its line, as the slow twin knows it.
type op struct {
	bytes string
	do    func(m *model)
}

// model is the slow twin: a line as a map of columns.
type model struct {
	out  strings.Builder
	line map[int]rune
	col  int
}

func (m *model) width() int {
	w := 0
	for c := range m.line {
		w = max(w, c+1)
	}
	return w
}

func (m *model) text() string {
	var b strings.Builder
	for c := range m.width() {
		r, ok := m.line[c]
		if !ok {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

func moveTo(m *model, col int) { m.col = min(col, max(119, m.width())) }

func ops(r *rand.Rand) op {
	n := r.IntN(130)
	switch r.IntN(14) {
	case 0:
		return op{"\n", func(m *model) {
			m.out.WriteString(m.text() + "\n")
			clear(m.line)
			m.col = 0
		}}
	case 1:
		return op{"\r", func(m *model) { m.col = 0 }}
	case 2:
		return op{"\b", func(m *model) { m.col = max(0, m.col-1) }}
	case 3:
		return op{fmt.Sprintf("\x1b[%dC", n), func(m *model) { moveTo(m, m.col+max(n, 1)) }}
	case 4:
		return op{fmt.Sprintf("\x1b[%dD", n), func(m *model) { m.col = max(0, m.col-max(n, 1)) }}
	case 5:
		return op{fmt.Sprintf("\x1b[%dG", n), func(m *model) { moveTo(m, max(n, 1)-1) }}
	case 6:
		return op{"\x1b[K", func(m *model) {
			for c := range m.line {
				if c >= m.col {
					delete(m.line, c)
				}
			}
			for c := range m.width() { // blanks that were padded stay
				if _, ok := m.line[c]; !ok {
					m.line[c] = ' '
				}
			}
		}}
	case 7:
		return op{"\x1b[2K", func(m *model) { clear(m.line) }}
	case 8:
		return op{[]string{"\x1b[0;1m", "\x1b]0;t\x07", "\x1b(B", "\x1b=", "\x00", "\x07", "\x1bPx\x1b\\"}[r.IntN(7)], func(*model) {}}
	}
	c := []rune{'a', 'z', 'é', '日', '🙂', '\t', ' '}[r.IntN(7)]
	return op{string(c), func(m *model) {
		for i := m.width(); i < m.col; i++ {
			m.line[i] = ' '
		}
		m.line[m.col] = c
		m.col++
	}}
}

// TestCleanAgainstSlowTwin: random programs give the same text as a model that
// knows what each step means, however the bytes are cut.
func TestCleanAgainstSlowTwin(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &model{line: map[int]rune{}}
		var in []byte
		for range 1 + r.IntN(60) {
			o := ops(r)
			in = append(in, o.bytes...)
			o.do(m)
		}
		want := m.out.String() + m.text()
		if got := clean(in, r.IntN(5)); got != want {
			t.Fatalf("seed %d: %q is %q; want %q", seed, in, got, want)
		}
	}
}

// FuzzClean: any bytes give valid text without controls, the same however they
// are cut.
func FuzzClean(f *testing.F) {
	f.Add([]byte("10%\r\x1b[K20%\r\n\x1b]133;D;0\x07\xe6\x97"), 3)
	f.Add([]byte("\x1b\x1b]\x1b\\\x1b[999999999C\x1b[1K\x1b[2P\xff\x1b[\x00\n"), 1)
	f.Fuzz(func(t *testing.T, p []byte, n int) {
		whole := clean(p, 0)
		if got := clean(p, 1+max(n, -n-1)%16); got != whole {
			t.Errorf("%q is %q in one piece and %q in pieces", p, whole, got)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("%q gave %q", p, whole)
		}
		for _, r := range whole {
			if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q gave the control %U", p, r)
			}
		}
		if len(whole) > 64*len(p)+64 {
			t.Errorf("%d bytes gave %d", len(p), len(whole))
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for name, line := range map[string]string{
		"plain":    "the quick brown fox jumps over the lazy dog, 0123456789\n",
		"crlf":     "the quick brown fox jumps over the lazy dog, 0123456789\r\n",
		"colours":  "\x1b[32mok\x1b[0m   github.com/example/project/package\t0.012s\n",
		"blanked":  strings.Repeat("a", 16_000) + strings.Repeat("\x1b[1K\x1b[99999X\x1b[P", 4000),
		"progress": "downloading 45%\rdownloading 46%\r\x1b[Kdone\n",
	} {
		b.Run(name, func(b *testing.B) {
			in := bytes.Repeat([]byte(line), max(64<<10/len(line), 1))
			b.SetBytes(int64(len(in)))
			var c output.Cleaner
			var out []byte
			for b.Loop() {
				out = c.Write(out[:0], in)
			}
		})
	}
}

// TestNext: a text that is cleaned string by string is the same as one that is
// cleaned at once, and each OSC string is told where it ends.
func TestNext(t *testing.T) {
	const text = "one\x1b]133;A\x07two\r\n\x1b]2;title\x1b\\three\x1b]\x07\x1b[2Kfour\x1b]open"
	var whole output.Cleaner
	var told []string
	whole.Marks = func(osc []byte) { told = append(told, string(osc)) }
	want := string(whole.Flush(whole.Write(nil, []byte(text))))
	for step := 1; step <= len(text); step++ {
		var c output.Cleaner
		var got []byte
		var found []string
		for rest := []byte(text); len(rest) > 0; {
			p := rest[:min(step, len(rest))]
			rest = rest[len(p):]
			for len(p) > 0 {
				var osc []byte
				var ok bool
				if got, p, osc, ok = c.Next(got, p); ok {
					found = append(found, string(osc))
				}
			}
		}
		got = c.Flush(got)
		if string(got) != want || !slices.Equal(found, told) || len(told) != 3 {
			t.Errorf("in steps of %d: %q and %q; want %q and %q", step, got, found, want, told)
		}
	}
}

// TestControl: what is no editing of a line is told, editing is not.
func TestControl(t *testing.T) {
	var told []string
	c := output.Cleaner{Control: func(p []byte, final byte) { told = append(told, string(p)+string(final)) }}
	c.Write(nil, []byte("a\x1b[6n\x1b[?1049h\x1b[2K\x1b[31mb\x1b[>q\x1b[3C\x1b[?25$p"))
	if want := []string{"6n", "?1049h", ">q", "?25$p"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
