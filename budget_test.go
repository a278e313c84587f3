package wasmtools_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/tool"
)

var proposed = regexp.MustCompile(`with read_open: (\{.*?\}\}\})`)

// TestBoundedReadsReachEveryByte: whatever its lines are like, a result that was
// too long is read whole by the call that its receipt proposes and then by the
// next one that each answer names. No answer is longer than a read may be, and
// none is a receipt again, under the least gate that there is.
func TestBoundedReadsReachEveryByte(t *testing.T) {
	for name, text := range map[string]string{
		"one line":         strings.Repeat("0123456789abcdef", 1<<16),
		"short lines":      lines(3000),
		"other characters": strings.Repeat("é\u2028世界🙂 ", 60_000),
		"a long line last": lines(2000) + strings.Repeat("x", 100_000),
		"escapes":          strings.Repeat("\"\\\t", 40_000),
	} {
		least := func() budget.Gates { return budget.Gates{Gate: budget.Gate{Text: 1, Structured: 1}} }
		turn := shelf{options: wasmtools.Options{Budget: least}, tools: []tool.Tool{saying(text)}}.open(t)
		got := turn.Call(t.Context(), []wasmtools.Request{{Tool: "bulky"}})[0].Result.PlainText()
		if name == "short lines" { // 3,000 of them are 64 KiB and a little
			if !strings.Contains(got, `"lines":{"start":1,"end":200}`) {
				t.Errorf("%s: the receipt is %s", name, got)
			}
		}
		m := proposed.FindStringSubmatch(got)
		if m == nil {
			t.Fatalf("%s: no proposal in %.900s", name, got)
		}
		var args struct {
			Path      string         `json:"path"`
			Selection map[string]any `json:"selection"`
		}
		if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
			t.Fatal(err)
		}
		var read strings.Builder
		for calls := 0; ; calls++ {
			if calls > 200 {
				t.Fatalf("%s: no end after %d calls, at byte %d of %d", name, calls, read.Len(), len(text))
			}
			p, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			r := turn.Call(t.Context(), []wasmtools.Request{{Tool: "read_open", Arguments: p}})[0].Result
			if r.IsError || len(r.PlainText()) > 24<<10 || !utf8.ValidString(r.PlainText()) {
				t.Fatalf("%s: %s answers %d bytes: %.300s", name, p, len(r.PlainText()), r.PlainText())
			}
			d, err := json.Marshal(r.Details)
			if err != nil {
				t.Fatal(err)
			}
			var says struct {
				Offset, Length int
				Next           map[string]any
				Total          int `json:"total_lines"`
			}
			if err := json.Unmarshal(d, &says); err != nil {
				t.Fatal(err)
			}
			if args.Selection["range"] != nil {
				if !strings.Contains(r.PlainText(), text[says.Offset:says.Offset+says.Length]) || says.Offset != read.Len() {
					t.Fatalf("%s: bytes %d-%d are not shown, or not the next after %d", name, says.Offset, says.Offset+says.Length, read.Len())
				}
				read.WriteString(text[says.Offset : says.Offset+says.Length])
				if says.Next == nil && read.Len() < len(text) { // what was asked for was shown; ask on
					says.Next = map[string]any{"range": map[string]any{"offset": read.Len(), "length": 16384}}
				}
			} else {
				for line := range strings.Lines(r.PlainText()) {
					if _, content, ok := strings.Cut(line, "\t"); ok {
						read.WriteString(content)
					}
				}
				if n := strings.Count(read.String(), "\n"); says.Next == nil && n < 3000 {
					says.Next = map[string]any{"lines": map[string]any{"start": n + 1}}
				}
			}
			if says.Next == nil {
				break
			}
			args.Selection = says.Next
		}
		if read.String() != text {
			t.Errorf("%s: %d bytes were read; want the %d of the result", name, read.Len(), len(text))
		}
	}
}

