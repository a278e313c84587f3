package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/approval/shell"
	"github.com/wasmtools/wasmtools/tool"
)

// Site is what Judge has to know of the place where a call would run.
type Site struct {
	Now  time.Time // for rules that expire; zero: rules that allow and expire do not hold
	Fold bool      // the file system does not tell upper from lower case

	Root string   // real path of the workspace
	Home string   // the user's home folder; "" if there is none
	Path []string // the folders in which programs are looked up
	FS   shell.FS // what shell texts are held against; nil: nothing is on the disk

	// Listed looks a file of a command up in the lists of protected and secret
	// paths; the path is as in [Target]. Nil: nothing is listed.
	Listed func(path string) (rule string, secret bool)
}

// withEffects are those that need somebody's yes.
const withEffects = tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork

// Names of what holds without a rule.
const (
	ruleReads       = "reads"       // reading inside the workspace needs no question
	ruleDefault     = "default"     // what no rule speaks of is asked
	ruleMode        = "mode"        // followed by the mode
	ruleProtected   = "protected"   // followed by the name of a list's rule
	ruleSecret      = "secret"      // the same
	ruleUnsandboxed = "unsandboxed" // profile none
	ruleCommand     = "command"     // what the shell judge could not see through
	ruleParent      = "parent"      // a directory on the way to what is written
)

// Judge decides about c. It is total and deterministic: equal arguments give
// equal verdicts, and no argument makes it fail. It is safe for concurrent use.
func Judge(p Policy, c Call, s Site) Verdict {
	j := &judge{policy: p, call: c, site: s}
	j.call.Input = c.input()
	j.call.Source = tool.ParseSource(string(c.Source)) // what is unknown is the least trusted
	j.findParts()
	for i := range j.parts { // what follows only makes it stricter
		j.permit(&j.parts[i])
		j.limit(&j.parts[i])
	}
	for i := range p.Rules {
		j.forbid(&p.Rules[i])
	}
	return j.sum()
}

// judge is one run of Judge.
type judge struct {
	policy Policy
	call   Call
	site   Site
	parts  []part

	text shell.Result     // of a command
	from map[string]*Rule // where its patterns come from
}

type kind uint8

const (
	aPath   kind = iota
	anyPath      // files that nobody knows
	aHost
	anyHost
	aCommand
	anyProgram // it runs something, and not by a shell text
	aBare      // nothing but the call itself
)

// part is one thing of a call that has to be allowed.
type part struct {
	kind   kind
	target Target
	job    bool // a change that is the job of a command which a rule names
	host   string

	decision Decision // "" until something spoke of it
	rule     Ref
	why      string
	fixed    *Ref // what no rule that allows can change
	meant    bool // a rule allows it that names the tool: somebody knew that nobody knows
}

func (p *part) String() string {
	switch p.kind {
	case aPath:
		return string(p.target.Verb) + " " + tool.QuotePath(p.target.Path)
	case anyPath:
		return "changes of files that are not known"
	case aHost:
		return "host " + tool.QuotePath(p.host)
	case anyHost:
		return "hosts that are not known"
	case aCommand:
		return "the command"
	case anyProgram:
		return "programs that are not known"
	}
	return "the call"
}

func (p *part) set(d Decision, r Ref, format string, args ...any) {
	if p.decision == "" || d.rank() > p.decision.rank() {
		p.decision, p.rule, p.why = d, r, fmt.Sprintf(format, args...)
	}
}

// fix is set for what no rule that allows can change.
func (p *part) fix(d Decision, r Ref, format string, args ...any) {
	p.set(d, r, format, args...)
	if p.fixed == nil {
		p.fixed = &r
	}
}

// findParts takes the call apart.
func (j *judge) findParts() {
	c := &j.call
	for _, t := range c.Targets {
		j.parts = append(j.parts, part{kind: aPath, target: t})
	}
	if c.Command == nil && c.Effects.Any(tool.Writes|tool.Destroys) && len(c.Targets) == 0 {
		j.parts = append(j.parts, part{kind: anyPath})
	}
	for _, h := range c.Hosts {
		j.parts = append(j.parts, part{kind: aHost, host: h})
	}
	if c.Command == nil && c.Effects.Has(tool.UsesNetwork) && len(c.Hosts) == 0 {
		j.parts = append(j.parts, part{kind: anyHost})
	}
	switch {
	case c.Command != nil:
		j.parts = append(j.parts, part{kind: aCommand})
		j.judgeCommand()
	case c.Effects.Has(tool.Executes):
		j.parts = append(j.parts, part{kind: anyProgram})
	}
	if len(j.parts) == 0 {
		j.parts = append(j.parts, part{kind: aBare})
	}
}

