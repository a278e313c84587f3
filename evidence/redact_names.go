package evidence

import "strings"

// assignments hides values that stand beside a name that says secret:
//
//	NAME=value  NAME="a value"  NAME = value  "name": "value"
//	name: value (a whole line's, or one that looks like no word)
//	--name value  Authorization: Bearer value  ?name=value&
//
// Code that only handles secrets (token := next()) stays, because its value is a
// call or no literal.
func (r *redactor) assignments(s string) string {
	if !mentionsSecret(s) {
		return s
	}
	out := splice{s: s}
	for i := 0; i < len(s); {
		if !isWord(s[i]) {
			i++
			continue
		}
		start := i
		for i < len(s) && (isWord(s[i]) || s[i] == '-' || s[i] == '.') {
			i++
		}
		name := s[start:i]
		if !isSecretName(name) && !strings.EqualFold(name, "bearer") {
			continue
		}
		if from, to := valueOf(s, start, i); from >= 0 && s[from:to] != hidden {
			r.hit = true
			out.hide(from, to)
			i = to
		}
	}
	return out.text()
}

// valueOf finds the value that belongs to the name s[start:end], or returns -1.
func valueOf(s string, start, end int) (from, to int) {
	name, i := s[start:end], end
	if strings.EqualFold(name, "bearer") {
		j := skipBlanks(s, i)
		if to := wordEnd(s, j); j > i && to-j >= 8 {
			return j, to
		}
		return -1, -1
	}
	var quote byte
	if start > 0 && i < len(s) && (s[start-1] == '"' || s[start-1] == '\'') && s[i] == s[start-1] {
		quote = s[i]
		i++
	} else if start > 1 && i+1 < len(s) && s[start-1] == '"' && s[i] == '\\' && s[i+1] == '"' {
		quote = '"' // JSON inside JSON
		i += 2
	}
	j := skipBlanks(s, i)
	spaced := j > i
	if j >= len(s) {
		return -1, -1
	}
	if s[j] != '=' && s[j] != ':' {
		// --name value
		if spaced && start >= 2 && s[start-2:start] == "--" && s[j] != '-' {
			return literal(s, j, true)
		}
		return -1, -1
	}
	colon := s[j] == ':'
	j++
	op := j
	for j < len(s) && (s[j] == '=' || s[j] == '>') { // :=, ==, =>
		j++
	}
	k := skipBlanks(s, j)
	spaced = spaced || k > j
	if k >= len(s) {
		return -1, -1
	}
	if colon && isHeader(name) && quote == 0 {
		// All of the header's value, up to the end of the line or of the string that
		// it stands in.
		to := k
		for to < len(s) && s[to] != '\n' && s[to] != '\r' && s[to] != '"' && s[to] != '\'' {
			to++
		}
		return k, to
	}
	if !spaced || lineStart(s, start) {
		return literal(s, k, true)
	}
	// In the middle of a line: NAME = value. Comparisons and := are code, and what
	// follows a colon may be prose.
	from, to = literal(s, k, op == j)
	if from == k && (to-from < minValue || colon && !looksRandom(s[from:to])) {
		return -1, -1
	}
	return from, to
}

// looksRandom tells values from words of a sentence.
func looksRandom(v string) bool {
	return len(v) >= 20 || strings.ContainsAny(v, "0123456789") || strings.ToLower(v) != v && strings.ToUpper(v[:1])+strings.ToLower(v[1:]) != v
}

// literal is the quoted or bare word at i. A bare one counts only if bare says
// so and it does not look like code.
func literal(s string, i int, bare bool) (from, to int) {
	if i+1 < len(s) && (s[i:i+2] == `\"` || s[i:i+2] == `\'`) { // inside another string
		n := strings.Index(s[i+2:], s[i:i+2])
		if n < 0 {
			n = len(s) - i - 2
		}
		if n == 0 {
			return -1, -1
		}
		return i + 2, i + 2 + n
	}
	if q := s[i]; q == '"' || q == '\'' || q == '`' {
		for to = i + 1; to < len(s) && s[to] != q; to++ {
			if s[to] == '\\' {
				to++
			}
		}
		to = min(to, len(s))
		if to == i+1 {
			return -1, -1
		}
		return i + 1, to
	}
	if !bare {
		return -1, -1
	}
	for to = i; to < len(s) && inWord(s[to]); to++ {
		if s[to] == '(' {
			return -1, -1 // a call
		}
	}
	w := strings.TrimRight(s[i:to], ",;)]}")
	if w == "" || w[0] == '$' || len(w) <= 9 && isTypeWord(strings.ToLower(w)) {
		return -1, -1 // nothing, a variable's name, or no value
	}
	return i, i + len(w)
}

