package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/catalog"
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
			f.servers, f.patience = func(string) bool { return true }, mcpPatience
			defer f.leave()
			rt, err := f.open(c)
			if err != nil {
				return err
			}
			defer rt.Close()
			b := &backend{rt: rt, changed: make(chan struct{}, 1), facts: func() wasmtools.Facts {
				return wasmtools.Facts{Exposure: catalog.ExposeStable, ContextWindow: float64(f.source.Settings().MCP.ContextWindow)}
			}, notice: notice(c)}
			if err := b.begin(c.Context()); err != nil {
				return err
			}
			go b.follow(c.Context())
			s := server.New(b, server.Options{
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

// mcpPatience is how long upstream servers are waited for before clients are
// answered: some clients ask for the list once, and do not listen for changes.
const mcpPatience = 3 * time.Second

// instructions is what a client may show its model about the server as a whole.
const instructions = "Sandboxed tools on one workspace. Paths are relative to its root, with '/'. " +
	"A call that would change a file may answer approval_required: nothing was changed then; tell the user, and repeat the same call after they agreed."

// backend is one turn as the MCP server sees it: over MCP there are no turns,
// so one serves the whole connection, until the tools change.
type backend struct {
	rt      *wasmtools.Runtime
	facts   func() wasmtools.Facts
	turn    atomic.Pointer[wasmtools.Turn]
	changed chan struct{}
	notice  func(string)
	warm    sync.Once
}

// begin begins a turn with the tools that there are now.
func (b *backend) begin(ctx context.Context) error {
	turn, err := b.rt.Begin(ctx, b.facts())
	if err != nil {
		return err
	}
	for _, n := range turn.Plan().Notes {
		b.notice(n)
	}
	b.turn.Store(turn)
	return nil
}

// follow begins a new turn whenever the tools have changed. A list that cannot be
// made leaves the old one.
func (b *backend) follow(ctx context.Context) {
	for {
		select {
		case <-b.rt.Changed():
		case <-ctx.Done():
			return
		}
		if err := b.begin(ctx); err != nil {
			b.notice("the tools have changed, but not the list: " + err.Error())
			continue
		}
		select {
		case b.changed <- struct{}{}:
		default: // clients are to be told already
		}
	}
}

// Changed implements [server.Watcher].
func (b *backend) Changed() <-chan struct{} { return b.changed }

// Tools is asked when a client wants the list. It will want to call then, so
// the built-in module is made ready meanwhile.
func (b *backend) Tools() []tool.Definition {
	b.warm.Do(func() {
		go func() { _ = b.rt.Prepare(context.Background()) }() // a call would meet the same error, and say it
	})
	return b.turn.Load().Tools()
}

func (b *backend) Call(ctx context.Context, c server.Call, sink tool.Sink) tool.Result {
	return b.turn.Load().Call(withAsk(ctx, c.Ask), []wasmtools.Request{{
		Tool: c.Tool, Arguments: c.Arguments, Sink: sink, Approver: c.Approver, Patience: c.Patience, Ceiling: server.Ceiling(),
	}})[0].Result
}

func (b *backend) Decide(ticket string, d approval.Decision) error { return b.rt.Decide(ticket, d) }

// OpenArtifact implements [server.Shelf].
func (b *backend) OpenArtifact(handle string) (*artifact.File, error) {
	return b.turn.Load().OpenArtifact(handle)
}
