package terminal

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

//go:embed terminal_session.md
var description string

//go:embed terminal_session.json
var schema string

// Gate decides about calls. Plan may be nil: then the text runs as it is, which a
// person has agreed to. An error is the call's answer.
type Gate interface {
	Ask(context.Context, tool.Invocation, Question) (*tool.Plan, error)
}

// Tool is terminal_session. Its Call asks the gate about what is not harmless;
// whoever asks elsewhere uses Prepare and Do of the manager, and Encode.
type Tool struct {
	m    *Manager
	gate Gate
}

var _ tool.Tool = (*Tool)(nil)

// NewTool makes the tool. Without a gate nothing is allowed that has to be asked
// about.
func NewTool(m *Manager, g Gate) *Tool { return &Tool{m, g} }

// Definition implements tool.Tool.
func (*Tool) Definition() tool.Definition {
	return tool.Definition{
		Name: "terminal_session", Title: "Terminal", Description: strings.TrimSpace(description),
		Input: json.RawMessage(schema), Effects: tool.Reads | tool.Executes,
	}
}

// Origin implements tool.Tool.
func (*Tool) Origin() tool.Origin {
	return tool.Origin{Source: tool.Native, Name: "terminal", Trusted: true}
}

// Call implements tool.Tool.
func (t *Tool) Call(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	p, err := t.m.Prepare(ctx, inv.Arguments)
	if err != nil {
		return t.failed(inv.Arguments, err), nil
	}
	defer p.Close()
	var plan *tool.Plan
	if p.Question.Kind != Harmless {
		if t.gate == nil {
			return tool.ErrorResult(tool.Errorf(tool.Denied, "nobody decides about commands here")), nil
		}
		if plan, err = t.gate.Ask(ctx, inv, p.Question); err != nil {
			return tool.ErrorResult(err), nil
		}
	}
	return t.Do(ctx, p, plan, sink), nil
}

// Do makes a call that was prepared and allowed.
func (t *Tool) Do(ctx context.Context, p *Prepared, plan *tool.Plan, sink tool.Sink) tool.Result {
	if sink == nil {
		sink = tool.Discard{}
	}
	begin := time.Now()
	r, err := t.m.Do(ctx, p, plan, Feedback{Output: sink.Output, Store: sink})
	if err != nil {
		return t.failed(nil, err)
	}
	res := Encode(p.Question.Op, r)
	res.Usage = &tool.Usage{Duration: time.Since(begin), OutputBytes: int64(len(r.Output) + len(r.Stderr))}
	return res
}

// failed is the result of a call that did not come to anything. What was lost is
// shown with its last output.
func (t *Tool) failed(raw json.RawMessage, err error) tool.Result {
	if tool.CodeOf(err) == tool.Lost && raw != nil {
		if a, derr := Decode(raw); derr == nil {
			if r, lerr := t.m.lostResult(a.id(), err); lerr == nil {
				return Encode(a.Op, r)
			}
		}
	}
	return tool.ErrorResult(err)
}

// Encode is a result for a model: text that is complete, and the same as a JSON
// object.
func Encode(op string, r Result) tool.Result {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // shell text is full of what that would lengthen
	if err := enc.Encode(r); err != nil {
		return tool.ErrorResult(err)
	}
	res := tool.Result{Content: []tool.Content{tool.Text(r.text(op))}, Structured: bytes.TrimSpace(b.Bytes())}
	switch r.State {
	case Busy:
		res.IsError, res.Code = true, tool.Busy
	case Lost:
		res.IsError, res.Code = true, tool.Lost
	case Failed:
		res.IsError, res.Code = true, tool.NotAvailable
	case KilledByTimeout:
		res.IsError, res.Code = true, tool.Timeout
	}
	return res
}

// text is r in words: how it stands in one line, the output, and what there is to
// say about it.
func (r *Result) text(op string) string {
	var b strings.Builder
	if op == "list" {
		if len(r.List) == 0 {
			return "no sessions and no processes"
		}
		for i := range r.List {
			b.WriteString(r.List[i].status() + "\n")
		}
		return b.String()
	}
	b.WriteString(r.status() + "\n")
	switch {
	case op == "screen":
		fmt.Fprintf(&b, "[screen %dx%d, cursor at row %d, column %d", r.Cols, r.Rows, r.ScreenCursor.Row+1, r.ScreenCursor.Col+1)
		if r.Alternate {
			b.WriteString(", full-screen program")
		}
		if r.Title != "" {
			b.WriteString(", title " + strconv.QuoteToGraphic(r.Title))
		}
		if r.Partial {
			b.WriteString(", drawn from the end of the output alone")
		}
		b.WriteString("]\n" + strings.Join(r.Screen, "\n") + "\n")
	case r.Output != "":
		b.WriteString(lineEnd(r.Output))
	}
	if r.Stderr != "" {
		b.WriteString("[stderr]\n" + lineEnd(r.Stderr))
	}
	note := func(format string, args ...any) { fmt.Fprintf(&b, "["+format+"]\n", args...) }
	if r.Binary && r.Artifact != "" {
		note("kept as artifact:%s", r.Artifact)
	} else if r.OmittedBytes > 0 && r.Artifact != "" {
		note("%d bytes left out; all of it: read_open artifact:%s", r.OmittedBytes, r.Artifact)
	} else if r.OmittedBytes > 0 {
		note("%d bytes left out; op read with a cursor shows them, as far as they are kept", r.OmittedBytes)
	}
	if r.Reason == "time" && r.Matched != nil {
		note("what was waited for did not come in time")
	}
	if r.Match != "" {
		note("matched %s", strconv.QuoteToGraphic(r.Match))
	}
	if len(r.Killed) > 0 {
		note("had to be killed: %s", strings.Join(r.Killed, ", "))
	}
	if r.Hint != "" {
		note("%s", r.Hint)
	}
	return b.String()
}

// status is how r stands, in one line.
func (r *Result) status() string {
	words := []string{string(r.State)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if r.ExitCode != nil {
		add("exit code %d", *r.ExitCode)
	}
	if r.Signal != "" {
		add("ended by %s", r.Signal)
	}
	if r.Session != "" {
		add("session %s", r.Session)
	}
	if r.Process != "" {
		add("process %s", r.Process)
	}
	if r.Cwd != "" {
		add("in %s", tool.QuotePath(r.Cwd))
	}
	if r.Command != "" {
		add("command %s", strconv.QuoteToGraphic(r.Command))
	}
	if r.DurationMS > 0 {
		add("%d ms", r.DurationMS)
	}
	if r.Foreground != "" {
		add("foreground %s", tool.QuotePath(r.Foreground))
	}
	if r.SilentForMS >= 1000 {
		add("silent for %d ms", r.SilentForMS)
	}
	add("cursor %d", r.Cursor)
	if r.Sandbox != "" {
		short, _, _ := strings.Cut(r.Sandbox, "; network")
		add("sandbox %s", short)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
