// Package schemacost bounds what the checking of a value against a JSON Schema
// costs. A validator follows references as deep as they go and tries every branch,
// so a stranger's schema can make it recurse without end, which ends the process,
// or work for years on a small value: references that refer to themselves, and
// branches that double at every level. Here it is found out from the schema alone
// how many evaluations a value of a given depth can take.
package schemacost

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
)

const (
	// MaxDepth is the deepest value that a Cost knows.
	MaxDepth = 64

	maxInPlace = 2000    // schemas that one value is held against, without going into it
	maxWork    = 500_000 // of finding out
	maxPattern = 20_000  // instructions of all patterns, about; some 10 MiB
	saturated  = int64(1) << 50
)

// Cost is what a schema costs. It is not changed after [Of].
type Cost struct{ at [MaxDepth + 1]int64 }

// At is an upper bound of how many schemas any one part of a value is held
// against, if the value is nested depth deep (0: no object and no array).
func (c *Cost) At(depth int) int64 { return c.at[min(max(depth, 0), MaxDepth)] }

// Of analyses a schema. An error says why it cannot be used at all: a reference
// that leads to itself, or that cannot be followed here (only # and JSON pointers
// below it can), or too many branches for one value.
func Of(schema []byte) (*Cost, error) {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	a := analysis{root: root, nodes: map[string]*node{}}
	top, err := a.node("", root)
	if err != nil {
		return nil, err
	}
	// References make new nodes, whose references make more.
	for i := 0; i < len(a.order); i++ {
		if err := a.open(a.order[i]); err != nil {
			return nil, err
		}
	}
	for _, n := range a.order {
		if err := a.close(n); err != nil {
			return nil, err
		}
	}
	return a.costs(top)
}

// node is one schema of the document.
type node struct {
	pointer string
	schema  map[string]any // nil for true and false

	inPlace []*node            // that the same value is held against
	byName  map[string][]*node // that a member of that name is held against
	others  []*node            // that any member or element may be held against

	state  int8            // of close: 1 while it is on the way, 2 afterwards
	all    map[*node]int64 // in place, itself too, with how often
	atHand int64           // the sum of all
}

type analysis struct {
	root    any
	nodes   map[string]*node
	order   []*node
	work    int
	pattern int // instructions
}

func (a *analysis) node(pointer string, v any) (*node, error) {
	if n := a.nodes[pointer]; n != nil {
		return n, nil
	}
	n := &node{pointer: pointer}
	switch s := v.(type) {
	case bool:
	case map[string]any:
		n.schema = s
	default:
		return nil, fmt.Errorf("%s is no schema", shown(pointer))
	}
	a.nodes[pointer] = n
	a.order = append(a.order, n)
	if a.work++; a.work > maxWork {
		return nil, errCostly
	}
	return n, nil
}

var errCostly = errors.New("it is too costly to check anything against it: it has too many branches")

