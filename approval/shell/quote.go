package shell

import "strings"

// quote writes a word so that bash reads exactly these bytes and nothing else
// of them. Words of letters, digits and a few signs stay as they are.
func quote(s string) string {
	if plain(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plain reports whether bash takes s for a word as it is, wherever it stands.
func plain(s string) bool {
	if s == "" || reserved(s) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '/', c == '.', c == ':', c == '@', c == ',', c == '+', c == '-', c == '%':
		case c == '=' && s[0] == '-': // not an assignment
		default:
			return false
		}
	}
	return true
}

// reserved reports whether bash's grammar takes the word for itself.
func reserved(s string) bool {
	switch s {
	case "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until",
		"for", "in", "function", "time", "select", "coproc", "{", "}", "!", "[[", "]]":
		return true
	}
	return false
}
