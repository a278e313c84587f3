// Command noopserver serves one tool that does nothing over MCP on stdio. What
// bench/rawclient measures against it is the cost of the protocol alone.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/wasmtools/wasmtools/mcp/server"
	"github.com/wasmtools/wasmtools/tool"
)

type backend struct{ defs []tool.Definition }

func (b backend) Tools() []tool.Definition { return b.defs }

func (b backend) Call(_ context.Context, c server.Call, _ tool.Sink) tool.Result {
	if c.Tool != "noop" {
		return tool.ErrorResult(tool.Errorf(tool.NotRegistered, "no tool is named %s", tool.QuotePath(c.Tool)))
	}
	return tool.TextResult("ok")
}

func main() {
	tools := flag.Int("tools", 1, "length of the list; all but the first only fill it")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/wasmtools does
	}
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`)
	b := backend{defs: []tool.Definition{{Name: "noop", Description: "Does nothing.", Input: schema, Effects: tool.Reads}}}
	for i := 1; i < *tools; i++ {
		b.defs = append(b.defs, tool.Definition{Name: fmt.Sprintf("filler_%d", i), Description: "Fills the list.", Input: schema, Effects: tool.Reads})
	}
	s := server.New(b, server.Options{Name: "noopserver", Notice: os.Stderr})
	if err := s.Run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "noopserver:", err)
		os.Exit(1)
	}
}
