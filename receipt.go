package wasmtools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// How much text of one call a model is shown, in bytes of its JSON form. The
// tools that come with the library stay far below by themselves.
const (
	maxText = 64 << 10 // what is longer is archived, and a receipt is shown

	// maxUnarchived holds where the model could not read an artifact: no tool of
	// its list opens one, or none can be kept. Some whole output is then worth
	// more than none.
	maxUnarchived = 256 << 10

	// maxError is how many characters of a failed call are shown: clients cut
	// longer ones without a word (Claude Code near 11,000, so MCP shows as many).
	// What matters stands first, so the beginning stays before the receipt.
	maxError  = 8000
	errorHead = 4 << 10

	// shownEnds is how much is shown of both ends of a text that is shown neither
	// whole nor by a receipt.
	shownEnds = 1 << 10
)

// bounded is the result as it is shown: text that is too long is kept as an
// artifact, and a receipt stands in its place. Other blocks stay. What is marked
// sensitive is not kept.
func (t *Turn) bounded(p *prepared, r tool.Result) tool.Result {
	size := textSize(r.Content)
	if size <= maxError { // no limit is lower
		return r
	}
	readable := t.reads()
	text := ""
	switch keeps := readable && t.space.archive != nil; {
	case keeps && r.IsError:
		if text = r.PlainText(); size <= maxText && utf8.RuneCountInString(text) <= maxError {
			return r
		}
	case size <= maxText, !keeps && size <= maxUnarchived:
		return r
	default:
		text = r.PlainText()
	}
	about := tool.ArtifactInfo{Title: "the result of " + p.def.Name, MIMEType: "text/plain; charset=utf-8", Sensitive: r.Sensitive}
	ref, redacted, err := t.space.archive.put(t.scope(p), about, strings.NewReader(text))
	if err == nil {
		p.rec.kept(about, ref)
	}
	var shown string
	switch {
	case err == nil && readable:
		shown = receipt(p, r, ref, redacted)
		if r.IsError {
			shown = head(text, errorHead) + "\n" + shown
		}
	case err == nil:
		shown = ends(text, fmt.Sprintf("%d bytes are not shown; no tool here reads them, a person can: wasmtools artifacts export %s", len(text)-2*shownEnds, ref.Handle))
	default:
		shown = ends(text, fmt.Sprintf("%d bytes are not shown, and they are not kept: %s", len(text)-2*shownEnds, tool.AsError(err).Text))
		if cause := errors.Unwrap(err); cause != nil { // may name folders of the host
			t.rt.notice(fmt.Sprintf("the result of %s could not be kept: %v", p.def.Name, cause))
		}
	}
	r.Content = replaceText(r.Content, shown)
	r.Details = maps.Clone(r.Details)
	if r.Details == nil {
		r.Details = map[string]any{}
	}
	d := map[string]any{"bytes": len(text), "shown": "ends"}
	if err == nil {
		d["artifact"], d["stored"], d["lines"], d["sha256"] = scheme+ref.Handle, ref.Bytes, ref.Lines, string(ref.Digest)
		if ref.Dropped > 0 {
			d["dropped"] = ref.Dropped
		}
		if redacted {
			d["redacted"] = true
		}
		if readable {
			d["shown"] = "receipt"
		}
	}
	r.Details["archived"] = d
	return r
}

func (t *Turn) scope(p *prepared) artifact.Scope {
	return artifact.Scope{Session: t.rt.session, Call: p.inv.CallID, Tool: p.def.Name}
}

// reads reports whether the turn's list has a tool that opens artifacts.
func (t *Turn) reads() bool {
	it, ok := t.list.Lookup(readers[0])
	if !ok || it.State != catalog.Exposed {
		return false
	}
	_, ok = it.Tool.(archiveReader)
	return ok
}

