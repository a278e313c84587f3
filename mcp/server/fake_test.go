package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// fake is a backend whose tools do what tests need.
type fake struct {
	calls   atomic.Int64
	running atomic.Int64 // calls inside Call now
	peak    atomic.Int64
	stopped atomic.Int64 // calls of "slow" that saw their context end

	release chan struct{} // "gate" waits for it, whatever its context says
}

var object = json.RawMessage(`{"type":"object"}`)

func (f *fake) Tools() []tool.Definition {
	return []tool.Definition{
		{Name: "echo", Title: "Echo", Description: "Answers with its arguments.", Effects: tool.Reads,
			Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)},
		{Name: "edit_file", Description: "Needs approval.", Input: object, Effects: tool.Reads | tool.Writes},
		{Name: "fail", Description: "Fails.", Input: object, Output: object, Effects: tool.Executes},
		{Name: "slow", Description: "Waits to be cancelled.", Input: object, Effects: tool.UsesNetwork},
	}
}

func (f *fake) Call(ctx context.Context, c Call, sink tool.Sink) tool.Result {
	f.calls.Add(1)
	n := f.running.Add(1)
	defer f.running.Add(-1)
	for old := f.peak.Load(); n > old && !f.peak.CompareAndSwap(old, n); old = f.peak.Load() {
	}
	switch c.Tool {
	case "echo":
		return tool.TextResult(string(c.Arguments))
	case "edit_file":
		return tool.ErrorResult(tool.PathErrorf(tool.ApprovalRequired, "a.go", "a person must agree to this change").
			WithNext("run `wasmtools approvals`, then repeat the call").With("ticket", "t1"))
	case "fail":
		return tool.ErrorResult(tool.Errorf(tool.Timeout, "over after 1s"))
	case "picky":
		return tool.ErrorResult(tool.Errorf(tool.SchemaInvalid, "/text: want a string"))
	case "inner":
		return tool.ErrorResult(tool.Errorf(tool.NotExposed, "the tool exists, out of this list"))
	case "structured":
		return tool.Result{Content: []tool.Content{tool.Text("1 hit")}, Structured: json.RawMessage(`{"hits":1}`), Details: map[string]any{"ms": 3}}
	case "panic":
		panic("boom")
	case "slow":
		<-ctx.Done()
		f.stopped.Add(1)
		return tool.ErrorResult(ctx.Err())
	case "gate":
		<-f.release
		return tool.TextResult("released")
	case "steps":
		for i := range 5 {
			sink.Progress(int64(i+1), 5, "step")
			time.Sleep(70 * time.Millisecond)
		}
		sink.Progress(3, 5, "backwards")
		sink.Output("stdout", []byte("partial"))
		if _, err := sink.Artifact(tool.ArtifactInfo{}, strings.NewReader("x")); !errors.Is(err, &tool.Error{Code: tool.NotAvailable}) {
			return tool.ErrorResult(err)
		}
		return tool.TextResult("done")
	case "notes": // no numbers, only words
		for _, n := range []string{"fetching", "parsing", "writing"} {
			sink.Progress(0, 0, n)
			time.Sleep(progressEvery * 3 / 2)
		}
		return tool.TextResult("done")
	}
	return tool.ErrorResult(tool.Errorf(tool.NotRegistered, "no tool is named %s", tool.QuotePath(c.Tool)))
}
