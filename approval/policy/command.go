package policy

import (
	"fmt"
	"maps"
	"slices"
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
		if from[source] != nil {
			source = fmt.Sprintf("%s, rule %d", source, i+1)
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
	// Files of the workspace are judged as parts of the call. What lies outside of
	// it package shell asks about itself.
	rules.WorkspacePaths = true
	seen := map[shell.File]bool{}
	rules.Files = func(op shell.Op, path string) (shell.Verdict, string) {
		f := shell.File{Path: path, Outside: outside(path), Op: op}
		if !seen[f] {
			if len(seen) == maxFiles {
				return shell.Ask, "it names more files than a person could look at"
			}
			seen[f] = true
			j.parts = append(j.parts, part{kind: aPath, target: j.target(f), job: op == shell.Change})
		}
		return shell.Allow, ""
	}
	j.text = shell.Judge(j.call.Command.Text, j.shellSite(), rules)
	j.from = from
}

// maxFiles bounds the files of one command that are judged.
const maxFiles = 1024

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
	if j.site.Listed != nil && !f.Outside {
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
	for _, name := range slices.Sorted(maps.Keys(j.call.Command.Env)) {
		if !harmless(name, j.call.Command.Env[name]) {
			p.fix(Ask, builtIn(ruleCommand), "it sets the variable %s, which can change what programs do", tool.QuotePath(clip(name)))
		}
	}
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

// harmless reports whether a variable changes nothing about what a program does,
// as package shell knows it of assignments in a text.
func harmless(name, value string) bool {
	if name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" || strings.ContainsRune(value, 0) {
		return false
	}
	text := name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "' true"
	res := shell.Judge(text, shell.Site{Root: "/", Cwd: "/"}, shell.Rules{Allow: []shell.Pattern{{Words: []string{"true"}}}})
	return res.Verdict == shell.Allow
}

func clip(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}

// shown is a command's words as one line for people and models.
func shown(words []string) string {
	s := shell.Pattern{Words: words}.String()
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return tool.QuotePath(s)
}
