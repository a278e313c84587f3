package shell

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on what one text may make Judge look at on disk.
const (
	maxMatches = 512     // file names that one pattern becomes
	maxList    = 4096    // names in one directory
	maxLooks   = 8192    // questions to the file system per text
	maxNames   = 1 << 17 // names that are looked at per text, each time that one is
)

// lists judges the directory in which bash looks for names because of a word
// with a pattern: what it finds is shown, whatever program gets the word. before
// is what stands before the first wildcard.
func (j *judge) lists(before []atom, src string, st *state) {
	if !j.rules.WorkspacePaths && j.rules.Files == nil {
		return
	}
	known := make([]atom, len(before))
	for i, a := range before {
		if known[i] = a; a.hole != nil && a.hole.f.alts == nil && a.hole.f.kind == number {
			known[i] = atom{c: '0', quoted: true}
		}
	}
	f := compose(known, src)
	if f.alts == nil {
		j.ask(nil, "in which directory bash looks for %s is known only at run time", show(src))
		return
	}
	for _, s := range f.alts {
		j.listsFor(s, st)
	}
}

// listedBy is lists for a variable outside quotes whose text holds a pattern.
func (j *judge) listedBy(as []atom, src string, st *state) {
	if !j.rules.WorkspacePaths && j.rules.Files == nil {
		return
	}
	for i, a := range as {
		if a.hole == nil || a.quoted {
			continue
		}
		for _, s := range a.hole.f.alts {
			if !strings.ContainsAny(s, "*?[") {
				continue
			}
			before := compose(as[:i], src)
			for _, b := range before.alts {
				for w := range strings.FieldsSeq(b + s) {
					if star := strings.IndexAny(w, "*?["); star >= 0 {
						j.listsFor(w[:star], st)
						if strings.Contains(w[star:], "/") {
							j.ask(nil, "in which directory bash looks for %s is known only at run time", show(src))
						}
					}
				}
			}
			if before.alts == nil {
				j.ask(nil, "in which directory bash looks for %s is known only at run time", show(src))
			}
		}
	}
}

func (j *judge) listsFor(before string, st *state) {
	i := strings.LastIndexByte(before, '/')
	if i < 0 {
		return // where it runs, which was judged
	}
	if bad := j.file(Read, before[:i+1], st); bad != "" {
		j.ask(nil, "bash would list a directory: %s", bad)
	}
}

// strays asks about a directory outside the workspace that a pattern reaches
// behind a wildcard, by .. or through a link.
func (j *judge) strays(dir string) {
	if !j.rules.WorkspacePaths {
		return
	}
	if real, kind, ok := j.resolve(dir); !ok || kind != Missing && !j.inside(real) {
		j.ask(nil, "bash would look into a directory outside the workspace for names")
	}
}

