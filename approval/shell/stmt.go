package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts walks a list of statements. It returns the states after the last one
// succeeded and after it failed, nil where that cannot happen. States are never
// changed in place.
func (j *judge) stmts(list []*syntax.Stmt, st *state) (ok, fail *state) {
	ok, fail = st, st
	cur, reached := st, true
	for _, s := range list {
		ok, fail = j.stmt(s, cur)
		next := join(ok, fail)
		if reached = reached && next != nil; next != nil {
			cur = next // what follows an exit is judged as if it were reached
		}
	}
	if !reached {
		return nil, nil
	}
	return ok, fail
}

func (j *judge) stmt(s *syntax.Stmt, st *state) (ok, fail *state) {
	if j.depth++; j.depth > maxDepth {
		j.ask(s, "it is nested too deeply")
		j.depth--
		return st, st
	}
	ok, fail = j.stmt1(s, st, nil)
	j.depth--
	return ok, fail
}

// stmt1 is stmt; before is what feeds the statement through a pipe.
func (j *judge) stmt1(s *syntax.Stmt, st *state, before *syntax.Stmt) (ok, fail *state) {
	s.Comments = nil
	if s.Coprocess || s.Disown {
		j.ask(s, "%s is no syntax of bash's", j.source(s))
	}
	if s.Background {
		j.movesAround(s)
	}
	for _, r := range s.Redirs {
		j.redirect(r, st)
	}
	if c, isCall := s.Cmd.(*syntax.CallExpr); isCall {
		ok, fail = j.call(c, s, before, st)
	} else {
		ok, fail = j.command(s, st)
	}
	if s.Negated {
		ok, fail = fail, ok
	}
	if s.Background {
		return st, st
	}
	return ok, fail
}

func (j *judge) command(s *syntax.Stmt, st *state) (ok, fail *state) {
	switch c := s.Cmd.(type) {
	case nil:
		return st, st
	case *syntax.BinaryCmd:
		return j.binary(s, st)
	case *syntax.Subshell:
		c.Last = nil
		j.stmts(c.Stmts, st)
		return st, st
	case *syntax.Block:
		c.Last = nil
		return j.stmts(c.Stmts, st)
	case *syntax.IfClause:
		return j.ifClause(c, st)
	case *syntax.WhileClause:
		c.CondLast, c.DoLast = nil, nil
		wide := j.widen(st, c)
		condOK, condFail := j.stmts(c.Cond, wide)
		if c.Until {
			condOK, condFail = condFail, condOK
		}
		if condOK == nil {
			condOK = wide
		}
		bodyOK, bodyFail := j.stmts(c.Do, condOK)
		out := join(join(condFail, wide), join(bodyOK, bodyFail))
		return out, out
	case *syntax.ForClause:
		return j.forClause(c, st)
	case *syntax.CaseClause:
		return j.caseClause(c, st)
	case *syntax.TestClause:
		j.test(c.X, st)
		return st, st
	case *syntax.ArithmCmd:
		if c.Unsigned {
			j.ask(c, "%s is no arithmetic of bash's", j.source(c))
		}
		j.arithm(c.X, st)
		next := setNumbers(st, c.X)
		return next, next
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			j.arithm(x, st)
		}
		next := setNumbers(st, c.Exprs...)
		return next, next
	case *syntax.DeclClause:
		return j.declare(c, st)
	case *syntax.TimeClause:
		if c.Stmt == nil {
			return st, st
		}
		return j.stmt(c.Stmt, st)
	case *syntax.CoprocClause:
		j.ask(c, "a coprocess is not followed")
		j.stmt(c.Stmt, st)
		return st, st
	case *syntax.FuncDecl:
		j.ask(c, "a function changes what a name means")
		j.stmt(c.Body, &state{vars: map[string]field{}})
		return st, st
	}
	j.ask(s, "%s is not understood", j.source(s))
	return st, st
}

