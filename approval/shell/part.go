package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// part judges a part of a word that bash fills when it runs, and returns what
// is known of its text.
func (j *judge) part(p syntax.WordPart, quoted bool, st *state) field {
	src := j.source(p)
	switch p := p.(type) {
	case *syntax.ParamExp:
		f := j.param(p, quoted, st)
		f.src = src
		return f
	case *syntax.CmdSubst:
		if p.TempFile || p.ReplyVar {
			j.ask(p, "%s is no substitution of bash's", src)
		}
		p.Backquotes = false
		here := st.clone()
		j.stmts(p.Stmts, here)
		if len(p.Stmts) == 1 && st.cwds != nil && justPwd(p.Stmts[0]) {
			return field{src: src, alts: st.cwds}
		}
		return field{src: src}
	case *syntax.ArithmExp:
		if p.Unsigned {
			j.ask(p, "%s is no arithmetic of bash's", src)
		}
		p.Bracket = false
		if len(numbersSet(p.X)) > 0 {
			j.ask(p, "%s sets a variable on the way", src)
		}
		j.arithm(p.X, st)
		return field{src: src, kind: number}
	case *syntax.ProcSubst:
		if p.Op != syntax.CmdIn {
			j.ask(p, "%s feeds a command through a file", src)
		}
		j.stmts(p.Stmts, st.clone())
		return field{src: src, kind: pipe}
	case *syntax.ExtGlob:
		j.ask(p, "%s is an extended pattern, which is not read", src)
	default:
		j.ask(p, "%s is not understood", src)
	}
	return field{src: src, many: true}
}

func justPwd(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(s.Redirs) == 0 && !s.Negated && !s.Background && len(c.Assigns) == 0 && len(c.Args) == 1 && c.Args[0].Lit() == "pwd"
}

// justHeredoc returns what $(cat <<'E' ...) prints: the here-document without
// the newlines at its end. Messages of commits are often written so.
func justHeredoc(p *syntax.CmdSubst) (string, bool) {
	if len(p.Stmts) != 1 || p.Backquotes || p.TempFile || p.ReplyVar {
		return "", false
	}
	s := p.Stmts[0]
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || len(s.Redirs) != 1 || len(c.Assigns) > 0 || len(c.Args) != 1 || c.Args[0].Lit() != "cat" {
		return "", false
	}
	r := s.Redirs[0]
	if r.Op != syntax.Hdoc || r.Hdoc == nil || r.N != nil || !quotedWord(r.Word) || !delimiter(r.Word) {
		return "", false
	}
	var b strings.Builder
	for _, part := range r.Hdoc.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok {
			return "", false
		}
		b.WriteString(l.Value)
	}
	return strings.TrimRight(b.String(), "\n"), true
}

// param judges ${...}.
func (j *judge) param(p *syntax.ParamExp, quoted bool, st *state) field {
	src := j.source(p)
	many := field{many: true}
	if p.Param == nil || p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 ||
		p.Split != 0 || p.GlobSubst != 0 || p.RcExpand != 0 {
		j.ask(p, "%s is not understood", src)
		return many
	}
	name := p.Param.Value
	if p.Excl || p.Names != 0 {
		j.ask(p, "%s takes the name of a variable from a variable", src)
		return many
	}
	if p.Index != nil {
		w, ok := p.Index.(*syntax.Word)
		if lit := ""; ok {
			lit = w.Lit()
			ok = lit == "@" || lit == "*" || digits(lit)
		}
		if !ok {
			j.arithm(p.Index, st)
			j.ask(p, "%s computes a subscript", src)
		}
	}
	f := j.variable(p, name, st)
	if p.Index != nil {
		f = field{many: true}
	}
	if p.Short {
		p.Short = false // ${x} reads the same beside any text
	}
	simple := p.Slice == nil && p.Repl == nil && p.Exp == nil
	switch {
	case p.Length:
		if !simple {
			j.ask(p, "%s is not understood", src)
		}
		return field{kind: number}
	case simple:
		return f
	}
	if p.Slice != nil {
		j.arithm(p.Slice.Offset, st)
		j.arithm(p.Slice.Length, st)
	}
	if p.Repl != nil {
		j.inner(p, p.Repl.Orig, quoted, st)
		j.inner(p, p.Repl.With, quoted, st)
	}
	if p.Exp != nil {
		if cutField, ok := trimmed(f, p); ok && simple1(p) {
			return cutField
		}
		switch p.Exp.Op {
		case syntax.OtherParamOps:
			j.ask(p, "%s lets bash read the variable's text again", src)
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			j.ask(p, "%s sets a variable on the way", src)
		}
		j.inner(p, p.Exp.Word, quoted, st)
	}
	return field{many: name == "@" || name == "*" || p.Index != nil}
}

