package evidence

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "[redacted]"

// redactor takes secrets out of texts. It is not safe for concurrent use.
type redactor struct {
	values []string // that were handed in, in all their spellings, longest first
	short  []string // those too short to look for inside other text
	hit    bool     // something was redacted
	cut    bool     // something was longer than it may be
}

// minValue is the shortest value that is looked for inside longer texts. A
// shorter one would blacken half of everything; it is hidden where it is a whole
// string.
const minValue = 4

func newRedactor(list []string) *redactor {
	r := &redactor{}
	r.add(list)
	return r
}

// add makes r hide the values of list too. Slices that r shares with another
// redactor stay as they are.
func (r *redactor) add(list []string) {
	r.values, r.short = slices.Clone(r.values), slices.Clone(r.short)
	for _, v := range list {
		switch {
		case v == "":
		case len(v) < minValue:
			r.short = append(r.short, v)
		default:
			r.values = append(r.values, spellings(v)...)
		}
	}
	if len(r.values) > 1 {
		// A value that contains another one must go first, or its rest stays.
		slices.SortFunc(r.values, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
		r.values = slices.Compact(r.values)
	}
}

// spellings are the forms in which a value travels in headers, URLs and JSON.
func spellings(v string) []string {
	list := []string{
		v,
		url.QueryEscape(v), url.PathEscape(v),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
	}
	if t := strings.TrimSpace(v); t != v && len(t) >= minValue {
		list = append(list, t)
	}
	if q := jsonInside(v); q != v {
		list = append(list, q)
	}
	return list
}

// text returns s without what the rules find.
func (r *redactor) text(s string) string {
	if s == "" {
		return s
	}
	was := r.hit
	r.hit = false
	for _, v := range r.short {
		if s == v {
			r.hit = true
			return hidden
		}
	}
	for _, v := range r.values {
		if strings.Contains(s, v) {
			s, r.hit = strings.ReplaceAll(s, v, hidden), true
		}
	}
	s = r.blocks(s)
	s = r.userinfo(s)
	s = r.tokens(s)
	s = r.assignments(s)
	r.hit = r.hit || was
	return s
}

// member returns the value of a member of an object, or of an environment:
// hidden whole if the name says that it is a secret.
func (r *redactor) member(name, value string) string {
	if value != "" && value != hidden && isSecretName(name) {
		r.hit = true
		return hidden
	}
	return r.text(value)
}

// blocks hides private keys in their armour, whole, also where the end is
// missing.
func (r *redactor) blocks(s string) string {
	const begin, end, kind = "-----BEGIN ", "-----END ", "PRIVATE KEY"
	if !strings.Contains(s, kind) {
		return s
	}
	var b strings.Builder
	for {
		at := -1
		for from := 0; ; {
			i := strings.Index(s[from:], begin)
			if i < 0 {
				break
			}
			i += from
			label, _, ok := strings.Cut(s[i+len(begin):min(len(s), i+len(begin)+64)], "-----")
			if ok && strings.Contains(label, kind) {
				at = i
				break
			}
			from = i + len(begin)
		}
		if at < 0 {
			break
		}
		r.hit = true
		b.WriteString(s[:at])
		b.WriteString(hidden)
		s = s[at+len(begin):]
		i := strings.Index(s, end)
		if i < 0 {
			s = ""
			break
		}
		s = s[i+len(end):]
		if i := strings.Index(s, "-----"); i >= 0 && i < 64 {
			s = s[i+5:]
		}
	}
	b.WriteString(s)
	return b.String()
}

// splice builds a text from another one with some spans hidden. A text is
// copied once, however many spans there are.
type splice struct {
	s    string
	b    strings.Builder
	done int // s[:done] is in b
}

func (p *splice) hide(from, to int) {
	p.b.WriteString(p.s[p.done:from])
	p.b.WriteString(hidden)
	p.done = to
}

func (p *splice) text() string {
	if p.done == 0 && p.b.Len() == 0 {
		return p.s
	}
	p.b.WriteString(p.s[p.done:])
	return p.b.String()
}

// userinfo hides what stands between "://" and "@" of a URL's authority.
func (r *redactor) userinfo(s string) string {
	out := splice{s: s}
	for from := 0; ; {
		i := strings.Index(s[from:], "://")
		if i < 0 {
			return out.text()
		}
		start := from + i + 3
		end := start
		for end < len(s) && s[end] > ' ' && !strings.ContainsRune("/?#\\\"'<>`{}|", rune(s[end])) {
			end++
		}
		from = end
		if at := strings.LastIndexByte(s[start:end], '@'); at > 0 && s[start:start+at] != hidden {
			r.hit = true
			out.hide(start, start+at)
		}
	}
}

// tokenForms are secrets that show by their own form: a prefix, and how many
// characters of a token follow at least.
var tokenForms = [...]struct {
	prefix string
	least  int
}{
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 20}, {"glpat-", 16},
	{"xoxb-", 10}, {"xoxp-", 10}, {"xoxa-", 10}, {"xoxr-", 10}, {"xoxs-", 10}, {"xapp-", 10},
	{"sk-", 20}, {"sk_live_", 10}, {"rk_live_", 10}, {"sk_test_", 10}, {"AKIA", 16}, {"ASIA", 16}, {"AIza", 30},
	{"npm_", 30}, {"pypi-", 30}, {"hf_", 25}, {"dop_v1_", 30}, {"SG.", 30}, {"eyJ", 30}, {"AGE-SECRET-KEY-1", 20},
}

