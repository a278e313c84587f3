package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arguments judges options and operands by the program's table.
func (j *judge) arguments(c *call, prog *program, p *parsed, m *match) {
	st := c.st
	start := st
	if p != nil {
		for _, b := range p.bad {
			if !m.covers(b.at, b.name) {
				j.ask(nil, "%s", b.text)
			}
		}
		st = j.values(c, p, m, st)
		c.st = st
	}
	if p != nil && prog.entry.Special == "python" {
		j.pythonArgs(c, p)
	}
	if p != nil && p.prog.argfiles() {
		for i, f := range c.fields[1:] {
			if slices.ContainsFunc(f.alts, func(s string) bool { return strings.HasPrefix(s, "@") }) && !m.covers(i+1, "") {
				j.ask(nil, "%s is a file from which %s takes options", show(f.show()), show(p.title()))
			}
		}
	}
	special := prog.entry.Special
	if p != nil && p.prog.entry.Special != "" {
		special = p.prog.entry.Special
	}
	if prog.entry.Special == "git" {
		j.gitArgs(c, p, m)
	}
	switch special {
	case "check":
		if !p.has("--check --check-only --diff --version -V") && !slices.ContainsFunc(c.fields, func(f field) bool { return f.is("--check") }) {
			j.ask(nil, "%s writes files unless --check is given", show(p.title()))
		}
	case "gitconfig":
		if len(p.operands()) > 1 && !p.has("--get --get-all --get-regexp --get-color --get-colorbool") && !m.covers(p.operands()[1].at, "") {
			j.ask(nil, "git config changes a setting")
		}
		if o := p.operands(); len(o) > 0 && o[0].value.is("edit") && !m.covers(o[0].at, "") {
			j.ask(nil, "git config edit starts an editor")
		}
	case "find":
		j.findArgs(c, m)
	case "diff":
		j.following(fieldsOf(p.operands()), c.st, nil) // it follows the links in directories
	case "ls":
		if p.has("-L") {
			j.following(fieldsOf(p.operands()), c.st, nil)
		}
	case "unzip":
		if bad := j.file(Change, ".", c.st); bad != "" && !p.has("-l -v -t -Z -z -p") {
			j.ask(nil, "%s", bad)
		}
	case "ln":
		j.lnArgs(c, p)
	case "nm":
		if name, _ := c.fields[0].lit(); path.Base(name) == "objdump" && p.has("-S") {
			j.ask(nil, "objdump -S shows the files that the object names as its source")
		}
	case "set":
		if len(c.fields) == 1 {
			j.ask(nil, "set shows all variables")
		}
	case "xmllint":
		for _, f := range fieldsOf(p.operands()) {
			if !p.has("--nonet") && slices.ContainsFunc(f.alts, func(s string) bool { return strings.Contains(s, ":/") }) {
				j.ask(nil, "xmllint fetches %s", show(f.show()))
			}
		}
	case "copy":
		j.copyArgs(c, p)
	case "split":
		j.splitArgs(c, p)
	case "gzip":
		j.gzipArgs(c, p)
	case "ps":
		for _, a := range p.args {
			if s, known := a.valueText(); a.name == "-o" && (!known || strings.Contains(s, "environ")) {
				j.ask(nil, "ps would show the environments of programs")
			}
		}
	case "sysctl", "dig":
		j.plainArgs(c)
	case "wget":
		if !p.has("-O --spider -V") {
			j.ask(nil, "wget writes a file")
		}
	case "test":
		j.testArgs(c)
	case "printf":
		j.printfArgs(c, p)
	case "cd":
		j.cdArgs(c, p)
	case "read", "unset":
		j.nameArgs(c, p)
	case "date":
		j.dateArgs(c, p)
	case "dd":
		j.ddArgs(c)
	case "archive":
		j.tarArgs(p, start)
	case "curl":
		j.curlArgs(c, p)
	}
}

