package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

const goodSidecar = `
name = "cat"
version = "1.2.3"
description = "shows files"
kind = "wasi"
mount = "/mnt"

[config]
Thing = "hello"

[limits]
memory_mib = 32
time_ms = 2000

[[tools]]
name = "cat"
description = "Show a file."
input_schema = { type = "object", properties = { path = { type = "string" }, flags = { type = "array" } }, required = ["path"] }
args = ["{flags...}", "--", "{path}"]
ok_exit = [1]

[tools.capabilities]
fs.read = ["docs/**"]
env = ["LANG"]
kv = true

[[tools.capabilities.net]]
host = "api.example.com"
methods = ["POST"]
secrets = [{ header = "Authorization", secret = "token", format = "Bearer %s" }]

[[tools]]
name = "count"
description = "Count."
export = "count_vowels"
input_schema = '{"type":"object","properties":{"text":{"type":"string"}}}'
input = "{text}"
result = "json"
effects = []
`

func TestParseSidecar(t *testing.T) {
	s, err := ParseSidecar([]byte(goodSidecar))
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != Command || s.Mount != "/mnt" || s.Config["Thing"] != "hello" || s.Manifest.Limits.MemoryMiB != 32 {
		t.Errorf("ParseSidecar = %+v", s)
	}
	cat := s.Manifest.Tools[0]
	want := Capabilities{
		Read: []string{"docs/**"}, Env: []string{"LANG"}, KV: true,
		Net: []HostRule{{Host: "api.example.com", Methods: []string{"POST"}, Secrets: []Secret{{"Authorization", "token", "Bearer %s"}}}},
	}
	if !reflect.DeepEqual(cat.Capabilities, want) {
		t.Errorf("capabilities = %+v, want %+v", cat.Capabilities, want)
	}
	// Where no effects are stated they are what the capabilities make possible.
	if want := tool.Reads | tool.UsesNetwork; cat.Effects != want {
		t.Errorf("effects = %v, want %v", cat.Effects, want)
	}
	if s.Recipes[0].Input != InputNone || s.Recipes[1].Answer != AnswerJSON || s.Recipes[1].Export != "count_vowels" {
		t.Errorf("recipes = %+v", s.Recipes)
	}
}

// TestSidecarRefusals changes one thing of a good sidecar at a time.
func TestSidecarRefusals(t *testing.T) {
	const one = "name = \"a\"\nversion = \"1.0.0\"\n[[tools]]\nname = \"x\"\ndescription = \"y\"\n"
	if _, err := ParseSidecar([]byte(one)); err != nil {
		t.Fatalf("the smallest sidecar: %v", err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":       {one + "colour = 1\n", "colour"},
		"unknown at the top":  {"colour = 1\n" + one, "colour"},
		"another case":        {strings.Replace(one, "name", "Name", 1), "lower case"},
		"case in a table":     {one + "[tools.capabilities]\nFS.read = [\"**\"]\n", "lower case"},
		"twice":               {one + "name = \"z\"\n", ""},
		"not TOML":            {"name = ", ""},
		"not UTF-8":           {one + "title = \"\xff\"\n", "UTF-8"},
		"no tools":            {"name = \"a\"\nversion = \"1.0.0\"\n", "tools"},
		"bad version":         {strings.Replace(one, "1.0.0", "1", 1), "version"},
		"bad tool name":       {strings.Replace(one, `"x"`, `"x y"`, 1), "name"},
		"bad kind":            {"kind = \"native\"\n" + one, "kind"},
		"relative mount":      {"mount = \"mnt\"\n" + one, "mount"},
		"climbing mount":      {"mount = \"/a/../b\"\n" + one, "mount"},
		"write without":       {one + "effects = [\"read\"]\n[tools.capabilities]\nfs.write = [\"**\"]\n", "effects"},
		"net without":         {one + "effects = [\"read\"]\n[[tools.capabilities.net]]\nhost = \"a.com\"\n", "effects"},
		"upward glob":         {one + "[tools.capabilities]\nfs.read = [\"../**\"]\n", "fs.read"},
		"host with a path":    {one + "[[tools.capabilities.net]]\nhost = \"a.com/x\"\n", "net[0]"},
		"host with a user":    {one + "[[tools.capabilities.net]]\nhost = \"u@a.com\"\n", "net[0]"},
		"lower-case method":   {one + "[[tools.capabilities.net]]\nhost = \"a.com\"\nmethods = [\"get\"]\n", "net[0]"},
		"method CONNECT":      {one + "[[tools.capabilities.net]]\nhost = \"a.com\"\nmethods = [\"CONNECT\"]\n", "net[0]"},
		"secret for any host": {one + "[[tools.capabilities.net]]\nhost = \"*\"\nsecrets = [{header=\"A\",secret=\"b\"}]\n", "net[0]"},
		"private wildcard":    {one + "[[tools.capabilities.net]]\nhost = \"*.a.com\"\nprivate = true\n", "net[0]"},
		"header with a line":  {one + "[[tools.capabilities.net]]\nhost = \"a.com\"\nsecrets = [{header=\"A\\nB\",secret=\"b\"}]\n", "net[0]"},
		"env with =":          {one + "[tools.capabilities]\nenv = [\"A=B\"]\n", "env[0]"},
		"schema that is none": {one + "input_schema = 7\n", "input_schema"},
		"schema key twice":    {one + "input_schema = '{\"type\":\"object\",\"type\":\"object\"}'\n", "input_schema"},
		"schema of a list":    {one + "input_schema = '[]'\n", "inputSchema"},
		"open brace":          {one + "args = [\"{x\"]\n", "args[0]"},
		"close brace":         {one + "args = [\"x}\"]\n", "args[0]"},
		"list inside text":    {one + "args = [\"a{x...}\"]\n", "args[0]"},
		"bad result":          {one + "result = \"xml\"\n", "result"},
		"reserved export":     {one + "export = \"wt__x\"\n", "export"},
		"NUL in config":       {"[config]\na = \"\\u0000\"\n", "config"},
		"deep lists":          {one + "input_schema = " + strings.Repeat("[", 5000) + "\n", "nested"},
		"deep keys":           {one + "input_schema." + strings.Repeat("a.", 4000) + "b = 1\n", "nested"},
		"dots without end":    {one + "input_schema." + strings.Repeat("a.", 400_000) + "b = 1\n", "dots"},
		"too large":           {one + "# " + strings.Repeat("x", MaxSidecar), "bytes"},
	} {
		_, err := ParseSidecar([]byte(c.text))
		if tool.CodeOf(err) != tool.InvalidModule || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ParseSidecar = %v; want invalid_module about %q", name, err, c.want)
		}
	}
}

