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
)

// ruleSet is one list, ready to be asked: one pass over the names of a path, and
// for most of them two look-ups of a byte. A slow twin in the tests asks every
// rule about every name.
type ruleSet struct {
	exact  map[string]*entry   // a name
	tails  map[string][]*entry // a name, of globs with a slash and nothing magic
	prefix []*entry            // "lit*"
	suffix []*entry            // "*lit"
	names  []*entry            // other globs without a slash
	paths  []*entry            // other globs with one
	short  map[string][]*entry // the stem of a name that DOS would know it by

	globs bool // some are the user's and hold something magic

	first, last [256]bool // with which bytes a name begins or ends that exact, tails, prefix or suffix know
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
			e, err := newEntry(Rule{Glob: g, Name: row.name})
			if err != nil {
				panic(err) // a test compiles them all
			}
			for _, x := range row.except {
				e.except = append(e.except, fold(x))
			}
			s.add(e)
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
		e, err := newEntry(r)
		if err != nil {
			return nil, err
		}
		e.own = true
		s.add(e)
	}
	return s, nil
}

func newEntry(r Rule) (*entry, error) {
	glob, bad := cleanGlob(r.Glob)
	folded := foldGlob(glob)
	if bad == "" && !doublestar.ValidatePattern(folded) {
		bad = "it has no folded form"
	}
	if bad != "" {
		at := ""
		if r.Where != "" {
			at = r.Where + ": "
		}
		return nil, fmt.Errorf("%s%q is no glob for a list of paths: %s", at, r.Glob, bad)
	}
	if r.Name == "" {
		r.Name = r.Glob
	}
	return &entry{Rule: r, glob: folded, raw: glob, lone: !strings.Contains(strings.TrimRight(r.Glob, "/"), "/")}, nil
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
	rest, anywhere := strings.CutPrefix(folded, "**/")
	switch {
	case lone && !magic(folded):
		if s.exact[folded] == nil {
			s.exact[folded] = e
		}
		e.lit = folded
		s.ends(folded, folded)
		s.addShort(e, folded, false)
	case lone && strings.HasSuffix(folded, "*") && !magic(folded[:len(folded)-1]):
		e.lit = folded[:len(folded)-1]
		s.prefix = append(s.prefix, e)
		s.ends(e.lit, "")
		s.addShort(e, e.lit, true)
	case lone && folded[0] == '*' && !magic(folded[1:]):
		e.lit = folded[1:]
		s.suffix = append(s.suffix, e)
		s.ends("", e.lit)
	case lone:
		s.names = append(s.names, e)
	case !magic(folded) || anywhere && !magic(rest):
		e.lit, e.anywhere = folded, anywhere
		if anywhere {
			e.lit = rest
		}
		_, name := split(e.lit)
		s.tails[name] = append(s.tails[name], e)
		s.ends(name, name)
	default:
		s.paths = append(s.paths, e)
	}
}

// ends notes how a name can begin and end; "" means anyhow.
func (s *ruleSet) ends(first, last string) {
	for i := range 256 {
		s.first[i] = s.first[i] || first == "" || first[0] == byte(i)
		s.last[i] = s.last[i] || last == "" || last[len(last)-1] == byte(i)
	}
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
	if len(stem) >= 2 {
		s.short["#"+stem[:2]] = append(s.short["#"+stem[:2]], e)
	}
}

// find gives the rule that a canonical path falls under: the path itself or a
// directory on its way. It is safe for concurrent use.
func (s *ruleSet) find(path string) *entry {
	var space [192]byte
	folded := appendFolded(space[:0], path)
	if e := s.match(folded); e != nil {
		return e
	}
	if rest := withoutStreams(folded); rest != nil {
		if e := s.match(rest); e != nil {
			return e
		}
	}
	if s.globs && string(folded) != path {
		return s.asWritten(path)
	}
	return nil
}

func (s *ruleSet) match(path []byte) *entry {
	var whole string // path, if a glob asks for it
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
		if s.first[name[0]] && s.last[name[len(name)-1]] {
			if e := s.byName(name, path[:end]); e != nil {
				return e
			}
		}
		if len(s.short) > 0 {
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
	for _, e := range s.prefix {
		if len(name) >= len(e.lit) && string(name[:len(e.lit)]) == e.lit && !e.exempt(name) {
			return e
		}
	}
	for _, e := range s.suffix {
		if n := len(name) - len(e.lit); n >= 0 && string(name[n:]) == e.lit && !e.exempt(name) {
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
	if bytes.IndexByte(name, '~') < 0 {
		return nil
	}
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
	if hashed(stem) {
		for _, e := range s.short["#"+string(stem[:2])] {
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
		for _, group := range [...][]*entry{s.prefix, s.suffix, s.names} {
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
	const signs = `*?[]{}\!^-,`
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
			case n == 1 && magic(folded[:1]):
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
