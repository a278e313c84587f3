package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release; CHANGELOG.md has the same one (a test compares).
const version = "0.1.0"

// build is what a program knows of its own making. Commit is empty where the go
// command did not record it: outside a checkout, or with -buildvcs=false.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the checkout held changes that the commit does not have
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func buildOf(info *debug.BuildInfo) build {
	b := build{Version: version, Go: goruntime.Version(), OS: goruntime.GOOS, Arch: goruntime.GOARCH}
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	s := "wasmtools " + b.Version
	switch {
	case b.Commit != "" && b.Modified:
		s += " (" + b.Commit + ", modified)"
	case b.Commit != "":
		s += " (" + b.Commit + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", s, b.Go, b.OS, b.Arch)
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit if the build recorded it, and the toolchain",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			b := buildOf(info)
			if asJSON {
				return printLine(c.OutOrStdout(), b)
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), b)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
