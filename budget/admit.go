package budget

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Admit is an output schema under which both hold: what schema allows, and
// structured content in which receipts stand for what was too long. A client
// that checks results against what it was shown then refuses neither.
//
// The schema stands whole in the first branch, and its references into itself
// are written anew to where it stands now. What is no JSON object is returned as
// it is; nil stays nil.
func Admit(schema json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber() // figures stay as they were written
	var s map[string]any
	if dec.Decode(&s) != nil || s == nil || dec.More() {
		return schema
	}
	out := map[string]any{"type": "object", "anyOf": []any{s, receiptSchema}}
	if dialect, ok := s["$schema"]; ok {
		delete(s, "$schema")
		out["$schema"] = dialect
	}
	move(s)
	p, err := marshal(out)
	if err != nil {
		return schema
	}
	return p
}

// receiptSchema allows an object with a receipt at its top.
var receiptSchema = map[string]any{
	"type":        "object",
	"description": "The result, with receipts in place of what is too long.",
	"required":    []any{Key},
	"properties":  map[string]any{Key: map[string]any{"type": "object"}},
}

// first is the place of the admitted schema.
const first = "#/anyOf/0"

// move makes the references of a schema into itself point to its new place.
// What carries an identity of its own is the root of its own references, and
// what is a value is no schema.
func move(schema any) {
	s, ok := schema.(map[string]any)
	if !ok {
		if list, ok := schema.([]any); ok {
			for _, x := range list {
				move(x)
			}
		}
		return
	}
	if id, ok := s["$id"].(string); ok && !strings.HasPrefix(id, "#") {
		return
	}
	for key, v := range s {
		switch key {
		case "const", "enum", "default", "examples":
		case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions": // by any name
			named, _ := v.(map[string]any)
			for _, x := range named {
				move(x)
			}
		case "$ref", "$dynamicRef", "$recursiveRef":
			if ref, ok := v.(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
				s[key] = first + ref[1:]
			}
		default:
			move(v)
		}
	}
}
