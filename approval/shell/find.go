package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// findTest says what a word of find's expression takes.
func findTest(s string) (r role, known bool) {
	switch s {
	case "!", "(", ")", ",", "-a", "-and", "-o", "-or", "-not", "-d", "-daystart", "-depth", "-empty", "-executable",
		"-false", "-true", "-follow", "-ignore_readdir_race", "-noignore_readdir_race", "-ls", "-mount", "-xdev",
		"-nogroup", "-nouser", "-noleaf", "-nowarn", "-warn", "-print", "-print0", "-prune", "-quit", "-readable",
		"-writable":
		return roleFlag, true
	case "-amin", "-atime", "-cmin", "-ctime", "-mmin", "-mtime", "-fstype", "-gid", "-group", "-ilname", "-iname",
		"-inum", "-ipath", "-iregex", "-iwholename", "-links", "-lname", "-maxdepth", "-mindepth", "-name", "-path",
		"-perm", "-printf", "-regex", "-regextype", "-size", "-type", "-uid", "-used", "-user", "-wholename", "-xtype",
		"-context":
		return roleText, true
	case "-anewer", "-cnewer", "-newer", "-samefile":
		return roleRead, true
	}
	if strings.HasPrefix(s, "-newer") && len(s) == len("-newerXY") {
		if s[7] == 't' {
			return roleText, true
		}
		return roleRead, true
	}
	return 0, false
}

// finding is a find's command line as find reads it.
type finding struct {
	search search
	follow bool
	simple bool // every result meets every test: no -o, !, parentheses
	null   bool // -print0
	prints bool
}

// findArgs judges find: its roots, its tests, and what it runs.
func (j *judge) findArgs(c *call, m *match) finding {
	f := finding{simple: true}
	links := false // those in the command line are followed
	fs := c.fields
	i := 1
	for ; i < len(fs); i++ {
		s, known := fs[i].lit()
		if !known {
			break
		}
		if s == "-H" {
			links = true
			continue
		}
		if s == "-P" || strings.HasPrefix(s, "-O") && digits(s[2:]) {
			continue
		}
		if s == "-L" {
			f.follow = true
			continue
		}
		break
	}
	var roots []field
	for ; i < len(fs); i++ {
		s, known := fs[i].lit()
		if known && (strings.HasPrefix(s, "-") || s == "!" || s == "(" || s == ")" || s == ",") {
			break
		}
		if !known && fs[i].dash() {
			j.ask(nil, "%s may turn out to be an option", show(fs[i].src))
		}
		role := roleEntry
		if links || f.follow {
			role = roleRead
		}
		if bad := j.value(&parsed{prog: lookup("find")}, role, arg{at: i, value: &fs[i]}, m, c.st); bad != "" {
			j.ask(nil, "%s", bad)
		}
		roots = append(roots, fs[i])
		f.search.roots = append(f.search.roots, fs[i].alts...)
		if fs[i].alts == nil {
			f.search.roots = append(f.search.roots, "")
		}
	}
	if len(roots) == 0 {
		roots = []field{literal(".")}
		f.search.roots = []string{"."}
	}
	var payloads [][]field
	for ; i < len(fs); i++ {
		s, known := fs[i].lit()
		if !known {
			j.ask(nil, "%s may be any test or action of find", show(fs[i].src))
			continue
		}
		if n, ok := execEnd(s, fs, i); ok {
			if n < 0 {
				j.ask(nil, "%s lacks its end", s)
				n = len(fs)
			}
			if strings.HasSuffix(s, "dir") {
				j.ask(nil, "%s runs a program in directories that are known only at run time", s)
			}
			if strings.HasPrefix(s, "-ok") && j.before(c) {
				j.ask(nil, "%s is answered by a pipe", s)
			}
			if n > i+1 {
				payloads = append(payloads, fs[i+1:n])
			}
			f.prints = true // not by itself, but what reads it cannot know
			i = n
			continue
		}
		r, known := findTest(s)
		switch {
		case !known:
			if !m.covers(i, "") {
				j.ask(nil, "%s of find is not among what is known to be safe", show(s))
			}
			continue
		case s == "-o" || s == "-or" || s == "!" || s == "-not" || s == "(" || s == ",":
			f.simple = false
		case s == "-follow":
			f.follow = true
		case s == "-print0":
			f.null = true
		case s == "-ls" || s == "-printf" || s == "-print":
			f.prints = f.prints || s != "-print"
		}
		if r == roleFlag {
			continue
		}
		if i++; i == len(fs) {
			j.ask(nil, "%s of find lacks its value", s)
			break
		}
		v, known := fs[i].lit()
		switch {
		case r == roleRead:
			if bad := j.paths(Read, fs[i], c.st, false); bad != "" {
				j.ask(nil, "%s", bad)
			}
		case !known && fs[i].many:
			j.ask(nil, "%s may be any test or action of find", show(fs[i].src))
		case s == "-name" && known:
			f.search.names = append(f.search.names, v)
		case s == "-type" && v == "f":
			f.search.plain = true
		}
	}
	if !f.simple {
		f.search.names, f.search.plain = nil, false
	}
	if f.follow {
		j.following(roots, c.st, nil)
	}
	for _, p := range payloads {
		fields := make([]field, len(p))
		for k, g := range p {
			s, known := g.lit()
			switch {
			case known && s == "{}":
				fields[k] = field{src: "{}", kind: found, find: &f.search, many: true, word: g.word}
			case known && strings.Contains(s, "{}"):
				fields[k] = field{src: s, prefix: s[:strings.Index(s, "{}")], word: g.word}
				// A shell's text is looked at for denies all the same.
				if k > 0 && fields[k-1].is("-c") {
					fields[k] = g
				}
			default:
				fields[k] = g
			}
		}
		j.payload(c, fields, false, c.st)
	}
	return f
}

