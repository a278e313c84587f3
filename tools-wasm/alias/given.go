package alias

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// given is what a caller gave. Every argument that a rule understands is taken
// out; what is left over at the end does not map.
type given struct {
	all    map[string]any
	last   string // the spelling that take found
	faults []Fault
}

// parse reads the arguments: one object whose names occur once. Nothing given
// means no arguments, and an argument that is null counts as not given.
func parse(args json.RawMessage) (*given, *Fault) {
	g := &given{all: map[string]any{}}
	if len(bytes.TrimSpace(args)) == 0 {
		return g, nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil, &Fault{"$", "is not an object"}
	}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, &Fault{"$", "is not valid JSON"}
		}
		name, _ := tok.(string)
		var raw json.RawMessage
		var v any
		if err := d.Decode(&raw); err != nil || json.Unmarshal(raw, &v) != nil {
			return nil, &Fault{"$", "is not valid JSON"}
		}
		if _, twice := g.all[name]; twice {
			return nil, &Fault{"$", fmt.Sprintf("the name %q occurs twice", clip(name))}
		}
		switch v.(type) {
		case map[string]any, []any:
			g.all[name] = raw // passed on as it is
		default:
			g.all[name] = v
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, &Fault{"$", "is not valid JSON"}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &Fault{"$", "has text after the object"}
	}
	for name, v := range g.all {
		if v == nil {
			delete(g.all, name)
		}
	}
	return g, nil
}

func (g *given) fault(name, text string) {
	g.faults = append(g.faults, Fault{"$." + name, text})
}

// take takes out the argument that has one of names. Several of them must say
// the same.
func (g *given) take(names ...string) (any, bool) {
	var value any
	found := ""
	for _, n := range names {
		v, ok := g.all[n]
		if !ok {
			continue
		}
		delete(g.all, n)
		if found != "" && !reflect.DeepEqual(v, value) {
			g.fault(n, "says something else than "+found)
			continue
		}
		if found == "" {
			found, value = n, v
		}
	}
	g.last = found
	return value, found != ""
}

func (g *given) copy(out map[string]any, to string, names []string) {
	if v, ok := g.take(names...); ok {
		out[to] = v
	}
}

func (g *given) need(out map[string]any, to string, names []string) {
	v, ok := g.take(names...)
	if !ok {
		g.fault(to, "missing, but required")
		return
	}
	out[to] = v
}

// text takes a string; another type stays, and is a fault at the end.
func (g *given) text(names ...string) (string, bool) {
	for _, n := range names {
		if _, ok := g.all[n].(string); ok {
			v, _ := g.take(n)
			return v.(string), true
		}
	}
	return "", false
}

// whole takes a whole number of at least low.
func (g *given) whole(low float64, names []string) (int64, bool) {
	v, ok := g.take(names...)
	if !ok {
		return 0, false
	}
	f, isNumber := v.(float64)
	if s, isText := v.(string); isText { // some models quote numbers
		n, err := strconv.ParseInt(s, 10, 53)
		f, isNumber = float64(n), err == nil
	}
	if !isNumber || f != math.Trunc(f) || f < low || f > 1<<53 {
		g.fault(g.last, "must be a whole number of at least "+strconv.FormatFloat(low, 'f', -1, 64))
		return 0, false
	}
	return int64(f), true
}

func (g *given) drop(names ...string) {
	for _, n := range names {
		delete(g.all, n)
	}
}

// refuseIf takes an argument that may only have another value than bad.
func (g *given) refuseIf(name string, bad bool, why string) {
	if v, ok := g.all[name].(bool); ok {
		delete(g.all, name)
		if v == bad {
			g.fault(name, why)
		}
	}
}

// leftovers makes a fault of every argument that no rule took.
func (g *given) leftovers(target string) {
	names := make([]string, 0, len(g.all))
	for n := range g.all {
		names = append(names, n)
	}
	slices.Sort(names)
	for i, n := range names {
		if i == 20 {
			g.fault("...", strconv.Itoa(len(names)-i)+" more do not map")
			return
		}
		g.fault(clip(n), "does not map to an argument of "+target)
	}
}

func clip(name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "..."
	}
	return name
}

func (g *given) limit(out map[string]any) {
	if n, ok := g.whole(1, limitNames); ok {
		out["max_results"] = min(n, mostResults)
	}
}

