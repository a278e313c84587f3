package wasmtools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/gowebpki/jcs"

	"github.com/wasmtools/wasmtools/internal/schemacost"
	"github.com/wasmtools/wasmtools/tool"
)

// Bounds on what one set of arguments may cost to check.
const (
	maxArgumentBytes = 16 << 20 // as the largest line of the MCP transport
	maxArgumentDepth = 64
	maxBranches      = 10_000     // of a schema that any one part of the arguments is held against
	maxEvaluations   = 50_000_000 // of schemas, of all parts; some tens of seconds
	maxSaid          = 256 << 20  // bytes: a validator repeats a value for every branch that it does not fit
	maxFaults        = 32         // listed in one error
	maxEcho          = 2000       // bytes of the arguments repeated in an error
)

// argumentChecker validates arguments against one tool's schema.
type argumentChecker struct {
	raw    json.RawMessage
	schema *jsonschema.Schema
	whole  *jsonschema.Resolved
	cost   *schemacost.Cost
}

func newArgumentChecker(input json.RawMessage) (*argumentChecker, error) {
	c := &argumentChecker{raw: input, schema: new(jsonschema.Schema)}
	if err := json.Unmarshal(input, c.schema); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	if c.schema.Type != "object" {
		return nil, errors.New(`input schema: its type must be "object"`)
	}
	var err error
	if c.cost, err = schemacost.Of(input); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	if c.whole, err = c.schema.Resolve(nil); err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	return c, nil
}

// freeze checks args and returns the digest of their canonical form (RFC 8785).
// Empty args mean {}. A failure is a schema_invalid that lists every fault.
//
// Two texts with one digest must mean the same to whoever reads them, or an
// approval of one would pass for the other. So what readers of JSON differ on
// is a fault: names that occur twice, integers that a double cannot hold, bytes
// that are not UTF-8, and half a surrogate pair.
func (c *argumentChecker) freeze(name string, args json.RawMessage) (json.RawMessage, tool.Digest, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if len(args) > maxArgumentBytes {
		return nil, "", tool.Errorf(tool.TooLarge, "the arguments have %d bytes; at most %d are read", len(args), maxArgumentBytes)
	}
	if err := exactText(args); err != nil {
		return nil, "", c.invalid(name, args, []fault{{"$", err.Error()}})
	}
	value, err := decodeStrict(args)
	if err != nil {
		return nil, "", c.invalid(name, args, []fault{{"$", err.Error()}})
	}
	depth, parts := extent(value)
	if n := c.cost.At(depth); n > maxBranches || n > maxEvaluations/parts || n > max(maxSaid/int64(len(args)), 16) {
		return nil, "", tool.Errorf(tool.TooLarge, "the arguments of %s are nested too deeply, or are too many, to be checked against its schema, which branches at every level", name).
			WithNext("give simpler arguments")
	}
	if err := c.whole.Validate(value); err != nil {
		faults := collectFaults(nil, "$", c.schema, value)
		if len(faults) == 0 {
			faults = []fault{{"$", trimLibraryPath(err.Error())}}
		}
		return nil, "", c.invalid(name, args, faults)
	}
	canonical, err := jcs.Transform(args)
	if err != nil {
		return nil, "", c.invalid(name, args, []fault{{"$", err.Error()}})
	}
	return args, tool.DigestOf(canonical), nil
}

// extent is how deep a value is nested, and of how many values it is made.
func extent(value any) (depth int, parts int64) {
	parts = 1
	inside := func(v any) {
		d, n := extent(v)
		depth, parts = max(depth, d+1), parts+n
	}
	switch v := value.(type) {
	case map[string]any:
		for _, e := range v {
			inside(e)
		}
	case []any:
		for _, e := range v {
			inside(e)
		}
	}
	return depth, parts
}

type fault struct{ path, text string }

// invalid is the error for faults: all of them, then the schema, then what came.
func (c *argumentChecker) invalid(name string, args json.RawMessage, faults []fault) *tool.Error {
	var b strings.Builder
	fmt.Fprintf(&b, "the arguments of %s do not fit its schema", name)
	list := make([]map[string]string, 0, len(faults))
	for _, f := range faults {
		fmt.Fprintf(&b, "\n- %s: %s", f.path, f.text)
		list = append(list, map[string]string{"path": f.path, "fault": f.text})
	}
	received := string(args)
	if len(received) > maxEcho {
		received = strings.ToValidUTF8(received[:maxEcho], "") + fmt.Sprintf("... (%d bytes in all)", len(args))
	}
	fmt.Fprintf(&b, "\nschema: %s\nreceived: %s", c.raw, received)
	return (&tool.Error{Code: tool.SchemaInvalid, Text: b.String()}).
		WithNext("mend every fault listed, then call again").With("faults", list)
}

