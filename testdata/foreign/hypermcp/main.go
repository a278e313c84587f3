//go:build wasip1

// Command hypermcp is a plugin in the style of hyper-mcp 2: list_tools and
// call_tool.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/wasmtools/wasmtools/testdata/foreign/pdk"
)

func main() {}

//go:wasmimport extism:host/user notify_progress
func notifyProgress(at uint64)

//go:wasmimport extism:host/user list_roots
func listRoots() uint64

//go:wasmimport extism:host/user create_message
func createMessage(at uint64) uint64

//go:wasmexport list_tools
func listTools() int32 {
	pdk.Output([]byte(`{"tools":[
		{"name":"add","title":"Add","description":"Add two numbers.","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},
		 "outputSchema":{"type":"object","properties":{"sum":{"type":"number"}}},"annotations":{"readOnlyHint":true}},
		{"name":"roots","description":"Tell the roots.","inputSchema":{"type":"object"}},
		{"name":"ask","description":"Ask the client's model.","inputSchema":{"type":"object"}},
		{"name":"page","description":"Answer with a resource.","inputSchema":{"type":"object"}}
	]}`))
	return 0
}

//go:wasmexport call_tool
func callTool() int32 {
	var req struct {
		Request struct {
			Name      string             `json:"name"`
			Arguments map[string]float64 `json:"arguments"`
		} `json:"request"`
		Context struct {
			ID   any `json:"id"`
			Meta any `json:"_meta"`
		} `json:"context"`
	}
	if err := json.Unmarshal(pdk.Input(), &req); err != nil {
		return pdk.Fail(err.Error())
	}
	out := map[string]any{}
	text := func(s string) { out["content"] = []any{map[string]any{"type": "text", "text": s}} }
	switch req.Request.Name {
	case "add":
		notifyProgress(pdk.Put([]byte(`{"progressToken":"x","progress":1,"total":2,"message":"half"}`)))
		sum := req.Request.Arguments["a"] + req.Request.Arguments["b"]
		text(fmt.Sprint(sum))
		out["structuredContent"] = map[string]any{"sum": sum}
	case "roots":
		text(string(pdk.Get(listRoots())))
	case "ask":
		text(string(pdk.Get(createMessage(pdk.Put([]byte(`{}`))))))
	case "page":
		out["content"] = []any{map[string]any{"type": "resource", "resource": map[string]any{"uri": "x://y", "mimeType": "text/plain", "text": "the page"}}}
	default:
		return pdk.Fail("no tool " + req.Request.Name)
	}
	p, _ := json.Marshal(out)
	pdk.Output(p)
	return 0
}
