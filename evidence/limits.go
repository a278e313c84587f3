package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// Bounds of one record. What is over them is cut, and the record says so: a
// text keeps its beginning, its length and its digest, a list its length.
const (
	maxName      = 256      // bytes of an id, a tool's name, a code
	maxText      = 1 << 10  // of a text among the arguments, a message, a path
	maxArguments = 16 << 10 // of the arguments together, after their texts were cut
	headArgs     = 4 << 10  // of arguments that stay over that
	maxHeadBytes = 2 << 10  // of each stream of output
	maxStreams   = 4        // streams of which the beginning is kept
	maxWrites    = 256      // names of a write set
	maxPaths     = 128
	maxHosts     = 32
	maxFunctions = 64
	maxFunction  = 64 // bytes of the name of one
	maxArtifacts = 32
	maxList      = 64 << 10 // of any list as it is written
	maxEvents    = 128      // of one call; decisions are always kept
)

// clean bounds a text: redacted, valid UTF-8, not longer than limit.
func (r *redactor) clean(s string, limit int) string {
	s = r.text(s)
	r.cut = r.cut || len(s) > limit
	return cut(s, limit)
}

// cut shortens s to limit bytes. It is called with redacted text only, so that
// the digest tells nothing about a secret.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return valid(s)
	}
	n := limit
	for n > 0 && !utf8.RuneStart(s[n]) && limit-n < utf8.UTFMax {
		n--
	}
	return fmt.Sprintf("%s… [cut: %d bytes, %s]", valid(s[:n]), len(s), tool.DigestOf([]byte(s)))
}

// valid shows bytes that are not UTF-8 as \xNN, where JSON would turn all of
// them into the same character.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// arguments returns raw redacted and bounded. What is no JSON is kept as a
// text.
func (r *redactor) arguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return encode(r.clean(string(raw), maxText))
	}
	p := encode(r.value(v))
	if len(p) <= maxArguments {
		return p
	}
	r.cut = true
	return encode(map[string]any{"cut": map[string]any{
		"bytes": len(p), "digest": tool.DigestOf(p), "head": valid(string(p[:headArgs])),
	}})
}

func (r *redactor) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.clean(v, maxText)
	case []any:
		r.list(v)
		for i := range v {
			v[i] = r.value(v[i])
		}
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range [...]string{"name", "key"} { // a header in a list of them
			if name, ok := v[key].(string); ok && (isSecretName(name) || isHeader(name)) && v["value"] != nil {
				v["value"] = r.memberValue("secret", v["value"])
			}
		}
		for name, member := range v {
			out[r.clean(name, maxName)] = r.memberValue(name, member)
		}
		return out
	case json.Number:
		// A number may be a value that was handed in.
		if s := r.text(v.String()); s != v.String() {
			return s
		}
		return v
	}
	return v
}

func (r *redactor) memberValue(name string, v any) any {
	if !isSecretName(name) {
		return r.value(v)
	}
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		if v == "" {
			return v
		}
	}
	r.hit = true
	return hidden
}

// encode writes v as one line of JSON. It is for values that can always be
// encoded.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte(`{"unencodable":true}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// jsonInside is s as it stands between the quotes of a JSON string.
func jsonInside(s string) string {
	p := encode(s)
	if len(p) < 2 {
		return s
	}
	return string(p[1 : len(p)-1])
}

// intentRecord is the line of an intent.
type intentRecord struct {
	Intent
	Redacted bool `json:"redacted,omitempty"`
	Cut      bool `json:"cut,omitempty"` // the arguments are not whole
}

// eventRecord is the line of an event.
type eventRecord struct {
	Event
	WritesTotal int `json:"writes_total,omitempty"` // if some were left out
}

// outcomeRecord is the line of an outcome.
type outcomeRecord struct {
	Outcome
	Streams []StreamHead `json:"streams,omitempty"`
	Events  int          `json:"events_dropped,omitempty"`

	// The lengths of lists of which some were left out.
	WritesTotal int `json:"writes_total,omitempty"`
	PathsTotal  int `json:"paths_total,omitempty"`
	HostsTotal  int `json:"hosts_total,omitempty"`
}

// StreamHead is the beginning of one stream of output.
type StreamHead struct {
	Stream string `json:"stream"`
	Bytes  int64  `json:"bytes"`
	Head   string `json:"head"` // redacted
}

