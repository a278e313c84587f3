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
	if s == "" || reserved[s] {
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

// reserved holds the words that bash's grammar takes for itself.
var reserved = map[string]bool{
	"if": true, "then": true, "else": true, "elif": true, "fi": true, "do": true, "done": true,
	"case": true, "esac": true, "while": true, "until": true, "for": true, "in": true,
	"function": true, "time": true, "select": true, "coproc": true,
	"{": true, "}": true, "!": true, "[[": true, "]]": true,
}
