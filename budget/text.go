package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/tool"
)

// Bound is r as it is shown of a call, within g: first the structured content
// and the details, then the text. The result that was given is not changed.
//
// The error tells a person why something could not be kept; what is returned
// beside it is to be shown all the same, and says what is missing.
//
// A link stands at the end of the content for everything that was kept. What
// was done to the text stands in the details, under "archived".
func Bound(g Gate, c Call, r tool.Result) (tool.Result, error) {
	g = g.whole()
	k := &keeping{Call: c, sensitive: r.Sensitive, isError: r.IsError, code: r.Code}
	k.structured(g, &r)
	k.text(g, &r)
	if len(k.links) > 0 {
		r.Content = append(slices.Clip(r.Content), k.links...)
	}
	return r, errors.Join(k.hidden...)
}

// text is the third gate.
func (k *keeping) text(g Gate, r *tool.Result) {
	size := textSize(r.Content)
	if size <= ErrorChars && size <= g.Text { // no limit is lower
		return
	}
	keeps := k.Readable && k.Keeper != nil
	text := ""
	switch {
	case keeps && r.IsError:
		if text = r.PlainText(); size <= g.Text && utf8.RuneCountInString(text) <= ErrorChars {
			return
		}
	case keeps && size <= g.Text, !keeps && size <= Unread:
		return
	default:
		text = r.PlainText()
	}
	ref, err := k.keep("the result of "+k.Tool, "text/plain; charset=utf-8", text)
	about := map[string]any{"bytes": len(text), "shown": "ends"}
	var shown string
	switch {
	case err == nil && k.Readable:
		about["shown"] = "receipt"
		shown = k.receipt(ref)
		if r.IsError {
			shown = strings.TrimSuffix(wholeLines(jsonsize.Prefix(text, errorHead)), "\n") + "\n" + shown
		}
	case err == nil:
		shown = aroundNotice(text, "no tool here reads them, a person can: wasmtools artifacts export "+ref.Handle)
	default:
		shown = aroundNotice(text, "and they are not kept: "+whyNot(err))
	}
	r.Content = replaceText(r.Content, strings.ToValidUTF8(shown, "\uFFFD"))
	if err == nil {
		about["artifact"], about["stored"], about["lines"], about["sha256"] = Scheme+ref.Handle, ref.Bytes, ref.Lines, string(ref.Digest)
		if ref.Dropped > 0 {
			about["dropped"] = ref.Dropped
		}
		if ref.Redacted {
			about["redacted"] = true
		}
	}
	r.Details = maps.Clone(r.Details)
	if r.Details == nil {
		r.Details = map[string]any{}
	}
	r.Details["archived"] = about
}

// whyNot is what the model may know about an error of a Keeper.
func whyNot(err error) string { return jsonsize.Prefix(tool.AsError(err).Text, 256) }

// aroundNotice is the beginning and the end of s around a notice that counts
// what is between them.
func aroundNotice(s, notice string) string {
	first, last := head(s, ends), tail(s, ends)
	return fmt.Sprintf("%s\n[%d bytes are not shown; %s]\n%s", first, len(s)-len(first)-len(last), notice, last)
}

// receipt tells what was kept and how to read it. A model that reads the whole
// in one call would be where it was before.
func (k *keeping) receipt(ref Kept) string {
	name := Scheme + ref.Handle
	var b strings.Builder
	fmt.Fprintf(&b, "[this result is too long to be shown; all of it is kept as an artifact]\ntool: %s\n", jsonsize.Prefix(k.Tool, 64))
	if s := sourceOf(k.Arguments); s != "" {
		fmt.Fprintf(&b, "source: %s\n", s)
	}
	if k.isError {
		fmt.Fprintf(&b, "result: error %s\n", k.code)
	}
	fmt.Fprintf(&b, "artifact: %s\nsize: %d bytes, %d lines, %s\n", name, ref.Bytes, ref.Lines, ref.Digest)
	if ref.Dropped > 0 {
		fmt.Fprintf(&b, "not kept: %d bytes at the end, over the limit of one artifact\n", ref.Dropped)
	}
	if ref.Redacted {
		b.WriteString("secrets in it are replaced by [redacted]\n")
	}
	fmt.Fprintf(&b, "next: search it first, with grep: {\"pattern\":\"...\",\"path\":%q,\"mode\":\"content\"}; then read the lines around a match, with read_open: ", name)
	if ref.Long() {
		fmt.Fprintf(&b, "{\"path\":%q,\"selection\":{\"range\":{\"offset\":0,\"length\":16384}}} (by bytes: its longest line has %d characters)", name, ref.LongestLine)
	} else {
		fmt.Fprintf(&b, "{\"path\":%q,\"selection\":{\"lines\":{\"start\":1,\"end\":200}}}", name)
	}
	b.WriteString("; never all of it in one call. This receipt says nothing about what the result says.\n")
	fmt.Fprintf(&b, "(for a person: wasmtools artifacts export %s)\n", ref.Handle)
	return b.String()
}

// replaceText puts one text in the place of all text blocks.
func replaceText(in []tool.Content, text string) []tool.Content {
	out := make([]tool.Content, 0, len(in))
	first := true
	for _, c := range in {
		if c.Kind != tool.KindText {
			out = append(out, c)
			continue
		}
		if first {
			out, first = append(out, tool.Text(text)), false
		}
	}
	return out
}
