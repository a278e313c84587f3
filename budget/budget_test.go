package budget_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/tool"
)

// shelf keeps what it is given, as the store of artifacts does.
type shelf struct {
	texts map[string]string
	err   error
	edge  bool // of what a reference can say: all figures are long
}

func (s *shelf) Keep(about tool.ArtifactInfo, text string) (budget.Kept, error) {
	if s.err != nil {
		return budget.Kept{}, s.err
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	handle := fmt.Sprintf("%026d", len(s.texts))
	s.texts[handle] = text
	k := budget.Kept{ArtifactRef: tool.ArtifactRef{Handle: handle, Bytes: int64(len(text)), Lines: int64(strings.Count(text, "\n")), Digest: tool.DigestOf([]byte(text))}}
	for line := range strings.Lines(text) {
		k.LongestLine = max(k.LongestLine, int64(utf8.RuneCountInString(line)))
	}
	if s.edge {
		k.Bytes, k.Lines, k.Dropped, k.LongestLine, k.Redacted = 1<<62, 1<<62, 1<<62, 1<<62, true
	}
	return k, nil
}

// shownText is how many bytes of JSON the text blocks take, but for the frame of one.
func shownText(t testing.TB, in []tool.Content) int {
	t.Helper()
	blocks := []map[string]string{}
	for _, c := range in {
		if c.Kind == tool.KindText {
			blocks = append(blocks, map[string]string{"type": "text", "text": c.Text})
		}
	}
	if len(blocks) == 0 {
		return 0
	}
	return len(marshal(t, blocks)) - len(`[{"text":"","type":"text"}]`)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

const (
	whole   = "whole"
	receipt = "receipt"
	ends    = "ends"
)

func shownAs(before, after tool.Result) string {
	switch {
	case reflect.DeepEqual(before.Content, after.Content):
		return whole
	case strings.Contains(after.PlainText(), "\nartifact: "+budget.Scheme):
		return receipt
	}
	return ends
}

// TestText: the third gate to the byte, and what stays where nothing can be kept
// or read.
func TestText(t *testing.T) {
	x := func(n int) tool.Result { return tool.TextResult(strings.Repeat("x", n)) }
	failing := func(n int) tool.Result {
		r := x(n)
		r.IsError, r.Code = true, tool.Trap
		return r
	}
	sensitive := x(budget.Text + 1)
	sensitive.Sensitive = true
	image := tool.Content{Kind: tool.KindImage, Data: make([]byte, 1<<20), MIMEType: "image/png"}
	blocks := func(n int, s string) tool.Result {
		r := tool.Result{Content: []tool.Content{image}}
		for range n {
			r.Content = append(r.Content, tool.Text(s))
		}
		return r
	}
	full := &shelf{err: tool.Errorf(tool.Quota, "the store is full").Because(errors.New("no space on /secret/disk"))}
	for name, c := range map[string]struct {
		gate   budget.Gate
		deaf   bool
		keeper budget.Keeper
		result tool.Result
		shown  string
		says   string
	}{
		"at the gate":           {result: x(64 << 10), shown: whole},
		"over it":               {result: x(64<<10 + 1), shown: receipt, says: "size: 65537 bytes, 0 lines, sha256:"},
		"line ends":             {result: tool.TextResult(strings.Repeat("\n", 32<<10)), shown: whole},
		"a line end more":       {result: tool.TextResult(strings.Repeat("\n", 32<<10+1)), shown: receipt},
		"control characters":    {result: tool.TextResult(strings.Repeat("\x01", 64<<10/6+1)), shown: receipt},
		"invalid bytes":         {result: tool.TextResult(strings.Repeat("\xff", 64<<10/6+1)), shown: receipt},
		"a separator":           {result: tool.TextResult(strings.Repeat("\u2028", 64<<10/6+1)), shown: receipt},
		"blocks at the gate":    {result: blocks(2, strings.Repeat("x", 32<<10-13)), shown: whole},
		"blocks over it":        {result: blocks(2, strings.Repeat("x", 32<<10-12)), shown: receipt},
		"many small blocks":     {result: blocks(5000, "x"), shown: receipt},
		"a long line":           {result: x(1 << 20), shown: receipt, says: `"selection":{"range":{"offset":0,"length":16384}}`},
		"short lines":           {result: tool.TextResult(strings.Repeat("a line of some length\n", 3000)), shown: receipt, says: `"selection":{"lines":{"start":1,"end":200}}`},
		"only an image":         {result: blocks(0, ""), shown: whole},
		"a lower gate":          {gate: budget.Gate{Text: 40_000}, result: x(40_001), shown: receipt},
		"at a lower gate":       {gate: budget.Gate{Text: 40_000}, result: x(40_000), shown: whole},
		"a higher gate":         {gate: budget.Gate{Text: 100_000}, result: x(100_000), shown: whole},
		"too low a gate":        {gate: budget.Gate{Text: 1}, result: x(budget.LeastText), shown: whole},
		"an error at its gate":  {result: failing(8000), shown: whole},
		"an error over it":      {result: failing(8001), shown: receipt, says: "result: error trap\n"},
		"an error, low gate":    {gate: budget.Gate{Text: 1}, result: tool.Result{IsError: true, Code: tool.Trap, Content: blocks(1, strings.Repeat("\x01", 8001)).Content}, shown: receipt},
		"sensitive":             {result: sensitive, shown: ends, says: "[63489 bytes are not shown; and they are not kept: a sensitive result is not archived]"},
		"no reader":             {deaf: true, result: x(256 << 10), shown: whole},
		"no reader, more":       {deaf: true, result: x(256<<10 + 1), shown: ends, says: "[260097 bytes are not shown; no tool here reads them, a person can: wasmtools artifacts export "},
		"no reader, low gate":   {gate: budget.Gate{Text: 1}, deaf: true, result: x(256 << 10), shown: whole},
		"an error, no reader":   {deaf: true, result: failing(60 << 10), shown: whole},
		"a store that fails":    {keeper: full, result: x(64<<10 + 1), shown: ends, says: "and they are not kept: the store is full]"},
		"fails over characters": {keeper: full, result: tool.TextResult(strings.Repeat("é", 40<<10)), shown: ends, says: "é\n[79872 bytes are not shown"},
		"fails inside one":      {keeper: full, result: tool.TextResult("x" + strings.Repeat("é", 40<<10) + "x"), shown: ends, says: "é\n[79876 bytes are not shown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			call := budget.Call{Tool: "t", Arguments: json.RawMessage(`{"query":"what\nis it"}`), Readable: !c.deaf, Keeper: s}
			if c.keeper != nil {
				call.Keeper = c.keeper
			}
			before := c.result.PlainText()
			r, err := budget.Bound(c.gate, call, c.result)
			got := r.PlainText()
			if shown := shownAs(c.result, r); shown != c.shown || !strings.Contains(got, c.says) {
				t.Fatalf("shown as %s: %.300q; want %s that says %q", shown, got, c.shown, c.says)
			}
			if (err != nil) != (c.keeper != nil) || strings.Contains(got, "/secret") {
				t.Errorf("a person is told %v, the model %.2100q", err, got)
			}
			if c.result.PlainText() != before || r.IsError != c.result.IsError || r.Code != c.result.Code {
				t.Errorf("the result that was given has changed, or its state has")
			}
			links := 0
			for i, b := range r.Content {
				switch b.Kind {
				case tool.KindImage:
					if i != 0 || len(b.Data) != 1<<20 {
						t.Errorf("the image has moved to %d", i)
					}
				case tool.KindResourceLink:
					links++
				}
			}
			if links != len(s.texts) {
				t.Errorf("%d links for %d artifacts", links, len(s.texts))
			}
			if c.shown == whole {
				if r.Details != nil || links != 0 {
					t.Errorf("details %v, %d links", r.Details, links)
				}
				return
			}
			limit := budget.Gates{Gate: c.gate}.For("t").Text
			if n := shownText(t, r.Content); n > limit || n > 14_000 {
				t.Errorf("%d bytes are shown; the gate is %d", n, limit)
			}
			if !utf8.ValidString(got) {
				t.Errorf("what is shown is not UTF-8")
			}
			for _, kept := range s.texts {
				if kept != before {
					t.Errorf("what is kept is not what came")
				}
			}
			if c.shown == ends && (!strings.HasPrefix(got, before[:1023]) || !strings.HasSuffix(got, before[len(before)-1022:])) {
				t.Errorf("the ends are %.20q and %.20q", got, got[len(got)-20:])
			}
			if d := r.Details["archived"].(map[string]any); d["bytes"] != len(before) || d["shown"] == "receipt" != (c.shown == receipt) {
				t.Errorf("details %v", d)
			}
		})
	}
}

// TestReceiptSays: everything that a reader needs, in their order.
func TestReceiptSays(t *testing.T) {
	s := &shelf{edge: true}
	r := tool.TextResult(strings.Repeat("x", 70_000))
	r.IsError, r.Code = true, tool.Timeout
	r, err := budget.Bound(budget.Gate{}, budget.Call{Tool: "web_fetch", Arguments: json.RawMessage(`{"url":"https://a.test/?\"\u0007 b","x":1}`), Readable: true, Keeper: s}, r)
	if err != nil {
		t.Fatal(err)
	}
	got, at := r.PlainText(), 0
	for _, want := range []string{
		"this result is too long", "tool: web_fetch\n", `source: url "https://a.test/?\"\u0007 b"` + "\n", "result: error timeout\n", "artifact: artifact:00000000000000000000000000\n",
		"size: 4611686018427387904 bytes, 4611686018427387904 lines, sha256:", "not kept: 4611686018427387904 bytes", "[redacted]", "next: search it first, with grep", "by bytes", "never all of it", "says nothing",
	} {
		n := strings.Index(got[at:], want)
		if n < 0 {
			t.Fatalf("no %q after byte %d of %q", want, at, got)
		}
		at += n
	}
}

// TestStructured: the second gate. What is replaced, what stays, and that the
// published schema allows it.
func TestStructured(t *testing.T) {
	object := func(v map[string]any) json.RawMessage { return marshal(t, v) }
	big := strings.Repeat("a line\n", 10_000)
	many := map[string]any{"count": 3}
	for i := range 400 {
		many[fmt.Sprintf("k%d", i)] = []any{strings.Repeat("y", 100)}
	}
	members := map[string]any{"count": 3}
	for i := range 20_000 {
		members[fmt.Sprintf("m%05d", i)] = i
	}
	numbers := make([]any, 20_000)
	for i := range numbers {
		numbers[i] = i
	}
	full := &shelf{err: errors.New("boom")}
	for name, c := range map[string]struct {
		in     json.RawMessage
		deaf   bool
		keeper budget.Keeper
		secret bool
		kept   int // artifacts
		stays  map[string]any
		gone   []string // members at the top that are no more
	}{
		"at the gate":    {in: object(map[string]any{"s": strings.Repeat("x", 32<<10-8)})},
		"over it":        {in: object(map[string]any{"s": strings.Repeat("x", 32<<10-7), "n": 1.5, "b": true, "z": nil}), kept: 1, stays: map[string]any{"n": 1.5, "b": true, "z": nil}},
		"the largest":    {in: object(map[string]any{"a": strings.Repeat("x", 20_000), "b": strings.Repeat("y", 30_000), "title": "t"}), kept: 1, stays: map[string]any{"title": "t", "a": strings.Repeat("x", 20_000)}},
		"deep":           {in: object(map[string]any{"list": []any{1, map[string]any{"text": big}, "end"}, "n": 1}), kept: 1, stays: map[string]any{"n": 1.0}},
		"an escape":      {in: object(map[string]any{`k"\`: strings.Repeat(`"\`, 20_000)}), kept: 1},
		"only spaces":    {in: json.RawMessage(`{` + strings.Repeat(" ", 40_000) + `"n":1}`), stays: map[string]any{"n": 1.0}},
		"too many":       {in: object(many), kept: 1, stays: map[string]any{"count": 3.0}, gone: []string{"k1"}},
		"many members":   {in: object(members), kept: 1, stays: map[string]any{"count": 3.0, "m00001": 1.0}, gone: []string{"m19999"}},
		"hidden forgery": {in: json.RawMessage(`{"w\u0061smtools_receipt":1,"s":"` + strings.Repeat("x", 40_000) + `","n":1}`), kept: 1, stays: map[string]any{"n": 1.0}, gone: []string{"s"}},
		"numbers":        {in: object(map[string]any{"list": numbers, "n": 7, "title": "t", "few": []any{1}}), kept: 1, stays: map[string]any{"n": 7.0, "title": "t", "few": []any{1.0}}},
		"a long name":    {in: object(map[string]any{strings.Repeat("k", 40_000): 1, "n": 7}), kept: 1, stays: map[string]any{"n": 7.0}},
		"a forged mark":  {in: object(map[string]any{budget.Key: map[string]any{"artifact": "x"}, "s": big, "n": 1}), kept: 1, stays: map[string]any{"n": 1.0}, gone: []string{"s"}},
		"a list":         {in: marshal(t, numbers), kept: 1},
		"no JSON":        {in: json.RawMessage(strings.Repeat("{", 40_000)), kept: 1},
		"a huge number":  {in: json.RawMessage(`{"n":` + strings.Repeat("9", 40_000) + `,"m":12345678901234567890.0}`), kept: 1},
		"no reader":      {in: object(map[string]any{"s": big, "n": 1}), deaf: true, kept: 1, stays: map[string]any{"n": 1.0}},
		"a broken store": {in: object(map[string]any{"s": big, "n": 1}), keeper: full, stays: map[string]any{"n": 1.0}},
		"sensitive":      {in: object(map[string]any{"s": big, "n": 1}), secret: true, stays: map[string]any{"n": 1.0}},
		"all sensitive":  {in: object(map[string]any{"list": numbers, "n": 1}), secret: true, stays: map[string]any{"n": 1.0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			call := budget.Call{Tool: "t", Arguments: json.RawMessage(`{"path":"p"}`), Readable: !c.deaf, Keeper: s}
			if c.keeper != nil {
				call.Keeper = c.keeper
			}
			before := string(c.in)
			r, err := budget.Bound(budget.Gate{}, call, tool.Result{Structured: c.in, Sensitive: c.secret, Content: []tool.Content{tool.Text("a line")}})
			if (err != nil) != (c.keeper != nil && errors.Unwrap(c.keeper.(*shelf).err) != nil) {
				t.Errorf("Bound says %v", err)
			}
			if string(c.in) != before {
				t.Fatal("the given text has changed")
			}
			got := r.Structured
			if len(got) > budget.Structured || !json.Valid(got) || !utf8.Valid(got) {
				t.Fatalf("%d bytes: %.300q", len(got), got)
			}
			var members map[string]any
			if err := json.Unmarshal(got, &members); err != nil {
				t.Fatal(err)
			}
			for k, v := range c.stays {
				if have, ok := members[k]; !ok || !reflect.DeepEqual(have, v) {
					t.Errorf("%s is %.100v; want %.100v", k, have, v)
				}
			}
			for _, k := range c.gone {
				if _, ok := members[k]; ok {
					t.Errorf("%s is still there", k)
				}
			}
			if len(s.texts) != c.kept {
				t.Errorf("%d artifacts; want %d", len(s.texts), c.kept)
			}
			cut := c.kept > 0 || c.secret || c.keeper != nil
			mark, marked := members[budget.Key].(map[string]any)
			if marked != cut || cut && (mark["tool"] != "t" || mark["source"] != `path "p"` || mark["read"] == "") {
				t.Fatalf("the mark is %v", mark)
			}
			for handle, text := range s.texts {
				if !strings.Contains(string(got), `"artifact":"artifact:`+handle+`","bytes":`+fmt.Sprint(len(text))) || !contains(c.in, text) {
					t.Errorf("%.600s does not tell of %s, or it is not what came", got, handle)
				}
			}
			if ends := strings.Contains(string(got), `"head":"`); ends != (cut && len(s.texts) == 0 || c.deaf) {
				t.Errorf("ends are shown: %v: %.600s", ends, got)
			}
			if d := string(got); len(s.texts) == 0 && cut && !strings.Contains(d, `"not_kept":"`) {
				t.Errorf("it does not say why nothing is kept: %.600s", d)
			}
		})
	}
}

// contains reports whether text is the JSON itself, or a string in it.
func contains(in json.RawMessage, text string) bool {
	if text != "" && bytes.Contains(in, []byte(text)) { // all of it, or a value that is no string
		return true
	}
	var v any
	if json.Unmarshal(in, &v) != nil {
		return false
	}
	return holds(v, text)
}

func holds(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case map[string]any:
		for _, x := range v {
			if holds(x, text) {
				return true
			}
		}
	case []any:
		for _, x := range v {
			if holds(x, text) {
				return true
			}
		}
	}
	return false
}

// TestDetails: details are bounded as structured content is, with room for what
// becomes of the text.
func TestDetails(t *testing.T) {
	big := strings.Repeat("+ a line\n", 5_000)
	for name, d := range map[string]map[string]any{
		"a text": {"diff": big, "n": 1}, "deep": {"a": map[string]any{"b": []any{big}}, "n": 1}, "raw": {"r": json.RawMessage(`{"x":"` + strings.Repeat("y", 40_000) + `"}`), "n": 1},
		"strings": {"list": strings.Fields(big), "n": 1}, "a type": {"v": struct{ Text string }{big}, "n": 1}, "just over": {"s": strings.Repeat("x", 32_250), "n": 1},
	} {
		before := string(marshal(t, d))
		s := &shelf{}
		r, err := budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: s}, tool.Result{Content: []tool.Content{tool.Text(strings.Repeat("x", 70_000))}, Details: d})
		if err != nil {
			t.Fatal(err)
		}
		p := marshal(t, r.Details)
		var got map[string]any
		if err := json.Unmarshal(p, &got); err != nil || len(p) > budget.Structured {
			t.Errorf("%s: %d bytes, %v", name, len(p), err)
		}
		if got["n"] != 1.0 || got["archived"] == nil || len(s.texts) != 2 || got[budget.Key] == nil {
			t.Errorf("%s: %.500s, %d artifacts", name, p, len(s.texts))
		}
		if string(marshal(t, d)) != before {
			t.Errorf("%s: what was given has changed", name)
		}
	}
	small := map[string]any{"s": strings.Repeat("x", 32_000), "u": []any{nil, true, int64(5), 1.5}}
	r, _ := budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: &shelf{}}, tool.Result{Details: small})
	if !reflect.DeepEqual(r.Details, small) {
		t.Errorf("small details have changed")
	}
	odd := map[string]any{"f": func() {}, "s": big} // the surface says that it cannot be encoded
	if r, err := budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: &shelf{}}, tool.Result{Details: odd}); err != nil || len(r.Details) != 2 {
		t.Errorf("details that are no JSON: %v, %v", r.Details, err)
	}
}

