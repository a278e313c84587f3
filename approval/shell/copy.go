package shell

import (
	"path"
	"strings"
)

// A program that is given a directory to write in writes under names that do
// not stand in its command line: what stands there already under such a name may
// be a link, and the name may be one that is protected.

// copyArgs judges where cp, mv and install put what they are given.
func (j *judge) copyArgs(c *call, p *parsed) {
	if p.prog.name == "install" && p.has("-d") {
		return
	}
	operands := p.operands()
	var dest *field
	for _, a := range p.args {
		if a.name == "-t" {
			dest = a.value
		}
	}
	if dest == nil {
		if len(operands) < 2 {
			return
		}
		dest, operands = operands[len(operands)-1].value, operands[:len(operands)-1]
	}
	for _, d := range dest.alts {
		if p.has("-T") {
			j.writesBelow(c, p, d)
			continue
		}
		for _, a := range operands {
			for _, s := range a.value.alts {
				j.lands(c, p, s, d)
			}
		}
	}
}

// lands judges what source becomes in the directory dest; if dest is none, it
// was judged as an operand.
func (j *judge) lands(c *call, p *parsed, source, dest string) {
	isDir := false
	for _, cwd := range c.st.cwds {
		_, kind, ok := j.resolve(absolute(cwd+"/", dest))
		isDir = isDir || !ok || kind == Directory
	}
	if !isDir {
		return
	}
	base := path.Base(source)
	if base != "." && base != ".." && base != "/" {
		// cp writes through a link, the others put a file in its place.
		if bad := j.fileAt(Change, dest+"/"+base, c.st, p.prog.name == "cp"); bad != "" {
			j.ask(nil, "%s", bad)
		}
		j.writesBelow(c, p, dest+"/"+base)
		return
	}
	for _, cwd := range c.st.cwds {
		names, ok := j.list(absolute(cwd+"/", source))
		if !ok {
			j.ask(nil, "what %s would write in %s is not known", show(p.prog.name), show(dest))
			return
		}
		for _, e := range names {
			if bad := j.fileAt(Change, dest+"/"+e.Name, c.st, true); bad != "" {
				j.ask(nil, "%s", bad)
				return
			}
		}
	}
	j.writesBelow(c, p, dest)
}

// writesBelow judges a tree that is there before cp -r copies another over it.
func (j *judge) writesBelow(c *call, p *parsed, dest string) {
	if p.prog.name != "cp" || !p.has("-r -a") {
		return
	}
	for _, cwd := range c.st.cwds {
		real, kind, ok := j.resolve(absolute(cwd+"/", dest))
		if ok && kind == Directory && j.inside(real) && j.linksBelow(real) {
			j.ask(nil, "cp may write through a link that lies below %s", show(dest))
		}
	}
}

// splitArgs judges what split may write over.
func (j *judge) splitArgs(c *call, p *parsed) {
	prefix := "x"
	if o := p.operands(); len(o) > 1 {
		s, known := o[1].value.lit()
		if !known {
			return // asked about already
		}
		prefix = s
	}
	dir, base := path.Split(prefix)
	for _, cwd := range c.st.cwds {
		names, ok := j.list(absolute(cwd+"/", dir))
		for _, e := range names {
			ok = ok && !(e.Link && strings.HasPrefix(e.Name, base))
		}
		if !ok {
			j.ask(nil, "split may write through a link that begins with %s", show(prefix))
		}
	}
}

// gzipArgs judges the files that gzip and its like make beside their operands.
func (j *judge) gzipArgs(c *call, p *parsed) {
	if p.has("-c -l -t -V -h") {
		return
	}
	for _, a := range p.operands() {
		for _, s := range a.value.alts {
			if bare := strings.TrimSuffix(s, path.Ext(s)); path.Base(bare) != "" && bare != s {
				if bad := j.fileAt(Change, bare, c.st, false); bad != "" {
					j.ask(nil, "%s", bad)
				}
			}
		}
	}
}
