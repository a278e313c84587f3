package workspace

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxRules     = 10_000 // of one list; a person writes hundreds
	maxRuleBytes = 1024
	maxSpelt     = 256 // globs without braces that one with braces stands for
)

// ruleSet is one list, ready to be asked: one pass over the names of a path, and
// for most of them two look-ups of a byte. A slow twin in the tests asks every
// rule about every name.
type ruleSet struct {
	exact  map[string]*entry   // a name
	tails  map[string][]*entry // a name, of globs with a slash and nothing magic
	prefix [256][]*entry       // "lit*", by its first byte
	suffix [256][]*entry       // "*lit", by its last byte
	names  []*entry            // other globs without a slash
	paths  []*entry            // other globs with one
	short  map[string][]*entry // the stem of a name that DOS would know it by

	affixes []*entry // prefix and suffix

	globs   bool // some are the user's and hold something magic
	classes bool // a class of characters, too: the fold can take a letter out of it

	first, last [256]bool // with which bytes a name in exact or tails begins and ends
}

// entry is one rule, compiled.
type entry struct {
	Rule
	lit      string // folded: the name, prefix, suffix, or path without magic
	anywhere bool   // lit is the end of a path
	glob     string // folded
	raw      string // as written, but for slashes at its ends
	lone     bool   // without a slash: for a name anywhere
	except   []string
	ext      string // of a short name; "*" if any will do
	own      bool   // the user's, not built in
}

func newRuleSet() *ruleSet {
	return &ruleSet{exact: map[string]*entry{}, tails: map[string][]*entry{}, short: map[string][]*entry{}}
}

// builtIn compiles the rows of a built-in list.
func builtIn(rows []listed) *ruleSet {
	s := newRuleSet()
	for _, row := range rows {
		for _, g := range row.globs {
			list, err := newEntries(Rule{Glob: g, Name: row.name})
			if err != nil {
				panic(err) // a test compiles them all
			}
			for _, e := range list {
				for _, x := range row.except {
					e.except = append(e.except, fold(x))
				}
				s.add(e)
			}
		}
	}
	return s
}

// ownRules compiles the rules of the user. The error is for whoever wrote them.
func ownRules(rules []Rule) (*ruleSet, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules in one list of paths; at most %d can be used", len(rules), maxRules)
	}
	s := newRuleSet()
	for _, r := range rules {
		list, err := newEntries(r)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			e.own = true
			s.add(e)
		}
	}
	return s, nil
}

// newEntries compiles one rule: an entry for each way to read its braces, because
// a matcher that reads them while it matches can take for ever.
func newEntries(r Rule) ([]*entry, error) {
	glob, bad := cleanGlob(r.Glob)
	var out []*entry
	if bad == "" {
		if r.Name == "" {
			r.Name = r.Glob
		}
		lone := !strings.Contains(strings.TrimRight(r.Glob, "/"), "/")
		spelt, ok := spellOut(nil, "", glob)
		if !ok {
			bad = fmt.Sprintf("its braces stand for more than %d globs", maxSpelt)
		}
		for _, g := range spelt {
			g, _ = cleanGlob(g) // an alternative may be empty, or name nothing
			folded := foldGlob(g)
			if g == "" || !doublestar.ValidatePattern(folded) {
				continue
			}
			out = append(out, &entry{Rule: r, glob: folded, raw: g, lone: lone})
		}
		if bad == "" && len(out) == 0 {
			bad = "it names nothing"
		}
	}
	if bad != "" {
		at := ""
		if r.Where != "" {
			at = r.Where + ": "
		}
		return nil, fmt.Errorf("%s%q is no glob for a list of paths: %s", at, r.Glob, bad)
	}
	return out, nil
}

// spellOut appends every glob without braces that head and a valid rest stand for.
// head has none any more.
func spellOut(out []string, head, rest string) (_ []string, ok bool) {
	open := nextSign(rest, 0, "{")
	if open < 0 {
		return append(out, head+rest), len(out) < maxSpelt
	}
	head += rest[:open]
	end, depth := open, 0
	for {
		if end = nextSign(rest, end, "{}"); end < 0 {
			return out, true // not valid after all: it names nothing
		}
		if rest[end] == '{' {
			depth++
		} else if depth--; depth == 0 {
			break
		}
		end++
	}
	start, depth := open+1, 0
	for i := start; ; i++ {
		if i = nextSign(rest, i, "{},"); rest[i] == '{' {
			depth++
		} else if rest[i] == '}' && i < end {
			depth--
		} else if depth == 0 {
			if out, ok = spellOut(out, head, rest[start:i]+rest[end+1:]); !ok {
				return out, false
			}
			start = i + 1
		}
		if i == end {
			return out, true
		}
	}
}

