package main

import (
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func grep(c *guest.Call) (guest.Result, error) {
	a := c.Args
	q := guest.Query{
		Kind:       "grep",
		Pattern:    a.Get("pattern").TextOr(""),
		Path:       a.Get("path").TextOr(""),
		Glob:       a.Get("glob").TextOr(""),
		Mode:       a.Get("mode").TextOr("files"),
		IgnoreCase: a.Get("ignore_case").BoolOr(false),
		Literal:    a.Get("literal").BoolOr(false),
		Multiline:  a.Get("multiline").BoolOr(false),
		Context:    int(a.Get("context").IntOr(0)),
		Limit:      int(a.Get("limit").IntOr(0)),
		Offset:     int(a.Get("offset").IntOr(0)),
	}
	if q.Context > 0 && q.Mode != "content" {
		return guest.Result{}, c.Invalid(guest.Fault{Path: "$.context", Text: `is an argument of mode "content" only`})
	}
	if err := checkText(a, "pattern", "glob"); err != nil {
		return guest.Result{}, err
	}
	if err := checkOpenable(a, "path"); err != nil {
		return guest.Result{}, err
	}
	r, err := c.Search(q)
	if err != nil {
		if e, ok := err.(*guest.Error); ok && e.Code == guest.InvalidArguments && e.Next == "" {
			e.Next = "mend the pattern (RE2 syntax), or set literal to search for the text itself"
		}
		return guest.Result{}, err
	}
	if r.Total == 0 {
		return noMatch(q, r)
	}
	if q.Mode == "content" {
		return grepContent(c, q, r)
	}
	return grepFiles(q, r), nil
}

// noMatch answers a search that found nothing: no error, and what was searched.
// Where a limit ended the search, nobody knows whether there is a match, so that
// is an error with the way on.
func noMatch(q guest.Query, r guest.Found) (guest.Result, error) {
	text := "no match in " + count(r.Scanned, "file")
	if r.AtLeast {
		code := r.Ended
		if code == "" {
			code = guest.TooLarge
		}
		return guest.Result{}, guest.FailPath(code, q.Path, "a limit ended the search before it had seen all; "+text+" up to there").
			WithNext(searchLess).With(searchDetails(q, r, 0, 0)...)
	}
	if q.Path != "" {
		text += " below " + guest.QuotePath(q.Path)
	}
	text += "\n" + skippedText(r.Skipped)
	return guest.Text(text).WithDetails(searchDetails(q, r, 0, 0)...), nil
}

// searchLess is the way on from a search that a limit ended.
const searchLess = "search less: a nearer path, or a glob; of one huge file read parts with read_open and a range"

// endedText is the notice of an answer that is not all that there is.
func endedText(r guest.Found) string {
	if !r.AtLeast || r.Ended == "" {
		return ""
	}
	return "[a limit ended the search before it had seen all (" + string(r.Ended) + "); " + searchLess + "]\n"
}

// searchDetails gives what a program may want besides the text.
func searchDetails(q guest.Query, r guest.Found, shown int, next int64) []guest.Field {
	d := []guest.Field{
		guest.F("mode", q.Mode), guest.F("total", r.Total), guest.F("shown", shown),
		guest.F("truncated", next > 0), guest.F("scanned", r.Scanned),
	}
	if r.TotalFiles > 0 {
		d = append(d, guest.F("total_files", r.TotalFiles))
	}
	if r.AtLeast {
		d = append(d, guest.F("at_least", true))
	}
	if r.Ended != "" {
		d = append(d, guest.F("ended", string(r.Ended)))
	}
	if next > 0 {
		d = append(d, guest.F("next_offset", next))
	}
	return append(d, guest.F("skipped", skippedDetail(r.Skipped)))
}

// pastOffset answers an offset that is not below total, of what is counted.
func pastOffset(q guest.Query, total int64, counted string) error {
	return guest.Fail(guest.InvalidArguments, "offset "+itoa(q.Offset)+" is past the end of "+counted).
		WithNext("use an offset below " + itoa(total) + ", or none").With(guest.F("total", total))
}

// moreText is the notice of a page that is not the last.
func moreText(next int64) string {
	return "[more: call again with \"offset\":" + itoa(next) + "]\n"
}

// grepFiles answers the modes files and count: one file a line.
func grepFiles(q guest.Query, r guest.Found) guest.Result {
	total, least := r.Total, ""
	if q.Mode == "count" {
		total = r.TotalFiles
	}
	if len(r.Files) == 0 && q.Offset > 0 {
		return guest.ErrorResult(pastOffset(q, total, count(total, "file")))
	}
	if r.AtLeast {
		least = "at least "
	}
	head := count(total, "file")
	if q.Mode == "count" {
		head = matchesText(r.Total) + " in " + head
	}
	head = least + head
	next := r.NextOffset
	var body strings.Builder
	size, shown := 0, 0
	for _, f := range r.Files {
		l := quoted(f.Path)
		if q.Mode == "count" {
			l += ": " + itoa(f.Count)
		}
		l += fileNotes(f)
		l += "\n"
		if size += guest.TextLen(l); size > grepBytes-noticeRoom && shown > 0 {
			next = int64(q.Offset + shown)
			break
		}
		body.WriteString(l)
		shown++
	}
	if q.Offset > 0 || next > 0 {
		head += ", " + itoa(q.Offset+1) + "-" + itoa(q.Offset+shown) + " shown"
	}
	text := head + "\n" + body.String()
	if next > 0 {
		text += moreText(next)
	}
	return guest.Text(text + endedText(r) + skippedText(r.Skipped)).WithDetails(searchDetails(q, r, shown, next)...)
}

// grepContent answers the mode content. What counts as one match is the host's
// business, so a page that is too long is not cut here: the search is repeated
// with a lower limit until it fits, and the host says where to go on.
func grepContent(c *guest.Call, q guest.Query, r guest.Found) (guest.Result, error) {
	if len(r.Lines) == 0 && len(r.Files) == 0 && q.Offset > 0 {
		return guest.Result{}, pastOffset(q, r.Total, matchesText(r.Total))
	}
	for {
		body, matches, fits := contentText(r.Lines)
		if !fits && matches > 1 {
			q.Limit = min(max(fitting(r.Lines), 1), matches-1)
			again, err := c.Search(q)
			if err != nil {
				return guest.Result{}, err
			}
			if len(again.Lines) == 0 && len(again.Files) == 0 {
				// The files changed under the search; there is nothing left to show.
				return noMatch(q, again)
			}
			r = again
			continue
		}
		if !fits {
			body = oneMatch(r.Lines)
		}
		for _, f := range r.Files { // their lines cannot be shown
			body += quoted(f.Path) + ": " + matchesText(f.Count) + fileNotes(f) + "\n"
		}
		head := matchesText(r.Total)
		if r.AtLeast {
			head = "at least " + head
		}
		if r.TotalFiles > 0 {
			head += " in " + count(r.TotalFiles, "file")
		}
		if q.Offset > 0 || r.NextOffset > 0 {
			head += ", from match " + itoa(q.Offset+1)
		}
		text := head + "\n" + body
		due := r.Total - int64(q.Offset)
		if r.NextOffset > 0 {
			due = r.NextOffset - int64(q.Offset)
		}
		if missing := due - int64(matches); missing > 0 && len(r.Files) == 0 {
			text += "[" + matchesText(missing) + " not shown: the files changed, or could not be read again]\n"
		}
		if r.NextOffset > 0 {
			text += moreText(r.NextOffset)
		}
		text += endedText(r) + skippedText(r.Skipped)
		return guest.Text(text).WithDetails(searchDetails(q, r, matches, r.NextOffset)...), nil
	}
}

func matchesText(n int64) string {
	if n == 1 {
		return "1 match"
	}
	return itoa(n) + " matches"
}

func fileNotes(f guest.FileHit) string {
	s := ""
	if f.Binary {
		s += " (binary)"
	}
	if f.Escaped {
		s += " (name is not UTF-8, cannot be opened)"
	}
	return s
}

func lineText(l guest.Line) string {
	sep := ":"
	if l.Context {
		sep = "-"
	}
	s := quoted(l.Path) + sep + itoa(l.Line) + sep + " " + l.Text
	switch {
	case l.Unseen:
		s += " [line cut; its match is too long to be placed and may lie beyond this beginning]"
	case l.Cut:
		s += " [line cut]"
	}
	return s + "\n"
}

// contentText lays out lines; fits is false if they take more than a page.
func contentText(lines []guest.Line) (text string, matches int, fits bool) {
	var out strings.Builder
	size := 0
	for i, l := range lines {
		s := lineText(l)
		if l.Gap && i > 0 {
			s = "--\n" + s
		}
		out.WriteString(s)
		size += guest.TextLen(s)
		if !l.Context {
			matches++
		}
	}
	return out.String(), matches, size <= grepBytes-noticeRoom
}

// fitting returns how many matching lines from the first on fit on a page.
func fitting(lines []guest.Line) int {
	size, n := 0, 0
	for _, l := range lines {
		if size += guest.TextLen(lineText(l)) + 4; size > grepBytes-noticeRoom {
			break
		}
		if !l.Context {
			n++
		}
	}
	return n
}

// oneMatch shows the one match of a page that does not fit with its context:
// the matching line, cut if it must be.
func oneMatch(lines []guest.Line) string {
	for _, l := range lines {
		if l.Context {
			continue
		}
		s := strings.TrimSuffix(lineText(l), "\n")
		const room = grepBytes - noticeRoom - 100
		if guest.TextLen(s) > room {
			n, size := 0, 0
			for i, r := range s {
				if size += guest.TextLen(string(r)); size > room {
					break
				}
				n = i
			}
			s = s[:n] + " [line cut]"
		}
		return s + "\n[the context of this match is too long to show; open the file]\n"
	}
	return ""
}
