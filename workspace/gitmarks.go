package workspace

import "strings"

// How git knows one of its directories, and which names in it decide what git
// does.

// gitMarks are the names by which git knows one of its directories. It asks for a
// HEAD, and for objects and refs or for the name of the directory that has them.
type gitMarks struct {
	pointer                     bool // a .git, whatever it is
	head, objects, refs, common bool
}

func (m *gitMarks) see(name []byte) {
	if n := len(name); n < 4 || n > 9 {
		return
	}
	switch s := string(name); {
	case strings.EqualFold(s, ".git"):
		m.pointer = true
	case strings.EqualFold(s, "HEAD"):
		m.head = true
	case strings.EqualFold(s, "objects"):
		m.objects = true
	case strings.EqualFold(s, "refs"):
		m.refs = true
	case strings.EqualFold(s, "commondir"):
		m.common = true
	}
}

func (m *gitMarks) looksLikeOne() bool { return m.head && (m.common || m.objects && m.refs) }

func isGitName(name string) bool { return strings.EqualFold(name, ".git") }

// isGitPart reports whether a name in a git directory says what git does, or makes
// the directory one.
func isGitPart(name string) bool {
	switch fold(name) {
	case "head", "config", "config.worktree", "hooks", "objects", "refs", "commondir", "gitdir",
		"worktrees", "modules", "info", "packed-refs":
		return true
	}
	return false
}

// isHook reports whether git runs a file of this name in the directory of hooks.
func isHook(name string) bool {
	switch name = fold(name); name {
	case "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
		"commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
		"proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
		"post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
		"p4-post-changelist", "p4-pre-submit", "post-index-change":
		return true
	}
	return false
}

// looksLikeGit reports whether a directory of the view is one that git takes for
// its own.
func (v *view) looksLikeGit(dir string) bool {
	has := func(name string) bool {
		for n, node := range v.kids[dir] {
			if node.typ != "" && fold(n) == strings.ToLower(name) {
				return true
			}
		}
		_, _, err := v.lstat(join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}
