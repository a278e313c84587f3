package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// print1 builds the word that is printed for atoms: literal text in the
// plainest quotes, so that no reader of shell text can take it for more.
func print1(as []atom, ctx context) *syntax.Word {
	w := &syntax.Word{}
	if ctx == inHeredoc {
		return printHeredoc(as)
	}
	globbing := ctx != inValue && pattern(as) >= 0
	var text []byte
	raw := func(c byte) bool { return globbing && strings.IndexByte("*?[]!^", c) >= 0 }
	whole := true // the word is one known text
	for _, a := range as {
		whole = whole && a.hole == nil && (a.quoted || !raw(a.c))
	}
	if whole && len(as) > 0 {
		s := make([]byte, len(as))
		for i, a := range as {
			s[i] = a.c
		}
		if plain(string(s)) {
			return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: string(s)}}}
		}
	}
	flush := func() {
		for i, s := range strings.Split(string(text), "'") {
			if i > 0 {
				w.Parts = append(w.Parts, &syntax.Lit{Value: `\'`})
			}
			if s != "" {
				w.Parts = append(w.Parts, &syntax.SglQuoted{Value: s})
			}
		}
		text = text[:0]
	}
	for i, a := range as {
		switch {
		case a.hole == nil && !a.quoted && raw(a.c):
			flush()
			w.Parts = append(w.Parts, &syntax.Lit{Value: string(a.c)})
		case a.hole == nil && globbing && !a.quoted && (plain(string(a.c)) || a.c == '-' || a.c == '=' && bare(as[0], '-')):
			flush() // [a-z] and [[:alpha:]] lose their meaning in quotes
			w.Parts = append(w.Parts, &syntax.Lit{Value: string(a.c)})
		case a.hole == nil && !a.quoted && !whole && plain(string(a.c)) && i > 0 && as[i-1].hole != nil && as[i-1].hole.raw:
			flush() // the slash that ends a tilde must stand outside quotes
			w.Parts = append(w.Parts, &syntax.Lit{Value: string(a.c)})
		case a.hole == nil:
			text = append(text, a.c)
		case a.quoted && !a.hole.raw:
			flush()
			w.Parts = append(w.Parts, &syntax.DblQuoted{Parts: []syntax.WordPart{a.hole.node}})
		default:
			flush()
			w.Parts = append(w.Parts, a.hole.node)
		}
	}
	flush()
	return w
}

// printHeredoc builds the body of a here-document in which bash expands.
func printHeredoc(as []atom) *syntax.Word {
	w := &syntax.Word{}
	var text []byte
	flush := func() {
		if len(text) > 0 {
			w.Parts = append(w.Parts, &syntax.Lit{Value: string(text)})
			text = nil
		}
	}
	for _, a := range as {
		if a.hole != nil {
			flush()
			w.Parts = append(w.Parts, a.hole.node)
			continue
		}
		if a.c == '$' || a.c == '`' || a.c == '\\' {
			text = append(text, '\\')
		}
		text = append(text, a.c)
	}
	flush()
	return w
}
