package policy

import (
	"strings"

	"github.com/wasmtools/wasmtools/approval/shell"
	"github.com/wasmtools/wasmtools/tool"
)

// shellSite is the site as package shell sees it.
func (j *judge) shellSite() shell.Site {
	c, s := j.call.Command, j.site
	return shell.Site{
		Root: s.Root, Cwd: c.Cwd, Home: s.Home, Path: s.Path,
		Shell: c.Shell, Changed: c.Changed, FS: s.FS,
	}
}

// judgeCommand has the text judged against the patterns of the rules that hold.
// What it reads and writes by name becomes parts of the call.
func (j *judge) judgeCommand() {
	if j.call.Command == nil {
		return
	}
	var rules shell.Rules
	from := map[string]*Rule{} // by the pattern's source, which is unique for each rule
	for i := range j.policy.Rules {
		r := &j.policy.Rules[i]
		if len(r.Commands)+len(r.Exact) == 0 || !j.holds(r) || !j.fitsCall(r) {
			continue
		}
		if r.Decision != Allow && len(r.Paths)+len(r.Hosts) > 0 {
			continue // commands are only one of its criteria: see forbid
		}
		source := r.Ref().String()
		for from[source] != nil {
			source += "'"
		}
		from[source] = r
		list := &rules.Ask
		switch r.Decision {
		case Allow:
			list = &rules.Allow
		case Ask:
		default:
			list = &rules.Deny
		}
		*list = append(*list, r.patterns(source)...)
	}
	rules.WorkspacePaths = true
	rules.Files = func(shell.Op, string) (shell.Verdict, string) { return shell.Allow, "" } // they are judged as parts
	j.text = shell.Judge(j.call.Command.Text, j.shellSite(), rules)
	j.from = from
	for _, f := range j.text.Files {
		p := part{kind: aPath, target: j.target(f)}
		p.job = f.Op == shell.Change
		j.parts = append(j.parts, p)
	}
}

func (r *Rule) patterns(source string) []shell.Pattern {
	var out []shell.Pattern
	for _, w := range r.Commands {
		out = append(out, shell.Pattern{Words: w, Source: source})
	}
	for _, w := range r.Exact {
		out = append(out, shell.Pattern{Words: w, Exact: true, Source: source})
	}
	return out
}

// target is a file of a command, looked up in the lists.
func (j *judge) target(f shell.File) Target {
	t := Target{Verb: Write, Path: f.Path}
	if f.Op == shell.Read {
		t.Verb = Read
	}
	if f.Outside && !outside(t.Path) {
		t.Path = "/" + t.Path
	}
	if j.site.Listed != nil {
		t.List, t.Secret = j.site.Listed(f.Path)
	}
	return t
}

// ruleOf is the rule that a pattern came from.
func (j *judge) ruleOf(p *shell.Pattern) *Rule {
	if p == nil {
		return nil
	}
	return j.from[p.Source]
}

// permitCommand takes over what package shell found.
func (j *judge) permitCommand(p *part) {
	res := &j.text
	none := j.call.Command.profile() == ProfileNone
	switch {
	case res.Verdict == shell.Allow:
		for i := range res.Commands {
			if r := j.ruleOf(res.Commands[i].Pattern); r != nil {
				p.set(Allow, r.Ref(), "rules allow every command of it")
				return
			}
		}
		p.set(Allow, builtIn(ruleCommand), "it runs no program")
		return
	case none && res.Verdict != shell.Deny:
		p.set(Ask, builtIn(ruleUnsandboxed), "outside the sandbox every command is asked about, unless a rule names the profile")
	}
	for i := range res.Reasons {
		why := &res.Reasons[i]
		r := j.ruleOf(why.Pattern)
		d := decisionOf(why.Verdict)
		switch {
		case r != nil && r.Decision != Allow && d == r.Decision:
			p.fix(d, r.Ref(), "%s", r.whyOf(why.Text))
		case d == Deny:
			p.fix(d, builtIn(ruleCommand), "%s", why.Text)
		case d == Ask:
			p.set(d, builtIn(ruleCommand), "%s", why.Text)
		}
	}
	// Whatever the reasons told, the verdict stands.
	p.set(decisionOf(res.Verdict), builtIn(ruleCommand), "%s", res.Reason)
}

func decisionOf(v shell.Verdict) Decision {
	switch v {
	case shell.Allow:
		return Allow
	case shell.Deny:
		return Deny
	}
	return Ask
}

// whyOf prefers what the author of a rule wrote over what was found.
func (r *Rule) whyOf(found string) string {
	if r.Reason != "" {
		return r.Reason
	}
	return found
}

// fitsCommand reports whether a rule's patterns fit any command of the text, as
// far as it can be seen through.
func (j *judge) fitsCommand(r *Rule) bool {
	res := shell.Judge(j.call.Command.Text, j.shellSite(), shell.Rules{Deny: r.patterns("")})
	return res.Verdict == shell.Deny
}

// commandFindings are the findings of the single commands of a text.
func (j *judge) commandFindings(p *part) []Finding {
	list := []Finding{{p.String(), p.decision, p.rule, p.why}}
	for i := range j.text.Commands {
		c := &j.text.Commands[i]
		f := Finding{Part: "command " + shown(c.Words), Decision: decisionOf(c.Verdict), Rule: builtIn(ruleCommand), Why: c.Reason}
		if r := j.ruleOf(c.Pattern); r != nil {
			f.Rule = r.Ref()
			if f.Why == "" {
				f.Why = r.why()
			}
		}
		list = append(list, f)
	}
	return list
}

// shown is a command's words as one line for people and models.
func shown(words []string) string {
	s := shell.Pattern{Words: words}.String()
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return tool.QuotePath(s)
}
