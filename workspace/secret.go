package workspace

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wasmtools/wasmtools/tool"
)

var (
	builtInSecrets   = sync.OnceValue(func() *ruleSet { return builtIn(secretPaths) })
	builtInProtected = sync.OnceValue(func() *ruleSet { return builtIn(protectedPaths) })
)

// lists are the rules of one workspace.
type lists struct {
	secret, ownSecret     *ruleSet // own*: nil if there are none
	protected, ownProtect *ruleSet
	allowRead             []*entry

	denyRead, protect []Rule // what own* are made of
}

// rules are the lists as they are now.
func (w *Workspace) rules() *lists { return w.lists.Load() }

// Tighten adds rules to those that the workspace was opened with; calls that run
// meet them at their next step. Rules whose glob is there already change nothing.
// An error is about a glob, and then no rule is added.
func (w *Workspace) Tighten(denyRead, protect []Rule) error {
	for {
		old := w.rules()
		next := *old
		next.denyRead, next.protect = withNew(old.denyRead, denyRead), withNew(old.protect, protect)
		if len(next.denyRead) == len(old.denyRead) && len(next.protect) == len(old.protect) {
			return nil
		}
		if err := next.compile(); err != nil {
			return err
		}
		if w.lists.CompareAndSwap(old, &next) {
			w.surveys.forget()
			return nil
		}
	}
}

func withNew(old, add []Rule) []Rule {
	out := slices.Clip(old)
	for _, r := range add {
		if !slices.ContainsFunc(out, func(o Rule) bool { return o.Glob == r.Glob }) {
			out = append(out, r)
		}
	}
	return out
}

func (l *lists) compile() (err error) {
	if l.ownSecret, err = ownRules(l.denyRead); err == nil {
		l.ownProtect, err = ownRules(l.protect)
	}
	return err
}

func newLists(opts Options) (*lists, error) {
	l := &lists{secret: builtInSecrets(), protected: builtInProtected(), denyRead: opts.DenyRead, protect: opts.Protect}
	if err := l.compile(); err != nil {
		return nil, err
	}
	for _, r := range opts.AllowRead {
		list, err := newEntries(r)
		if err != nil {
			return nil, err
		}
		l.allowRead = append(l.allowRead, list...)
	}
	return l, nil
}

// secretRule gives the rule that makes a path a secret. What the user allows to
// be read is off the built-in list only: a workspace's own rule stands.
func (l *lists) secretRule(path string) *entry {
	if l.ownSecret != nil {
		if e := l.ownSecret.find(path); e != nil {
			return e
		}
	}
	e := l.secret.find(path)
	if e == nil || len(l.allowRead) > 0 && l.mayRead(path) {
		return nil
	}
	return e
}

// mayRead reports whether the user took the path off the list. It folds nothing:
// what loosens a rule has to be spelt as it is.
func (l *lists) mayRead(path string) bool {
	for _, e := range l.allowRead {
		for end := 0; end <= len(path); end++ {
			if end < len(path) && path[end] != '/' {
				continue
			}
			part := path[:end]
			if e.lone {
				_, part = split(part)
			}
			if doublestar.MatchUnvalidated(e.raw, part) {
				return true
			}
		}
	}
	return false
}

// protectedRule gives the rule by which the name alone is protected.
func (l *lists) protectedRule(path string) *entry {
	if l.ownProtect != nil {
		if e := l.ownProtect.find(path); e != nil {
			return e
		}
	}
	return l.protected.find(path)
}

// refuseSecret is the answer to every call about a secret. It does not even say
// whether the file exists.
func refuseSecret(path string, r *Rule) error {
	e := tool.PathErrorf(tool.Protected, path, "a secret, by the rule %s of the list of secrets", r).
		With("list", "secret").With("rule", r.Name).Because(&refusedSecret{r})
	if r.Where != "" {
		return e.WithNext("leave it; only a person can allow this, by taking that rule out of %s", baseName(r.Where))
	}
	return e.WithNext("leave it; only a person can allow this, by a rule in their own wasmtools.toml that names the path: allow_read = [%q] in [workspace]", escapeGlob(path))
}

// refuseProtected is the answer to a commit that was not allowed a path.
func refuseProtected(p tool.ProtectedPath, r *Rule) error {
	return tool.PathErrorf(tool.Protected, p.Path, "a protected path, by the rule %s; nothing was changed, and no general permission covers it", r).
		With("list", "protected").With("rule", r.Name).
		WithNext("leave it, or let a person allow it: when asked about this very call, or by a rule in their own wasmtools.toml that names the path (paths = [%q]) or the list's rule (protected = [%q])",
			escapeGlob(p.Path), r.Name)
}

// baseName keeps host folders out of what a model reads.
func baseName(where string) string { return where[strings.LastIndexAny(where, `/\`)+1:] }

// escapeGlob gives the glob that fits one path.
func escapeGlob(path string) string {
	if !magic(path) {
		return path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if strings.IndexByte(`*?[]{}\`, path[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// secretOf gives the rule that an error of this file is about.
func secretOf(err error) *Rule {
	var r *refusedSecret
	if errors.As(err, &r) {
		return r.rule
	}
	return nil
}

// refusedSecret is the cause of such an error.
type refusedSecret struct{ rule *Rule }

func (r *refusedSecret) Error() string { return "secret: " + r.rule.String() }
