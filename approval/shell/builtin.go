package shell

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// effects returns the states after a command that was judged.
func (j *judge) effects(c *call, prog *program, p *parsed) (ok, fail *state) {
	if prog == nil || !c.bash {
		return c.st, c.st
	}
	name, _ := c.fields[0].lit() // the table's name may be that of a sibling: false is in true's
	switch name {
	case "cd":
		next := j.cd(c, p)
		if j.certain(c, next) {
			return next, nil
		}
		return next, c.st
	case "exit", "true", ":", "false":
		switch {
		case c.stmt == nil || len(c.stmt.Redirs) > 0:
			return c.st, c.st // a redirection that fails makes true fail
		case name == "exit":
			if ops := p.operands(); len(ops) > 1 || len(ops) == 1 && !numeric(*ops[0].value) {
				return c.st, c.st // bash goes on after exit 1 2 and exit --help
			}
			return nil, nil
		case name == "false":
			return nil, c.st
		}
		return c.st, nil
	case "read", "unset":
		next := c.st.clone()
		for _, a := range p.operands() {
			if s, known := a.value.lit(); known {
				delete(next.vars, s)
				if name == "read" {
					next.vars[s] = field{src: "$" + s}
				}
			}
		}
		return next, next
	}
	return c.st, c.st
}

// cdArgs judges where cd goes.
func (j *judge) cdArgs(c *call, p *parsed) {
	operands := p.operands()
	if len(operands) == 0 {
		operands = []arg{{value: &field{src: "~", alts: []string{j.site.Home}}}}
	}
	f := *operands[0].value
	if f.alts == nil {
		j.ask(nil, "cd goes where is known only at run time")
		return
	}
	for _, dir := range f.alts {
		if dir == "-" || dir == "" || strings.HasPrefix(dir, "-") {
			j.ask(nil, "cd goes where is known only at run time")
			continue
		}
		if bad := j.file(Read, dir, c.st); bad != "" {
			j.ask(nil, "%s", bad)
		}
		// Bash takes ".." off the name; programs follow the link. They must agree.
		for _, cwd := range c.st.cwds {
			p := absolute(cwd+"/", dir)
			real, _, ok1 := j.resolve(p)
			clean, _, ok2 := j.resolve(path.Clean(p))
			if !ok1 || !ok2 || real != clean {
				j.ask(nil, "%s goes through a link and back", show(dir))
			}
		}
	}
}

// certain reports whether cd cannot but succeed: the directory was there when
// the text was judged, and nothing that ran since could have removed it.
func (j *judge) certain(c *call, next *state) bool {
	if j.unsteady || c.stmt == nil || len(c.stmt.Redirs) > 0 || next.cwds == nil {
		return false
	}
	for _, dir := range next.cwds {
		if _, kind, ok := j.resolve(dir); !ok || kind != Directory {
			return false
		}
	}
	return true
}

// cd returns the state after cd succeeded.
func (j *judge) cd(c *call, p *parsed) *state {
	out := c.st.clone()
	out.cwds = nil
	dirs := []string{j.site.Home}
	if ops := p.operands(); len(ops) > 0 {
		dirs = ops[0].value.alts
	}
	for _, dir := range dirs {
		if dir == "-" || dir == "" {
			return &state{vars: out.vars}
		}
		if strings.HasPrefix(dir, "/") {
			out.cwds = union(out.cwds, []string{path.Clean(dir)})
			continue
		}
		if c.st.cwds == nil {
			return &state{vars: out.vars}
		}
		for _, cwd := range c.st.cwds {
			out.cwds = union(out.cwds, []string{path.Clean(cwd + "/" + dir)})
		}
	}
	if len(out.cwds) > maxCwds {
		out.cwds = nil
	}
	return out
}

// nameArgs judges builtins whose operands are names of variables: bash reads a
// subscript in one as arithmetic, and some names change how programs work.
func (j *judge) nameArgs(c *call, p *parsed) {
	for _, a := range p.operands() {
		if s, known := a.value.lit(); !known || !localName(s) {
			j.ask(nil, "%s sets %s", show(c.fields[0].show()), show(a.value.show()))
		}
	}
}

// printfArgs judges printf: -v and %n set variables.
func (j *judge) printfArgs(c *call, p *parsed) {
	operands := p.operands()
	if len(operands) == 0 {
		return
	}
	format, known := operands[0].value.lit()
	if !known {
		j.ask(nil, "the format of printf is known only at run time")
		return
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("-+ #0'123456789.*hlLqjzt", format[i]) >= 0; i++ {
		}
		if i < len(format) && format[i] == 'n' {
			j.ask(nil, "%%n in a format of printf sets a variable")
		}
	}
}

