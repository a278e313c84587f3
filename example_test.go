package wasmtools_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/evidence"
)

// window is an approver of a program that embeds the runtime. A real one would
// show the request to a person and return; the answer may come later, from any
// goroutine.
type window struct{}

func (window) Offer(r approval.Request, answer approval.Answer) (withdraw func()) {
	fmt.Printf("may %s do this?\n%s", r.Tool, r.Preview.Diff)
	yes := strings.HasPrefix(r.Preview.Writes.Entries[0].Path, "notes/")
	go func() {
		d := approval.Decision{Verdict: approval.Deny, By: "ann", Channel: "window", Reason: "only notes may be written"}
		if yes {
			d = approval.Decision{Verdict: approval.Allow, By: "ann", Channel: "window"}
		}
		_ = answer(d) // somebody else may have answered first
	}()
	return func() {} // nothing to take down
}

// printer is a sink of evidence that prints; package evidence has the one that
// keeps a record which can be verified.
type printer struct{ evidence.Discard }

func (printer) End(_ evidence.Handle, o evidence.Outcome) error {
	fmt.Printf("recorded: %s; %s said %s\n", o.Status, o.Approval.By, o.Approval.Verdict)
	return nil
}

// A program with its own window for approvals and its own record.
func Example_approver() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(dir+"/notes", 0o700); err != nil {
		panic(err)
	}
	ctx := context.Background()
	rt, err := wasmtools.Open(ctx, wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: dir, Evidence: printer{}}},
		Approvers:  []approval.Approver{window{}},
	})
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	turn, err := rt.Begin(ctx, wasmtools.Facts{})
	if err != nil {
		panic(err)
	}
	for _, o := range turn.Call(ctx, []wasmtools.Request{
		{CallID: "1", Tool: "write_file", Arguments: []byte(`{"path":"notes/today.md","content":"milk\n"}`)},
		{CallID: "2", Tool: "write_file", Arguments: []byte(`{"path":"main.go","content":"package main\n"}`)},
	}) {
		fmt.Printf("%s: error %v, code %q\n", o.CallID, o.Result.IsError, o.Result.Code)
	}
	// Output:
	// may write_file do this?
	// --- /dev/null
	// +++ b/notes/today.md
	// @@ -0,0 +1 @@
	// +milk
	// recorded: completed; ann said allow
	// may write_file do this?
	// --- /dev/null
	// +++ b/main.go
	// @@ -0,0 +1 @@
	// +package main
	// recorded: denied; ann said deny
	// 1: error false, code ""
	// 2: error true, code "denied"
}
