package workspace

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What git runs is decided by files that can lie anywhere: a directory becomes a
// repository by what is in it, a .git can be a file that points elsewhere, and the
// hooks are where a setting says. All of it is looked up at each call.

const (
	maxPointer    = 8 << 10   // of a .git file or commondir: a path and a few words
	maxGitConfig  = 256 << 10 // of one configuration
	maxGitConfigs = 64        // files for one repository, included ones too
	maxGitFiles   = 4096      // for one look at all of them
	maxGitBytes   = 16 << 20  // the same
	maxHooksPaths = 64        // settings of core.hooksPath in one repository; the last one counts for git
	maxHooks      = 1000      // names in a directory of hooks
	maxIncludes   = 10        // in each other; git's own limit
	maxUp         = 64        // directories above the root that are searched for a repository
)

// gitPlace is a directory or file of the tree that is protected because of what
// stands elsewhere.
type gitPlace struct {
	path   string
	folded string
	rule   Rule
	hooks  bool // only the hooks right in it: more than hooks lies there
}

// covers reports whether the place is about a path, given folded. isLink says that
// a link stands there or comes there.
func (p *gitPlace) covers(folded string, isLink bool) bool {
	switch {
	case isLink && p.folded != "." && folded != "." && under(p.folded, folded):
		return true // the link decides where the place is
	case p.hooks:
		parent, name := split(folded)
		return parent == p.folded && isHook(name)
	}
	return under(folded, p.folded)
}

// gitFinder looks for the places that git gets its hooks from.
type gitFinder struct {
	v      *view
	places []gitPlace
	tops   []string // work trees, relative to the root; of those above it, none
	seen   map[string]bool
	files  int // read for the repository at hand
	all    int
	bytes  int

	shared *gitShared
}

// gitShared is what several finders need read once only.
type gitShared struct {
	global []setting // of the user and of the system
	loaded bool
	home   string
}

func newGitFinder(v *view) *gitFinder { return &gitFinder{v: v, shared: new(gitShared)} }

// at is a place on the host: canonical below the root, else an absolute path.
type at struct {
	in   bool
	path string
}

// locate finds what a path means that git was given. Relative ones are meant from
// base.
func (g *gitFinder) locate(base at, path string) (at, bool) {
	if path == "" || len(path) > maxPathBytes || strings.IndexByte(path, 0) >= 0 {
		return at{}, false
	}
	path = filepath.FromSlash(path)
	if rest, ok := strings.CutPrefix(path, "~"+string(filepath.Separator)); ok {
		home := g.homeDir()
		if home == "" {
			return at{}, false
		}
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		if base.in {
			// Step by step, so that .. after a link is what the system makes of it.
			if p, _, _, err := g.v.w.walkLinks(join(base.path, filepath.ToSlash(path)), true, g.v.lstat, nil); err == nil {
				return at{true, p}, true
			}
		}
		path = filepath.Join(g.abs(base), path)
	}
	return g.settle(filepath.Clean(path)), true
}

func (g *gitFinder) abs(a at) string {
	if a.in {
		return filepath.Join(g.v.w.real, filepath.FromSlash(a.path))
	}
	return a.path
}

// settle follows the links on the way to an absolute path, inside the root and
// outside.
func (g *gitFinder) settle(abs string) at {
	for range 3 {
		rel, ok := belowRoot(g.v.w.real, abs)
		if !ok {
			real := realFolder(abs)
			if real == abs {
				return at{false, abs}
			}
			abs = real
			continue
		}
		clean, _, err := checkPath(g.v.w.real, strings.TrimPrefix(filepath.ToSlash(rel), "/"))
		if rel == "" || rel == "/" {
			clean, err = ".", nil
		}
		if err != nil {
			return at{false, abs}
		}
		p, _, _, err := g.v.w.walkLinks(clean, true, g.v.lstat, nil)
		if err == nil {
			return at{true, p}
		}
		real := realFolder(abs)
		if _, ok := belowRoot(g.v.w.real, real); ok || real == abs {
			return at{true, clean} // it cannot be followed now
		}
		abs = real
	}
	return at{false, abs}
}

// stat tells what stands at a place, links followed.
func (g *gitFinder) stat(a at) Type {
	if a.in {
		st, _, err := g.v.lstat(a.path)
		if err != nil {
			return ""
		}
		return st.typ
	}
	fi, err := os.Stat(a.path)
	switch {
	case err != nil:
		return ""
	case fi.IsDir():
		return Dir
	case fi.Mode().IsRegular():
		return File
	}
	return Other
}

// read gives the beginning of a regular file, "" if there is none.
func (g *gitFinder) read(a at, most int) string {
	if g.files >= maxGitConfigs || g.all >= maxGitFiles || g.bytes >= maxGitBytes {
		return ""
	}
	g.files++
	g.all++
	if a.in {
		if st, _, err := g.v.lstat(a.path); err == nil && st.typ == Link {
			a = g.settle(g.abs(a))
		}
	}
	var p []byte
	if a.in {
		p = g.v.readStart(a.path, most)
	} else {
		p = hostStart(a.path, most)
	}
	g.bytes += len(p)
	return string(p)
}