// testArgs judges test and [, whose operands bash may read as arithmetic or as
// names of variables.
func (j *judge) testArgs(c *call) {
	fs := c.fields[1:]
	if c.fields[0].is("[") {
		if len(fs) == 0 || !fs[len(fs)-1].is("]") {
			j.ask(nil, "[ lacks its ]")
			return
		}
		fs = fs[:len(fs)-1]
	}
	for i := 0; i < len(fs); i++ {
		f := fs[i]
		if f.many {
			j.ask(nil, "%s may be any part of a test", show(f.src))
			continue
		}
		s, known := f.lit()
		if !known {
			beside := len(fs) == 1 || i+1 < len(fs) && binaryTest(fs[i+1].show()) ||
				i > 0 && (binaryTest(fs[i-1].show()) || unaryTest(fs[i-1].show()))
			if !beside {
				j.ask(nil, "%s may be any part of a test", show(f.src))
			}
			continue
		}
		switch {
		case s == "-v" || s == "-R":
			if next := i + 1; next < len(fs) && !(len(fs[next].alts) == 1 && identifier(fs[next].alts[0])) {
				j.ask(nil, "%s evaluates the name that follows it", s)
			}
		case (s == "-a" || s == "-o") && i > 0 && i+1 < len(fs):
			// They join two tests; what follows begins one.
		case numberTest(s) && i > 0 && i+1 < len(fs):
			for _, side := range []field{fs[i-1], fs[i+1]} {
				// test reads numbers only, unlike [[; a literal that is none is odd.
				if side.alts != nil && !numeric(side) {
					j.ask(nil, "%s may not be a number", show(side.show()))
				}
			}
		case fileTest(s) && i+1 < len(fs) && !(i+2 < len(fs) && binaryTest(fs[i+1].show())):
			i++
			if bad := j.paths(Read, fs[i], c.st, false); bad != "" {
				j.ask(nil, "%s", bad)
			}
		case (s == "-nt" || s == "-ot" || s == "-ef") && i > 0 && i+1 < len(fs):
			for _, side := range []field{fs[i-1], fs[i+1]} {
				if bad := j.paths(Read, side, c.st, false); bad != "" {
					j.ask(nil, "%s", bad)
				}
			}
		}
	}
}

func numberTest(s string) bool {
	switch s {
	case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		return true
	}
	return false
}

func fileTest(s string) bool {
	return len(s) == 2 && s[0] == '-' && strings.IndexByte("abcdefghkprsuwxGLNOS", s[1]) >= 0
}

func unaryTest(s string) bool {
	return s == "!" || s == "-n" || s == "-z" || s == "-t" || fileTest(s)
}

func binaryTest(s string) bool {
	switch s {
	case "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", "-a", "-o":
		return true
	}
	return numberTest(s)
}

// test judges what stands in [[ ]].
func (j *judge) test(x syntax.TestExpr, st *state) {
	if j.depth++; j.depth > maxDepth {
		j.ask(x, "it is nested too deeply")
		j.depth--
		return
	}
	defer func() { j.depth-- }()
	word := func(x syntax.TestExpr, ctx context) field {
		w, ok := x.(*syntax.Word)
		if !ok {
			j.ask(x, "%s is not understood", j.source(x))
			return field{many: true}
		}
		node, f := j.one(w, ctx, st)
		*w = *node
		return f
	}
	switch x := x.(type) {
	case *syntax.Word:
		word(x, inValue)
	case *syntax.ParenTest:
		j.test(x.X, st)
	case *syntax.UnaryTest:
		switch x.Op {
		case syntax.TsNot:
			j.test(x.X, st)
		case syntax.TsEmpStr, syntax.TsNempStr, syntax.TsFdTerm, syntax.TsOptSet:
			word(x.X, inValue)
		case syntax.TsVarSet, syntax.TsRefVar:
			if f := word(x.X, inValue); len(f.alts) != 1 || !identifier(f.alts[0]) {
				j.ask(x, "%s evaluates the name", j.source(x))
			}
		default:
			if bad := j.paths(Read, word(x.X, inValue), st, false); bad != "" {
				j.ask(x, "%s", bad)
			}
		}
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.AndTest, syntax.OrTest:
			j.test(x.X, st)
			j.test(x.Y, st)
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if f := word(side, inValue); !numeric(f) {
					j.ask(x, "%s is read as arithmetic", j.source(x))
				}
			}
		case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
			word(x.X, inValue)
			word(x.Y, inPattern)
		case syntax.TsBefore, syntax.TsAfter:
			word(x.X, inValue)
			word(x.Y, inValue)
		case syntax.TsReMatch:
			word(x.X, inValue)
			j.regexp(x.Y, st)
		case syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if bad := j.paths(Read, word(side, inValue), st, false); bad != "" {
					j.ask(x, "%s", bad)
				}
			}
		default:
			j.ask(x, "%s is not understood", j.source(x))
		}
	default:
		j.ask(x, "%s is not understood", j.source(x))
	}
}

// regexp judges what follows =~, where quotes and backslashes have a meaning of
// their own: only plain text and expansions are read.
func (j *judge) regexp(x syntax.TestExpr, st *state) {
	w, ok := x.(*syntax.Word)
	if !ok {
		j.ask(x, "%s is not understood", j.source(x))
		return
	}
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			for i := range len(l.Value) {
				if c := l.Value[i]; !nameByte(c, 1) && strings.IndexByte("^$.*+?-:/@,=[]", c) < 0 {
					j.ask(x, "the expression %s is not read", j.source(x))
					return
				}
			}
			continue
		}
		if _, ok := p.(*syntax.SglQuoted); !ok {
			j.atoms(w.Parts, false, inValue, st)
			j.ask(x, "the expression %s is not read", j.source(x))
			return
		}
	}
}
