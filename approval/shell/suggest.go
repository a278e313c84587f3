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
		if !c.Literal || len(c.Words) == 0 || len(out) == maxSuggest || !offered(c.Words[0]) {
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

// offered reports whether a rule may be offered for a program: never for a
// shell, an interpreter or a wrapper, whose rule would be one for everything.
func offered(name string) bool {
	p := lookup(baseName(name))
	return p == nil || !p.runs()
}

func baseName(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}
