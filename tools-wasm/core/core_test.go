package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
	"github.com/wasmtools/wasmtools/guest-sdk/guesttest"
	"github.com/wasmtools/wasmtools/internal/guestbuild/texts"
	"github.com/wasmtools/wasmtools/manifest"
)

// args encodes the arguments of a call: alternating names and values.
func args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	p, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(p)
}

// obj is a JSON object in arguments.
type obj = map[string]any

// wantText fails unless a call succeeded with exactly this text.
func wantText(t *testing.T, r guesttest.CallResult, want string) {
	t.Helper()
	if r.IsError || r.Text() != want {
		t.Errorf("error %v, text:\n%s\nwant:\n%s", r.IsError, r.Text(), want)
	}
}

// wantError fails unless a call failed with this code and a text that holds all
// of parts.
func wantError(t *testing.T, r guesttest.CallResult, code guest.Code, parts ...string) {
	t.Helper()
	if !r.IsError || r.Meta.Code != string(code) || !strings.HasPrefix(r.Text(), string(code)+": ") {
		t.Errorf("error %v, code %q, text %q; want code %s", r.IsError, r.Meta.Code, r.Text(), code)
		return
	}
	for _, p := range parts {
		if !strings.Contains(r.Text(), p) {
			t.Errorf("error text %q does not hold %q", r.Text(), p)
		}
	}
}

func TestTextsAreGenerated(t *testing.T) {
	want, err := texts.Source("main", ".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("texts.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("texts.go is not what the .md and .schema.json files give; run go generate ./tools-wasm")
	}
}

// TestManifest holds what the module says about itself against the rules for
// every tool: names, sizes, flat schemas, a description for every property.
func TestManifest(t *testing.T) {
	m, err := manifest.Parse(guest.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tl := range m.Tools {
		names = append(names, tl.Name)
		if n := len(tl.Description); n > 1500 {
			t.Errorf("%s: the description has %d bytes; at most 1500 are allowed", tl.Name, n)
		}
		first, _, _ := strings.Cut(tl.Description, "\n")
		if !strings.HasSuffix(first, ".") && !strings.HasSuffix(first, "`.") {
			t.Errorf("%s: the first line %q is not the rule in one sentence", tl.Name, first)
		}
		var schema map[string]any
		if err := json.Unmarshal(tl.Input, &schema); err != nil {
			t.Fatal(err)
		}
		checkSchema(t, tl.Name, schema, 0)
		if n := len(schema["properties"].(map[string]any)); n > 12 {
			t.Errorf("%s: %d properties; at most 12 are allowed", tl.Name, n)
		}
		if !slices.Equal(tl.Capabilities.Read, everything) {
			t.Errorf("%s: asks to read %q", tl.Name, tl.Capabilities.Read)
		}
		if writes := tl.Effects.String() != "read"; writes != slices.Equal(tl.Capabilities.Write, everything) {
			t.Errorf("%s: effects %q but asks to write %q", tl.Name, tl.Effects, tl.Capabilities.Write)
		}
	}
	want := []string{"read_discover", "read_open", "grep", "write_file", "replace_block", "delete_path", "move_path"}
	if !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
}

func checkSchema(t *testing.T, at string, s map[string]any, depth int) {
	for _, key := range []string{"oneOf", "anyOf", "allOf", "not", "$ref", "$defs"} {
		if _, ok := s[key]; ok {
			t.Errorf("%s: the schema has %s", at, key)
		}
	}
	if depth > 0 && s["description"] == nil && s["type"] != nil && !strings.HasSuffix(at, "[]") {
		t.Errorf("%s: no description", at)
	}
	if props, ok := s["properties"].(map[string]any); ok {
		if s["additionalProperties"] != false {
			t.Errorf("%s: additionalProperties is not false", at)
		}
		for name, p := range props {
			checkSchema(t, at+"."+name, p.(map[string]any), depth+1)
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		checkSchema(t, at+"[]", items, depth+1)
	}
}