// simple1 reports whether an expansion is all that happens to a parameter.
func simple1(p *syntax.ParamExp) bool { return p.Slice == nil && p.Repl == nil && !p.Length }

// trimmed computes ${x%pattern} and its like for a variable whose value is
// known.
func trimmed(f field, p *syntax.ParamExp) (field, bool) {
	if f.alts == nil || f.many || p.Exp.Word == nil {
		return f, false
	}
	lit := p.Exp.Word.Lit()
	if lit == "" || strings.ContainsAny(lit, "\\'\"`$~{}()<>&;|![]") {
		return f, false
	}
	pat, _ := globOf(bareAtoms(lit))
	out := field{src: f.src}
	for _, s := range f.alts {
		if len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
			return f, false
		}
		r := trim1(s, pat, p.Exp.Op)
		if r == "" && s != "" {
			return f, false // the word may vanish: leave it unknown
		}
		out.alts = union(out.alts, []string{r})
	}
	switch p.Exp.Op {
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return out, true
	}
	return f, false
}

func trim1(s string, pat []rune1, op syntax.ParExpOperator) string {
	fits := func(t string) bool { return matchRunes(pat, []rune(t)) }
	switch op {
	case syntax.RemSmallSuffix:
		for i := len(s); i >= 0; i-- {
			if fits(s[i:]) {
				return s[:i]
			}
		}
	case syntax.RemLargeSuffix:
		for i := 0; i <= len(s); i++ {
			if fits(s[i:]) {
				return s[:i]
			}
		}
	case syntax.RemSmallPrefix:
		for i := 0; i <= len(s); i++ {
			if fits(s[:i]) {
				return s[i:]
			}
		}
	case syntax.RemLargePrefix:
		for i := len(s); i >= 0; i-- {
			if fits(s[:i]) {
				return s[i:]
			}
		}
	}
	return s
}

// inner judges a word inside ${...}. Only plain text and plain expansions are
// read: what quotes mean there depends on what stands around.
func (j *judge) inner(at *syntax.ParamExp, w *syntax.Word, quoted bool, st *state) {
	if w == nil {
		return
	}
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\'\"`$~{}()<>&;|!") || quoted && strings.ContainsAny(p.Value, "\n") {
				j.ask(at, "%s holds text that shells read differently", j.source(at))
			}
		case *syntax.SglQuoted:
			j.ask(at, "%s holds text that shells read differently", j.source(at))
			if bad := p.Value; strings.ContainsAny(bad, "$`") {
				// Bash may expand it: at least a deny must see what it would run.
				j.peek(bad, st)
			}
		case *syntax.DblQuoted:
			j.ask(at, "%s holds text that shells read differently", j.source(at))
			j.atoms(w.Parts[i:i+1], quoted, inValue, st)
		default:
			j.part(p, quoted, st)
		}
	}
}

// peek walks the substitutions in a text that bash may or may not expand.
func (j *judge) peek(text string, st *state) {
	if j.scripts >= maxScripts {
		return
	}
	j.scripts++
	defer func() { j.scripts-- }()
	w, err := parser(syntax.LangBash, false).Document(strings.NewReader(text))
	if err != nil {
		return
	}
	outer := j.src
	j.src = text
	defer func() { j.src = outer }()
	j.atoms(w.Parts, true, inHeredoc, st)
}

