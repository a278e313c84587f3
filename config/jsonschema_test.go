package config

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/pelletier/go-toml/v2"
)

// TestSchemaAgrees: an editor that goes by the published schema and this program
// agree about files, but for what a schema cannot say.
func TestSchemaAgrees(t *testing.T) {
	for _, kind := range []Kind{UserFile, WorkspaceFile} {
		data := Schema(kind)
		if !bytes.Equal(data, Schema(kind)) {
			t.Error("the schema is not the same each time")
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		schema, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		valid := func(text string) error {
			t.Helper()
			var v map[string]any
			if err := toml.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			p, err := json.Marshal(forJSON(v))
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			if err := json.Unmarshal(p, &doc); err != nil {
				t.Fatal(err)
			}
			return schema.Validate(doc)
		}
		parse := func(text string) error {
			if kind == WorkspaceFile {
				_, err := ParseWorkspace("f", []byte(text))
				return err
			}
			_, err := Parse("f", []byte(text))
			return err
		}
		texts := []string{
			"", "[approvals]\nmode = 'ask'\n", "[approvals]\nmode = 'x'\n", "x = 1\n", "[limits]\ntime_ms = 0\n", "[limits]\ntime_ms = 5\n",
			"[limits]\ntime_ms = 1.5\n", "[[rules]]\n", "[[rules]]\nverdict = 'deny'\n", "[[rules]]\nverdict = 'deny'\ntool = 'x'\n",
			"[[rules]]\nverdict = 'deny'\ntools = 3\n", "[[rules]]\nverdict = 'deny'\ncommands = 'ls'\n", "[[rules]]\nverdict = 'deny'\ncommands = ['ls', ['a', 'b']]\n",
			"[[rules]]\nverdict = 'deny'\ncommands = [[]]\n", "[[rules]]\nverdict = 'allow'\ntools = ['x']\n", "[workspace]\nhard_links = true\n", "[workspace]\nhard_links = 'x'\n",
			"[[examples]]\ncommand = 'ls'\nshould = 'allow'\n", "[[examples]]\ncommand = 'ls'\n", "[tools]\nremove = ['x']\n", "[tools]\nremove = [3]\n",
			"rules = {}\n", "workspace = []\n", everything, string(Starter()),
		}
		for seed := range uint64(200) {
			w := &writer{Rand: rand.New(rand.NewPCG(seed, 3))}
			texts = append(texts, w.own(), w.user())
		}
		for _, text := range texts {
			byUs, bySchema := parse(text), valid(text)
			if (byUs == nil) != (bySchema == nil) {
				t.Errorf("%s: we say %v, the schema says %v of\n%s", kind, byUs, bySchema, text)
			}
		}
	}
}

// forJSON writes times as an editor sees them.
func forJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = forJSON(v[k])
		}
	case []any:
		for i := range v {
			v[i] = forJSON(v[i])
		}
	case time.Time:
		return v.Format(time.RFC3339)
	case toml.LocalDate:
		return v.String()
	}
	return v
}

// TestSchemaIsRead: every key of the schema changes what is read, or is refused;
// none is only checked.
func TestSchemaIsRead(t *testing.T) {
	var keys func(f field, at string) []string
	keys = func(f field, at string) (out []string) {
		for _, inner := range f.fields {
			if inner.doc == "" {
				t.Errorf("%s has no description", at+inner.key)
			}
			out = append(out, at+inner.key)
			if inner.form == aTable || inner.form == tables {
				out = append(out, keys(inner, at+inner.key+".")...)
			}
		}
		return out
	}
	var v map[string]any
	if err := toml.Unmarshal([]byte(everything), &v); err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				given[at+k] = true
				walk(inner, at+k+".")
			}
		case []any:
			for _, inner := range v {
				walk(inner, at)
			}
		}
	}
	walk(v, "")
	for _, k := range keys(root(), "") {
		if !given[k] {
			t.Errorf("TestParseEverything does not set %s, so nobody knows whether it is read", k)
		}
	}
}
