package search

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of the set of strings that stand for a pattern; more strings cost more
// to look for than they save.
const (
	maxNeedles   = 16
	maxNeedleLen = 64
)

// literals is a set of strings of which every match of a pattern holds at least
// one. The empty set says nothing.
type literals struct {
	strs  []string
	fold  bool // strs are lower case, and ASCII letters match in both cases
	whole bool // a match is one of strs and nothing else
}

// required finds strings that every match of the tree must hold. It looks at
// the tree before rewrite: nothing that rewrite does makes a match possible
// without them.
func required(re *syntax.Regexp) literals {
	e := extractor{fold: anyFold(re)}
	f := e.find(re)
	out := literals{fold: e.fold}
	switch {
	case f.finite() && !f.hasEmpty():
		out.strs = f.exact
		out.whole = f.whole
	case f.need != nil:
		out.strs = f.need
	}
	return out
}

func anyFold(re *syntax.Regexp) bool {
	if re.Flags&syntax.FoldCase != 0 && (re.Op == syntax.OpLiteral || re.Op == syntax.OpCharClass) {
		return true
	}
	for _, sub := range re.Sub {
		if anyFold(sub) {
			return true
		}
	}
	return false
}

// extractor walks a tree. If any part ignores case all strings do, which finds
// more candidates than needed and never fewer.
type extractor struct{ fold bool }

// fact is what is known about the matches of one node.
type fact struct {
	exact []string // every match is one of these; nil: not known
	need  []string // every match holds one of these; nil: not known
	whole bool     // exact is all there is: no assertions, no case that differs from the node's own
}

func (f fact) finite() bool { return f.exact != nil }

func (f fact) hasEmpty() bool {
	for _, s := range f.exact {
		if s == "" {
			return true
		}
	}
	return false
}

// best is the most selective set that the fact gives, or nil.
func (f fact) best() []string {
	if f.finite() && !f.hasEmpty() {
		return better(f.exact, f.need)
	}
	return f.need
}

// better prefers the set whose worst string says most.
func better(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	if worth(b) > worth(a) {
		return b
	}
	return a
}

func worth(set []string) int {
	w := 1 << 20
	for _, s := range set {
		one := 0
		for i := range len(s) {
			one += 32 + rarity(s[i])
		}
		w = min(w, one)
	}
	return w - 8*len(set)
}

func (e extractor) find(re *syntax.Regexp) fact {
	switch re.Op {
	case syntax.OpLiteral:
		s, ok := e.literal(re)
		if !ok {
			return fact{need: e.asciiRun(re)}
		}
		return fact{exact: []string{s}, whole: !e.fold || re.Flags&syntax.FoldCase != 0}
	case syntax.OpCharClass:
		return e.class(re)
	case syntax.OpEmptyMatch:
		return fact{exact: []string{""}, whole: true}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return fact{exact: []string{""}}
	case syntax.OpCapture:
		return e.find(re.Sub[0])
	case syntax.OpConcat:
		return e.concat(re.Sub)
	case syntax.OpAlternate:
		return e.alternate(re.Sub)
	case syntax.OpPlus:
		return fact{need: e.find(re.Sub[0]).best()}
	case syntax.OpRepeat:
		if re.Min == 0 {
			return fact{}
		}
		return fact{need: e.find(re.Sub[0]).best()}
	case syntax.OpQuest:
		f := e.find(re.Sub[0])
		if f.finite() && len(f.exact) < maxNeedles {
			return fact{exact: append([]string{""}, f.exact...)}
		}
	}
	return fact{}
}

// literal gives the bytes of a literal node. A case-insensitive one has to be
// ASCII, and U+FFFD never is a literal: the engine lets it match any bad byte.
func (e extractor) literal(re *syntax.Regexp) (string, bool) {
	s := string(re.Rune)
	if strings.ContainsRune(s, utf8.RuneError) || len(s) > maxNeedleLen {
		return "", false
	}
	if re.Flags&syntax.FoldCase != 0 && !isASCII(s) {
		return "", false
	}
	if e.fold {
		s = lowerASCII(s)
	}
	return s, true
}

// asciiRun gives the longest run that literal would accept.
func (e extractor) asciiRun(re *syntax.Regexp) []string {
	best, cur := "", ""
	for _, r := range re.Rune {
		if r < utf8.RuneSelf && len(cur) < maxNeedleLen {
			cur += string(r)
		} else {
			cur = ""
		}
		if len(cur) > len(best) {
			best = cur
		}
	}
	if best == "" {
		return nil
	}
	if e.fold {
		best = lowerASCII(best)
	}
	return []string{best}
}

func (e extractor) class(re *syntax.Regexp) fact {
	runes := re.Rune
	if re.Flags&syntax.FoldCase != 0 {
		runes = foldClass(runes)
	}
	var out []string
	for i := 0; i+1 < len(runes); i += 2 {
		lo, hi := runes[i], runes[i+1]
		if hi-lo >= maxNeedles {
			return fact{}
		}
		for r := lo; r <= hi; r++ {
			s := string(r)
			switch {
			case r == utf8.RuneError || r == '\n' || r == '\r':
				return fact{}
			case e.fold:
				s = lowerASCII(s)
			}
			if !contains(out, s) {
				out = append(out, s)
			}
		}
		if len(out) > maxNeedles {
			return fact{}
		}
	}
	if len(out) == 0 {
		return fact{}
	}
	return fact{exact: out}
}

func contains(set []string, s string) bool {
	for _, x := range set {
		if x == s {
			return true
		}
	}
	return false
}

// concat grows the set of strings that the parts so far must form together, and
// starts afresh where a part is not finite or the set gets too large.
func (e extractor) concat(subs []*syntax.Regexp) fact {
	run := []string{""}
	whole, finite := true, true
	var need []string
	cut := func() {
		f := fact{exact: run}
		need = better(need, f.best())
		run, finite = []string{""}, false
	}
	for _, sub := range subs {
		f := e.find(sub)
		whole = whole && f.whole
		if !f.finite() {
			cut()
			need = better(need, f.need)
			continue
		}
		next, ok := cross(run, f.exact)
		if !ok {
			cut()
			if next, ok = cross(run, f.exact); !ok {
				need = better(need, f.best())
				continue
			}
		}
		run = next
	}
	if finite {
		return fact{exact: run, whole: whole}
	}
	cut()
	return fact{need: need}
}

func cross(a, b []string) ([]string, bool) {
	if len(a)*len(b) > maxNeedles {
		return nil, false
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > maxNeedleLen {
				return nil, false
			}
			if s := x + y; !contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out, true
}

func (e extractor) alternate(subs []*syntax.Regexp) fact {
	var exact, need []string
	finite, needed := true, true
	for _, sub := range subs {
		f := e.find(sub)
		if finite = finite && f.finite() && len(exact)+len(f.exact) <= maxNeedles; finite {
			exact = append(exact, f.exact...)
		}
		best := f.best()
		if needed = needed && best != nil && len(need)+len(best) <= maxNeedles; needed {
			need = append(need, best...)
		}
	}
	var out fact
	if finite {
		out.exact = exact
	}
	if needed {
		out.need = need
	}
	return out
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, s)
}
