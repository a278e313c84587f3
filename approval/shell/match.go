package shell

import (
	"path"
	"slices"
	"strings"
)

// match says which rule allows a command and what it spells out.
type match struct {
	pattern *Pattern
	spelled int           // leading fields that stand in the rule
	more    map[spot]bool // further options and operands that do
	missing bool          // no rule matches; reasons are collected all the same
}

// spot is an option in a field, or the field itself if name is empty. What a
// rule says about one option of a cluster says nothing about the others.
type spot struct {
	at   int
	name string
}

// covers reports whether the rule spells the field at an index out, so that
// whoever wrote the rule has seen it.
func (m *match) covers(at int, name string) bool {
	if m.pattern == nil {
		return false
	}
	return m.pattern.Exact || at < m.spelled || m.more[spot{at, name}]
}

// open reports whether the rule names no operand: "make" covers every target,
// "make test" that one.
func (m *match) open(p *parsed) bool {
	for _, a := range p.operands() {
		if m.covers(a.at, "") {
			return false
		}
	}
	return true
}

// allowed finds the rule that covers a command; the one that spells out most
// wins.
func (j *judge) allowed(c *call, prog *program, p *parsed) *match {
	var best *match
	for i := range j.rules.Allow {
		pat := &j.rules.Allow[i]
		m := j.covers(pat, c, prog, p)
		if m == nil {
			continue
		}
		if best == nil || pat.Exact && !best.pattern.Exact || pat.Exact == best.pattern.Exact && m.spelled+len(m.more) > best.spelled+len(best.more) {
			best = m
		}
	}
	return best
}

func (j *judge) covers(pat *Pattern, c *call, prog *program, p *parsed) *match {
	w := pat.Words
	if len(w) == 0 {
		return nil
	}
	name, _ := c.fields[0].lit()
	if name != w[0] && !(name == "[" && w[0] == "test" && len(w) == 1) {
		return nil
	}
	if strings.ContainsRune(name, '/') && !j.sameFile(name, w[0], c.st) {
		return nil
	}
	if pat.Exact && len(w) != len(c.fields) {
		return nil
	}
	literally := len(w) <= len(c.fields)
	for i := 1; literally && i < len(w); i++ {
		literally = c.fields[i].is(w[i])
	}
	if literally && (pat.Exact || prog == nil || prog.entry.Special != "archive") {
		return &match{pattern: pat, spelled: len(w)}
	}
	if pat.Exact || prog == nil || p == nil || p.lost {
		return nil
	}
	return loose(pat, p, prog)
}

// sameFile reports whether a command word that is a path names the file that a
// rule's first word names from the workspace's root.
func (j *judge) sameFile(name, ruled string, st *state) bool {
	at := func(base, p string) (string, bool) {
		if !strings.HasPrefix(p, "/") {
			p = base + "/" + p
		}
		real, _, ok := j.resolve(p)
		return real, ok
	}
	if len(st.cwds) != 1 {
		return false
	}
	a, ok1 := at(st.cwds[0], name)
	b, ok2 := at(j.site.Root, ruled)
	return ok1 && ok2 && a == b
}

// loose matches a rule whose options stand elsewhere in the command, or that
// has options before its subcommand: the rule "sed -n" covers sed -En, and
// "git log" covers git --no-pager log.
func loose(pat *Pattern, p *parsed, prog *program) *match {
	fields := make([]field, len(pat.Words))
	for i, w := range pat.Words {
		fields[i] = literal(w)
	}
	q := parse(fields, prog)
	if len(q.sub) > len(p.sub) || !slices.Equal(q.sub, p.sub[:len(q.sub)]) {
		return nil
	}
	m := &match{pattern: pat, spelled: 1, more: map[spot]bool{}}
	for _, at := range p.subs[:len(q.sub)] {
		m.more[spot{at, ""}] = true
	}
	operands := p.operands()
	n := 0
	for _, a := range q.args {
		if a.name == "" {
			s, _ := a.value.lit()
			if n >= len(operands) || !operands[n].value.is(s) {
				return nil
			}
			m.more[spot{operands[n].at, ""}] = true
			n++
			continue
		}
		i := slices.IndexFunc(p.args, func(b arg) bool {
			if b.name != a.name {
				return false
			}
			if a.value == nil || b.value == nil {
				return a.value == nil
			}
			s, _ := a.value.lit()
			return b.value.is(s)
		})
		if i < 0 {
			return nil
		}
		m.more[spot{p.args[i].at, a.name}] = true
	}
	return m
}

