// Command noopserver serves one tool that does nothing over MCP on stdio, on the
// path that every call takes: turn, arguments' check, freeze, approval, tool.
// With -bare the tool stands right behind the protocol, so that the difference
// is what the runtime adds. bench/README.md tells how to measure it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/mcp/server"
	"github.com/wasmtools/wasmtools/tool"
)

func main() {
	bare := flag.Bool("bare", false, "protocol alone, without the runtime")
	extra := flag.Int("tools", 0, "how many more tools the list holds")
	dir := flag.String("workspace", ".", "the workspace, which no call looks at")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as the wasmtools command does
	}
	if err := run(*bare, *extra, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "noopserver:", err)
		os.Exit(1)
	}
}

func run(bare bool, extra int, dir string) error {
	ctx := context.Background()
	tools := []tool.Tool{noop("noop")}
	for i := range extra {
		tools = append(tools, noop(fmt.Sprintf("filler_%d", i)))
	}
	var b server.Backend = direct(tools)
	if !bare {
		rt, err := wasmtools.Open(ctx, wasmtools.Options{
			Workspaces: []wasmtools.Workspace{{Dir: dir}},
			Sources:    []catalog.Source{catalog.Static("bench", tools...)},
		})
		if err != nil {
			return err
		}
		defer rt.Close()
		turn, err := rt.Begin(ctx, wasmtools.Facts{})
		if err != nil {
			return err
		}
		b = through{turn}
	}
	return server.New(b, server.Options{Name: "noopserver", Notice: os.Stderr}).Run(ctx, os.Stdin, os.Stdout)
}

// noop is a host tool of that name.
type noop string

func (n noop) Definition() tool.Definition {
	return tool.Definition{
		Name:        string(n),
		Description: "Does nothing.",
		Input:       json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`),
		Effects:     tool.Reads,
		Mode:        tool.Parallel,
	}
}

func (noop) Origin() tool.Origin { return tool.Origin{Source: tool.Host, Name: "bench", Trusted: true} }

func (noop) Call(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
	return tool.TextResult("ok"), nil
}

// through serves a turn.
type through struct{ turn *wasmtools.Turn }

func (b through) Tools() []tool.Definition { return b.turn.Tools() }

func (b through) Call(ctx context.Context, c server.Call, sink tool.Sink) tool.Result {
	return b.turn.Call(ctx, []wasmtools.Request{{Tool: c.Tool, Arguments: c.Arguments, Sink: sink}})[0].Result
}

// direct serves the tools without anything between.
type direct []tool.Tool

func (b direct) Tools() []tool.Definition {
	defs := make([]tool.Definition, len(b))
	for i, t := range b {
		defs[i] = t.Definition()
	}
	return defs
}

func (b direct) Call(ctx context.Context, c server.Call, sink tool.Sink) tool.Result {
	for _, t := range b {
		if string(t.(noop)) == c.Tool {
			res, err := t.Call(ctx, tool.Invocation{Tool: c.Tool, Arguments: c.Arguments}, sink)
			if err != nil {
				return tool.ErrorResult(err)
			}
			return res
		}
	}
	return tool.ErrorResult(tool.Errorf(tool.NotRegistered, "no tool is named %s", tool.QuotePath(c.Tool)))
}
