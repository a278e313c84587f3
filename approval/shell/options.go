package shell

import (
	"slices"
	"strings"
)

// arg is one option or operand of a command.
type arg struct {
	at    int     // index of the field in which it begins
	opt   *option // nil for an operand and an option that is not known
	name  string  // the option's first spelling; "" for an operand
	value *field  // the option's value, or the operand
	apart bool    // the value is a word of its own
}

// valueText returns the value's text, if there is a value and it is known.
func (a arg) valueText() (string, bool) {
	if a.value == nil {
		return "", false
	}
	return a.value.lit()
}

// objection is what speaks against allowing the field at an index.
type objection struct {
	at   int
	name string // the option it is about, or ""
	text string
}

// parsed is a command line as its program reads it.
type parsed struct {
	prog *program // of the last subcommand
	sub  []string // the subcommands
	subs []int    // and where they stand
	args []arg    // options and operands, in order
	bad  []objection
	lost bool // it is not known which operand is which
	// given holds every spelling of the options that are given, once the line is
	// read; nil before. Values are many, and each asks.
	given map[string]bool
}

// operands returns the operands' fields.
func (p *parsed) operands() []arg {
	var out []arg
	for _, a := range p.args {
		if a.name == "" {
			out = append(out, a)
		}
	}
	return out
}

// has reports whether one of the options is given; spellings are separated by
// blanks. It is called when all arguments are read.
func (p *parsed) has(names string) bool {
	if p.given == nil {
		p.given = map[string]bool{}
		for _, a := range p.args {
			if a.opt == nil {
				continue
			}
			for _, n := range a.opt.names {
				p.given[n] = true
			}
		}
	}
	for n := range strings.FieldsSeq(names) {
		if p.given[n] {
			return true
		}
	}
	return false
}

// parse reads a command line as prog would. What it does not know for certain
// becomes an objection.
func parse(fields []field, prog *program) *parsed {
	p := &parsed{prog: prog}
	if prog.entry.Special == "archive" {
		fields = tarFields(fields)
	}
	p.read(fields, 1)
	return p
}

func (p *parsed) object(at int, name, text string) {
	p.bad = append(p.bad, objection{at, name, text})
}

// read parses fields from index i on.
func (p *parsed) read(fields []field, i int) {
	style := p.prog.entry.Style
	if p.prog.sub != nil {
		style = "posix"
	}
	ended := style == "plain" // no more options
	seen := 0                 // operands
	for ; i < len(fields); i++ {
		f := fields[i]
		s, known := f.lit()
		switch {
		case !ended && !known && f.dash():
			p.object(i, "", show(f.src)+" may turn out to be an option")
			p.args = append(p.args, arg{at: i, value: &fields[i]})
			p.lost = p.lost || f.many
			seen++
		case !ended && known && s == "--":
			ended = true
			if p.prog.entry.After != nil {
				p.after(fields, i+1)
				return
			}
		case !ended && known && style == "single" && len(s) > 1 && s[0] == '-':
			i = p.single(fields, i, s)
			if p.module(fields, i) {
				return
			}
		case !ended && known && strings.HasPrefix(s, "--"):
			i = p.long(fields, i, s)
		case !ended && known && len(s) > 1 && s[0] == '-':
			i = p.short(fields, i, s)
			if p.module(fields, i) {
				return
			}
		case !ended && known && len(s) > 1 && s[0] == '+' && p.prog.option("+") != nil:
			p.args = append(p.args, arg{at: i, opt: p.prog.option("+"), name: "+", value: &fields[i]})
		default:
			if p.prog.sub != nil && (len(p.prog.operands) == 0 || known && p.prog.sub[s] != nil) {
				p.subcommand(fields, i)
				return
			}
			p.args = append(p.args, arg{at: i, value: &fields[i]})
			p.lost = p.lost || f.many
			if seen++; style == "posix" {
				ended = true
			}
		}
	}
	if p.prog.sub != nil && len(p.prog.operands) == 0 && !p.has(p.prog.entry.Without) {
		p.object(max(len(fields)-1, 0), "", p.prog.name+" needs a subcommand")
	}
}

// module follows an option whose value is a program of its own: python -m.
func (p *parsed) module(fields []field, i int) bool {
	if len(p.args) == 0 {
		return false
	}
	last := p.args[len(p.args)-1]
	if last.opt == nil || last.value == nil {
		return false
	}
	name, _ := last.value.lit()
	sub := p.prog.sub[last.name+" "+name]
	if sub == nil {
		return false
	}
	p.args = p.args[:len(p.args)-1]
	p.sub, p.subs = append(p.sub, last.name, name), append(p.subs, last.at, i)
	p.prog = sub
	p.read(fields, i+1)
	return true
}

// after reads what follows --, where a program hands words on to another.
func (p *parsed) after(fields []field, i int) {
	for ; i < len(fields); i++ {
		s, known := fields[i].lit()
		if !known || !slices.Contains(p.prog.entry.After, s) {
			p.object(i, "", show(fields[i].show())+" after -- is not among what "+p.title()+" is known to hand on safely")
		}
	}
}

