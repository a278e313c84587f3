package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

const good = `{"abi":1,"name":"m","version":"1.2.3","description":"d","tools":[
	{"name":"a","title":"A","description":"Does a.","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}},
	 "outputSchema":{"type":"object"},"mode":"parallel","effects":["read","write"],"visibility":"internal",
	 "guidelines":["use it"],"packs":["text"],"capabilities":{"fs.read":["**"],"fs.write":["src/**/*.go","{a,b}/c"]}},
	{"name":"b","description":"Does b.","inputSchema":{"type":"object"},"effects":[]}],
	"limits":{"memory_mib":32,"time_ms":1000,"output_kib":64,"host_calls":100,"concurrency":2}}`

func TestParse(t *testing.T) {
	m, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Tools) != 2 || m.Tools[0].Effects != tool.Reads|tool.Writes || m.Limits.MemoryMiB != 32 || m.Tools[0].Capabilities.Write[1] != "{a,b}/c" {
		t.Errorf("Parse = %+v", m)
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(out); err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
		t.Errorf("what Parse gave does not survive a round: %v", err)
	}
}

// TestParseRefuses changes one thing of a good manifest at a time. The error
// must name the field.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, field string }{
		{`"abi":1`, `"abi":2`, "abi"},
		{`"abi":1`, `"abi":"1"`, "abi"},
		{`"abi":1,`, ``, "abi"},
		{`"name":"m"`, `"name":"m m"`, "name"},
		{`"name":"m"`, `"name":"` + strings.Repeat("m", 65) + `"`, "name"},
		{`"name":"m"`, `"name":null`, "name"},
		{`"name":"m"`, `"name":"m","name":"n"`, "name: the field stands twice"},
		{`"name":"m"`, `"Name":"m"`, "Name: an unknown field"},
		{`"version":"1.2.3"`, `"version":"v1.2.3"`, "version"},
		{`"version":"1.2.3"`, `"version":"1.2"`, "version"},
		{`"version":"1.2.3"`, `"version":"1.2.3\n"`, "version"},
		{`"description":"d"`, `"description":"` + strings.Repeat("d", 5000) + `"`, "description"},
		{`"description":"d"`, `"description":"a\u202eb"`, "description: it holds the control character U+202E"},
		{`"description":"d"`, `"description":"a\u001bb"`, "description"},
		{`"description":"d"`, `"homepage":"x"`, "homepage: an unknown field"},
		{`"name":"b"`, `"name":"a"`, "tools[1].name"},
		{`"name":"b"`, `"name":""`, "tools[1].name"},
		{`"name":"b"`, `"name":"b","extra":1`, "tools[1].extra"},
		{`"title":"A"`, `"title":"A\nB"`, "tools[0].title"},
		{`"description":"Does b."`, `"description":""`, "tools[1].description"},
		{`"mode":"parallel"`, `"mode":"both"`, "tools[0].mode"},
		{`"visibility":"internal"`, `"visibility":"hidden"`, "tools[0].visibility"},
		{`["read","write"]`, `["read","fly"]`, "effects"},
		{`["read","write"]`, `["read"]`, "tools[0].effects"},
		{`["read","write"]`, `[]`, "tools[0].effects"},
		{`["read","write"]`, `"read"`, "effects"},
		{`"guidelines":["use it"]`, `"guidelines":["` + strings.Repeat("x", 2000) + `"]`, "tools[0].guidelines[0]"},
		{`"packs":["text"]`, `"packs":["a b"]`, "tools[0].packs[0]"},
		{`"fs.read"`, `"fs.execute"`, "tools[0].capabilities.fs.execute"},
		{`"fs.read":["**"]`, `"fs.read":"**"`, "fs.read"},
		{`["**"]`, `["/etc/**"]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `["a/../../b"]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `[""]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `["["]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `["a\\b"]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `["{a,b}{c,d}{e,f}{g,h}"]`, "tools[0].capabilities.fs.read[0]"},
		{`["**"]`, `["{a/b,c}"]`, "tools[0].capabilities.fs.read[0]"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"string"}`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `[]`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"object","oneOf":[{}]}`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"object","$ref":"#"}`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"object","properties":{"p":{"$ref":"https://example.org/x"}}}`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"object","properties":{"p":{"pattern":"("}}}`, "tools[0].inputSchema"},
		{`{"type":"object","properties":{"p":{"type":"string"}}}`, `{"type":"object","properties":{"p":{},"p":{}}}`, "tools[0].inputSchema.properties.p"},
		{`"properties":{"p":{"type":"string"}}`, `"properties":{` + manyProperties(13) + `}`, "tools[0].inputSchema"},
		{`"inputSchema":{"type":"object"},`, ``, "tools[1].inputSchema"},
		{`"outputSchema":{"type":"object"}`, `"outputSchema":{"type":"banana"}`, "tools[0].outputSchema"},
		{`"memory_mib":32`, `"memory_mib":-1`, "limits.memory_mib"},
		{`"memory_mib":32`, `"memory_mib":99999`, "limits.memory_mib"},
		{`"memory_mib":32`, `"memory_mib":1.5`, "limits.memory_mib"},
		{`"memory_mib":32`, `"cores":8`, "limits.cores"},
		{`"time_ms":1000`, `"time_ms":99999999999999999999`, "limits.time_ms"},
		{`"limits":{`, `"limits":[],"x":{`, "limits"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q does not occur", c.old)
		}
		_, err := Parse([]byte(text))
		if tool.CodeOf(err) != tool.InvalidModule || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s -> %.60s: Parse = %v; want invalid_module about %s", c.old, c.new, err, c.field)
		}
	}
	for _, text := range []string{
		"", "null", "[]", "{", good + "{}", good + "x", `{"abi":1}`,
		strings.Replace(good, `"tools":[`, `"tools":{"a":[`, 1),
		strings.Replace(good, "Does a.", "Does \xff.", 1),
		`{"tools":[{"inputSchema":` + strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100) + `}]}`,
		`{"abi":1,"description":"` + strings.Repeat("x", MaxBytes) + `"}`,
	} {
		if _, err := Parse([]byte(text)); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("Parse(%.40q) = %v; want invalid_module", text, err)
		}
	}
	many := make([]string, maxTools+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"t%d","description":"d","inputSchema":{"type":"object"},"effects":[]}`, i)
	}
	if _, err := Parse([]byte(`{"abi":1,"name":"m","version":"1.0.0","tools":[` + strings.Join(many, ",") + `]}`)); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("%d tools = %v; want invalid_module", len(many), err)
	}
}

func manyProperties(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"p%d":{}`, i))
	}
	return strings.Join(list, ",")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"abi":1,"name":"m","version":"1.0.0","tools":[]}`))
	f.Add([]byte(`{"tools":[{"inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}}]}`))
	f.Add([]byte(`{"abi":1,"name":"m","version":"1.0.0","tools":[{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"p":{"$ref":"#"}}},"effects":["read"]}]}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := Parse(p)
		if err != nil {
			if tool.CodeOf(err) != tool.InvalidModule {
				t.Errorf("Parse = %v; want invalid_module", err)
			}
			return
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("what Parse accepts cannot be written: %v", err)
		}
		if _, err := Parse(out); err != nil {
			t.Errorf("what Parse accepts and wrote again is refused: %v\n%s", err, out)
		}
	})
}