func (r *redactor) intent(in Intent, k *key) intentRecord {
	for _, s := range []*string{&in.Call, &in.Turn, &in.Session, &in.Trace, &in.Principal, &in.Tool, &in.As, &in.From} {
		*s = r.clean(*s, maxName)
	}
	in.Source = tool.Source(cut(string(in.Source), maxName))
	in.Module, in.Definition = digest(in.Module), digest(in.Definition)
	was := r.hit
	r.hit, r.cut = false, false
	in.Arguments = r.arguments(in.Arguments)
	in.Input = digest(in.Input)
	if r.hit {
		in.Input = k.keyed(in.Input)
	}
	r.hit = r.hit || was
	return intentRecord{in, r.hit, r.cut}
}

func (r *redactor) event(e Event, k *key) eventRecord {
	e.Kind = EventKind(cut(string(e.Kind), maxName))
	e.Note = r.clean(e.Note, maxText)
	e.Stream = r.clean(e.Stream, maxName)
	if e.Artifact != nil {
		a := r.artifact(*e.Artifact, k)
		e.Artifact = &a
	}
	if e.Approval != nil {
		a := r.approval(*e.Approval, k)
		e.Approval = &a
	}
	rec := eventRecord{Event: e}
	rec.Writes, rec.WritesTotal = r.writes(e.Writes, k)
	return rec
}

func (r *redactor) outcome(o Outcome, k *key) outcomeRecord {
	o.Status = Status(cut(string(o.Status), maxName))
	o.Code = tool.Code(cut(string(o.Code), maxName))
	o.Refused = r.clean(o.Refused, maxName)
	o.Message = r.clean(o.Message, maxText)
	o.Approval = r.approval(o.Approval, k)
	rec := outcomeRecord{Outcome: o}
	rec.Used.Paths, rec.PathsTotal = r.names(o.Used.Paths, maxPaths)
	rec.Used.Hosts, rec.HostsTotal = r.names(o.Used.Hosts, maxHosts)
	if len(o.Used.ByFunction) > 0 {
		rec.Used.ByFunction = make(map[string]int64, min(len(o.Used.ByFunction), maxFunctions))
		for name, n := range o.Used.ByFunction {
			if len(rec.Used.ByFunction) < maxFunctions {
				rec.Used.ByFunction[r.clean(name, maxFunction)] += n
			}
		}
	}
	rec.Artifact, _ = bounded(o.Artifact, maxArtifacts, func(a Artifact) Artifact { return r.artifact(a, k) })
	rec.Writes, rec.WritesTotal = r.writes(o.Writes, k)
	rec.Output = r.digest(o.Output, k)
	if o.Sensitive && rec.Output == o.Output {
		rec.Output = k.keyed(digest(o.Output))
	}
	return rec
}

func (r *redactor) approval(a Approval, k *key) Approval {
	for _, s := range []*string{&a.Verdict, &a.By, &a.Channel, &a.Ticket, &a.Rule.Name} {
		*s = r.clean(*s, maxName)
	}
	for _, s := range []*string{&a.Rule.File, &a.Reason, &a.Saved} {
		*s = r.clean(*s, maxText)
	}
	a.Binding = r.digest(a.Binding, k)
	return a
}

func (r *redactor) artifact(a Artifact, k *key) Artifact {
	return Artifact{r.clean(a.Handle, maxName), r.clean(a.Title, maxText), a.Bytes, r.digest(a.Digest, k)}
}

func (r *redactor) writes(list []Write, k *key) (out []Write, total int) {
	return bounded(list, maxWrites, func(w Write) Write {
		return Write{
			Op: tool.WriteOp(cut(string(w.Op), maxName)), Path: r.clean(w.Path, maxText), From: r.clean(w.From, maxText),
			Before: r.digest(w.Before, k), After: r.digest(w.After, k), Size: w.Size,
		}
	})
}

func (r *redactor) names(list []string, limit int) (out []string, total int) {
	return bounded(list, limit, func(s string) string { return r.clean(s, maxText) })
}

// bounded cleans the beginning of a list. The total is 0 if that is all of it.
func bounded[T any](list []T, limit int, clean func(T) T) (out []T, total int) {
	size := 0
	for i, v := range list {
		c := clean(v)
		if size += len(encode(c)); i >= limit || size > maxList {
			return out, len(list)
		}
		out = append(out, c)
	}
	return out, 0
}

// digest is keyed once anything of the call was redacted: the content may hold
// what was taken out of the arguments.
func (r *redactor) digest(d tool.Digest, k *key) tool.Digest {
	if d = digest(d); r.hit {
		return k.keyed(d)
	}
	return d
}

// digest refuses what is none, so that no text travels in its place.
func digest(d tool.Digest) tool.Digest {
	name, hex, ok := strings.Cut(string(d), ":")
	if d == "" || ok && len(name) <= 16 && len(hex) <= 128 && !strings.ContainsFunc(string(d), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != ':'
	}) {
		return d
	}
	return "invalid:"
}
