package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages of all commands into a directory",
		Example: "  wasmtools man ~/.local/share/man/man1",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := os.MkdirAll(a[0], 0o755); err != nil {
				return usageError{err}
			}
			return doc.GenManTree(c.Root(), &doc.GenManHeader{Title: "WASMTOOLS", Section: "1", Source: "wasmtools " + version}, a[0])
		},
	}
}
