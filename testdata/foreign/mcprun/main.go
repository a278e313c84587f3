//go:build wasip1

// Command mcprun is a plugin in the style of mcp.run: describe and call.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/wasmtools/wasmtools/testdata/foreign/pdk"
)

func main() {}

var calls int

//go:wasmexport describe
func describe() int32 {
	pdk.Output([]byte(`{"tools":[
		{"name":"upper","description":"Make text upper case.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},
		{"name":"count","description":"Tell how often this was called, and what a variable holds.","inputSchema":{"type":"object"}},
		{"name":"fetch","description":"Fetch a URL.","inputSchema":{"type":"object","properties":{"url":{"type":"string"}}}},
		{"name":"file","description":"Read and write files.","inputSchema":{"type":"object","properties":{"read":{"type":"string"},"write":{"type":"string"}}}},
		{"name":"attack","description":"Scribble over the host's memory.","inputSchema":{"type":"object"}},
		{"name":"spin","description":"Never end.","inputSchema":{"type":"object"}},
		{"name":"setting","description":"Tell a setting.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}
	]}`))
	return 0
}

//go:wasmexport call
func call() int32 {
	var req struct {
		Params struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(pdk.Input(), &req); err != nil {
		return pdk.Fail(err.Error())
	}
	text := func(key string) string {
		s, _ := req.Params.Arguments[key].(string)
		return s
	}
	answer := ""
	isError := false
	switch req.Params.Name {
	case "upper":
		answer = strings.ToUpper(text("text"))
		if answer == "" {
			answer, isError = "there is no text", true
		}
	case "count":
		calls++
		answer = fmt.Sprintf("call %d, variable %q", calls, pdk.Var("n"))
		pdk.SetVar("n", fmt.Sprint(calls))
	case "fetch":
		status, body := pdk.Fetch(fmt.Sprintf(`{"url":%q}`, text("url")))
		answer = fmt.Sprintf("%d %s", status, body)
	case "file":
		if p := text("write"); p != "" {
			if err := os.WriteFile(p, []byte("written"), 0o644); err != nil {
				return pdk.Fail(err.Error())
			}
		}
		if p := text("read"); p != "" {
			data, err := os.ReadFile(p)
			if err != nil {
				return pdk.Fail(err.Error())
			}
			answer = string(data)
		}
	case "attack":
		pdk.Scribble()
		answer = "still here"
	case "spin":
		for {
		}
	case "setting":
		answer = pdk.Config(text("name"))
	default:
		return pdk.Fail("no tool " + req.Params.Name)
	}
	out, _ := json.Marshal(map[string]any{
		"content": []any{map[string]any{"type": "text", "text": answer, "annotations": nil}},
		"isError": isError,
	})
	pdk.Output(out)
	return 0
}
