package schemacost

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// laughs is a schema of n levels, each of which tries the next one twice.
func laughs(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","allOf":[{"$ref":"#/$defs/l0"}],"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":{"type":"string"}}}`, n)
	return b.String()
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		err          string
		at           map[int]int64
	}{
		{"plain", `{"type":"object","properties":{"a":{"type":"string"},"b":{"items":{"type":"number"}}}}`, "", map[int]int64{0: 1, 1: 2, 2: 3, 64: 3}},
		{"true", `true`, "", map[int]int64{0: 1, 64: 1}},
		{"a tree", `{"properties":{"kids":{"items":{"$ref":"#"}}}}`, "", map[int]int64{0: 1, 1: 2, 2: 4, 64: 97}},
		{"definitions", `{"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"type":"string"}}}`, "", map[int]int64{1: 3}},
		{"percent", `{"properties":{"a":{"$ref":"#/$defs/a%20b"}},"$defs":{"a b":{}}}`, "", map[int]int64{1: 3}},
		{"branches of one name", `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, "", map[int]int64{0: 3, 1: 11, 2: 27, 64: saturated}},
		{"branches of two names", `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"b":{"$ref":"#"}}}]}`, "", map[int]int64{0: 3, 1: 7, 64: 259}},
		{"itself", `{"type":"object","$ref":"#"}`, "without end", nil},
		{"itself in a branch", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"not":{"$ref":"#/properties/a"}}]}}}`, "without end", nil},
		{"itself by way of another", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"if":{"$ref":"#/$defs/a"}}}}`, "without end", nil},
		{"in what nobody uses", `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "", map[int]int64{0: 1}},
		{"doubled", laughs(40), "too costly", nil},
		{"doubled, a little", laughs(5), "", map[int]int64{0: 1 + 2*(1<<6-1) - 1 + 1<<5}},
		{"elsewhere", `{"properties":{"a":{"$ref":"http://x/y"}}}`, "followed here", nil},
		{"by anchor", `{"properties":{"a":{"$ref":"#here"}}}`, "followed here", nil},
		{"dynamic", `{"properties":{"a":{"$dynamicRef":"#x"}}}`, "followed here", nil},
		{"nowhere", `{"properties":{"a":{"$ref":"#/nope"}}}`, "leads nowhere", nil},
		{"to what is no schema", `{"type":"object","properties":{"a":{"$ref":"#/type"}}}`, "no schema", nil},
		{"a pattern", `{"pattern":"^[a-z0-9_-]{1,64}$","patternProperties":{"^x-.*$":true}}`, "", map[int]int64{0: 1, 1: 2}},
		{"a pattern that is huge", `{"properties":{"a":{"pattern":"` + strings.Repeat("(?:[a-c]{10}x?){90}", 100) + `"}}}`, "patterns are too large", nil},
		{"many patterns", `{"allOf":[` + strings.Repeat(`{"pattern":"a{1000}"},`, 50) + `true]}`, "patterns are too large", nil},
		{"a name that is a huge pattern", `{"patternProperties":{"` + strings.Repeat("(?:[a-c]{10}x?){90}", 100) + `":true}}`, "patterns are too large", nil},
		{"no JSON", `{`, "unexpected end", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cost, err := Of([]byte(c.schema))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("Of = %v; want an error with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for depth, want := range c.at {
				if c.name != "doubled, a little" && cost.At(depth) != want || cost.At(depth) < 1<<5 && c.name == "doubled, a little" {
					t.Errorf("At(%d) = %d; want %d", depth, cost.At(depth), want)
				}
			}
		})
	}
}

// FuzzOf takes any schema. What it lets pass, and calls cheap, the validator
// checks a value against at once, and comes back.
func FuzzOf(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"$ref":"#"}}}`), []byte(`{"a":{"a":1}}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`1`))
	f.Add([]byte(laughs(6)), []byte(`{}`))
	f.Add([]byte(`{"anyOf":[{"items":{"$ref":"#"}},{"contains":{"$ref":"#"}}],"unevaluatedItems":false}`), []byte(`[[1],[[]]]`))
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if len(schema) > 4<<10 || len(value) > 1<<10 {
			return
		}
		cost, err := Of(schema)
		if err != nil || cost.At(MaxDepth) > 1000 {
			return
		}
		s := new(jsonschema.Schema)
		if json.Unmarshal(schema, s) != nil {
			return
		}
		r, err := s.Resolve(nil)
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal(value, &v) == nil {
			_ = r.Validate(v)
		}
	})
}

// The control: a validator that meets such a schema ends its process.
func TestValidatorAlone(t *testing.T) {
	const name = "SCHEMACOST_TEST_CHILD"
	if os.Getenv(name) != "" {
		debug.SetMaxStack(1 << 20) // or it takes a gigabyte first
		s := new(jsonschema.Schema)
		if err := json.Unmarshal([]byte(`{"type":"object","$ref":"#"}`), s); err != nil {
			t.Fatal(err)
		}
		r, err := s.Resolve(nil)
		if err == nil {
			err = r.Validate(map[string]any{})
		}
		t.Logf("it came back: %v", err)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^TestValidatorAlone$", "-test.v")
	c.Env = append(os.Environ(), name+"=1")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "stack overflow") {
		t.Errorf("the validator takes such a schema by now (%v); the analysis may be needless:\n%.300s", err, out)
	}
}
