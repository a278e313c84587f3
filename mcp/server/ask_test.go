package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

// curious is a backend whose one tool asks.
type curious struct{ q Question }

func (curious) Tools() []tool.Definition {
	return []tool.Definition{{Name: "ask", Description: "asks", Input: json.RawMessage(`{"type":"object"}`)}}
}

func (c curious) Call(ctx context.Context, call Call, _ tool.Sink) tool.Result {
	r, err := call.Ask(ctx, c.q)
	if errors.Is(err, ErrCannotAsk) {
		return tool.TextResult("cannot")
	}
	if err != nil {
		return tool.TextResult("failed")
	}
	return tool.TextResult(fmt.Sprintf("%q %q %v", r.Chosen, r.Text, r.Declined))
}

// TestAsk: a client that shows forms is asked a model's question, marked as that;
// what does not fit the form is not taken.
func TestAsk(t *testing.T) {
	q := Question{Text: "which\x1b[2J\none?", Options: []string{"a", "b\x07"}}
	for name, c := range map[string]struct {
		era    string
		answer *mcpsdk.ElicitResult
		err    error
		want   string
	}{
		"chosen":    {"2025-11-25", &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{chosenKey: "a"}}, nil, `["a"] "" false`},
		"escaped":   {"2025-11-25", &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{chosenKey: `"b\a"`}}, nil, `["b\a"] "" false`},
		"in words":  {"2025-06-18", &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{wordsKey: " mine "}}, nil, `[] "mine" false`},
		"nothing":   {"2025-11-25", &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil, `[] "" true`},
		"declined":  {"2025-11-25", &mcpsdk.ElicitResult{Action: "decline"}, nil, `[] "" true`},
		"fails":     {"2025-11-25", nil, errors.New("no window"), "failed"},
		"newer era": {"2026-07-28", &mcpsdk.ElicitResult{Action: "accept", Content: map[string]any{chosenKey: "a"}}, nil, "cannot"},
	} {
		t.Run(name, func(t *testing.T) {
			cs, end := dial(t, curious{q}, c.era, elicits(func(_ context.Context, r *mcpsdk.ElicitRequest) (*mcpsdk.ElicitResult, error) {
				if m := r.Params.Message; !strings.Contains(m, "The model asks you") || strings.ContainsRune(m, 0x1b) {
					t.Errorf("asked %q", m)
				}
				return c.answer, c.err
			}))
			defer end()
			r, err := cs.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: "ask"})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Content[0].(*mcpsdk.TextContent).Text; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	t.Run("no forms", func(t *testing.T) {
		cs, end := dial(t, curious{q}, "2025-11-25", nil)
		defer end()
		r, err := cs.CallTool(t.Context(), &mcpsdk.CallToolParams{Name: "ask"})
		if err != nil || r.Content[0].(*mcpsdk.TextContent).Text != "cannot" {
			t.Errorf("%v %+v", err, r)
		}
	})
	many := Question{Options: []string{"a", "b"}, Multiple: true}
	if r := many.reply(map[string]any{chosenKey: []any{"b", "b", "z", 7}}); len(r.Chosen) != 1 || r.Chosen[0] != "b" {
		t.Errorf("%+v", r)
	}
	if r := q.reply(map[string]any{chosenKey: "not offered"}); !r.Declined {
		t.Errorf("%+v", r)
	}
}
