package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/wasmtools/wasmtools/approval/policy"
)

// reader checks a file against the schema and then reads it. A fault does not
// stop it, so that one run names all of them.
type reader struct {
	file   string
	kind   Kind
	faults Faults
	more   bool // faults beyond maxFaults
}

func (r *reader) fault(at position, hint, format string, args ...any) {
	if len(r.faults) >= maxFaults {
		r.more = true
		return
	}
	r.faults = append(r.faults, Fault{r.file, max(at.line, 1), max(at.column, 1), fmt.Sprintf(format, args...), hint})
}

// err gives the faults in the order of the file.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.more {
		last := r.faults[len(r.faults)-1]
		r.faults = append(r.faults, Fault{r.file, last.Line, last.Column, "there are more faults than are told", ""})
	}
	return r.faults
}

// read parses data and holds it against the schema. The tree is of use only if
// err gives nothing afterwards.
func (r *reader) read(data []byte) *table {
	t, fault := parseTree(data)
	if fault != nil {
		fault.File = r.file
		r.faults = append(r.faults, *fault)
		return newTable(position{1, 1})
	}
	r.table(root().fields, t, "")
	return t
}

// table checks the keys of t. At is their prefix in messages.
func (r *reader) table(fields []field, t *table, at string) {
	for _, key := range t.keys {
		n, where := t.nodes[key], t.keyAt[key]
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			r.unknown(fields, key, where, at)
			continue
		}
		if f := &fields[i]; f.in&r.kind == 0 {
			r.fault(where, r.closed(), "%s cannot hold %s", r.kind, at+key)
		} else {
			r.value(f, n, where, at+key)
		}
	}
	for i := range fields {
		if f := &fields[i]; f.needed && t.nodes[f.key] == nil {
			r.fault(t.at, "", "%s is missing", at+f.key)
		}
	}
}

func (r *reader) unknown(fields []field, key string, where position, at string) {
	var known []string
	for _, f := range fields {
		if f.in&r.kind != 0 {
			known = append(known, f.key)
		}
	}
	hint := ""
	if near := nearest(strings.ToLower(key), known); near != "" {
		hint = "did you mean " + near + "?"
	} else if at == "" {
		hint = "there are " + strings.Join(known, ", ")
	}
	r.fault(where, hint, "%q is an unknown key", clip(at+key))
}

func (r *reader) closed() string {
	switch r.kind {
	case WorkspaceFile:
		return "it can only tighten: rules that deny or ask, workspace.deny_read and protect, a lower budget and limits, tools.remove and only"
	case SavedFile:
		return "it holds one rule"
	}
	return ""
}

