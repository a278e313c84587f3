// Package wasmtools is the tool runtime that an agent, or its host program,
// calls instead of touching a machine itself.
//
//	rt, err := wasmtools.Open(ctx, wasmtools.Options{
//		Workspaces: []wasmtools.Workspace{{Dir: "."}},
//		Approvers:  []approval.Approver{approval.Func(ask)},
//	})
//	turn, err := rt.Begin(ctx, wasmtools.Facts{})
//	defs := turn.Tools()                       // show these to the model
//	out := turn.Call(ctx, []wasmtools.Request{{ // do what it asks for
//		CallID: "1", Tool: "grep", Arguments: []byte(`{"pattern":"func main"}`),
//	}})
//
// Tools run as WebAssembly modules that can do only what was granted. File
// tools never leave the workspace. A call that would change a file first runs
// on an overlay; what it wants to change is shown to the approvers, and exactly
// that is committed after a yes.
//
// Failures of tools, refusals and timeouts are results with a code from
// [github.com/wasmtools/wasmtools/tool.Codes]; a Go error means that the
// runtime itself could not work.
package wasmtools
