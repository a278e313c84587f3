package shell

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

// The tables say, per program, which options are known to be safe, what value
// each takes and what its operands are. They are data to be reviewed, and
// tables/README.md says how to read them. What they do not name is asked about.
//
//go:embed tables/*.toml
var tableFiles embed.FS

// role says what a value or an operand is to the program.
type role uint8

const (
	roleFlag    role = iota // an option without a value
	roleText                // data
	roleNumber              // digits
	roleRead                // a file or directory that is read
	roleChange              // a file that it is the program's own job to write
	roleWrite               // a file that is written besides
	roleDir                 // a directory to which later paths are relative
	roleRev                 // a revision or path of git's
	rolePackage             // a package of go's
	roleURL                 // an http or https address
	roleVerb                // a word that the table lists
	roleSed                 // a program for sed, awk, jq
	roleAwk
	roleJq
	roleTest // a path of tests, with an id after ::
	roleNone // nothing may stand here
	roleOther
	roleEntry   // a name that is looked at; a link is not followed
	roleTarget  // a target of a build, which a rule names or leaves open
	roleSpelled // a flag that only a rule that spells it out allows
)

var roleNames = []string{"flag", "text", "number", "read", "change", "write", "dir", "rev",
	"package", "url", "verb", "sed", "awk", "jq", "test", "none", "other", "entry", "target", "spelled"}

// option is one option of a program.
type option struct {
	names  []string
	role   role
	glued  bool // its value is optional and stands in the same word
	pair   bool // two words follow, of which the second is the value
	follow bool // makes the program follow links below its operands
	values []string
}

// program is what the tables say about a program or one of its subcommands.
type program struct {
	name     string
	file     string // the table in which it stands
	entry    entry
	options  map[string]*option
	operands []role // the last one repeats if repeat is set
	repeat   bool
	sub      map[string]*program
	parent   *program
}

// entry is a program as it stands in a table.
type entry struct {
	Names    []string // further names of the same program
	Like     string   // takes everything that is not said here from another program
	Shell    bool     // runs text as shell commands
	Interp   bool     // runs programs in a language
	Builtin  bool     // a part of bash, when bash runs it
	Free     bool     // runs and changes nothing, and needs no rule
	Wrapper  string   // how it runs another program: argv, text, joined
	Rule     bool     // a wrapper that needs a rule of its own besides its payload's
	Foreign  bool     // a wrapper whose payload runs where our rules do not hold
	Special  string   // read by code of its own
	Style    string   // gnu (default), posix, single, plain
	Digits   bool     // -20 is an option
	Inherit  bool     // options may stand after the subcommand too
	Argfile  bool     // @file stands for the options in a file
	Operands string
	Without  string // options that take the first operand's place
	Verbs    []string
	After    []string // words that may follow --; nil if operands do
	Insert   []string // words put after the subcommand when a rule allowed it
	Why      string   // why it is asked about, if it always is

	Flags, Text, Number, Read, Change, Write, Dir, URL, Sed, Jq string // options without a value, and with one of a role
	Follow, Glued, Pair, Pairread, Other, Spelled               string // see option, and the roles

	Words map[string][]string // options whose value is one of a few words
	Sub   map[string]entry
}

var tables = sync.OnceValue(func() map[string]*program {
	l := loadTables()
	if len(l.faults) > 0 {
		panic(l.faults[0]) // the files are part of the binary, and TestTables reads them
	}
	return l.programs
})

// loader reads the tables and notes what is wrong with them.
type loader struct {
	entries  map[string]entry
	from     map[string]string // their files
	programs map[string]*program
	faults   []string
}

func (l *loader) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func loadTables() *loader {
	l := &loader{entries: map[string]entry{}, from: map[string]string{}, programs: map[string]*program{}}
	files, err := tableFiles.ReadDir("tables")
	if err != nil {
		l.fault("%v", err)
	}
	for _, f := range files {
		data, err := tableFiles.ReadFile(path.Join("tables", f.Name()))
		if err != nil {
			l.fault("%v", err)
		}
		var one map[string]entry
		err = toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&one)
		if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
			l.fault("%s: %s", f.Name(), strict.String())
		} else if err != nil {
			l.fault("%s: %v", f.Name(), err)
		}
		for name, e := range one {
			if _, ok := l.entries[name]; ok {
				l.fault("%s: %s stands in two tables", f.Name(), name)
			}
			l.entries[name], l.from[name] = e, f.Name()
		}
	}
	for name, e := range l.entries {
		names := append([]string{name}, e.Names...)
		if e.Like != "" {
			e = l.entries[e.Like]
		}
		p := l.program(name, e, nil)
		p.file = l.from[name]
		for _, n := range names {
			if l.programs[n] != nil {
				l.fault("%s stands in two tables", n)
			}
			l.programs[n] = p
		}
	}
	return l
}

