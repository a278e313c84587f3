package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrap judges a program that runs another one: what it runs is judged by the
// same rules. A rule for the wrapper never covers its payload.
func (j *judge) wrap(c *call, root *program, p *parsed) (ok, fail *state) {
	prog := p.prog // of the subcommand, if it is one that wraps
	e := &prog.entry
	if e.Special == "command" && p.has("-v -V") {
		j.named(c, prog, &parsed{prog: prog, args: optionsOf(p), bad: p.bad})
		return c.st, c.st
	}
	m := j.allowed(c, root, p)
	if m == nil {
		m = &match{missing: true}
	}
	for _, b := range p.bad {
		j.ask(nil, "%s", b.text)
	}
	st := j.values(c, &parsed{prog: prog, sub: p.sub, args: optionsOf(p)}, m, c.st)
	if e.Why != "" {
		j.ask(nil, "%s", e.Why)
	}
	if e.Rule && m.pattern == nil {
		j.ask(nil, "no rule names %s", show(prog.name))
	}
	if e.Foreign {
		j.ask(nil, "what %s runs does not run where these rules hold", show(p.title()))
	}
	if m.pattern != nil && j.res.Commands[c.idx].Pattern == nil {
		j.res.Commands[c.idx].Pattern = m.pattern
	}
	if e.Shell {
		j.shellCall(c, prog, p, m)
		return c.st, c.st
	}
	operands := p.operands()
	switch e.Wrapper {
	case "text": // the value of -c
		for _, a := range p.args {
			if a.opt != nil && a.name == "-c" && a.value != nil {
				j.payloadText(c, *a.value, syntax.LangPOSIX)
			}
		}
		return c.st, c.st
	case "joined": // the rest, joined by blanks
		n := min(len(prog.operands), len(operands))
		var texts []string
		for _, a := range operands[n:] {
			s, known := a.value.lit()
			if !known {
				j.ask(nil, "what %s runs is known only when it runs", show(prog.name))
				return c.st, c.st
			}
			texts = append(texts, s)
		}
		lang := syntax.LangPOSIX
		if prog.name == "eval" {
			lang = syntax.LangBash
		}
		j.nested(strings.Join(texts, " "), lang, c.st)
		return c.st, c.st
	case "first": // the first operand
		if len(operands) > 0 {
			j.payloadText(c, *operands[0].value, syntax.LangBash)
		}
		return c.st, c.st
	case "values": // alias name=text
		for _, a := range operands {
			if s, known := a.value.lit(); known {
				if _, text, has := strings.Cut(s, "="); has {
					j.nested(text, syntax.LangBash, c.st)
				}
			}
		}
		return c.st, c.st
	}
	n := len(prog.operands)
	if e.Special == "env" || e.Special == "sudo" {
		for n < len(operands) {
			s, known := operands[n].value.lit()
			name, value, has := strings.Cut(s, "=")
			if !known || !has {
				break
			}
			if !harmlessSetting(name, value) {
				j.ask(nil, "%s changes how the program works", show(s))
			}
			n++
		}
	}
	if e.Special == "nohup" && !redirected(c.stmt) {
		if bad := j.file(Write, "nohup.out", c.st); bad != "" {
			j.ask(nil, "%s", bad)
		}
	}
	if e.Special == "xargs" {
		j.xargs(c, p, operands, st)
		return c.st, c.st
	}
	if e.Special == "env" {
		for _, a := range p.args {
			if a.name == "-S" && a.value != nil { // it is asked about; denies see its words
				text, _ := a.value.lit()
				j.nested(text, syntax.LangPOSIX, c.st)
			}
		}
	}
	if e.Special == "flock" && n+1 < len(operands) && (operands[n].value.is("-c") || operands[n].value.is("--command")) {
		j.payloadText(c, *operands[n+1].value, syntax.LangPOSIX)
		return c.st, c.st
	}
	if e.Why != "" {
		// An option that is not known may take the next word, and some have a word
		// of their own first (poetry run): denies look at the words behind it too.
		for k := n + 1; k < min(n+5, len(operands)); k++ {
			if name, known := operands[k].value.lit(); known {
				j.denied(&call{fields: c.fields[operands[k].at:], st: c.st, idx: c.idx}, name)
			}
		}
	}
	if n >= len(operands) {
		if e.Special == "env" && m.pattern != nil && m.pattern.Exact {
			j.allow = true
			return c.st, c.st
		}
		j.ask(nil, "%s runs nothing here", show(prog.name))
		return c.st, c.st
	}
	inBash := c.bash && (e.Special == "command" || e.Special == "builtin")
	ok, fail = j.payload(c, c.fields[operands[n].at:], inBash, c.st)
	if inBash {
		return ok, fail
	}
	return c.st, c.st
}

func optionsOf(p *parsed) []arg {
	var out []arg
	for _, a := range p.args {
		if a.name != "" {
			out = append(out, a)
		}
	}
	return out
}

// redirected reports whether a statement's output goes somewhere else.
func redirected(s *syntax.Stmt) bool {
	if s == nil {
		return false
	}
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob:
			if r.N == nil || r.N.Value == "1" {
				return true
			}
		}
	}
	return false
}

// payload judges the words that a wrapper runs.
func (j *judge) payload(c *call, fields []field, inBash bool, st *state) (ok, fail *state) {
	name := c.fields[0].show()
	return j.run(&call{
		fields: fields, st: st, bash: inBash, node: c.node, before: c.before, line: c.line,
		chain: append(c.chain[:len(c.chain):len(c.chain)], name),
	})
}

