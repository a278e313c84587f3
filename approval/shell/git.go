package shell

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// gitSettings keeps git from running programs that a repository's own
// configuration names. They outrank every file of configuration.
var gitSettings = [...][2]string{
	{"core.fsmonitor", "false"},
	{"core.hooksPath", "/dev/null"},
	{"core.pager", "cat"},
	{"core.editor", ":"},
	{"sequence.editor", ":"},
	{"core.sshCommand", "ssh"},
	{"core.askPass", ""},
	{"core.alternateRefsCommand", ""},
	{"credential.helper", ""},
	{"commit.gpgSign", "false"},
	{"tag.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"log.showSignature", "false"},
	{"gpg.program", "false"}, // and below: verifying a signature runs these as well
	{"gpg.openpgp.program", "false"},
	{"gpg.x509.program", "false"},
	{"gpg.ssh.program", "false"},
	{"gpg.ssh.defaultKeyCommand", ""},
	{"diff.ignoreSubmodules", "dirty"},
	{"diff.submodule", "short"}, // git in a submodule reads that one's configuration and drops these settings
	{"status.submoduleSummary", "false"},
	{"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"},
	{"push.recurseSubmodules", "no"},
	{"protocol.ext.allow", "never"},
	{"safe.bareRepository", "explicit"},
}

// gitLocal are the subcommands that need no other repository.
var gitLocal = []string{"version", "status", "diff", "log", "whatchanged", "show", "shortlog", "blame", "annotate", "grep", "ls-files", "ls-tree",
	"rev-parse", "rev-list", "merge-base", "name-rev", "describe", "cat-file", "count-objects", "check-ignore", "check-attr", "for-each-ref",
	"show-ref", "symbolic-ref", "var", "reflog", "branch", "tag", "config", "stash", "add", "stage", "commit", "checkout", "switch", "restore",
	"reset", "rm", "mv", "clean", "merge", "cherry-pick", "revert", "cherry", "rebase", "apply"}

// gitEnv is the environment in which git runs by a rule. In a partial clone git
// fetches what it lacks by a program that the configuration names; online says
// that the text holds a command whose job it is to fetch.
func gitEnv(online bool) []string {
	env := []string{"GIT_NO_LAZY_FETCH=1"} // git 2.45 and later
	if !online {
		env = append(env, "GIT_ALLOW_PROTOCOL=none") // outranks protocol.*.allow
	}
	env = append(env,
		"GIT_PAGER=cat", "PAGER=cat", "GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT="+strconv.Itoa(len(gitSettings)),
	)
	for i, s := range gitSettings {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s[0], "GIT_CONFIG_VALUE_"+n+"="+s[1])
	}
	return env
}

// gitPayloads lets denies see what git is told to run: by an alias that the
// command line makes, after each commit of a rebase, in each submodule.
func (j *judge) gitPayloads(c *call, p *parsed) {
	if len(p.sub) == 0 || len(j.rules.Deny) == 0 {
		return
	}
	rest := c.fields[p.subs[0]+1:]
	for _, a := range p.args {
		if a.value == nil {
			continue
		}
		s, _ := a.value.lit()
		switch {
		case a.name == "-c":
			name, text, _ := strings.Cut(s, "=")
			if !strings.EqualFold(name, "alias."+p.sub[0]) {
				continue
			}
			if shell, ok := strings.CutPrefix(text, "!"); ok {
				j.nested(shell, syntax.LangPOSIX, c.st)
				continue
			}
			fields := []field{c.fields[0]}
			for w := range strings.FieldsSeq(text) {
				fields = append(fields, literal(w))
			}
			j.denied(&call{fields: append(fields, rest...), st: c.st, idx: c.idx}, "git")
		case a.name == "-x" && p.sub[0] == "rebase":
			j.nested(s, syntax.LangPOSIX, c.st)
		}
	}
	if p.sub[0] == "submodule" && len(rest) > 1 && rest[0].is("foreach") {
		j.nested(strings.Join(words(rest[1:]), " "), syntax.LangPOSIX, c.st)
	}
}

// gitWriters write the files that their operands name.
var gitWriters = []string{"checkout", "restore", "rm"}

// gitOperand judges the file that an operand of git's names: a path, with magic or
// without, or one in a revision or the index. certain says that it can be no
// revision, follow that git reads any two files that are given (git diff does,
// outside a repository or for paths outside it).
func (j *judge) gitOperand(op Op, s string, certain, follow bool, st *state) string {
	tops := union([]string{j.root}, st.cwds) // a path may be relative to either
	if magic, ok := strings.CutPrefix(s, ":"); ok {
		rest := strings.TrimLeft(magic, "/!^")
		signs := magic[:len(magic)-len(rest)]
		if strings.HasPrefix(magic, "(") {
			signs, rest, _ = strings.Cut(magic, ")")
		} else if _, file, stage := strings.Cut(rest, ":"); stage {
			rest = file
		}
		if strings.ContainsAny(signs, "!^") || strings.Contains(signs, "exclude") {
			return "" // it is left out
		}
		return j.gitName(op, rest, s, tops)
	}
	if !certain {
		// A revision may hold colons too, so every one may be what ends it.
		for i := range len(s) {
			if s[i] == ':' {
				if bad := j.gitName(op, s[i+1:], s, tops); bad != "" {
					return bad
				}
			}
		}
		there := false
		for _, cwd := range st.cwds {
			_, kind, ok := j.resolve(absolute(cwd+"/", s))
			there = there || !ok || kind != Missing && j.fs != (NoFS{})
		}
		if !there {
			return ""
		}
	}
	if follow {
		return j.file(Read, s, st)
	}
	return j.gitName(op, s, s, st.cwds)
}