// TestGates: which gate counts for which tool, and that a surface only lowers.
func TestGates(t *testing.T) {
	g := budget.Gates{Gate: budget.Gate{Text: 100_000}, Tools: map[string]budget.Gate{"grep": {Text: 33_000}, "a_*": {Text: 34_000}, "a_b*": {Text: 40_000}, "*_c": {Text: 50_000}, "[": {Text: 60_000}, "low": {Text: 1, Structured: -5}, "high": {Structured: 1 << 30}}}
	for name, want := range map[string]budget.Gate{
		"other": {Text: 100_000, Structured: 32 << 10}, "grep": {Text: 33_000, Structured: 32 << 10},
		"a_x": {Text: 34_000, Structured: 32 << 10}, "a_bx": {Text: 40_000, Structured: 32 << 10}, "x_c": {Text: 50_000, Structured: 32 << 10}, "a_c": {Text: 34_000, Structured: 32 << 10},
		"low": {Text: budget.LeastText, Structured: 32 << 10}, "high": {Text: 100_000, Structured: budget.Most},
	} {
		if got := g.For(name); got != want {
			t.Errorf("For(%s) = %v; want %v", name, got, want)
		}
	}
	for _, c := range []struct{ g, most, want budget.Gate }{
		{budget.Gate{}, budget.Gate{}, budget.Gate{Text: 64 << 10, Structured: 32 << 10}},
		{budget.Gate{}, budget.Gate{Text: 40_000, Structured: 1 << 20}, budget.Gate{Text: 40_000, Structured: 32 << 10}},
		{budget.Gate{Text: 33_000}, budget.Gate{Text: 40_000}, budget.Gate{Text: 33_000, Structured: 32 << 10}},
		{budget.Gate{}, budget.Gate{Text: 1, Structured: 1}, budget.Gate{Text: budget.LeastText, Structured: budget.LeastStructured}},
	} {
		if got := c.g.Under(c.most); got != c.want {
			t.Errorf("%v.Under(%v) = %v; want %v", c.g, c.most, got, c.want)
		}
	}
}

