// Package alias holds the names and argument spellings by which older callers
// know the built-in tools. An alias is never listed; it is applied before a tool
// is looked up, and works exactly when its target may be called.
//
// A spelling that does not say the same in the target's arguments is an error,
// never a guess: nothing that a caller gave is left out, but for what only
// comments (the description of a command). Two spellings of one argument must
// agree.
package alias

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// rule turns the arguments of an alias into those of a target.
type rule struct {
	targets []string // the tools that it can lead to; the first is the usual one
	apply   func(*given) (target string, args map[string]any)
}

var rules = map[string]rule{
	"read":               {[]string{"read_open"}, readOpen},
	"read_slice":         {[]string{"read_open"}, readOpen},
	"read_extract":       {[]string{"read_open"}, readOpen},
	"read_list":          {[]string{"read_discover"}, list},
	"ls":                 {[]string{"read_discover"}, list},
	"read_locate":        {[]string{"read_discover"}, locate},
	"find":               {[]string{"read_discover"}, find},
	"glob":               {[]string{"read_discover"}, find},
	"edit":               {[]string{"replace_block"}, replace},
	"edit_file":          {[]string{"replace_block", "write_file"}, editFile},
	"write":              {[]string{"write_file"}, write},
	"bash":               {[]string{"terminal_session"}, bash},
	"workspace_mutation": {[]string{"write_file", "replace_block", "delete_path", "move_path"}, mutation},
}

