// Package skill finds skills: folders with a file SKILL.md that tells a model how
// to do something, and the files beside it. A person names the folders that hold
// them; nothing is looked for elsewhere.
//
// The format is the one that agents share: a front matter with name and
// description, then Markdown. What is found is a stranger's text as far as this
// package goes: it is bounded, and one skill that is faulty is told and left out.
package skill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// Bounds on what is read.
const (
	maxSkills      = 200
	maxEntries     = 2000 // of one folder
	maxFile        = 256 << 10
	maxFront       = 16 << 10
	maxDescription = 1024
	maxName        = 64
)

// FileName is the file that makes a folder a skill.
const FileName = "SKILL.md"

// Skill is one skill.
type Skill struct {
	Name        string
	Description string
	dir         string

	mu    sync.Mutex
	files *workspace.Workspace
}

// Fault is a skill that cannot be used, or a folder that cannot be read.
type Fault struct {
	Path string
	Why  string
}

func (f Fault) String() string { return f.Path + ": " + f.Why }

// Set is the skills of some folders. It is safe for concurrent use.
type Set struct {
	list   []*Skill // by name
	Faults []Fault
}

// Load looks through folders, in their order. Two skills of one name are a fault
// that names both; the first one counts.
func Load(folders ...string) *Set {
	s := &Set{}
	for _, folder := range folders {
		s.folder(folder)
	}
	slices.SortFunc(s.list, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func (s *Set) fault(path, format string, args ...any) {
	s.Faults = append(s.Faults, Fault{path, fmt.Sprintf(format, args...)})
}

func (s *Set) folder(folder string) {
	d, err := os.Open(folder)
	if err != nil {
		s.fault(folder, "it cannot be opened: %v", errors.Unwrap(err))
		return
	}
	defer d.Close()
	entries, err := d.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		s.fault(folder, "it is no folder of skills: %v", errors.Unwrap(err))
		return
	}
	if more, _ := d.ReadDir(1); len(more) > 0 {
		s.fault(folder, "it has more than %d entries, and not all were looked at", maxEntries)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") { // a link is none: what it leads to was not named
			continue
		}
		dir := filepath.Join(folder, e.Name())
		if _, err := os.Lstat(filepath.Join(dir, FileName)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if len(s.list) == maxSkills {
			s.fault(folder, "there are more than %d skills", maxSkills)
			return
		}
		s.add(dir)
	}
}

func (s *Set) add(dir string) {
	x := &Skill{dir: dir}
	text, err := x.read()
	if err != nil {
		s.fault(dir, "%s cannot be read: %v", FileName, err)
		return
	}
	front, _, err := split(text)
	if err != nil {
		s.fault(dir, "%v", err)
		return
	}
	switch {
	case !validName(front.Name):
		s.fault(dir, "its name %q is none: up to %d lower-case letters, digits and single - between them", clip(front.Name, 80), maxName)
		return
	case strings.TrimSpace(front.Description) == "":
		s.fault(dir, "it has no description")
		return
	}
	x.Name, x.Description = front.Name, clip(strings.Join(strings.Fields(front.Description), " "), maxDescription)
	if i := slices.IndexFunc(s.list, func(o *Skill) bool { return o.Name == x.Name }); i >= 0 {
		s.fault(dir, "its name %s is that of %s, which counts", x.Name, s.list[i].dir)
		return
	}
	s.list = append(s.list, x)
}

type front struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

// split parts a file into its front matter and its text.
func split(text string) (f front, body string, err error) {
	defer func() {
		if v := recover(); v != nil { // the parser is not ours
			err = errors.New("its front matter cannot be read")
		}
	}()
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	head, body, closed := strings.Cut(rest, "\n---")
	if !ok || !closed || len(head) > maxFront {
		return f, "", errors.New("it has no front matter: --- with name and description, and --- again")
	}
	if _, body, _ = strings.Cut(body, "\n"); strings.ContainsAny(head, "&*") && aliased(head) {
		return f, "", errors.New("its front matter has YAML aliases, which are not read")
	}
	if err := yaml.Unmarshal([]byte(head), &f); err != nil {
		return f, "", errors.New("its front matter is no YAML")
	}
	return f, body, nil
}

// aliased reports whether YAML has anchors and aliases, by which a short text
// becomes a long one.
func aliased(head string) bool {
	var n yaml.Node
	if yaml.Unmarshal([]byte(head), &n) != nil {
		return false // it is refused for that
	}
	var walk func(n *yaml.Node) bool
	walk = func(n *yaml.Node) bool {
		return n.Kind == yaml.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, walk)
	}
	return walk(&n)
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0 || i == len(s)-1 || s[i-1] == '-') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= maxName
}

func clip(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > max {
		return string(r[:max-1]) + "…"
	}
	return s
}

// List is the skills, by name.
func (s *Set) List() []*Skill {
	if s == nil {
		return nil
	}
	return s.list
}

// Find finds a skill by its exact name.
func (s *Set) Find(name string) (*Skill, bool) {
	i := slices.IndexFunc(s.List(), func(x *Skill) bool { return x.Name == name })
	if i < 0 {
		return nil, false
	}
	return s.list[i], true
}

// Close gives the folders up.
func (s *Set) Close() error {
	var errs []error
	for _, x := range s.List() {
		x.mu.Lock()
		if x.files != nil {
			errs = append(errs, x.files.Close())
			x.files = nil
		}
		x.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Files is the skill's folder, bounded as a workspace is: no link, path or race
// leads out of it.
func (x *Skill) Files() (*workspace.Workspace, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.files == nil {
		w, err := workspace.Open(x.dir, workspace.Options{})
		if err != nil {
			return nil, tool.Errorf(tool.NotAvailable, "the folder of the skill %s cannot be opened", x.Name).Because(err)
		}
		x.files = w
	}
	return x.files, nil
}

// read reads SKILL.md: a regular file of the folder, and no link.
func (x *Skill) read() (string, error) {
	root, err := os.OpenRoot(x.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Lstat(FileName)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	f, err := root.OpenFile(FileName, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return "", errors.New("it was replaced")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("it has more than %d KiB", maxFile>>10)
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD"))), nil
}

// Text is what the skill says, as it is now.
func (x *Skill) Text() (string, error) {
	text, err := x.read()
	if err == nil {
		_, text, err = split(text)
	}
	if err != nil {
		return "", tool.Errorf(tool.NotAvailable, "the skill %s cannot be read now: %v", x.Name, err).WithNext("tell the user")
	}
	return text, nil
}
