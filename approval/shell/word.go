package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// maxBraces bounds how many words one word with braces becomes.
const maxBraces = 256

// atom is one element of a word: a byte of text, or a hole that bash fills
// when it runs.
type atom struct {
	c      byte
	quoted bool
	hole   *hole // nil for a byte
}

// hole is a part of a word whose text may not be known.
type hole struct {
	node syntax.WordPart // how it is printed, outside quotes
	raw  bool            // never put inside quotes (a tilde)
	open bool            // $x, whose name goes on if a letter follows
	f    field
}

// context says what bash does to a word where it stands.
type context uint8

const (
	inArgs    context = iota // braces, splitting and file names
	inValue                  // one word, whatever it holds: assignments, here-strings
	inPattern                // one pattern: case and [[
	inHeredoc                // text in which only $ ` \ mean something
)

// expand finds what a word of arguments becomes. It returns the words to print
// in its place and, for each, the arguments that the program gets.
func (j *judge) expand(w *syntax.Word, st *state) (nodes []*syntax.Word, fields [][]field) {
	src := j.source(w)
	atoms := j.atoms(w.Parts, false, inArgs, st)
	j.tildes(&atoms, st)
	lists, ok := [][]atom{atoms}, true
	if j.lang == syntax.LangBash { // other shells take braces for text
		lists, ok = braces(atoms)
	}
	for i := range atoms[min(1, len(atoms)):] {
		if h := atoms[i].hole; h != nil && h.open && bare(atoms[i+1], '{') {
			j.ask(w, "the braces in %s become part of a variable's name", src)
		}
	}
	if !ok {
		j.ask(w, "the braces in %s make too many words", src)
		return []*syntax.Word{print1(atoms, inArgs)}, [][]field{{{src: src, many: true}}}
	}
	for _, list := range lists {
		if len(list) == 0 {
			continue // {a,} leaves nothing of its second word
		}
		if lateTilde(list) {
			j.ask(w, "bash may put a home directory into %s", src)
		}
		nodes = append(nodes, print1(list, inArgs))
		fields = append(fields, j.fields(list, src, st))
	}
	return nodes, fields
}

// one finds what a word becomes where bash neither splits it nor looks for
// file names, and the word to print in its place.
func (j *judge) one(w *syntax.Word, ctx context, st *state) (*syntax.Word, field) {
	if w == nil {
		return nil, literal("")
	}
	src := j.source(w)
	atoms := j.atoms(w.Parts, false, ctx, st)
	if ctx != inHeredoc {
		j.tildes(&atoms, st)
	}
	for i := range atoms {
		if a := atoms[i]; a.hole != nil && !a.hole.raw && ctx == inValue {
			atoms[i].quoted = true
		}
	}
	if ctx == inValue && tildeAfterColon(atoms) {
		j.ask(w, "bash may put a home directory into %s", src)
	}
	f := compose(atoms, src)
	f.many = false
	return print1(atoms, ctx), f
}

// atoms takes a word apart. quoted says whether the parts stand in double
// quotes.
func (j *judge) atoms(parts []syntax.WordPart, quoted bool, ctx context, st *state) []atom {
	var out []atom
	text := func(s string, q bool) {
		for i := range len(s) {
			out = append(out, atom{c: s[i], quoted: q})
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			out = append(out, unescape(p.Value, quoted, ctx)...)
		case *syntax.SglQuoted:
			s := p.Value
			if p.Dollar {
				var ok bool
				if s, ok = ansi(s); !ok {
					j.ask(p, "%s holds a NUL", j.source(p))
				}
			}
			if s == "" {
				out = append(out, atom{quoted: true, hole: &hole{node: &syntax.SglQuoted{}, raw: true, f: literal("")}})
			}
			text(s, true)
		case *syntax.DblQuoted:
			if p.Dollar {
				j.ask(p, "%s is translated by bash", j.source(p))
			}
			if len(p.Parts) == 0 {
				out = append(out, atom{quoted: true, hole: &hole{node: &syntax.SglQuoted{}, raw: true, f: literal("")}})
			}
			out = append(out, j.atoms(p.Parts, true, ctx, st)...)
		default:
			if c, ok := p.(*syntax.CmdSubst); ok && quoted {
				if body, ok := justHeredoc(c); ok {
					j.stmts(c.Stmts, st)
					text(body, true) // known already, so it is printed as text
					continue
				}
			}
			param, ok := p.(*syntax.ParamExp)
			open := ok && param.Short && !quoted
			f := j.part(p, quoted || ctx == inHeredoc, st)
			out = append(out, atom{quoted: quoted || ctx == inHeredoc, hole: &hole{node: p, f: f, open: open}})
		}
	}
	return out
}

