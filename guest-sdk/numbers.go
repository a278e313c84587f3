package guest

import (
	"strconv"
	"strings"
)

// whole reads a number in any spelling. isWhole says that it has no fraction,
// fits that it is also an int64: 1e300 is whole and does not fit.
func (v Value) whole() (n int64, isWhole, fits bool) {
	if v.kind != NumberKind {
		return 0, false, false
	}
	text, negative := strings.CutPrefix(v.text, "-")
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		// Atoi gives the nearest int for an exponent that is none.
		exponent, _ = strconv.Atoi(text[i+1:])
		exponent = min(max(exponent, -1<<30), 1<<30)
		text = text[:i]
	}
	before, after, _ := strings.Cut(text, ".")
	exponent -= len(after)
	digits := strings.TrimLeft(before+after, "0")
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	switch {
	case short == "":
		return 0, true, true
	case exponent < 0:
		return 0, false, false
	case len(short)+exponent > 19: // int64 has 19 digits
		return 0, true, false
	}
	short += strings.Repeat("0", exponent)
	if negative {
		short = "-" + short
	}
	n, err := strconv.ParseInt(short, 10, 64)
	if err != nil {
		return 0, true, false
	}
	return n, true, true
}

// maxFaults bounds how many faults one error lists, as the host does.
const maxFaults = 32

// beyondInt lists the numbers that the schema wants to be integers and that are
// larger than an int64: every reader of arguments would have to think of them,
// and one that does not would take a selection for left away.
func beyondInt(into []Fault, path string, schema, v Value) []Fault {
	if len(into) >= maxFaults {
		return into
	}
	switch v.kind {
	case ObjectKind:
		properties := schema.Get("properties")
		for _, f := range v.fields {
			if p := properties.Get(f.Key); p.Exists() {
				into = beyondInt(into, path+"."+f.Key, p, f.Value)
			}
		}
	case ArrayKind:
		if items := schema.Get("items"); items.Exists() {
			for i, e := range v.items {
				into = beyondInt(into, path+"["+itoa(int64(i))+"]", items, e)
			}
		}
	case NumberKind:
		if _, isWhole, fits := v.whole(); isWhole && !fits && wantsInteger(schema.Get("type")) {
			number := v.text
			if len(number) > 40 {
				number = number[:40] + "..."
			}
			end := "past the end of anything, at most 9223372036854775807 can be honoured"
			if strings.HasPrefix(number, "-") {
				end = "below -9223372036854775808"
			}
			into = append(into, Fault{path, "is " + number + ", " + end})
		}
	}
	return into
}

// wantsInteger judges a schema's type: a name, or a list of names. One that also
// allows other numbers wants none.
func wantsInteger(typ Value) bool {
	if name, ok := typ.Text(); ok {
		return name == "integer"
	}
	wants := false
	for _, t := range typ.items {
		switch name, _ := t.Text(); name {
		case "integer":
			wants = true
		case "number":
			return false
		}
	}
	return wants
}

// outOfRange is the error for such numbers.
func outOfRange(faults []Fault) *Error {
	parts := make([]string, 0, len(faults))
	list := make([]Value, 0, len(faults))
	for _, f := range faults {
		parts = append(parts, f.Path+" "+f.Text)
		list = append(list, Object(F("path", f.Path), F("fault", f.Text)))
	}
	return Fail(InvalidArguments, strings.Join(parts, "; ")).WithNext("choose a number in that range").With(F("faults", list))
}
