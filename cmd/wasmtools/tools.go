package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
)

// toolJSON is one tool in `tools --json`.
type toolJSON struct {
	tool.Definition
	Source string        `json:"source"`
	Module tool.Digest   `json:"module,omitempty"`
	State  catalog.State `json:"state"`
	Code   tool.Code     `json:"code,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

func newTools() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "tools [flags]",
		Short: "List every registered tool with its state and, if it is not shown, the reason",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			rt, turn, err := f.begin(c)
			if err != nil {
				return err
			}
			defer rt.Close()
			if asJSON {
				list := []toolJSON{}
				for _, it := range turn.List() {
					o := it.Tool.Origin()
					list = append(list, toolJSON{it.Definition, string(o.Source), o.Module, it.State, it.Code, it.Reason})
				}
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				return enc.Encode(list)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TOOL\tSOURCE\tSTATE\tEFFECTS\tWHAT IT IS FOR")
			for _, it := range turn.List() {
				why := firstSentence(it.Definition.Description)
				if it.Reason != "" {
					why = fmt.Sprintf("%s: %s", it.Code, it.Reason)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", it.Definition.Name, it.Tool.Origin().Source, it.State, it.Definition.Effects, tool.QuotePath(why))
			}
			return w.Flush()
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON document")
	return c
}

// firstSentence cuts a description for a table; a module wrote it, so it is
// also bounded.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i]
	}
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	return strings.TrimSuffix(s, ".")
}