// TestBudgetChangesWhileRunning: gates are asked at each call, by tool, and a
// surface lowers them for its own calls only.
func TestBudgetChangesWhileRunning(t *testing.T) {
	var gates atomic.Pointer[budget.Gates]
	gates.Store(&budget.Gates{})
	turn := shelf{
		options: wasmtools.Options{Budget: func() budget.Gates { return *gates.Load() }},
		tools:   []tool.Tool{saying(strings.Repeat("x", 50_000))},
	}.open(t)
	shown := func(most budget.Gate) string {
		r := turn.Call(t.Context(), []wasmtools.Request{{Tool: "bulky", Ceiling: most}})[0].Result
		if inReceipt.MatchString(r.PlainText()) {
			return "receipt"
		}
		return "whole"
	}
	for _, c := range []struct {
		gates budget.Gates
		most  budget.Gate
		want  string
	}{
		{budget.Gates{}, budget.Gate{}, "whole"},
		{budget.Gates{}, budget.Gate{Text: 40_000}, "receipt"},
		{budget.Gates{Gate: budget.Gate{Text: 40_000}}, budget.Gate{}, "receipt"},
		{budget.Gates{Gate: budget.Gate{Text: 40_000}, Tools: map[string]budget.Gate{"bulky": {Text: 60_000}}}, budget.Gate{}, "whole"},
		{budget.Gates{Tools: map[string]budget.Gate{"bulky": {Text: 60_000}}}, budget.Gate{Text: 40_000}, "receipt"},
		{budget.Gates{Tools: map[string]budget.Gate{"other": {Text: 33_000}}}, budget.Gate{Text: 1 << 20}, "whole"},
	} {
		gates.Store(&c.gates)
		if got := shown(c.most); got != c.want {
			t.Errorf("under %+v and %+v it is shown as %s; want %s", c.gates, c.most, got, c.want)
		}
	}
}

