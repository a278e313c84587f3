package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/host"
	"github.com/wasmtools/wasmtools/tool"
)

// program is an embedding program.
type program struct{ notes map[string]string }

func (p program) Start(_ context.Context, t host.Task) (string, error) {
	if t.Agent == "long" {
		return strings.Repeat("x", 2<<20), nil
	}
	if t.Agent == "none" {
		return "", errors.New("there is no such agent")
	}
	return "t1", nil
}
func (p program) Append(context.Context, string, string) error { return nil }
func (p program) Query(_ context.Context, id string) ([]host.TaskState, error) {
	return []host.TaskState{{ID: "t1", Title: "look", State: "running"}}, nil
}
func (p program) Output(_ context.Context, id string) (string, error) {
	return strings.Repeat("x", 2<<20), nil
}
func (p program) Stop(_ context.Context, id string) error {
	return tool.Errorf(tool.NotFound, "no task %s", id)
}
func (p program) Read(_ context.Context, key string) (string, error) { return p.notes[key], nil }
func (p program) Write(_ context.Context, key, text string) error {
	p.notes[key] = text
	return nil
}
func (program) Enter(context.Context) (string, error)                  { return "asked", nil }
func (program) Exit(context.Context, string) (string, error)           { return "handed in", nil }
func (program) Create(context.Context, string) (string, error)         { return "set", nil }
func (program) Update(context.Context, string, string) (string, error) { return "noted", nil }
func (program) Get(context.Context) (string, error)                    { panic("gone mad") }

func ask(_ context.Context, q host.Question) (host.Answer, error) {
	switch q.Text {
	case "nothing":
		return host.Answer{Declined: true}, nil
	case "panic":
		panic("gone mad")
	case "hang":
		select {} // whatever the context says
	}
	return host.Answer{Chosen: q.Options[:1], Text: "and more"}, nil
}

func all() host.Adapters {
	p := program{map[string]string{"": "a\n", "a": "note"}}
	return host.Adapters{AskUser: ask, Tasks: p, Memory: p, AskTimeout: 200 * time.Millisecond,
		RequestFeature: func(_ context.Context, f, why string) (string, error) { return "no", nil }}
}

func names(s catalog.Source) string {
	var l []string
	for _, e := range s.Snapshot().Tools {
		l = append(l, e.Tool.Definition().Name)
	}
	return strings.Join(l, " ")
}

// TestOnlyWhatIsGiven: a tool exists only with its adapter.
func TestOnlyWhatIsGiven(t *testing.T) {
	if got := names(host.Source(host.Adapters{})); got != "" {
		t.Errorf("without adapters: %s", got)
	}
	if got := names(host.Source(host.Adapters{AskUser: ask})); got != "ask_user" {
		t.Errorf("%s", got)
	}
	if got := names(host.Source(all())); got != "ask_user task task_append task_query task_output task_stop memory request_feature_enable" {
		t.Errorf("%s", got)
	}
}