// nextSign finds the next of some signs that is neither behind a backslash nor in
// a class; -1 if there is none.
func nextSign(glob string, from int, signs string) int {
	for i := from; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '[':
			for i++; i < len(glob) && glob[i] != ']'; i++ {
				if glob[i] == '\\' {
					i++
				}
			}
		case strings.IndexByte(signs, c) >= 0:
			return i
		}
	}
	return -1
}

// cleanGlob takes off what makes no difference, and says what is wrong.
func cleanGlob(glob string) (clean, bad string) {
	glob = strings.Trim(strings.TrimPrefix(glob, "./"), "/")
	switch {
	case glob == "" || glob == ".":
		return "", "it is empty"
	case len(glob) > maxRuleBytes:
		return "", fmt.Sprintf("it is longer than %d bytes", maxRuleBytes)
	case strings.IndexByte(glob, 0) >= 0:
		return "", "it holds a NUL byte"
	case !doublestar.ValidatePattern(glob):
		return "", "a bracket, a brace or a backslash in it has no end"
	}
	for part := range strings.SplitSeq(glob, "/") {
		if part == "" || part == "." || part == ".." {
			return "", "it holds an empty name, . or .."
		}
	}
	return glob, ""
}

// add files an entry where its form is looked for.
func (s *ruleSet) add(e *entry) {
	folded, lone := e.glob, e.lone
	s.globs = s.globs || e.own && magic(folded)
	s.classes = s.classes || e.own && strings.Contains(folded, "[")
	rest, anywhere := strings.CutPrefix(folded, "**/")
	switch {
	case lone && !magic(folded):
		if s.exact[folded] == nil {
			s.exact[folded] = e
		}
		e.lit = folded
		s.ends(folded)
		s.addShort(e, folded, false)
	case lone && strings.HasSuffix(folded, "*") && !magic(folded[:len(folded)-1]):
		e.lit = folded[:len(folded)-1]
		s.affixes = append(s.affixes, e)
		for c := range 256 {
			if e.lit == "" || e.lit[0] == byte(c) {
				s.prefix[c] = append(s.prefix[c], e)
			}
		}
		s.addShort(e, e.lit, true)
	case lone && folded[0] == '*' && !magic(folded[1:]):
		e.lit = folded[1:]
		s.affixes = append(s.affixes, e)
		c := e.lit[len(e.lit)-1]
		s.suffix[c] = append(s.suffix[c], e)
	case lone:
		s.names = append(s.names, e)
	case !magic(folded) || anywhere && !magic(rest):
		e.lit, e.anywhere = folded, anywhere
		if anywhere {
			e.lit = rest
		}
		_, name := split(e.lit)
		s.tails[name] = append(s.tails[name], e)
		s.ends(name)
	default:
		s.paths = append(s.paths, e)
	}
}

// ends notes with what a name begins and ends.
func (s *ruleSet) ends(name string) {
	s.first[name[0]], s.last[name[len(name)-1]] = true, true
}

func (s *ruleSet) addShort(e *entry, lit string, open bool) {
	stem, ext := shortForm(lit)
	if stem == "" {
		return
	}
	e.ext = ext
	if open {
		e.ext = "*"
	}
	s.short[stem] = append(s.short[stem], e)
	if two := cut(stem, 2); two != cut(stem, 1) {
		s.short["#"+two] = append(s.short["#"+two], e)
	}
}

// find gives the rule that a canonical path falls under: the path itself or a
// directory on its way. It is safe for concurrent use.
func (s *ruleSet) find(path string) *entry {
	var space [192]byte
	folded, odd := appendFolded(space[:0], path)
	if e := s.match(folded); e != nil {
		return e
	}
	if rest := withoutStreams(folded); rest != nil {
		if e := s.match(rest); e != nil {
			return e
		}
	}
	if s.globs && (odd || s.classes) {
		return s.asWritten(path)
	}
	return nil
}

