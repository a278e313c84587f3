package todo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/catalog/todo"
	"github.com/wasmtools/wasmtools/tool"
)

func TestList(t *testing.T) {
	td := todo.New()
	call := func(session, args string) tool.Result {
		t.Helper()
		r, err := td.Call(t.Context(), tool.Invocation{Session: session, Arguments: json.RawMessage(args)}, tool.Discard{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	item := func(status string) string { return fmt.Sprintf(`{"content":"do <it>","status":%q}`, status) }
	r := call("s", `{"todos":[`+item("completed")+`,`+item("in_progress")+`,`+item("pending")+`,`+item("cancelled")+`]}`)
	if want := "[x] do <it>\n[>] do <it>\n[ ] do <it>\n[-] do <it>\n[2 of 4 open]\n"; r.IsError || r.PlainText() != want {
		t.Errorf("%q", r.PlainText())
	}
	var s jsonschema.Schema
	var v any
	if err := json.Unmarshal(td.Definition().Output, &s); err != nil {
		t.Fatal(err)
	}
	res, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.Structured, &v); err != nil || res.Validate(v) != nil {
		t.Errorf("%s: %v", r.Structured, res.Validate(v))
	}
	for _, bad := range []string{
		`{"todos":[` + item("in_progress") + `,` + item("in_progress") + `]}`, `{"todos":[` + item("done") + `]}`, `{"todos":[{"content":"","status":"pending"}]}`,
		`{"todos":[{"content":"` + strings.Repeat("x", 501) + `","status":"pending"}]}`, `{"todos":[` + strings.Repeat(item("pending")+",", 100) + item("pending") + `]}`, `7`,
	} {
		if r := call("s", bad); r.Code != tool.InvalidArguments {
			t.Errorf("%.60s: %s", bad, r.Code)
		}
	}
	if l := td.List("s"); len(l) != 4 { // what was refused changed nothing
		t.Errorf("%v", l)
	}
	if l := td.List("other"); l != nil {
		t.Errorf("another session sees %v", l)
	}
	call("s", `{"todos":[]}`)
	if l := td.List("s"); len(l) != 0 {
		t.Errorf("%v", l)
	}
	for i := range 1100 { // sessions come and go
		call(fmt.Sprint("s", i), `{"todos":[`+item("pending")+`]}`)
	}
	if td.List("s0") != nil || td.List("s1099") == nil {
		t.Error("old sessions are kept, or new ones are not")
	}
}
