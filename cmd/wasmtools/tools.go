package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// toolJSON is one tool in `tools --json`.
type toolJSON struct {
	tool.Definition
	Source   string        `json:"source"`
	Server   string        `json:"server,omitempty"`
	Module   tool.Digest   `json:"module,omitempty"`
	State    catalog.State `json:"state"`
	Stage    catalog.Stage `json:"stage,omitempty"`
	Code     tool.Code     `json:"code,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Deferred bool          `json:"deferred,omitempty"`
	Pinned   bool          `json:"pinned,omitempty"`
	Rank     int           `json:"rank,omitempty"`
	Score    float64       `json:"score,omitempty"`
	Tokens   int           `json:"tokens"`
}

func newTools() *cobra.Command {
	var f runtimeFlags
	var asJSON, schema bool
	var explain, facts string
	c := &cobra.Command{
		Use:   "tools [flags]",
		Short: "List every registered tool with its state and, if it is not shown, the reason",
		Long: `List every registered tool with the state that it reaches in a turn and, if it
goes no further, the stage of the catalog in which it fell out, with the reason.
--turn gives the facts of the turn (docs/catalog.md).`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if schema {
				_, err := c.OutOrStdout().Write(catalog.FactsSchema)
				return err
			}
			turnFacts, err := readFacts(facts)
			if err != nil {
				return err
			}
			f.servers, f.patience = func(string) bool { return true }, 10*time.Second
			rt, turn, err := f.beginWith(c, turnFacts)
			if err != nil {
				return err
			}
			defer rt.Close()
			items := turn.List()
			tellPlan(c, turn.Plan())
			if explain != "" {
				if items, err = explained(c, items, explain); err != nil {
					return err
				}
			}
			if asJSON {
				list := []toolJSON{}
				for _, it := range items {
					o := it.Tool.Origin()
					list = append(list, toolJSON{
						Definition: it.Definition, Source: string(o.Source), Server: it.Server, Module: o.Module, State: it.State, Stage: it.Stage,
						Code: it.Code, Reason: it.Reason, Deferred: it.Deferred, Pinned: it.Pinned, Rank: it.Rank, Score: it.Score, Tokens: it.Tokens,
					})
				}
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				return enc.Encode(list)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TOOL\tSOURCE\tSTATE\tEFFECTS\tWHAT IT IS FOR")
			for _, it := range items {
				why := firstSentence(it.Definition.Description)
				if it.Reason != "" {
					why = fmt.Sprintf("%s, %s: %s", it.Stage, it.Code, it.Reason)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", it.Definition.Name, it.Tool.Origin().Source, it.State, it.Definition.Effects, tool.QuotePath(why))
			}
			return w.Flush()
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON document")
	c.Flags().StringVar(&explain, "explain", "", "only this tool, or the one that this alias leads to: its state and the reason")
	c.Flags().StringVar(&facts, "turn", "", "the list of a turn with the facts in this JSON file; unknown members are errors")
	c.Flags().BoolVar(&schema, "facts-schema", false, "print the JSON Schema of such a file")
	return c
}

// explained picks the tool of this name, or those that an alias of this name can
// lead to.
func explained(c *cobra.Command, items []catalog.Item, name string) ([]catalog.Item, error) {
	pick := func(names ...string) (out []catalog.Item) {
		for _, it := range items {
			if slices.Contains(names, it.Definition.Name) {
				out = append(out, it)
			}
		}
		return out
	}
	if one := pick(name); one != nil {
		return one, nil
	}
	targets := alias.Targets(name)
	if targets == nil {
		return nil, usageError{fmt.Errorf("no tool is named %s; wasmtools tools lists them", tool.QuotePath(name))}
	}
	found := pick(targets...)
	if found == nil {
		return nil, usageError{fmt.Errorf("%s is another name for %s, which is not registered here", name, strings.Join(targets, " or "))}
	}
	notice(c)(name + " is another name for " + strings.Join(targets, " or ") + ", for callers that use it; it is never listed")
	return found, nil
}

// readFacts reads the facts of a turn; no file means none.
func readFacts(file string) (wasmtools.Facts, error) {
	var f wasmtools.Facts
	if file == "" {
		return f, nil
	}
	p, err := os.ReadFile(file)
	if err != nil {
		return f, usageError{err}
	}
	if f, err = catalog.ParseFacts(p); err != nil {
		err = usageError{fmt.Errorf("%s: %w; wasmtools tools --facts-schema says what may stand there", file, err)}
	}
	return f, err
}

// tellPlan tells a person what the list does not show by itself.
func tellPlan(c *cobra.Command, l catalog.List) {
	for _, n := range l.Notes {
		notice(c)(n)
	}
	if d := l.Deferral; d.Deferred > 0 {
		notice(c)(fmt.Sprintf("%d tools are left to be found with %s, which saves about %d tokens: %s", d.Deferred, catalog.SearchName, d.Saved, d.Why))
	}
	for _, m := range l.Pack {
		if m.State != catalog.Exposed {
			notice(c)(fmt.Sprintf("%s of the pack is not shown: %s", m.Name, m.Reason))
		}
	}
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