// program makes the table of a program or subcommand.
func (l *loader) program(name string, e entry, parent *program) *program {
	p := &program{name: name, entry: e, parent: parent, options: map[string]*option{}}
	add := func(list string, o option) {
		for s := range strings.FieldsSeq(list) {
			o := o // each its own
			o.names = strings.Split(s, "/")
			for _, n := range o.names {
				if p.options[n] != nil {
					l.fault("%s: %s is listed twice", name, n)
				}
				p.options[n] = &o
			}
		}
	}
	for _, g := range []struct {
		list string
		role role
	}{
		{e.Flags, roleFlag}, {e.Text, roleText}, {e.Number, roleNumber}, {e.Read, roleRead}, {e.Change, roleChange},
		{e.Write, roleWrite}, {e.Dir, roleDir}, {e.URL, roleURL}, {e.Sed, roleSed}, {e.Jq, roleJq}, {e.Other, roleOther}, {e.Spelled, roleSpelled},
	} {
		add(g.list, option{role: g.role})
	}
	add(e.Follow, option{role: roleFlag, follow: true})
	add(e.Glued, option{role: roleText, glued: true})
	add(e.Pair, option{role: roleText, pair: true})
	add(e.Pairread, option{role: roleRead, pair: true})
	for s, values := range e.Words {
		add(s, option{role: roleText, values: values})
	}
	for s := range strings.FieldsSeq(e.Operands) {
		s, star := strings.CutSuffix(s, "*")
		r := slices.Index(roleNames, s)
		if r < 0 {
			l.fault("%s: no role is called %s", name, s)
		}
		p.operands = append(p.operands, role(max(r, 0)))
		p.repeat = p.repeat || star
	}
	if len(e.Sub) > 0 {
		p.sub = make(map[string]*program, len(e.Sub))
	}
	for n, s := range e.Sub {
		names := append([]string{n}, s.Names...)
		if s.Like != "" {
			s = l.entries[s.Like]
		}
		sub := l.program(n, s, p)
		for _, alias := range names {
			if p.sub[alias] != nil {
				l.fault("%s: subcommand %s is listed twice", name, alias)
			}
			p.sub[alias] = sub
		}
	}
	return p
}

// lookup finds the table of the program called base, which holds no slash.
// Version numbers at a name's end do not matter for programs that run others:
// python3.12 is python3.
func lookup(base string) *program {
	t := tables()
	if p := t[base]; p != nil {
		return p
	}
	if strings.HasPrefix(base, "ld-") && strings.Contains(base, ".so") {
		return t["ld.so"]
	}
	if short := strings.TrimRight(base, "0123456789.-"); short != base && short != "" {
		if p := t[short]; p != nil && p.runs() {
			return p
		}
	}
	return nil
}

// runs reports whether the program's job is to run others, or code.
func (p *program) runs() bool {
	return p.entry.Shell || p.entry.Interp || p.entry.Wrapper != ""
}

// argfiles reports whether the program reads options from files.
func (p *program) argfiles() bool {
	return p.entry.Argfile || p.parent != nil && p.parent.argfiles()
}

// option finds an option by its spelling.
func (p *program) option(name string) *option {
	for q := p; q != nil; q = q.parent {
		if o := q.options[name]; o != nil {
			return o
		}
		if q.parent == nil || !q.parent.entry.Inherit {
			return nil
		}
	}
	return nil
}

// role returns what the operand at position n is.
func (p *program) role(n int) role {
	if n < len(p.operands) {
		return p.operands[n]
	}
	if p.repeat {
		return p.operands[len(p.operands)-1]
	}
	return roleNone
}
