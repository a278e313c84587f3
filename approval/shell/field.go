package shell

import "strings"

// kind says what is known of a word whose text is not.
type kind uint8

const (
	anything kind = iota
	number        // an optional sign and digits
	pipe          // the name of a process substitution's pipe
	found         // a path below one of find's roots
)

// field is one argument that a program may get. A word of the text becomes
// none, one or several.
type field struct {
	src    string   // as it stands in the text
	alts   []string // every text that it may be; nil if that is not known
	kind   kind     // if alts is nil
	prefix string   // if alts is nil: what it begins with for certain
	many   bool     // if alts is nil: may become none or several arguments
	word   int      // index of the word it comes from
	glob   bool     // comes from a pattern that names of files match
	find   *search  // if kind is found
}

// search is a find whose results become arguments.
type search struct {
	roots []string
	names []string // -name patterns that all results match; nil if there is none
	plain bool     // only regular files (-type f)
	split bool     // the results were split at blanks on their way
}

// lit returns the field's text if it is known to be exactly one.
func (f field) lit() (string, bool) {
	if len(f.alts) == 1 {
		return f.alts[0], true
	}
	return "", false
}

// is reports whether the field is exactly s.
func (f field) is(s string) bool { return len(f.alts) == 1 && f.alts[0] == s }

// dash reports whether the field may begin with '-'.
func (f field) dash() bool {
	if f.alts != nil {
		for _, a := range f.alts {
			if strings.HasPrefix(a, "-") {
				return true
			}
		}
		return false
	}
	switch f.kind {
	case pipe:
		return false
	case found:
		for _, r := range f.find.roots {
			if strings.HasPrefix(r, "-") || r == "" {
				return true
			}
		}
		return false
	}
	return f.prefix == "" || f.prefix[0] == '-'
}

// show is how the field is shown to a person.
func (f field) show() string {
	if s, ok := f.lit(); ok {
		return s
	}
	return f.src
}

// literal makes a field of a known text.
func literal(s string) field { return field{src: s, alts: []string{s}} }

// words joins what is shown of fields.
func words(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.show()
	}
	return out
}