// payloadText judges a word that a shell reads as commands. If all of it can
// be read, the word is replaced by what was read.
func (j *judge) payloadText(c *call, f field, lang syntax.LangVariant) {
	text, known := f.lit()
	if !known {
		j.ask(nil, "what %s runs is known only when it runs", show(c.fields[0].show()))
		for _, alt := range f.alts {
			j.nested(alt, lang, c.st)
		}
		return
	}
	file := j.nested(text, lang, c.st)
	if file == nil || c.node == nil || f.word >= len(c.node.Args) {
		return
	}
	w := c.node.Args[f.word]
	if l, _ := c.fields[0].lit(); len(file.Stmts) == 0 {
		j.ask(nil, "%s runs nothing here", show(l))
	}
	j.edits = append(j.edits, func() {
		out, ok := printFile(file, lang)
		if !ok {
			out = "exit 126" // the outer text's check finds that it reads differently
		}
		if strings.Count(out, "\n") == 1 {
			out = strings.TrimSuffix(out, "\n")
		}
		w.Parts = print1(quotedAtoms(out), inArgs).Parts
	})
}

func quotedAtoms(s string) []atom {
	out := make([]atom, len(s))
	for i := range len(s) {
		out[i] = atom{c: s[i], quoted: true}
	}
	return out
}

// nested walks a text within the text.
func (j *judge) nested(text string, lang syntax.LangVariant, st *state) *syntax.File {
	if j.scripts >= maxScripts {
		j.ask(nil, "texts within texts are nested too deeply")
		return nil
	}
	line, cmd, outer := j.line, j.cmd, j.lang
	if j.line == 0 {
		j.line = 1
		if cmd >= 0 {
			j.line = max(j.res.Commands[cmd].Line, 1)
		}
	}
	j.scripts++
	j.lang = lang
	// Only the environment of a shell reaches the next one.
	file := j.text(text, lang, &state{cwds: st.cwds, vars: map[string]field{}})
	j.lang = outer
	j.scripts--
	j.line, j.cmd = line, cmd
	return file
}

// shellCall judges a shell: the text after -c is judged, a script is not.
func (j *judge) shellCall(c *call, prog *program, p *parsed, m *match) {
	j.shells = true
	operands := p.operands()
	lang := syntax.LangPOSIX
	switch base, _ := c.fields[0].lit(); {
	case prog.name == "bash":
		lang = syntax.LangBash
	case prog.name != "sh":
		lang = syntax.LangBash
		j.ask(nil, "%s reads text in its own way", show(base))
	}
	if p.has("-c") {
		if len(operands) == 0 {
			j.ask(nil, "%s runs nothing here", show(prog.name))
			return
		}
		f := *operands[0].value
		for _, chained := range c.chain {
			if chained == "find" && strings.Contains(f.show(), "{}") {
				f.alts = nil
			}
		}
		j.payloadText(c, f, lang)
		return
	}
	if len(operands) == 0 || p.has("-s") {
		j.ask(nil, "%s runs what it reads", show(prog.name))
		j.stdinText(c, lang)
		return
	}
	script := operands[0]
	if !m.covers(script.at, "") || m.pattern == nil {
		j.ask(nil, "a rule for a shell covers no script that it does not name")
		return
	}
	j.allow = true
	if bad := j.paths(Read, *script.value, c.st, false); bad != "" {
		j.ask(nil, "%s", bad)
	}
	if len(operands) > 1 && !m.pattern.Exact && m.spelled < len(c.fields) {
		j.ask(nil, "nothing is known of what %s does with %s", show(script.value.show()), show(operands[1].value.show()))
	}
}

// stdinText lets denies see the text that a shell is fed literally.
func (j *judge) stdinText(c *call, lang syntax.LangVariant) {
	if c.before != nil {
		if n, ok := c.before.Cmd.(*syntax.CallExpr); ok && len(n.Args) > 1 && (n.Args[0].Lit() == "echo" || n.Args[0].Lit() == "printf") {
			var words []string
			for _, w := range n.Args[1:] {
				s, _ := plainText(w)
				words = append(words, s)
			}
			j.nested(strings.Join(words, " "), lang, c.st)
		}
	}
	if c.stmt == nil {
		return
	}
	for _, r := range c.stmt.Redirs {
		var w *syntax.Word
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			w = r.Hdoc
		case syntax.WordHdoc:
			w = r.Word
		}
		if w == nil {
			continue
		}
		var b strings.Builder
		for _, p := range w.Parts {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			}
		}
		j.nested(b.String(), lang, c.st)
	}
}

// xargs judges what xargs runs with the words that it reads.
func (j *judge) xargs(c *call, p *parsed, operands []arg, st *state) {
	fields := []field{literal("echo")}
	if len(operands) > 0 {
		fields = append([]field(nil), c.fields[operands[0].at:]...)
	}
	read := field{src: "what xargs reads", many: true}
	if s := j.source4xargs(c, p); s != nil {
		read = field{src: "what find finds", kind: found, find: s, many: true}
	}
	replace := ""
	for _, a := range p.args {
		switch {
		case a.name == "-I" && a.value != nil:
			if replace = a.value.show(); len(a.value.alts) != 1 || replace == "" {
				j.ask(nil, "what xargs replaces is known only when it runs")
				return
			}
		case a.name == "-i":
			if replace = "{}"; a.value != nil {
				replace = a.value.show()
			}
		}
	}
	if replace == "" {
		j.payload(c, append(fields, read), false, st)
		return
	}
	for i, f := range fields {
		s, known := f.lit()
		switch {
		case known && s == replace:
			fields[i] = read
			fields[i].many, fields[i].word = false, f.word
		case known && strings.Contains(s, replace):
			fields[i] = field{src: s, prefix: s[:strings.Index(s, replace)], word: f.word}
		}
	}
	j.payload(c, fields, false, st)
}
