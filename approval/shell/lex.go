package shell

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// odd finds bytes that the parser and bash read differently, or that a person
// cannot see. It returns "" if there are none.
func odd(text string) string {
	if !utf8.ValidString(text) {
		return "the text is not UTF-8"
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\t' || c == '\n':
		case c == '\r':
			return "the text holds a carriage return, which bash takes for a letter"
		case c < ' ' || c == 0x7f:
			return "the text holds a control character"
		}
	}
	if strings.HasSuffix(text, `\`) {
		return "the text ends in a backslash"
	}
	return ""
}

// maxBrackets bounds what can be nested, before the parser meets it: its time
// grows with the square of the depth.
const maxBrackets = 4096

func brackets(text string) int {
	return strings.Count(text, "(") + strings.Count(text, "{") + strings.Count(text, "[")
}

// spans finds constructs that the parser and bash are known to read
// differently.
func spans(text string, file *syntax.File) []string {
	l := lexer{continued: continuations(text)}
	var stack []bool // whether the node is a substitution
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			if stack[len(stack)-1] {
				l.inside--
			}
			stack = stack[:len(stack)-1]
			return false
		}
		subst := l.node(text, n)
		if subst {
			l.inside++
		}
		stack = append(stack, subst)
		return true
	})
	// A continuation must stand between blanks: everywhere else readers differ.
	slices.SortFunc(l.quoted, func(a, b [2]int) int { return a[0] - b[0] })
	k := 0
	for _, at := range l.continued {
		for k < len(l.quoted) && l.quoted[k][1] <= at {
			k++
		}
		quoted := k < len(l.quoted) && l.quoted[k][0] <= at
		if at > 0 && text[at-1] != ' ' && text[at-1] != '\t' && !quoted {
			l.object("a word is continued on the next line")
		}
	}
	return l.bad
}

// lexer looks at the text behind each node.
type lexer struct {
	continued []int    // offsets of backslash and newline
	quoted    [][2]int // spans in which they are plain text
	inside    int      // substitutions round the node
	bad       []string
}

func (l *lexer) object(s string) {
	if !slices.Contains(l.bad, s) {
		l.bad = append(l.bad, s)
	}
}

func continuations(text string) []int {
	var out []int
	for i := 0; ; i += 2 {
		k := strings.Index(text[i:], "\\\n")
		if k < 0 {
			return out
		}
		i += k
		out = append(out, i)
	}
}

// continues reports whether a line is continued within a node.
func (l *lexer) continues(n syntax.Node) bool {
	from, to := n.Pos(), n.End()
	if !from.IsValid() || !to.IsValid() {
		return len(l.continued) > 0
	}
	i, _ := slices.BinarySearch(l.continued, int(from.Offset()))
	return i < len(l.continued) && l.continued[i] < int(to.Offset())
}

// node looks at one node and reports whether it is a substitution.
func (l *lexer) node(text string, n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Lit, *syntax.DblQuoted, *syntax.ParamExp, *syntax.ArithmExp:
		if l.continues(n) {
			l.object("a line is continued inside a word or quotes")
		}
	case *syntax.SglQuoted:
		if !n.Dollar {
			l.quoted = append(l.quoted, [2]int{int(n.Pos().Offset()), int(n.End().Offset())})
		} else if l.continues(n) {
			l.object("a line is continued inside a word or quotes")
		}
	case *syntax.Comment:
		if l.continues(n) || strings.HasSuffix(n.Text, `\`) {
			l.object("a comment ends in a backslash")
		}
	case *syntax.CmdSubst:
		if n.Backquotes && strings.Contains(text[min(int(n.Pos().Offset()), len(text)):min(int(n.End().Offset()), len(text))], `\`) {
			l.object("there is a backslash inside backquotes")
		}
		_, plain := justHeredoc(n) // it becomes text
		return !plain
	case *syntax.ProcSubst:
		return true
	case *syntax.Redirect:
		if n.Hdoc == nil {
			break
		}
		if n.Op == syntax.DashHdoc {
			l.object("tabs are taken off a here-document")
		}
		if l.inside > 0 {
			l.object("a here-document stands inside a substitution")
		}
		if quotedWord(n.Word) {
			l.quoted = append(l.quoted, [2]int{int(n.Hdoc.Pos().Offset()), int(n.Hdoc.End().Offset())})
		} else if l.continues(n.Hdoc) {
			l.object("a line of a here-document is continued")
		}
		if !delimiter(n.Word) {
			l.object("the end of a here-document is no plain word")
		}
	}
	return false
}

// quotedWord reports whether a here-document's end is quoted, so that bash
// expands nothing in it.
func quotedWord(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, `\`) {
			return true
		}
	}
	return false
}

// delimiter reports whether a here-document's end is a plain word, bare or
// quoted as a whole.
func delimiter(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	var s string
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		s = p.Value
	case *syntax.SglQuoted:
		if s = p.Value; p.Dollar {
			return false
		}
	case *syntax.DblQuoted:
		if len(p.Parts) != 1 || p.Dollar {
			return false
		}
		l, ok := p.Parts[0].(*syntax.Lit)
		if !ok {
			return false
		}
		s = l.Value
	}
	for i := range len(s) {
		if !nameByte(s[i], 1) {
			return false
		}
	}
	return s != ""
}
