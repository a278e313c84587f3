package charset

import (
	"bytes"
	"cmp"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gogs/chardet"
)

const (
	sampleBytes   = 64 << 10 // of a file's lines that are not ASCII, for the statistics
	certain       = 60       // confidence, of 100, from which a multi-byte encoding is taken
	unfounded     = 10       // confidence that says no more than that the bytes fit
	margin        = 30       // by which it has to be ahead of the next one that fits
	wideLeast     = 8        // bytes without a mark below which nothing is taken for UTF-16
	maxCandidates = 6
)

// Detect tells the encoding of a whole file. A byte order mark decides; valid
// UTF-8 without NUL bytes is UTF-8. UTF-16 without a mark is taken for such if at
// least half of it is ASCII and all of it is printable. GB18030, Big5, Shift_JIS,
// EUC-JP and EUC-KR are told by how frequent their characters are, and
// windows-1252 (which Latin-1 is a part of) by what the others cannot be.
//
// The file decodes in the encoding that is returned. Otherwise the error is an
// *[Undecided].
func Detect(p []byte) (Encoding, error) {
	switch {
	case bytes.HasPrefix(p, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(p, []byte("\x00\x00\xfe\xff")):
		return Encoding{}, &Undecided{} // UTF-32
	case bytes.HasPrefix(p, []byte("\xef\xbb\xbf")):
		return fits(Encoding{UTF8.name, true}, p)
	case bytes.HasPrefix(p, []byte("\xff\xfe")):
		return fits(Encoding{UTF16LE.name, true}, p)
	case bytes.HasPrefix(p, []byte("\xfe\xff")):
		return fits(Encoding{UTF16BE.name, true}, p)
	case bytes.IndexByte(p, 0) >= 0:
		le, be := looksWide(p, false), looksWide(p, true)
		switch {
		case le && !be:
			return fits(UTF16LE, p)
		case be && !le:
			return fits(UTF16BE, p)
		}
		return Encoding{}, &Undecided{}
	case utf8.Valid(p):
		return UTF8, nil
	case controls(p):
		return Encoding{}, &Undecided{}
	}
	return legacy(p)
}

func fits(e Encoding, p []byte) (Encoding, error) {
	if !e.decodes(p) {
		return Encoding{}, &Undecided{Candidates: []Encoding{e}}
	}
	return e, nil
}

func (e Encoding) decodes(p []byte) bool {
	_, n := e.survives(p, false)
	return n == len(p)
}

// looksWide reports whether p is likely to be UTF-16 text of this byte order.
func looksWide(p []byte, big bool) bool {
	if len(p) < wideLeast || len(p)%2 != 0 {
		return false
	}
	unit := func(i int) rune {
		if big {
			return rune(p[i])<<8 | rune(p[i+1])
		}
		return rune(p[i+1])<<8 | rune(p[i])
	}
	ascii := 0
	for i := 0; i < len(p); i += 2 {
		r := unit(i)
		if utf16.IsSurrogate(r) {
			if i+4 > len(p) {
				return false
			}
			i += 2
			if r = utf16.DecodeRune(r, unit(i)); r == utf8.RuneError {
				return false
			}
		}
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\f' || r >= ' ' && r < 0x7f:
			ascii++
		case !unicode.IsPrint(r) && !unicode.IsSpace(r):
			return false
		}
	}
	return ascii*4 >= len(p) // half of the units
}

// controls reports whether p has control characters that no text has.
func controls(p []byte) bool {
	for _, c := range p {
		switch c {
		case '\b', '\t', '\n', '\v', '\f', '\r', 0x1a, 0x1b: // 0x1a ended files of DOS
		default:
			if c < ' ' || c == 0x7f {
				return true
			}
		}
	}
	return false
}

// guess is one answer of the statistics, for an encoding in which the file
// decodes.
type guess struct {
	Encoding
	confidence int
}

// multi are the encodings in which two bytes or more make a character.
var multi = []Encoding{{name: "GB18030"}, {name: "Shift_JIS"}, {name: "EUC-KR"}, {name: "EUC-JP"}, {name: "Big5"}}

var western = Encoding{name: "windows-1252"}

