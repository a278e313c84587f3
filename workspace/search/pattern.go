package search

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// pattern is what grep looks for, in the cheapest form that finds it. It is
// immutable; every worker makes its own finder from it.
type pattern struct {
	needles   []needle       // every match holds one of them; none: unknown
	exact     bool           // a needle found is a match, and all there is to it
	re        *regexp.Regexp // nil if exact
	insts     int            // of re
	prog      *syntax.Prog   // what re was made from
	multiline bool
	endless   bool // something in it repeats without end
}

// compile turns a request into a pattern. The syntax is RE2's, changed so that
// lines come out as ripgrep --no-unicode --crlf gives them:
//
//   - '$' also matches before a CR at the end of a line;
//   - without multiline no class, and not '.', matches CR or LF, and a literal
//     LF is an error, because no line holds one;
//   - with ignore case an ASCII letter means its two ASCII forms only, never
//     K (the Kelvin sign) or the long s.
func compile(text string, literal, ignoreCase, multiline bool) (*pattern, error) {
	switch {
	case text == "":
		return nil, tool.Errorf(tool.InvalidArguments, "pattern is empty").WithNext("give the text or regular expression to look for")
	case len(text) > maxPattern:
		return nil, tool.Errorf(tool.InvalidArguments, "pattern has %d bytes; at most %d are allowed", len(text), maxPattern).WithNext("look for a shorter text")
	}
	if literal && strings.Contains(text, "\n") && !multiline {
		return nil, errLineEnd
	}
	if literal && (!ignoreCase || isASCII(text)) {
		return &pattern{needles: []needle{newNeedle(text, ignoreCase)}, exact: true, multiline: multiline}, nil
	}
	if literal {
		text = regexp.QuoteMeta(text)
	}
	flags := syntax.Perl &^ syntax.OneLine
	if multiline {
		flags |= syntax.DotNL
	}
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, badPattern(err)
	}
	lits := required(tree)
	tree, err = rewrite(tree, multiline)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, badPattern(err)
	}
	if len(prog.Inst) > maxInsts {
		return nil, tool.Errorf(tool.InvalidArguments, "pattern needs %d instructions; at most %d are allowed", len(prog.Inst), maxInsts).
			WithNext("use smaller repetition counts or fewer alternatives")
	}
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, badPattern(err)
	}
	p := &pattern{re: re, insts: len(prog.Inst), prog: prog, multiline: multiline, endless: repeats(tree)}
	for _, s := range lits.strs {
		p.needles = append(p.needles, newNeedle(s, lits.fold))
	}
	if lits.whole && len(p.needles) == 1 {
		p.exact, p.re = true, nil
	}
	return p, nil
}

// repeats reports whether anything in the tree may repeat without end.
func repeats(re *syntax.Regexp) bool {
	return re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0 ||
		slices.ContainsFunc(re.Sub, repeats)
}

// selective reports whether few lines hold a needle, so that to look for needles
// is faster than to look at every byte.
func (p *pattern) selective() bool {
	if len(p.needles) == 0 {
		return false
	}
	for _, n := range p.needles {
		if len(n.text) < 3 && rarity(n.a) < 60 {
			return false
		}
	}
	return true
}

var errLineEnd = tool.Errorf(tool.InvalidArguments, "pattern holds a line end, and lines are searched one by one").
	WithNext("set multiline to match across lines")

func badPattern(err error) error {
	msg := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	return tool.Errorf(tool.InvalidArguments, "pattern is no regular expression: %s", strings.ToValidUTF8(msg, "\ufffd")).
		WithNext("correct the RE2 syntax, or set literal to look for exactly this text").Because(err)
}

// rewrite changes the tree as compile promises. It may change nodes in place.
func rewrite(re *syntax.Regexp, multiline bool) (*syntax.Regexp, error) {
	for i, sub := range re.Sub {
		sub, err := rewrite(sub, multiline)
		if err != nil {
			return nil, err
		}
		re.Sub[i] = sub
	}
	switch re.Op {
	case syntax.OpLiteral:
		if !multiline && slices.Contains(re.Rune, '\n') {
			return nil, errLineEnd
		}
		if re.Flags&syntax.FoldCase != 0 {
			return asciiFold(re), nil
		}
	case syntax.OpCharClass:
		class := re.Rune
		if re.Flags&syntax.FoldCase != 0 {
			class = foldClass(class)
		}
		if !multiline && len(class) > 0 {
			class = without(without(class, '\n'), '\r')
			if len(class) == 0 {
				return nil, errLineEnd
			}
		}
		return &syntax.Regexp{Op: syntax.OpCharClass, Rune: class}, nil
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if !multiline {
			return &syntax.Regexp{Op: syntax.OpCharClass, Rune: without(without([]rune{0, utf8.MaxRune}, '\n'), '\r')}, nil
		}
	case syntax.OpBeginLine:
		if !multiline { // the text is one line, and this form lets the engine stop early
			return &syntax.Regexp{Op: syntax.OpBeginText}, nil
		}
	case syntax.OpEndLine:
		if multiline {
			return concat(lineEndCR(), re), nil
		}
		return concat(lineEndCR(), &syntax.Regexp{Op: syntax.OpEndText}), nil
	case syntax.OpEndText:
		if !multiline {
			return concat(lineEndCR(), &syntax.Regexp{Op: syntax.OpEndText}), nil
		}
	}
	return re, nil
}

// lineEndCR is what '$' skips: the CR of a CRLF.
func lineEndCR() *syntax.Regexp {
	cr := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\r'}}
	return &syntax.Regexp{Op: syntax.OpQuest, Flags: syntax.NonGreedy, Sub: []*syntax.Regexp{cr}}
}

func concat(sub ...*syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: sub}
}

// asciiFold takes the two non-ASCII runes that fold to ASCII letters out of a
// case-insensitive literal.
func asciiFold(re *syntax.Regexp) *syntax.Regexp {
	special := func(r rune) bool { return strings.ContainsRune("kKsS", r) }
	if !slices.ContainsFunc(re.Rune, special) {
		return re
	}
	out := &syntax.Regexp{Op: syntax.OpConcat}
	for i := 0; i < len(re.Rune); {
		n := 1
		if special(re.Rune[i]) {
			up := re.Rune[i] &^ 0x20
			out.Sub = append(out.Sub, &syntax.Regexp{Op: syntax.OpCharClass, Rune: []rune{up, up, up | 0x20, up | 0x20}})
		} else {
			for i+n < len(re.Rune) && !special(re.Rune[i+n]) {
				n++
			}
			out.Sub = append(out.Sub, &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: re.Rune[i : i+n]})
		}
		i += n
	}
	return out
}

// foldClass takes the Kelvin sign and the long s out of a case-insensitive
// class in which they stand by themselves: folding put them there. In a range
// (also one that negation made) they were meant.
func foldClass(class []rune) []rune {
	for _, r := range []rune{0x17f, 0x212a} {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] == r && class[i+1] == r && len(class) > 2 {
				class = without(class, r)
				break
			}
		}
	}
	return class
}

// without removes one rune from a class (pairs of first and last, in order).
func without(class []rune, r rune) []rune {
	for i := 0; i+1 < len(class); i += 2 {
		lo, hi := class[i], class[i+1]
		if r < lo || r > hi {
			continue
		}
		out := slices.Clone(class[:i])
		if lo < r {
			out = append(out, lo, r-1)
		}
		if r < hi {
			out = append(out, r+1, hi)
		}
		return append(out, class[i+2:]...)
	}
	return class
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
