package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command while it is judged.
type call struct {
	fields []field
	st     *state
	chain  []string // the wrappers round it
	bash   bool     // bash runs it, so that a builtin's name means the builtin
	node   *syntax.CallExpr
	stmt   *syntax.Stmt
	before *syntax.Stmt // what feeds it through a pipe
	idx    int
	line   int
}

// begin records a command and makes reasons belong to it.
func (j *judge) begin(line int, fields []field, chain []string) int {
	if len(j.res.Commands) >= maxCommands {
		j.ask(nil, "the text holds more than %d commands", maxCommands)
		j.res.Commands = j.res.Commands[:maxCommands-1]
	}
	c := Command{Words: words(fields), Literal: true, Wrappers: chain, Verdict: Allow, Line: line}
	for _, f := range fields {
		if _, ok := f.lit(); !ok || f.glob {
			c.Literal = false
		}
	}
	j.res.Commands = append(j.res.Commands, c)
	j.cmd = len(j.res.Commands) - 1
	return j.cmd
}

// call judges a simple command of the text.
func (j *judge) call(n *syntax.CallExpr, s *syntax.Stmt, before *syntax.Stmt, st *state) (ok, fail *state) {
	next, line := st, j.lineOf(n)
	for _, a := range n.Assigns {
		if len(n.Args) > 0 && n.Args[0].Lit() == "read" && a.Name != nil && a.Name.Value == "IFS" && a.Index == nil && a.Array == nil {
			a.Value, _ = j.one(a.Value, inValue, st) // it is how this read splits, and no more
			continue
		}
		next = j.assign(a, len(n.Args) > 0, next)
	}
	if len(n.Args) == 0 {
		return next, next
	}
	var args []*syntax.Word
	var fields []field
	for _, w := range n.Args {
		nodes, lists := j.expand(w, st)
		if len(args) == 0 && strings.Contains(j.source(w), "{") {
			j.ask(w, "the braces in %s name a program", j.source(w))
		}
		for i := range nodes {
			for k := range lists[i] {
				lists[i][k].word = len(args)
			}
			args = append(args, nodes[i])
			fields = append(fields, lists[i]...)
		}
	}
	if len(args) == 0 {
		j.ask(n, "%s holds no word", j.source(n))
		return st, st
	}
	n.Args = args
	return j.run(&call{fields: fields, st: st, bash: true, node: n, stmt: s, before: before, line: line})
}

// run judges a command line, which may be a wrapper's payload.
func (j *judge) run(c *call) (ok, fail *state) {
	outer := j.cmd
	defer func() { j.cmd = outer }()
	c.idx = j.begin(c.line, c.fields, c.chain)
	if len(c.chain) > maxChain {
		j.ask(nil, "too many programs run one another")
		return c.st, c.st
	}
	name, known := c.fields[0].lit()
	if !known || c.fields[0].glob {
		j.ask(nil, "what %s runs is known only when it runs", show(c.fields[0].src))
		for _, alt := range c.fields[0].alts {
			j.denied(c, alt)
		}
		return c.st, c.st
	}
	prog := j.program(name)
	if prog != nil && prog.entry.Builtin && !prog.outside() && !c.bash {
		j.ask(nil, "%s is a part of bash and no program", show(name))
	}
	j.denied(c, name)
	if name == "" || reserved(name) || strings.Contains(name, "=") {
		j.ask(nil, "%s is no name of a program", show(name))
		return c.st, c.st
	}
	if strings.ContainsRune(name, '/') {
		j.located(c, name)
	} else if !c.bash || prog == nil || !prog.entry.Builtin {
		j.found(c, name)
	}
	p := c.parsed(prog)
	if !prog.looksOnly() {
		defer func() { j.unsteady = true }()
	}
	if p != nil && prog.entry.Special == "git" {
		j.gitPayloads(c, p)
	}
	if p != nil && (p.prog.entry.Wrapper != "" || p.prog.entry.Shell) {
		return j.wrap(c, prog, p)
	}
	if j.named(c, prog, p) {
		j.moves(c, prog, p)
		return j.effects(c, prog, p)
	}
	return c.st, c.st
}

// looksOnly reports whether a program leaves the file system as it is, so that
// a directory that was there is there after it.
func (p *program) looksOnly() bool {
	if p == nil || p.runs() || slices.Contains(p.operands, roleChange) {
		return false
	}
	switch p.file {
	case "text.toml", "builtin.toml", "system.toml":
		return p.entry.Why == ""
	case "file.toml":
		return p.entry.Special != "archive" && p.entry.Special != "dd" && p.entry.Special != "unzip"
	}
	return false
}

// parsed reads the command line by the program's table, if it has one that
// says how.
func (c *call) parsed(prog *program) *parsed {
	if prog == nil || prog.entry.Special != "" && prog.entry.Style == "special" {
		return nil
	}
	return parse(c.fields, prog)
}

// outside reports whether a builtin exists as a program too.
func (p *program) outside() bool {
	switch p.name {
	case "echo", "printf", "test", "true", "false", "pwd":
		return true
	}
	return false
}

