package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wasmtools/wasmtools/tool"
)

// Question is what a model asks the person behind a client.
type Question struct {
	Text     string
	Options  []string // to choose from; empty: an answer in words
	Multiple bool
}

// Reply is what the person said.
type Reply struct {
	Chosen   []string // of the options
	Text     string
	Declined bool // nothing was said, for whatever reason
}

// ErrCannotAsk means that this client shows its person no questions.
var ErrCannotAsk = errors.New("this client cannot show its user a question")

// Keys of the form.
const (
	chosenKey = "choice"
	wordsKey  = "answer"
)

// ask shows a form with a model's question. A client of 2026-07-28 would have to
// make the whole call again for it, so it is not asked.
func (a *asker) ask(ctx context.Context, q Question) (Reply, error) {
	ip := a.ss.InitializeParams()
	off := a.s.opts.Elicitation != nil && a.s.opts.Elicitation() == ElicitOff
	if off || a.r.modern || ip == nil || ip.ProtocolVersion >= "2026-07-28" || ip.Capabilities == nil || !takesForms(ip.Capabilities.Elicitation) {
		return Reply{}, ErrCannotAsk
	}
	a.leave()
	if a.p != nil {
		asking, done := context.WithCancel(ctx)
		defer done()
		go a.nudge(asking)
	}
	res, err := a.ss.Elicit(ctx, &mcpsdk.ElicitParams{Mode: "form", Message: modelQuestion(q), RequestedSchema: q.form()})
	switch {
	case err != nil && ctx.Err() != nil:
		return Reply{}, ctx.Err()
	case err != nil:
		return Reply{}, fmt.Errorf("the client failed to ask: %s", tool.QuotePath(clip(err.Error(), 200)))
	case res.Action != "accept":
		return Reply{Declined: true}, nil
	}
	return q.reply(res.Content), nil
}

// modelQuestion is the text of the form. It is a model's, and says so: nothing is
// allowed by answering.
func modelQuestion(q Question) string {
	var b strings.Builder
	b.WriteString("The model asks you, in its own words (your answer allows nothing; do not give passwords):\n\n")
	lines := strings.Split(clip(q.Text, maxQuestionText), "\n")
	for _, l := range lines[:min(len(lines), maxQuestionLines)] {
		b.WriteString("> " + shownText(clip(l, maxQuestionLine)) + "\n")
	}
	if len(lines) > maxQuestionLines {
		b.WriteString("> [...]\n")
	}
	return b.String()
}

// form is the schema of the answer, in the few forms that clients can draw.
func (q Question) form() json.RawMessage {
	properties := map[string]any{}
	switch {
	case len(q.Options) > 0 && q.Multiple:
		properties[chosenKey] = map[string]any{"type": "array", "title": "Your answer", "items": map[string]any{"type": "string", "enum": q.shown()}}
	case len(q.Options) > 0:
		properties[chosenKey] = map[string]any{"type": "string", "title": "Your answer", "enum": q.shown()}
	}
	title := "Your answer"
	if len(q.Options) > 0 {
		title = "Or in your own words"
	}
	properties[wordsKey] = map[string]any{"type": "string", "title": title}
	b, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
	return b
}

// shown are the options as the person sees them.
func (q Question) shown() []string {
	out := make([]string, len(q.Options))
	for i, o := range q.Options {
		out[i] = shownText(clip(o, maxQuestionLine))
	}
	return out
}

// reply takes what fits the form.
func (q Question) reply(content map[string]any) Reply {
	var r Reply
	var picked []string
	switch v := content[chosenKey].(type) {
	case string:
		picked = []string{v}
	case []any:
		for _, x := range v {
			if s, ok := x.(string); ok {
				picked = append(picked, s)
			}
		}
	}
	shown := q.shown()
	for _, p := range picked {
		if i := slices.Index(shown, p); i >= 0 && !slices.Contains(r.Chosen, q.Options[i]) && (q.Multiple || len(r.Chosen) == 0) {
			r.Chosen = append(r.Chosen, q.Options[i])
		}
	}
	if s, ok := content[wordsKey].(string); ok {
		r.Text = clip(strings.TrimSpace(s), maxReply)
	}
	r.Declined = len(r.Chosen) == 0 && r.Text == ""
	return r
}

// maxReply bounds what a person can say in words, in bytes.
const maxReply = 32 << 10

// shownText is a model's text without what could act on a screen or reorder it.
func shownText(s string) string {
	if s == "" {
		return ""
	}
	return tool.QuotePath(s)
}