// readStart reads up to most bytes of a file of the view.
func (v *view) readStart(path string, most int) []byte {
	n, disk, onDisk := v.lookup(path)
	if n != nil && n.fresh() {
		return n.data[:min(len(n.data), most)]
	}
	if n != nil && n.typ == "" || !onDisk {
		return nil
	}
	f, st, err := v.w.openFile(disk)
	if err != nil {
		return nil
	}
	defer f.close()
	buf := make([]byte, min(st.size, int64(most)))
	got, err := f.readAt(buf, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return buf[:got]
}

// hostStart reads up to most bytes of a regular file of the host: one that git
// itself would read for its settings, which may lie above the root. Nothing of it
// but the place of hooks is ever used, and nothing is told.
func hostStart(path string, most int) []byte {
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return nil // not even opened: a device may act on that
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	buf := make([]byte, min(fi.Size(), int64(most)))
	n, err := io.ReadFull(f, buf)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil
	}
	return buf[:n]
}

// work looks at a directory that may be the top of a work tree.
func (g *gitFinder) work(top at) bool {
	key := g.abs(top)
	if g.seen[key] {
		return false
	}
	if g.seen == nil {
		g.seen = map[string]bool{}
	}
	g.seen[key] = true
	g.files = 0

	if top.in {
		if _, _, err := g.v.lstat(join(top.path, ".git")); err != nil {
			return false
		}
	}
	dir, ok := g.locate(top, ".git")
	if !ok {
		return false
	}
	pointed := false
	switch g.stat(dir) {
	case Dir:
	case File:
		target, ok := strings.CutPrefix(g.read(dir, maxPointer), "gitdir:")
		if !ok {
			return false
		}
		target = strings.TrimLeft(strings.TrimRight(target, "\r\n"), " ")
		if dir, ok = g.locate(top, target); !ok {
			return true
		}
		pointed = true
	default:
		return false
	}
	if top.in {
		g.tops = append(g.tops, top.path)
	}
	if pointed && dir.in {
		g.add(dir, Rule{Name: "git", Glob: "the directory that a .git file names"})
	}
	g.repository(dir, top, dir)
	return true
}

// repository looks for the hooks of a git directory. bases are what relative
// paths may be meant from: the top of the work tree, and for hooks that run at a
// push the directory itself.
func (g *gitFinder) repository(dir at, bases ...at) {
	g.files = 0
	dirs := []at{dir}
	if text := strings.TrimRight(g.read(g.below(dir, "commondir"), maxPointer), "\r\n"); text != "" {
		if common, ok := g.locate(dir, text); ok && common != dir {
			dirs = append(dirs, common)
		}
	}
	settings := g.globals()
	for _, d := range dirs {
		for _, name := range []string{"config", "config.worktree"} {
			settings = append(settings, g.config(g.below(d, name), 0)...)
			g.linked(g.below(d, name), Rule{Name: "git", Glob: "a file that a link in a git directory leads to"})
		}
		g.hooks(g.below(d, "hooks"))
	}
	for _, s := range settings {
		if s.section == "core" && s.sub == "" && s.key == "worktree" {
			if top, ok := g.locate(dir, s.value); ok {
				bases = append(bases, top)
				if top.in {
					g.tops = append(g.tops, top.path)
				}
			}
		}
	}
	var paths []string
	for _, s := range settings {
		if s.section == "core" && s.sub == "" && s.key == "hookspath" && !slices.Contains(paths, s.value) {
			paths = append(paths, s.value)
		}
	}
	for _, path := range paths[max(0, len(paths)-maxHooksPaths):] {
		for _, base := range bases {
			g.named(base, path)
		}
	}
}

// linked adds what a name leads to that is a link.
func (g *gitFinder) linked(a at, rule Rule) {
	if a.in {
		if st, _, err := g.v.lstat(a.path); err != nil || st.typ != Link {
			return
		}
	} else if fi, err := os.Lstat(a.path); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		return
	}
	g.add(g.settle(g.abs(a)), rule)
}