// limit says what no rule can allow: the mode, and the switch of the terminal.
func (j *judge) limit(p *part) {
	if j.policy.Mode == ModePlan && (j.call.Effects.Any(withEffects) || p.kind == aPath && p.target.Verb != Read) {
		p.fix(Deny, j.mode(), "nothing with effects happens in plan mode")
	}
	if p.kind == aPath && p.target.Secret {
		p.fix(Deny, builtIn(ruleSecret+":"+p.target.List), "the path is on the list of secrets")
	}
	if p.kind == aCommand && j.call.Command.profile() == ProfileNone && !j.policy.Unsandboxed {
		p.fix(Deny, builtIn(ruleUnsandboxed), "commands outside the sandbox are switched off")
	}
}

func (j *judge) mode() Ref {
	m := j.policy.Mode
	if m == "" {
		m = ModeAsk
	}
	r := Ref{Name: ruleMode + ":" + string(m), Origin: j.policy.ModeAt}
	if r.File == "" {
		r.Layer = BuiltIn
	}
	return r
}

// forbid holds a rule that asks or denies against the parts.
func (j *judge) forbid(r *Rule) {
	commands := len(r.Commands)+len(r.Exact) > 0
	switch {
	case r.Decision == Allow || !j.holds(r) || !j.fitsCall(r):
		return
	case commands && len(r.Paths)+len(r.Hosts) == 0 && j.call.Command != nil:
		return // package shell has held it against the text
	case !r.partial():
		for i := range j.parts {
			j.parts[i].fix(r.decision(), r.Ref(), "%s", r.why())
		}
		return
	}
	fits := make([]fit, len(j.parts))
	var best [aBare + 1]fit
	for i := range j.parts {
		p := &j.parts[i]
		fits[i] = j.touches(r, p)
		best[p.group()] = max(best[p.group()], fits[i])
	}
	// Every kind of criterion has to fit something; if one only may, it is asked.
	sure := covers
	if len(r.Paths) > 0 {
		sure = min(sure, best[aPath])
	}
	if len(r.Hosts) > 0 {
		sure = min(sure, best[aHost])
	}
	if commands {
		sure = min(sure, best[aCommand])
	}
	for i := range j.parts {
		p := &j.parts[i]
		switch min(sure, fits[i]) {
		case covers:
			p.fix(r.decision(), r.Ref(), "%s", r.why())
		case overlaps:
			// A rule about some paths is not to be a question about every call of a
			// tool that was allowed by name, and whose paths are never known.
			if p.meant && len(r.Tools) == 0 {
				continue
			}
			p.fix(Ask, r.Ref(), "the rule may be meant: it cannot be held against %s", p)
		}
	}
}

// decision is what a rule that does not allow says. What is none of the three
// is a denial.
func (r *Rule) decision() Decision {
	if r.Decision == Ask {
		return Ask
	}
	return Deny
}

// group is the kind of criterion that p is held against.
func (p *part) group() kind {
	switch p.kind {
	case aPath, anyPath:
		return aPath
	case aHost, anyHost:
		return aHost
	case aCommand, anyProgram:
		return aCommand
	}
	return aBare
}

// touches says whether p is what a rule with paths, hosts or commands is about.
func (j *judge) touches(r *Rule, p *part) fit {
	switch p.group() {
	case aPath:
		switch {
		case len(r.Paths) == 0:
		case p.kind == anyPath:
			return overlaps
		case j.fitsPath(r, p.target.Path):
			return covers
		}
	case aHost:
		best := apart
		for _, h := range r.Hosts {
			if p.kind == anyHost {
				return overlaps
			}
			best = max(best, fitHost(h, p.host))
		}
		return best
	case aCommand:
		if p.kind == aCommand && len(r.Commands)+len(r.Exact) > 0 && j.fitsCommand(r) {
			return covers
		}
	}
	return apart
}

