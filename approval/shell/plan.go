package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plan makes what is to be run of a walked tree. It returns nil if the tree
// does not survive being printed and parsed again.
func (j *judge) plan(file *syntax.File) *Plan {
	if j.res.Verdict == Allow {
		for _, edit := range j.edits {
			edit()
		}
	}
	out, ok := printFile(file, syntax.LangBash)
	if !ok {
		return nil
	}
	p := &Plan{Script: out, Env: []string{"PATH=" + strings.Join(j.site.Path, ":")}}
	if j.git && j.res.Verdict == Allow {
		p.Env = append(p.Env, gitEnv(j.online)...)
	}
	if j.shells {
		p.Env = append(p.Env, "BASH_ENV=", "ENV=") // what an inner shell would read first
	}
	if j.res.Verdict == Allow {
		if pipe := j.pipe(file); pipe != nil {
			p.Pipe, p.Script = pipe, ""
		}
	}
	return p
}

// printFile prints a tree and reports whether parsing it gives the same tree.
func printFile(file *syntax.File, lang syntax.LangVariant) (string, bool) {
	var b strings.Builder
	if err := syntax.NewPrinter().Print(&b, file); err != nil {
		return "", false
	}
	again, err := parser(lang, false).Parse(strings.NewReader(b.String()), "")
	if err != nil || shape(again) != shape(file) {
		return "", false
	}
	return b.String(), true
}

// shape writes down what a tree says, without positions and without the ways
// in which the same text can be quoted.
func shape(n syntax.Node) string {
	var b strings.Builder
	text := func(s string) {
		b.WriteString(quote(s))
		b.WriteByte(' ')
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil:
			b.WriteString(") ")
			return false
		case *syntax.Word:
			b.WriteString("(word ")
			wordShape(&b, n.Parts, false, inArgs)
			b.WriteString(") ")
			return false
		case *syntax.Lit:
			b.WriteString("(lit ")
			text(n.Value)
		case *syntax.ParamExp:
			b.WriteString("(param ")
			if n.Length {
				b.WriteString("# ")
			}
			if n.Exp != nil {
				b.WriteString(n.Exp.Op.String() + " ")
			}
			if n.Repl != nil && n.Repl.All {
				b.WriteString("all ")
			}
		case *syntax.Stmt:
			b.WriteString("(stmt ")
			if n.Negated {
				b.WriteString("! ")
			}
			if n.Background {
				b.WriteString("& ")
			}
		case *syntax.BinaryCmd:
			b.WriteString("(" + n.Op.String() + " ")
		case *syntax.Redirect:
			b.WriteString("(redirect" + n.Op.String() + " ")
			if n.N != nil {
				text(n.N.Value)
			}
			wordShape(&b, n.Word.Parts, false, inArgs)
			if n.Hdoc != nil {
				b.WriteString("(text ")
				if quotedWord(n.Word) {
					for _, p := range n.Hdoc.Parts {
						if l, ok := p.(*syntax.Lit); ok {
							text(l.Value)
						}
					}
				} else {
					wordShape(&b, n.Hdoc.Parts, true, inHeredoc)
				}
				b.WriteString(") ")
			}
			b.WriteString(") ")
			return false
		case *syntax.BinaryArithm:
			b.WriteString("(arithm" + n.Op.String() + " ")
		case *syntax.UnaryArithm:
			b.WriteString("(unary" + n.Op.String() + " ")
		case *syntax.BinaryTest:
			b.WriteString("(test" + n.Op.String() + " ")
		case *syntax.UnaryTest:
			b.WriteString("(test" + n.Op.String() + " ")
		case *syntax.CaseItem:
			b.WriteString("(item" + n.Op.String() + " ")
		case *syntax.WhileClause:
			b.WriteString("(while ")
			if n.Until {
				b.WriteString("until ")
			}
		case *syntax.Assign:
			b.WriteString("(assign ")
			if n.Append {
				b.WriteString("+ ")
			}
			if n.Naked {
				b.WriteString("naked ")
			}
		case *syntax.TimeClause:
			b.WriteString("(time ")
			if n.PosixFormat {
				b.WriteString("-p ")
			}
		default:
			b.WriteString("(" + nodeName(n) + " ")
		}
		return true
	})
	return b.String()
}

