package shell

import (
	"net/url"
	"strings"
)

// revision judges a revision or path that git is given.
func (j *judge) revision(s string, st *state) string {
	if strings.HasPrefix(s, ":") {
		return "" // a path's magic or an entry of the index: never outside
	}
	_, file, has := strings.Cut(s, ":")
	if has && (strings.HasPrefix(file, "/") || strings.HasPrefix(file, "../")) && strings.Contains(s, "//") {
		return show(s) + " names another place"
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return j.file(Read, s, st)
		}
	}
	if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") {
		return j.file(Read, s, st)
	}
	return ""
}

// goPackage judges a package pattern of the go command.
func (j *judge) goPackage(s string, st *state) string {
	switch {
	case strings.Contains(s, "@"):
		return show(s) + " is fetched from the network"
	case strings.HasPrefix(s, "."), strings.Contains(s, "/../"), strings.HasSuffix(s, "/.."), strings.HasPrefix(s, "/"), strings.HasSuffix(s, ".go"):
		dir := strings.TrimSuffix(strings.TrimSuffix(s, "..."), "/")
		if dir == "" {
			dir = "/"
		}
		return j.file(Read, dir, st)
	}
	return ""
}

// checkURL judges an address that a program fetches.
func checkURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(s, "{}[]\\ \t\n") {
		return show(s) + " is no plain http or https address"
	}
	return ""
}

// dateArgs judges date: an operand that is no format sets the clock.
func (j *judge) dateArgs(c *call, p *parsed) {
	for _, a := range p.operands() {
		if s, known := a.value.lit(); !known || !strings.HasPrefix(s, "+") {
			j.ask(nil, "date sets the clock to %s", show(a.value.show()))
		}
	}
}

// ddArgs judges dd's NAME=VALUE operands.
func (j *judge) ddArgs(c *call) {
	for _, f := range c.fields[1:] {
		s, known := f.lit()
		name, value, has := strings.Cut(s, "=")
		bad := ""
		switch {
		case !known || !has:
			bad = show(f.show()) + " is not among the operands of dd that are known to be safe"
		case name == "if":
			bad = j.file(Read, value, c.st)
		case name == "of":
			bad = j.file(Write, value, c.st)
		default:
			switch name {
			case "bs", "ibs", "obs", "cbs", "count", "skip", "seek", "iseek", "oseek", "status", "conv", "iflag", "oflag":
			default:
				bad = show(f.show()) + " is not among the operands of dd that are known to be safe"
			}
		}
		if bad != "" {
			j.ask(nil, "%s", bad)
		}
	}
}

// tarMode is what tar does: its options may come as a first word without a
// dash, whose values follow in turn.
func tarFields(fields []field) []field {
	if len(fields) < 2 {
		return fields
	}
	s, known := fields[1].lit()
	if !known || s == "" || s[0] == '-' {
		return fields
	}
	out := []field{fields[0]}
	rest := fields[2:]
	for i := range len(s) {
		f := literal("-" + s[i:i+1])
		f.word = fields[1].word
		out = append(out, f)
		if strings.IndexByte("fCbTXKNLVgFIHhW", s[i]) >= 0 && s[i] != 'h' && s[i] != 'W' && len(rest) > 0 {
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...)
}

// curlArgs judges values of curl's that name files when they begin with '@'.
func (j *judge) curlArgs(c *call, p *parsed) {
	for _, a := range p.args {
		if a.opt == nil || a.value == nil || a.opt.role != roleText {
			continue
		}
		if s, known := a.value.lit(); !known || strings.HasPrefix(s, "@") {
			j.ask(nil, "%s may name a file that curl sends", show(a.value.show()))
		}
	}
}

// lnArgs judges ln -s: where a link leads depends on where it stands.
func (j *judge) lnArgs(c *call, p *parsed) {
	if !p.has("-s") {
		return
	}
	for _, a := range p.operands() {
		for _, s := range a.value.alts {
			for part := range strings.SplitSeq(s, "/") {
				if part == ".." {
					j.ask(nil, "where a link to %s leads depends on where it stands", show(s))
				}
			}
		}
	}
}

// plainArgs allows words without options and settings.
func (j *judge) plainArgs(c *call) {
	for _, f := range c.fields[1:] {
		s, known := f.lit()
		switch s {
		case "-a", "-n", "-e", "-N", "-x", "-4", "-6":
			continue
		}
		if !known || strings.HasPrefix(s, "-") || strings.Contains(s, "=") {
			j.ask(nil, "%s is not among what %s is known to do safely", show(f.show()), show(c.fields[0].show()))
		}
	}
}

// tarArgs judges tar's archive, which is written by some of its modes and read
// by the others, and where members go. Archives and lists are found where tar
// starts, members where the last -C before them leads.
func (j *judge) tarArgs(p *parsed, start *state) {
	create := p.has("-c -r -u -A --delete")
	extract := p.has("-x") && !p.has("-O")
	if !p.has("-t -x") && !create {
		j.ask(nil, "tar is not told what to do")
	}
	op := Read
	if create {
		op = Change
	}
	object := func(bad string) {
		if bad != "" {
			j.ask(nil, "%s", bad)
		}
	}
	now := start
	for _, a := range p.args {
		switch {
		case a.value == nil || a.name != "" && a.opt == nil:
		case a.name == "-f":
			switch s, known := a.value.lit(); {
			case !known:
				j.ask(nil, "which archive tar uses is known only at run time")
			case strings.Contains(s, ":"):
				j.ask(nil, "%s is an archive on another machine", show(s))
			case s != "-":
				object(j.file(op, s, start))
			}
		case a.name == "-X":
			object(j.paths(Read, *a.value, start, false))
		case a.name == "-C":
			now = inDir(now, *a.value)
			if extract {
				object(j.file(Change, ".", now))
			}
		case a.name == "" && create:
			object(j.paths(Read, *a.value, now, false))
		}
	}
	if extract && now == start {
		object(j.file(Change, ".", start))
	}
}
