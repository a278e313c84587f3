package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/selftest"
)

func newSelftest() *cobra.Command {
	var dir string
	var race time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "selftest [flags]",
		Short: "Attack the tools on this machine and say what holds",
		Long: `Attack the tools on this machine and its file system: in a scratch folder, with
links, races, pipes, hostile modules and commands. Each attack is made twice,
first without wasmtools: "came through" says that it works on this machine, and
that wasmtools is what stopped it.

Exits with 6 if an attack came through.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if race <= 0 || race > time.Hour {
				return usageError{fmt.Errorf("--race is between 1ns and 1h, not %s", race)}
			}
			if err := needDir(dir); err != nil {
				return usageError{fmt.Errorf("the scratch folder cannot be made: %w; name a directory with --dir", err)}
			}
			r, err := selftest.Run(c.Context(), selftest.Options{
				Dir: dir, Race: race, CompileChild: compileChild(), Progress: func(name string) { verbose(c)("trying: " + name) },
			})
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				err = enc.Encode(r)
			} else {
				err = printSelftest(c.OutOrStdout(), r)
			}
			if err == nil && r.Broken() > 0 {
				err = exitCode(exitMismatch)
			}
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", ".", "a directory on the file system to be tried; a scratch folder is made in it and removed")
	c.Flags().DurationVar(&race, "race", time.Second, "how long each attack that needs luck is repeated")
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON document")
	return c
}

func printSelftest(w io.Writer, r selftest.Report) error {
	for _, f := range r.Facts {
		fmt.Fprintf(w, "%-12s %s\n", f.What, f.Detail)
	}
	counts := map[selftest.Outcome]int{}
	group := ""
	for _, x := range r.Results {
		if x.Group != group {
			group = x.Group
			fmt.Fprintf(w, "\n%s\n", group)
		}
		counts[x.Outcome]++
		note := x.Detail
		switch {
		case x.Outcome == selftest.Held && x.Control == "yes":
			note = "without wasmtools it came through"
		case x.Outcome == selftest.Held && x.Control == "no":
			note = "it does not come through here without wasmtools, either"
		}
		if note != "" {
			note = "  (" + note + ")"
		}
		fmt.Fprintf(w, "  %-8s %s%s\n", x.Outcome, x.Name, note)
	}
	_, err := fmt.Fprintf(w, "\n%d held, %d broken, %d could not be tried\n", counts[selftest.Held], counts[selftest.Broken], counts[selftest.Untried])
	return err
}
