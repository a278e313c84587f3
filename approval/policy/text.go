package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TOML is r as it would stand in a file of rules: what a person is shown before
// it is saved, and what is then saved, to the byte. Origin is not part of it,
// and an ID is told only by the name of the file that holds a saved rule.
func (r Rule) TOML() string {
	var b strings.Builder
	b.WriteString("[[rules]]\n")
	if r.Name != "" {
		fmt.Fprintf(&b, "name = %s\n", quote(r.Name))
	}
	fmt.Fprintf(&b, "verdict = %s\n", quote(string(r.Decision)))
	list(&b, "tools", r.Tools)
	list(&b, "sources", r.Sources)
	list(&b, "modules", r.Modules)
	list(&b, "inputs", r.Inputs)
	list(&b, "effects", r.Effects.Strings())
	list(&b, "paths", r.Paths)
	list(&b, "protected", r.Protected)
	list(&b, "hosts", r.Hosts)
	words(&b, "commands", r.Commands)
	words(&b, "exact", r.Exact)
	list(&b, "profiles", r.Profiles)
	list(&b, "workspaces", r.Workspaces)
	if !r.Expires.IsZero() {
		fmt.Fprintf(&b, "expires = %s\n", r.Expires.UTC().Format(time.RFC3339))
	}
	if r.Reason != "" {
		fmt.Fprintf(&b, "reason = %s\n", quote(r.Reason))
	}
	return b.String()
}

// ContentID names a rule by what it says: the same rule has the same one.
func (r Rule) ContentID() string {
	sum := sha256.Sum256([]byte(r.TOML()))
	return hex.EncodeToString(sum[:6])
}

func list[S ~string](b *strings.Builder, key string, values []S) {
	if len(values) == 0 {
		return
	}
	fmt.Fprintf(b, "%s = %s\n", key, quoteList(values))
}

func words(b *strings.Builder, key string, patterns [][]string) {
	if len(patterns) == 0 {
		return
	}
	fmt.Fprintf(b, "%s = [", key)
	for i, p := range patterns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoteList(p))
	}
	b.WriteString("]\n")
}

func quoteList[S ~string](values []S) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = quote(string(v))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// quote writes a basic string of TOML. What cannot be seen is escaped, so that
// nothing in a rule can change how the text around it reads. TOML knows no bytes
// that are not UTF-8: they become U+FFFD.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c) && c != utf8.RuneError:
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, c)
		default:
			fmt.Fprintf(&b, `\u%04X`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
