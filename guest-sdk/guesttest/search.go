package guesttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func (a abi) Search(req []byte) int64 {
	a.Calls = append(a.Calls, "search")
	var q Request
	d := json.NewDecoder(bytes.NewReader(req))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return a.refuse(guest.Fail(guest.InvalidArguments, err.Error()))
	}
	find := a.Host.Search
	if find == nil {
		find = a.search
	}
	r, err := find(q)
	if err != nil {
		return a.refuse(err)
	}
	return a.answer(r)
}

// search is the plain loop: every line of every file in name order, files mode
// and locate by name too. Context is not given.
func (a abi) search(q Request) (Response, error) {
	var r Response
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	pattern := q.Pattern
	if q.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	if q.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return r, guest.Fail(guest.InvalidArguments, "the pattern is not a regular expression: "+err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		if q.Path != "" && name != q.Path && !strings.HasPrefix(name, q.Path+"/") {
			continue
		}
		if q.Kind == "locate" {
			if ok, _ := path.Match(q.Query, path.Base(name)); ok || strings.Contains(name, q.Query) {
				in, _ := a.info(name)
				r.Entries = append(r.Entries, in)
				r.Total++
			}
			continue
		}
		r.Scanned++
		before := r.Total
		for i, line := range strings.Split(strings.TrimSuffix(string(a.Files[name].Data), "\n"), "\n") {
			found := len(re.FindAllStringIndex(line, -1))
			if found == 0 {
				continue
			}
			switch q.Mode {
			case "content":
				if r.Total >= q.Offset && len(r.Lines) < limit {
					r.Lines = append(r.Lines, Line{Path: name, Line: i + 1, Text: line})
				}
				r.Total++
			default:
				r.Total += found
			}
		}
		if n := r.Total - before; n > 0 {
			r.TotalFiles++
			hit := FileHit{Path: name, MTime: a.Files[name].MTime}
			if q.Mode == "count" {
				hit.Count = n
			}
			if q.Mode != "content" && r.TotalFiles > q.Offset && len(r.Files) < limit {
				r.Files = append(r.Files, hit)
			}
		}
	}
	if q.Kind != "locate" && (q.Mode == "" || q.Mode == "files") {
		r.Total = r.TotalFiles
	}
	shown, all := len(r.Files), r.TotalFiles
	if q.Mode == "content" {
		shown, all = len(r.Lines), r.Total
	}
	if q.Kind != "locate" && q.Offset+shown < all {
		r.NextOffset = q.Offset + shown
	}
	return r, nil
}

// Diff gives one hunk per changed file, in name order.
func (a abi) Diff(limit int) int64 {
	a.Calls = append(a.Calls, "fs_diff")
	names := map[string]bool{}
	for n := range a.before {
		names[n] = true
	}
	for n := range a.Files {
		names[n] = true
	}
	var out strings.Builder
	for _, n := range slices.Sorted(maps.Keys(names)) {
		was, is := a.before[n], a.Files[n]
		switch {
		case was == nil:
			fmt.Fprintf(&out, "--- /dev/null\n+++ b/%s\n%s", n, marked("+", is.Data))
		case is == nil:
			fmt.Fprintf(&out, "--- a/%s\n+++ /dev/null\n%s", n, marked("-", was.Data))
		case !bytes.Equal(was.Data, is.Data):
			fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n%s%s", n, n, marked("-", was.Data), marked("+", is.Data))
		}
	}
	text := out.String()
	if len(text) > limit {
		text = text[:strings.LastIndexByte(text[:limit], '\n')+1] + "[diff cut]\n"
	}
	a.result = []byte(text)
	return int64(len(text))
}

func marked(sign string, data []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		out.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
	}
	return out.String()
}
