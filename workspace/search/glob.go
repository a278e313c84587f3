package search

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/tool"
)

// globs is the filter of a grep: a list of globs in which the last one that
// matches a name decides, as with rg -g. A glob without a slash matches the base
// name at any depth, one with a slash the path below the workspace root. A '!'
// in front excludes. If there is any glob that does not exclude, files that no
// glob matches are left out.
type globs struct {
	list    []glob
	include bool
}

type glob struct {
	text    string
	suffix  string // of a plain "*.ext"
	exclude bool
	dirOnly bool
	path    bool // matches the path, not the base name
}

// parseGlobs reads a list whose parts are separated by commas or white space;
// those inside braces or brackets, or behind a backslash, belong to a part.
func parseGlobs(list string) (*globs, error) {
	if len(list) > maxPattern {
		return nil, tool.Errorf(tool.InvalidArguments, "glob has %d bytes; at most %d are allowed", len(list), maxPattern).
			WithNext("use fewer or shorter globs")
	}
	g := new(globs)
	for _, part := range splitGlobs(list) {
		one := glob{text: part}
		if strings.HasPrefix(one.text, "!") {
			one.exclude, one.text = true, one.text[1:]
		}
		if strings.HasSuffix(one.text, "/") {
			one.dirOnly, one.text = true, strings.TrimRight(one.text, "/")
		}
		one.path = strings.Contains(one.text, "/")
		if climbs(one.text) {
			return nil, tool.Errorf(tool.InvalidArguments, "glob holds the name .. in %s, and no path below the workspace root does", tool.QuotePath(part)).
				WithNext("write the path below the root without it")
		}
		one.text = plainGlob(one.text)
		if one.text == "" {
			continue
		}
		if err := checkGlob(part, one.text); err != nil {
			return nil, err
		}
		if len(g.list) == maxGlobs {
			return nil, tool.Errorf(tool.InvalidArguments, "more than %d globs", maxGlobs).WithNext("use braces, or fewer globs")
		}
		if rest := strings.TrimPrefix(one.text, "*"); !one.path && rest != one.text && !strings.ContainsAny(rest, `*?[{\`) {
			one.suffix = rest
		}
		g.list = append(g.list, one)
		g.include = g.include || !one.exclude
	}
	if len(g.list) == 0 {
		return nil, nil
	}
	return g, nil
}

// climbs reports whether a path has the name "..", which none of a walk holds.
func climbs(path string) bool {
	return strings.Contains(path, "/") && strings.Contains("/"+path+"/", "/../")
}

// plainGlob leaves out what names nothing: empty names and ".".
func plainGlob(g string) string {
	if !strings.Contains("/"+g+"/", "//") && !strings.Contains("/"+g+"/", "/./") {
		return g
	}
	parts := strings.Split(g, "/")
	parts = slices.DeleteFunc(parts, func(name string) bool { return name == "" || name == "." })
	return strings.Join(parts, "/")
}

func splitGlobs(list string) []string {
	var out []string
	braces, bracket, start := 0, false, 0
	end := func(i int) {
		if start < i {
			out = append(out, list[start:i])
		}
		start = i + 1
	}
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\':
			i++
		case bracket:
			bracket = c != ']'
		case c == '[':
			bracket = strings.IndexByte(list[i:], ']') > 0
		case c == '{':
			braces++
		case c == '}':
			braces = max(0, braces-1)
		case braces == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			end(i)
		}
	}
	end(len(list))
	return out
}

// checkGlob refuses what the matcher would not understand, or would take too
// long over: every brace multiplies the ways to read a glob.
func checkGlob(shown, g string) error {
	if !doublestar.ValidatePattern(g) {
		return tool.Errorf(tool.InvalidArguments, "%s is no glob: a bracket or brace is not closed, or a backslash ends it", tool.QuotePath(shown)).
			WithNext(`close it, or put a backslash before the character to mean it literally`)
	}
	ways, alternatives := 1, 0
	depth := 0
	for i := 0; i < len(g); i++ {
		switch g[i] {
		case '\\':
			i++
		case '{':
			if depth++; depth == 1 {
				alternatives = 1
			}
		case ',':
			if depth > 0 {
				alternatives++
			}
		case '}':
			if depth--; depth == 0 {
				ways *= alternatives
			}
		}
		if ways > maxBraces || depth > 4 {
			return tool.Errorf(tool.InvalidArguments, "the braces of the glob stand for too many alternatives").
				WithNext("use fewer braces")
		}
	}
	return nil
}

func (g *globs) choose(path, name string, isDir bool) choice {
	if g == nil {
		return undecided
	}
	for i := len(g.list) - 1; i >= 0; i-- {
		if one := &g.list[i]; one.match(path, name, isDir) {
			if one.exclude {
				return leave
			}
			return take
		}
	}
	if g.include && !isDir {
		return leave
	}
	return undecided
}

func (g *glob) match(path, name string, isDir bool) bool {
	switch {
	case g.dirOnly && !isDir:
		return false
	case g.path:
		return doublestar.MatchUnvalidated(g.text, path)
	case g.suffix != "":
		return strings.HasSuffix(name, g.suffix)
	}
	return doublestar.MatchUnvalidated(g.text, name)
}