// TestStructuredReceipts: the strings of a structured result that are too long
// are read by their handles, the record names them, and the schema that the turn
// shows allows what comes. Control: the tool's own schema does not.
func TestStructuredReceipts(t *testing.T) {
	page := lines(3000)
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"$ref":"#/$defs/t"},"page":{"type":"string"}},"required":["title","page"],"$defs":{"t":{"type":"string"}}}`)
	structured, err := json.Marshal(map[string]any{"title": "t", "page": page})
	if err != nil {
		t.Fatal(err)
	}
	own := bulky(func(tool.Sink) tool.Result {
		return tool.Result{Content: []tool.Content{tool.Text("a page")}, Structured: structured}
	})
	l := &ledger{}
	turn := shelf{space: wasmtools.Workspace{Dir: t.TempDir(), Evidence: l}, tools: []tool.Tool{publishing{own, schema}}}.open(t)
	r := turn.Call(t.Context(), []wasmtools.Request{{CallID: "c", Tool: "bulky"}})[0].Result
	var got struct {
		Title string
		Page  struct {
			Receipt struct {
				Artifact string
				Bytes    int
				Lines    int
				SHA256   string
			} `json:"wasmtools_receipt"`
		}
	}
	if err := json.Unmarshal(r.Structured, &got); err != nil {
		t.Fatal(err)
	}
	ref := got.Page.Receipt
	if got.Title != "t" || ref.Bytes != len(page) || ref.Lines != 3000 || "sha256:"+ref.SHA256 != string(tool.DigestOf([]byte(page))) {
		t.Fatalf("%.600s", r.Structured)
	}
	if s := openAt(t, turn, ref.Artifact, `,"selection":{"lines":{"start":2999}}`).PlainText(); !strings.Contains(s, "line 3000 of the output") {
		t.Errorf("read by its handle: %s", s)
	}
	if a := l.check(t)["c"].last().Artifact; len(a) != 1 || "artifact:"+a[0].Handle != ref.Artifact {
		t.Errorf("the record has %+v", a)
	}
	var published json.RawMessage
	for _, d := range turn.Tools() {
		if d.Name == "bulky" {
			published = d.Output
		}
	}
	for _, item := range turn.List() {
		if item.Definition.Name == "bulky" && string(item.Definition.Output) != string(schema) {
			t.Errorf("the list has the schema %s", item.Definition.Output)
		}
	}
	for _, c := range []struct {
		schema, value json.RawMessage
		valid         bool
	}{{published, r.Structured, true}, {published, structured, true}, {schema, structured, true}, {schema, r.Structured, false}, {published, json.RawMessage(`{"title":1}`), false}} {
		var s jsonschema.Schema
		var v any
		if err := json.Unmarshal(c.schema, &s); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c.value, &v); err != nil {
			t.Fatal(err)
		}
		check, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Validate(v); (err == nil) != c.valid {
			t.Errorf("%.100s under %s: %v; want valid %v", c.value, c.schema, err, c.valid)
		}
	}
}

// publishing is a tool that says what its results look like.
type publishing struct {
	tool.Tool
	schema json.RawMessage
}

func (p publishing) Definition() tool.Definition {
	d := p.Tool.Definition()
	d.Output = p.schema
	return d
}

// TestCompact: what is taken out of a conversation is read by the receipt that
// stands for it. Where nothing reads it, nothing is taken out.
func TestCompact(t *testing.T) {
	rounds := make([]budget.Round, budget.RecentRounds+2)
	rounds[1].Results = []budget.Past{{Tool: "bulky", Text: lines(30_000)}}
	turn := shelf{}.open(t)
	changes, err := turn.Compact(rounds)
	if err != nil || len(changes) != 1 || changes[0].Round != 1 {
		t.Fatalf("Compact = %+v, %v", changes, err)
	}
	m := inReceipt.FindStringSubmatch(changes[0].Receipt)
	if m == nil {
		t.Fatalf("the receipt is %s", changes[0].Receipt)
	}
	if r := openAt(t, turn, "artifact:"+m[1], `,"selection":{"lines":{"start":30000}}`); !strings.Contains(r.PlainText(), "line 30000 of the output") {
		t.Errorf("it reads %s", r.PlainText())
	}
	for who, s := range map[string]shelf{
		"no reader": {space: wasmtools.Workspace{Tools: func(name string) bool { return name != "read_open" }}},
		"no store":  {options: wasmtools.Options{StateDir: "none"}},
	} {
		if changes, err := s.open(t).Compact(rounds); changes != nil || err != nil {
			t.Errorf("%s: %+v, %v", who, changes, err)
		}
	}
}

// TestOpenArtifact: a host reads what a receipt names, of its own session only.
func TestOpenArtifact(t *testing.T) {
	dir := t.TempDir()
	turn := shelf{space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{saying(lines(5000))}}.open(t)
	handle := kept(t, turn)
	f, err := turn.OpenArtifact(handle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 6)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "line 1" {
		t.Errorf("it begins with %q, %v", p, err)
	}
	other := shelf{space: wasmtools.Workspace{Dir: dir}, tools: []tool.Tool{saying(lines(5000))}}.open(t)
	bare := shelf{options: wasmtools.Options{StateDir: "none"}}.open(t)
	for who, c := range map[string]struct {
		turn   *wasmtools.Turn
		handle string
	}{"another session": {other, handle}, "no store": {bare, handle}, "a guess": {turn, strings.Repeat("a", 26)}, "a path": {turn, "../handles/" + handle}, "nothing": {turn, ""}} {
		if _, err := c.turn.OpenArtifact(c.handle); tool.CodeOf(err) != tool.NotFound || fmt.Sprint(err) != fmt.Sprint(errNotFound(bare)) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func errNotFound(bare *wasmtools.Turn) error {
	_, err := bare.OpenArtifact("x")
	return err
}