func TestIdentityCoversBoth(t *testing.T) {
	base := Identity([]byte("ab"), []byte("c"))
	for name, other := range map[string]tool.Digest{
		"no sidecar":    Identity([]byte("ab"), nil),
		"empty sidecar": Identity([]byte("ab"), []byte{}),
		"moved border":  Identity([]byte("a"), []byte("bc")),
		"other module":  Identity([]byte("aB"), []byte("c")),
		"other sidecar": Identity([]byte("ab"), []byte("C")),
	} {
		if other == base {
			t.Errorf("%s: the identity stays the same", name)
		}
	}
	if Identity([]byte("ab"), nil) != tool.DigestOf([]byte("ab")) {
		t.Error("without a sidecar the identity is not the digest of the module")
	}
}

func TestRecipeArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		call string
		want []string
	}{
		{[]string{"-n", "{n}", "{path}"}, `{"n":12345678901234567890,"path":"a b"}`, []string{"-n", "12345678901234567890", "a b"}},
		{[]string{"--x={x}", "{y}"}, `{"y":true}`, []string{"true"}},
		{[]string{"{list...}", "end"}, `{"list":["-a","$(b)",3]}`, []string{"-a", "$(b)", "3", "end"}},
		{[]string{"{list...}"}, `{}`, nil},
		{[]string{"{{}}", "{a}{{{b}"}, `{"a":"1","b":null}`, []string{"{}"}},
		{[]string{"{a}{{{b}"}, `{"a":"1","b":"2"}`, []string{"1{2"}},
		{[]string{"{o}"}, `{"o":{"k":[1]}}`, []string{`{"k":[1]}`}},
		{[]string{"{a}", ""}, `{"a":"{b}","b":"x"}`, []string{"{b}", ""}}, // values are no templates
	} {
		r := Recipe{Args: c.args}
		got, err := r.Arguments(json.RawMessage(c.call))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("Arguments(%q, %s) = %q, %v; want %q", c.args, c.call, got, err, c.want)
		}
	}
	big := json.RawMessage(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`)
	for _, r := range []Recipe{{Args: []string{"{x}"}}, {Args: []string{strings.Repeat("{x}", 300)}}} {
		if _, err := r.Arguments(big); tool.CodeOf(err) != tool.TooLarge {
			t.Errorf("a megabyte as an argument: %v", err)
		}
	}
	if _, err := (Recipe{Input: strings.Repeat("{x}", 300)}).Stdin(big); tool.CodeOf(err) != tool.TooLarge {
		t.Errorf("300 megabytes of input: %v", err)
	}
	if _, err := (Recipe{Args: []string{"{x}"}}).Arguments(json.RawMessage(`{"x":"a\u0000b"}`)); tool.CodeOf(err) != tool.InvalidArguments {
		t.Errorf("a NUL in an argument: %v", err)
	}
}

func TestGrants(t *testing.T) {
	m := Manifest{Tools: []Tool{
		{Name: "a", Capabilities: Capabilities{Read: []string{"x/**"}, KV: true}},
		{Name: "b", Capabilities: Capabilities{Net: []HostRule{{Host: "b.example.com"}}}},
	}}
	got, err := Grants(m, []string{
		"fs.read=src/**,{p,q}/*.md", "a:all", "b:net=api.example.com:8443:GET,POST", "net.private=[::1]:80",
		"b:secret=api.example.com:8443/Authorization/tok/Bearer %s", "b:env=LANG,HOME", "clock",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Capabilities{
		"a": {Read: []string{"src/**", "{p,q}/*.md", "x/**"}, KV: true, Clock: true, Net: []HostRule{{Host: "[::1]:80", Private: true}}},
		"b": {Read: []string{"src/**", "{p,q}/*.md"}, Clock: true, Env: []string{"LANG", "HOME"}, Net: []HostRule{
			{Host: "api.example.com:8443", Methods: []string{"GET", "POST"}, Secrets: []Secret{{"Authorization", "tok", "Bearer %s"}}},
			{Host: "[::1]:80", Private: true},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Grants = %+v\nwant %+v", got, want)
	}
	for _, bad := range []string{
		"", "fs", "fs.read", "fs.read=", "fs.read=/etc/**", "fs.read=a,../b", "all=x", "kv=1", "net=", "net=http://a.com",
		"net=a.com:get", "c:all", ":all", "secret=a.com/H/n", "net.private=*", "env=A=B", "everything", "b:secret=api.example.com/X",
	} {
		if g, err := Grants(m, []string{bad}); tool.CodeOf(err) != tool.InvalidArguments {
			t.Errorf("Grants(%q) = %+v, %v; want invalid_arguments", bad, g, err)
		}
	}
	// Granting one tool must not change what another has, or what was asked.
	asked := Capabilities{Read: make([]string, 1, 4)}
	asked.Read[0] = "x"
	m = Manifest{Tools: []Tool{{Name: "a", Capabilities: asked}, {Name: "b", Capabilities: asked}}}
	got, err = Grants(m, []string{"all", "a:fs.read=y", "b:fs.read=z"})
	if err != nil || got["a"].Read[1] != "y" || got["b"].Read[1] != "z" {
		t.Errorf("Grants = %+v, %v", got, err)
	}
}

// TestManifestCapabilities parses the same capabilities as JSON, with the same
// strictness.
func TestManifestCapabilities(t *testing.T) {
	parse := func(capabilities string) error {
		_, err := Parse([]byte(`{"abi":1,"name":"m","version":"1.0.0","tools":[{"name":"t","description":"d",
			"inputSchema":{"type":"object"},"effects":["read","network"],"capabilities":` + capabilities + `}]}`))
		return err
	}
	if err := parse(`{"fs.read":["**"],"net":[{"host":"a.com","methods":["GET"],"secrets":[{"header":"A","secret":"b"}]}],"env":["X"],"kv":true,"clock":true}`); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		`{"net":[{"host":"a.com","colour":1}]}`, `{"net":[{"host":"a.com","host":"b.com"}]}`, `{"net":[null]}`, `{"net":null}`, `{"net":{}}`,
		`{"net":[[{"host":"a.com"}]]}`, `{"net":[{"host":"a.com","secrets":[{"header":"A","secret":"b","x":1}]}]}`,
		`{"net":[{"host":"a.com","secrets":[{"header":"A","Secret":"b"}]}]}`, `{"kv":1}`, `{"env":"X"}`, `{"NET":[]}`,
	} {
		if err := parse(bad); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("capabilities %s: %v; want invalid_module", bad, err)
		}
	}
}

func FuzzParseSidecar(f *testing.F) {
	f.Add([]byte(goodSidecar))
	f.Add([]byte("name='a'\nversion='1.0.0'\n[[tools]]\nname='x'\ndescription='d'\nargs=['{a}{{','{b...}']\ninput='{c}'\n"))
	// Short ones, in which every change matters.
	for _, line := range []string{"args=['a{b}','{{c}}','{d...}']", "input='x{y}z'", "mount='/a/b'", "ok_exit=[1,2]", "export='f'"} {
		f.Add([]byte("[[tools]]\n" + line))
	}
	f.Add([]byte("[[tools]]\n[tools.input_schema]\na.b.c=[{x=1979-05-27},{}]\n[[tools.capabilities.net]]\nhost='*'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSidecar(data)
		if err != nil {
			if tool.CodeOf(err) != tool.InvalidModule {
				t.Fatalf("parseSidecar: %v", err)
			}
			return
		}
		if len(s.Recipes) != len(s.Manifest.Tools) {
			t.Fatalf("%d recipes for %d tools", len(s.Recipes), len(s.Manifest.Tools))
		}
		raw, err := json.Marshal(s.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		// What a sidecar says could also stand in a manifest.
		if _, err := Parse(raw); err != nil && len(raw) < MaxBytes {
			t.Fatalf("the manifest of a good sidecar is refused: %v\n%s", err, raw)
		}
		for _, r := range s.Recipes {
			if _, err := r.Arguments(json.RawMessage(`{"a":["-x",1,null],"b":{}}`)); err != nil && tool.CodeOf(err) != tool.TooLarge && tool.CodeOf(err) != tool.InvalidArguments {
				t.Fatal(err)
			}
			if _, err := r.Stdin(json.RawMessage(`{"c":"x"}`)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
