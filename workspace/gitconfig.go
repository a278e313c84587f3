package workspace

import "strings"

// setting is one line of a git configuration. Section and key are in lower case.
type setting struct {
	section, sub, key, value string
}

// maxSettings bounds what is taken from one file.
const maxSettings = 10_000

// parseGitConfig reads the format of git-config(1). Git gives up at a line that
// it cannot read; here that line alone is left out, because a setting that git
// might honour after all must not be missed.
func parseGitConfig(text string) []setting {
	p := configText{text: strings.TrimPrefix(text, "\ufeff")}
	var out []setting
	var section, sub string
	for p.skipBlanks(); p.at < len(p.text) && len(out) < maxSettings; p.skipBlanks() {
		switch c := p.text[p.at]; {
		case c == '[':
			name, s, ok := p.header()
			if !ok {
				p.skipLine()
				continue
			}
			section, sub = name, s
		case isKeyStart(c):
			key, value, ok := p.assignment()
			if !ok {
				p.skipLine()
				continue
			}
			out = append(out, setting{section, sub, key, value})
		default: // a comment, or nothing that can be read
			p.skipLine()
		}
	}
	return out
}

type configText struct {
	text string
	at   int
}

// next gives the next byte, and a line end for CRLF and for the end of the text.
func (p *configText) next() byte {
	if p.at >= len(p.text) {
		p.at++
		return '\n'
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		p.at++
		c = '\n'
	}
	return c
}

func (p *configText) skipLine() {
	if i := strings.IndexByte(p.text[min(p.at, len(p.text)):], '\n'); i >= 0 {
		p.at += i + 1
	} else {
		p.at = len(p.text)
	}
}

func (p *configText) skipBlanks() {
	for p.at < len(p.text) && isBlank(p.text[p.at]) {
		p.at++
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isKeyStart(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isKey(c byte) bool { return isKeyStart(c) || '0' <= c && c <= '9' || c == '-' }

// header reads "[section]", "[section.sub]" or `[section "sub"]`.
func (p *configText) header() (section, sub string, ok bool) {
	start := p.at + 1
	for i := start; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case isKey(c) || c == '.':
			continue
		case c == ']':
			p.at = i + 1
			section = strings.ToLower(p.text[start:i])
			if name, old, dotted := strings.Cut(section, "."); dotted {
				return name, old, true // the old form, whose subsection is folded
			}
			return section, "", section != ""
		case c == ' ' || c == '\t':
			section = strings.ToLower(p.text[start:i])
			for i < len(p.text) && (p.text[i] == ' ' || p.text[i] == '\t') {
				i++
			}
			if i >= len(p.text) || p.text[i] != '"' {
				return "", "", false
			}
			return p.quotedSub(section, i+1)
		}
		return "", "", false
	}
	return "", "", false
}

func (p *configText) quotedSub(section string, i int) (string, string, bool) {
	var b strings.Builder
	for ; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case '\n':
			return "", "", false
		case '"':
			if i+1 >= len(p.text) || p.text[i+1] != ']' {
				return "", "", false
			}
			p.at = i + 2
			return section, b.String(), true
		case '\\':
			if i++; i >= len(p.text) || p.text[i] == '\n' {
				return "", "", false
			}
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// assignment reads "key", or "key = value" with its quotes, escapes, comment and
// continued lines. A failure leaves p within the line.
func (p *configText) assignment() (key, value string, ok bool) {
	start := p.at
	for p.at < len(p.text) && isKey(p.text[p.at]) {
		p.at++
	}
	key = strings.ToLower(p.text[start:p.at])
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	before := p.at
	switch c := p.next(); c {
	case '\n':
		return key, "", true
	case '=':
		value, ok = p.value()
		return key, value, ok
	case '#', ';':
		p.skipLine()
		return key, "", true
	}
	p.at = before
	return "", "", false
}

func (p *configText) value() (string, bool) {
	var b strings.Builder
	quoted, comment := false, false
	keep := 0 // what of b is no blank at the end
	for {
		before := p.at
		c := p.next()
		switch {
		case c == '\n':
			if quoted {
				p.at = before
				return "", false
			}
			return b.String()[:keep], true
		case comment:
		case isBlank(c) && !quoted:
			if keep > 0 {
				b.WriteByte(c)
			}
		case (c == ';' || c == '#') && !quoted:
			comment = true
		case c == '"':
			quoted = !quoted
			keep = b.Len()
		case c == '\\':
			esc := p.next()
			if esc == '\n' {
				continue
			}
			i := strings.IndexByte(`tbn\"`, esc)
			if i < 0 {
				p.at = before + 1
				return "", false
			}
			b.WriteByte("\t\b\n\\\""[i])
			keep = b.Len()
		default:
			b.WriteByte(c)
			keep = b.Len()
		}
	}
}