// receipt tells what was kept and how to read it. A model that reads the whole
// in one call would be where it was before.
func receipt(p *prepared, r tool.Result, ref tool.ArtifactRef, redacted bool) string {
	name := scheme + ref.Handle
	var b strings.Builder
	fmt.Fprintf(&b, "[this result is too long to be shown; all of it is kept as an artifact]\ntool: %s\n", p.def.Name)
	if s := sourceOf(p.inv.Arguments); s != "" {
		fmt.Fprintf(&b, "source: %s\n", s)
	}
	if r.IsError {
		fmt.Fprintf(&b, "result: error %s\n", r.Code)
	}
	fmt.Fprintf(&b, "artifact: %s\nsize: %d bytes, %d lines, %s\n", name, ref.Bytes, ref.Lines, ref.Digest)
	if ref.Dropped > 0 {
		fmt.Fprintf(&b, "not kept: %d bytes at the end, over the limit of one artifact\n", ref.Dropped)
	}
	if redacted {
		b.WriteString("secrets in it are replaced by [redacted]\n")
	}
	fmt.Fprintf(&b, "next: search it first, with grep: {\"pattern\":\"...\",\"path\":%q,\"mode\":\"content\"}; then read the lines around a match, with read_open: ", name)
	if ref.LongestLine > artifact.LongLine {
		fmt.Fprintf(&b, "{\"path\":%q,\"selection\":{\"range\":{\"offset\":0,\"length\":16384}}} (by bytes: its longest line has %d characters)", name, ref.LongestLine)
	} else {
		fmt.Fprintf(&b, "{\"path\":%q,\"selection\":{\"lines\":{\"start\":1,\"end\":200}}}", name)
	}
	b.WriteString("; never all of it in one call. This receipt says nothing about what the result says.\n")
	fmt.Fprintf(&b, "(for a person: wasmtools artifacts export %s)\n", ref.Handle)
	return b.String()
}

// sourceOf is what a call was about, quoted and bounded.
func sourceOf(args json.RawMessage) string {
	const most = 256
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return ""
	}
	for _, name := range []string{"query", "url", "pattern", "path", "file_path"} {
		var v string
		if json.Unmarshal(members[name], &v) != nil || v == "" {
			continue
		}
		q, err := json.Marshal(strings.Join(strings.Fields(head(v, most)), " "))
		if err != nil || len(q) > most {
			return ""
		}
		return name + " " + string(q)
	}
	return ""
}

// ends is the beginning and the end of s around a notice.
func ends(s, notice string) string {
	return head(s, shownEnds) + "\n[" + notice + "]\n" + tail(s, shownEnds)
}

func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// replaceText puts one text in the place of all text blocks.
func replaceText(in []tool.Content, text string) []tool.Content {
	out := make([]tool.Content, 0, len(in))
	first := slices.IndexFunc(in, func(c tool.Content) bool { return c.Kind == tool.KindText })
	for i, c := range in {
		switch {
		case i == first:
			out = append(out, tool.Text(text))
		case c.Kind != tool.KindText:
			out = append(out, c)
		}
	}
	return out
}

// textSize is how many bytes the text blocks take in JSON, joined by line ends.
func textSize(in []tool.Content) int {
	n, blocks := 0, 0
	for _, c := range in {
		if c.Kind == tool.KindText {
			blocks++
			n += jsonSize(c.Text)
		}
	}
	return n + 2*max(0, blocks-1)
}

// jsonSize is the length of s in a JSON string, without the quotes, as the
// surfaces write it. An invalid byte is U+FFFD there.
func jsonSize(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			_, w := utf8.DecodeRuneInString(s[i:])
			n, i = n+max(w, 1), i+w
			if w == 1 {
				n += len("\uFFFD") - 1
			}
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n += 2
		case c < ' ':
			n += 6
		default:
			n++
		}
	}
	return n
}

// wholeDiff keeps the diff of a call that waits, of which the answer shows the
// beginning only, and returns how to read it: "" if it cannot be kept, or not
// read. A call that is repeated while it waits gets the same artifact.
func (t *Turn) wholeDiff(p *prepared, ticket *approval.Ticket) string {
	a, r := t.space.archive, ticket.Request()
	if a == nil || !t.reads() {
		return ""
	}
	a.mu.Lock()
	handle := a.diffs[r.Ticket]
	a.mu.Unlock()
	if handle == "" {
		about := tool.ArtifactInfo{Title: "the diff of " + p.def.Name, MIMEType: "text/x-diff; charset=utf-8", Sensitive: r.Preview.Result.Sensitive}
		ref, _, err := a.put(t.scope(p), about, strings.NewReader(r.Preview.Diff))
		if err != nil {
			return "" // a person sees it all the same
		}
		ticketRecord(ticket).kept(about, ref)
		handle = ref.Handle
		a.mu.Lock()
		if a.diffs == nil || len(a.diffs) >= maxDiffs {
			a.diffs = map[string]string{}
		}
		a.diffs[r.Ticket] = handle
		a.mu.Unlock()
	}
	return scheme + handle
}

// maxDiffs is of how many tickets it is remembered that their diff was kept.
const maxDiffs = 256
