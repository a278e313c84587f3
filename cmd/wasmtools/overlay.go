package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/lockedfile"
	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// defaultOverlay is the name of the overlay of who names none.
const defaultOverlay = "default"

var overlayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// overlayFile is where an overlay of a workspace is kept between commands: in the
// state folder, which no tool reaches.
type overlayFile struct {
	path   string
	unlock func()
}

// holdOverlay locks an overlay of the workspace at root, so that two commands do
// not both go on from the same state.
func holdOverlay(root, name string) (*overlayFile, error) {
	if !overlayName.MatchString(name) {
		return nil, usageError{fmt.Errorf("%s cannot be the name of an overlay: letters, digits, and - _ . between them, 64 at most", tool.QuotePath(name))}
	}
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(userDirs().state, "overlays", hex.EncodeToString(sum[:16]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name+".json")
	unlock, err := lockedfile.MutexAt(path + ".lock").Lock()
	if err != nil {
		return nil, err
	}
	return &overlayFile{path, unlock}, nil
}

// restore gives the overlay as it was left, or a new one.
func (f *overlayFile) restore(t *wasmtools.Turn) (*wasmtools.Overlay, error) {
	saved, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return t.Overlay(), nil
	}
	if err != nil {
		return nil, err
	}
	o, err := t.Restore(saved)
	if err != nil {
		return nil, fmt.Errorf("%w; wasmtools overlay drop begins anew", err)
	}
	return o, nil
}

// save keeps the overlay; one that was never used, or was committed, is removed.
func (f *overlayFile) save(o *wasmtools.Overlay) error {
	if len(o.Calls()) == 0 && o.Writes().Empty() {
		err := os.Remove(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	b, err := o.Save()
	if err != nil {
		return err
	}
	temp := f.path + ".new"
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, f.path)
}

// runOn makes one call on an overlay that is kept between commands.
func runOn(c *cobra.Command, t *wasmtools.Turn, f *overlayFile, req wasmtools.Request) (wasmtools.Outcome, error) {
	o, err := f.restore(t)
	if err != nil {
		return wasmtools.Outcome{}, err
	}
	out := o.Call(c.Context(), req)
	return out, f.save(o)
}

func newOverlay() *cobra.Command {
	c := &cobra.Command{
		Use:   "overlay",
		Short: "Look at a dry run of several calls, commit it or drop it",
		Long: `Look at a dry run of several calls, commit it or drop it.

wasmtools run --overlay makes a call on an overlay of the workspace, which is kept
until it is committed or dropped: later calls see what earlier ones changed, and the
disk stays as it is. Only tools that run in the sandbox can be called so, and only
their effects on files are held back; others answer not_available.
NAME is "default" if it is left out.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newOverlayShow(), newOverlayCommit(), newOverlayDrop())
	return c
}

func nameOf(a []string) string {
	if len(a) > 0 {
		return a[0]
	}
	return defaultOverlay
}

// opened is an overlay with what it takes to use it.
func (f *runtimeFlags) overlay(c *cobra.Command, name string) (file *overlayFile, o *wasmtools.Overlay, done func(), err error) {
	dir, err := f.dir(c)
	if err != nil {
		return nil, nil, nil, err
	}
	if file, err = holdOverlay(realPath(dir), name); err != nil {
		return nil, nil, nil, err
	}
	rt, turn, err := f.begin(c)
	if err != nil {
		file.unlock()
		return nil, nil, nil, err
	}
	done = func() {
		rt.Close()
		f.leave()
		file.unlock()
	}
	if o, err = file.restore(turn); err != nil {
		done()
		return nil, nil, nil, err
	}
	return file, o, done, nil
}

// shownOverlay is the JSON of an overlay.
type shownOverlay struct {
	Calls  []wasmtools.OverlayCall `json:"calls"`
	Writes []evidence.Write        `json:"writes"`
	Diff   string                  `json:"diff,omitempty"`
	Stale  string                  `json:"stale,omitempty"` // why it cannot be committed
}

func newOverlayShow() *cobra.Command {
	f := runtimeFlags{}
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [NAME]",
		Short: "Show the calls of a dry run, what they were refused, and what they would change",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			_, o, done, err := f.overlay(c, nameOf(a))
			if err != nil {
				return err
			}
			defer done()
			diff, stale := o.Diff(c.Context())
			if stale != nil && tool.CodeOf(stale) == "" {
				return stale
			}
			s := shownOverlay{Calls: append([]wasmtools.OverlayCall{}, o.Calls()...), Writes: append([]evidence.Write{}, evidence.WritesOf(o.Writes())...), Diff: diff}
			if stale != nil {
				s.Stale = stale.Error()
			}
			if asJSON {
				return printLine(c.OutOrStdout(), s)
			}
			printOverlay(c.OutOrStdout(), s)
			return nil
		},
	}
	f.addWorkspace(c)
	f.approve = "ask"
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func printOverlay(w io.Writer, s shownOverlay) {
	if len(s.Calls) == 0 {
		fmt.Fprintln(w, "nothing was called on this overlay")
		return
	}
	for _, x := range s.Calls {
		state := "ok"
		if x.Code != "" {
			state = string(x.Code)
		}
		fmt.Fprintf(w, "%s  %s\n", tool.QuotePath(x.Tool), state)
		for _, r := range x.Refused {
			fmt.Fprintf(w, "  refused: %s %s: %s\n", r.What, tool.QuotePath(r.Path), r.Code)
		}
	}
	switch {
	case s.Stale != "":
		fmt.Fprintf(w, "\nIt cannot be committed: %s\n", show.Clean(s.Stale))
	case len(s.Writes) == 0:
		fmt.Fprintln(w, "\nNothing would be changed.")
	default:
		io.WriteString(w, "\n"+show.Block(s.Diff))
	}
}

func newOverlayCommit() *cobra.Command {
	f := runtimeFlags{program: "run"}
	var asJSON bool
	c := &cobra.Command{
		Use:   "commit [NAME]",
		Short: "Put everything that a dry run changed in place, or nothing",
		Long: `Put everything that a dry run changed in place, after one yes to all of it. If a
file is not what it was when it was changed, nothing is done (stale). The commit is one
in the journal, too: wasmtools undo takes all of it back.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			file, o, done, err := f.overlay(c, nameOf(a))
			if err != nil {
				return err
			}
			defer done()
			out := o.Commit(c.Context(), wasmtools.Request{})
			if err := file.save(o); err != nil {
				return err
			}
			if err := printResult(c.OutOrStdout(), out.Result, asJSON); err != nil {
				return err
			}
			if out.Result.IsError {
				return exitCode(exitForCode(out.Result.Code))
			}
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&f.approve, "approve", "ask", "who answers for changes: ask (a person), all (yes to everything), none (no to everything)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one line of JSON")
	return c
}

func newOverlayDrop() *cobra.Command {
	var f runtimeFlags
	c := &cobra.Command{
		Use:   "drop [NAME]",
		Short: "Forget a dry run",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			dir, err := f.dir(c)
			if err != nil {
				return err
			}
			file, err := holdOverlay(realPath(dir), nameOf(a))
			if err != nil {
				return err
			}
			defer file.unlock()
			err = os.Remove(file.path)
			if errors.Is(err, fs.ErrNotExist) {
				notice(c)("there is no such overlay")
				return nil
			}
			return err
		},
	}
	f.addWorkspace(c)
	return c
}
