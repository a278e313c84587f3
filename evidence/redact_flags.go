package evidence

import "strings"

// userFlags hides what stands after the flags with which programs such as curl
// take a name and a password in one word:
//
//	-u me:pass  -ume:pass  -su 'me:pass'  --user me:pass  --user=me:pass  --proxy-user ...
//
// What holds no colon, only digits (uid:gid) or a format (+%H:%M) stays.
func (r *redactor) userFlags(s string) string {
	if !strings.Contains(s, "-") || !strings.Contains(s, ":") {
		return s
	}
	out := splice{s: s}
	for i := 0; i < len(s); {
		if s[i] != '-' || i > 0 && (isWord(s[i-1]) || s[i-1] == '-' || s[i-1] == '.') {
			i++
			continue
		}
		end := i
		for end < len(s) && (s[end] == '-' || isAlnum(s[end])) && end-i < 64 {
			end++
		}
		at := end
		switch flag := s[i:end]; {
		case isUserFlag(flag):
			if at < len(s) && s[at] == '=' {
				at++
			}
			for quotes := 0; quotes < 2 && at < len(s) && (s[at] == '"' || s[at] == '\'') && at+1 < len(s) && (s[at+1] == ' ' || s[at+1] == ','); quotes++ {
				at++ // the flag is in quotes itself
			}
			for at < len(s) && s[at] == ',' {
				at++
			}
			at = skipBlanks(s, at)
		case len(flag) > 2 && (flag[1] == 'u' || flag[1] == 'U'):
			at = i + 2
		default:
			i = max(end, i+1)
			continue
		}
		from, to := shellWord(s, at)
		if v := s[from:to]; hasPassword(v) && v != hidden {
			r.hit = true
			out.hide(from, to)
		}
		i = max(end, to, i+1) // a word is read once, whatever is in it
	}
	return out.text()
}

// isUserFlag reports whether a name and a password follow this flag: also a u at
// the end of several short ones.
func isUserFlag(flag string) bool {
	switch flag {
	case "--user", "--proxy-user", "--http-user", "--auth", "--creds", "--userpwd":
		return true
	}
	if len(flag) < 2 || len(flag) > 12 || flag[1] == '-' {
		return false
	}
	last := flag[len(flag)-1]
	return (last == 'u' || last == 'U') && !strings.Contains(flag[1:], "-")
}

// hasPassword reports whether v has the form name:password.
func hasPassword(v string) bool {
	name, pass, ok := strings.Cut(v, ":")
	if !ok || strings.Trim(pass, `"'\`) == "" || strings.HasPrefix(pass, "//") || strings.HasPrefix(v, "+") {
		return false
	}
	return strings.Trim(name, "0123456789") != "" || strings.Trim(pass, "0123456789") != ""
}

// shellWord is the word at i as a shell takes it, without the quotes around all
// of it.
func shellWord(s string, i int) (from, to int) {
	if i+1 < len(s) && (s[i:i+2] == `\"` || s[i:i+2] == `\'`) { // in a string of a string
		if n := strings.Index(s[i+2:], s[i:i+2]); n >= 0 {
			return i + 2, i + 2 + n
		}
		return i + 2, len(s)
	}
	if i < len(s) && (s[i] == '"' || s[i] == '\'') {
		if n := quoteEnd(s, i); n >= len(s) || !inWord(s[n]) && s[n] != '"' && s[n] != '\'' {
			return i + 1, max(i+1, n-1)
		}
	}
	for to = i; to < len(s); {
		switch b := s[to]; {
		case b == '"' || b == '\'':
			to = quoteEnd(s, to)
		case b == '\\':
			to = min(to+2, len(s))
		case !inWord(b):
			return i, to
		default:
			to++
		}
	}
	return i, to
}

// quoteEnd is behind the quote that ends the one at i.
func quoteEnd(s string, i int) int {
	q := s[i]
	for to := i + 1; to < len(s); to++ {
		switch {
		case s[to] == q:
			return to + 1
		case s[to] == '\\' && q == '"':
			to++
		}
	}
	return len(s)
}

// list hides among the words of a command what follows a flag that takes a
// secret: ["curl", "-u", "me:pass"], ["mysql", "--password", "x"]. A list of two
// may be a name and its value: ["Authorization", "x"].
func (r *redactor) list(words []any) {
	if len(words) == 2 {
		if name, ok := words[0].(string); ok && (isSecretName(name) || isHeader(name)) {
			words[1] = r.memberValue("secret", words[1])
			return
		}
	}
	for i := 1; i < len(words); i++ {
		flag, ok := words[i-1].(string)
		v, text := words[i].(string)
		if !ok || !text || v == "" || !strings.HasPrefix(flag, "-") {
			continue
		}
		if isUserFlag(flag) && hasPassword(v) || strings.HasPrefix(flag, "--") && isSecretName(flag[2:]) && v[0] != '-' {
			words[i], r.hit = hidden, true
		}
	}
}
