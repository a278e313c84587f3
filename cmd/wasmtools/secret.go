package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wasmtools/wasmtools/secret"
)

func newSecret() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets that the host puts into requests for modules",
		Long: `Keep secrets that the host puts into requests for modules. A grant names a secret
and the host that gets it (--grant secret=HOST/HEADER/NAME); the module never sees
its value, and neither does a model.

These commands are for people: they need a terminal, and no program that a runtime
started can use them.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newSecretSet(), newSecretList(), newSecretRemove())
	return c
}

// secretStore opens the store for a person. It is made at the first use.
func secretStore(c *cobra.Command) (*secret.Store, error) {
	if err := humanHere(c.Context()); err != nil {
		return nil, err
	}
	state := userDirs().state
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	return secret.Open(filepath.Join(state, "secrets"))
}

func newSecretSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret, from a hidden prompt or from standard input",
		Long: `Set a secret. At a terminal its value is asked for and not shown; else it is read
from standard input. One line end after it is left out.`,
		Example: `  wasmtools secret set github-token
  pass show github | wasmtools secret set github-token`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			s, err := secretStore(c)
			if err != nil {
				return err
			}
			value, err := readSecret(c, a[0])
			if err != nil {
				return err
			}
			if err := s.Set(a[0], value); err != nil {
				return err
			}
			notice(c)("secret " + a[0] + " is set")
			return nil
		},
	}
}

// readSecret reads a value without showing it.
func readSecret(c *cobra.Command, name string) (string, error) {
	if in, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		if noInput, _ := c.Flags().GetBool("no-input"); noInput {
			return "", usageError{errors.New("with --no-input the value comes from standard input, which is a terminal")}
		}
		fd := int(in.Fd())
		before, err := term.GetState(fd)
		if err != nil {
			return "", err
		}
		restore := func() { _ = term.Restore(fd, before) }
		defer restore()
		// An interrupt ends the program, not the reading.
		defer context.AfterFunc(c.Context(), restore)()
		muteTerminal(fd)
		fmt.Fprintf(c.ErrOrStderr(), "Value of secret %s (not shown): ", name)
		p, err := term.ReadPassword(fd)
		fmt.Fprintln(c.ErrOrStderr())
		return string(p), err
	}
	p, err := io.ReadAll(io.LimitReader(bufio.NewReader(c.InOrStdin()), secret.MaxValue+2))
	value, ended := strings.CutSuffix(string(p), "\n")
	if ended {
		value = strings.TrimSuffix(value, "\r")
	}
	return value, err
}

// secretJSON is a secret as lists have it: its value is nobody's to see.
type secretJSON struct {
	Name    string    `json:"name"`
	Changed time.Time `json:"changed"`
}

func newSecretList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the names of secrets, and when they were set",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := secretStore(c)
			if err != nil {
				return err
			}
			entries, err := s.List()
			if err != nil {
				return err
			}
			if asJSON {
				list := []secretJSON{}
				for _, e := range entries {
					list = append(list, secretJSON(e))
				}
				return printJSON(c.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, e := range entries {
				fmt.Fprintf(t, "%s\t%s\n", e.Name, e.Changed.UTC().Format(time.RFC3339))
			}
			return t.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON document")
	return c
}

func newSecretRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Forget a secret",
		Long: `Forget a secret. What held it may keep its bytes until they are used again: a
secret that got out must be revoked where it came from.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			s, err := secretStore(c)
			if err != nil {
				return err
			}
			return s.Remove(a[0])
		},
	}
}
