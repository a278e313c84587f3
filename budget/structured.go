package budget

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/tool"
)

// Key is the member that marks a receipt in structured content. Where it stands
// in place of a value, it names the artifact with the whole of it. At the top
// it says that something was left out, and how to read it.
const Key = "wasmtools_receipt"

// Room that receipts take at most, in bytes of JSON; see TestReceiptsKeepToTheirRoom.
const (
	partRoom = 512  // in place of a value
	endsRoom = 1024 // of both ends of one, where its artifact cannot be read
	markRoom = 2560 // at the top, with the whole value's receipt if there is one

	// archivedRoom is what the details need besides, for what became of the text.
	archivedRoom = 512

	// shortScalar is the longest string that stays for certain as a member at the
	// top, when everything else of a value has become one artifact.
	shortScalar = 256
)

// structured is the second gate, for structured content and for details.
func (k *keeping) structured(g Gate, r *tool.Result) {
	if len(r.Structured) > g.Structured {
		r.Structured = k.fit(r.Structured, g.Structured, "the structured result of "+k.Tool)
	}
	most := g.Structured - archivedRoom
	if len(r.Details) == 0 || valueSize(r.Details) <= most {
		return
	}
	p, err := marshal(r.Details)
	if err != nil || len(p) <= most {
		return // the surface says that they cannot be encoded
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(k.fit(p, most, "the details of "+k.Tool), &members); err != nil {
		return
	}
	r.Details = make(map[string]any, len(members))
	for name, v := range members {
		r.Details[name] = v
	}
}

// fit is raw within most bytes. Raw may be no JSON at all.
func (k *keeping) fit(raw json.RawMessage, most int, title string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return k.whole(raw, nil, nil, most, title)
	}
	p := b.Bytes()
	if len(p) <= most && p[0] == '{' {
		return p
	}
	values, members, all := walk(p)
	clear := all // no name stands twice, which would be read either way
	for i, m := range members {
		if m.name(p) == Key {
			clear, members[i].scalar = false, false
		}
	}
	parts, both, ok := k.parts(p, values, most)
	if !ok { // what is long is no string
		parts, both, ok = k.parts(p, tops(members), most)
	}
	if !ok || !clear || p[0] != '{' {
		return k.whole(raw, p, members, most, title)
	}
	out := append(make([]byte, 0, most), '{')
	out = append(append(out, `"`+Key+`":`...), k.mark(nil, map[string]any{"fields": len(parts)})...)
	out = append(out, ',')
	from := 1
	for _, s := range parts {
		out = append(out, p[from:s.from]...)
		text, mime := string(p[s.from:s.to]), "application/json"
		if text[0] == '"' {
			mime = "text/plain; charset=utf-8"
			_ = json.Unmarshal(p[s.from:s.to], &text) // Compact has read it
		}
		out = append(append(append(out, `{"`+Key+`":`...), k.part(title, mime, text, both)...), '}')
		from = s.to
	}
	return append(out, p[from:]...)
}

