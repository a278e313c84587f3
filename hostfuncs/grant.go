package hostfuncs

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// NewOverlay makes the view of w that a call with this grant gets. It is nil,
// and every file function answers grant_missing, if nothing is granted. What the
// call reads is noted in t, and guarded by what seen knows; both may be nil.
func NewOverlay(w *workspace.Workspace, g Grant, t *Trail, seen *workspace.Seen) *workspace.Overlay {
	if w == nil || len(g.Read) == 0 && len(g.Write) == 0 {
		return nil
	}
	return w.Overlay(workspace.OverlayOptions{Guard: t.watch(Guard(g)), ReadOnly: len(g.Write) == 0, Seen: seen})
}

// Guard is the one place where a grant is judged: it is asked with the
// canonical path before anything is looked at, read, listed or changed, by the
// overlay and by searches. The function is safe for concurrent use.
//
// A file is read if a read glob matches it, and changed or removed if a write
// glob does. A name can be looked at if a glob of either kind matches it or
// could match something below it, because the way to a granted file leads
// through its directories. A glob that is no glob grants nothing.
func Guard(g Grant) func(workspace.Verb, string, tool.Identity) error {
	read, write := newGlobs(g.Read), newGlobs(g.Write)
	return func(v workspace.Verb, path string, _ tool.Identity) error {
		switch v {
		case workspace.VerbStat, workspace.VerbList:
			if read.match(path) || write.match(path) || read.leadsTo(path) || write.leadsTo(path) {
				return nil
			}
			return missing(path, "fs.read", "looking at it")
		case workspace.VerbRead:
			if read.match(path) {
				return nil
			}
			return missing(path, "fs.read", "reading it")
		default: // write, delete, and any verb that is added later
			if write.match(path) {
				return nil
			}
			return missing(path, "fs.write", "changing it")
		}
	}
}

func missing(path, capability, doing string) *tool.Error {
	return tool.PathErrorf(tool.GrantMissing, path, "%s was not granted", doing).
		WithNext("leave it, or ask a person to grant %s for it", capability).
		With("capability", capability)
}

// globs is a set of globs, in components.
type globs struct {
	all   bool // one of them is **
	whole []string
	parts [][]string
}

func newGlobs(list []string) globs {
	var g globs
	for _, p := range list {
		if manifest.CheckGlob(p) != "" {
			continue
		}
		g.all = g.all || p == "**"
		g.whole = append(g.whole, p)
		g.parts = append(g.parts, strings.Split(p, "/"))
	}
	return g
}

// match reports whether a glob matches the path.
func (g globs) match(path string) bool {
	if g.all {
		return true
	}
	for _, p := range g.whole {
		if doublestar.MatchUnvalidated(p, path) {
			return true
		}
	}
	return false
}

// leadsTo reports whether a glob could match something below dir.
func (g globs) leadsTo(dir string) bool {
	if g.all {
		return true
	}
	for _, parts := range g.parts {
		if leads(parts, dir) {
			return true
		}
	}
	return false
}

func leads(parts []string, dir string) bool {
	if dir == "." {
		return true
	}
	for name := range strings.SplitSeq(dir, "/") {
		switch {
		case len(parts) == 0:
			return false
		case parts[0] == "**":
			return true
		case !doublestar.MatchUnvalidated(parts[0], name):
			return false
		}
		parts = parts[1:]
	}
	return len(parts) > 0
}
