package shell

import (
	"regexp"
	"strings"
	"sync"
)

// checkAwk reads a program for awk word by word and returns what speaks against
// running it, or "". A program that runs commands, opens files, loads code or
// looks at the environment or the arguments is told.
func checkAwk(prog string) string {
	a := &awkReader{src: prog}
	for a.bad == "" && a.pos < len(a.src) {
		a.token()
	}
	return a.bad
}

// awkRuns matches the literal commands of system and of pipes.
var awkRuns = sync.OnceValue(func() *regexp.Regexp {
	const text = `"((?:[^"\\\n]|\\.)*)"`
	return regexp.MustCompile(`system\s*\(\s*` + text + `|\|&?\s*` + text + `|` + text + `\s*\|`)
})

// runsOfAwk returns the literal commands that a program for awk runs, for
// denies to look at.
func runsOfAwk(prog string) (out []string) {
	for _, m := range awkRuns().FindAllStringSubmatch(prog, 16) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}

type awkReader struct {
	src   string
	pos   int
	bad   string
	value bool // the token before ends a value, so that / divides
	print bool // inside print or printf
	paren int  // parentheses and brackets open since then
	bare  bool // the token before is print
}

func (a *awkReader) fail(why string) {
	if a.bad == "" {
		a.bad = "the awk program is not known to be safe: " + why
	}
}

func (a *awkReader) token() {
	c := a.src[a.pos]
	bare := a.bare
	if c != ' ' && c != '\t' {
		a.bare = false
	}
	switch {
	case c == ' ' || c == '\t':
		a.pos++
	case c == '\\' && strings.HasPrefix(a.src[a.pos:], "\\\n"):
		a.pos += 2
	case c == '\n' || c == ';' || c == '{' || c == '}':
		a.pos++
		// A line that ends in a comma or an operator goes on.
		if c != '\n' || a.value || bare {
			a.print = false
		}
		a.value = false
	case c == '#':
		for a.pos < len(a.src) && a.src[a.pos] != '\n' {
			a.pos++
		}
	case c == '"':
		a.text()
	case c == '/' && !a.value:
		a.regexp()
	case nameByte(c, 0):
		start := a.pos
		for a.pos < len(a.src) && nameByte(a.src[a.pos], 1) {
			a.pos++
		}
		a.word(a.src[start:a.pos])
	case '0' <= c && c <= '9' || c == '.':
		for a.pos < len(a.src) && (nameByte(a.src[a.pos], 1) || a.src[a.pos] == '.') {
			a.pos++
		}
		a.value = true
	case c == '(' || c == '[':
		a.pos++
		a.paren++
		a.value = false
	case c == ')' || c == ']':
		a.pos++
		a.paren--
		a.value = true
	case c == '|':
		if strings.HasPrefix(a.src[a.pos:], "||") {
			a.pos += 2
			a.value = false
			return
		}
		a.fail("| runs a program")
	case c == '>':
		a.pos++
		if a.print && a.paren <= 0 {
			a.fail("> writes a file")
		}
		a.value = false
	case c == '@':
		a.fail("@ loads code")
	case strings.IndexByte("<=!~+-*/%^?:,&$", c) >= 0:
		a.pos++
		// x++ / 2 divides, and what follows a lone sign begins a value.
		if (c == '+' || c == '-') && a.pos < len(a.src) && a.src[a.pos] == c {
			a.pos++
			return
		}
		a.value = false
	default:
		a.fail(show(string(rune(c))) + " is not known")
	}
}

func (a *awkReader) word(w string) {
	switch w {
	case "system":
		a.fail("system runs a program")
	case "getline":
		a.fail("getline reads a file")
	case "ENVIRON", "PROCINFO", "ARGV", "ARGC", "SYMTAB", "FUNCTAB":
		a.fail(w + " reaches what no rule names")
	case "print", "printf":
		a.print, a.bare, a.paren, a.value = true, true, 0, false
	case "BEGIN", "END", "BEGINFILE", "ENDFILE", "function", "func", "if", "else", "while", "for", "do", "in",
		"return", "delete", "exit", "next", "nextfile", "break", "continue", "case", "switch", "default":
		a.value = false
	case "include", "load", "namespace":
		a.fail(w + " loads code")
	default:
		a.value = true
	}
}

// text steps over a string.
func (a *awkReader) text() {
	for a.pos++; a.pos < len(a.src); a.pos++ {
		switch a.src[a.pos] {
		case '\\':
			a.pos++
		case '\n':
			a.fail("a string runs over its line")
			return
		case '"':
			a.pos++
			a.value = true
			return
		}
	}
	a.fail("a string has no end")
}

// regexp steps over a regular expression. A slash between brackets is refused:
// awks disagree about it.
func (a *awkReader) regexp() {
	bracket := false
	for a.pos++; a.pos < len(a.src); a.pos++ {
		switch a.src[a.pos] {
		case '\\':
			a.pos++
		case '[':
			bracket = true
		case ']':
			bracket = false
		case '\n':
			a.fail("an expression runs over its line")
			return
		case '/':
			if bracket {
				a.fail("a slash stands between brackets")
				return
			}
			a.pos++
			a.value = true
			return
		}
	}
	a.fail("an expression has no end")
}
