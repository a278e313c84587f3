// Package todo is the tool todowrite: the list of what a session means to do. A
// model writes the whole list each time; it is kept in memory, per session, and
// shown.
package todo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/wasmtools/wasmtools/tool"
)

// Bounds on a list, and on how many sessions have one.
const (
	maxItems    = 100
	maxText     = 500 // characters
	maxSessions = 1000
)

// Item is one thing to do.
type Item struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed, cancelled
}

// Tool is todowrite. It is safe for concurrent use.
type Tool struct {
	mu    sync.Mutex
	lists map[string][]Item
	order []string // sessions, the oldest first
}

// New makes the tool.
func New() *Tool { return &Tool{lists: map[string][]Item{}} }

var definition = tool.Definition{
	Name:  "todowrite",
	Title: "Keep a list of what to do",
	Description: "Keep the list of what this session means to do: give the whole list, in its order, each time something changes. " +
		"Use it for work of several steps, and have at most one item in_progress. The answer shows the list; nothing else happens.",
	Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["todos"],"properties":{"todos":{"type":"array","maxItems":100,"description":"The whole list; [] empties it.",` +
		`"items":{"type":"object","additionalProperties":false,"required":["content","status"],"properties":{` +
		`"content":{"type":"string","minLength":1,"maxLength":500,"description":"What is to be done."},` +
		`"status":{"type":"string","enum":["pending","in_progress","completed","cancelled"]}}}}}}`),
	Output: json.RawMessage(`{"type":"object","required":["todos","open"],"properties":{"todos":{"type":"array","items":{"type":"object","required":["content","status"],"properties":{` +
		`"content":{"type":"string"},"status":{"type":"string"}}}},"open":{"type":"integer"}}}`),
	Mode: tool.Sequential,
}

// Definition implements [tool.Tool].
func (*Tool) Definition() tool.Definition { return definition }

// Origin implements [tool.Tool].
func (*Tool) Origin() tool.Origin { return tool.Origin{Source: tool.Native, Name: "todo"} }

var marks = map[string]string{"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}

// Call implements [tool.Tool].
func (t *Tool) Call(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
	var a struct {
		Todos []Item `json:"todos"`
	}
	if err := json.Unmarshal(inv.Arguments, &a); err != nil {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "the list cannot be read: %v", err)), nil
	}
	if len(a.Todos) > maxItems {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "the list has %d items; at most %d are kept", len(a.Todos), maxItems).WithNext("join small steps")), nil
	}
	working, open := 0, 0
	for i, x := range a.Todos {
		if marks[x.Status] == "" || x.Content == "" || len([]rune(x.Content)) > maxText {
			return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "item %d has no known status, or a text of no or more than %d characters", i+1, maxText)), nil
		}
		switch x.Status {
		case "in_progress":
			working++
			open++
		case "pending":
			open++
		}
	}
	if working > 1 {
		return tool.ErrorResult(tool.Errorf(tool.InvalidArguments, "%d items are in_progress", working).WithNext("have one in_progress at a time; the list is as it was before")), nil
	}
	t.keep(inv.Session, a.Todos)

	var text strings.Builder
	for _, x := range a.Todos {
		fmt.Fprintf(&text, "%s %s\n", marks[x.Status], strings.ReplaceAll(x.Content, "\n", " "))
	}
	fmt.Fprintf(&text, "[%d of %d open]\n", open, len(a.Todos))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(struct {
		Todos []Item `json:"todos"`
		Open  int    `json:"open"`
	}{append([]Item{}, a.Todos...), open}); err != nil {
		return tool.Result{}, err
	}
	r := tool.TextResult(text.String())
	r.Structured = bytes.TrimSpace(b.Bytes())
	return r, nil
}

func (t *Tool) keep(session string, list []Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.lists[session]; !known {
		if len(t.order) == maxSessions {
			delete(t.lists, t.order[0])
			t.order = t.order[1:]
		}
		t.order = append(t.order, session)
	}
	t.lists[session] = list
}

// List is what a session means to do, for a program that shows it to a person.
func (t *Tool) List(session string) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Item(nil), t.lists[session]...)
}
