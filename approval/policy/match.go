package policy

import (
	"net"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/tool"
)

// holds reports whether r is in force: here, now, and under this profile.
func (j *judge) holds(r *Rule) bool {
	if len(r.Workspaces) > 0 && !slices.Contains(r.Workspaces, j.site.Root) {
		return false
	}
	if !r.Expires.IsZero() {
		known := !j.site.Now.IsZero()
		if known && !j.site.Now.Before(r.Expires) {
			return false
		}
		if !known && r.Decision == Allow { // what cannot be told must not allow
			return false
		}
	}
	if j.call.Command == nil {
		return len(r.Profiles) == 0
	}
	profile := j.call.Command.profile()
	if len(r.Profiles) == 0 {
		return r.Decision != Allow || profile != ProfileNone
	}
	return slices.Contains(r.Profiles, profile)
}

func (c *Command) profile() string {
	if c.Profile == "" {
		return ProfileWrite
	}
	return c.Profile
}

// fitsCall reports whether the criteria of r that concern the call as a whole
// fit. A rule that allows has to cover all effects, any other one to touch one.
func (j *judge) fitsCall(r *Rule) bool {
	c := &j.call
	switch {
	case len(r.Tools) > 0 && !slices.ContainsFunc(r.Tools, func(g string) bool { return FitsName(g, c.Tool) }),
		len(r.Sources) > 0 && !slices.Contains(r.Sources, c.Source),
		len(r.Modules) > 0 && (c.Module == "" || !slices.Contains(r.Modules, c.Module)),
		len(r.Inputs) > 0 && (c.Input == "" || !slices.Contains(r.Inputs, c.Input)):
		return false
	case r.Effects == 0:
		return true
	case r.Decision == Allow:
		return c.Effects&^r.Effects&^tool.AsksUser == 0
	}
	return c.Effects.Any(r.Effects)
}

// FitsName reports whether a glob, in which only * is special, fits the name of
// a tool.
func FitsName(glob, name string) bool {
	first, rest, star := strings.Cut(glob, "*")
	if !star {
		return glob == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, p := range parts[:len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return strings.HasSuffix(name, last)
}

// fitsPath reports whether a glob fits a canonical path. Where the file system
// does not tell case, a rule that is not for allowing fits any case.
func (j *judge) fitsPath(r *Rule, path string) bool {
	for _, g := range r.Paths {
		if strings.HasPrefix(g, "/") != strings.HasPrefix(path, "/") {
			continue
		}
		if doublestar.MatchUnvalidated(g, path) {
			return true
		}
		if j.site.Fold && r.Decision != Allow && doublestar.MatchUnvalidated(strings.ToLower(g), strings.ToLower(path)) {
			return true
		}
	}
	return false
}

// names reports whether r means the listed path t: by the list's rule, or by a
// glob that is the path itself.
func (r *Rule) names(t Target) bool {
	return slices.Contains(r.Protected, t.List) || slices.Contains(r.Paths, escapeGlob(t.Path))
}

// escapeGlob returns the glob that fits exactly path.
func escapeGlob(path string) string {
	if !strings.ContainsAny(path, `\*?[]{}~`) {
		return path
	}
	var b strings.Builder
	if strings.HasPrefix(path, "~") { // which looks like a home folder, and is a name
		b.WriteByte('\\')
	}
	for _, c := range []byte(path) {
		if strings.IndexByte(`\*?[]{}`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// fit says how a criterion stands to a part of a call, which may itself be a
// pattern or not be known.
type fit uint8

const (
	apart    fit = iota
	overlaps     // it may be meant, or is in part
	covers
)

func fitHost(rule, call string) fit {
	rh, rp := splitHost(rule)
	ch, cp := splitHost(call)
	best := fitHostName(rh, ch)
	switch {
	case rp == "" || rp == cp:
		return best
	case cp == "": // the call may use any port, the rule is for one
		return min(best, overlaps)
	}
	return apart
}

func fitHostName(rule, call string) fit {
	ruleBelow, ruleWild := strings.CutPrefix(rule, "*")
	callBelow, callWild := strings.CutPrefix(call, "*")
	switch {
	case rule == call, rule == "*":
		return covers
	case ruleWild && strings.HasSuffix(callBelow, ruleBelow) && len(call) > len(ruleBelow):
		return covers
	case callWild && (callBelow == "" || strings.HasSuffix(ruleBelow, callBelow)):
		return overlaps
	}
	return apart
}

// splitHost separates the port, and folds what names of hosts do not tell
// apart: case and a dot at the end.
func splitHost(s string) (host, port string) {
	host = s
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	return strings.ToLower(strings.TrimSuffix(host, ".")), port
}