func (p *parsed) subcommand(fields []field, i int) {
	s, known := fields[i].lit()
	sub := p.prog.sub[s]
	if !known || sub == nil {
		p.object(i, "", show(fields[i].show())+" is not among the subcommands of "+p.prog.name+" that are known to be safe")
		p.sub, p.subs = append(p.sub, s), append(p.subs, i)
		// The rest is kept for denies, which look at words.
		for k := i + 1; k < len(fields); k++ {
			p.object(k, "", "nothing is known of what "+p.title()+" does with further words")
			a := arg{at: k, value: &fields[k]}
			if s, ok := fields[k].lit(); ok && len(s) > 1 && s[0] == '-' {
				a.name = s
			}
			p.args = append(p.args, a)
		}
		return
	}
	p.sub, p.subs = append(p.sub, s), append(p.subs, i)
	p.prog = sub
	p.read(fields, i+1)
}

func (p *parsed) unknown(i int, name string) {
	p.object(i, name, "option "+show(name)+" of "+p.title()+" is not among those known to be safe")
	p.args = append(p.args, arg{at: i, name: name})
}

// title names the program with its subcommands.
func (p *parsed) title() string {
	return strings.Join(append([]string{p.root().name}, p.sub...), " ")
}

// root is the program whose subcommand it is.
func (p *parsed) root() *program {
	root := p.prog
	for root.parent != nil {
		root = root.parent
	}
	return root
}

// take records an option at i. glued is the value in the same word, if has is
// set. It returns the index of the last field that it used.
func (p *parsed) take(fields []field, i int, o *option, glued string, has bool) int {
	a := arg{at: i, opt: o, name: o.names[0]}
	switch {
	case o.role == roleSpelled:
		p.object(i, a.name, "option "+show(a.name)+" of "+p.title()+" needs a rule that spells it out")
	case o.role == roleFlag:
		if has {
			p.object(i, a.name+"=", "option "+show(a.name)+" of "+p.title()+" is known without a value only")
		}
	case has:
		v := literal(glued)
		v.word = fields[i].word
		a.value = &v
	case o.glued:
	case o.pair && i+2 < len(fields):
		if fields[i+1].many {
			p.object(i, a.name+"=", show(fields[i+1].src)+" may be several words")
		}
		i += 2
		a.value = &fields[i]
	case i+1 < len(fields) && !o.pair:
		i++
		a.value, a.apart = &fields[i], true
		if a.value.many {
			p.object(i, a.name+"=", show(a.value.src)+" may be several words")
			p.lost = true
		}
	default:
		p.object(i, a.name+"=", "option "+show(a.name)+" of "+p.title()+" lacks its value")
	}
	p.args = append(p.args, a)
	return i
}

func (p *parsed) long(fields []field, i int, s string) int {
	name, value, has := strings.Cut(s, "=")
	o := p.prog.option(name)
	if o == nil {
		p.unknown(i, name)
		return i
	}
	return p.take(fields, i, o, value, has)
}

// short reads a cluster such as -rn or -n5.
func (p *parsed) short(fields []field, i int, s string) int {
	if o := p.prog.option(s); o != nil && len(s) > 2 {
		return p.take(fields, i, o, "", false) // npm's -ws and the like
	}
	if p.prog.entry.Digits && digits(s[1:]) {
		p.args = append(p.args, arg{at: i, opt: &option{names: []string{"-0"}}, name: "-0"})
		return i
	}
	for k := 1; k < len(s); k++ {
		o := p.prog.option("-" + s[k:k+1])
		if o == nil {
			p.unknown(i, "-"+s[k:k+1])
			return i
		}
		if o.role == roleFlag || o.role == roleSpelled {
			p.take(fields, i, o, "", false)
			continue
		}
		if rest := s[k+1:]; p.prog.entry.Special == "tree" && rest != "" && !(o.names[0] == "-L" && digits(rest)) {
			// tree takes the next word for the value and reads on in this one.
			p.object(i, o.names[0]+"=", "options of tree behind "+o.names[0]+" in one word are not read")
			p.lost = true
			return i
		}
		value := s[k+1:]
		if p.root().file == "build.toml" {
			value = strings.TrimPrefix(value, "=") // npm and cargo read -w=x as -w x
		}
		return p.take(fields, i, o, value, k+1 < len(s))
	}
	return i
}

// single reads an option with one dash or two, as Go's flag package does.
func (p *parsed) single(fields []field, i int, s string) int {
	name, value, has := strings.Cut(s, "=")
	o := p.prog.option("-" + strings.TrimLeft(name, "-"))
	if o == nil {
		p.unknown(i, name)
		return i
	}
	if o.role == roleFlag && has {
		if value != "true" && value != "false" && value != "1" && value != "0" {
			p.object(i, o.names[0]+"=", "option "+show(name)+" is known with true and false only")
		}
		has = false
	}
	return p.take(fields, i, o, value, has)
}