// value checks one value.
func (r *reader) value(f *field, n *node, at position, name string) {
	if n.at.line == 0 { // arrays and tables have no place of their own
		n.at = at
	}
	switch f.form {
	case aTable, anObject:
		switch {
		case n.table == nil || n.array != nil:
			r.wrong(n.at, name, "a table", n)
		case f.form == aTable:
			r.table(f.fields, n.table, name+".")
		}
	case tables:
		if n.array == nil {
			r.wrong(n.at, name, "an array of tables ([["+name+"]])", n)
			return
		}
		for _, item := range n.array {
			if item.table == nil {
				r.wrong(or(item.at, n.at), name, "tables", item)
				continue
			}
			item.table.at = or(item.table.at, n.at)
			r.table(f.fields, item.table, name+".")
		}
	case texts:
		if n.array == nil {
			r.text(f, n, name)
			return
		}
		r.count(n, name)
		for _, item := range n.array {
			item.at = or(item.at, n.at)
			r.text(f, item, name)
		}
	case patterns:
		r.patterns(n, name)
	case aText:
		r.text(f, n, name)
	case aBool:
		if _, ok := n.value.(bool); !ok {
			r.wrong(n.at, name, "true or false", n)
		}
	case aNumber:
		if v, ok := n.value.(int64); !ok {
			r.wrong(n.at, name, "a whole number", n)
		} else if v < int64(f.least) || v > int64(f.most) {
			r.fault(n.at, "", "%s is %d; it can be from %d to %d", name, v, f.least, f.most)
		}
	case aShare:
		v, ok := share(n.value)
		if !ok {
			r.wrong(n.at, name, "a number", n)
		} else if !(v > 0 && v <= 1) {
			r.fault(n.at, "", "%s is %v; it can be over 0 and up to 1", name, n.value)
		}
	case aMap, counts, named:
		if n.table == nil || n.array != nil {
			r.wrong(n.at, name, "a table", n)
			return
		}
		if len(n.table.keys) > maxItems {
			r.fault(n.at, "", "%s has %d items; at most %d are allowed", name, len(n.table.keys), maxItems)
		}
		inner := *f
		inner.form = map[form]form{aMap: aText, counts: aNumber, named: aTable}[f.form]
		for _, key := range n.table.keys {
			if f.check != nil {
				if text, hint := f.check(key); text != "" {
					r.fault(n.table.keyAt[key], hint, "%s.%s: %s", name, clip(key), text)
				}
			}
			inner.check = nil
			r.value(&inner, n.table.nodes[key], n.table.keyAt[key], name+"."+clip(key))
		}
	case aTime:
		if _, ok := moment(n.value); !ok {
			r.wrong(n.at, name, "a date such as 2027-01-31, or a time with an offset such as 2027-01-31T12:00:00Z", n)
		}
	case aSpan:
		s, ok := n.value.(string)
		d, err := time.ParseDuration(s)
		switch {
		case !ok || err != nil:
			r.wrong(n.at, name, `a span of time such as "5m"`, n)
		case d < time.Second || d > 24*time.Hour:
			r.fault(n.at, "", "%s is %s; it can be from 1s to 24h", name, d)
		}
	}
}

// share gives a number of either kind.
func share(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func or(at, other position) position {
	if at.line == 0 {
		return other
	}
	return at
}

// Bounds on lists.
const (
	maxItems = 1000
	maxWords = 64
	maxRules = 5000
)

func (r *reader) count(n *node, name string) {
	if len(n.array) > maxItems {
		r.fault(n.at, "", "%s has %d items; at most %d are allowed", name, len(n.array), maxItems)
	}
}

func (r *reader) text(f *field, n *node, name string) {
	s, ok := n.value.(string)
	if !ok || n.array != nil || n.table != nil {
		want := "a text"
		if f.form == texts {
			want = "a text, or a list of texts"
		}
		r.wrong(n.at, name, want, n)
		return
	}
	switch {
	case f.words != nil && !slices.Contains(f.words, s):
		hint := "it can be " + strings.Join(f.words, ", ")
		if near := nearest(strings.ToLower(s), f.words); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fault(n.at, hint, "%s cannot be %q", name, clip(s))
	case f.most > 0 && len(s) > f.most:
		r.fault(n.at, "", "%s has %d bytes; at most %d are allowed", name, len(s), f.most)
	case f.check != nil:
		if text, hint := f.check(s); text != "" {
			r.fault(n.at, hint, "%s: %s", name, text)
		}
	}
}

func (r *reader) patterns(n *node, name string) {
	if n.array == nil {
		r.wrong(n.at, name, `a list of patterns such as ["git log", ["ls", "-l"]]`, n)
		return
	}
	r.count(n, name)
	for _, item := range n.array {
		at := or(item.at, n.at)
		s, isText := item.value.(string)
		switch {
		case item.array != nil:
			if len(item.array) == 0 || len(item.array) > maxWords {
				r.fault(at, "", "%s: a pattern has 1 to %d words", name, maxWords)
			}
			for i, w := range item.array {
				switch word, ok := w.value.(string); {
				case !ok || w.array != nil || w.table != nil:
					r.wrong(or(w.at, at), name, "words, each a text", w)
				case i == 0 && word == "":
					r.fault(or(w.at, at), "", "%s: the name of a program is empty", name)
				case i == 0 && invisible(word):
					r.fault(or(w.at, at), "", "%s: %q holds a character that cannot be seen", name, clip(word))
				case len(word) > 4096 || strings.ContainsRune(word, 0):
					r.fault(or(w.at, at), "", "%s: %q can be no word of a command", name, clip(word))
				}
			}
		case isText:
			if words, text, hint := splitWords(s); text != "" {
				r.fault(at, hint, "%s: %s", name, text)
			} else if len(words) > maxWords {
				r.fault(at, "", "%s: a pattern has 1 to %d words", name, maxWords)
			}
		default:
			r.wrong(at, name, "patterns, each a text or a list of words", item)
		}
	}
}

// wrong says that a value of another form stands there.
func (r *reader) wrong(at position, name, want string, n *node) {
	r.fault(at, "", "%s: %s must stand here, not %s", name, want, n.form())
}

// form is what a value looks like, for messages.
func (n *node) form() string {
	switch {
	case n.table != nil:
		return "a table"
	case n.lists:
		return "an array of tables"
	case n.array != nil:
		return "a list"
	}
	switch v := n.value.(type) {
	case string:
		return fmt.Sprintf("the text %q", clip(v))
	case bool, int64, float64:
		return fmt.Sprint(v)
	}
	return "a time"
}

// moment reads a time; a date is its first moment in UTC.
func moment(v any) (time.Time, bool) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC(), true
	case toml.LocalDate:
		return v.AsTime(time.UTC), true
	}
	return time.Time{}, false
}

