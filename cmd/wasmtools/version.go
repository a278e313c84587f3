package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; CHANGELOG.md has the same one (a test compares).
const version = "0.1.0"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the toolchain",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			commit := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						commit = " " + s.Value
					}
				}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "wasmtools %s%s %s %s/%s\n", version, commit, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return err
		},
	}
}