// namesTool reports whether r is for particular tools or calls.
func (r *Rule) namesTool() bool {
	return len(r.Inputs) > 0 || len(r.Tools) > 0 && !slices.Contains(r.Tools, "*")
}

// partial reports whether r is about parts of a call only.
func (r *Rule) partial() bool { return len(r.Paths)+len(r.Hosts)+len(r.Commands)+len(r.Exact) > 0 }

func (r *Rule) why() string {
	if r.Reason != "" {
		return r.Reason
	}
	switch r.Decision {
	case Allow:
		return "a rule allows this"
	case Ask:
		return "a rule asks about this"
	}
	return "a rule denies this"
}

// permit finds what allows p, or says that nothing does.
func (j *judge) permit(p *part) {
	if p.kind == aCommand {
		j.permitCommand(p)
		return
	}
	for i := range j.policy.Rules {
		r := &j.policy.Rules[i]
		if r.Decision == Allow && j.holds(r) && j.fitsCall(r) && j.allows(r, p) {
			p.set(Allow, r.Ref(), "%s", r.why())
			p.meant = p.meant || (p.kind == anyPath || p.kind == anyHost) && r.namesTool()
		}
	}
	if p.decision != "" {
		return
	}
	t := p.target
	edits := j.policy.Mode == ModeAllowEdits && slices.Contains([]tool.Source{tool.Builtin, tool.Native, tool.Installed}, j.call.Source)
	switch {
	case p.kind == aPath && t.List != "" && t.Verb != Read:
		p.set(Ask, builtIn(ruleProtected+":"+t.List), "the path is on the list of protected paths, and no rule names it")
	case p.kind == aPath && t.Verb == Read && !outside(t.Path):
		p.set(Allow, builtIn(ruleReads), "reading inside the workspace needs no question")
	case p.kind == aPath && p.job && !outside(t.Path):
		p.set(Allow, builtIn(ruleCommand), "it is the job of a command that is judged by itself")
	case p.kind == aPath && t.Verb == Make && j.filled(t.Path):
		p.set(Allow, builtIn(ruleParent), "it is made for what is judged by itself")
	case p.kind == aPath && edits && !outside(t.Path) && t.Verb != Erase:
		p.set(Allow, j.mode(), "changes of files need no question in this mode")
	case p.kind == aBare && !j.call.Effects.Any(withEffects) && (j.call.Source != tool.MCP || j.call.Trusted):
		p.set(Allow, builtIn(ruleReads), "a call without effects needs no question")
	case p.kind == aBare && !j.call.Effects.Any(withEffects):
		p.set(Ask, builtIn(ruleDefault), "an upstream server's own word that this has no effects does not count")
	default:
		p.set(Ask, builtIn(ruleDefault), "no rule allows %s", p)
	}
}

// filled reports whether the call writes something below a directory.
func (j *judge) filled(dir string) bool {
	return slices.ContainsFunc(j.call.Targets, func(t Target) bool {
		return t.Verb == Write && strings.HasPrefix(t.Path, dir+"/")
	})
}

func outside(path string) bool { return strings.HasPrefix(path, "/") }

// allows reports whether a rule that fits the call covers p.
func (j *judge) allows(r *Rule, p *part) bool {
	whole := !r.partial()
	switch p.kind {
	case aPath:
		listed := p.target.List != "" && p.target.Verb != Read
		switch {
		case len(r.Paths) > 0:
			return j.fitsPath(r, p.target.Path) && (!listed || r.names(p.target))
		case listed: // exactly this call, with the list's rule named
			return whole && len(r.Inputs) > 0 && r.names(p.target)
		}
		return whole && (!outside(p.target.Path) || len(r.Inputs) > 0)
	case aHost:
		for _, h := range r.Hosts {
			if fitHost(h, p.host) == covers {
				return true
			}
		}
		return whole
	}
	return whole
}

// builtIn is the reference to what holds without a rule.
func builtIn(name string) Ref { return Ref{Name: name, Origin: Origin{Layer: BuiltIn}} }