func (s *ruleSet) match(path []byte) *entry {
	var whole string // path, if a glob asks for it
	tilde := bytes.IndexByte(path, '~') >= 0
	for start := 0; start < len(path); {
		end := start
		for end < len(path) && path[end] != '/' {
			end++
		}
		name := path[start:end]
		if len(name) == 0 {
			start = end + 1
			continue
		}
		first, last := name[0], name[len(name)-1]
		if s.first[first] && s.last[last] {
			if e := s.byName(name, path[:end]); e != nil {
				return e
			}
		}
		for _, e := range s.prefix[first] {
			if len(name) >= len(e.lit) && string(name[:len(e.lit)]) == e.lit && !e.exempt(name) {
				return e
			}
		}
		for _, e := range s.suffix[last] {
			if n := len(name) - len(e.lit); n >= 0 && string(name[n:]) == e.lit && !e.exempt(name) {
				return e
			}
		}
		if tilde && len(s.short) > 0 {
			if e := s.byShortName(name); e != nil {
				return e
			}
		}
		for _, e := range s.names {
			if doublestar.MatchUnvalidated(e.glob, string(name)) {
				return e
			}
		}
		if len(s.paths) > 0 {
			if whole == "" {
				whole = string(path)
			}
			for _, e := range s.paths {
				if doublestar.MatchUnvalidated(e.glob, whole[:end]) {
					return e
				}
			}
		}
		start = end + 1
	}
	return nil
}

// byName asks the rules that hold a name, or a piece of one, without magic. path
// ends with the name.
func (s *ruleSet) byName(name, path []byte) *entry {
	if e := s.exact[string(name)]; e != nil {
		return e
	}
	for _, e := range s.tails[string(name)] {
		if len(path) == len(e.lit) && string(path) == e.lit {
			return e
		}
		if n := len(path) - len(e.lit); e.anywhere && n > 0 && path[n-1] == '/' && string(path[n:]) == e.lit {
			return e
		}
	}
	return nil
}

func (e *entry) exempt(name []byte) bool {
	for _, x := range e.except {
		if string(name) == x {
			return true
		}
	}
	return false
}

func (s *ruleSet) byShortName(name []byte) *entry {
	stem, ext, ok := shortName(name)
	if !ok {
		return nil
	}
	for n := len(stem); n > 0; n-- {
		for _, e := range s.short[string(stem[:n])] {
			if n == len(stem) && e.ext == string(ext) || e.ext == "*" {
				return e
			}
		}
	}
	if two, ok := hashed(stem); ok {
		for _, e := range s.short["#"+string(two)] {
			if e.ext == string(ext) || e.ext == "*" {
				return e
			}
		}
	}
	return nil
}

// asWritten holds the globs against a path that is not its own folded form: a
// glob may mean a difference that the fold takes away.
func (s *ruleSet) asWritten(path string) *entry {
	for end := 0; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' {
			continue
		}
		_, name := split(path[:end])
		for _, group := range [...][]*entry{s.affixes, s.names} {
			for _, e := range group {
				if e.own && doublestar.MatchUnvalidated(e.raw, name) {
					return e
				}
			}
		}
		for _, e := range s.paths {
			if e.own && doublestar.MatchUnvalidated(e.raw, path[:end]) {
				return e
			}
		}
	}
	return nil
}

func magic(glob string) bool { return strings.ContainsAny(glob, `*?[]{}\`) }

// foldGlob folds what a glob says about names and leaves its own signs alone.
// Letters whose folded form is such a sign stand for themselves.
func foldGlob(glob string) string {
	const signs = `*?[]{}\`
	const private = 0xf700 // letters that no fold changes stand for the signs meanwhile
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		if n := strings.IndexByte(signs, glob[i]); n >= 0 {
			b.WriteRune(rune(private + n))
		} else {
			b.WriteByte(glob[i])
		}
	}
	var out strings.Builder
	for i, part := range strings.Split(b.String(), "/") {
		if i > 0 {
			out.WriteByte('/')
		}
		folded := fold(part)
		if strings.IndexFunc(part, func(r rune) bool { return private <= r && r < private+rune(len(signs)) }) >= 0 {
			// Dots and blanks may stand before a sign or after it: as they are.
			folded = strings.TrimRight(folded, ". ") + part[len(strings.TrimRight(part, ". ")):]
		}
		for folded != "" {
			r, n := utf8.DecodeRuneInString(folded)
			switch {
			case private <= r && r < private+rune(len(signs)):
				out.WriteByte(signs[r-private])
			case n == 1 && magic(folded[:n]):
				out.WriteByte('\\')
				fallthrough
			default:
				out.WriteString(folded[:n])
			}
			folded = folded[n:]
		}
	}
	return out.String()
}
