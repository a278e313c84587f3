package policy

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// saved is how long a rule holds that is offered for saving.
const saved = 30 * 24 * time.Hour

// sum makes the verdict of the parts.
func (j *judge) sum() Verdict {
	v := Verdict{Decision: Allow}
	decisive := 0
	for i := range j.parts {
		p := &j.parts[i]
		if p.decision == Ask && j.policy.Mode == ModeDeny {
			p.decision, p.rule, p.why = Deny, j.mode(), "nobody is asked in this mode, and "+p.why
		}
		switch d := &j.parts[decisive]; {
		case p.decision.rank() > d.decision.rank(),
			p.decision == Allow && d.decision == Allow && d.rule.Layer == BuiltIn && p.rule.Layer != BuiltIn:
			decisive = i
		}
		if p.kind == aCommand {
			v.Findings = append(v.Findings, j.commandFindings(p)...)
		} else {
			v.Findings = append(v.Findings, Finding{p.String(), p.decision, p.rule, p.why})
		}
		if p.decision != Allow && p.listed() {
			v.InPerson = true
		}
	}
	if c := j.call.Command; c != nil {
		v.Plan = j.text.Plan
		v.InPerson = v.InPerson || c.profile() == ProfileNone
	}
	d := &j.parts[decisive]
	v.Decision, v.Rule, v.Reason = d.decision, d.rule, d.why
	if v.Decision != Allow {
		j.offer(&v)
	}
	return v
}

// nameable reports whether a rule in a file can be about p: the path is one that
// a canonical path can be, the host one that a host can have.
func (p *part) nameable() bool {
	switch p.kind {
	case aPath:
		path := p.target.Path
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) || len(path) > 4000 {
			return false
		}
		for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			if name == "" || name == "." || name == ".." {
				return false
			}
		}
	case aHost:
		return p.host != "" && len(p.host) <= 260 && strings.Trim(p.host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:[]*") == ""
	}
	return true
}

// listed reports whether p is on a list that its verb is held against.
func (p *part) listed() bool {
	return p.kind == aPath && (p.target.Secret || p.target.List != "" && p.target.Verb != Read)
}

// offer finds the smallest rule that would allow the call, and one to save.
func (j *judge) offer(v *Verdict) {
	c := &j.call
	r := Rule{Decision: Allow, Tools: []string{c.Tool}}
	r.Sources = []tool.Source{c.Source}
	if c.Module != "" && c.Source != tool.Builtin { // what is part of this program changes with it
		r.Modules = []tool.Digest{c.Module}
	}
	if !tool.ValidName(c.Tool) {
		v.Instead = "no rule can name the tool " + tool.QuotePath(clip(c.Tool))
		return
	}
	unknown := false
	for i := range j.parts {
		p := &j.parts[i]
		if p.fixed != nil {
			v.Instead = j.instead(p)
			return
		}
		if p.decision != Allow && !p.nameable() {
			v.Instead = "no rule can name " + p.String()
			return
		}
		unknown = unknown || p.decision != Allow && (p.kind == anyPath || p.kind == anyHost || p.kind == anyProgram)
	}
	for i := range j.parts {
		p := &j.parts[i]
		switch {
		case p.decision == Allow:
		case p.kind == aCommand:
			if len(j.text.Suggest) == 0 {
				v.Instead = "no rule can allow this: " + p.why
				return
			}
			r.Profiles = []string{c.Command.profile()}
			for _, s := range j.text.Suggest {
				if s.Exact {
					r.Exact = append(r.Exact, s.Words)
				} else {
					r.Commands = append(r.Commands, s.Words)
				}
			}
		case p.kind == aPath && unknown:
			if p.listed() {
				add(&r.Protected, p.target.List)
			}
		case p.kind == aPath:
			add(&r.Paths, escapeGlob(p.target.Path))
		case p.kind == aHost && !unknown:
			add(&r.Hosts, p.host)
		}
	}
	smallest := r
	smallest.Name = "this call of " + c.Tool
	smallest.Inputs = []tool.Digest{c.Input}
	v.Smallest = &smallest
	if len(r.Commands)+len(r.Exact) > 0 && len(r.Paths)+len(r.Hosts) > 0 {
		r.Inputs = smallest.Inputs // a rule about both is read in two ways; about one call it is plain
	}
	if unknown && len(r.Protected) > 0 {
		return // without its digest the rule would allow too much
	}
	r.Name = "saved for " + c.Tool
	if j.site.Root != "" {
		r.Workspaces = []string{j.site.Root}
	}
	if !j.site.Now.IsZero() {
		r.Expires = j.site.Now.Add(saved).UTC().Truncate(24 * time.Hour)
	}
	r.Origin.Layer = Saved
	r.ID = r.ContentID()
	v.Save = &r
}

// input is the digest of the canonical arguments; none are {}.
func (c *Call) input() tool.Digest {
	switch {
	case c.Input != "":
		return c.Input
	case c.Arguments == nil:
		return tool.DigestOf([]byte("{}"))
	}
	return tool.DigestOf(c.Arguments)
}

// instead says what a person could change where no rule that allows helps.
func (j *judge) instead(p *part) string {
	switch r := *p.fixed; {
	case r == builtIn(ruleUnsandboxed):
		return "no rule can allow this; set allow_unsandboxed = true in [terminal] of your configuration"
	case r == j.mode():
		return "no rule can allow this; change mode in [approvals] of your configuration"
	case r.Layer == BuiltIn && strings.HasPrefix(r.Name, ruleSecret+":"):
		return "no rule can allow this; add " + quote(escapeGlob(p.target.Path)) + " to allow_read in [workspace] of your configuration"
	case r.Layer == BuiltIn:
		return "no rule can allow this: " + p.why
	}
	return "no rule that allows can help, because the strictest one wins; change or remove " + p.fixed.String()
}

func add(list *[]string, s string) {
	if !slices.Contains(*list, s) {
		*list = append(*list, s)
	}
}