// binary walks lists and pipelines. The tree leans to the left, so it is
// unrolled instead of followed.
func (j *judge) binary(s *syntax.Stmt, st *state) (ok, fail *state) {
	var spine []*syntax.BinaryCmd
	first := s
	for {
		b, isBinary := first.Cmd.(*syntax.BinaryCmd)
		if !isBinary || first != s && (first.Negated || first.Background || len(first.Redirs) > 0) {
			break
		}
		spine = append(spine, b)
		first = b.X
	}
	piped := func(b *syntax.BinaryCmd) bool { return b.Op == syntax.Pipe || b.Op == syntax.PipeAll }
	if piped(spine[len(spine)-1]) {
		j.movesAround(s)
	}
	ok, fail = j.stmt(first, st)
	last := first
	for i := len(spine) - 1; i >= 0; i-- {
		b := spine[i]
		b.Y.Comments = nil
		switch {
		case piped(b):
			if _, timed := b.Y.Cmd.(*syntax.TimeClause); timed || b.Y.Negated {
				j.ask(b, "bash takes %s for a program behind a pipe", j.source(b.Y))
			}
			// Each part runs in a shell of its own.
			if j.depth++; j.depth > maxDepth {
				j.ask(b, "it is nested too deeply")
			} else {
				j.stmt1(b.Y, st, last)
			}
			j.depth--
			last = b.Y
			ok, fail = st, st
		case b.Op == syntax.AndStmt:
			ok2, fail2 := j.branch(b.Y, ok, fail, st)
			ok, fail = ok2, join(fail, fail2)
		case b.Op == syntax.OrStmt:
			ok2, fail2 := j.branch(b.Y, fail, ok, st)
			ok, fail = join(ok, ok2), fail2
		default:
			j.ask(b, "%s is not understood", j.source(b))
			j.stmt(b.Y, st)
		}
	}
	return ok, fail
}

// branch walks the right side of && or ||, which starts from one of the states
// after the left side. A side that is not reached is judged as if the left side
// had ended that way all the same: a directory may vanish before cd goes there.
// Behind an exit it leaves no state.
func (j *judge) branch(s *syntax.Stmt, from, otherwise, before *state) (ok, fail *state) {
	if from != nil {
		return j.stmt(s, from)
	}
	if otherwise != nil {
		return j.stmt(s, otherwise)
	}
	j.stmt(s, before)
	return nil, nil
}

func (j *judge) ifClause(c *syntax.IfClause, st *state) (ok, fail *state) {
	c.CondLast, c.ThenLast, c.Last = nil, nil, nil
	condOK, condFail := st, st
	if len(c.Cond) > 0 {
		condOK, condFail = j.stmts(c.Cond, st)
	}
	or := func(a, b *state) *state {
		if a == nil {
			return b
		}
		return a
	}
	thenOK, thenFail := j.stmts(c.Then, or(condOK, st))
	out := join(thenOK, thenFail)
	if c.Else == nil {
		out = join(out, condFail)
		return out, out
	}
	if j.depth++; j.depth > maxDepth {
		j.ask(c, "it is nested too deeply")
	} else {
		elseOK, elseFail := j.ifClause(c.Else, or(condFail, st))
		out = join(out, join(elseOK, elseFail))
	}
	j.depth--
	return out, out
}

func (j *judge) forClause(c *syntax.ForClause, st *state) (ok, fail *state) {
	c.DoLast = nil
	if c.Select {
		j.ask(c, "select waits for answers")
	}
	c.Braces = false
	wide := j.widen(st, c)
	body := wide
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		if !localName(l.Name.Value) {
			j.ask(c, "the loop sets %s", show(l.Name.Value))
		}
		v := field{src: "$" + l.Name.Value}
		var nodes []*syntax.Word
		var fields []field
		for _, w := range l.Items {
			ns, fs := j.expand(w, st)
			nodes = append(nodes, ns...)
			for _, f := range fs {
				fields = append(fields, f...)
			}
		}
		l.Items = nodes
		for i, f := range fields {
			if f.src = v.src; i == 0 {
				f.glob, f.word = false, 0
				v = f
				continue
			}
			v = either(v, f)
		}
		if f := v.alts; f == nil && v.kind != number {
			v = field{src: v.src, prefix: v.prefix}
			if len(fields) > 1 {
				v.prefix = ""
			}
		}
		v.many = false
		body = wide.clone()
		body.vars[l.Name.Value] = v
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{l.Init, l.Cond, l.Post} {
			if x == l.Init {
				j.arithm(x, st)
				body = setNumbers(wide, l.Init)
				continue
			}
			j.arithm(x, body)
		}
	}
	bodyOK, bodyFail := j.stmts(c.Do, body)
	out := join(wide, join(bodyOK, bodyFail))
	return out, out
}

