package wasmtools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/tool"
)

// A schema is a stranger's text: an upstream server's, or a module's. One that
// recurses without end would end this process, and no test could say so after it.
func TestHostileSchemas(t *testing.T) {
	double := `{"type":"object","allOf":[{"$ref":"#/$defs/l0"}],"$defs":{`
	for i := range 40 {
		double += fmt.Sprintf(`"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	double += `"l40":{"type":"string"}}}`
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for _, c := range []struct {
		name, schema, args string
		code               tool.Code
	}{
		{"a reference to the whole, of a text", `{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":"x"}`, tool.SchemaInvalid},
		{"a reference to the whole, as is meant", `{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`, ""},
		{"the whole is the whole", `{"type":"object","$ref":"#"}`, `{}`, tool.InvalidModule},
		{"by way of a branch", `{"type":"object","anyOf":[{"type":"string"},{"$ref":"#"}]}`, `{}`, tool.InvalidModule},
		{"doubled in place", double, `{}`, tool.InvalidModule},
		{"doubled at every level", `{"type":"object","anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, deep, tool.TooLarge},
		{"doubled at every level, of a flat value", `{"type":"object","anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, `{"a":{}}`, ""},
		{"a long text beside many branches", `{"type":"object","properties":{"a":{"anyOf":[` + strings.Repeat(`{"type":"number"},`, 1500) + `{"type":"null"}]}}}`,
			`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, tool.TooLarge},
		{"a short text beside many branches", `{"type":"object","properties":{"a":{"anyOf":[` + strings.Repeat(`{"type":"number"},`, 1500) + `{"type":"string"}]}}}`, `{"a":"x"}`, ""},
		{"a huge pattern", `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("(?:[a-c]{10}x?){90}", 100) + `"}}}`, `{"a":"x"}`, tool.InvalidModule},
		{"doubled through elements", `{"type":"object","properties":{"a":{"$ref":"#/$defs/l"}},"$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/l"},"contains":{"$ref":"#/$defs/l"}}}}`,
			`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, tool.TooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			def := tool.Definition{Name: "odd", Description: "odd", Input: json.RawMessage(c.schema), Effects: tool.Reads}
			rt := open(t, t.TempDir(), nil, hostTool{def, func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.TextResult("ran"), nil
			}})
			out := begin(t, rt).Call(t.Context(), []wasmtools.Request{{Tool: "odd", Arguments: json.RawMessage(c.args)}})[0]
			if out.Result.Code != c.code {
				t.Errorf("%s: %.300s", out.Result.Code, out.Result.PlainText())
			}
		})
	}
}