// values judges the value of every option and every operand. It returns the
// state in which later paths are read.
func (j *judge) values(c *call, p *parsed, m *match, st *state) *state {
	n := 0 // operands so far
	if p.has(p.prog.entry.Without) {
		n = 1
	}
	follow := false
	for _, a := range p.args {
		if a.opt != nil && a.opt.follow {
			follow = true
		}
	}
	var roots []field
	for i, a := range p.args {
		if a.name != "" && a.opt == nil {
			continue // objected to already
		}
		r := roleFlag
		switch {
		case a.opt != nil:
			if r = a.opt.role; a.value == nil {
				continue
			}
			if a.opt.values != nil {
				if v, ok := a.value.lit(); !m.covers(a.at, a.name) && (!ok || !slices.Contains(a.opt.values, v)) {
					j.ask(nil, "value %s of option %s of %s is not among those known to be safe", show(a.value.show()), show(a.name), show(p.title()))
				}
				continue
			}
		default:
			r = p.prog.role(n)
			if a.value.many && (!p.prog.repeat || n < len(p.prog.operands)-1) {
				j.ask(nil, "it is not known which operand of %s is which", show(p.title()))
			}
			if last := p.prog.entry.Operands; strings.HasSuffix(last, "* change") && !p.has("-t") {
				r = roleRead // all but the last operand of cp
				if lastOperand(p.args, i) {
					r = roleChange
				}
			}
			n++
			if p.prog.entry.Special == "node" && p.has("--test -c") {
				r = roleRead
			}
			if p.prog.entry.Special == "awk" && r == roleRead && assignment(*a.value) {
				r = roleText
			}
			switch {
			case r == roleEntry && p.has("-L -H -D"):
				r = roleRead
			case p.prog.entry.Special == "ls" && p.has("-l -d -o -g -n") && !p.has("-L -H --dereference-command-line-symlink-to-dir"):
				r = roleEntry // a list of names with their sizes follows no link
			}
			if r == roleRead {
				roots = append(roots, *a.value)
			}
		}
		if bad := j.value(p, r, a, m, st); bad != "" {
			j.ask(nil, "%s", bad)
		}
		if r == roleDir {
			st = inDir(st, *a.value)
		}
	}
	if follow {
		j.following(roots, st, nil)
	}
	return st
}

// assignment reports whether awk takes an operand for an assignment.
func assignment(f field) bool {
	s, known := f.lit()
	name, _, has := strings.Cut(s, "=")
	return known && has && identifier(name)
}

func fieldsOf(args []arg) []field {
	out := make([]field, len(args))
	for i, a := range args {
		out[i] = *a.value
	}
	return out
}

func lastOperand(args []arg, i int) bool {
	for _, a := range args[i+1:] {
		if a.name == "" {
			return false
		}
	}
	return true
}

// following looks for links that lead out of the workspace below roots.
func (j *judge) following(roots []field, st *state, accept func(string) bool) {
	if !j.rules.WorkspacePaths {
		return
	}
	if len(roots) == 0 {
		roots = []field{literal(".")}
	}
	for _, f := range roots {
		for _, root := range f.alts {
			for _, cwd := range st.cwds {
				dir := root
				if !strings.HasPrefix(root, "/") {
					dir = cwd + "/" + root
				}
				if bad := j.escapes(dir, accept); bad != "" {
					j.ask(nil, "%s", bad)
				}
			}
		}
	}
}

// inDir is st after a program changed its directory.
func inDir(st *state, f field) *state {
	dir, ok := f.lit()
	out := st.clone()
	switch {
	case !ok:
		out.cwds = nil
	case strings.HasPrefix(dir, "/"):
		out.cwds = []string{dir}
	default:
		for i := range out.cwds {
			out.cwds[i] += "/" + dir
		}
	}
	return out
}

