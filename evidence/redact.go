package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "[redacted]"

// redactor takes secrets out of texts. It is not safe for concurrent use.
type redactor struct {
	values []string // that were handed in, in all their spellings, longest first
	inside []string // what longer base64 texts hold of them, see insides
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
	r.values, r.inside, r.short = slices.Clone(r.values), slices.Clone(r.inside), slices.Clone(r.short)
	for _, v := range list {
		switch {
		case v == "":
		case len(v) < minValue:
			r.short = append(r.short, v)
		default:
			r.values = append(r.values, spellings(v)...)
			r.inside = append(r.inside, insides(v)...)
		}
	}
	r.values, r.inside = longestFirst(r.values), longestFirst(r.inside)
}

// longestFirst sorts: a value that contains another one must go first, or its
// rest stays.
func longestFirst(list []string) []string {
	slices.SortFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(list)
}

// insides are the characters that base64 of a longer text has where v is in it,
// without those at both ends that depend on its neighbours too. V can begin at
// three places of a group of three bytes.
func insides(v string) []string {
	var list []string
	for before, shared := range []int{0, 2, 3} {
		text := append(make([]byte, before), v...)
		whole := len(text) * 8 / 6 // characters of which no bit is a neighbour's
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, enc.EncodeToString(text)[shared:whole])
		}
	}
	return list
}

// encoded hides values in longer base64 texts, with the characters at both ends
// that hold some bits of them.
func (r *redactor) encoded(s string) string {
	for _, v := range r.inside {
		if !strings.Contains(s, v) {
			continue
		}
		out := splice{s: s}
		for from := 0; ; {
			i := strings.Index(s[from:], v)
			if i < 0 {
				break
			}
			start, end := from+i, from+i+len(v)
			if start > out.done && isBase64(s[start-1]) {
				start--
			}
			if end < len(s) && isBase64(s[end]) {
				end++
			}
			out.hide(start, end)
			from = end
		}
		s, r.hit = out.text(), true
	}
	return s
}

func isBase64(b byte) bool { return isWord(b) || b == '+' || b == '/' || b == '-' }

// spellings are the forms in which a value travels in headers, URLs, JSON and
// dumps.
func spellings(v string) []string {
	digits := hex.EncodeToString([]byte(v))
	list := []string{
		v, digits, strings.ToUpper(digits), strings.ReplaceAll(jsonInside(v), "/", `\/`),
		url.QueryEscape(v), url.PathEscape(v), smallEscapes(url.QueryEscape(v)), smallEscapes(url.PathEscape(v)),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)),
	}
	if t := strings.TrimSpace(v); t != v && len(t) >= minValue {
		list = append(list, t)
	}
	if q := jsonInside(v); q != v {
		list = append(list, q)
	}
	if p, err := json.Marshal(v); err == nil { // with <, > and & as \u003c
		list = append(list, string(p[1:len(p)-1]))
	}
	return list
}

// smallEscapes writes the digits of %2F small.
func smallEscapes(s string) string {
	p := []byte(s)
	for i := 0; i+2 < len(p); i++ {
		if p[i] == '%' {
			copy(p[i+1:], bytes.ToLower(p[i+1:i+3]))
			i += 2
		}
	}
	return string(p)
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
	s = r.encoded(s)
	s = r.blocks(s)
	s = r.userinfo(s)
	s = r.userFlags(s)
	s = r.tokens(s)
	s = r.assignments(s)
	r.hit = r.hit || was
	return s
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
	{"npm_", 30}, {"pypi-", 30}, {"hf_", 25}, {"dop_v1_", 30}, {"SG.", 30}, {"eyJ", 30}, {"AGE-SECRET-KEY-1", 20}, {"ya29.", 20},
}

// secondOfToken has, for each byte with which a form begins, those that follow.
var secondOfToken = [256]string{
	'g': "hil", 'x': "oa", 's': "k", 'r': "k", 'A': "KSIG", 'n': "p", 'p': "y", 'h': "f", 'd': "o", 'S': "G", 'e': "y", 'y': "a",
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