func (j *judge) caseClause(c *syntax.CaseClause, st *state) (ok, fail *state) {
	c.Last = nil
	if c.Braces {
		j.ask(c, "%s is no syntax of bash's", j.source(c))
	}
	c.Word, _ = j.one(c.Word, inValue, st)
	out := st
	for _, item := range c.Items {
		item.Comments, item.Last = nil, nil
		for i, p := range item.Patterns {
			item.Patterns[i], _ = j.one(p, inPattern, st)
		}
		if item.Op == syntax.ResumeKorn {
			j.ask(c, "%s is no syntax of bash's", j.source(c))
		}
		itemOK, itemFail := j.stmts(item.Stmts, out) // ;& falls through from what stands before
		out = join(out, join(itemOK, itemFail))
	}
	return out, out
}

// widen returns what is known before any round of a loop: what the loop sets
// is not known, and neither is the directory if it changes it.
func (j *judge) widen(st *state, loop syntax.Node) *state {
	j.movesAround(loop)
	out := st.clone()
	unknown := func(name string, isNumber bool) {
		f, set := out.vars[name]
		if !set {
			return // not set before the loop: not set for certain in it
		}
		if isNumber && numeric(f) {
			out.vars[name] = field{src: "$" + name, kind: number}
			return
		}
		out.vars[name] = field{src: "$" + name}
	}
	syntax.Walk(loop, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				isNumber := n.Value != nil && n.Array == nil && n.Index == nil && !n.Append && len(n.Value.Parts) == 1
				if isNumber {
					_, isNumber = n.Value.Parts[0].(*syntax.ArithmExp)
				}
				unknown(n.Name.Value, isNumber)
			}
		case *syntax.WordIter:
			unknown(n.Name.Value, false)
		case *syntax.ArithmCmd:
			for _, name := range numbersSet(n.X) {
				unknown(name, true)
			}
		case *syntax.CStyleLoop:
			for _, name := range numbersSet(n.Init, n.Cond, n.Post) {
				unknown(name, true)
			}
		case *syntax.LetClause:
			for _, name := range numbersSet(n.Exprs...) {
				unknown(name, true)
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			switch name := n.Args[0].Lit(); {
			case name == "cd" || name == "" || name == "command" || name == "builtin":
				out.cwds = nil
			case name == "read":
				for _, w := range n.Args[1:] {
					unknown(w.Lit(), false)
				}
			}
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			return false // what they set is gone with them
		}
		return true
	})
	return out
}

// setNumbers returns st after arithmetic set its variables.
func setNumbers(st *state, xs ...syntax.ArithmExpr) *state {
	names := numbersSet(xs...)
	if len(names) == 0 {
		return st
	}
	out := st.clone()
	for _, n := range names {
		out.vars[n] = field{src: "$" + n, kind: number}
	}
	return out
}

// redirect judges one redirection.
func (j *judge) redirect(r *syntax.Redirect, st *state) {
	if r.N != nil && !digits(r.N.Value) {
		j.ask(r, "%s sets a variable", j.source(r))
	}
	switch r.Op {
	case syntax.WordHdoc:
		r.Word, _ = j.one(r.Word, inValue, st)
		return
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc != nil && !quotedWord(r.Word) {
			r.Hdoc, _ = j.one(r.Hdoc, inHeredoc, st)
		}
		return
	}
	src := j.source(r)
	as := j.atoms(r.Word.Parts, false, inArgs, st)
	j.tildes(&as, st)
	if pattern(as) >= 0 || slices.ContainsFunc(as, func(a atom) bool { return bare(a, '{') }) {
		j.ask(r, "bash looks for a file name in %s", src)
	}
	f := compose(as, src)
	r.Word = print1(as, inValue)
	target, known := f.lit()
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		if known && (target == "-" || digits(strings.TrimSuffix(target, "-"))) {
			return
		}
		if known && r.Op == syntax.DplOut && r.N == nil {
			j.write(r, target, st)
			return
		}
		j.ask(r, "%s names a descriptor that is known only at run time", src)
	case syntax.RdrIn:
		if f.alts == nil {
			if f.kind != pipe {
				j.ask(r, "%s reads a file that is known only at run time", src)
			}
			return
		}
		for _, t := range f.alts {
			if bad := j.file(Read, t, st); bad != "" {
				j.ask(r, "%s", bad)
			}
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if f.alts == nil {
			j.ask(r, "%s writes a file that is known only at run time", src)
			return
		}
		for _, t := range f.alts {
			j.write(r, t, st)
		}
	default:
		j.ask(r, "%s is no redirection of bash's", src)
	}
}

func (j *judge) write(at syntax.Node, target string, st *state) {
	if bad := j.file(Write, target, st); bad != "" {
		j.ask(at, "%s", bad)
	}
}