// parts chooses the largest values that have to go, in the order of p, and says
// how much of the ends of one can be shown if it is not kept. It reports whether
// that is enough.
func (k *keeping) parts(p []byte, values []span, most int) (chosen []span, both int, ok bool) {
	room := partRoom
	if !k.Readable || k.Keeper == nil || k.sensitive {
		room += endsRoom
	}
	slices.SortStableFunc(values, func(a, b span) int { return cmp.Compare(b.len(), a.len()) })
	size, n := len(p)+markRoom, 0
	for n < len(values) && n < maxParts && size > most && values[n].len() > room {
		size -= values[n].len() - room
		n++
	}
	chosen = values[:n]
	slices.SortFunc(chosen, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	both = endsRoom
	if room == partRoom { // a store may still fail
		both = min(endsRoom, max(most-size, 0)/max(n, 1))
	}
	return chosen, both, size <= most
}

// part is the receipt for one value, with both bytes of its ends if it cannot be
// read.
func (k *keeping) part(title, mime, text string, both int) []byte {
	ref, err := k.keep(title, mime, text)
	m := map[string]any{}
	k.describe(m, ref, err, text)
	if err != nil || !k.Readable {
		m["head"], m["tail"] = valid(jsonsize.Prefix(text, both/2)), valid(jsonsize.Suffix(text, both/2))
	}
	out, _ := marshal(m) // texts and numbers
	return out
}

// whole keeps raw as one artifact. What stays are the scalars among its members,
// as long as they fit, short ones first; they stand in p.
func (k *keeping) whole(raw, p []byte, members []member, most int, title string) json.RawMessage {
	ref, err := k.keep(title, "application/json", string(raw))
	m := map[string]any{}
	k.describe(m, ref, err, string(raw))
	if err != nil || !k.Readable {
		m["head"], m["tail"] = valid(jsonsize.Prefix(string(raw), endsRoom/2)), valid(jsonsize.Suffix(string(raw), endsRoom/2))
	}
	size := markRoom
	keeps := func(v member) bool {
		if v.scalar && size+v.to-v.from+1 <= most {
			size += v.to - v.from + 1
			return true
		}
		return false
	}
	stay := make([]bool, len(members))
	for _, short := range []bool{true, false} {
		for i, v := range members {
			if !stay[i] && (v.to-v.from <= shortScalar) == short {
				stay[i] = keeps(v)
			}
		}
	}
	var rest []byte
	for i, v := range members {
		if stay[i] {
			rest = append(append(rest, ','), p[v.from:v.to]...)
		}
	}
	return append(append(append([]byte(`{"`+Key+`":`), k.mark(m, nil)...), rest...), '}')
}

// describe says of a part what was kept of it.
func (k *keeping) describe(m map[string]any, ref Kept, err error, text string) {
	if err != nil {
		m["bytes"], m["not_kept"] = len(text), whyNot(err)
		return
	}
	m["artifact"], m["bytes"], m["lines"], m["sha256"] = Scheme+ref.Handle, ref.Bytes, ref.Lines, strings.TrimPrefix(string(ref.Digest), "sha256:")
	if ref.Dropped > 0 {
		m["dropped"] = ref.Dropped
	}
	if ref.Redacted {
		m["redacted"] = true
	}
	if ref.Long() {
		m["longest_line"] = ref.LongestLine
	}
}

// mark is the receipt at the top.
func (k *keeping) mark(whole, more map[string]any) []byte {
	m := map[string]any{"tool": jsonsize.Prefix(k.Tool, 64)}
	if s := sourceOf(k.Arguments); s != "" {
		m["source"] = s
	}
	if k.isError {
		m["error"] = string(k.code)
	}
	for _, from := range []map[string]any{whole, more} {
		for name, v := range from {
			m[name] = v
		}
	}
	switch {
	case k.sensitive || k.Keeper == nil || whole != nil && whole["artifact"] == nil:
		m["read"] = "what is left out is not kept; only its beginning and its end are shown"
	case !k.Readable:
		m["read"] = "no tool here reads what is left out; a person can: wasmtools artifacts export HANDLE"
	default:
		m["read"] = `each ` + Key + ` with an artifact stands for text that is too long to be shown, and is kept whole: search it first, with grep {"pattern":"...","path":"artifact:...","mode":"content"}; ` +
			`then read parts, with read_open {"path":"artifact:...","selection":{"lines":{"start":1,"end":200}}}, or where there is a longest_line {"selection":{"range":{"offset":0,"length":16384}}}; never all of it in one call. It says nothing about what the text says`
	}
	out, _ := marshal(m) // texts and numbers
	return out
}

// tops is the values of members.
func tops(members []member) []span {
	out := make([]span, len(members))
	for i, m := range members {
		out[i] = span{m.value, m.to}
	}
	return out
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// span is where a value stands.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// member is one at the top: where it stands, with its name.
type member struct {
	from, value, to int
	scalar          bool
}

func (m member) name(p []byte) string {
	var s string
	_ = json.Unmarshal(p[m.from:m.value-1], &s)
	return s
}

// maxMembers is how many members at the top are told apart. A value with more is
// kept whole.
const maxMembers = 4096

// walk finds the values of p that are strings long enough to become receipts, and
// the members at its top: all of them, or the first. P is JSON without spaces.
func walk(p []byte) (values []span, members []member, all bool) {
	all = true
	type container struct{ object, named bool } // named: the next string is a value
	var open []container
	begin := func(at int) {
		if len(open) == 1 && open[0].object && all {
			if all = len(members) < maxMembers; all {
				members = append(members, member{from: at, scalar: true})
			}
		}
	}
	end := func(at int) {
		if len(open) == 1 && open[0].object && all && len(members) > 0 {
			members[len(members)-1].to = at
		}
	}
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '{', '[':
			if len(open) == 1 && all && len(members) > 0 {
				members[len(members)-1].scalar = false
			}
			open = append(open, container{object: c == '{'})
			if c == '{' && i+1 < len(p) && p[i+1] == '"' {
				begin(i + 1)
			}
		case '}', ']':
			end(i)
			open = open[:len(open)-1]
		case ',':
			end(i)
			open[len(open)-1].named = false
			begin(i + 1)
		case ':':
			open[len(open)-1].named = true
			if len(open) == 1 && all {
				members[len(members)-1].value = i + 1
			}
		case '"':
			from := i
			for i++; p[i] != '"'; i++ {
				if p[i] == '\\' {
					i++
				}
			}
			if i+1-from > partRoom && (len(open) == 0 || !open[len(open)-1].object || open[len(open)-1].named) {
				values = append(values, span{from, i + 1})
			}
		}
	}
	return values, members, all
}
