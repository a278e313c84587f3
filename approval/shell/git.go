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
	{"gpg.program", "false"},
	{"diff.ignoreSubmodules", "dirty"},
	{"submodule.recurse", "false"},
	{"protocol.ext.allow", "never"},
	{"safe.bareRepository", "explicit"},
}

// gitEnv is the environment in which git runs by a rule.
func gitEnv() []string {
	env := []string{
		"GIT_PAGER=cat", "PAGER=cat", "GIT_EDITOR=:", "GIT_SEQUENCE_EDITOR=:", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=" + strconv.Itoa(len(gitSettings)),
	}
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

// gitArgs judges where git runs, and puts the options behind the subcommand
// that keep programs named by attributes off.
func (j *judge) gitArgs(c *call, p *parsed, m *match) {
	j.git = true
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