// execEnd returns the index of the word that ends the command of -exec, and
// whether s begins one.
func execEnd(s string, fs []field, i int) (int, bool) {
	if s != "-exec" && s != "-execdir" && s != "-ok" && s != "-okdir" {
		return 0, false
	}
	for k := i + 1; k < len(fs); k++ {
		if fs[k].is(";") || fs[k].is("+") && fs[k-1].is("{}") {
			return k, true
		}
	}
	return -1, true
}

// before reports whether something is piped into the command.
func (j *judge) before(c *call) bool { return c.before != nil }

// results judges what is done to the files that a find finds.
func (j *judge) results(op Op, s *search, st *state) string {
	if op != Read {
		return "which files are written is known only at run time"
	}
	for _, root := range s.roots { // a root may be a link itself
		if bad := j.paths(Read, literal(root), st, false); bad != "" {
			return bad
		}
	}
	if s.split {
		if bad := j.splits(s, st); bad != "" {
			return bad
		}
	}
	if !j.rules.WorkspacePaths && j.rules.Files == nil || s.plain && j.rules.Files == nil {
		return ""
	}
	if j.rules.Files != nil {
		return j.eachFile(s, st)
	}
	accept := s.accepts()
	for _, root := range s.roots {
		for _, cwd := range st.cwds {
			if bad := j.escapes(absolute(cwd+"/", root), accept); bad != "" {
				return bad
			}
		}
	}
	if st.cwds == nil {
		return "the directory that is searched is not known"
	}
	return ""
}

// accepts returns which names a search can find.
func (s *search) accepts() func(string) bool {
	if len(s.names) == 0 {
		return nil
	}
	pats := make([][]rune1, len(s.names))
	for i, n := range s.names {
		pats[i], _ = globOf(bareAtoms(n))
	}
	return func(name string) bool {
		// find's own wildcards match a leading dot too.
		return !slices.ContainsFunc(pats, func(p []rune1) bool { return !matchName(p, name) && !matchName(p, strings.TrimLeft(name, ".")) })
	}
}

