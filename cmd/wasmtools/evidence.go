package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/evidence/index"
	"github.com/wasmtools/wasmtools/tool"
)

func newEvidence() *cobra.Command {
	c := &cobra.Command{
		Use:   "evidence",
		Short: "Look at the record of calls, and check that nobody changed it",
		Long: `Look at the record of the calls in a workspace, and check that nobody changed it.

Every call leaves an intent before it acts and an outcome before it answers.
docs/evidence.md says what the record holds, and what it proves.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		newEvidenceList(), newEvidenceShow(), newEvidenceTail(), newEvidenceExport(), newEvidenceVerify(),
		newEvidenceAnchor(), newEvidencePrune(), newEvidenceRebuild(),
	)
	return c
}

// recordDir is the folder of the record of the workspace that the flags name.
func (f *runtimeFlags) recordDir(c *cobra.Command) (string, error) {
	dir, err := f.dir(c)
	if err != nil {
		return "", err
	}
	return evidence.Dir(userDirs().state, realPath(dir)), nil
}

var errNothing = errors.New("nothing is recorded for this workspace")

// openReader opens the record for reading; errNothing if there is none.
func (f *runtimeFlags) openReader(c *cobra.Command) (*evidence.Reader, error) {
	dir, err := f.recordDir(c)
	if err != nil {
		return nil, err
	}
	r, err := evidence.OpenReader(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNothing
	}
	return r, err
}

// openExisting opens the record for writing, if there is one.
func (f *runtimeFlags) openExisting(c *cobra.Command) (*evidence.Log, error) {
	if _, err := f.openReader(c); err != nil {
		return nil, err
	}
	dir, err := f.dir(c)
	if err != nil {
		return nil, err
	}
	return openRecord(userDirs(), realPath(dir))
}

// callFlags choose calls.
type callFlags struct {
	index.Filter
	since, until string
	status       []string
	effect       []string
	before       string
}

func (f *callFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "", "only calls since then: a span such as 24h, or a time such as 2026-11-30 or 2026-11-30T12:00:00Z")
	c.Flags().StringVar(&f.until, "until", "", "only calls before then")
	c.Flags().StringVar(&f.Tool, "tool", "", "only this tool; * and ? match as in file names")
	c.Flags().StringSliceVar(&f.status, "status", nil, "only calls that ended so: completed, failed, denied, timeout, cancelled, waiting, interrupted, running")
	c.Flags().StringVar(&f.Path, "path", "", "only calls that touched or named this path or one below it; * and ? match anything, also /")
	c.Flags().StringVar(&f.Host, "host", "", "only calls that asked this host; * and ? match")
	c.Flags().StringVar(&f.Approver, "approver", "", "only calls about which this one decided; * and ? match")
	c.Flags().StringSliceVar(&f.effect, "effect", nil, "only calls of tools with one of these effects: read, write, destroy, execute, network")
	c.Flags().StringVar(&f.Session, "session", "", "only calls of this session")
	c.Flags().StringVar(&f.Call, "call", "", "only calls with this call id")
	c.Flags().StringVar(&f.Ticket, "ticket", "", "only calls that waited for this ticket")
}

var statuses = []evidence.Status{
	evidence.Completed, evidence.Failed, evidence.Denied, evidence.Timeout, evidence.Cancelled, evidence.Waiting, evidence.Interrupted, evidence.Running,
}

// filter reads the flags.
func (f *callFlags) filter(now time.Time) (index.Filter, error) {
	var err error
	if f.Limit < 0 {
		return f.Filter, usageError{fmt.Errorf("--limit is a number of calls, not %d", f.Limit)}
	}
	if f.Since, err = parseSince(f.since, now); err != nil {
		return f.Filter, usageError{err}
	}
	if f.until != "" {
		if f.Until, err = parseSince(f.until, now); err != nil {
			return f.Filter, usageError{fmt.Errorf("--until: %w", err)}
		}
	}
	for _, s := range f.status {
		if !slices.Contains(statuses, evidence.Status(s)) {
			return f.Filter, usageError{fmt.Errorf("--status is one of %s, not %q", joinStatuses(), s)}
		}
		f.Status = append(f.Status, evidence.Status(s))
	}
	for _, e := range f.effect {
		var one tool.Effects
		if err := one.UnmarshalJSON([]byte(fmt.Sprintf("[%q]", e))); err != nil {
			return f.Filter, usageError{fmt.Errorf("--effect: %w", err)}
		}
		f.Effects |= one
	}
	f.Before = evidence.Handle(f.before)
	return f.Filter, nil
}

func joinStatuses() string {
	list := make([]string, len(statuses))
	for i, s := range statuses {
		list[i] = string(s)
	}
	return strings.Join(list, ", ")
}

// find lists calls through the index, or without it where it cannot be kept.
func find(c *cobra.Command, r *evidence.Reader, f index.Filter) ([]index.Row, error) {
	x, err := index.Open(c.Context(), r)
	if err != nil {
		verbose(c)(fmt.Sprintf("no index, reading the whole record: %v", err))
		return index.Scan(r, f)
	}
	defer x.Close()
	return x.List(c.Context(), f)
}

func newEvidenceList() *cobra.Command {
	var f runtimeFlags
	var calls callFlags
	var asJSON, asLines bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List calls, newest first",
		Long: `List calls, newest first.

The list comes from an index beside the record, for which nothing vouches: evidence
verify checks the record, evidence rebuild makes the index from it anew, and
evidence show reads the record itself.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := calls.filter(time.Now())
			if err != nil {
				return err
			}
			r, err := f.openReader(c)
			rows := []index.Row{}
			if err == nil {
				if rows, err = find(c, r, filter); rows == nil {
					rows = []index.Row{}
				}
			}
			if errors.Is(err, errNothing) {
				notice(c)(err.Error())
				err = nil
			}
			if err != nil {
				return err
			}
			switch w := c.OutOrStdout(); {
			case asJSON:
				return printLine(w, rows)
			case asLines:
				for _, row := range rows {
					if err := printLine(w, row); err != nil {
						return err
					}
				}
				return nil
			default:
				return printRows(w, rows)
			}
		},
	}
	f.addWorkspace(c)
	calls.add(c)
	c.Flags().IntVarP(&calls.Limit, "limit", "n", 50, "at most so many; 0 means all")
	c.Flags().StringVar(&calls.before, "before", "", "only calls before the one with this id: the next page")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&asLines, "jsonl", false, "print one line of JSON for each call")
	return c
}

