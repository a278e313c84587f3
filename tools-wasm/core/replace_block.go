package main

import (
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func replaceBlock(c *guest.Call) (guest.Result, error) {
	a := c.Args
	path := a.Get("path").TextOr("")
	edits, err := editsOf(c)
	if err != nil {
		return guest.Result{}, err
	}
	if err := checkPaths(a, "path"); err != nil {
		return guest.Result{}, err
	}
	if expected := a.Get("expected_sha256").TextOr(""); expected != "" {
		if err := checkDigest(c, path, expected); err != nil {
			return guest.Result{}, err
		}
	}
	encoding := a.Get("encoding").TextOr("")
	change, err := c.EditIn(path, encoding, edits...)
	stripped := false
	if guest.CodeOf(err) == guest.NoMatch {
		// Perhaps the lines were pasted with the numbers that read_open shows.
		if again, ok := withoutNumbers(c, path, encoding, edits); ok {
			if second, err2 := c.EditIn(path, encoding, again...); err2 == nil {
				change, err, stripped = second, nil, true
			}
		}
	}
	if err != nil {
		return guest.Result{}, err
	}
	head := "replaced " + count(change.Replacements, "place") + " in " + quoted(change.Path)
	if len(change.Lines) > 0 {
		head += ", now " + rangesText(change.Lines)
	}
	head += "; sha256 " + change.SHA256
	if change.CRLF {
		head += " (line ends of new written as CRLF, as in the file)"
	}
	if change.Encoding != "" {
		head += " (in " + change.Encoding + ", as the file is)"
	}
	if stripped {
		head += " (the line numbers before the pasted text were left out)"
	}
	var lines []guest.Value
	for _, l := range change.Lines[:min(len(change.Lines), 200)] {
		lines = append(lines, guest.Object(guest.F("start", l.Start), guest.F("end", l.End)))
	}
	d := []guest.Field{
		guest.F("path", named(change.Path)), guest.F("replacements", change.Replacements), guest.F("lines", lines),
		guest.F("bytes", change.Bytes), guest.F("sha256", change.SHA256),
	}
	if change.CRLF {
		d = append(d, guest.F("line_ends", "CRLF"))
	}
	if change.Encoding != "" {
		d = append(d, guest.F("encoding", change.Encoding))
	}
	if stripped {
		d = append(d, guest.F("line_numbers_stripped", true))
	}
	return finish(c, head, a.Get("dry_run").BoolOr(false), d...)
}

// rangesText says "line 3", or "lines 3-5, 9 and 4 more places".
func rangesText(lines []guest.LineRange) string {
	var parts []string
	for _, l := range lines[:min(len(lines), 10)] {
		s := itoa(l.Start)
		if l.End > l.Start {
			s += "-" + itoa(l.End)
		}
		parts = append(parts, s)
	}
	word := "lines "
	if len(lines) == 1 && lines[0].End <= lines[0].Start {
		word = "line "
	}
	s := word + strings.Join(parts, ", ")
	if more := len(lines) - len(parts); more > 0 {
		s += " and " + count(more, "more place")
	}
	return s
}

// editsOf reads the two forms of the arguments, of which exactly one is due.
func editsOf(c *guest.Call) ([]guest.Edit, error) {
	a := c.Args
	list := a.Get("edits")
	all := a.Get("replace_all").BoolOr(false)
	var faults []guest.Fault
	if list.Exists() {
		for _, key := range []string{"old", "new", "replace_all"} {
			if a.Get(key).Exists() {
				faults = append(faults, guest.Fault{Path: "$." + key, Text: "cannot stand beside edits"})
			}
		}
		if len(list.Items()) == 0 {
			faults = append(faults, guest.Fault{Path: "$.edits", Text: "is empty"})
		}
	} else {
		for _, key := range []string{"old", "new"} {
			if !a.Get(key).Exists() {
				faults = append(faults, guest.Fault{Path: "$." + key, Text: "missing, but required without edits"})
			}
		}
	}
	if faults != nil {
		return nil, c.Invalid(faults...)
	}
	edits := []guest.Edit{{Old: a.Get("old").TextOr(""), New: a.Get("new").TextOr(""), All: all}}
	if list.Exists() {
		edits = edits[:0]
		for _, e := range list.Items() {
			edits = append(edits, guest.Edit{Old: e.Get("old").TextOr(""), New: e.Get("new").TextOr("")})
		}
	}
	for _, e := range edits {
		if e.Old == "" {
			return nil, guest.FailPath(guest.InvalidArguments, a.Get("path").TextOr(""), "old is empty, which occurs everywhere").
				WithNext("give the text to replace, or use write_file to create a file")
		}
	}
	return edits, nil
}

// withoutNumbers strips the line numbers of read_open from the edits whose old
// text does not occur and has one on every line. It reports whether there was any.
func withoutNumbers(c *guest.Call, path, encoding string, edits []guest.Edit) ([]guest.Edit, bool) {
	text, err := readWhole(c, path, encoding)
	if err != nil {
		return nil, false
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	out := append([]guest.Edit(nil), edits...)
	any := false
	for i, e := range out {
		old, ok := stripNumbers(e.Old, true)
		if !ok || strings.Contains(text, strings.ReplaceAll(e.Old, "\r\n", "\n")) {
			continue
		}
		out[i].Old = old
		if with, ok := stripNumbers(e.New, false); ok {
			out[i].New = with
		}
		any = true
	}
	return out, any
}

// stripNumbers takes "N<TAB>" from the front of every line. It reports false,
// and changes nothing, unless every line has one and, in text that was pasted,
// the numbers go up by one.
func stripNumbers(s string, pasted bool) (string, bool) {
	if s == "" {
		return s, false
	}
	var out strings.Builder
	before := int64(-1)
	for rest := s; rest != ""; {
		line, after, more := strings.Cut(rest, "\n")
		number, text, ok := strings.Cut(line, "\t")
		n := parseNumber(number)
		if !ok || n < 1 || pasted && before >= 0 && n != before+1 {
			return s, false
		}
		before = n
		out.WriteString(text)
		if more {
			out.WriteByte('\n')
		}
		rest = after
	}
	return out.String(), true
}

// parseNumber reads up to 15 decimal digits, blanks before them; -1 for others.
func parseNumber(s string) int64 {
	s = strings.TrimLeft(s, " ")
	if s == "" || len(s) > 15 {
		return -1
	}
	n := int64(0)
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