// TestReceiptsKeepToTheirRoom: the longest receipts there can be are within the
// room that was kept for them, so that the least gate holds always.
func TestReceiptsKeepToTheirRoom(t *testing.T) {
	args := json.RawMessage(`{"query":"` + strings.Repeat(`\"\\`, 100) + `x"}`)
	name := strings.Repeat("n", 64)
	parts := map[string]any{}
	for i := range 10 {
		parts[fmt.Sprint("k", i)] = strings.Repeat("\x01\"", 3000)
	}
	most := map[string]any{}
	for i := range 16 {
		most[fmt.Sprint("k", i)] = strings.Repeat("x\"", 2000)
	}
	for _, deaf := range []bool{false, true} {
		for _, in := range []any{parts, most, map[string]any{"list": strings.Fields(strings.Repeat("\x01 ", 9000))}, map[string]any{"s": strings.Repeat("\x01", 40_000)}} {
			for _, keeper := range []*shelf{{edge: true}, {err: tool.Errorf(tool.Quota, "%s", strings.Repeat("\x01", 400))}} {
				r, _ := budget.Bound(budget.Gate{Text: 1, Structured: 1}, budget.Call{Tool: name, Arguments: args, Readable: !deaf, Keeper: keeper},
					tool.Result{Structured: marshal(t, in), IsError: true, Code: tool.ApprovalMismatch, Content: []tool.Content{tool.Text(strings.Repeat("\x01", 300_000))}})
				if n := shownText(t, r.Content); n > budget.LeastText || len(r.Structured) > budget.LeastStructured {
					t.Errorf("deaf %v, %v: %d bytes of text, %d structured", deaf, keeper.err, n, len(r.Structured))
				}
			}
		}
	}
}

