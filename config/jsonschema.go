package config

import (
	"bytes"
	"encoding/json"
)

// SchemaID names the published schema.
const SchemaID = "https://github.com/wasmtools/wasmtools/schema/wasmtools.toml.json"

// Schema is the JSON Schema (2020-12) of the file of this kind, for editors. It
// says what [Parse] or [ParseWorkspace] checks, but for what a schema cannot
// say: the form of globs, hosts and digests, and which criteria go together.
func Schema(kind Kind) []byte {
	s := root().schema(kind)
	top := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", SchemaID}, {"title", "wasmtools.toml"}}
	s = append(top, s...)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(s) // texts, numbers, lists and objects of them
	return b.Bytes()
}

// object is a JSON object with its members in order.
type object []member

type member struct {
	key   string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encode(&b, m.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := encode(&b, m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode writes JSON without a line end, and with < and > as they are.
func encode(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		b.Truncate(b.Len() - 1)
	}
	return err
}

// schema is the JSON Schema of one field.
func (f field) schema(kind Kind) object {
	var s object
	if f.doc != "" {
		s = append(s, member{"description", f.doc})
	}
	add := func(key string, value any) { s = append(s, member{key, value}) }
	text := object{{"type", "string"}}
	if f.words != nil {
		text = append(text, member{"enum", f.words})
	}
	if f.most > 0 && f.form == aText {
		text = append(text, member{"maxLength", f.most})
	}
	switch f.form {
	case aBool:
		add("type", "boolean")
	case aNumber:
		add("type", "integer")
		add("minimum", f.least)
		add("maximum", f.most)
	case aShare:
		add("type", "number")
		add("exclusiveMinimum", 0)
		add("maximum", 1)
	case aMap:
		add("type", "object")
		add("additionalProperties", object{{"type", "string"}})
	case counts:
		add("type", "object")
		add("additionalProperties", object{{"type", "integer"}, {"minimum", f.least}, {"maximum", f.most}})
	case named:
		add("type", "object")
		add("additionalProperties", f.members(kind))
	case aText, aSpan:
		s = append(s, text...)
	case aTime:
		add("anyOf", []object{{{"type", "string"}, {"format", "date-time"}}, {{"type", "string"}, {"format", "date"}}})
	case texts:
		add("anyOf", []object{text, {{"type", "array"}, {"items", text}, {"maxItems", maxItems}}})
	case patterns:
		words := object{{"type", "array"}, {"items", object{{"type", "string"}}}, {"minItems", 1}, {"maxItems", maxWords}}
		add("type", "array")
		add("items", object{{"anyOf", []object{{{"type", "string"}}, words}}})
		add("maxItems", maxItems)
	case anObject:
		add("type", "object")
	case aTable:
		s = append(s, f.members(kind)...)
	case tables:
		add("type", "array")
		add("items", f.members(kind))
	}
	return s
}

func (f field) members(kind Kind) object {
	var properties object
	var needed []string
	for _, inner := range f.fields {
		if inner.in&kind == 0 {
			continue
		}
		if inner.key == "verdict" && kind == WorkspaceFile {
			inner.words = decisions[1:]
		}
		properties = append(properties, member{inner.key, inner.schema(kind)})
		if inner.needed {
			needed = append(needed, inner.key)
		}
	}
	s := object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}
	if needed != nil {
		s = append(s, member{"required", needed})
	}
	return s
}