// matches expands a word with a glob pattern as bash would in st's directory.
// It fails if the names cannot be known: several directories, one outside the
// workspace, too many names.
func (j *judge) matches(as []atom, st *state) ([]string, bool) {
	var parts [][]atom
	start := 0
	for i, a := range as {
		if a.hole == nil && a.c == '/' {
			parts = append(parts, as[start:i])
			start = i + 1
		}
	}
	parts = append(parts, as[start:])
	base, texts := "", []string{""}
	if len(parts[0]) == 0 && len(parts) > 1 {
		base, texts, parts = "/", []string{"/"}, parts[1:]
	} else if len(st.cwds) == 1 {
		base = st.cwds[0] + "/"
	} else {
		return nil, false
	}
	for k, p := range parts {
		last := k == len(parts)-1
		pat, isPattern := globOf(p)
		var next []string
		for _, t := range texts {
			if !isPattern {
				next = append(next, t+textOf(p)+slash(!last))
				continue
			}
			names, ok := j.list(absolute(base, t))
			if !ok {
				j.strays(absolute(base, t))
				return nil, false
			}
			if len(pat) > 0 && pat[0].lit && pat[0].r == '.' {
				// Older versions of bash match these two as well.
				names = append([]Entry{{Name: ".", Dir: true}, {Name: "..", Dir: true}}, names...)
			}
			for _, e := range names {
				if !matchName(pat, e.Name) {
					continue
				}
				if !last && !e.Dir && !e.Link {
					continue
				}
				next = append(next, t+e.Name+slash(!last))
				if len(next) > maxMatches {
					return nil, false
				}
			}
		}
		texts = next
	}
	// What follows the last pattern literally must exist too.
	out := texts[:0]
	for _, t := range texts {
		// Behind a last slash there is only a look at whether it is a directory.
		if end := parts[len(parts)-1]; len(end) > 0 && pattern(end) < 0 {
			full := absolute(base, t)
			j.strays(full[:strings.LastIndexByte(full, '/')+1])
		}
		_, kind, ok := j.resolve(absolute(base, t))
		if !ok {
			return nil, false
		}
		if kind != Missing {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out, true
}

func slash(b bool) string {
	if b {
		return "/"
	}
	return ""
}

func absolute(base, t string) string {
	if strings.HasPrefix(t, "/") {
		return t
	}
	return base + t
}

func textOf(as []atom) string {
	var b strings.Builder
	for _, a := range as {
		if a.hole != nil {
			s, _ := a.hole.f.lit()
			b.WriteString(s)
			continue
		}
		b.WriteByte(a.c)
	}
	return b.String()
}

// list returns the names in a directory of the workspace.
func (j *judge) list(dir string) ([]Entry, bool) {
	real, kind, ok := j.resolve(dir)
	if !ok || !j.inside(real) {
		return nil, false
	}
	if kind != Directory {
		return nil, kind == Missing
	}
	l, seen := j.listed[real]
	if !seen {
		if j.looks++; j.looks > maxLooks {
			return nil, false
		}
		names, more, err := j.fs.List(real, maxList)
		l = listed{names, err == nil && !more}
		j.listed[real] = l
	}
	j.names += len(l.names) + 1
	return l.names, l.ok && j.names <= maxNames
}

type listed struct {
	names []Entry
	ok    bool
}

// rune1 is one element of a glob pattern.
type rune1 struct {
	r   rune
	lit bool // stands for itself
}

// globOf returns the pattern of one path component and whether it is one.
func globOf(as []atom) (pat []rune1, isPattern bool) {
	var buf []byte
	flush := func() {
		for len(buf) > 0 {
			r, n := utf8.DecodeRune(buf)
			pat = append(pat, rune1{r, true})
			buf = buf[n:]
		}
	}
	for _, a := range as {
		switch {
		case a.hole != nil:
			s, _ := a.hole.f.lit()
			buf = append(buf, s...)
		case !a.quoted && strings.IndexByte("*?[]!^-", a.c) >= 0:
			flush()
			pat = append(pat, rune1{rune(a.c), false})
		default:
			buf = append(buf, a.c)
		}
	}
	flush()
	return pat, pattern(as) >= 0
}

// matchName reports whether a file name matches a pattern. Bracket expressions
// match regardless of case, as they do in some locales: a name too many is
// looked at, never one too few.
func matchName(pat []rune1, name string) bool {
	if strings.HasPrefix(name, ".") && (len(pat) == 0 || pat[0].r != '.') {
		return false
	}
	return matchRunes(pat, []rune(name))
}

func matchRunes(pat []rune1, s []rune) bool {
	// Each * is retried from where it last stood: time len(pat)*len(s).
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		if p < len(pat) {
			if c := pat[p]; !c.lit && c.r == '*' {
				star, mark = p, i
				p++
				continue
			}
			if n, ok := matchOne(pat[p:], s[i]); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pat) && !pat[p].lit && pat[p].r == '*' {
		p++
	}
	return p == len(pat)
}

// matchOne matches one character against the first element of pat and returns
// the element's length.
func matchOne(pat []rune1, r rune) (int, bool) {
	c := pat[0]
	if c.lit || c.r != '?' && c.r != '[' {
		return 1, c.r == r
	}
	if c.r == '?' {
		return 1, true
	}
	i := 1
	not := i < len(pat) && !pat[i].lit && (pat[i].r == '!' || pat[i].r == '^')
	if not {
		i++
	}
	first, hit := i, false
	for ; i < len(pat); i++ {
		if pat[i].r == ']' && !pat[i].lit && i > first {
			return i + 1, not || hit // a negated set may match in any locale
		}
		if pat[i].r == '[' && i+1 < len(pat) && (pat[i+1].r == ':' || pat[i+1].r == '.' || pat[i+1].r == '=') {
			// [:class:] and the like: take it as matching, and step over its end.
			hit = true
			for i++; i+1 < len(pat) && !(pat[i+1].r == ']' && pat[i].r == pat[i-1].r); i++ {
				if pat[i+1].r == ']' {
					break
				}
			}
			i++
			continue
		}
		lo, hi := pat[i].r, pat[i].r
		if i+2 < len(pat) && pat[i+1].r == '-' && !pat[i+1].lit && !(pat[i+2].r == ']' && !pat[i+2].lit) {
			hi = pat[i+2].r
			i += 2
		}
		for _, v := range [...]rune{r, unicode.ToLower(r), unicode.ToUpper(r)} {
			hit = hit || lo <= v && v <= hi
		}
	}
	return 1, r == '[' // no closing bracket: it stands for itself
}