// wordShape writes down the text of a word, each character that means something
// outside quotes marked, and the shapes of what is expanded in it.
func wordShape(b *strings.Builder, parts []syntax.WordPart, quoted bool, ctx context) {
	chars := func(as []atom) {
		for _, a := range as {
			if !a.quoted && strings.IndexByte("*?[]{}~$`!^", a.c) >= 0 {
				b.WriteByte(0)
			}
			if a.c == '(' || a.c == ')' {
				b.WriteByte(1)
			}
			b.WriteByte(a.c)
		}
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			chars(unescape(p.Value, quoted, ctx))
		case *syntax.SglQuoted:
			s := p.Value
			if p.Dollar {
				s, _ = ansi(s)
			}
			chars(quotedAtoms(s))
		case *syntax.DblQuoted:
			wordShape(b, p.Parts, true, ctx)
		default:
			if quoted {
				b.WriteString(`(quoted `)
			} else {
				b.WriteString(`(bare `)
			}
			b.WriteString(shape(p))
			b.WriteString(") ")
		}
	}
}

func nodeName(n syntax.Node) string {
	switch n.(type) {
	case *syntax.File:
		return "file"
	case *syntax.CallExpr:
		return "call"
	case *syntax.Subshell:
		return "subshell"
	case *syntax.Block:
		return "block"
	case *syntax.IfClause:
		return "if"
	case *syntax.ForClause:
		return "for"
	case *syntax.WordIter:
		return "in"
	case *syntax.CStyleLoop:
		return "loop"
	case *syntax.CaseClause:
		return "case"
	case *syntax.CmdSubst:
		return "subst"
	case *syntax.ProcSubst:
		return "proc"
	case *syntax.ArithmExp:
		return "arithm"
	case *syntax.ArithmCmd:
		return "arithmcmd"
	case *syntax.TestClause:
		return "testclause"
	case *syntax.DeclClause:
		return "decl"
	case *syntax.LetClause:
		return "let"
	case *syntax.FuncDecl:
		return "func"
	case *syntax.CoprocClause:
		return "coproc"
	}
	return "node"
}

// plainText returns the text of a word in which nothing is expanded and no
// pattern stands.
func plainText(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			for _, a := range unescape(p.Value, false, inArgs) {
				if !a.quoted && strings.IndexByte("*?[]{}~$`", a.c) >= 0 {
					return "", false
				}
				b.WriteByte(a.c)
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				for _, a := range unescape(l.Value, true, inArgs) {
					b.WriteByte(a.c)
				}
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// pipe returns the programs of a text that is one pipeline of plain words. It
// returns nil for all else, and where a part is a builtin of bash's.
func (j *judge) pipe(file *syntax.File) []Exec {
	if len(file.Stmts) != 1 {
		return nil
	}
	var out []Exec
	s := file.Stmts[0]
	for {
		if s.Negated || s.Background || len(s.Redirs) > 0 {
			return nil
		}
		last := s
		b, more := s.Cmd.(*syntax.BinaryCmd)
		if more {
			if b.Op != syntax.Pipe {
				return nil
			}
			last = b.Y
		}
		c, ok := last.Cmd.(*syntax.CallExpr)
		if !ok || len(c.Assigns) > 0 || len(last.Redirs) > 0 || last.Negated || last.Background {
			return nil
		}
		e, ok := j.exec(c)
		if !ok {
			return nil
		}
		out = append(out, e)
		if !more {
			slices.Reverse(out)
			return out
		}
		s = b.X
	}
}

func (j *judge) exec(c *syntax.CallExpr) (Exec, bool) {
	var e Exec
	for _, w := range c.Args {
		s, ok := plainText(w)
		if !ok {
			return e, false
		}
		e.Args = append(e.Args, s)
	}
	name := e.Args[0]
	if strings.ContainsRune(name, '/') {
		if e.Path = name; !strings.HasPrefix(name, "/") {
			e.Path = path.Join(j.site.Cwd, name)
		}
		return e, true
	}
	if p := lookup(name); p != nil && p.entry.Builtin && (len(e.Args) > 1 || name != "true" && name != "false") {
		return e, false // but those two do the same as programs
	}
	e.Path = j.where(name)
	return e, e.Path != ""
}

// where returns the path of a program in the fixed PATH, links not resolved:
// some programs look at the name by which they are called.
func (j *judge) where(name string) string {
	for _, dir := range j.site.Path {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		if _, kind, ok := j.resolve(dir + "/" + name); ok && kind == Executable {
			return dir + "/" + name
		}
	}
	return ""
}

// Argv is the command line for a plan that is a script: bash reads no start-up
// file, takes no functions from its environment and no options either.
func (p *Plan) Argv(bash string) []string {
	return []string{bash, "--norc", "--noprofile", "-p", "-c", p.Script}
}