func printRows(w io.Writer, rows []index.Row) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tAT\tSTATUS\tTOOL\tBY\tWHAT")
	for _, r := range rows {
		status := string(r.Status)
		if r.Code != "" && string(r.Code) != status {
			status += " " + string(r.Code)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.At.Format(time.RFC3339), cell(status), cell(r.Tool), cell(r.Approver), cell(r.Summary))
	}
	return t.Flush()
}

// cell is a text of a stranger in a table.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return tool.QuotePath(s)
}

func notRecorded(id string) error {
	return fmt.Errorf("no call %s is recorded; wasmtools evidence list shows the ids", tool.QuotePath(id))
}

func newEvidenceShow() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything that is recorded of a call",
		Long: `Show everything that is recorded of a call, by the id that list shows, or by the
caller's own id of the call. If several calls have it, the newest is shown.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := f.openReader(c)
			if err != nil {
				return err
			}
			found, err := r.Find(a[0])
			if errors.Is(err, fs.ErrNotExist) {
				return notRecorded(a[0])
			} else if err != nil {
				return err
			}
			if len(found) > 1 {
				ids := make([]string, 0, len(found))
				for _, o := range found[1:] {
					ids = append(ids, string(o.Handle))
				}
				notice(c)(fmt.Sprintf("%d older calls have the id %s: %s", len(ids), tool.QuotePath(a[0]), strings.Join(ids, ", ")))
			}
			if asJSON {
				return printLine(c.OutOrStdout(), found[0])
			}
			return printCall(c.OutOrStdout(), found[0])
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func newEvidenceExport() *cobra.Command {
	var f runtimeFlags
	var calls callFlags
	var to string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the record as lines of JSON, for others to check",
		Long: `Write the record as lines of JSON, exactly as they stand. Whoever has the public
key can check them: wasmtools evidence verify --file FILE --key KEY.

With filters only the lines of the chosen calls are written. They are no chain
any more.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := calls.filter(time.Now())
			if err != nil {
				return err
			}
			r, err := f.openReader(c)
			if err != nil {
				return err
			}
			var choose func(*evidence.Line) bool
			if calls.any(c) {
				rows, err := find(c, r, filter)
				if err != nil {
					return err
				}
				chosen := make(map[evidence.Handle]bool, len(rows))
				for _, row := range rows {
					chosen[row.ID] = true
				}
				choose = func(l *evidence.Line) bool { return chosen[l.Call()] }
			} else if err := f.sign(c); err != nil {
				notice(c)(fmt.Sprintf("the newest records are not signed: %v", err))
			}
			w := c.OutOrStdout()
			if to != "" && to != "-" {
				file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return err
				}
				n, err := r.Export(file, choose)
				if err = errors.Join(err, file.Close()); err == nil {
					notice(c)(fmt.Sprintf("%d records are in %s", n, to))
				}
				return err
			}
			_, err = r.Export(w, choose)
			return err
		},
	}
	f.addWorkspace(c)
	calls.add(c)
	c.Flags().StringVarP(&to, "output", "o", "", "write into this file, which must not exist yet")
	return c
}

// any reports whether a flag chooses calls.
func (f *callFlags) any(c *cobra.Command) bool {
	return slices.ContainsFunc([]string{"since", "until", "tool", "status", "path", "host", "approver", "effect", "session", "call", "ticket"}, c.Flags().Changed)
}

// sign signs the record up to now.
func (f *runtimeFlags) sign(c *cobra.Command) error {
	l, err := f.openExisting(c)
	if err != nil {
		return err
	}
	return errors.Join(l.Sign(), l.Close())
}

func newEvidenceRebuild() *cobra.Command {
	var f runtimeFlags
	c := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the index of list anew from the record",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := f.openReader(c)
			if err != nil {
				return err
			}
			x, err := index.Open(c.Context(), r)
			if err != nil {
				return err
			}
			defer x.Close()
			n, err := x.Rebuild(c.Context())
			if err == nil {
				notice(c)(fmt.Sprintf("%d calls are in the index", n))
			}
			return err
		},
	}
	f.addWorkspace(c)
	return c
}
