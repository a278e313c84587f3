package shell

import (
	"path"
	"strings"
)

// resolve follows the links of an absolute path. It fails if the file system
// does, or has been asked too often.
func (j *judge) resolve(p string) (string, Kind, bool) {
	if r, ok := j.resolved[p]; ok {
		return r.real, r.kind, r.ok
	}
	if j.looks++; j.looks > maxLooks {
		return "", Missing, false
	}
	real, kind, err := j.fs.Resolve(p)
	r := resolved{real, kind, err == nil}
	j.resolved[p] = r
	return r.real, r.kind, r.ok
}

type resolved struct {
	real string
	kind Kind
	ok   bool
}

// inside reports whether a resolved path is the workspace or below it.
func (j *judge) inside(real string) bool {
	return real == j.root || strings.HasPrefix(real, strings.TrimSuffix(j.root, "/")+"/")
}

// file judges what is done to the file that text names in each of st's
// directories, and returns what speaks against it, or "".
func (j *judge) file(op Op, text string, st *state) string {
	return j.fileAt(op, text, st, true)
}

// entry is file for a program that looks at a link instead of following it.
func (j *judge) entry(text string, st *state) string {
	return j.fileAt(Read, text, st, false)
}

func (j *judge) fileAt(op Op, text string, st *state, follow bool) string {
	if text == "" {
		return "" // no program can open it
	}
	if text == "/dev/null" || op == Read && text == "/dev/stdin" {
		return ""
	}
	cwds := st.cwds
	if strings.HasPrefix(text, "/") {
		cwds = []string{""}
	} else if cwds == nil {
		return "the directory in which " + show(text) + " lies is not known"
	}
	for _, cwd := range cwds {
		p := text
		if cwd != "" {
			p = cwd + "/" + text
		}
		if i := strings.LastIndexByte(p, '/'); !follow && p[i+1:] != "" && p[i+1:] != "." && p[i+1:] != ".." {
			if dir, _, ok := j.resolve(p[:i+1]); ok && j.inside(dir) {
				rel := j.relative(dir + "/" + p[i+1:])
				j.note(File{Path: rel, Op: op})
				if bad := j.filesRule(op, rel, text); bad != "" {
					return bad
				}
				continue
			}
		}
		if bad := j.file1(op, text, p); bad != "" {
			return bad
		}
	}
	return ""
}

// file1 is file for one absolute path.
func (j *judge) file1(op Op, text, p string) string {
	clean := path.Clean(p)
	if strings.HasPrefix(clean, "/dev/tcp/") || strings.HasPrefix(clean, "/dev/udp/") {
		return show(text) + " is a network connection"
	}
	if clean == "/proc" || strings.HasPrefix(clean, "/proc/") || strings.HasPrefix(clean, "/dev/fd/") {
		return show(text) + " shows what other programs have open or know"
	}
	real, kind, ok := j.resolve(p)
	if !ok {
		return show(text) + " cannot be looked at"
	}
	if j.moved && real != j.root && (op != Read || j.rules.WorkspacePaths) {
		return show(text) + " may be a link by then, by what runs before it"
	}
	if j.inside(real) {
		rel := "."
		if real != j.root {
			rel = strings.TrimPrefix(real, strings.TrimSuffix(j.root, "/")+"/")
		}
		j.note(File{Path: rel, Op: op})
		return j.filesRule(op, rel, text)
	}
	j.note(File{Path: real, Outside: true, Op: op})
	switch {
	case op != Read:
		return show(text) + " lies outside the workspace and would be written"
	case j.rules.WorkspacePaths:
		return show(text) + " lies outside the workspace"
	case kind == Other:
		return show(text) + " is a device"
	case strings.HasPrefix(real, "/proc/"):
		return show(text) + " shows what other programs have open or know"
	}
	return j.filesRule(op, real, text)
}

// filesRule asks the rules about files. A deny of theirs is recorded at once.
func (j *judge) filesRule(op Op, p, text string) string {
	if op != Read && gitFile(p) {
		return show(text) + " belongs to git itself"
	}
	if j.rules.Files == nil {
		if op == Write {
			return show(text) + " would be written, and no rule allows that"
		}
		return ""
	}
	v, why := j.rules.Files(op, p)
	if why == "" {
		why = "no rule allows to " + string(op) + " " + show(text)
	}
	switch v {
	case Allow:
		return ""
	case Deny:
		j.deny(nil, why)
	}
	return why
}

// gitFile reports whether a path of the workspace lies in a .git folder.
func gitFile(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// note records a file, once.
func (j *judge) note(f File) {
	if j.noted[f] || len(j.res.Files) >= maxFiles {
		return
	}
	j.noted[f] = true
	j.res.Files = append(j.res.Files, f)
}

// escapes looks for links below dir that lead out of the workspace, as a
// program that follows links would meet them. accept says which names count;
// nil is all. It returns what speaks against going there, or "".
func (j *judge) escapes(dir string, accept func(name string) bool) string {
	real, kind, ok := j.resolve(dir)
	if !ok || kind != Directory {
		return ""
	}
	if !j.inside(real) {
		return ""
	}
	key := real
	if accept == nil {
		if bad, ok := j.walked[key]; ok {
			return bad
		}
	}
	bad := j.escapes1(real, accept)
	if accept == nil {
		j.walked[key] = bad
	}
	return bad
}

func (j *judge) escapes1(dir string, accept func(string) bool) string {
	for queue := []string{dir}; len(queue) > 0; {
		d := queue[0]
		queue = queue[1:]
		names, ok := j.list(d)
		if !ok {
			return "the links below " + show(j.relative(dir)) + " cannot all be looked at"
		}
		for _, e := range names {
			p := d + "/" + e.Name
			if e.Dir {
				queue = append(queue, p)
				continue
			}
			if !e.Link || accept != nil && !accept(e.Name) {
				continue
			}
			if real, _, ok := j.resolve(p); !ok || !j.inside(real) {
				return show(j.relative(p)) + " is a link that leads out of the workspace"
			}
		}
	}
	return ""
}

// relative shows a path of the workspace without the workspace's own path.
func (j *judge) relative(p string) string {
	if p == j.root {
		return "."
	}
	return strings.TrimPrefix(p, strings.TrimSuffix(j.root, "/")+"/")
}
