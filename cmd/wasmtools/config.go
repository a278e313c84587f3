package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/config"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration, and print its schema",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigCheck(), newConfigSchema(), newConfigPath())
	return c
}

func newConfigCheck() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	as := "user"
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Name everything that is wrong with the configuration",
		Long: `Name everything that is wrong with the configuration, by file, line and column.
Without FILE it looks at everything that would be read: your configuration, the
workspace's own file, and the rules that were saved. Exit code 1 if there is a
fault.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			kind, err := fileKind(as)
			if err != nil {
				return err
			}
			var faults config.Faults
			var read []string
			if len(a) == 1 {
				p, err := config.ReadFile(a[0])
				if err != nil {
					return usageError{err}
				}
				read, faults = a, faultsOf(a[0], kind, p)
			} else {
				dir, err := f.dir(c)
				if err != nil {
					return err
				}
				if read, faults, err = config.Check(places(dir)); err != nil {
					return err
				}
			}
			if asJSON {
				if faults == nil {
					faults = config.Faults{}
				}
				err = printLine(c.OutOrStdout(), faults)
			} else if len(faults) > 0 {
				_, err = fmt.Fprintln(c.OutOrStdout(), faults)
			}
			if err != nil {
				return err
			}
			if len(faults) > 0 {
				return exitCode(exitFailure)
			}
			for _, file := range read {
				notice(c)(file + " is in order")
			}
			if len(read) == 0 {
				notice(c)("nothing is configured; wasmtools config path says where it would stand")
			}
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the faults as one JSON document")
	c.Flags().StringVar(&as, "as", as, "what FILE is: user (a configuration, or a file of rules), or workspace (a workspace's own file)")
	return c
}

// faultsOf checks a file, in the terms of its kind.
func faultsOf(file string, kind config.Kind, p []byte) config.Faults {
	var err error
	if kind == config.WorkspaceFile {
		_, err = config.ParseWorkspace(file, p)
	} else {
		_, err = config.Parse(file, p)
	}
	var faults config.Faults
	if err != nil && !errors.As(err, &faults) {
		faults = config.Faults{{File: file, Line: 1, Column: 1, Text: err.Error()}}
	}
	return faults
}

func fileKind(as string) (config.Kind, error) {
	switch as {
	case "user":
		return config.UserFile, nil
	case "workspace":
		return config.WorkspaceFile, nil
	}
	return 0, usageError{fmt.Errorf("--as is user or workspace, not %q", as)}
}

func newConfigSchema() *cobra.Command {
	as := "user"
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of wasmtools.toml, for editors",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			kind, err := fileKind(as)
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(config.Schema(kind))
			return err
		},
	}
	c.Flags().StringVar(&as, "as", as, "of which file: user, or workspace (the workspace's own)")
	return c
}

func newConfigPath() *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print where your configuration stands",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), userConfig(userDirs()))
			return err
		},
	}
}
