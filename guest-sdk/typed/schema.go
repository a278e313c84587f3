package typed

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// schema is what inference can say. The order of its fields is the order of the
// keywords in the text, which is the same in every build.
type schema struct {
	Type        types        `json:"type,omitempty"`
	Description string       `json:"description,omitempty"`
	Properties  *propertyMap `json:"properties,omitempty"`
	Required    []string     `json:"required,omitempty"`
	Additional  *schema      `json:"additionalProperties,omitempty"`
	Items       *schema      `json:"items,omitempty"`
	MinItems    *int         `json:"minItems,omitempty"`
	MaxItems    *int         `json:"maxItems,omitempty"`
	Minimum     *float64     `json:"minimum,omitempty"`
	Maximum     *float64     `json:"maximum,omitempty"`

	never bool // the schema false
}

// MarshalJSON writes the schemas that allow everything and nothing as true and
// false.
func (s schema) MarshalJSON() ([]byte, error) {
	if s.never {
		return []byte("false"), nil
	}
	type plain schema
	p, err := json.Marshal(plain(s))
	if err == nil && string(p) == "{}" {
		return []byte("true"), nil
	}
	return p, err
}

// types is one type, or several.
type types []string

func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// propertyMap keeps the order of the struct's fields.
type propertyMap struct {
	names []string
	by    map[string]*schema
}

func (p *propertyMap) set(name string, s *schema) {
	if _, ok := p.by[name]; !ok {
		p.names = append(p.names, name)
	}
	p.by[name] = s
}

func (p *propertyMap) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, name := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.by[name])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// SchemaFor infers the JSON Schema of T's JSON:
//
//   - strings, booleans, integers (with the bounds of their size below 64 bits)
//     and floats are what they are; time.Time, slog.Level, big.Int, big.Rat and
//     big.Float are strings
//   - a pointer also allows null, and so does a slice; an array has its length
//   - a struct is an object without additional properties; its fields go by
//     their json tags and are required unless these say omitempty or omitzero;
//     a jsonschema tag is the field's description; embedded structs are folded in
//   - a map with string keys is an object whose additional properties have the
//     value's schema
//   - an interface allows everything
//
// Functions, channels, complex numbers, other map keys and types that contain
// themselves are errors.
func SchemaFor[T any]() (string, error) {
	s, err := infer(reflect.TypeFor[T](), map[reflect.Type]bool{})
	if err != nil {
		return "", err
	}
	p, err := json.Marshal(s)
	return string(p), err
}

// isString reports whether t is one of the types of the standard library that
// marshal to strings. They go by name, so that this package need not link them.
func isString(t reflect.Type) bool {
	switch t.PkgPath() + "." + t.Name() {
	case "time.Time", "log/slog.Level", "math/big.Int", "math/big.Rat", "math/big.Float":
		return true
	}
	return false
}

func infer(t reflect.Type, open map[reflect.Type]bool) (*schema, error) {
	null := false
	for t.Kind() == reflect.Pointer {
		null = true
		t = t.Elem()
	}
	if t.Name() != "" {
		if open[t] {
			return nil, fmt.Errorf("type %v contains itself", t)
		}
		open[t] = true
		defer delete(open, t)
	}
	s, err := inferPlain(t, open)
	if err != nil {
		return nil, err
	}
	if null && len(s.Type) == 1 {
		s.Type = types{"null", s.Type[0]}
	}
	return s, nil
}

func inferPlain(t reflect.Type, open map[reflect.Type]bool) (*schema, error) {
	if isString(t) {
		return &schema{Type: types{"string"}}, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: types{"boolean"}}, nil
	case reflect.String:
		return &schema{Type: types{"string"}}, nil
	case reflect.Float32, reflect.Float64:
		return &schema{Type: types{"number"}}, nil
	case reflect.Interface:
		return &schema{}, nil
	case reflect.Int, reflect.Int64:
		return &schema{Type: types{"integer"}}, nil
	case reflect.Int8:
		return integer(math.MinInt8, math.MaxInt8), nil
	case reflect.Int16:
		return integer(math.MinInt16, math.MaxInt16), nil
	case reflect.Int32:
		return integer(math.MinInt32, math.MaxInt32), nil
	case reflect.Uint8:
		return integer(0, math.MaxUint8), nil
	case reflect.Uint16:
		return integer(0, math.MaxUint16), nil
	case reflect.Uint32:
		return integer(0, math.MaxUint32), nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		s := integer(0, 0)
		s.Maximum = nil
		return s, nil
	case reflect.Map:
		if t.Key().Kind() != reflect.String && !t.Key().Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return nil, fmt.Errorf("the keys of %v are no strings", t)
		}
		value, err := infer(t.Elem(), open)
		if err != nil {
			return nil, err
		}
		return &schema{Type: types{"object"}, Additional: value}, nil
	case reflect.Slice, reflect.Array:
		items, err := infer(t.Elem(), open)
		if err != nil {
			return nil, err
		}
		if t.Kind() == reflect.Slice {
			return &schema{Type: types{"null", "array"}, Items: items}, nil
		}
		n := t.Len()
		return &schema{Type: types{"array"}, Items: items, MinItems: &n, MaxItems: &n}, nil
	case reflect.Struct:
		return inferStruct(t, open)
	}
	return nil, fmt.Errorf("type %v has no JSON Schema", t)
}

func integer(low, high float64) *schema {
	return &schema{Type: types{"integer"}, Minimum: &low, Maximum: &high}
}

func inferStruct(t reflect.Type, open map[reflect.Type]bool) (*schema, error) {
	s := &schema{Type: types{"object"}, Additional: &schema{never: true}}
	for _, f := range reflect.VisibleFields(t) {
		if s.Properties == nil {
			s.Properties = &propertyMap{by: map[string]*schema{}}
		}
		if f.Anonymous {
			if isString(f.Type) {
				return nil, fmt.Errorf("%v embeds %v, which is no object", t, f.Type)
			}
			continue // its fields are among the visible ones
		}
		name, optional, skip := jsonName(f)
		if skip {
			continue
		}
		field, err := infer(f.Type, open)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if tag, ok := f.Tag.Lookup("jsonschema"); ok {
			if err := checkDescription(tag); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
			}
			field.Description = tag
		}
		s.Properties.set(name, field)
		if !optional {
			s.Required = append(s.Required, name)
		}
	}
	return s, nil
}

// jsonName reads a field's json tag as encoding/json does.
func jsonName(f reflect.StructField) (name string, optional, skip bool) {
	tag, _ := f.Tag.Lookup("json")
	if !f.IsExported() || tag == "-" {
		return "", false, true
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	for o := range strings.SplitSeq(options, ",") {
		optional = optional || o == "omitempty" || o == "omitzero"
	}
	return name, optional, false
}

// checkDescription refuses what the rules keep for later: an empty tag, and one
// that begins with WORD=.
func checkDescription(tag string) error {
	if tag == "" {
		return errors.New("its jsonschema tag is empty")
	}
	if i := strings.IndexAny(tag, "= \t\n"); i >= 0 && tag[i] == '=' {
		return fmt.Errorf("its jsonschema tag begins with %q, which is kept for later use", tag[:i+1])
	}
	return nil
}