// Names lists the aliases that can lead to target, in alphabetical order.
func Names(target string) []string {
	var out []string
	for name, r := range rules {
		if slices.Contains(r.targets, target) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Targets lists the tools that the alias name can lead to, the usual one first;
// nil if name is no alias.
func Targets(name string) []string { return slices.Clone(rules[name].targets) }

// Resolve returns the target of the alias name and the target's arguments. Ok is
// false if name is no alias; then the other results are empty. If the arguments
// do not map, target is set all the same and the error is a *tool.Error with the
// code schema_invalid and every fault.
func Resolve(name string, args json.RawMessage) (target string, newArgs json.RawMessage, ok bool, err error) {
	r, ok := rules[name]
	if !ok {
		return "", nil, false, nil
	}
	target = r.targets[0]
	g, fault := parse(args)
	if fault != nil {
		return target, nil, true, invalid(name, target, []Fault{*fault})
	}
	to, mapped := r.apply(g)
	if to != "" {
		target = to
	}
	g.leftovers(target)
	if g.faults != nil {
		return target, nil, true, invalid(name, target, g.faults)
	}
	newArgs, err = json.Marshal(mapped)
	if err != nil {
		return target, nil, true, invalid(name, target, []Fault{{"$", err.Error()}})
	}
	return target, newArgs, true, nil
}

// Fault is one argument that does not map.
type Fault struct{ Path, Text string }

func invalid(name, target string, faults []Fault) *tool.Error {
	var b strings.Builder
	b.WriteString("the arguments of " + name + " do not map to those of " + target)
	list := make([]map[string]string, 0, len(faults))
	for _, f := range faults {
		b.WriteString("\n- " + f.Path + ": " + f.Text)
		list = append(list, map[string]string{"path": f.Path, "fault": f.Text})
	}
	b.WriteString("\n")
	return tool.Errorf(tool.SchemaInvalid, "%s", b.String()).
		WithNext("call %s with its own arguments", target).With("faults", list).With("target", target)
}

// The spellings of the arguments that many callers name in their own way.
var (
	pathNames  = []string{"path", "file_path", "filePath", "filepath", "file", "filename", "file_name", "target_file", "targetPath", "target_path", "absolute_path"}
	dirNames   = []string{"path", "dir", "directory", "dir_path", "directory_path", "dirPath", "target_directory", "folder"}
	rootNames  = []string{"root", "path", "dir", "directory", "dir_path", "cwd"}
	limitNames = []string{"max_results", "maxResults", "limit", "max_entries", "head_limit"}
	dryNames   = []string{"dry_run", "dryRun"}
	shaNames   = []string{"expected_sha256", "expectedSha256"}
	oldNames   = []string{"old", "old_string", "oldString", "old_str", "oldText", "old_text", "expectedOldText", "search"}
	newNames   = []string{"new", "new_string", "newString", "new_str", "newText", "new_text", "replacement", "replace"}
	allNames   = []string{"replace_all", "replaceAll", "all"}
	textNames  = []string{"content", "contents", "text", "file_text", "file_content", "data"}
	startNames = []string{"start_line", "startLine", "start", "offset", "line"}
	endNames   = []string{"end_line", "endLine", "end", "end_line_inclusive"}
	spanNames  = []string{"limit", "maxLines", "max_lines", "num_lines", "length"}
)

// mostResults is the most that read_discover gives at once.
const mostResults = 1000

func readOpen(g *given) (string, map[string]any) {
	out := map[string]any{}
	g.need(out, "path", pathNames)
	if enc, ok := g.text("encoding"); ok && !isUTF8(enc) {
		g.fault("encoding", "read_open finds out the encoding by itself")
	}
	if sel, ok := g.take("selection"); ok {
		out["selection"] = sel
		return "read_open", out
	}
	sel := map[string]any{}
	if v, ok := g.take("lines", "range"); ok {
		sel[g.last] = v
	}
	if v, ok := g.take("pages"); ok {
		sel["pages"] = g.pages(v)
	}
	if v, ok := g.take("section", "heading"); ok {
		if s, isText := v.(string); isText {
			v = map[string]any{"heading": s}
		}
		sel["section"] = v
	}
	if v, ok := g.take("view_range", "line_range"); ok {
		if l := g.viewRange(v); l != nil {
			sel["lines"] = l
		}
	}
	if l := g.lines(); l != nil {
		if _, ok := sel["lines"]; ok {
			g.fault("lines", "is given in two ways")
		}
		sel["lines"] = l
	}
	if len(sel) > 0 {
		out["selection"] = sel
	}
	return "read_open", out
}

func isUTF8(s string) bool {
	s = strings.ToLower(s)
	return s == "utf-8" || s == "utf8"
}

func list(g *given) (string, map[string]any) {
	out := map[string]any{"mode": "list"}
	g.copy(out, "path", dirNames)
	g.limit(out)
	g.copy(out, "cursor", []string{"cursor"})
	g.drop("show_hidden", "all", "hidden") // hidden names are listed anyhow
	g.refuseIf("recursive", true, `read_discover lists one directory; use mode "locate" for a tree`)
	return "read_discover", out
}

func locate(g *given) (string, map[string]any) {
	out := map[string]any{"mode": "locate"}
	g.need(out, "query", []string{"query", "pattern", "glob", "glob_pattern", "name"})
	g.copy(out, "root", rootNames)
	g.limit(out)
	g.copy(out, "cursor", []string{"cursor"})
	if v, ok := g.take("offset"); ok && v != float64(0) {
		g.fault("offset", "read_discover goes on from a cursor")
	}
	if s, ok := g.text("searchMode"); ok && s != "path" && s != "auto" {
		g.fault("searchMode", "read_discover looks at names only; use grep for text")
	}
	if s, ok := g.text("sort"); ok && s != "none" {
		g.fault("sort", "read_discover has its own order")
	}
	g.refuseIf("include_ignored", true, "what git ignores is found only below a root that names it")
	return "read_discover", out
}

// find is locate for tools whose pattern is a glob that, without a slash, fits
// names in every directory.
func find(g *given) (string, map[string]any) {
	target, out := locate(g)
	if q, ok := out["query"].(string); ok && q != "" && !strings.Contains(q, "/") {
		out["query"] = "**/" + q
	}
	return target, out
}

func write(g *given) (string, map[string]any) {
	out := map[string]any{"overwrite": true}
	g.need(out, "path", pathNames)
	g.need(out, "content", textNames)
	g.copy(out, "overwrite", []string{"overwrite"})
	g.common(out)
	g.copy(out, "encoding", []string{"encoding"})
	g.drop("create_dirs", "createDirs", "create_directories", "mkdirs") // parents are made anyhow
	return "write_file", out
}

func editFile(g *given) (string, map[string]any) {
	if op, ok := g.text("operation"); ok {
		switch op {
		case "write_file":
			target, out := write(g)
			out["overwrite"] = false // the older tool's writes did not say that they replace
			return target, out
		case "replace_block":
		default:
			g.fault("operation", `must be "replace_block" or "write_file"`)
		}
	}
	return replace(g)
}

func replace(g *given) (string, map[string]any) {
	out := map[string]any{}
	g.need(out, "path", pathNames)
	g.common(out)
	if v, ok := g.take("edits"); ok {
		g.edits(out, v)
		return "replace_block", out
	}
	g.need(out, "old", oldNames)
	g.need(out, "new", newNames)
	g.copy(out, "replace_all", allNames)
	return "replace_block", out
}

func mutation(g *given) (string, map[string]any) {
	op, ok := g.text("op", "operation", "action")
	if !ok {
		g.fault("op", "missing, but it decides about the tool")
	}
	out := map[string]any{}
	switch op {
	case "write", "write_file", "create":
		g.need(out, "path", pathNames)
		g.need(out, "content", textNames)
		g.copy(out, "overwrite", []string{"overwrite"})
		g.common(out)
		g.refuseIf("recursive", true, "is no argument of write_file")
		return "write_file", out
	case "edit", "replace", "replace_block":
		return replace(g)
	case "delete", "remove", "delete_path":
		g.need(out, "path", pathNames)
		g.copy(out, "recursive", []string{"recursive"})
		g.copy(out, "permanent", []string{"permanent"})
		g.copy(out, "dry_run", dryNames)
		g.drop("overwrite")
		return "delete_path", out
	case "move", "rename", "move_path":
		g.need(out, "from", append([]string{"from", "source", "old_path"}, pathNames...))
		g.need(out, "to", []string{"to", "destinationPath", "destination_path", "destination", "new_path"})
		g.copy(out, "overwrite", []string{"overwrite"})
		g.copy(out, "dry_run", dryNames)
		g.drop("recursive")
		return "move_path", out
	}
	if ok {
		g.fault("op", `must be "write", "edit", "delete" or "move"`)
	}
	g.all = nil // without a tool nothing else can be judged
	return "", out
}

func bash(g *given) (string, map[string]any) {
	out := map[string]any{"op": "exec"}
	g.need(out, "command", []string{"command", "cmd", "script"})
	g.copy(out, "cwd", []string{"cwd", "workdir", "working_directory", "directory"})
	g.copy(out, "env", []string{"env", "environment"})
	for _, name := range []string{"tty", "split", "yield_ms", "max_output_bytes"} {
		g.copy(out, name, []string{name})
	}
	g.timeout(out)
	g.drop("description")
	g.refuseIf("run_in_background", true, `use terminal_session with op "open" and "run", or exec with yield_ms`)
	g.refuseIf("restart", true, `use terminal_session with op "close" and "open"`)
	return "terminal_session", out
}