// collectFaults walks value beside schema and lists what is wrong where. It
// knows objects and arrays; everything else is asked of the validator, piece by
// piece, because the validator itself stops at the first fault.
func collectFaults(into []fault, path string, s *jsonschema.Schema, value any) []fault {
	if len(into) >= maxFaults || s == nil {
		return into
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Properties == nil {
			break
		}
		for _, r := range s.Required {
			if _, ok := v[r]; !ok {
				into = append(into, fault{path + "." + r, "missing, but required"})
			}
		}
		names := make([]string, 0, len(v))
		for n := range v {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			p, known := s.Properties[n]
			switch {
			case known:
				into = collectFaults(into, path+"."+n, p, v[n])
			case s.AdditionalProperties != nil && validateAlone(s.AdditionalProperties, v[n]) != nil:
				into = append(into, fault{path + "." + tool.QuotePath(n), "unknown property"})
			}
		}
		return into
	case []any:
		if s.Items == nil {
			break
		}
		for i, e := range v {
			into = collectFaults(into, fmt.Sprintf("%s[%d]", path, i), s.Items, e)
		}
	}
	if err := validateAlone(s, value); err != nil {
		text := trimLibraryPath(err.Error())
		if plain := boundFault(text, s, value); plain != "" {
			text = plain
		}
		into = append(into, fault{path, text})
	}
	return into
}

// boundFault says of the commonest faults what the validator says in terms of
// its own making (0/1 is less than 1.000000); "" for all others.
func boundFault(text string, s *jsonschema.Schema, value any) string {
	keyword, _, _ := strings.Cut(text, ":")
	switch v, isText := value.(string); {
	case keyword == "minimum" && s.Minimum != nil:
		return fmt.Sprintf("%s is less than %s, the least that is allowed", numeral(value), numeral(*s.Minimum))
	case keyword == "maximum" && s.Maximum != nil:
		return fmt.Sprintf("%s is more than %s, the most that is allowed", numeral(value), numeral(*s.Maximum))
	case keyword == "minLength" && isText && v == "":
		return "is empty"
	}
	return ""
}

// numeral writes a number without an exponent where that is short.
func numeral(v any) string {
	if f, ok := v.(float64); ok && f > -1e15 && f < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// validateAlone checks a part of a value against a part of the schema. A part that
// refers to another part means something else alone, perhaps itself without end;
// the whole was checked, and says what is wrong.
func validateAlone(s *jsonschema.Schema, value any) error {
	b, err := json.Marshal(s)
	if err != nil || bytes.Contains(b, []byte(`"$ref"`)) {
		return nil
	}
	r, err := s.CloneSchemas().Resolve(nil)
	if err != nil {
		return nil
	}
	return r.Validate(value)
}

// trimLibraryPath drops the validator's own "validating /x/y: " prefixes: the
// path stands before the text already.
func trimLibraryPath(s string) string {
	for strings.HasPrefix(s, "validating ") {
		_, rest, ok := strings.Cut(s, ": ")
		if !ok {
			break
		}
		s = rest
	}
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

// decodeStrict decodes one JSON object into the forms that the validator
// takes, and refuses what readers of JSON disagree on.
func decodeStrict(p []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something stands after the JSON object")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments must be a JSON object")
	}
	return m, nil
}

// exactText refuses text that a JSON reader would replace by U+FFFD.
func exactText(p []byte) error {
	if !utf8.Valid(p) {
		return errors.New("not valid UTF-8")
	}
	for i := 0; ; {
		j := bytes.IndexByte(p[i:], '\\')
		if j < 0 || i+j+1 >= len(p) {
			return nil
		}
		i += j
		r, n := escapedUnit(p[i:])
		switch {
		case n == 0:
			i += 2 // another escape, or a broken one, which the decoder reports
			continue
		case utf16.IsSurrogate(r):
			low, m := escapedUnit(p[i+n:])
			if m == 0 || utf16.DecodeRune(r, low) == utf8.RuneError {
				return fmt.Errorf("half a surrogate pair at byte %d", i)
			}
			n += m
		}
		i += n
	}
}

// escapedUnit reads one \uXXXX and returns its value and length, or length 0.
func escapedUnit(p []byte) (rune, int) {
	if len(p) < 6 || p[0] != '\\' || p[1] != 'u' {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(p[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(v), 6
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxArgumentDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxArgumentDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, errors.New("not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	switch t := t.(type) {
	case json.Number:
		return exactNumber(t)
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				v, err := decodeValue(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, asJSONError(err)
		}
		m := map[string]any{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, asJSONError(err)
			}
			name, _ := k.(string)
			if _, dup := m[name]; dup {
				return nil, fmt.Errorf("the name %s occurs twice", tool.QuotePath(name))
			}
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			m[name] = v
		}
		_, err := d.Token()
		return m, asJSONError(err)
	}
	return t, nil
}

func asJSONError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New("not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "))
}

// exactNumber returns n as a float64 if nothing is lost by that for an integer.
func exactNumber(n json.Number) (any, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("the number %s is out of range", n)
	}
	if s := n.String(); len(s) > 15 && !strings.ContainsAny(s, ".eE") {
		i, ok := new(big.Int).SetString(s, 10)
		if b := new(big.Float).SetInt(i); !ok || b.Cmp(big.NewFloat(f)) != 0 {
			return nil, fmt.Errorf("the integer %s is not exact in a double; send it as a string", n)
		}
	}
	return f, nil
}

// checker returns the argument checker of d, made at its first use.
func (s *space) checker(d tool.Definition) (*argumentChecker, error) {
	type made struct {
		input string
		c     *argumentChecker
		err   error
	}
	if v, ok := s.checks.Load(d.Name); ok && v.(made).input == string(d.Input) {
		return v.(made).c, v.(made).err
	}
	c, err := newArgumentChecker(d.Input)
	if err != nil {
		err = tool.Errorf(tool.InvalidModule, "%s has no usable input schema", d.Name).Because(err)
	}
	s.checks.Store(d.Name, made{string(d.Input), c, err})
	return c, err
}
