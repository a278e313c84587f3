package workspace

import (
	goruntime "runtime"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

const isWindows = goruntime.GOOS == "windows"

const (
	maxPathBytes = 4096 // PATH_MAX of Linux; nothing longer can be opened in one call anyway
	maxNameBytes = 255  // NAME_MAX of every file system we know
	maxLinks     = 40   // links followed for one path; the kernel's own limit
)

// CheckPath is the pure text check that every path passes before it meets the
// disk. It returns the path relative to the root, cleaned, with '/' between
// components ("." is the root itself), and whether the text demands a directory
// (it ends in a slash, "." or "..").
//
// A ".." is taken off the text, as editors and libraries do it, and may never
// reach above the root. An absolute path is accepted only if the root's real
// path is a component prefix of it. Nothing is expanded or decoded: "~", "$X",
// "file:", "%2f" and, but on Windows, backslash and drive letters are names.
//
// The check is a courtesy and no boundary: it gives clear errors early. What
// keeps a call below the root is how names are opened.
func (w *Workspace) CheckPath(path string) (clean string, dir bool, err error) {
	return checkPath(w.real, path)
}

func checkPath(root, path string) (clean string, dir bool, err error) {
	if path == "" {
		return "", false, tool.Errorf(tool.InvalidArguments, "the path is empty").
			WithNext("name a file or directory; . is the workspace root")
	}
	if len(path) > maxPathBytes {
		return "", false, tool.Errorf(tool.InvalidArguments, "a path of %d bytes is over the limit of %d", len(path), maxPathBytes).
			WithNext("use a shorter path")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return "", false, tool.PathErrorf(tool.InvalidArguments, path, "the path holds a NUL byte").
			WithNext("remove it")
	}
	rest := path
	if isAbs(path) {
		var ok bool
		if rest, ok = belowRoot(root, path); !ok {
			return "", false, tool.PathErrorf(tool.OutsideRoot, path, "an absolute path outside the workspace").
				WithNext("use a path relative to the workspace root")
		}
	}
	if isWindows {
		// Alternate data streams (a:b), drive-relative names (C:x) and the other
		// separator would give one file several spellings.
		if strings.ContainsAny(rest, `\:`) {
			return "", false, tool.PathErrorf(tool.InvalidArguments, path, `the path holds a \ or :`).
				WithNext("separate names by /")
		}
	}

	if alreadyClean(rest) {
		if err := checkNames(path, rest); err != nil {
			return "", false, err
		}
		return rest, false, nil
	}
	parts := make([]string, 0, 16)
	for c := range strings.SplitSeq(rest, "/") {
		switch c {
		case "", ".":
			dir = true
		case "..":
			dir = true
			if len(parts) == 0 {
				return "", false, tool.PathErrorf(tool.OutsideRoot, path, "the path climbs above the workspace root")
			}
			parts = parts[:len(parts)-1]
		default:
			dir = false
			parts = append(parts, c)
		}
	}
	if len(parts) == 0 {
		return ".", true, nil
	}
	clean = strings.Join(parts, "/")
	if err := checkNames(path, clean); err != nil {
		return "", false, err
	}
	return clean, dir, nil
}

// alreadyClean is the fast way for the paths that calls mostly use.
func alreadyClean(p string) bool {
	start := 0
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		switch p[start:i] {
		case "", ".", "..":
			return false
		}
		start = i + 1
	}
	return true
}

func checkNames(path, clean string) error {
	if len(clean) <= maxNameBytes {
		return nil
	}
	for c := range strings.SplitSeq(clean, "/") {
		if len(c) > maxNameBytes {
			return tool.PathErrorf(tool.InvalidArguments, path, "a name of %d bytes is over the limit of %d", len(c), maxNameBytes).
				WithNext("use shorter names")
		}
	}
	return nil
}

func isAbs(p string) bool {
	if p[0] == '/' {
		return true
	}
	if !isWindows {
		return false
	}
	return p[0] == '\\' || len(p) >= 2 && p[1] == ':'
}

// belowRoot takes the root off an absolute path. It compares whole components,
// so that /ws-evil is not below /ws.
func belowRoot(root, p string) (rest string, ok bool) {
	if isWindows {
		p = strings.ReplaceAll(p, `\`, "/")
		root = strings.ReplaceAll(root, `\`, "/")
		if len(p) < len(root) || !strings.EqualFold(p[:len(root)], root) {
			return "", false
		}
		rest = p[len(root):]
	} else {
		rest, ok = strings.CutPrefix(p, root)
		if !ok {
			return "", false
		}
	}
	if strings.HasSuffix(root, "/") { // the root is / itself
		return rest, true
	}
	if rest == "" {
		return ".", true
	}
	return rest, rest[0] == '/'
}

// split takes the last name off a clean path.
func split(clean string) (parent, name string) {
	if i := strings.LastIndexByte(clean, '/'); i >= 0 {
		return clean[:i], clean[i+1:]
	}
	return ".", clean
}

// join puts a name below a clean path.
func join(parent, name string) string {
	if parent == "." {
		return name
	}
	return parent + "/" + name
}

// under reports whether p is dir or below it.
func under(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}