// The following read what was checked. They give the zero value for what is not
// there.

func (t *table) in(key string) *table {
	if n := t.nodes[key]; n != nil && n.table != nil {
		return n.table
	}
	return newTable(t.at)
}

func (t *table) each(key string) []*table {
	var out []*table
	if n := t.nodes[key]; n != nil {
		for _, item := range n.array {
			if item.table != nil {
				out = append(out, item.table)
			}
		}
	}
	return out
}

func read[T any](t *table, key string, into *T) {
	if n := t.nodes[key]; n != nil {
		if v, ok := n.value.(T); ok {
			*into = v
		}
	}
}

func number(t *table, key string, into *int) {
	var v int64
	read(t, key, &v)
	if v > 0 {
		*into = int(v)
	}
}

func word[S ~string](t *table, key string, into *S) {
	var s string
	if read(t, key, &s); s != "" {
		*into = S(s)
	}
}

// listed is a list of texts with their places.
func (t *table) listed(key string) []*node {
	n := t.nodes[key]
	switch {
	case n == nil:
		return nil
	case n.array == nil:
		return []*node{n}
	}
	return n.array
}

func words[S ~string](t *table, key string) []S {
	var out []S
	for _, n := range t.listed(key) {
		s, _ := n.value.(string)
		out = append(out, S(s))
	}
	return out
}

// commands reads shell patterns.
func commands(t *table, key string) [][]string {
	var out [][]string
	for _, n := range t.listed(key) {
		if n.array == nil {
			s, _ := n.value.(string)
			if words, text, _ := splitWords(s); text == "" {
				out = append(out, words)
			}
			continue
		}
		var p []string
		for _, w := range n.array {
			s, _ := w.value.(string)
			p = append(p, s)
		}
		out = append(out, p)
	}
	return out
}

// object gives a table as JSON.
func (t *table) object() []byte {
	p, err := json.Marshal(plain(&node{table: t}))
	if err != nil { // a number that JSON has not, such as nan
		return nil
	}
	return p
}

func plain(n *node) any {
	switch {
	case n.table != nil:
		m := map[string]any{}
		for k, v := range n.table.nodes {
			m[k] = plain(v)
		}
		return m
	case n.array != nil:
		list := make([]any, 0, len(n.array))
		for _, item := range n.array {
			list = append(list, plain(item))
		}
		return list
	}
	return n.value
}

func (r *reader) origin(at position) policy.Origin {
	layer := policy.User
	switch r.kind {
	case WorkspaceFile:
		layer = policy.Workspace
	case SavedFile:
		layer = policy.Saved
	}
	return policy.Origin{Layer: layer, File: r.file, Line: at.line}
}
