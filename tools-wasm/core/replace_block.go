package main

import (
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// fileEdits are the edits of one file.
type fileEdits struct {
	path  string
	edits []guest.Edit
}

func replaceBlock(c *guest.Call) (guest.Result, error) {
	a := c.Args
	files, err := editsOf(c)
	if err != nil {
		return guest.Result{}, err
	}
	if err := checkPaths(a, "path"); err != nil {
		return guest.Result{}, err
	}
	if expected := a.Get("expected_sha256").TextOr(""); expected != "" {
		if err := checkDigest(c, files[0].path, expected); err != nil {
			return guest.Result{}, err
		}
	}
	dry := a.Get("dry_run").BoolOr(false)
	encoding := a.Get("encoding").TextOr("")
	if len(files) == 1 {
		head, _, fields, err := editFile(c, files[0], encoding)
		if err != nil {
			return guest.Result{}, err
		}
		return finish(c, head, dry, fields...)
	}
	// An error drops what was changed before it: all files, or none.
	head := "changed " + count(len(files), "file")
	var list []guest.Value
	done := map[string]bool{}
	for _, f := range files {
		one, change, fields, err := editFile(c, f, encoding)
		if err != nil {
			return guest.Result{}, err
		}
		if done[change.Path] {
			return guest.Result{}, guest.FailPath(guest.InvalidArguments, f.path, "the edits name this file in two ways, and each is to match it as it is now").
				WithNext("write its path the same way in all of them")
		}
		done[change.Path] = true
		head += "\n" + one
		list = append(list, guest.Object(fields...))
	}
	return finish(c, head, dry, guest.F("files", list))
}

// editFile makes the edits of one file, and says what came of it.
func editFile(c *guest.Call, f fileEdits, encoding string) (head string, change guest.Change, fields []guest.Field, err error) {
	change, err = c.EditIn(f.path, encoding, f.edits...)
	stripped := false
	if guest.CodeOf(err) == guest.NoMatch {
		// Perhaps the lines were pasted with the numbers that read_open shows.
		if again, ok := withoutNumbers(c, f.path, encoding, f.edits); ok {
			if second, err2 := c.EditIn(f.path, encoding, again...); err2 == nil {
				change, err, stripped = second, nil, true
			}
		}
	}
	if err != nil {
		return "", change, nil, err
	}
	head = "replaced " + count(change.Replacements, "place") + " in " + quoted(change.Path)
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
	fields = []guest.Field{
		guest.F("path", named(change.Path)), guest.F("replacements", change.Replacements), guest.F("lines", lines),
		guest.F("bytes", change.Bytes), guest.F("sha256", change.SHA256),
	}
	if change.CRLF {
		fields = append(fields, guest.F("line_ends", "CRLF"))
	}
	if change.Encoding != "" {
		fields = append(fields, guest.F("encoding", change.Encoding))
	}
	if stripped {
		fields = append(fields, guest.F("line_numbers_stripped", true))
	}
	return head, change, fields, nil
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

// editsOf reads the two forms of the arguments, of which exactly one is due, and
// gives the edits by file, in the order in which the files are named first.
func editsOf(c *guest.Call) ([]fileEdits, error) {
	a := c.Args
	list := a.Get("edits")
	path := a.Get("path").TextOr("")
	all := a.Get("replace_all").BoolOr(false)
	var faults []guest.Fault
	var files []fileEdits
	add := func(path string, e guest.Edit) {
		for i := range files {
			if files[i].path == path {
				files[i].edits = append(files[i].edits, e)
				return
			}
		}
		files = append(files, fileEdits{path, []guest.Edit{e}})
	}
	if list.Exists() {
		for _, key := range []string{"old", "new", "replace_all"} {
			if a.Get(key).Exists() {
				faults = append(faults, guest.Fault{Path: "$." + key, Text: "cannot stand beside edits"})
			}
		}
		if len(list.Items()) == 0 {
			faults = append(faults, guest.Fault{Path: "$.edits", Text: "is empty"})
		}
		for i, e := range list.Items() {
			at := e.Get("path").TextOr(path)
			if at == "" {
				faults = append(faults, guest.Fault{Path: "$.edits[" + itoa(i) + "].path", Text: "missing, but required without path"})
			}
			if err := checkPaths(e, "path"); err != nil {
				return nil, err
			}
			add(at, guest.Edit{Old: e.Get("old").TextOr(""), New: e.Get("new").TextOr("")})
		}
		if len(files) > 1 && a.Get("expected_sha256").Exists() {
			faults = append(faults, guest.Fault{Path: "$.expected_sha256", Text: "is for edits of one file"})
		}
	} else {
		for _, key := range []string{"path", "old", "new"} {
			if !a.Get(key).Exists() {
				faults = append(faults, guest.Fault{Path: "$." + key, Text: "missing, but required without edits"})
			}
		}
		add(path, guest.Edit{Old: a.Get("old").TextOr(""), New: a.Get("new").TextOr(""), All: all})
	}
	if faults != nil {
		return nil, c.Invalid(faults...)
	}
	for _, f := range files {
		for _, e := range f.edits {
			if e.Old == "" {
				return nil, guest.FailPath(guest.InvalidArguments, f.path, "old is empty, which occurs everywhere").
					WithNext("give the text to replace, or use write_file to create a file")
			}
		}
	}
	return files, nil
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
