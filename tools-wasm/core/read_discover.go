package main

import (
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// readDiscover lists a directory or locates names. The two modes have arguments
// of their own; one of the other mode is refused, not ignored.
func readDiscover(c *guest.Call) (guest.Result, error) {
	a := c.Args
	mode := a.Get("mode").TextOr("")
	var faults []guest.Fault
	foreign := func(keys ...string) {
		for _, k := range keys {
			if a.Get(k).Exists() {
				faults = append(faults, guest.Fault{Path: "$." + k, Text: `is not an argument of mode "` + mode + `"`})
			}
		}
	}
	switch mode {
	case "list":
		foreign("query", "root")
	case "locate":
		foreign("path")
		if a.Get("query").TextOr("") == "" {
			faults = append(faults, guest.Fault{Path: "$.query", Text: `missing, but required in mode "locate"`})
		}
	default:
		faults = append(faults, guest.Fault{Path: "$.mode", Text: `must be "list" or "locate"`})
	}
	if faults != nil {
		return guest.Result{}, c.Invalid(faults...)
	}
	if mode == "list" {
		return list(c)
	}
	return locate(c)
}

// place gives the host's form of the argument that names a directory: "/" is the
// root here.
func place(a guest.Value, key string) (string, error) {
	path := a.Get(key).TextOr("")
	if path == "/" || path == "" {
		path = "."
	}
	if err := checkText(a, "cursor", "query"); err != nil {
		return "", err
	}
	return path, checkPaths(a, key)
}

func list(c *guest.Call) (guest.Result, error) {
	path, err := place(c.Args, "path")
	if err != nil {
		return guest.Result{}, err
	}
	page, err := c.List(path, int(c.Args.Get("max_results").IntOr(0)), c.Args.Get("cursor").TextOr(""))
	if err != nil {
		return guest.Result{}, err
	}
	shown := strings.TrimSuffix(path, "/")
	text := guest.QuotePath(shown) + ": " + count(page.Total, "name")
	if page.Total == 0 {
		text = guest.QuotePath(shown) + ": empty directory"
	}
	return found(text, "", path, "", page.Entries, page.Total, false, page.Next, page.Skipped), nil
}

func locate(c *guest.Call) (guest.Result, error) {
	root, err := place(c.Args, "root")
	if err != nil {
		return guest.Result{}, err
	}
	query := c.Args.Get("query").TextOr("")
	q := guest.Query{
		Kind: "locate", Query: query, MaxResults: int(c.Args.Get("max_results").IntOr(0)),
		Cursor: c.Args.Get("cursor").TextOr(""),
	}
	if root != "." {
		q.Path = root
	}
	r, err := c.Search(q)
	if err != nil {
		return guest.Result{}, err
	}
	text, notice := matchesText(r.Total), ""
	if r.Total == 0 {
		text = "nothing is named like " + guest.QuotePath(query)
		if strings.ContainsAny(query, "*?[{") && !strings.Contains(query, "/") {
			notice = guest.QuotePath("**/"+query) + " looks in every directory"
		}
	} else if r.AtLeast {
		text = "at least " + text
	}
	if r.AtLeast {
		notice = "a limit ended the search before it had seen all; give a root that is nearer"
	}
	return found(text, notice, "", query, r.Entries, r.Total, r.AtLeast, r.Next, r.Skipped), nil
}

// found makes the answer of both modes. Text and structure are each complete.
func found(head, notice, path, query string, entries []guest.Info, total int64, atLeast bool, next string, skipped guest.Skipped) guest.Result {
	var text strings.Builder
	text.WriteString(head)
	if n := len(entries); int64(n) < total && n > 0 {
		text.WriteString(", " + itoa(n) + " shown")
	}
	if notice != "" {
		text.WriteString("; " + notice)
	}
	text.WriteByte('\n')
	list := make([]guest.Value, 0, len(entries))
	for _, e := range entries {
		text.WriteString(entryText(e))
		list = append(list, entryValue(e))
	}
	if next != "" {
		text.WriteString("[more: call again with cursor " + string(guest.String(next).JSON()) + "]\n")
	}
	text.WriteString(skippedText(skipped))

	r := guest.Text(text.String())
	fields := []guest.Field{}
	if path != "" {
		fields = append(fields, guest.F("path", path))
	}
	if query != "" {
		fields = append(fields, guest.F("query", query))
	}
	fields = append(fields, guest.F("entries", list), guest.F("total", total), guest.F("truncated", next != ""))
	if atLeast {
		fields = append(fields, guest.F("at_least", true))
	}
	if next != "" {
		fields = append(fields, guest.F("next", next))
	}
	if notice != "" {
		fields = append(fields, guest.F("notice", notice))
	}
	fields = append(fields, guest.F("skipped", skippedDetail(skipped)))
	r.Structured = guest.Object(fields...)
	return r
}

// entryText gives one line: path, kind, and what is worth knowing, tab between.
func entryText(e guest.Info) string {
	s := quoted(e.Path)
	if e.Secret != "" {
		if e.Type == guest.TypeDir {
			s += "/"
		}
		return s + "\t" + e.Type + "\tprotected: a secret (" + e.Secret + ")\n"
	}
	switch e.Type {
	case guest.TypeDir:
		s += "/\tdir"
	case guest.TypeLink:
		s += "\tlink"
		if e.Target != "" {
			s += " -> " + quoted(e.Target)
		}
	case guest.TypeFile:
		s += "\tfile\t" + itoa(e.Size)
	default:
		s += "\t" + e.Type + " (not a regular file)"
	}
	s += "\t" + stamp(e.MTime)
	if e.Outside {
		s += "\toutside the workspace"
	}
	if e.Ignored {
		s += "\tignored by git"
	}
	if e.Escaped {
		s += "\tname is not UTF-8, cannot be opened"
	}
	return s + "\n"
}

func entryValue(e guest.Info) guest.Value {
	f := []guest.Field{guest.F("path", named(e.Path)), guest.F("name", e.Name), guest.F("type", e.Type)}
	if e.Secret != "" {
		return guest.Object(append(f, guest.F("secret", e.Secret))...)
	}
	if e.Type == guest.TypeFile {
		f = append(f, guest.F("size", e.Size))
	}
	f = append(f, guest.F("mtime", stamp(e.MTime)))
	if e.Target != "" {
		f = append(f, guest.F("target", named(e.Target)))
	}
	if e.Outside {
		f = append(f, guest.F("outside", true))
	}
	if e.Ignored {
		f = append(f, guest.F("ignored", true))
	}
	if e.Escaped {
		f = append(f, guest.F("escaped", true))
	}
	return guest.Object(f...)
}
