package workspace

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// maxTries bounds how often a path is resolved again because somebody replaced a
// directory by a link, or back, between the look and the opening.
const maxTries = 16

// look tells what stands at a path whose parents are no links. It returns an
// error that is fs.ErrNotExist if nothing does.
type look func(path string) (st stat, target string, err error)

// walkLinks finds the canonical path that a clean path means, by looking at one
// component after the other and following links that stay below the root. If
// last is false, a link at the end stays as it is.
//
// It opens nothing and guards nothing: what it returns is opened afterwards with
// no link allowed in any component, so a lie told during the walk costs a retry
// and never an escape.
//
// If the end does not exist, exists is false and missing says how many of the
// last components of the canonical path have to be made; all but one of them are
// then directories. st is what stands at the path, if something does.
//
// via, if not nil, is told of each link that is followed the whole path as it was
// up to there: by its name a path may be a secret, whatever it leads to.
func (w *Workspace) walkLinks(path string, last bool, at look, via func(path string) error) (canonical string, st stat, missing int, err error) {
	var done []string
	todo := strings.Split(path, "/")
	links := 0
	current := false // st belongs to done
	whole := true    // the rest may hold no link: look at its end first
	for len(todo) > 0 {
		if whole = whole && missing == 0 && plain(todo); whole {
			whole = false
			all := strings.Join(append(done[:len(done):len(done)], todo...), "/")
			if st, _, err = at(all); err == nil && !(st.typ == Link && last) {
				return all, st, 0, nil
			} else if err == nil {
				// Everything before the link at the end is a directory.
				done = append(done, todo[:len(todo)-1]...)
				todo = todo[len(todo)-1:]
			}
		}
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if missing > 0 {
				return "", stat{}, 0, fs.ErrNotExist
			}
			if len(done) == 0 {
				return "", stat{}, 0, tool.Errorf(tool.OutsideRoot, "a link on the way leads out of the workspace")
			}
			done, current = done[:len(done)-1], false
			continue
		}
		done = append(done, name)
		if len(done) > maxPathBytes/2 {
			return "", stat{}, 0, syscall.ENAMETOOLONG
		}
		if missing > 0 {
			missing++
			continue
		}
		here := strings.Join(done, "/")
		var target string
		st, target, err = at(here)
		current = true
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = 1
		case err != nil:
			return "", stat{}, 0, err
		case st.typ == Link && (last || len(todo) > 0):
			if links++; links > maxLinks {
				return "", stat{}, 0, tool.Errorf(tool.NotFound, "more than %d links follow each other, or they form a loop", maxLinks)
			}
			if via != nil {
				if err := via(here + plainStart(todo)); err != nil {
					return "", stat{}, 0, err
				}
			}
			done, current = done[:len(done)-1], false
			if isAbs(target + "/") {
				rest, ok := belowRoot(w.real, target)
				if !ok {
					return "", stat{}, 0, tool.Errorf(tool.OutsideRoot, "a link on the way leads out of the workspace")
				}
				done, target = done[:0], rest
			}
			todo, whole = append(strings.Split(target, "/"), todo...), true
		case st.typ != Dir && len(todo) > 0:
			return "", stat{}, 0, syscall.ENOTDIR
		}
	}
	if len(done) == 0 {
		st, _, err = at(".")
		return ".", st, 0, err
	}
	if !current {
		st, _, err = at(strings.Join(done, "/"))
		if err != nil {
			return "", stat{}, 0, err
		}
	}
	return strings.Join(done, "/"), st, missing, nil
}

// plainStart gives the components up to one that is no name, each after a slash.
func plainStart(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		if p == ".." {
			break
		}
		if p != "" && p != "." {
			b.WriteString("/" + p)
		}
	}
	return b.String()
}

// plain reports whether the components are nothing but names.
func plain(parts []string) bool {
	for _, p := range parts {
		if p == "" || p == "." || p == ".." {
			return false
		}
	}
	return true
}

// Resolve tells which object a path means now: its canonical path and what
// stands there. Links that stay inside are followed.
func (w *Workspace) Resolve(path string) (canonical string, info Info, err error) {
	clean, wantDir, err := w.CheckPath(path)
	if err != nil {
		return "", Info{}, err
	}
	st, _, err := w.lstatPath(clean)
	canonical = clean
	if err == errLink || err == nil && st.typ == Link {
		var missing int
		canonical, st, missing, err = w.walkLinks(clean, true, w.lstatPath, nil)
		if err == nil && missing > 0 {
			err = fs.ErrNotExist
		}
	}
	if err == nil && wantDir && st.typ != Dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return "", Info{}, pathError(path, err)
	}
	return canonical, st.info(canonical), nil
}