// TestStructuredToTheByte: whatever is left beside a receipt, the whole is within
// the gate.
func TestStructuredToTheByte(t *testing.T) {
	parts, wholes := 0, 0
	for rest := 28_000; rest < budget.Structured+600; rest += 61 {
		for _, more := range []map[string]any{{}, {"s2": strings.Repeat("y", 700)}} {
			more["s"], more["rest"] = strings.Repeat("x", 40_000), strings.Split(strings.Repeat("z", rest/4), "")
			r, _ := budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: &shelf{}}, tool.Result{Structured: marshal(t, more)})
			if len(r.Structured) > budget.Structured || !json.Valid(r.Structured) {
				t.Fatalf("%d bytes beside the string give %d", rest, len(r.Structured))
			}
			if bytes.Contains(r.Structured, []byte(`"rest":[`)) {
				parts++
			} else {
				wholes++
			}
		}
	}
	if parts == 0 || wholes == 0 {
		t.Errorf("%d results kept their rest, %d did not: the test looks at one side only", parts, wholes)
	}
}

// TestAdmit: under the published schema both the result as it was and the one
// with receipts are valid, and another is not. References stay good.
func TestAdmit(t *testing.T) {
	full := strings.Repeat("long\n", 10_000)
	for name, c := range map[string]struct{ schema, good, bad string }{
		"closed":      {`{"type":"object","properties":{"s":{"type":"string"}},"required":["s"],"additionalProperties":false}`, `{"s":%q}`, `{"s":1}`},
		"a reference": {`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"enum":{"$ref":"#/$defs/t"}},"required":["enum"],"$defs":{"t":{"type":"string"}}}`, `{"enum":%q}`, `{"enum":1}`},
		"recursive":   {`{"type":"object","properties":{"s":{"type":"string"},"sub":{"$ref":"#"}},"required":["s"]}`, `{"s":%q,"sub":{"s":"x"}}`, `{"s":"x","sub":{}}`},
		"own root":    {`{"$id":"https://a.test/s","type":"object","properties":{"s":{"$ref":"#/$defs/t"}},"required":["s"],"$defs":{"t":{"type":"string"}}}`, `{"s":%q}`, `{"s":1}`},
		"a value":     {`{"type":"object","properties":{"s":{"type":"string"},"v":{"const":{"$ref":"#/x"}}},"required":["s","v"]}`, `{"s":%q,"v":{"$ref":"#/x"}}`, `{"s":"x","v":{"$ref":"#/anyOf/0/x"}}`},
		"a figure":    {`{"type":"object","properties":{"s":{"type":"string"},"n":{"const":9007199254740993}},"required":["s","n"]}`, `{"s":%q,"n":9007199254740993}`, `{"s":1}`},
	} {
		admitted := budget.Admit(json.RawMessage(c.schema))
		if name == "a figure" && !bytes.Contains(admitted, []byte("9007199254740993")) {
			t.Errorf("%s: %s", name, admitted)
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(admitted, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Type != "object" {
			t.Errorf("%s: the type is %q", name, s.Type)
		}
		check, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, admitted)
		}
		r, err := budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: &shelf{}}, tool.Result{Structured: fmt.Appendf(nil, c.good, full)})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(r.Structured, []byte(budget.Key)) {
			t.Fatalf("%s: nothing was replaced", name)
		}
		for _, good := range []string{fmt.Sprintf(c.good, "short"), string(r.Structured)} {
			if err := check.Validate(value(t, good)); err != nil {
				t.Errorf("%s: %.300s is refused: %v", name, good, err)
			}
		}
		if err := check.Validate(value(t, c.bad)); err == nil {
			t.Errorf("%s: %s is allowed", name, c.bad)
		}
	}
	for _, odd := range []string{``, `true`, `[]`, `{`, `null`, `{} {}`, `"x"`} {
		if got := budget.Admit(json.RawMessage(odd)); string(got) != odd {
			t.Errorf("Admit(%s) = %s", odd, got)
		}
	}
	if budget.Admit(nil) != nil {
		t.Errorf("Admit(nil) is not nil")
	}
}