// denied records every deny and ask rule that a command hits when its name is
// name.
func (j *judge) denied(c *call, name string) {
	if len(j.rules.Deny) == 0 && len(j.rules.Ask) == 0 {
		return
	}
	names := []string{name}
	if strings.ContainsRune(name, '/') {
		names = append(names, j.bases(name, c.st)...)
	}
	if name == "[" {
		names = append(names, "test")
	}
	check := func(list []Pattern, hit func(*Pattern)) {
		for i := range list {
			for _, n := range names {
				if j.hits(&list[i], n, c) {
					hit(&list[i])
					break
				}
			}
		}
	}
	check(j.rules.Deny, func(p *Pattern) {
		j.res.Commands[c.idx].Pattern = p
		j.deny(p, "a rule denies "+show(p.String()))
	})
	check(j.rules.Ask, func(p *Pattern) {
		j.reason(Reason{Verdict: Ask, Text: "a rule asks about " + show(p.String()), Pattern: p})
		if j.res.Commands[c.idx].Pattern == nil {
			j.res.Commands[c.idx].Pattern = p
		}
	})
}

// hits reports whether a deny or ask pattern means a command, however its
// options are arranged. In doubt it does.
func (j *judge) hits(pat *Pattern, name string, c *call) bool {
	w := pat.Words
	if len(w) == 0 {
		return false
	}
	fields := c.fields
	if name != w[0] {
		// git push is also called git-push.
		rest, ok := strings.CutPrefix(name, w[0]+"-")
		if !ok || len(w) < 2 || rest != w[1] {
			return strings.ContainsRune(w[0], '/') && path.Base(w[0]) == name && len(w) == 1 && j.sameName(w[0], c)
		}
		fields = append([]field{literal(w[0]), literal(rest)}, c.fields[1:]...)
	}
	if pat.Exact && len(w) != len(fields) {
		return false
	}
	if len(w) == 1 {
		return true
	}
	literally := len(w) <= len(fields)
	for i := 1; literally && i < len(w); i++ {
		literally = fields[i].is(w[i])
	}
	if literally || pat.Exact {
		return literally
	}
	prog := lookup(w[0])
	if prog == nil || prog.entry.Style == "special" {
		return skipping(w[1:], fields[1:])
	}
	return arranged(w, fields, prog)
}

// sameName reports whether the command's file is the one that a rule names.
func (j *judge) sameName(ruled string, c *call) bool {
	name, _ := c.fields[0].lit()
	if strings.ContainsRune(name, '/') {
		return j.sameFile(name, ruled, c.st)
	}
	real, _, ok := j.resolve(ruled)
	return ok && strings.HasPrefix(ruled, "/") && real == j.programs[name]
}

// skipping matches words in order, where options and one word after each may
// stand between them.
func skipping(w []string, fields []field) bool {
	i, afterOption := 0, false
	for _, f := range fields {
		if i == len(w) {
			break
		}
		s, known := f.lit()
		switch {
		case known && s == w[i]:
			i++
			afterOption = false
		case !known || strings.HasPrefix(s, "-"):
			afterOption = true
		case afterOption:
			afterOption = false
		default:
			return false
		}
	}
	return i == len(w)
}

// arranged matches a pattern against a command as its program reads both.
func arranged(w []string, fields []field, prog *program) bool {
	want := make([]field, len(w))
	for i, s := range w {
		want[i] = literal(s)
	}
	q, p := parse(want, prog), parse(fields, prog)
	if len(q.sub) > len(p.sub) || !slices.Equal(q.sub, p.sub[:len(q.sub)]) {
		return false
	}
	operands := p.operands()
	for _, a := range q.args {
		if a.name == "" {
			s, _ := a.value.lit()
			i := slices.IndexFunc(operands, func(b arg) bool { return b.value.is(s) })
			if i < 0 {
				return false
			}
			operands = operands[i+1:]
			continue
		}
		names := []string{a.name}
		if a.opt != nil {
			names = a.opt.names
		}
		if !slices.ContainsFunc(names, func(n string) bool { return given(n, fields[1:]) }) {
			return false
		}
	}
	return true
}

// given reports whether an option stands among fields, in a cluster or
// abbreviated too.
func given(name string, fields []field) bool {
	for _, f := range fields {
		s, ok := f.lit()
		if !ok {
			continue
		}
		if s == "--" {
			return false
		}
		flag, _, _ := strings.Cut(s, "=")
		switch {
		case s == name:
			return true
		case strings.HasPrefix(name, "--"):
			if flag == name || len(flag) >= 4 && strings.HasPrefix(name, flag) {
				return true
			}
		case len(name) == 2 && len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.Contains(s[1:], name[1:]):
			return true
		}
	}
	return false
}
