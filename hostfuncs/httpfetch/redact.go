package httpfetch

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

const (
	// redacted stands where a secret was. It is not ASCII and secrets are, so
	// what stands around it can never join with it into a secret.
	redacted = "«redacted»"

	// minSecret is the least length of a secret that goes into a header. A
	// shorter one would occur in texts by chance, and could be guessed by having
	// a server echo candidates and watching which of them are withheld.
	minSecret = 8

	// maxSecret keeps one header line within what servers accept.
	maxSecret = 8 << 10

	// maxDecodings is how many layers of escapes redaction looks through, such
	// as JSON inside a JSON string.
	maxDecodings = 2
)

// redactor holds the secrets of one call: all that the grant names and that are
// set, sent or not, since a server can return what an earlier call sent it.
type redactor struct {
	values  map[string]string // by name
	errs    map[string]error
	needles [][]byte
}

// newRedactor reads each secret once; a change in the store while the call runs
// cannot bring in a value that is not known here.
func (c *Client) newRedactor(rules []rule) redactor {
	r := redactor{values: map[string]string{}, errs: map[string]error{}}
	for _, rule := range rules {
		for _, s := range rule.secrets {
			value, known := r.values[s.Secret]
			if !known {
				if r.errs[s.Secret] != nil {
					continue
				}
				var err error
				if value, err = c.secret(s.Secret); err != nil {
					r.errs[s.Secret] = err
					continue
				}
				r.values[s.Secret] = value
				r.add(value)
			}
			r.addBasic(s, value)
		}
	}
	// Unique, so that no text is searched twice for the same bytes.
	slices.SortFunc(r.needles, bytes.Compare)
	r.needles = slices.CompactFunc(r.needles, bytes.Equal)
	return r
}

// secret reads a value and refuses those that no header can carry. Its errors
// never hold the value, nor the text of the store's error.
func (c *Client) secret(name string) (string, error) {
	value, err := c.secrets(name)
	fail := func(why string) *tool.Error {
		return tool.Errorf(tool.NotAvailable, "secret %s, which the grant needs, %s", tool.QuotePath(name), why)
	}
	switch {
	case err != nil && tool.CodeOf(err) == tool.NotFound:
		return "", fail("is not set").WithNext("ask a person to set it: wasmtools secret set %s", tool.QuotePath(name))
	case err != nil:
		return "", fail("cannot be read").WithNext("ask a person to look at it: wasmtools secret list")
	case len(value) < minSecret || len(value) > maxSecret || !isVisible(value) || strings.TrimSpace(value) != value:
		return "", fail("cannot go into a header").
			WithNext("ask a person to set one of %d to %d printable ASCII characters", minSecret, maxSecret)
	}
	return value, nil
}

// value gives the header value for s.
func (r redactor) value(s SecretHeader) (string, error) {
	if err := r.errs[s.Secret]; err != nil {
		return "", err
	}
	return strings.Replace(s.format(), "%s", r.values[s.Secret], 1), nil
}

// add makes the needles of one value: itself, its hexadecimal forms, and the
// part of its base64 forms that does not depend on what stands before and
// behind it in the encoded text, for each of the three alignments.
func (r *redactor) add(value string) {
	r.needles = append(r.needles, []byte(value),
		[]byte(hex.EncodeToString([]byte(value))),
		[]byte(strings.ToUpper(hex.EncodeToString([]byte(value)))))
	if strings.Contains(value, " ") { // as forms write it
		r.needles = append(r.needles, []byte(strings.ReplaceAll(value, " ", "+")))
	}
	for shift := range 3 {
		padded := append(make([]byte, shift), value...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			s := enc.EncodeToString(padded)
			s = s[[3]int{0, 2, 3}[shift]:]
			if len(padded)%3 != 0 {
				s = s[:len(s)-1]
			}
			r.needles = append(r.needles, []byte(s))
		}
	}
}

// addBasic adds what a server sees once it has decoded basic authentication.
func (r *redactor) addBasic(s SecretHeader, value string) {
	line := strings.Replace(s.format(), "%s", value, 1)
	if len(line) < 6 || !strings.EqualFold(line[:6], "Basic ") {
		return
	}
	pair, err := base64.StdEncoding.DecodeString(line[6:])
	if err != nil || !isVisible(string(pair)) {
		return
	}
	if _, password, ok := strings.Cut(string(pair), ":"); ok && len(password) >= minSecret {
		r.add(password)
	} else if len(pair) >= minSecret {
		r.add(string(pair))
	}
}

func (r redactor) empty() bool { return len(r.needles) == 0 }

func (r redactor) text(s string) string {
	if r.empty() {
		return s
	}
	return string(r.bytes([]byte(s)))
}

func (r redactor) found(s string) bool { return len(r.spans([]byte(s))) > 0 }

// bytes replaces everything in text that shows a secret.
func (r redactor) bytes(text []byte) []byte {
	spans := r.spans(text)
	if len(spans) == 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	pos := 0
	for _, s := range spans {
		out = append(out, text[pos:s.start]...)
		out = append(out, redacted...)
		pos = s.end
	}
	return append(out, text[pos:]...)
}

type span struct{ start, end int }

// spans finds all places, sorted and without overlaps.
func (r redactor) spans(text []byte) []span {
	if r.empty() {
		return nil
	}
	var all []span
	r.search(text, nil, maxDecodings, &all)
	slices.SortFunc(all, func(a, b span) int { return a.start - b.start })
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && s.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, s.end)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// search looks for the needles in text, then in what text means once its
// escapes are decoded. back leads from text to the original, last step first.
func (r redactor) search(text []byte, back []origin, depth int, found *[]span) {
	original := func(place int) int {
		for i := len(back) - 1; i >= 0; i-- {
			place = back[i].of(place)
		}
		return place
	}
	for _, needle := range r.needles {
		run := -1 // the span that overlapping finds extend
		for pos := 0; ; pos++ {
			i := bytes.Index(text[pos:], needle)
			if i < 0 {
				break
			}
			pos += i
			s := span{original(pos), original(pos + len(needle))}
			if run >= 0 && s.start < (*found)[run].end {
				(*found)[run].end = s.end
				continue
			}
			run = len(*found)
			*found = append(*found, s)
		}
	}
	if depth == 0 {
		return
	}
	for _, d := range decodings {
		if bytes.IndexByte(text, d.mark) < 0 {
			continue
		}
		if plain, from := d.decode(text); len(from) > 0 {
			r.search(plain, append(back[:len(back):len(back)], from), depth-1, found)
		}
	}
}
