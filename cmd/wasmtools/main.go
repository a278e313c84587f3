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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run()) }

func run() int {
	if isCompileChild() {
		return compileMain()
	}
	// Four times the default: a server's garbage is mostly the last answer, and
	// collecting it less often halves the slowest calls for some 12 MB
	// (docs/design.md, "Garbage").
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- newRoot(os.Stdin, os.Stdout, os.Stderr).ExecuteContext(ctx) }()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			return exitInterrupted
		}
		return report(os.Stderr, err)
	case <-ctx.Done():
	}
	// What runs ends with the context. A read of standard input or of a FIFO does
	// not, and nothing is lost by leaving it; a second signal ends the program at
	// once.
	stop()
	select {
	case <-done:
	case <-time.After(shutdownGrace):
	}
	return exitInterrupted
}

// shutdownGrace is how long an interrupted command may take to end its calls.
const shutdownGrace = 2 * time.Second

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
	root.PersistentFlags().BoolP("verbose", "v", false, "say on stderr how long calls took")
	root.PersistentFlags().Bool("no-input", false, "never ask on the terminal (for scripts; what needs a person ends with exit code 4)")
	root.AddCommand(
		newRun(), newTools(), newMCP(), newBuild(), newInspect(), newTour(), newDoctor(), newSelftest(), newVersion(), newMan(),
		newApprovals(), newAttach(), newSecret(), newUpstream(),
		newPolicy(), newConfig(), newEvidence(), newArtifacts(),
		newUndo(), newCheckpoint(), newChanges(), newOverlay(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	strict(root)
	return root
}

// noCommand refuses a word that names no command of the group.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q; %s --help lists them", args[0], c.CommandPath())}
	}
	return nil
}

// strict has cobra's own commands refuse words that they do not know; as they
// come they print something else, and succeed.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(c *cobra.Command, a []string) error {
				if found, rest, err := root.Find(a); err != nil || found == root && len(a) > 0 || len(rest) > 0 {
					return usageError{fmt.Errorf("unknown command %q; wasmtools --help lists them", strings.Join(a, " "))}
				}
				return nil
			}
		case "completion":
			c.Args = noCommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
			for _, shell := range c.Commands() {
				shell.Args = args(shell.Args)
			}
		}
	}
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