func value(t testing.TB, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCompact: when old results are replaced, and which.
func TestCompact(t *testing.T) {
	const kib = 1 << 10
	past := func(n int) budget.Past { return budget.Past{Tool: "t", Text: strings.Repeat("x", n)} }
	rounds := func(old ...budget.Past) []budget.Round {
		r := []budget.Round{{Results: old}}
		for range budget.RecentRounds {
			r = append(r, budget.Round{Results: []budget.Past{past(1)}})
		}
		return r
	}
	control, secret := past(400*kib), past(400*kib)
	control.Control, secret.Sensitive = true, true
	recent := rounds(past(kib))
	recent[1].Results[0] = past(900 * kib)
	for name, c := range map[string]struct {
		rounds []budget.Round
		want   string
	}{
		"nothing":            {nil, ""},
		"few":                {rounds(past(100*kib), past(100*kib)), ""},
		"at the watermark":   {rounds(past(256*kib - budget.RecentRounds)), ""},
		"saves too little":   {rounds(past(258*kib - 1)), ""},
		"saves enough":       {rounds(past(258 * kib)), "0/0"},
		"several":            {rounds(past(200*kib), past(2*kib-1), past(2*kib), past(200*kib)), "0/0 0/2 0/3"},
		"recent ones":        {recent, ""},
		"control":            {rounds(control), ""},
		"sensitive":          {rounds(secret), ""},
		"beside control":     {rounds(control, past(300*kib), secret), "0/1"},
		"few rounds":         {rounds(past(900 * kib))[:budget.RecentRounds], ""},
		"line ends count":    {rounds(budget.Past{Tool: "t", Text: strings.Repeat("\n", 129*kib)}), "0/0"},
		"line ends too few":  {rounds(budget.Past{Tool: "t", Text: strings.Repeat("\n", 129*kib-1)}), ""},
		"an error is a text": {rounds(budget.Past{Tool: "t", Text: strings.Repeat("x", 300*kib), IsError: true, Code: tool.Trap}), "0/0"},
	} {
		s := &shelf{}
		changes, err := budget.Compact(c.rounds, s)
		var got []string
		saved := 0
		for _, ch := range changes {
			got = append(got, fmt.Sprintf("%d/%d", ch.Round, ch.Result))
			was := c.rounds[ch.Round].Results[ch.Result]
			saved += len(marshal(t, was.Text)) - len(marshal(t, ch.Receipt))
			if s.texts[ch.Kept.Handle] != was.Text || !strings.Contains(ch.Receipt, "artifact: artifact:"+ch.Kept.Handle+"\n") || was.IsError != strings.Contains(ch.Receipt, "result: error trap") {
				t.Errorf("%s: the receipt is %s", name, ch.Receipt)
			}
		}
		if strings.Join(got, " ") != c.want || err != nil || len(s.texts) != len(changes) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
		if len(changes) > 0 && saved < budget.LeastSaved {
			t.Errorf("%s: %d bytes are saved", name, saved)
		}
	}
	if changes, err := budget.Compact(rounds(past(300*kib)), &shelf{err: errors.New("boom")}); len(changes) != 0 || err == nil {
		t.Errorf("a broken store: %v, %v", changes, err)
	}
}

// FuzzBound: whatever a tool answers, what is shown is within the gates, JSON and
// UTF-8, and what was kept is what came.
func FuzzBound(f *testing.F) {
	for i := range uint64(8) {
		f.Add("text \x00\xff \"é\u2028\n", `{"a":"b","c":[1,{"d":"e"}]}`, i, uint16(i*9000), uint8(i))
	}
	f.Fuzz(func(t *testing.T, text, structured string, seed uint64, times uint16, flags uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		if len(text) > 0 {
			text = strings.Repeat(text, min(int(times), 1<<17/len(text)))
		}
		r := tool.Result{Sensitive: flags&1 != 0, Details: map[string]any{"t": text, "n": 1}}
		for n := 0; n < len(text); {
			to := min(len(text), n+1+rnd.IntN(len(text)))
			r.Content = append(r.Content, tool.Text(text[n:to]), tool.Content{Kind: tool.KindAudio, Data: []byte{1}})
			n = to
		}
		if json.Valid([]byte(structured)) {
			r.Structured = marshal(t, map[string]any{"v": json.RawMessage(structured), "text": text, "list": []any{text[:len(text)/2], 1, text}, "n": 5})
		}
		if flags&2 != 0 {
			r.IsError, r.Code = true, tool.Internal
		}
		s := &shelf{edge: flags&4 != 0}
		if flags&8 != 0 {
			s.err = tool.Errorf(tool.Quota, "full")
		}
		g := budget.Gate{Text: rnd.IntN(80_000), Structured: rnd.IntN(40_000)}
		c := budget.Call{Tool: "t", Arguments: json.RawMessage(structured), Readable: flags&16 == 0, Keeper: s}
		was := r.PlainText()
		got, _ := budget.Bound(g, c, r)
		g = budget.Gates{Gate: g}.For("t")
		limit := g.Text
		if !c.Readable {
			limit = budget.Unread
		}
		if n := shownText(t, got.Content); n > limit {
			t.Errorf("%d bytes of text; the gate is %d", n, limit)
		}
		if len(got.Structured) > g.Structured || r.Structured != nil && !json.Valid(got.Structured) {
			t.Errorf("%d bytes of %.200q; the gate is %d", len(got.Structured), got.Structured, g.Structured)
		}
		if p := marshal(t, got.Details); len(p) > g.Structured {
			t.Errorf("%d bytes of details; the gate is %d", len(p), g.Structured)
		}
		if got.PlainText() != was && !utf8.ValidString(got.PlainText()) {
			t.Errorf("what is shown is not UTF-8")
		}
		media := 0
		for _, b := range got.Content {
			if b.Kind == tool.KindAudio {
				media++
			}
		}
		for _, b := range r.Content {
			if b.Kind == tool.KindAudio {
				media--
			}
		}
		if media != 0 {
			t.Errorf("%d other blocks are too many", media)
		}
		details := marshal(t, r.Details)
		for _, kept := range s.texts {
			if kept != was && !contains(r.Structured, kept) && !contains(details, kept) {
				t.Errorf("what was kept is not what came: %.100q", kept)
			}
		}
		if len(s.texts) > 0 && (r.Sensitive || s.err != nil) {
			t.Errorf("a sensitive result was kept")
		}
		if got.PlainText() != was && c.Readable && s.err == nil && !r.Sensitive {
			found := false
			for _, kept := range s.texts {
				found = found || kept == was
			}
			if !found {
				t.Errorf("a text was replaced and is kept nowhere")
			}
		}
	})
}

func BenchmarkBound(b *testing.B) {
	for name, r := range map[string]tool.Result{
		"small": {Content: []tool.Content{tool.Text(strings.Repeat("a line of text\n", 100))}, Structured: json.RawMessage(`{"n":1}`), Details: map[string]any{"path": "a", "n": 1}},
		"2MiB":  tool.TextResult(strings.Repeat("a line of text\n", 2<<20/15)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: discard{}}, r)
			}
		})
	}
}

type discard struct{}

func (discard) Keep(tool.ArtifactInfo, string) (budget.Kept, error) {
	return budget.Kept{ArtifactRef: tool.ArtifactRef{Handle: strings.Repeat("a", 26)}}, nil
}

func BenchmarkAdmit(b *testing.B) {
	schema := json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"},"steps":{"type":"integer"},"log":{"$ref":"#/$defs/t"}},"required":["ok","steps","log"],"additionalProperties":false,"$defs":{"t":{"type":"string"}}}`)
	b.ReportAllocs()
	for b.Loop() {
		budget.Admit(schema)
	}
}

func BenchmarkStructured(b *testing.B) {
	structured := marshal(b, map[string]any{"ok": true, "steps": 5, "log": strings.Repeat("a line of text\n", 2<<20/15)})
	b.ReportAllocs()
	for b.Loop() {
		_, _ = budget.Bound(budget.Gate{}, budget.Call{Tool: "t", Readable: true, Keeper: discard{}}, tool.Result{Structured: structured})
	}
}
