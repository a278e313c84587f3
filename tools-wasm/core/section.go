package main

import (
	"strings"
	"unicode/utf8"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

// showSection shows the part of the file under a heading: in Markdown down to
// the next heading of its level or above, in source code the declaration at the
// top level that has that name. What is found is shown as lines.
func (f opened) showSection(heading string) (guest.Result, error) {
	text := string(f.head)
	if f.name == "" {
		var err error
		if text, err = readWhole(f.call, f.path, ""); err != nil {
			return guest.Result{}, err
		}
	}
	lines := splitLines(text)
	var spans []span
	var known []mdHeading
	if isProse(f.info.Name) {
		known = headings(lines)
		spans = findHeading(known, len(lines), heading)
	}
	if spans == nil {
		spans = findSymbol(lines, heading, f.info.Name)
	}
	switch len(spans) {
	case 1:
		s := spans[0]
		return f.showLines(int64(s.first), int64(s.last), "")
	case 0:
		return guest.Result{}, f.noSection(heading, known)
	}
	where := make([]string, 0, len(spans))
	numbers := make([]guest.Value, 0, len(spans))
	for _, s := range spans {
		numbers = append(numbers, guest.Int(int64(s.at)))
		if len(where) < 20 {
			where = append(where, "line "+itoa(s.at)+": "+clip(lines[s.at-1], 80))
		}
	}
	return guest.Result{}, guest.FailPath(guest.NotUnique, f.path,
		count(len(spans), "section")+" have this name\n"+strings.Join(where, "\n")+"\n").
		WithNext(`open one by its line: {"lines":{"start":` + itoa(spans[0].first) + `,"end":` + itoa(spans[0].last) + `}}`).
		With(guest.F("lines", numbers))
}

func (f opened) noSection(name string, known []mdHeading) error {
	text := "there is no section " + guest.QuotePath(clip(name, 200))
	e := guest.FailPath(guest.InvalidArguments, f.path, text)
	if len(known) == 0 {
		return e.WithNext("find the place with grep, then select lines")
	}
	e.Text += "; the headings are:"
	for i, h := range known {
		if i == 20 {
			e.Text += "\n(" + itoa(len(known)-i) + " more)"
			break
		}
		e.Text += "\nline " + itoa(h.line) + ": " + strings.Repeat("#", h.level) + " " + clip(h.text, 80)
	}
	e.Text += "\n"
	return e.WithNext("use one of them, or select lines")
}

// clip shortens s for an error: at most n bytes, printable, one line.
func clip(s string, n int) string {
	cut := s
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		cut = s[:n] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, cut)
}

// span is a part of a file in lines, 1-based and inclusive; at is the line that
// has the name.
type span struct{ at, first, last int }

// splitLines splits a whole text as the splitter does.
func splitLines(text string) []string {
	end := "\n"
	if !strings.Contains(text, "\n") {
		end = "\r"
	}
	var out []string
	for text != "" {
		line, rest, _ := strings.Cut(text, end)
		if end == "\n" && (rest != "" || strings.HasSuffix(text, end)) {
			line = strings.TrimSuffix(line, "\r")
		}
		out = append(out, line)
		text = rest
	}
	return out
}

// isProse reports whether a file of this name has headings rather than symbols.
func isProse(name string) bool {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return true
	}
	switch strings.ToLower(name[i+1:]) {
	case "md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd", "txt", "text":
		return true
	}
	return false
}

// mdHeading is one heading of a Markdown text.
type mdHeading struct {
	line  int
	level int
	text  string
}

// headings finds the ATX and setext headings of a Markdown text, outside fenced
// and indented code and front matter.
func headings(lines []string) []mdHeading {
	var out []mdHeading
	fence := "" // what opened a fence that is not closed
	start := 0
	if len(lines) > 0 && strings.TrimRight(lines[0], " \t") == "---" {
		for i := 1; i < len(lines); i++ {
			if l := strings.TrimRight(lines[i], " \t"); l == "---" || l == "..." {
				start = i + 1
				break
			}
		}
	}
	prose := false // the line before can be the text of a setext heading
	for i := start; i < len(lines); i++ {
		l := strings.TrimLeft(lines[i], " ")
		if len(lines[i])-len(l) > 3 || strings.HasPrefix(l, "\t") {
			continue // indented code, or the rest of a paragraph
		}
		l = strings.TrimRight(l, " \t")
		if fence != "" {
			if strings.HasPrefix(l, fence) && strings.Trim(l, fence[:1]) == "" {
				fence = ""
			}
			continue
		}
		if f := fenceOf(l); f != "" {
			fence, prose = f, false
			continue
		}
		if level, text := atx(l); level > 0 {
			out = append(out, mdHeading{i + 1, level, text})
			prose = false
			continue
		}
		if prose && l != "" {
			switch strings.Trim(l, l[:1]) {
			case "":
				if l[0] == '=' {
					out = append(out, mdHeading{i, 1, strings.TrimSpace(lines[i-1])})
				} else if l[0] == '-' {
					out = append(out, mdHeading{i, 2, strings.TrimSpace(lines[i-1])})
				}
			}
		}
		prose = l != "" && !strings.ContainsRune(">|-*+=", rune(l[0]))
	}
	return out
}

// fenceOf returns the marks that open a fenced code block, or "".
func fenceOf(l string) string {
	if l == "" || l[0] != '`' && l[0] != '~' {
		return ""
	}
	n := len(l) - len(strings.TrimLeft(l, l[:1]))
	if n < 3 || l[0] == '`' && strings.Contains(l[n:], "`") {
		return ""
	}
	return l[:n]
}

func atx(l string) (int, string) {
	text := strings.TrimLeft(l, "#")
	level := len(l) - len(text)
	if level < 1 || level > 6 || text != "" && text[0] != ' ' && text[0] != '\t' {
		return 0, ""
	}
	text = strings.TrimSpace(text)
	if bare := strings.TrimRight(text, "#"); bare == "" || strings.HasSuffix(bare, " ") || strings.HasSuffix(bare, "\t") {
		text = strings.TrimSpace(bare)
	}
	return level, text
}

// findHeading looks for a heading: exactly, then without regard to case, then
// also without marks of emphasis and code. The first way that finds any counts.
func findHeading(all []mdHeading, lines int, name string) []span {
	name = strings.TrimSpace(name)
	if level, text := atx(name); level > 0 && text != "" {
		name = text
	}
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("`*_", r) {
				return -1
			}
			return r
		}, s)
	}
	plainName := plain(name)
	ways := []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.EqualFold(s, name) },
		func(s string) bool { return strings.EqualFold(plain(s), plainName) },
	}
	for _, same := range ways {
		var out []span
		for i, h := range all {
			if !same(h.text) {
				continue
			}
			s := span{h.line, h.line, lines}
			for _, after := range all[i+1:] {
				if after.level <= h.level {
					s.last = after.line - 1
					break
				}
			}
			out = append(out, s)
		}
		if out != nil {
			return out
		}
	}
	return nil
}