// common takes what both tools that write text have.
func (g *given) common(out map[string]any) {
	g.copy(out, "dry_run", dryNames)
	g.copy(out, "expected_sha256", shaNames)
}

// lines makes a selection of lines from a beginning with an end or a length.
// Line 0 means the first, as in the older tools.
func (g *given) lines() map[string]any {
	start, hasStart := g.whole(0, startNames)
	end, hasEnd := g.whole(1, endNames)
	span, hasSpan := g.whole(1, spanNames)
	if !hasStart && !hasEnd && !hasSpan {
		return nil
	}
	start = max(start, 1)
	if hasSpan && (!hasEnd || start+span-1 < end) {
		end, hasEnd = start+span-1, true
	}
	l := map[string]any{"start": start}
	if hasEnd {
		l["end"] = end
	}
	return l
}

// viewRange reads [first, last], where last -1 means the end.
func (g *given) viewRange(v any) map[string]any {
	name := g.last
	var pair []int64
	if raw, ok := v.(json.RawMessage); !ok || json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || pair[0] < 1 || pair[1] < -1 || pair[1] == 0 {
		g.fault(name, "must be two line numbers")
		return nil
	}
	l := map[string]any{"start": pair[0]}
	if pair[1] > 0 {
		l["end"] = pair[1]
	}
	return l
}

// pages reads "3", "3-5", or an object that is the target's own.
func (g *given) pages(v any) any {
	s, ok := v.(string)
	if !ok {
		return v
	}
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	a, err1 := strconv.ParseInt(strings.TrimSpace(first), 10, 32)
	b, err2 := strconv.ParseInt(strings.TrimSpace(last), 10, 32)
	if err1 != nil || err2 != nil {
		g.fault("pages", `must be a page, or a range such as "3-5"`)
		return nil
	}
	return map[string]any{"start": a, "end": b}
}

// edits reads a list of changes, each in any of the known spellings; some models
// send the list as a string.
func (g *given) edits(out map[string]any, v any) {
	raw, _ := v.(json.RawMessage)
	if s, ok := v.(string); ok {
		raw = json.RawMessage(s)
	}
	var list []json.RawMessage
	if raw == nil || json.Unmarshal(raw, &list) != nil {
		g.fault("edits", "must be a list of changes")
		return
	}
	edits := make([]any, 0, len(list))
	for i, item := range list {
		at := fmt.Sprintf("edits[%d]", i)
		one, fault := parse(item)
		if fault != nil {
			g.fault(at, fault.Text)
			continue
		}
		e := map[string]any{}
		one.need(e, "old", oldNames)
		one.need(e, "new", newNames)
		if all, ok := one.take(allNames...); ok && all != false {
			if len(list) > 1 || all != true {
				one.fault(one.last, "replace_all needs a call of its own")
			}
			out["replace_all"] = true
		}
		one.leftovers("replace_block")
		for _, f := range one.faults {
			g.faults = append(g.faults, Fault{"$." + at + strings.TrimPrefix(f.Path, "$"), f.Text})
		}
		edits = append(edits, e)
		if len(g.faults) > 20 {
			return
		}
	}
	// One change alone takes the simple form, which knows replace_all.
	if len(edits) == 1 {
		for k, v := range edits[0].(map[string]any) {
			out[k] = v
		}
		return
	}
	out["edits"] = edits
}

// mostSeconds is the longest time that the older tools took, in seconds. A
// larger number is one of the callers that count milliseconds.
const mostSeconds = 3600

func (g *given) timeout(out map[string]any) {
	if v, ok := g.take("timeout_ms", "timeoutMs"); ok {
		out["timeout_ms"] = v
	}
	v, ok := g.take("timeout")
	if !ok {
		return
	}
	f, isNumber := v.(float64)
	if !isNumber {
		g.fault("timeout", "must be a number of seconds")
		return
	}
	if f <= 0 {
		return // the default, as in the older tools
	}
	ms := f
	if f <= mostSeconds {
		ms = f * 1000
	}
	if _, twice := out["timeout_ms"]; twice {
		g.fault("timeout", "stands beside timeout_ms")
		return
	}
	out["timeout_ms"] = int64(math.Ceil(min(ms, 1<<40)))
}
