package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Links are followed when a text is judged. A text that makes, moves or unpacks
// links could lead its own later commands out of the workspace, so once it may
// have done so, what it names afterwards is asked about.

// moves notes that a command may have put a link somewhere.
func (j *judge) moves(c *call, prog *program, p *parsed) {
	if j.moved || prog == nil || p == nil {
		return
	}
	switch prog.name {
	case "cp", "mv", "install":
		sources := p.operands()
		if !p.has("-t") && len(sources) > 0 {
			sources = sources[:len(sources)-1]
		}
		for _, a := range sources {
			if a.value.alts == nil || slices.ContainsFunc(a.value.alts, func(s string) bool { return j.linked(s, c.st) }) {
				j.moved = true
			}
		}
	case "ln":
		j.moved = true
	case "tar":
		j.moved = p.has("-x")
	case "unzip":
		j.moved = !p.has("-l -v -t -Z -z -p")
	case "git":
		if len(p.sub) > 0 && slices.Contains(gitMovers, p.sub[0]) {
			j.moved = true
		}
	}
}

// gitMovers are the subcommands of git's that write files of the work tree.
var gitMovers = []string{"checkout", "switch", "restore", "reset", "merge", "rebase", "pull", "cherry-pick", "revert", "stash", "apply", "am",
	"worktree", "submodule", "clone", "bisect", "mv", "read-tree", "checkout-index"}

// linked reports whether a path may be a link, or have one below it.
func (j *judge) linked(text string, st *state) bool {
	cwds := st.cwds
	if strings.HasPrefix(text, "/") {
		cwds = []string{""}
	}
	for _, cwd := range cwds {
		p := strings.TrimRight(absolute(cwd+"/", text), "/")
		i := strings.LastIndexByte(p, '/')
		dir, _, ok1 := j.resolve(p[:i+1])
		real, kind, ok2 := j.resolve(p)
		if !ok1 || !ok2 || real != strings.TrimSuffix(dir, "/")+p[i:] {
			return true
		}
		switch kind {
		case Regular, Executable, Missing:
		case Directory:
			if j.linksBelow(real) {
				return true
			}
		default:
			return true
		}
	}
	return cwds == nil
}

func (j *judge) linksBelow(dir string) bool {
	for queue := []string{dir}; len(queue) > 0; {
		d := queue[0]
		queue = queue[1:]
		names, ok := j.list(d)
		if !ok {
			return true
		}
		for _, e := range names {
			if e.Link {
				return true
			}
			if e.Dir {
				queue = append(queue, d+"/"+e.Name)
			}
		}
	}
	return false
}

// movesAround notes before a loop, a pipeline or a job in the background that
// something in it may put a link somewhere: what stands before it there may run
// after it.
func (j *judge) movesAround(n syntax.Node) {
	if j.moved {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for i, w := range c.Args {
			s, _ := plainText(w)
			rest := c.Args[i+1:]
			switch s {
			case "ln", "cp", "mv", "install":
				j.moved = true
			case "git":
				j.moved = j.moved || anyWord(rest, func(s string) bool { return slices.Contains(gitMovers, s) })
			case "tar", "gtar", "bsdtar":
				j.moved = j.moved || anyWord(rest, func(s string) bool {
					return s == "--get" || strings.HasPrefix(s, "--ex") || !strings.HasPrefix(s, "--") && strings.Contains(s, "x")
				})
			case "unzip":
				j.moved = j.moved || !anyWord(rest, func(s string) bool { return s == "-l" || s == "-p" || s == "-t" })
			}
		}
		return true
	})
}

func anyWord(words []*syntax.Word, is func(string) bool) bool {
	return slices.ContainsFunc(words, func(w *syntax.Word) bool {
		s, _ := plainText(w)
		return is(s)
	})
}
