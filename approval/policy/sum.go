package policy

import (
	"slices"

	"github.com/wasmtools/wasmtools/tool"
)

// sum makes the verdict of the parts.
func (j *judge) sum() Verdict {
	v := Verdict{Decision: Allow}
	decisive := 0
	for i := range j.parts {
		p := &j.parts[i]
		if p.decision == Ask && j.policy.Mode == ModeDeny {
			p.decision, p.rule, p.why = Deny, j.mode(), "nobody is asked in this mode, and "+p.why
		}
		if p.decision.rank() > j.parts[decisive].decision.rank() {
			decisive = i
		}
		v.Findings = append(v.Findings, Finding{p.String(), p.decision, p.rule, p.why})
		t := p.target
		if p.decision != Allow && (t.Secret || t.List != "" && t.Verb != Read) {
			v.InPerson = true
		}
	}
	if c := j.call.Command; c != nil && c.profile() == ProfileNone {
		v.InPerson = true
	}
	d := &j.parts[decisive]
	v.Decision, v.Rule, v.Reason = d.decision, d.rule, d.why
	if v.Decision != Allow {
		j.offer(&v)
	}
	return v
}

// offer finds the smallest rule that would allow the call, and one to save.
func (j *judge) offer(v *Verdict) {
	for i := range j.parts {
		if p := &j.parts[i]; p.fixed != nil {
			v.Instead = j.instead(p)
			return
		}
	}
	c := &j.call
	input := c.Input
	if input == "" && c.Arguments != nil {
		input = tool.DigestOf(c.Arguments)
	}
	save := Rule{Name: "allow " + c.Tool, Decision: Allow, Tools: []string{c.Tool}}
	if c.Source != "" {
		save.Sources = []tool.Source{c.Source}
	}
	if c.Module != "" {
		save.Modules = []tool.Digest{c.Module}
	}
	unknown := slices.ContainsFunc(j.parts, func(p part) bool { return !p.known() && p.decision != Allow })
	for i := range j.parts {
		p := &j.parts[i]
		if p.decision == Allow {
			continue
		}
		switch {
		case p.kind == aPath && unknown:
			if p.target.List != "" {
				add(&save.Protected, p.target.List)
			}
		case p.kind == aPath:
			add(&save.Paths, escapeGlob(p.target.Path))
		case p.kind == aHost && !unknown:
			add(&save.Hosts, p.host)
		case p.kind == aCommand:
			v.Instead = "the command cannot be allowed by a rule"
			return
		}
	}
	smallest := save
	if input != "" {
		smallest.Inputs = []tool.Digest{input}
		v.Smallest = &smallest
	}
	if !unknown {
		v.Save = &save
	}
}

func (j *judge) instead(p *part) string {
	switch r := *p.fixed; {
	case r.Layer == BuiltIn && r.Name == ruleUnsandboxed:
		return "no rule can allow this; set allow_unsandboxed = true in [terminal] of your configuration"
	case r == j.mode():
		return "no rule can allow this; the mode has to change ([approvals] mode)"
	}
	return "no rule that allows can help, because the strictest one wins; change or remove " + p.fixed.String()
}

func add(list *[]string, s string) {
	if !slices.Contains(*list, s) {
		*list = append(*list, s)
	}
}
