package search

import (
	"context"
	"io"

	"github.com/wasmtools/wasmtools/workspace"
)

// The ignore files, in order of precedence: what one kind says about a name, at
// any level, beats what a later kind says. The same as ripgrep's.
const (
	rgignoreFile = iota
	ignoreFile
	gitignoreFile
	excludeFile
	ignoreKinds
)

var ignoreNames = [ignoreKinds]string{".rgignore", ".ignore", ".gitignore", ""}

// scope is the ignore rules of one directory, on top of those of the
// directories above it. It is immutable. A nil scope ignores nothing.
//
// The rules are read inside the workspace only: if the root is not the top of
// its repository, the ignore files above the root are out of reach. The user's
// global ignore file is not read either. Whether there is a repository at all
// makes no difference: a .gitignore counts wherever it lies.
type scope struct {
	up   *scope
	dir  string
	own  [ignoreKinds]*rules
	repo bool // a repository begins here: rules of git from above do not reach in
}

// enter makes the scope of f. names are all the names in f if they are known.
func (up *scope) enter(f *folder, names map[string]bool) *scope {
	s := &scope{up: up, dir: f.path}
	any := false
	for kind, name := range ignoreNames {
		if name == "" || names != nil && !names[name] {
			continue
		}
		if s.own[kind] = readRules(f, name); s.own[kind] != nil {
			any = true
		}
	}
	if names == nil || names[".git"] {
		s.repo, s.own[excludeFile] = repository(f)
	}
	if !any && !s.repo {
		return up
	}
	return s
}

func readRules(f *folder, name string) *rules {
	file, _, err := f.open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxIgnoreBytes+1))
	if err != nil {
		return nil
	}
	return parseRules(b)
}

// repository reports whether f is the top of a git repository or worktree, and
// reads its private ignore file.
func repository(f *folder) (bool, *rules) {
	git, err := f.child(".git")
	if err != nil {
		file, _, err := f.open(".git")
		if err != nil {
			return false, nil
		}
		file.Close()
		return true, nil
	}
	defer git.release()
	info, err := git.child("info")
	if err != nil {
		return true, nil
	}
	defer info.release()
	return true, readRules(info, "exclude")
}

// ignores reports whether the rules exclude a name in the scope's directory or
// below it. Nothing is asked for the directories on the way: a walk does not
// enter the ones that are ignored.
func (s *scope) ignores(path, name string, isDir bool) bool {
	for kind := range ignoreKinds {
		git := kind == gitignoreFile || kind == excludeFile
		for at := s; at != nil; at = at.up {
			if r := at.own[kind]; r != nil {
				rel, _ := below(at.dir, path)
				if v := r.match(rel, name, isDir); v != unmentioned {
					return v == ignored
				}
			}
			if git && at.repo {
				break
			}
		}
	}
	return false
}

// MarkIgnored sets Ignored on those entries of a directory's listing that an
// ignore rule excludes from broad searches. dir is the directory's canonical
// path. All entries of an ignored directory are ignored. It is best effort: an
// ignore file that cannot be read has no rules.
func MarkIgnored(o *workspace.Overlay, dir string, entries []workspace.Info) {
	newTree(context.Background(), o).markIgnored(dir, entries)
}

func (t *tree) markIgnored(dir string, entries []workspace.Info) {
	all := false
	var up *folder
	f, err := t.walkTo(dir, func(f *folder) {
		if up != nil {
			all = all || up.scope.ignores(f.path, base(f.path), true)
		}
		f.scope = f.scope.enter(f, nil)
		up = f
	})
	if err != nil {
		return
	}
	defer f.release()
	all = all || dir != "." && f.scope.ignores(dir, base(dir), true)
	s := f.scope.enter(f, nil)
	for i := range entries {
		e := &entries[i]
		e.Ignored = all || s.ignores(join(dir, e.Name), e.Name, e.Type == workspace.Dir)
	}
}

func base(path string) string {
	_, name := split(path)
	return name
}
