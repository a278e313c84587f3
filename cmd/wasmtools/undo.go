package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// byPerson is what the journal and the record say of commands of this program.
const byPerson = "wasmtools undo"

// files opens the workspace that the flags name, with the lists of the
// configuration, but no runtime.
func (f *runtimeFlags) files(c *cobra.Command) (*workspace.Workspace, error) {
	dir, err := f.dir(c)
	if err != nil {
		return nil, err
	}
	src, err := settings(c, dir, "")
	if err != nil {
		return nil, err
	}
	d, set := userDirs(), src.Settings()
	return workspace.Open(dir, workspace.Options{
		StateDir: d.state, Deny: d.private(), Journal: journal(set.Undo), Notice: notice(c),
		DenyRead: set.Workspace.DenyRead, Protect: set.Workspace.Protect, AllowRead: set.Workspace.AllowRead,
		AllowHardLinks: set.Workspace.HardLinks,
	})
}

func newUndo() *cobra.Command {
	var f runtimeFlags
	var o workspace.UndoOptions
	var list, asJSON bool
	c := &cobra.Command{
		Use:   "undo",
		Short: "Take back what tools changed (for a person, at a terminal)",
		Long: `Take back what tools changed in the workspace: the last commit, or what --call,
--turn, --commit or --to names. Files get the content, the mode and the names that
they had. If anything is not as the commit left it, nothing is touched, and what is
in the way is listed. An undo can be undone itself (--commit).

--dry-run shows what would be done, and --list what was done so far; neither needs a
person. What commands did in a terminal is not journaled; docs/undo.md.`,
		Example: `  wasmtools undo --list
  wasmtools undo --dry-run
  wasmtools undo --to before-refactoring`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if n := countSet(o.Call != "", o.Turn != "", o.Commit != 0, o.To != ""); n > 1 {
				return usageError{errors.New("--call, --turn, --commit and --to exclude each other")}
			}
			if err := f.recordedCall(c, &o); err != nil {
				return err
			}
			w, err := f.files(c)
			if err != nil {
				return err
			}
			defer w.Close()
			if list {
				return listCommits(c, w, asJSON)
			}
			if !o.DryRun {
				if err := humanHere(c.Context()); err != nil {
					return err
				}
			}
			return undo(c, w, o, asJSON)
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&o.Call, "call", "", "the commits of this call, by its own id or by the one that wasmtools evidence list shows")
	c.Flags().StringVar(&o.Turn, "turn", "", "the commits of this turn")
	c.Flags().StringVar(&o.Session, "session", "", "the session of the call or turn, if several have one of that name")
	c.Flags().Uint64Var(&o.Commit, "commit", 0, "the commit of this number")
	c.Flags().StringVar(&o.To, "to", "", "all commits since this checkpoint, or since the commit of this number")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only show what would be done")
	c.Flags().BoolVar(&list, "list", false, "list the commits and checkpoints, oldest first")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// recordedCall turns the number of a call in the record into its own id and its
// session.
func (f *runtimeFlags) recordedCall(c *cobra.Command, o *workspace.UndoOptions) error {
	if _, err := strconv.ParseUint(o.Call, 10, 64); err != nil || o.Session != "" {
		return nil
	}
	r, err := f.openReader(c)
	if err != nil {
		return err
	}
	found, err := r.Find(o.Call)
	if errors.Is(err, fs.ErrNotExist) {
		return notRecorded(o.Call)
	} else if err != nil {
		return err
	}
	o.Call, o.Session = found[0].Intent.Call, found[0].Intent.Session
	return nil
}

func countSet(given ...bool) int {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// undone is the JSON of an undo.
type undone struct {
	Commits   []uint64             `json:"commits"`
	By        uint64               `json:"by,omitempty"` // the commit that did it
	Writes    []evidence.Write     `json:"writes,omitempty"`
	Notes     []string             `json:"notes,omitempty"`
	Conflicts []workspace.Conflict `json:"conflicts,omitempty"`
	Diff      string               `json:"diff,omitempty"`
}

func undo(c *cobra.Command, w *workspace.Workspace, o workspace.UndoOptions, asJSON bool) error {
	o.By = workspace.By{Tool: byPerson}
	u, err := w.Undo(c.Context(), o)
	if err != nil {
		return err
	}
	if u.Seq != 0 {
		if err := recordUndo(c, w, u); err != nil {
			notice(c)("the undo is done, but could not be recorded: " + err.Error())
		}
	}
	if asJSON {
		r := undone{By: u.Seq, Writes: evidence.WritesOf(u.Writes), Notes: u.Notes, Conflicts: u.Conflicts, Diff: u.Diff}
		for _, l := range u.Commits {
			r.Commits = append(r.Commits, l.Seq)
		}
		if err := printLine(c.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		printUndo(c.OutOrStdout(), u, o.DryRun)
	}
	if len(u.Conflicts) > 0 {
		return exitCode(exitMismatch)
	}
	return nil
}

func printUndo(out io.Writer, u workspace.Undone, dry bool) {
	if len(u.Conflicts) > 0 {
		fmt.Fprintln(out, "Nothing was changed: these are not as they were left.")
		for _, x := range u.Conflicts {
			fmt.Fprintf(out, "  %s (commit %d): %s\n", tool.QuotePath(x.Path), x.Seq, show.Clean(x.Why))
		}
		return
	}
	io.WriteString(out, show.Block(u.Diff))
	for _, n := range u.Notes {
		fmt.Fprintln(out, show.Clean(n))
	}
	var seqs []string
	for _, l := range u.Commits {
		seqs = append(seqs, fmt.Sprint(l.Seq))
	}
	what := "commit " + seqs[0]
	if len(seqs) > 1 {
		what = fmt.Sprintf("%d commits (%s to %s)", len(seqs), seqs[len(seqs)-1], seqs[0])
	}
	switch {
	case dry:
		fmt.Fprintf(out, "%s would be undone; nothing was changed\n", what)
	case u.Seq == 0:
		fmt.Fprintf(out, "%s left nothing to put back\n", what)
	default:
		fmt.Fprintf(out, "undid %s; to have it back: wasmtools undo --commit %d\n", what, u.Seq)
	}
}

// recordUndo writes what a person took back into the record of the workspace.
func recordUndo(c *cobra.Command, w *workspace.Workspace, u workspace.Undone) error {
	log, err := openRecord(userDirs(), w.RealPath())
	if err != nil {
		return err
	}
	h, err := log.Begin(evidence.Intent{
		Call: fmt.Sprintf("undo-%d", u.Seq), Tool: "undo", Source: tool.Native, From: "wasmtools", Effects: tool.Writes,
		Arguments: fmt.Appendf(nil, `{"commits":%d,"newest":%d,"oldest":%d}`, len(u.Commits), u.Commits[0].Seq, u.Commits[len(u.Commits)-1].Seq),
	})
	if err == nil {
		now := time.Now()
		err = log.End(h, evidence.Outcome{Status: evidence.Completed, Began: now, Writes: evidence.WritesOf(u.Writes)})
	}
	return errors.Join(err, log.Close())
}

func listCommits(c *cobra.Command, w *workspace.Workspace, asJSON bool) error {
	log, err := w.Log(c.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return printLine(c.OutOrStdout(), append([]workspace.Logged{}, log...))
	}
	if len(log) == 0 {
		notice(c)("nothing was committed in this workspace, or nothing is kept of it any more")
		return nil
	}
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COMMIT\tAT\tTOOL\tCALL\tTURN\tSTATE\tCHANGES")
	for _, l := range log {
		state := "in force"
		switch {
		case l.Checkpoint != "":
			state = "checkpoint"
		case l.UndoneBy != 0:
			state = fmt.Sprintf("undone by %d", l.UndoneBy)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Seq, l.At.Format(time.RFC3339), cell(l.By.Tool), cell(l.By.Call), cell(l.By.Turn), state, summary(l))
	}
	return t.Flush()
}

// summary says what a commit changed, in a few words.
func summary(l workspace.Logged) string {
	if l.Checkpoint != "" {
		return tool.QuotePath(l.Checkpoint)
	}
	const shown = 3
	var parts []string
	left := 0
	for i, ch := range l.Changes {
		// A removed directory speaks for what was in it, which comes right before.
		if ch.Op == tool.OpDelete && slices.ContainsFunc(l.Changes[i+1:], func(d workspace.LoggedChange) bool {
			return d.Op == tool.OpDelete && strings.HasPrefix(ch.Path, d.Path+"/")
		}) {
			continue
		}
		if len(parts) == shown {
			left++
			continue
		}
		verb := string(ch.Op)
		if ch.Op == tool.OpWrite && ch.Was == "" {
			verb = "create"
		}
		path := ch.Path
		if ch.Op == tool.OpMove {
			path = ch.From
		}
		parts = append(parts, verb+" "+tool.QuotePath(path))
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(parts, ", ")
}

func newCheckpoint() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "checkpoint [NAME]",
		Short: "Mark this moment, to come back to it with undo --to",
		Long: `Mark this moment in the journal of the workspace. It copies nothing and costs
nothing: wasmtools changes NAME lists what tools changed since, and
wasmtools undo --to NAME takes it back.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			name := ""
			if len(a) > 0 {
				if name = a[0]; name == "" {
					return usageError{errors.New("the checkpoint's name is empty")}
				}
			}
			w, err := f.files(c)
			if err != nil {
				return err
			}
			defer w.Close()
			l, err := w.Checkpoint(c.Context(), name, workspace.By{Tool: "wasmtools checkpoint"})
			if err != nil {
				return err
			}
			if asJSON {
				return printLine(c.OutOrStdout(), l)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), l.Checkpoint)
			return err
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func newChanges() *cobra.Command {
	var f runtimeFlags
	var asJSON, names bool
	c := &cobra.Command{
		Use:   "changes [CHECKPOINT]",
		Short: "Show what tools changed since a checkpoint",
		Long: `Show what tools changed in the workspace since a checkpoint, or since the journal
begins, as a diff. What was changed and changed back is left out. Files that
something else changed as well, such as a command in a terminal, are marked: no undo
takes that back.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			since := ""
			if len(a) > 0 {
				since = a[0]
			}
			w, err := f.files(c)
			if err != nil {
				return err
			}
			defer w.Close()
			list, err := w.Changes(c.Context(), since)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			switch {
			case asJSON:
				return printLine(out, append([]workspace.Changed{}, list...))
			case len(list) == 0:
				notice(c)("no tool changed anything that is not as it was")
				return nil
			}
			for _, x := range list {
				line := x.Kind + " " + tool.QuotePath(x.Path)
				if x.From != "" {
					line += " from " + tool.QuotePath(x.From)
				}
				if x.Outside {
					line += " (something else changed it too: not journaled)"
				}
				fmt.Fprintln(out, line)
				if !names {
					io.WriteString(out, show.Block(x.Diff))
				}
			}
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&names, "names", false, "only the names, no diff")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