// hooks adds what a directory of hooks leads to, if it is a link, or by links that
// are in it.
func (g *gitFinder) hooks(dir at) {
	rule := Rule{Name: "hooks", Glob: "what a link among git's hooks leads to"}
	g.linked(dir, rule)
	if dir = g.settle(g.abs(dir)); dir.in {
		d, err := g.v.w.openDir(dir.path)
		if err != nil {
			return
		}
		defer d.close()
		var links []string
		n := 0
		buf := make([]byte, 4<<10)
		for n < maxHooks {
			end, err := d.readNames(buf, func(name []byte, t Type) bool {
				if n++; t == Link || t == "" {
					links = append(links, string(name))
				}
				return n < maxHooks
			})
			if end || err != nil {
				break
			}
		}
		for _, name := range links {
			g.linked(at{true, join(dir.path, name)}, rule)
		}
		return
	}
	if g.stat(dir) != Dir {
		return
	}
	f, err := os.OpenFile(dir.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	list, _ := f.ReadDir(maxHooks)
	for _, e := range list {
		if e.Type()&fs.ModeSymlink != 0 {
			g.linked(at{false, filepath.Join(dir.path, e.Name())}, rule)
		}
	}
}

// named adds the place of hooks, both as it is named and as it is without links.
func (g *gitFinder) named(base at, path string) {
	place, ok := g.locate(base, path)
	if !ok {
		return
	}
	rule := Rule{Name: "hooks", Glob: "core.hooksPath of a repository"}
	g.add(place, rule)
	g.hooks(place)
	if !filepath.IsAbs(filepath.FromSlash(path)) && !strings.HasPrefix(path, "~") {
		if rel, ok := belowRoot(g.v.w.real, filepath.Join(g.abs(base), filepath.FromSlash(path))); ok {
			if clean, _, err := checkPath(g.v.w.real, strings.TrimPrefix(filepath.ToSlash(rel), "/")); err == nil {
				g.add(at{true, clean}, rule)
			}
		}
	}
}

func (g *gitFinder) add(a at, rule Rule) {
	if !a.in || len(g.places) >= maxPlaces {
		return
	}
	for _, p := range g.places {
		if p.path == a.path && p.rule == rule {
			return
		}
	}
	g.places = append(g.places, gitPlace{path: a.path, folded: fold(a.path), rule: rule})
}

func (g *gitFinder) below(a at, name string) at {
	if a.in {
		return at{true, join(a.path, name)}
	}
	return at{false, filepath.Join(a.path, name)}
}

// config reads one configuration and what it includes, under whatever condition.
func (g *gitFinder) config(file at, depth int) []setting {
	if depth > maxIncludes {
		return nil
	}
	list := parseGitConfig(g.read(file, maxGitConfig))
	out := list
	for _, s := range list {
		if s.key != "path" || s.section != "include" && s.section != "includeif" {
			continue
		}
		parent := at{file.in, filepath.Dir(file.path)}
		if file.in {
			parent.path, _ = split(file.path)
		}
		if inc, ok := g.locate(parent, s.value); ok {
			g.add(inc, Rule{Name: "git", Glob: "a file that a git configuration includes"})
			out = append(out[:len(out):len(out)], g.config(inc, depth+1)...)
		}
	}
	return out
}

func (g *gitFinder) homeDir() string {
	if g.shared.home == "" {
		g.shared.home, _ = os.UserHomeDir()
	}
	return g.shared.home
}

// globals reads the settings of the user and of the system.
func (g *gitFinder) globals() []setting {
	if g.shared.loaded {
		return g.shared.global
	}
	g.shared.loaded = true
	var files []string
	if f := os.Getenv("GIT_CONFIG_GLOBAL"); f != "" {
		files = append(files, f)
	} else if home := g.homeDir(); home != "" {
		dir := os.Getenv("XDG_CONFIG_HOME")
		if dir == "" {
			dir = filepath.Join(home, ".config")
		}
		files = append(files, filepath.Join(dir, "git", "config"), filepath.Join(home, ".gitconfig"))
	}
	if f := os.Getenv("GIT_CONFIG_SYSTEM"); f != "" {
		files = append(files, f)
	} else if os.Getenv("GIT_CONFIG_NOSYSTEM") == "" {
		files = append(files, "/etc/gitconfig")
	}
	for _, f := range files {
		if _, err := os.Lstat(f); err == nil && filepath.IsAbs(f) {
			g.shared.global = append(g.shared.global, g.config(g.settle(filepath.Clean(f)), 0)...)
		}
	}
	g.shared.global = slices.Clip(g.shared.global)
	return g.shared.global
}

// above looks for the repository that the whole workspace lies in.
func (g *gitFinder) above() {
	dir := filepath.Dir(g.v.w.real)
	for range maxUp {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil && g.work(at{false, dir}) {
			return
		}
		if g.stat(at{false, filepath.Join(dir, "HEAD")}) != "" && g.stat(at{false, filepath.Join(dir, "objects")}) == Dir && g.stat(at{false, filepath.Join(dir, "refs")}) == Dir {
			g.repository(at{false, dir}, at{false, dir})
			return
		}
		up := filepath.Dir(dir)
		if up == dir {
			return
		}
		dir = up
	}
}

// finish decides which places hold more than hooks: those at or above the top of
// a work tree.
func (g *gitFinder) finish() []gitPlace {
	for i := range g.places {
		p := &g.places[i]
		for _, top := range g.tops {
			if p.rule.Name == "hooks" && under(top, p.path) {
				p.hooks = true
			}
		}
		if p.path == "." {
			p.hooks = true
		}
	}
	return g.places
}