// TestCalls: every tool has a portable schema, and every outcome of an adapter is
// a coded, bounded result.
func TestCalls(t *testing.T) {
	tools := map[string]tool.Tool{}
	var list []tool.Tool
	for _, e := range host.Source(all()).Snapshot().Tools {
		list = append(list, e.Tool)
	}
	p := program{}
	list = append(append(append(list, host.PlanMode(p, false)...), host.PlanMode(p, true)...), host.GoalTools(p)...)
	for _, x := range list {
		d := x.Definition()
		tools[d.Name] = x
		var s jsonschema.Schema
		if err := json.Unmarshal(d.Input, &s); err != nil || s.Type != "object" || len(s.Properties) > 12 || s.AnyOf != nil || d.Description == "" {
			t.Errorf("%s: %v, the schema %s", d.Name, err, d.Input)
		}
	}
	for i, c := range []struct {
		tool, args string
		code       tool.Code
		text       string
	}{
		{"ask_user", `{"question":"which?","options":["one","two"]}`, "", "The user answered: one\nand more"},
		{"ask_user", `{"question":" "}`, tool.InvalidArguments, "empty"},
		{"ask_user", `{"question":"nothing"}`, tool.Denied, "did not answer"},
		{"ask_user", `{"question":"panic"}`, tool.Internal, "gone mad"},
		{"ask_user", `{"question":"hang"}`, tool.Timeout, "200ms"},
		{"task", `{"title":"look","prompt":"look around"}`, "", "t1"},
		{"task", `{"title":"look","prompt":"x","agent":"none"}`, tool.Internal, "no such agent"},
		{"task", `{"title":"look","prompt":"x","agent":"long"}`, tool.TooLarge, "over the limit"},
		{"task_append", `{"id":"t1","text":"x"}`, "", "told"},
		{"task_query", `{}`, "", "t1  running  look"},
		{"task_output", `{"id":"t1"}`, "", "xxx"},
		{"task_stop", `{"id":"t9"}`, tool.NotFound, "t9"},
		{"memory", `{"op":"list"}`, "", "a\n"},
		{"memory", `{"op":"read","key":"a"}`, "", "note"},
		{"memory", `{"op":"read"}`, tool.InvalidArguments, "key"},
		{"memory", `{"op":"write","key":"b","text":"x"}`, "", "done"},
		{"memory", `{"op":"forget","key":"b"}`, "", "done"},
		{"request_feature_enable", `{"feature":"x","why":"y"}`, "", "no"},
		{"EnterPlanMode", `{}`, "", "asked"},
		{"ExitPlanMode", `{"plan":"## Summary"}`, "", "handed in"},
		{"ExitPlanMode", `{"plan":""}`, tool.InvalidArguments, "empty"},
		{"create_goal", `{"objective":"x"}`, "", "set"},
		{"update_goal", `{"status":"complete","reason":"x"}`, "", "noted"},
		{"get_goal", `{}`, tool.Internal, "gone mad"},
		{"task", `7`, tool.InvalidArguments, "read"},
	} {
		r, err := tools[c.tool].Call(t.Context(), tool.Invocation{Arguments: json.RawMessage(c.args)}, tool.Discard{})
		if err != nil || r.Code != c.code || r.IsError != (c.code != "") || !strings.Contains(r.PlainText(), c.text) {
			t.Errorf("%d: %s %s: %v %s %.200q, want %s with %q", i, c.tool, c.args, err, r.Code, r.PlainText(), c.code, c.text)
		}
		if n := len(r.PlainText()); n > 1<<20+16 {
			t.Errorf("%d: %d bytes", i, n)
		}
		if r.Structured != nil && !json.Valid(r.Structured) {
			t.Errorf("%d: %s", i, r.Structured)
		}
	}
	// An adapter that never comes back costs a bounded number of goroutines.
	busy := 0
	quick := host.Source(host.Adapters{AskUser: ask, AskTimeout: time.Microsecond}).Snapshot().Tools[0].Tool
	for range 100 {
		if r, _ := quick.Call(t.Context(), tool.Invocation{Arguments: json.RawMessage(`{"question":"hang"}`)}, tool.Discard{}); r.Code == tool.Busy {
			busy++
		}
	}
	if busy != 36 {
		t.Errorf("%d of 100 calls of an adapter that hangs are refused, want 36", busy)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, _ := tools["ask_user"].Call(ctx, tool.Invocation{Arguments: json.RawMessage(`{"question":"hang"}`)}, tool.Discard{}); r.Code != tool.Cancelled {
		t.Errorf("%s", r.Code)
	}
}

// Example shows a program that lets its models ask its person.
func Example() {
	s := host.Source(host.Adapters{AskUser: func(_ context.Context, q host.Question) (host.Answer, error) {
		fmt.Println("a window shows:", q.Text)
		return host.Answer{Text: "the second one"}, nil
	}})
	t := s.Snapshot().Tools[0].Tool
	r, _ := t.Call(context.Background(), tool.Invocation{Arguments: []byte(`{"question":"Which of them?"}`)}, tool.Discard{})
	fmt.Println(r.PlainText())
	// Output:
	// a window shows: Which of them?
	// The user answered: the second one
}
