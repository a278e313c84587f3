package wasmtools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/wasmtools/wasmtools/tool"
)

const sample = `{"type":"object","additionalProperties":false,"required":["path","n"],"properties":{
	"path":{"type":"string","minLength":1},"n":{"type":"integer","minimum":1},
	"list":{"type":"array","items":{"type":"object","required":["old"],"properties":{"old":{"type":"string"}},"additionalProperties":false}},
	"mode":{"enum":["a","b"]}}}`

func checker(t testing.TB) *argumentChecker {
	t.Helper()
	c, err := newArgumentChecker(json.RawMessage(sample))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryFaultIsListed: all faults with their paths, the schema once, and
// what came.
func TestEveryFaultIsListed(t *testing.T) {
	_, _, err := checker(t).freeze("demo", json.RawMessage(`{"n":0,"list":[{"old":"x"},{"old":1,"extra":2},{}],"mode":"c","wat":[]}`))
	if tool.CodeOf(err) != tool.SchemaInvalid {
		t.Fatalf("freeze = %v", err)
	}
	text := err.Error()
	for _, want := range []string{"$.path: missing", "$.n: ", "$.list[1].old: ", "$.list[1].extra: unknown", "$.list[2].old: missing", "$.mode: ", "$.wat: unknown", "schema: {", `received: {"n":0`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q stands %d times, want once, in:\n%s", want, strings.Count(text, want), text)
		}
	}
}

// TestBoundsAreToldInTheirOwnNumbers: a number beside a bound is told as the
// caller wrote it, not as the validator holds it.
func TestBoundsAreToldInTheirOwnNumbers(t *testing.T) {
	c, err := newArgumentChecker(json.RawMessage(`{"type":"object","properties":{
		"n":{"type":"integer","minimum":1,"maximum":1000000},"s":{"type":"string","minLength":1},"x":{"type":"number","exclusiveMinimum":0}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"n":0}`:       "- $.n: 0 is less than 1, the least that is allowed",
		`{"n":-2.0}`:    "- $.n: -2 is less than 1, the least that is allowed",
		`{"n":2000000}`: "- $.n: 2000000 is more than 1000000, the most that is allowed",
		`{"s":""}`:      "- $.s: is empty",
		`{"x":0}`:       "- $.x: exclusiveMinimum: ",
		`{"n":"1"}`:     "- $.n: type: ",
	} {
		if _, _, err := c.freeze("demo", json.RawMessage(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("freeze(%s) = %v; want %q in it", args, err, want)
		}
	}
}

func TestArgumentsThatReadersDifferOn(t *testing.T) {
	c := checker(t)
	for _, args := range []string{
		`{"path":"a","path":"b","n":1}`,
		`{"path":"a","n":1,"list":[{"old":"x","old":"y"}]}`,
		`{"path":"a","n":9007199254740993}`,
		`{"path":"a","n":1e999}`,
		`{"path":"\ud800","n":1}`,
		`{"path":"\udc00\ud800","n":1}`,
		`{"path":"\ud83d\ud83d","n":1}`,
		"{\"path\":\"\xff\",\"n\":1}",
		`{"path":"a","n":1}{}`, `{"path":"a","n":1,}`, `{"path":"a" "n":1}`, `[]`, `null`, `"x"`, `{`, `{"path":"a","n":01}`,
		`{"path":"a","n":1,"list":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		if _, _, err := c.freeze("demo", json.RawMessage(args)); tool.CodeOf(err) != tool.SchemaInvalid {
			t.Errorf("freeze(%q) = %v, want schema_invalid", args, err)
		}
	}
	for _, args := range []string{
		`{"path":"\ud83d\ude00","n":1}`, `{"path":"\\ud800","n":9007199254740992}`, `{"path":"a\u0000","n":1.0}`, ` {"n" : 1e2, "path":"é" } `,
	} {
		if _, _, err := c.freeze("demo", json.RawMessage(args)); err != nil {
			t.Errorf("freeze(%q) = %v", args, err)
		}
	}
}

func TestEqualArgumentsHaveOneDigest(t *testing.T) {
	c := checker(t)
	digest := func(args string) tool.Digest {
		t.Helper()
		_, d, err := c.freeze("demo", json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := digest(`{"path":"a","n":1}`)
	for _, same := range []string{`{"n":1,"path":"a"}`, ` { "path" : "\u0061", "n" : 1.0e0 } `} {
		if digest(same) != base {
			t.Errorf("%s has another digest", same)
		}
	}
	for _, other := range []string{`{"path":"b","n":1}`, `{"path":"a","n":2}`, `{"path":"a","n":1,"mode":"a"}`} {
		if digest(other) == base {
			t.Errorf("%s has the same digest", other)
		}
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	for _, s := range []string{``, `null`, `[]`, `{}`, `{"type":"string"}`, `{"type":"object","properties":{"a":{"$ref":"http://example.com/x"}}}`, `{"type":"object","properties":{"a":{"pattern":"("}}}`} {
		if _, err := newArgumentChecker(json.RawMessage(s)); err == nil {
			t.Errorf("the schema %q is taken", s)
		}
	}
}

// FuzzFreeze: nothing that a client sends panics, and what is taken has one
// meaning: decoding it and its canonical form gives the same value.
func FuzzFreeze(f *testing.F) {
	for _, s := range []string{`{"path":"a","n":1}`, `{"path":"\ud83d\ude00","n":1e3}`, `{"path":"a","path":"b"}`, "{\"\xff\":1}", `{"n":9007199254740993}`} {
		f.Add([]byte(s))
	}
	c, err := newArgumentChecker(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		args, digest, err := c.freeze("demo", p)
		if err != nil {
			if tool.CodeOf(err) != tool.SchemaInvalid {
				t.Fatalf("freeze(%q) = %v", p, err)
			}
			return
		}
		canonical, err := jcs.Transform(args)
		if err != nil || tool.DigestOf(canonical) != digest {
			t.Fatalf("canonical form of %q: %q, %v", args, canonical, err)
		}
		var a, b any
		if err := json.Unmarshal(args, &a); err != nil {
			t.Fatalf("taken, but encoding/json says %v: %q", err, args)
		}
		if err := json.Unmarshal(canonical, &b); err != nil {
			t.Fatalf("%v in %q", err, canonical)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%q and its canonical form %q differ", args, canonical)
		}
	})
}