func shown(pointer string) string {
	if len(pointer) > 80 {
		pointer = pointer[:80] + "..."
	}
	return strconv.Quote("#" + pointer)
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// open finds the schemas that a schema holds or refers to.
func (a *analysis) open(n *node) error {
	if n.schema == nil {
		return nil
	}
	one := func(into *[]*node, pointer string, v any) error {
		c, err := a.node(pointer, v)
		if err == nil {
			*into = append(*into, c)
		}
		return err
	}
	list := func(into *[]*node, pointer string, v any) error {
		items, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s is no list of schemas", shown(pointer))
		}
		for i, item := range items {
			if err := one(into, pointer+"/"+strconv.Itoa(i), item); err != nil {
				return err
			}
		}
		return nil
	}
	named := func(pointer string, v any, add func(name string, pointer string, v any) error) error {
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("%s holds no schemas", shown(pointer))
		}
		for name, s := range m {
			if err := add(name, pointer+"/"+escaper.Replace(name), s); err != nil {
				return err
			}
		}
		return nil
	}
	for key, v := range n.schema {
		at := n.pointer + "/" + escaper.Replace(key)
		var err error
		switch key {
		case "$ref":
			var target *node
			if target, err = a.follow(v); err == nil {
				n.inPlace = append(n.inPlace, target)
			}
		case "$dynamicRef", "$recursiveRef":
			err = fmt.Errorf("it refers by %s, which is not followed here", key)
		case "$id", "id":
			if _, text := v.(string); text && n.pointer != "" && key == "$id" {
				err = errors.New("a part of it has an $id of its own, so its references are not followed here")
			}
		case "allOf", "anyOf", "oneOf":
			err = list(&n.inPlace, at, v)
		case "not", "if", "then", "else":
			err = one(&n.inPlace, at, v)
		case "dependentSchemas", "dependencies":
			err = named(at, v, func(_, pointer string, v any) error {
				if _, names := v.([]any); names {
					return nil // dependencies of the older kind: names of properties
				}
				return one(&n.inPlace, pointer, v)
			})
		case "properties":
			n.byName = map[string][]*node{}
			err = named(at, v, func(name, pointer string, v any) error {
				var c []*node
				err := one(&c, pointer, v)
				n.byName[name] = c
				return err
			})
		case "pattern":
			if text, ok := v.(string); ok {
				err = a.compiles(text)
			}
		case "patternProperties":
			err = named(at, v, func(name, pointer string, v any) error {
				if err := a.compiles(name); err != nil {
					return err
				}
				return one(&n.others, pointer, v)
			})
		case "prefixItems":
			err = list(&n.others, at, v)
		case "items":
			if _, several := v.([]any); several {
				err = list(&n.others, at, v)
			} else {
				err = one(&n.others, at, v)
			}
		case "additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems", "unevaluatedItems", "contains":
			err = one(&n.others, at, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compiles counts what a pattern compiles to: a repetition of a repetition is
// written in a few bytes, and takes hundreds of megabytes.
func (a *analysis) compiles(pattern string) error {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil // the validator says so, too
	}
	if a.pattern += instructions(re); a.pattern > maxPattern {
		return errors.New("its patterns are too large")
	}
	return nil
}

// instructions is about the size of a compiled pattern, or some number above
// maxPattern.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n = 1 + len(re.Rune)/8
	}
	for _, s := range re.Sub {
		if n += instructions(s); n > maxPattern {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// follow finds what a reference means.
func (a *analysis) follow(v any) (*node, error) {
	ref, ok := v.(string)
	if !ok || ref != "#" && !strings.HasPrefix(ref, "#/") {
		return nil, fmt.Errorf("the reference %.80q leads elsewhere: only # and JSON pointers below it are followed here", fmt.Sprint(v))
	}
	pointer, err := url.PathUnescape(ref[1:])
	if err != nil {
		return nil, fmt.Errorf("the reference %.80q is faulty", ref)
	}
	at, canonical := a.root, ""
	for pointer != "" {
		var token string
		token, pointer, _ = strings.Cut(pointer[1:], "/")
		if pointer != "" {
			pointer = "/" + pointer
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch x := at.(type) {
		case map[string]any:
			if at, ok = x[token]; !ok {
				return nil, fmt.Errorf("the reference %.80q leads nowhere", ref)
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return nil, fmt.Errorf("the reference %.80q leads nowhere", ref)
			}
			at = x[i]
		default:
			return nil, fmt.Errorf("the reference %.80q leads nowhere", ref)
		}
		canonical += "/" + escaper.Replace(token)
	}
	return a.node(canonical, at)
}

// close finds all schemas that the value of n is held against.
func (a *analysis) close(n *node) error {
	switch n.state {
	case 1:
		return fmt.Errorf("%s refers to itself without end", shown(n.pointer))
	case 2:
		return nil
	}
	n.state = 1
	n.all, n.atHand = map[*node]int64{n: 1}, 1
	for _, c := range n.inPlace {
		if err := a.close(c); err != nil {
			return err
		}
		if n.atHand += c.atHand; n.atHand > maxInPlace {
			return errCostly
		}
		for m, times := range c.all {
			n.all[m] += times
			if a.work++; a.work > maxWork {
				return errCostly
			}
		}
	}
	n.state = 2
	return nil
}

// costs counts evaluations for one depth after the other: those in place, and of
// the part that costs most.
func (a *analysis) costs(top *node) (*Cost, error) {
	c := new(Cost)
	last := make(map[*node]int64, len(a.order))
	for depth := range c.at {
		now := make(map[*node]int64, len(a.order))
		for _, n := range a.order {
			total := n.atHand
			if depth > 0 {
				inside, byName := int64(0), map[string]int64{}
				for m, times := range n.all {
					for _, o := range m.others {
						inside = add(inside, mul(times, last[o]))
					}
					for name, list := range m.byName {
						for _, o := range list {
							byName[name] = add(byName[name], mul(times, last[o]))
						}
					}
				}
				most := int64(0)
				for _, v := range byName {
					most = max(most, v)
				}
				total = add(total, add(inside, most))
			}
			now[n] = total
		}
		c.at[depth] = now[top]
		same := depth > 0
		for n, v := range now {
			same = same && last[n] == v
		}
		if last = now; same { // not recursive, or no deeper: so it stays
			for d := depth + 1; d <= MaxDepth; d++ {
				c.at[d] = c.at[depth]
			}
			break
		}
	}
	return c, nil
}

func add(a, b int64) int64 { return min(a+b, saturated) }

func mul(a, b int64) int64 {
	if a != 0 && b > saturated/a {
		return saturated
	}
	return a * b
}