// Variables that bash keeps as whole numbers, and those that a fixed
// environment holds and that are safe to be printed.
func numberVariable(name string) bool {
	switch name {
	case "?", "#", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "EPOCHSECONDS", "COLUMNS", "LINES":
		return true
	}
	return false
}

func knownVariable(name string) bool {
	switch name {
	case "USER", "LOGNAME", "SHELL", "PATH", "TERM", "LANG", "TZ", "TMPDIR", "OLDPWD", "HOSTNAME",
		"BASH_VERSION", "OSTYPE", "HOSTTYPE", "MACHTYPE", "SHLVL", "PIPESTATUS", "BASH_REMATCH", "IFS", "-", "_":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// variable returns what is known of a variable's value.
func (j *judge) variable(at syntax.Node, name string, st *state) field {
	if f, ok := st.vars[name]; ok {
		return f
	}
	switch {
	case numberVariable(name):
		return field{kind: number}
	case name == "HOME" && j.site.Home != "":
		return literal(j.site.Home)
	case name == "PWD" && st.cwds != nil:
		return field{alts: st.cwds}
	case name == "@" || name == "*":
		return field{many: true}
	case knownVariable(name) || digits(name):
		return field{}
	}
	j.ask(at, "variable %s is not set by this text", show(name))
	return field{}
}

// arithm judges arithmetic. Bash reads the text of a variable in it as
// arithmetic again, so only numbers and variables that hold numbers pass.
func (j *judge) arithm(x syntax.ArithmExpr, st *state) {
	if x == nil {
		return
	}
	if j.depth++; j.depth > maxDepth {
		j.ask(x, "it is nested too deeply")
	} else {
		j.arithm1(x, st)
	}
	j.depth--
}

func (j *judge) arithm1(x syntax.ArithmExpr, st *state) {
	switch x := x.(type) {
	case *syntax.BinaryArithm:
		if assigns(x.Op) {
			j.assignsNumber(x.X)
		}
		if x.Op != syntax.Assgn {
			j.arithm(x.X, st)
		}
		j.arithm(x.Y, st)
	case *syntax.UnaryArithm:
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			j.assignsNumber(x.X)
		}
		j.arithm(x.X, st)
	case *syntax.ParenArithm:
		j.arithm(x.X, st)
	case *syntax.Word:
		lit := x.Lit()
		switch {
		case integer(lit) || strings.HasPrefix(lit, "0x") && hex(lit[2:]):
			return
		case lit != "" && identifier(lit):
			if f, ok := st.vars[lit]; ok && numeric(f) || numberVariable(lit) {
				return
			}
			j.ask(x, "arithmetic reads the text of variable %s again", show(lit))
			return
		}
		_, f := j.one(x, inValue, st)
		if !numeric(f) {
			j.ask(x, "arithmetic reads %s again when it runs", j.source(x))
		}
	default:
		j.ask(x, "%s is not understood", j.source(x))
	}
}

func assigns(op syntax.BinAritOperator) bool {
	return op == syntax.Assgn || op >= syntax.AddAssgn && op <= syntax.PowAssgn
}

// assignsNumber judges the target of an assignment in arithmetic.
func (j *judge) assignsNumber(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok || !localName(w.Lit()) {
		j.ask(x, "arithmetic sets %s", j.source(x))
	}
}

// numbersSet returns the variables that arithmetic sets.
func numbersSet(xs ...syntax.ArithmExpr) (names []string) {
	for _, x := range xs {
		if x == nil {
			continue
		}
		syntax.Walk(x, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.BinaryArithm:
				if w, ok := n.X.(*syntax.Word); ok && assigns(n.Op) {
					names = append(names, w.Lit())
				}
			case *syntax.UnaryArithm:
				if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.Inc || n.Op == syntax.Dec) {
					names = append(names, w.Lit())
				}
			}
			return true
		})
	}
	return names
}

func hex(s string) bool {
	for i := range len(s) {
		if strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

func identifier(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i], i) {
			return false
		}
	}
	return s != ""
}
