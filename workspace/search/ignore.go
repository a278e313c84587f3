package search

import (
	"bytes"
	"strings"
)

// Bounds of one ignore file. Real ones hold some hundred rules; the bounds keep
// a hostile one from making every name of a walk expensive.
const (
	maxIgnoreBytes = 512 << 10
	maxIgnoreRules = 10_000
)

// verdict is what a set of rules says about one name.
type verdict int8

const (
	unmentioned verdict = iota
	ignored
	included // a rule that begins with '!'
)

// rules are the patterns of one ignore file, for the names below the directory
// that holds it. The syntax and the meaning are those of gitignore(5), as git
// itself acts on them: bytes, not runes; case counts.
type rules struct {
	list []rule
}

// rule is one pattern. Most are plain names or "*.ext", which need no matcher.
type rule struct {
	text     string // the plain name, or what follows the '*' of kind suffixRule
	glob     []segment
	kind     ruleKind
	negated  bool
	dirOnly  bool
	anchored bool // matches the path below the file's directory, not the base name
}

type ruleKind uint8

const (
	nameRule   ruleKind = iota // text is the whole name, or path if anchored
	suffixRule                 // '*' and then text, without further magic
	globRule
)

// parseRules reads an ignore file. What git would not accept as a pattern is
// left out, as git does.
func parseRules(b []byte) *rules {
	if len(b) > maxIgnoreBytes {
		b = b[:maxIgnoreBytes]
		b = b[:bytes.LastIndexByte(b, '\n')+1] // half a pattern is a different pattern
	}
	b = bytes.TrimPrefix(b, utf8BOM)
	r := new(rules)
	for len(b) > 0 && len(r.list) < maxIgnoreRules {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
			line = bytes.TrimSuffix(line, []byte{'\r'})
		} else {
			b = nil
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			line = line[:i]
		}
		if one, ok := parseRule(string(line)); ok {
			r.list = append(r.list, one)
		}
	}
	if len(r.list) == 0 {
		return nil
	}
	return r
}