// gitName judges a path inside a repository, where git follows no link.
func (j *judge) gitName(op Op, name, text string, dirs []string) string {
	if name == "" || j.rules.Files == nil {
		return ""
	}
	for _, cwd := range dirs {
		p := path.Clean(absolute(cwd+"/", name))
		if !j.inside(p) {
			continue // not in this repository
		}
		rel := j.relative(p)
		j.note(File{Path: rel, Op: op})
		if bad := j.filesRule(op, rel, text); bad != "" {
			return bad
		}
	}
	return ""
}

// verifies reports whether an option's value makes git verify signatures.
func verifies(option, value string) bool {
	switch option {
	case "--format", "--pretty", "--sort":
	default:
		return false
	}
	if strings.Contains(value, "signature") {
		return true
	}
	for rest := value; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return false
		}
		if rest = strings.TrimLeft(rest[i+1:], "+- "); strings.HasPrefix(rest, "G") {
			return true
		}
		rest = strings.TrimPrefix(rest, "%")
	}
}

// maxGitConfig is how long a repository's configuration may be: git writes some
// hundred bytes, and a few for each branch.
const maxGitConfig = 256 << 10

// gitObjects are the subcommands that look at no file of the work tree, so that
// they run no filter on one.
var gitObjects = []string{"version", "log", "whatchanged", "show", "shortlog", "ls-tree", "rev-parse", "rev-list", "merge-base", "name-rev",
	"cat-file", "count-objects", "for-each-ref", "show-ref", "symbolic-ref", "var", "reflog", "branch", "tag", "config", "remote", "fetch",
	"push", "ls-remote", "cherry", "grep"}

// gitFilters asks about a command that looks at the work tree if the
// configuration of the repository names programs to filter files, or takes in
// another file, which may.
func (j *judge) gitFilters(p *parsed) {
	r, ok := j.fs.(Reader)
	if !ok || len(p.sub) == 0 || slices.Contains(gitObjects, p.sub[0]) {
		return
	}
	for _, name := range []string{"config", "config.worktree"} {
		real, kind, ok := j.resolve(j.root + "/.git/" + name)
		if ok && kind == Missing {
			continue
		}
		text, err := r.Read(real, maxGitConfig)
		low := strings.ToLower(string(text))
		if !ok || err != nil {
			j.ask(nil, "the configuration of the repository cannot be read")
		} else if strings.Contains(low, "[filter") || strings.Contains(low, "[include") {
			j.ask(nil, "the configuration of the repository names filters or further files, and git %s may run them", p.sub[0])
		}
	}
}

// gitArgs judges where git runs, and puts the options behind the subcommand
// that keep programs named by attributes off.
func (j *judge) gitArgs(c *call, p *parsed, m *match) {
	j.git = true
	j.gitFilters(p)
	if len(p.sub) > 0 && !slices.Contains(gitLocal, p.sub[0]) && !(p.sub[0] == "remote" && len(p.operands()) == 0) {
		j.online = true
	}
	for _, a := range p.args {
		if a.opt == nil || a.value == nil {
			continue
		}
		for _, s := range a.value.alts {
			switch {
			case m.covers(a.at, a.name):
			case verifies(a.name, s):
				j.ask(nil, "%s verifies signatures with a program that the configuration names", show(s))
			case a.name == "--ignore-submodules" && s != "all" && s != "dirty":
				j.ask(nil, "option %s=%s makes git work in submodules, whose configuration may name programs", a.name, show(s))
			}
		}
	}
	dashes := slices.IndexFunc(c.fields, func(f field) bool { return f.is("--") })
	op := Read
	if len(p.sub) > 0 && slices.Contains(gitWriters, p.sub[0]) {
		op = Change
	}
	for i, a := range p.operands() {
		if !slices.Contains(p.prog.operands, roleRev) || i == 0 && p.prog.role(0) == roleText && !p.has(p.prog.entry.Without) {
			continue
		}
		for _, s := range a.value.alts {
			certain := dashes >= 0 && a.at > dashes || op == Change && p.sub[0] != "checkout"
			if bad := j.gitOperand(op, s, certain, p.prog.name == "diff", c.st); bad != "" {
				j.ask(nil, "%s", bad)
			}
		}
	}
	if c.st.cwds == nil {
		j.ask(nil, "the directory in which git runs is not known")
	}
	for _, cwd := range c.st.cwds {
		real, _, ok := j.resolve(cwd)
		if !ok || !j.inside(real) {
			j.ask(nil, "git runs outside the workspace, where its configuration may name programs")
			continue
		}
		for dir := real; dir != j.root; dir = path.Dir(dir) {
			if _, kind, ok := j.resolve(dir + "/.git"); !ok || kind != Missing && j.fs != (NoFS{}) {
				j.ask(nil, "%s is a repository of its own, whose configuration may name programs", show(j.relative(dir)))
				break
			}
		}
	}
	insert := p.prog.entry.Insert
	if len(insert) == 0 || len(p.subs) == 0 || c.node == nil || m.missing {
		return
	}
	word := c.fields[p.subs[len(p.subs)-1]].word
	if word >= len(c.node.Args) {
		return
	}
	after, node := c.node.Args[word], c.node
	j.edits = append(j.edits, func() {
		i := slices.Index(node.Args, after)
		if i < 0 {
			return
		}
		var more []*syntax.Word
		for _, s := range insert {
			more = append(more, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: s}}})
		}
		node.Args = slices.Insert(node.Args, i+1, more...)
	})
}
