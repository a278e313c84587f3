package server

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

// fake is a backend whose tools do what tests need.
type fake struct {
	calls   atomic.Int64
	running atomic.Int64 // calls inside Call now
	peak    atomic.Int64
	stopped atomic.Int64 // calls of "slow" that saw their context end

	release chan struct{} // "gate" waits for it, whatever its context says

	desk  *approval.Desk // where "write" asks
	disk  atomic.Int64   // what "write" would change, as a person is shown it
	wrote atomic.Int64

	store *artifact.Store // of "long" and "foreign"; may be nil
}

// OpenArtifact opens what "long" has kept.
func (f *fake) OpenArtifact(handle string) (*artifact.File, error) {
	if f.store == nil {
		return nil, artifact.NotFound()
	}
	return f.store.Open("s", handle)
}

func newFake() *fake {
	return &fake{desk: approval.NewDesk(nil, 0), release: make(chan struct{})}
}

// Decide takes answers that come in a request of their own.
func (f *fake) Decide(ticket string, d approval.Decision) error { return f.desk.Decide(ticket, d) }

func canonical(args json.RawMessage) []byte {
	var v any
	_ = json.Unmarshal(args, &v)
	p, _ := json.Marshal(v)
	return p
}

// write asks as a turn does: by a ticket that an equal call joins, and that is
// redeemed for what would happen now.
func (f *fake) write(ctx context.Context, c Call) tool.Result {
	now := strconv.FormatInt(f.disk.Load(), 10)
	req := approval.Request{
		Session: "s", CallID: "c", Tool: c.Tool, Source: tool.Builtin, Effects: tool.Reads | tool.Writes,
		Input: tool.DigestOf(canonical(c.Arguments)), Arguments: c.Arguments, InPerson: c.Tool == "write_protected",
		Preview: tool.Preview{
			Writes:  &tool.WriteSet{Entries: []tool.Write{{Op: tool.OpWrite, Path: "a.txt"}}},
			Diff:    "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old " + now + "\n+new\n",
			Binding: tool.DigestOf([]byte(now)),
		},
	}
	if c.Tool == "write_command" {
		req.Effects, req.Preview.Writes, req.Preview.Command = tool.Executes, nil, "make"
	}
	tk, err := f.desk.Submit(req)
	if err != nil {
		return tool.ErrorResult(err)
	}
	if _, answered := tk.Decision(); !answered {
		if _, err = tk.Ask(ctx, c.Approver); err == approval.ErrNoAnswer || err == approval.ErrNotAsked {
			return tool.ErrorResult(tool.Errorf(tool.ApprovalRequired, "a person must agree first").With("ticket", tk.Request().Ticket))
		} else if err != nil {
			return tool.ErrorResult(err)
		}
	}
	if err := tk.Redeem(req.Preview.Binding); err != nil {
		return tool.ErrorResult(err)
	}
	f.wrote.Add(1)
	return tool.TextResult("written")
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
	case "write", "write_protected", "write_command":
		return f.write(ctx, c)
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
	case "long", "foreign": // kept for this session, and for another one
		ref, err := f.store.Put(artifact.Scope{Session: map[string]string{"long": "s", "foreign": "other"}[c.Tool]},
			tool.ArtifactInfo{MIMEType: "text/plain; charset=utf-8"}, strings.NewReader(strings.Repeat("aé\n", 15)+"\xff"+strings.Repeat("x", 30_000)))
		if err != nil {
			return tool.ErrorResult(err)
		}
		return tool.Result{Content: []tool.Content{tool.Text("kept"), {Kind: tool.KindResourceLink, URI: "artifact:" + ref.Handle, Name: "the result of long", MIMEType: "text/plain; charset=utf-8"}}}
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
