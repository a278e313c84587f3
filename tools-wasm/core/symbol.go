package main

import "strings"

// Top-level symbols of source code, found by the shape of a line alone: enough
// to open a function by its name in most languages, without a parser for any.
// What is taken for a declaration stands at the beginning of its line.

// declares reports whether line declares name at the top level. For a method of
// Go name may be Type.Method.
func declares(line, name string) bool {
	if line == "" || name == "" || len(name) > len(line) || line[0] == ' ' || line[0] == '\t' {
		return false
	}
	for _, comment := range []string{"//", "/*", "*", "--", ";", "%", `"""`, "'''"} {
		if strings.HasPrefix(line, comment) {
			return false
		}
	}
	receiver := ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 && strings.HasPrefix(line, "func (") {
		receiver, name = strings.Trim(name[:i], "(*)"), name[i+1:]
		if end := strings.IndexByte(line, ')'); end < 0 || !hasWord(line[:end], receiver) {
			return false
		}
	}
	if l := strings.TrimRight(line, " \t"); l == "["+name+"]" || l == "[["+name+"]]" {
		return true // a table of TOML or INI
	}
	for i := 0; ; {
		n := strings.Index(line[i:], name)
		if n < 0 {
			return false
		}
		i += n
		if wordAt(line, i, len(name)) && declaredBy(line[:i], line[i+len(name):]) {
			return true
		}
		i += len(name)
	}
}

// declaredBy decides by what stands before and after a name.
func declaredBy(before, after string) bool {
	after = strings.TrimLeft(after, " \t")
	words := strings.TrimRight(before, " \t*&")
	if strings.HasPrefix(words, "func (") && strings.HasSuffix(words, ")") && strings.Count(words, "(") == 1 {
		return true // a method of Go
	}
	if strings.HasSuffix(words, ">") { // impl<T> Name
		if i := strings.IndexByte(words, '<'); i >= 0 {
			words = strings.TrimRight(words[:i], " \t")
		}
	}
	last := words[strings.LastIndexAny(words, " \t(")+1:]
	if declaring[last] {
		return true
	}
	if last == "for" && strings.HasPrefix(words, "impl") {
		return true
	}
	if words == "" { // name = ..., name: ..., name() {
		return strings.HasPrefix(after, ":") || strings.HasPrefix(after, "=") && !strings.HasPrefix(after, "==") ||
			strings.HasPrefix(after, "()") || strings.HasPrefix(after, "(") && strings.HasSuffix(strings.TrimRight(after, " \t"), "{")
	}
	// A function of C and its like: types, the name, a bracket, no semicolon.
	if !strings.HasPrefix(after, "(") || strings.HasSuffix(strings.TrimRight(after, " \t"), ";") {
		return false
	}
	if strings.ContainsAny(before, "=(\"'#.!?") {
		return false
	}
	first, _, _ := strings.Cut(words, " ")
	return !control[first]
}

var declaring = wordSet("func function fn def class struct enum union trait interface type typedef impl " +
	"const let var val static module namespace object record protocol extension actor defn defmacro " +
	"macro_rules! macro procedure sub proc data newtype instance mod object table view")

var control = wordSet("return if while for switch case else do throw new delete import from package use using")

func wordSet(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func wordAt(s string, i, n int) bool {
	return (i == 0 || !isWordByte(s[i-1])) && (i+n == len(s) || !isWordByte(s[i+n]))
}

func hasWord(s, word string) bool {
	for i := 0; word != ""; {
		n := strings.Index(s[i:], word)
		if n < 0 {
			return false
		}
		if i += n; wordAt(s, i, len(word)) {
			return true
		}
		i += len(word)
	}
	return false
}

// commentLines bounds how far up a comment is taken to belong to a symbol.
const commentLines = 200

// findSymbol finds the declarations of name, each with the comment and the
// attributes right above it, down to its closing line.
func findSymbol(lines []string, name, file string) []span {
	name = strings.TrimSpace(name)
	name = strings.TrimSuffix(name, "()")
	var out []span
	for i, l := range lines {
		from := i
		if !declares(l, name) {
			if !declaredOver(lines, i, name) {
				continue
			}
			from--
		}
		out = append(out, span{i + 1, above(lines, from) + 1, below(lines, i, file) + 1})
	}
	return out
}

// declaredOver reports whether line i is the second of a function of C written
// over three lines: the type, the name with its arguments, the brace.
func declaredOver(lines []string, i int, name string) bool {
	if i == 0 || i+1 >= len(lines) || len(name) >= len(lines[i]) || !strings.HasPrefix(lines[i], name+"(") || !strings.HasPrefix(lines[i+1], "{") {
		return false
	}
	before := lines[i-1]
	return before != "" && isWordByte(before[0]) && !strings.ContainsAny(before, ";{}()=")
}

// above returns the first line that belongs to the declaration in line i.
func above(lines []string, i int) int {
	first := i
	for first > 0 && i-first < commentLines {
		l := lines[first-1]
		if strings.HasSuffix(strings.TrimRight(l, " \t"), "*/") {
			open := first - 1
			for open > 0 && i-open < commentLines && !strings.Contains(lines[open], "/*") {
				open--
			}
			if !strings.Contains(lines[open], "/*") {
				break
			}
			first = open
			continue
		}
		if !strings.HasPrefix(l, "//") && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "@") &&
			!strings.HasPrefix(l, "--") && !strings.HasPrefix(l, ";") {
			break
		}
		first--
	}
	return first
}

// below returns the last line of the declaration in line i: lines that are
// indented or blank go on with it, as does one that begins with a bracket; a
// closing brace or "end" is its last.
func below(lines []string, i int, file string) int {
	last := i
	for j := i + 1; j < len(lines); j++ {
		l := lines[j]
		switch {
		case strings.TrimSpace(l) == "":
			continue
		case l[0] == ' ' || l[0] == '\t' || l[0] == ')' || l[0] == ']' || l[0] == '{':
			last = j
			continue
		case l[0] == '}':
			last = j
			if strings.Contains(l, "{") {
				continue
			}
			return last
		case l[0] == '#' && isC(file):
			continue
		case hasWord(l, "end") && strings.HasPrefix(l, "end"):
			return j
		}
		break
	}
	return last
}

func isC(file string) bool {
	for _, ext := range []string{".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp"} {
		if strings.HasSuffix(file, ext) {
			return true
		}
	}
	return false
}