func isTypeWord(w string) bool {
	switch w {
	case "string", "str", "none", "null", "nil", "true", "false", "undefined", "bool", "int", "number", "bytes", "any":
		return true
	}
	return false
}

// inWord reports whether b can stand in a bare value.
func inWord(b byte) bool {
	switch b {
	case '&', ';', '"', '\'', '`', '<', '>', '|':
		return false
	}
	return b > ' '
}

func wordEnd(s string, i int) int {
	for i < len(s) && inWord(s[i]) {
		i++
	}
	return i
}

func skipBlanks(s string, i int) int {
	for n := 0; i < len(s) && (s[i] == ' ' || s[i] == '\t') && n < 16; n++ {
		i++
	}
	return i
}

// lineStart reports whether only blanks, list marks and "export" stand before i
// in its line: then "name: value" and "name = value" are configuration.
func lineStart(s string, i int) bool {
	near := max(0, i-32) // more than any of these
	nl := strings.LastIndexByte(s[near:i], '\n')
	if nl < 0 && near > 0 {
		return false
	}
	before := s[near+nl+1 : i]
	before = strings.Trim(before, " \t-\"'")
	return before == "" || before == "export" || before == "set"
}

func isHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token", "private-token":
		return true
	}
	return false
}

func isWord(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}

// isSecretWord knows the last words of names whose values are secrets. (A switch
// and not a map, which would be made whenever the program starts.)
func isSecretWord(w string) bool {
	switch w {
	case "token", "password", "passwd", "passphrase", "pwd", "secret", "secrets", "authorization", "credential", "credentials", "cookie", "cookies",
		"apikey", "passcode", "privatekey", "accesskey", "secretkey", "authtoken", "accesstoken", "pass", "pgpassword", "otp":
		return true
	}
	return false
}

// isKeyWord knows what makes a secret of a key.
func isKeyWord(w string) bool {
	switch w {
	case "api", "access", "private", "secret", "signing", "encryption", "auth", "master", "session", "shared", "account":
		return true
	}
	return false
}

// isSecretName splits a name into words at '_', '-', '.' and capitals, and
// judges by the last ones: client_secret, apiKey and AWS_SECRET_ACCESS_KEY hold
// secrets; max_tokens, token_count and secret_ref do not.
func isSecretName(name string) bool {
	if len(name) < 3 || len(name) > 128 {
		return false
	}
	var words [2]string // the last two
	rest := name
	for n := 0; n < 2 && rest != ""; n++ {
		var w string
		w, rest = lastWord(rest)
		if n == 0 && (w == "value" || w == "header" || w == "text" || w == "string") {
			w, rest = lastWord(rest)
		}
		words[1-n] = w
	}
	return isSecretWord(words[1]) || words[1] == "key" && isKeyWord(words[0])
}

// lastWord cuts the last word off, in lower case.
func lastWord(s string) (word, rest string) {
	end := len(s)
	for end > 0 && !isAlnum(s[end-1]) {
		end--
	}
	start := end
	for start > 0 && isAlnum(s[start-1]) {
		start--
		// A capital after a small letter begins a word, and so does the last
		// capital of a run before a small letter.
		if start > 0 && isUpper(s[start]) &&
			(!isUpper(s[start-1]) && isAlnum(s[start-1]) || start+1 < end && !isUpper(s[start+1]) && isUpper(s[start-1])) {
			break
		}
	}
	return strings.ToLower(s[start:end]), s[:start]
}

func isAlnum(b byte) bool { return isWord(b) && b != '_' }
func isUpper(b byte) bool { return 'A' <= b && b <= 'Z' }

// mentionsSecret is the cheap look before the dear one: whether any of the
// words can occur at all. A name needs one of these.
func mentionsSecret(s string) bool {
	for i := 0; i+2 < len(s); i++ {
		var tails []string
		switch s[i] | 0x20 {
		case 't':
			tails = []string{"oken"}
		case 'p':
			tails = []string{"ass", "wd"}
		case 's':
			tails = []string{"ecret"}
		case 'a':
			tails = []string{"uthorization"}
		case 'c':
			tails = []string{"redential", "ookie"}
		case 'k':
			tails = []string{"ey"}
		case 'b':
			tails = []string{"earer"}
		case 'o':
			tails = []string{"tp"}
		default:
			continue
		}
		for _, t := range tails {
			if len(s)-i-1 >= len(t) && strings.EqualFold(s[i+1:i+1+len(t)], t) {
				return true
			}
		}
	}
	return false
}
