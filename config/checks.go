package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// Each check returns what is wrong with a text, or "".

func checkName(s string) (text, hint string) {
	ok := s != "" && len(s) <= 128
	for i := range len(s) {
		c := s[i]
		ok = ok && (c == '*' || c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	if !ok {
		return fmt.Sprintf("%q is no name of a tool", clip(s)), "names have letters, digits, _ and -; * stands for any of them"
	}
	return "", ""
}

// checkServer is for names of upstream servers, which begin the names of their
// tools.
func checkServer(s string) (text, hint string) {
	ok := s != "" && len(s) <= 32 && !strings.Contains(s, "__") && s[0] != '_' && s[len(s)-1] != '_'
	for i := range len(s) {
		c := s[i]
		ok = ok && (c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	if !ok {
		return fmt.Sprintf("%q is no name of a server", clip(s)), "names have up to 32 letters, digits, - and single _ between them"
	}
	return "", ""
}

// checkURL takes addresses that nobody on the way can read: https, or this
// machine's own.
func checkURL(s string) (text, hint string) {
	u, err := url.Parse(s)
	if err == nil && u.Host != "" && u.User == nil && u.Fragment == "" {
		local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
		if u.Scheme == "https" || u.Scheme == "http" && local {
			return "", ""
		}
	}
	return fmt.Sprintf("%q is no address of a server", clip(s)), "write https://host/path, or http:// for this machine; keys belong into secret_headers"
}

// checkToolName is for the names in rules, which see no aliases.
func checkToolName(s string) (text, hint string) {
	if text, hint = checkName(s); text != "" {
		return text, hint
	}
	if target, _, known, _ := alias.Resolve(s, []byte("{}")); known {
		return fmt.Sprintf("%q is only another name of a tool", s), "write " + target + ", which rules see"
	}
	return "", ""
}

func checkDigest(s string) (text, hint string) {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Sprintf("%q is no digest", clip(s)), "write sha256: and 64 lower-case hexadecimal digits"
	}
	return "", ""
}

// Bounds on globs. A matcher that reads braces while it matches takes time for
// each way to read them.
const (
	maxListGlob = 1024 // bytes; as package workspace has it
	maxSpelt    = 256  // globs without braces that one with braces stands for
)

// checkListGlob checks a glob of the lists of the workspace: relative, or a bare
// name that fits in any folder.
func checkVariable(s string) (text, hint string) {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return fmt.Sprintf("%q is no name of a variable", clip(s)), "write letters, digits and _, without a value"
		}
	}
	if s == "" {
		return "a name of a variable is empty", ""
	}
	return "", ""
}

func checkListGlob(s string) (text, hint string) {
	switch {
	case len(s) > maxListGlob:
		return fmt.Sprintf("a glob has %d bytes; at most %d are allowed", len(s), maxListGlob), ""
	case strings.HasPrefix(s, "/"):
		return fmt.Sprintf("%q begins with a slash", clip(s)), "write it relative to the workspace root; a name without a slash fits in every folder"
	}
	return checkRuleGlob(s)
}

func checkRuleGlob(s string) (text, hint string) {
	switch {
	case s == "":
		return "the glob is empty", "** fits everything"
	case len(s) > 4096:
		return fmt.Sprintf("a glob has %d bytes; at most 4096 are allowed", len(s)), ""
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Sprintf("%q holds a control character", clip(s)), ""
	case !doublestar.ValidatePattern(s):
		return fmt.Sprintf("%q is no glob", clip(s)), "* and ? stay inside one folder, ** goes through folders, [a-z] and {a,b} choose, \\ takes one literally"
	case spelt(s) > maxSpelt:
		return fmt.Sprintf("the braces of %q stand for more than %d globs", clip(s), maxSpelt), "write several globs"
	case strings.HasPrefix(s, "~"):
		return fmt.Sprintf("%q: ~ is a name here, not the home folder", clip(s)), "write the real path"
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		switch part {
		case ".", "..":
			return fmt.Sprintf("%q has a %s that no canonical path has", clip(s), part), "write the path without it"
		case "":
			return fmt.Sprintf("%q has an empty part", clip(s)), "a folder with everything below it is " + strings.TrimRight(clip(s), "/") + "/**"
		}
	}
	return "", ""
}

// spelt counts the globs without braces that a valid glob stands for; anything
// over maxSpelt is told as maxSpelt+1.
func spelt(glob string) int {
	type group struct{ before, here int } // of the alternatives before, and of this one
	open := []group{{0, 1}}
	for i := 0; i < len(glob); i++ {
		last := &open[len(open)-1]
		switch c := glob[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, group{0, 1})
		case c == ',' && len(open) > 1:
			last.before, last.here = last.before+last.here, 1
		case c == '}' && len(open) > 1:
			n := last.before + last.here
			open = open[:len(open)-1]
			open[len(open)-1].here *= n
		}
		if top := open[len(open)-1]; top.before+top.here > maxSpelt {
			return maxSpelt + 1
		}
	}
	return open[0].here
}

func checkHost(s string) (text, hint string) {
	if _, why, ok := (manifest.Capabilities{Net: []manifest.HostRule{{Host: s}}}).Check(); !ok {
		return why, ""
	}
	return "", ""
}

func checkAbsolute(s string) (text, hint string) {
	if !filepath.IsAbs(s) || filepath.Clean(s) != s {
		return fmt.Sprintf("%q is no real path of a workspace", clip(s)), "write it as wasmtools doctor shows it"
	}
	return "", ""
}

// checkLine is for texts that people read in one line.
func checkLine(s string) (text, hint string) {
	if s == "" {
		return "the text is empty", ""
	}
	if invisible(s) {
		return fmt.Sprintf("%q holds a character that cannot be seen", clip(s)), ""
	}
	return "", ""
}

func invisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// splitWords takes a pattern that is written as one text apart.
func splitWords(s string) (words []string, text, hint string) {
	if strings.ContainsAny(s, "\"'\\$`;&|<>()*?[]{}~#!\n\r") {
		return nil, fmt.Sprintf("%q has characters that mean something to a shell", clip(s)), `write the words of the pattern as a list: ["git", "log"]`
	}
	if invisible(strings.ReplaceAll(s, "\t", " ")) { // it would fit nothing, and a deny would hold nothing back
		return nil, fmt.Sprintf("%q holds a character that cannot be seen", clip(s)), ""
	}
	words = strings.Fields(s)
	if len(words) == 0 {
		return nil, "the pattern has no words", ""
	}
	return words, "", ""
}