// unescape takes the text of a literal apart, backslashes included.
func unescape(s string, quoted bool, ctx context) []atom {
	out := make([]atom, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			n := s[i+1]
			special := n == '$' || n == '`' || n == '\\' || n == '"' && ctx != inHeredoc
			if !quoted && ctx != inHeredoc || special {
				out = append(out, atom{c: n, quoted: true})
				i++
				continue
			}
		}
		out = append(out, atom{c: c, quoted: quoted || ctx == inHeredoc})
	}
	return out
}

// ansi decodes what stands in $'...'. It fails if a NUL comes out, at which
// bash would cut the word.
func ansi(s string) (string, bool) {
	var b strings.Builder
	ok := true
	put := func(c byte) {
		if c == 0 {
			ok = false
		}
		b.WriteByte(c)
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			put(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'a':
			put(7)
		case 'b':
			put(8)
		case 'e', 'E':
			put(27)
		case 'f':
			put(12)
		case 'n':
			put('\n')
		case 'r':
			put('\r')
		case 't':
			put('\t')
		case 'v':
			put(11)
		case '\\', '\'', '"', '?':
			put(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, w := radix(s[i:], 8, 3)
			put(byte(n))
			i += w - 1
		case 'x':
			n, w := radix(s[i+1:], 16, 2)
			if w == 0 {
				b.WriteString(`\x`)
				break
			}
			put(byte(n))
			i += w
		case 'u', 'U':
			size := 4
			if c == 'U' {
				size = 8
			}
			n, w := radix(s[i+1:], 16, size)
			switch {
			case w == 0:
				b.WriteByte('\\')
				b.WriteByte(c)
			case n == 0:
				ok = false
			default:
				b.WriteString(string(utf8.AppendRune(nil, rune(n&0x7fffffff))))
			}
			i += w
		case 'c':
			if i+1 == len(s) {
				b.WriteString(`\c`)
				break
			}
			i++
			put(s[i] & 0x1f)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), ok
}

// radix reads a number of at most width digits and returns it with the digits
// read.
func radix(s string, base, width int) (n, read int) {
	for read < width && read < len(s) {
		d := strings.IndexByte("0123456789abcdef", s[read]|0x20)
		if '0' <= s[read] && s[read] <= '9' {
			d = int(s[read] - '0')
		}
		if d < 0 || d >= base {
			break
		}
		n = n*base + d
		read++
	}
	return n, read
}

// tildes replaces a leading tilde by the home directory that it means.
func (j *judge) tildes(atoms *[]atom, st *state) {
	as := *atoms
	if len(as) == 0 || as[0].hole != nil || as[0].quoted || as[0].c != '~' {
		return
	}
	end := 1
	for end < len(as) && as[end].hole == nil && as[end].c != '/' {
		if as[end].quoted {
			return // a quoted character turns the expansion off
		}
		end++
	}
	if end < len(as) && as[end].hole != nil {
		return // bash does not expand ~$x
	}
	name := make([]byte, 0, end)
	for _, a := range as[:end] {
		name = append(name, a.c)
	}
	f := field{src: string(name)}
	if end == 1 && j.site.Home != "" {
		f = literal(j.site.Home)
	}
	h := &hole{node: &syntax.Lit{Value: string(name)}, raw: true, f: f}
	if !plain(string(name[1:])) && end > 1 {
		return // printed in quotes, it stays what it is
	}
	*atoms = append([]atom{{quoted: true, hole: h}}, as[end:]...)
}

// lateTilde reports whether bash would expand a tilde that follows a name and
// '=' in an argument.
func lateTilde(as []atom) bool {
	i := 0
	for i < len(as) && as[i].hole == nil && !as[i].quoted && nameByte(as[i].c, i) {
		i++
	}
	if i == 0 || i == len(as) || as[i].hole != nil || as[i].quoted || as[i].c != '=' {
		return false
	}
	return i+1 < len(as) && bare(as[i+1], '~') || tildeAfterColon(as[i:])
}

func tildeAfterColon(as []atom) bool {
	for i := 1; i < len(as); i++ {
		if bare(as[i-1], ':') && bare(as[i], '~') {
			return true
		}
	}
	return false
}

func bare(a atom, c byte) bool { return a.hole == nil && !a.quoted && a.c == c }

// nameByte reports whether c can stand at position i of a variable's name.
func nameByte(c byte, i int) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9'
}

// fields finds the arguments that one word becomes after its braces are gone.
func (j *judge) fields(as []atom, src string, st *state) []field {
	f := compose(as, src)
	star := pattern(as)
	if star < 0 {
		j.listedBy(as, src, st)
		return []field{f}
	}
	j.lists(as[:star], src, st)
	var prefix strings.Builder
	for _, a := range as[:star] {
		if a.hole != nil {
			s, ok := a.hole.f.lit()
			if !ok {
				break
			}
			prefix.WriteString(s)
			continue
		}
		prefix.WriteByte(a.c)
	}
	many := field{src: src, many: true, prefix: prefix.String(), glob: true}
	if len(f.alts) != 1 || f.many {
		many.prefix = ""
		return []field{many}
	}
	names, ok := j.matches(as, st)
	if !ok {
		return []field{many}
	}
	if len(names) == 0 {
		f.glob = true // what matches nothing stays as it is
		return []field{f}
	}
	out := make([]field, len(names))
	for i, n := range names {
		out[i] = field{src: src, alts: []string{n}, glob: true}
	}
	return out
}

// pattern returns where in a word bash's first wildcard stands, or -1. A bracket
// that nothing closes is none.
func pattern(as []atom) int {
	last := -1 // a closing bracket
	for i, a := range as {
		if bare(a, ']') {
			last = i
		}
	}
	for i, a := range as {
		if bare(a, '*') || bare(a, '?') || bare(a, '[') && i < last {
			return i
		}
	}
	return -1
}

// compose joins the atoms of a word into what is known of its text.
func compose(as []atom, src string) field {
	alts := []string{""}
	for i, a := range as {
		if a.hole == nil {
			continue
		}
		h := a.hole.f
		if h.alts != nil && (a.quoted || tame(h.alts)) && len(h.alts) <= maxAlts {
			continue
		}
		f := field{src: src, kind: anything, many: h.many || !a.quoted && h.kind == anything}
		if len(as) == 1 && h.alts == nil {
			f.kind = h.kind
		}
		if !f.many {
			f.prefix = prefixOf(as[:i])
		}
		if i == 0 && h.alts == nil && h.prefix != "" && !f.many {
			f.prefix = h.prefix
		}
		for _, b := range as[i+1:] {
			f.many = f.many || b.hole != nil && (b.hole.f.many || !b.quoted && b.hole.f.alts == nil && b.hole.f.kind == anything)
		}
		if f.many {
			f.prefix = ""
		}
		return f
	}
	var run []byte
	flush := func() {
		for i := range alts {
			alts[i] += string(run)
		}
		run = run[:0]
	}
	for _, a := range as {
		if a.hole == nil {
			run = append(run, a.c)
			continue
		}
		flush()
		hs := a.hole.f.alts
		if len(alts)*len(hs) > maxAlts {
			return field{src: src}
		}
		next := make([]string, 0, len(alts)*len(hs))
		for _, x := range alts {
			for _, h := range hs {
				next = append(next, x+h)
			}
		}
		alts = next
	}
	flush()
	return field{src: src, alts: alts}
}

// prefixOf is the text of atoms up to the first that is not known.
func prefixOf(as []atom) string {
	var b strings.Builder
	for _, a := range as {
		if a.hole != nil {
			s, ok := a.hole.f.lit()
			if !ok {
				break
			}
			b.WriteString(s)
			continue
		}
		b.WriteByte(a.c)
	}
	return b.String()
}

// tame reports whether texts stay one word each when bash splits them and looks
// for file names.
func tame(texts []string) bool {
	for _, s := range texts {
		if s == "" || strings.ContainsAny(s, " \t\n*?[\\") {
			return false
		}
	}
	return true
}