func parseRule(s string) (rule, bool) {
	if strings.HasPrefix(s, "#") {
		return rule{}, false
	}
	s = trimTrailingSpaces(s)
	var r rule
	if strings.HasPrefix(s, "!") {
		r.negated, s = true, s[1:]
	}
	if strings.HasSuffix(s, "/") {
		r.dirOnly, s = true, s[:len(s)-1]
	}
	r.anchored = strings.Contains(s, "/")
	s = strings.TrimPrefix(s, "/")
	if s == "" {
		return rule{}, false
	}
	switch {
	case !strings.ContainsAny(s, `*?[\`):
		r.kind, r.text = nameRule, s
	case !r.anchored && s[0] == '*' && !strings.ContainsAny(s[1:], `*?[\`):
		r.kind, r.text = suffixRule, s[1:]
	default:
		glob, ok := compileGlob(s)
		if !ok {
			return rule{}, false
		}
		r.kind, r.glob = globRule, glob
	}
	return r, true
}

// trimTrailingSpaces removes the spaces at the end that no backslash protects.
func trimTrailingSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
		case '\\':
			i++
			end = min(i+1, len(s))
		default:
			end = i + 1
		}
	}
	return s[:end]
}

// match gives the verdict of the last rule that mentions the name. rel is the
// path below the rules' own directory and base its last component.
func (r *rules) match(rel, base string, isDir bool) verdict {
	if r == nil {
		return unmentioned
	}
	for i := len(r.list) - 1; i >= 0; i-- {
		one := &r.list[i]
		if one.dirOnly && !isDir {
			continue
		}
		text := base
		if one.anchored {
			text = rel
		}
		var hit bool
		switch one.kind {
		case nameRule:
			hit = text == one.text
		case suffixRule:
			hit = strings.HasSuffix(text, one.text)
		default:
			hit = matchSegments(one.glob, text)
		}
		if hit {
			if one.negated {
				return included
			}
			return ignored
		}
	}
	return unmentioned
}

// segment is what stands between two slashes of a pattern.
type segment struct {
	deep bool // two stars or more and nothing else: any number of components
	toks []tok
}

// tok matches one byte, or with star any run of bytes.
type tok struct {
	star, any bool
	lit       byte
	class     *[256]bool // of a bracket expression; never holds '/'
}

// compileGlob reads a pattern as git's wildmatch does with WM_PATHNAME. It is
// not ok if the pattern can match nothing.
func compileGlob(s string) ([]segment, bool) {
	var segs []segment
	var cur []tok
	start := 0 // of the current segment in s
	flush := func(end int) {
		stars := end-start >= 2 && strings.Trim(s[start:end], "*") == ""
		segs = append(segs, segment{deep: stars, toks: cur})
		cur = nil
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '/':
			flush(i)
			start = i + 1
		case '*':
			if len(cur) == 0 || !cur[len(cur)-1].star {
				cur = append(cur, tok{star: true})
			}
		case '?':
			cur = append(cur, tok{any: true})
		case '\\':
			if i++; i == len(s) {
				return nil, false
			}
			if s[i] == '/' { // an escaped separator still separates
				flush(i - 1)
				start = i + 1
				continue
			}
			cur = append(cur, tok{lit: s[i]})
		case '[':
			class, n, ok := parseClass(s[i:])
			if !ok {
				return nil, false
			}
			cur = append(cur, tok{class: class})
			i += n - 1
		default:
			cur = append(cur, tok{lit: c})
		}
	}
	flush(len(s))
	return segs, true
}

// matchSegments matches components against segments. It goes back only to the
// last "**", so the work is at most components x segments x the work of one.
func matchSegments(segs []segment, path string) bool {
	type point struct {
		seg  int
		path string
		end  bool
	}
	now := point{0, path, false}
	var back *point // where the last "**" takes one component more
	for {
		switch {
		case now.seg == len(segs):
			if now.end {
				return true
			}
		case segs[now.seg].deep:
			if now.seg == len(segs)-1 {
				// A pattern's last "/**" means what is inside, so something has to
				// be left; a lone "**" is anything.
				return !now.end
			}
			now.seg++
			again := now
			back = &again
			continue
		case !now.end:
			head, rest, more := strings.Cut(now.path, "/")
			if matchToks(segs[now.seg].toks, head) {
				now = point{now.seg + 1, rest, !more}
				continue
			}
		}
		if back == nil || back.end {
			return false
		}
		_, rest, more := strings.Cut(back.path, "/")
		back.path, back.end = rest, !more
		now = *back
	}
}

// matchToks matches one component; like matchSegments it goes back only to the
// last star.
func matchToks(toks []tok, s string) bool {
	t, i := 0, 0
	backT, backI := -1, 0
	for i < len(s) || t < len(toks) {
		if t < len(toks) {
			if toks[t].star {
				backT, backI = t, i
				t++
				continue
			}
			if i < len(s) && toks[t].one(s[i]) {
				t++
				i++
				continue
			}
		}
		if backT < 0 || backI >= len(s) {
			return false
		}
		backI++
		t, i = backT+1, backI
	}
	return true
}

func (t *tok) one(c byte) bool {
	switch {
	case t.any:
		return c != '/'
	case t.class != nil:
		return t.class[c]
	}
	return t.lit == c
}

// parseClass reads the bracket expression at the start of s and says how many
// bytes it takes.
func parseClass(s string) (*[256]bool, int, bool) {
	var set [256]bool
	i := 1
	negated := false
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		negated = true
		i++
	}
	prev := -1 // the byte before, if it can begin a range
	for first := true; ; first = false {
		if i >= len(s) {
			return nil, 0, false
		}
		c := s[i]
		if c == ']' && !first {
			i++
			break
		}
		switch {
		case c == '\\':
			if i++; i >= len(s) {
				return nil, 0, false
			}
			set[s[i]] = true
			prev = int(s[i])
		case c == '-' && prev >= 0 && i+1 < len(s) && s[i+1] != ']':
			i++
			hi := s[i]
			if hi == '\\' {
				if i++; i >= len(s) {
					return nil, 0, false
				}
				hi = s[i]
			}
			for b := prev; b <= int(hi); b++ {
				set[b] = true
			}
			prev = -1
		case c == '[' && i+1 < len(s) && s[i+1] == ':':
			name, _, closed := strings.Cut(s[i+2:], "]")
			if !closed {
				return nil, 0, false
			}
			if !strings.HasSuffix(name, ":") { // "[:" without ":]" is a plain '['
				set['['] = true
				prev = '['
				break
			}
			in, known := classes[strings.TrimSuffix(name, ":")]
			if !known {
				return nil, 0, false
			}
			for b := range set {
				set[b] = set[b] || in(byte(b))
			}
			i += len("[:") + len(name)
			prev = -1
		default:
			set[c] = true
			prev = int(c)
		}
		i++
	}
	if negated {
		for b := range set {
			set[b] = !set[b]
		}
	}
	set['/'] = false
	return &set, i, true
}

func between(lo, hi byte) func(byte) bool { return func(b byte) bool { return lo <= b && b <= hi } }

func either(fs ...func(byte) bool) func(byte) bool {
	return func(b byte) bool {
		for _, f := range fs {
			if f(b) {
				return true
			}
		}
		return false
	}
}

var (
	isDigit = between('0', '9')
	isUpper = between('A', 'Z')
	isLower = between('a', 'z')
	isAlpha = either(isUpper, isLower)
	isAlnum = either(isAlpha, isDigit)
	isGraph = between('!', '~')

	// classes are the POSIX names inside brackets, for ASCII as in git.
	classes = map[string]func(byte) bool{
		"alnum": isAlnum, "alpha": isAlpha, "digit": isDigit, "upper": isUpper, "lower": isLower, "graph": isGraph,
		"blank":  func(b byte) bool { return b == ' ' || b == '\t' },
		"cntrl":  func(b byte) bool { return b < ' ' || b == 0x7f },
		"print":  between(' ', '~'),
		"punct":  func(b byte) bool { return isGraph(b) && !isAlnum(b) },
		"space":  func(b byte) bool { return b == ' ' || '\t' <= b && b <= '\r' },
		"xdigit": either(isDigit, between('a', 'f'), between('A', 'F')),
	}
)