// value judges one value in its role and returns what speaks against it.
func (j *judge) value(p *parsed, r role, a arg, m *match, st *state) string {
	spelled := m.covers(a.at, a.name)
	f := *a.value
	what := show(f.show())
	switch r {
	case roleText:
		if p.root().file == "build.toml" { // what builds takes paths where it takes names
			return j.apart(f, st)
		}
		if a.apart && a.opt != nil && a.opt.values == nil {
			return j.apart(f, st)
		}
		return ""
	case roleNumber:
		if numeric(f) {
			return ""
		}
		return what + " is no number"
	case roleVerb:
		if v, ok := f.lit(); spelled || ok && slices.Contains(p.prog.entry.Verbs, v) {
			return ""
		}
		return what + " is not among what " + show(p.title()) + " is known to do safely"
	case roleNone:
		if spelled {
			return ""
		}
		return show(p.title()) + " is not known to take " + what
	case roleTarget:
		v, known := f.lit()
		if spelled || known && simpleWord(v, "/%") && m.pattern != nil && (m.open(p) || j.ruledTarget(m, p, v)) {
			return ""
		}
		return "no rule names the target " + what
	case roleOther:
		if spelled {
			return ""
		}
		if a.name != "" {
			return "option " + show(a.name) + " of " + show(p.title()) + " is not among those known to be safe"
		}
		return show(p.title()) + " may do anything with " + what
	case roleEntry:
		if f.alts == nil {
			return j.paths(Read, f, st, false)
		}
		for _, s := range f.alts {
			if bad := j.entry(s, st); bad != "" {
				return bad
			}
		}
		return ""
	case roleRead, roleDir, roleTest:
		return j.paths(Read, f, st, r == roleTest)
	case roleChange:
		return j.paths(Change, f, st, false)
	case roleWrite:
		if spelled {
			return j.paths(Change, f, st, false)
		}
		return j.paths(Write, f, st, false)
	}
	if f.alts == nil {
		if f.kind == number && r == roleRev {
			return ""
		}
		return what + " is known only at run time"
	}
	for _, s := range f.alts {
		bad := ""
		switch r {
		case roleRev:
			bad = j.revision(s, st)
		case rolePackage:
			bad = j.goPackage(s, st)
		case roleURL:
			bad = checkURL(s)
		case roleSed:
			var runs []string
			bad, runs = checkSed(s, func(p string) string { return j.file(Read, p, st) })
			j.peekAt(runs, st)
		case roleAwk:
			if bad = checkAwk(s); bad != "" {
				j.peekAt(runsOfAwk(s), st)
			}
		case roleJq:
			bad = checkJq(s)
		}
		if text := r == roleURL || r == roleSed || r == roleAwk || r == roleJq; bad != "" && !(text && spelled) {
			return bad
		}
	}
	return ""
}

// ruledTarget reports whether another rule covers the target: with rules for
// "make test" and "make build", make test build is covered.
func (j *judge) ruledTarget(m *match, p *parsed, target string) bool {
	want := append(append([]string{m.pattern.Words[0]}, p.sub...), target)
	return slices.ContainsFunc(j.rules.Allow, func(r Pattern) bool { return !r.Exact && slices.Equal(r.Words, want) })
}

// apart judges data that stands beside its option. Versions of a program differ
// in which options take a word, so a word that looks like a path out of the
// workspace is judged as one.
func (j *judge) apart(f field, st *state) string {
	if !j.rules.WorkspacePaths {
		return ""
	}
	for _, s := range f.alts {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "file:"), "link:") // as npm writes paths
		out := s == ".." || strings.HasPrefix(s, "../") || strings.Contains(s, "/../") || strings.HasSuffix(s, "/..")
		if len(s) > 1 && s[0] == '/' && !out {
			real, kind, ok := j.resolve(s)
			out = !ok || kind != Missing && !j.inside(real)
		}
		if out {
			if bad := j.file(Read, s, st); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// peekAt lets denies see commands inside a program for sed or awk, which is
// asked about anyway.
func (j *judge) peekAt(runs []string, st *state) {
	if len(j.rules.Deny) == 0 {
		return
	}
	for _, text := range runs {
		j.nested(text, syntax.LangPOSIX, st)
	}
}

// paths judges what is done to the file that a field names.
func (j *judge) paths(op Op, f field, st *state, test bool) string {
	if f.alts == nil {
		switch {
		case f.kind == pipe && op == Read:
			return ""
		case f.kind == found:
			return j.results(op, f.find, st)
		case op == Read && !j.rules.WorkspacePaths && j.rules.Files == nil:
			return ""
		}
		return "which file " + show(f.src) + " is, is known only at run time"
	}
	for _, s := range f.alts {
		if test {
			if strings.HasPrefix(s, "@") {
				return show(s) + " is a file of options"
			}
			s, _, _ = strings.Cut(s, "::")
		}
		if s == "-" && op == Read {
			continue // standard input
		}
		if bad := j.file(op, s, st); bad != "" {
			return bad
		}
	}
	return ""
}
