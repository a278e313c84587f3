package main

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/mcp/server"
	"github.com/wasmtools/wasmtools/tool"
)

func newMCP() *cobra.Command {
	f := runtimeFlags{program: "mcp"}
	c := &cobra.Command{
		Use:   "mcp [flags]",
		Short: "Serve the tools over MCP on standard input and output",
		Long: `Serve the tools over MCP on standard input and output, for clients of either
protocol era (2026-07-28, and 2025-11-25 and older). The server ends when its
input closes.

With --approve ask, a call that would change a file asks the person behind the
client, if the client can do that (elicitation), and else answers
approval_required.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			defer f.leave()
			rt, turn, err := f.begin(c)
			if err != nil {
				return err
			}
			defer rt.Close()
			s := server.New(&backend{rt: rt, turn: turn}, server.Options{
				Version: version, Instructions: instructions, Notice: noticeWriter(c),
				Elicitation: func() server.Elicitation {
					return server.Elicitation(f.source.Settings().Approvals.Elicitation)
				},
			})
			return s.Run(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
	f.add(c)
	return c
}

// instructions is what a client may show its model about the server as a whole.
const instructions = "Sandboxed tools on one workspace. Paths are relative to its root, with '/'. " +
	"A call that would change a file may answer approval_required: nothing was changed then; tell the user, and repeat the same call after they agreed."

// backend is one turn as the MCP server sees it: over MCP there are no turns,
// so one serves the whole connection.
type backend struct {
	rt   *wasmtools.Runtime
	turn *wasmtools.Turn
	warm sync.Once
}

// Tools is asked when a client wants the list. It will want to call then, so
// the built-in module is made ready meanwhile.
func (b *backend) Tools() []tool.Definition {
	b.warm.Do(func() {
		go func() { _ = b.rt.Prepare(context.Background()) }() // a call would meet the same error, and say it
	})
	return b.turn.Tools()
}

func (b *backend) Call(ctx context.Context, c server.Call, sink tool.Sink) tool.Result {
	return b.turn.Call(ctx, []wasmtools.Request{{
		Tool: c.Tool, Arguments: c.Arguments, Sink: sink, Approver: c.Approver, Patience: c.Patience, Ceiling: server.Ceiling(),
	}})[0].Result
}

func (b *backend) Decide(ticket string, d approval.Decision) error { return b.rt.Decide(ticket, d) }

// OpenArtifact implements [server.Shelf].
func (b *backend) OpenArtifact(handle string) (*artifact.File, error) {
	return b.turn.OpenArtifact(handle)
}