// program finds the table for a command word.
func (j *judge) program(name string) *program {
	if !strings.ContainsRune(name, '/') {
		return lookup(name)
	}
	// A file is known by what it runs, not by how it is called: only that it
	// runs other programs matters, since no table covers a file.
	for _, base := range j.bases(name, nil) {
		if p := lookup(base); p != nil && p.runs() {
			return p
		}
	}
	return nil
}

// bases are the names by which a rule may mean the file that a command word
// names.
func (j *judge) bases(name string, st *state) []string {
	out := []string{path.Base(name)}
	p := name
	if !strings.HasPrefix(p, "/") {
		p = j.site.Cwd + "/" + p
		if st != nil && len(st.cwds) == 1 {
			p = st.cwds[0] + "/" + name
		}
	}
	if real, kind, ok := j.resolve(p); ok && kind != Missing {
		out = append(out, path.Base(real))
	}
	return out
}

// found looks a name up in the fixed PATH.
func (j *judge) found(c *call, name string) {
	real, ok := j.programs[name]
	if !ok {
		for _, dir := range j.site.Path {
			if !strings.HasPrefix(dir, "/") {
				continue
			}
			if r, kind, ok := j.resolve(dir + "/" + name); ok && kind == Executable {
				real = r
				break
			}
		}
		j.programs[name] = real
	}
	j.res.Commands[c.idx].Program = real
	if real != "" && j.inside(real) {
		j.ask(nil, "%s is found in the workspace, and rules name programs outside it", show(name))
	}
}

// located looks at a command word that is a path.
func (j *judge) located(c *call, name string) {
	p := name
	if !strings.HasPrefix(name, "/") {
		if len(c.st.cwds) != 1 {
			j.ask(nil, "the directory in which %s lies is not known", show(name))
			return
		}
		p = c.st.cwds[0] + "/" + name
	}
	if real, kind, ok := j.resolve(p); ok && kind == Executable {
		j.res.Commands[c.idx].Program = real
	}
}

// named looks for the rule that allows a command and judges what the rule does
// not cover. It reports whether the command's effects on the shell are known.
func (j *judge) named(c *call, prog *program, p *parsed) bool {
	m := j.allowed(c, prog, p)
	switch {
	case m != nil:
		j.allow = true
		if p := &j.res.Commands[c.idx].Pattern; *p == nil {
			*p = m.pattern
		}
	case prog != nil && prog.entry.Free && (c.bash || prog.outside()):
		m = &match{}
		if c.fields[0].is(":") && len(j.rules.Allow) > 0 {
			j.allow = true // it does nothing, and a text may be nothing else
		}
	case harmlessTee(c, p):
		m = &match{}
	case p != nil && len(p.sub) > 0 && j.namesProgram(c):
		j.ask(nil, "no rule covers %s", show(p.title()))
	default:
		j.ask(nil, "no rule names %s", show(c.fields[0].show()))
	}
	if m == nil {
		m = &match{missing: true}
	}
	if prog == nil {
		if m.pattern != nil && !m.pattern.Exact && m.spelled < len(c.fields) && !declaration(c.fields[0]) {
			j.ask(nil, "nothing is known of what %s does with %s", show(c.fields[0].show()), show(c.fields[m.spelled].show()))
		}
		return true
	}
	if prog.entry.Interp && p != nil && p.prog == prog && len(p.operands()) == 0 && !p.has("-V --version -v -h --help") {
		j.ask(nil, "%s runs what it reads", show(prog.name))
	}
	question := prog.entry.Interp && p != nil && len(p.bad) == 0 && len(p.operands()) == 0 && len(p.args) > 0 // --version
	if why := whyOf(prog, p); why != "" && !question && (m.pattern == nil || !m.pattern.Exact) {
		j.ask(nil, "%s", why)
	}
	j.arguments(c, prog, p, m)
	return true
}

// whyOf returns why a program, or this subcommand of it, is always asked about.
func whyOf(prog *program, p *parsed) string {
	if p != nil && p.prog.entry.Why != "" {
		return p.prog.entry.Why
	}
	return prog.entry.Why
}

func declaration(f field) bool {
	s, _ := f.lit()
	return slices.Contains([]string{"export", "declare", "typeset", "local", "readonly"}, s)
}

// namesProgram reports whether a rule names the program with other words.
func (j *judge) namesProgram(c *call) bool {
	return slices.ContainsFunc(j.rules.Allow, func(p Pattern) bool { return len(p.Words) > 0 && c.fields[0].is(p.Words[0]) })
}

// harmlessTee reports whether the command is a tee to nowhere, which needs no
// rule: it is what cat is.
func harmlessTee(c *call, p *parsed) bool {
	if p == nil || p.prog.name != "tee" || len(p.bad) > 0 {
		return false
	}
	for _, a := range p.operands() {
		if !a.value.is("/dev/null") {
			return false
		}
	}
	return true
}
