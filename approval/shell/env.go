package shell

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"mvdan.cc/sh/v3/syntax"
)

// harmlessFile lists the environment variables that a text may set for a
// program, and to what.
//
//go:embed environment.toml
var harmlessFile string

var harmless = sync.OnceValue(func() map[string][]string {
	var m map[string][]string
	if err := toml.Unmarshal([]byte(harmlessFile), &m); err != nil {
		panic(err) // the file is part of the binary; TestTables reads it
	}
	return m
})

// harmlessSetting reports whether a program may be given name=value.
func harmlessSetting(name, value string) bool {
	values, ok := harmless()[name]
	if !ok && strings.HasPrefix(name, "LC_") && identifier(name) {
		values, ok = harmless()["LC_*"]
	}
	if !ok {
		return false
	}
	for _, v := range values {
		switch v {
		case "<word>":
			if value == "" || simpleWord(value, "") {
				return true
			}
		case "<zone>":
			if simpleWord(value, "/") && value[0] != '/' && value[0] != ':' && !strings.Contains(value, "..") {
				return true
			}
		case "<number>":
			if digits(value) {
				return true
			}
		case value:
			return true
		}
	}
	return false
}

// simpleWord reports whether s is 1 to 64 letters, digits, a few signs and
// whatever more is allowed.
func simpleWord(s, more string) bool {
	for i := range len(s) {
		if !nameByte(s[i], 1) && !strings.Contains(".,:@+-"+more, s[i:i+1]) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// localName reports whether a text may set a variable of the shell of this
// name. Names in lower case are nobody's settings, but for a few.
func localName(name string) bool {
	if !identifier(name) || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	switch name {
	case "histchars", "auto_resume":
		return false
	}
	low := strings.ToLower(name)
	return !strings.HasSuffix(low, "proxy") && !strings.HasPrefix(low, "npm_") && !strings.HasPrefix(low, "bash_")
}

// assign judges an assignment and returns the state after it. forProgram says
// that it stands before a program, whose environment it changes.
func (j *judge) assign(a *syntax.Assign, forProgram bool, st *state) *state {
	name := "" // a naked word of declare
	if a.Name != nil {
		name = a.Name.Value
	}
	src := j.source(a)
	var f field
	switch {
	case a.Array != nil:
		a.Array.Last = nil
		for _, e := range a.Array.Elems {
			e.Comments = nil
			if e.Index != nil {
				j.ask(a, "%s computes a subscript", src)
				j.arithm(e.Index, st)
			}
			if e.Value != nil {
				nodes, _ := j.expand(e.Value, st)
				if e.Value = nodes[0]; len(nodes) > 1 {
					j.ask(a, "%s makes several words of one", src)
				}
			}
		}
		f = field{src: src, many: true}
	default:
		a.Value, f = j.one(a.Value, inValue, st)
	}
	if a.Index != nil {
		j.ask(a, "%s computes a subscript", src)
		j.arithm(a.Index, st)
		f = field{src: src, many: true}
	}
	if a.Append {
		f = field{src: src}
	}
	value, known := f.lit()
	switch {
	case known && a.Array == nil && harmlessSetting(name, value):
	case forProgram:
		j.ask(a, "%s changes how the program works", show(src))
	case !localName(name):
		j.ask(a, "%s may change how programs work", show(src))
	}
	if forProgram {
		return st
	}
	out := st.clone()
	out.vars[name] = f
	return out
}

// declare judges export, declare, local, readonly and the like.
func (j *judge) declare(d *syntax.DeclClause, st *state) (ok, fail *state) {
	fields := []field{literal(d.Variant.Value)}
	for _, a := range d.Args {
		fields = append(fields, field{src: j.source(a), alts: literalSource(a)})
	}
	export := d.Variant.Value == "export"
	next := st
	outer := j.cmd
	defer func() { j.cmd = outer }()
	idx := j.begin(j.lineOf(d), fields, nil)
	if len(d.Args) == 0 {
		j.ask(d, "%s shows all variables", d.Variant.Value)
	}
	for _, a := range d.Args {
		switch {
		case a.Naked && a.Name != nil && a.Index == nil:
			if export && !slices.Contains([]string{"LANG", "TZ"}, a.Name.Value) || !export && !localName(a.Name.Value) {
				j.ask(a, "%s %s may change how programs work", d.Variant.Value, show(a.Name.Value))
			}
			if !export {
				next = next.clone()
				next.vars[a.Name.Value] = field{}
			}
		case a.Naked && a.Name == nil:
			nodes, _ := j.expand(a.Value, st)
			if len(nodes) == 1 {
				a.Value = nodes[0]
			}
			j.ask(a, "option %s of %s changes what names mean", show(j.source(a)), d.Variant.Value)
		default:
			next = j.assign(a, export, next)
		}
	}
	c := &call{fields: fields, st: st, bash: true, idx: idx}
	j.named(c, nil, nil)
	return next, next
}

// literalSource is the text of a declaration's word if it is plain.
func literalSource(a *syntax.Assign) []string {
	s := ""
	if a.Name != nil {
		s = a.Name.Value
	}
	if !a.Naked {
		s += "="
	}
	if a.Array != nil || a.Index != nil || a.Append {
		return nil
	}
	if a.Value != nil {
		lit := a.Value.Lit()
		if lit == "" || strings.ContainsAny(lit, "\\~{") {
			return nil
		}
		s += lit
	}
	return []string{s}
}
