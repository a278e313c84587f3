// Command wasmtools runs sandboxed tools on a workspace: one call at a time
// (run), as an MCP server (mcp), or as a guided tour (tour). It parses flags,
// wires packages and prints; it decides nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int {
	// Four times the default: a server's garbage is mostly the last answer, and
	// collecting it less often halves the slowest calls for some 12 MB
	// (docs/design.md, "Garbage").
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(os.Stdin, os.Stdout, os.Stderr)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return report(os.Stderr, err)
}

// newRoot builds the command tree over the given streams.
func newRoot(in io.Reader, out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "wasmtools",
		Short:         "Sandboxed tools for agents: read, search and edit a workspace, and nothing else",
		Long:          "wasmtools runs the tools that an agent calls. Tools are WebAssembly modules that can do only what was\ngranted; file tools cannot leave the workspace; every change is shown before it is made.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().BoolP("quiet", "q", false, "print nothing on stderr but errors")
	root.AddCommand(
		newRun(), newTools(), newMCP(), newBuild(), newInspect(), newTour(), newDoctor(), newVersion(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q; wasmtools --help lists them", args[0])}
	}
	return nil
}

// args wraps cobra's argument checks so that their failures count as usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, a []string) error {
		if err := check(c, a); err != nil {
			return usageError{fmt.Errorf("%w; usage: %s", err, c.UseLine())}
		}
		return nil
	}
}

// report prints err in the form "error: ..." and returns the exit code.
func report(w io.Writer, err error) int {
	var quiet exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return int(quiet)
	}
	fmt.Fprintf(w, "error: %v\n", err)
	return exitFor(err)
}
