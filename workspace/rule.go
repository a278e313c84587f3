package workspace

import (
	"fmt"
)

// Rule is one entry of the list of protected or of secret paths.
//
// Glob is a doublestar glob over paths relative to the workspace root; without a
// slash it fits the name of any file or directory. What lies below something
// that fits, fits too. Names are compared folded: without regard to case, in
// their compatible Unicode form, without code points that are not seen and
// without dots and blanks at the end.
type Rule struct {
	Glob  string
	Name  string // what policies and messages call it: "git", "env", ...
	Where string // "file:line" of the user's or the workspace's own file; empty: built in
}

// String names the rule for people and models.
func (r Rule) String() string {
	where := baseName(r.Where)
	if where == "" {
		where = "built in"
	}
	return fmt.Sprintf("%s (%s, %s)", r.Name, r.Glob, where)
}

// Listed says under which rules a path falls.
type Listed struct {
	Path      string // canonical; it need not exist
	Secret    *Rule  // nil: it is no secret
	Protected *Rule  // nil: it is not protected
}

// Rule is the name of the rule that weighs most, "" if there is none, and whether
// it makes the path a secret.
func (l Listed) Rule() (name string, secret bool) {
	switch {
	case l.Secret != nil:
		return l.Secret.Name, true
	case l.Protected != nil:
		return l.Protected.Name, false
	}
	return "", false
}