func legacy(p []byte) (Encoding, error) {
	part, cut := sample(p)
	several, single := guesses(part)
	misfit := func(g guess) bool {
		_, n := g.survives(part, false)
		return n < len(part) && !(cut && n > len(part)-utf8.UTFMax)
	}
	several = slices.DeleteFunc(several, misfit)

	if len(several) > 0 && several[0].confidence >= certain &&
		(len(several) == 1 || several[1].confidence <= several[0].confidence-margin) && several[0].decodes(p) {
		return several[0].Encoding, nil
	}
	if highBytes(p).western(several, single) && western.decodes(p) {
		return western, nil
	}

	u := &Undecided{}
	all := append(slices.Clone(several), single...)
	all = append(all, guess{western, unfounded + 1})
	slices.SortFunc(all, byConfidence)
	for _, g := range all {
		if len(u.Candidates) < maxCandidates && !slices.Contains(u.Candidates, g.Encoding) && !misfit(g) {
			u.Candidates = append(u.Candidates, g.Encoding)
		}
	}
	return Encoding{}, u
}

// guesses asks the statistics, and adds the multi-byte encodings of which they
// say nothing.
func guesses(p []byte) (several, single []guess) {
	// Its recognizers run at once, so the order of equal ones is left to chance;
	// and a panic of one would be the end of the process, hence FuzzDetect.
	results, _ := chardet.NewTextDetector().DetectAll(p) // the error says that there are none
	for _, r := range results {
		e, err := Lookup(r.Charset)
		if err != nil || e.codec() == nil || e.Wide() {
			continue
		}
		list := &single
		if slices.Contains(multi, e) {
			list = &several
		}
		if i := slices.IndexFunc(*list, func(g guess) bool { return g.Encoding == e }); i >= 0 {
			(*list)[i].confidence = max((*list)[i].confidence, r.Confidence)
		} else {
			*list = append(*list, guess{e, r.Confidence})
		}
	}
	for _, e := range multi {
		if !slices.ContainsFunc(several, func(g guess) bool { return g.Encoding == e }) {
			several = append(several, guess{Encoding: e})
		}
	}
	slices.SortFunc(several, byConfidence)
	slices.SortFunc(single, byConfidence)
	return several, single
}

// byConfidence puts the likely ones first, and of equal ones windows-1252.
func byConfidence(a, b guess) int {
	rank := func(g guess) int { return slices.Index(multi, g.Encoding) }
	own := func(g guess) int {
		if g.Encoding == western {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.confidence, a.confidence), cmp.Compare(own(a), own(b)), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
}

// sample gives the lines of p that are not ASCII, up to sampleBytes, and whether
// the last one is cut.
func sample(p []byte) (out []byte, cut bool) {
	out = make([]byte, 0, min(len(p), sampleBytes))
	for len(p) > 0 && len(out) < sampleBytes {
		line := p
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line = p[:i+1]
		}
		p = p[len(line):]
		if slices.ContainsFunc(line, func(c byte) bool { return c >= utf8.RuneSelf }) {
			room := sampleBytes - len(out)
			cut = len(line) > room
			out = append(out, line[:min(len(line), room)]...)
		}
	}
	return out, cut
}

// high is what the bytes above ASCII look like as windows-1252.
type high struct {
	n       int // of them
	beside  int // of these, such as stand beside another
	letters int // letters with a letter of ASCII on one side at least
	odd     int // such as hardly occur in a text
}

func highBytes(p []byte) high {
	var h high
	at := func(i int) byte {
		if i < 0 || i >= len(p) {
			return ' '
		}
		return p[i]
	}
	letter := func(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }
	for i, c := range p {
		if c < utf8.RuneSelf {
			continue
		}
		h.n++
		if at(i-1) >= utf8.RuneSelf || at(i+1) >= utf8.RuneSelf {
			h.beside++
		}
		if c >= 0xc0 && (letter(at(i-1)) || letter(at(i+1))) {
			h.letters++
		}
		switch c {
		case 0x81, 0x8d, 0x8f, 0x90, 0x9d, // no characters
			0x83, 0x88, 0x98, 0xa8, 0xac, 0xaf, 0xb8, 0xfe, 0xff: // ƒ ˆ ˜ ¨ ¬ ¯ ¸ þ ÿ
			h.odd++
		}
	}
	return h
}

// western reports whether the file is windows-1252, given what else it may be:
// the multi-byte encodings in which it decodes, and the guesses at others.
func (h high) western(several, single []guess) bool {
	if h.odd > 0 || h.beside*2 > h.n {
		return false
	}
	own := -1
	for i, g := range single {
		switch g.Encoding {
		case western:
			if own < 0 {
				own = g.confidence
			}
		default:
			if own < 0 && i == 0 && g.confidence >= certain/2 {
				return false // rather something else of one byte a character
			}
		}
	}
	if len(several) == 0 {
		return true
	}
	// Pairs of a letter and ASCII may be characters of two bytes, too. Many
	// letters inside of words are not there by chance.
	return several[0].confidence <= unfounded && own >= certain/2 && h.letters >= 3 && h.letters*2 >= h.n
}