func bareAtoms(s string) []atom {
	out := make([]atom, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			out = append(out, atom{c: s[i], quoted: true})
			continue
		}
		out = append(out, atom{c: s[i]})
	}
	return out
}

// eachFile asks the rules about every file that a search can find.
func (j *judge) eachFile(s *search, st *state) string {
	if len(st.cwds) != 1 {
		return "the directory that is searched is not known"
	}
	accept := s.accepts()
	files := len(j.res.Files)
	defer func() { j.res.Files = j.res.Files[:files] }() // they are not named literally
	for _, root := range s.roots {
		for queue := []string{absolute(st.cwds[0]+"/", root)}; len(queue) > 0; {
			dir := queue[0]
			queue = queue[1:]
			names, ok := j.list(dir)
			if !ok {
				return "the files below " + show(root) + " cannot all be looked at"
			}
			for _, e := range names {
				p := dir + "/" + e.Name
				if e.Dir {
					queue = append(queue, p)
				}
				if accept != nil && !accept(e.Name) || e.Link && s.plain {
					continue
				}
				if bad := j.file1(Read, p, p); bad != "" {
					return bad
				}
			}
		}
	}
	return ""
}

// splits reports what speaks against taking a search's results apart at blanks
// and quotes.
func (j *judge) splits(s *search, st *state) string {
	if len(st.cwds) != 1 {
		return "the directory that is searched is not known"
	}
	accept := s.accepts()
	for _, root := range s.roots {
		if strings.ContainsAny(root, " \t\n'\"\\") {
			return show(root) + " is taken apart by xargs"
		}
		for queue := []folder{{absolute(st.cwds[0]+"/", root), false}}; len(queue) > 0; {
			dir := queue[0]
			queue = queue[1:]
			names, ok := j.list(dir.path)
			if !ok {
				return "the names below " + show(root) + " cannot all be looked at"
			}
			for _, e := range names {
				odd := dir.odd || strings.ContainsAny(e.Name, " \t\n'\"\\\v\f\r")
				if e.Dir {
					queue = append(queue, folder{dir.path + "/" + e.Name, odd})
				}
				if odd && (accept == nil || accept(e.Name)) {
					return "the name " + show(e.Name) + " is taken apart by xargs"
				}
			}
		}
	}
	return ""
}

// folder is a directory to be looked at; odd says that its name is taken apart.
type folder struct {
	path string
	odd  bool
}

// source4xargs returns what a find before xargs finds, if that is all that
// xargs reads.
func (j *judge) source4xargs(c *call, p *parsed) *search {
	if c.before == nil || p.has("-a -d -E -L -l") {
		return nil
	}
	n, ok := c.before.Cmd.(*syntax.CallExpr)
	if !ok || len(c.before.Redirs) > 0 || len(n.Assigns) > 0 {
		return nil
	}
	// The statement was walked already, so its words are printed words now and
	// looking at them again records nothing new.
	quiet := *j
	quiet.res = Result{Verdict: Allow, Commands: []Command{{}}}
	quiet.cmd = 0
	quiet.rules.Deny, quiet.rules.Ask = nil, nil
	var fields []field
	for _, w := range n.Args {
		_, lists := quiet.expand(w, c.st)
		for _, l := range lists {
			fields = append(fields, l...)
		}
	}
	if len(fields) == 0 || !fields[0].is("find") {
		return nil
	}
	for _, f := range fields {
		if f.is("-exec") || f.is("-execdir") || f.is("-ok") || f.is("-okdir") {
			return nil
		}
	}
	f := quiet.findArgs(&call{fields: fields, st: c.st}, &match{})
	if f.prints || quiet.res.Verdict != Allow {
		return nil
	}
	s := f.search
	s.split = !(f.null && p.has("-0"))
	if f.null != p.has("-0") {
		return nil
	}
	return &s
}