// secondOfToken has, for each byte with which a form begins, those that follow.
var secondOfToken = [256]string{
	'g': "hil", 'x': "oa", 's': "k", 'r': "k", 'A': "KSIG", 'n': "p", 'p': "y", 'h': "f", 'd': "o", 'S': "G", 'e': "y",
}

func (r *redactor) tokens(s string) string {
	out := splice{s: s}
	for i := 0; i+12 < len(s); i++ {
		if second := secondOfToken[s[i]]; second == "" || strings.IndexByte(second, s[i+1]) < 0 || i > 0 && isWord(s[i-1]) {
			continue
		}
		for _, f := range tokenForms {
			if !strings.HasPrefix(s[i:], f.prefix) {
				continue
			}
			end := i + len(f.prefix)
			for end < len(s) && (isWord(s[end]) || s[end] == '-' || s[end] == '.' && (f.prefix == "eyJ" || f.prefix == "SG.")) {
				end++
			}
			if end-i-len(f.prefix) >= f.least {
				r.hit = true
				out.hide(i, end)
				i = end - 1
				break
			}
		}
	}
	return out.text()
}

// assignments hides values that stand beside a name that says secret:
//
//	NAME=value  NAME="a value"  "name": "value"  name: value (a whole line's)
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
	return literal(s, k, !spaced || lineStart(s, start))
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

// secretWords are the last words of names whose values are secrets, and
// secretPairs the last two.
var (
	secretWords = map[string]bool{
		"token": true, "password": true, "passwd": true, "passphrase": true, "pwd": true, "secret": true, "secrets": true,
		"authorization": true, "credential": true, "credentials": true, "cookie": true, "cookies": true, "apikey": true,
		"passcode": true, "privatekey": true, "accesskey": true, "secretkey": true, "authtoken": true, "accesstoken": true,
		"pass": true, "pgpassword": true, "otp": true,
	}
	secretPairs = map[[2]string]bool{
		{"api", "key"}: true, {"access", "key"}: true, {"private", "key"}: true, {"secret", "key"}: true,
		{"signing", "key"}: true, {"encryption", "key"}: true, {"auth", "key"}: true, {"master", "key"}: true,
		{"session", "key"}: true, {"shared", "key"}: true, {"account", "key"}: true,
	}
)

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
	return secretWords[words[1]] || secretPairs[words]
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
