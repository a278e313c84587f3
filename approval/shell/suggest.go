package shell

import "slices"

// maxSuggest bounds how many patterns are offered for one text.
const maxSuggest = 8

// suggest finds the patterns that would make a text, and no other, allowed. It
// offers none unless judging the text again with them says so.
func suggest(text string, site Site, rules Rules, res Result) []Pattern {
	var out []Pattern
	for _, c := range res.Commands {
		if c.Verdict == Allow {
			continue
		}
		if !c.Literal || len(c.Words) == 0 || len(out) == maxSuggest || !offered(c.Words) {
			return nil
		}
		p := Pattern{Words: slices.Clone(c.Words), Exact: true}
		if !slices.ContainsFunc(out, func(q Pattern) bool { return slices.Equal(p.Words, q.Words) }) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil
	}
	rules.Allow = append(slices.Clone(rules.Allow), out...)
	if judgeText(text, site, rules).Verdict != Allow {
		return nil
	}
	return out
}

// offered reports whether a rule may be offered for a command: never for a
// shell, an interpreter or a wrapper, whose rule would be one for everything,
// nor for what is always asked about.
func offered(words []string) bool {
	prog := lookup(baseName(words[0]))
	if prog == nil {
		return true
	}
	fields := make([]field, len(words))
	for i, w := range words {
		fields[i] = literal(w)
	}
	p := (&call{fields: fields}).parsed(prog)
	return !prog.runs() && whyOf(prog, p) == "" && (p == nil || !p.prog.runs())
}

func baseName(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}
