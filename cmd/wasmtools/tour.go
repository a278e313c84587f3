package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

// shownLines is how much of a result the tour prints.
const shownLines = 6

func newTour() *cobra.Command {
	return &cobra.Command{
		Use:   "tour [DIR]",
		Short: "Make real calls on a scratch copy of a tree and show each result and time",
		Long: `Make real calls on a scratch copy of a tree (the current directory by default) and
show each with its result and time: reading, searching, editing with each change
approved, an attempt to plant editor settings, two attempts to leave the workspace,
a guest that loops for ever, and a command in a sandbox; how the tools of a turn
are chosen among 300, and what becomes of a result of two megabytes; then what was
recorded of it. Nothing outside the scratch copy is changed.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			dir := "."
			if len(a) == 1 {
				dir = a[0]
			}
			if err := needDir(dir); err != nil {
				return err
			}
			return tour(c.Context(), c, dir)
		},
	}
}

// stop is one stop of the tour: a call and the code that it has to end with.
type stop struct {
	title string
	tool  string
	args  map[string]any
	want  tool.Code // "" = success
}

func tour(ctx context.Context, c *cobra.Command, dir string) error {
	w := c.OutOrStdout()
	began := time.Now()
	scratch, err := os.MkdirTemp("", "wasmtools-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	outside, tree := filepath.Join(scratch, "outside"), filepath.Join(scratch, "tree")
	sample, err := layScratch(dir, tree, outside)
	if err != nil {
		return err
	}
	guest, err := hostileGuest()
	if err != nil {
		return err
	}
	record, err := openTourRecord(scratch, tree)
	if err != nil {
		return err
	}
	defer record.log.Close()
	d := userDirs()
	// What the tour archives is of use to nobody.
	defer os.RemoveAll(artifact.Dir(d.state, realPath(tree)))
	rt, err := wasmtools.Open(ctx, wasmtools.Options{
		Workspaces: []wasmtools.Workspace{{Dir: tree, Evidence: record.log}},
		Modules:    []wasmtools.Module{{Code: guest}},
		Sources:    tourSources(),
		Approvers:  []approval.Approver{approval.Func(showAndAnswer(w))},
		StateDir:   d.state, CacheDir: d.cache, CompileChild: compileChild(), Notice: notice(c),
		Terminal: commands(config.Terminal{}, d.state),
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	none := []string{}
	turn, err := rt.Begin(ctx, wasmtools.Facts{Agent: &catalog.Agent{MCPServers: &none}}) // the other servers come later
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "A scratch copy of %d files is the workspace. %d tools are offered.\n", sample.files, len(turn.Tools()))

	stops := []stop{
		{"See what is there", "read_discover", map[string]any{"mode": "list", "max_results": shownLines}, ""},
		{"Find a file by name", "read_discover", map[string]any{"mode": "locate", "query": filepath.Base(sample.name)}, ""},
		{"Search every file", "grep", map[string]any{"pattern": `\b(func|def|class|import|the)\b`, "mode": "content", "limit": 5}, ""},
		{"Read part of a file", "read_open", map[string]any{"path": sample.name, "selection": map[string]any{"lines": map[string]any{"start": 1, "end": 3}}}, ""},
		{"Create a file: the change is shown, then made", "write_file", map[string]any{"path": sample.own + "/notes.txt", "content": "one\ntwo\nthree\n"}, ""},
		{"Edit it: only the bytes that were named change", "replace_block", map[string]any{"path": sample.own + "/notes.txt", "old": "two", "new": "2"}, ""},
		{"Try to plant settings that an editor would act on later", "write_file", map[string]any{"path": ".vscode/" + sample.own + ".json", "content": "{}\n"}, tool.Denied},
		{"Try to leave the workspace by a path", "read_open", map[string]any{"path": "../outside/secret.txt"}, tool.OutsideRoot},
		{"Try to leave it through a link that stands in the tree", "read_open", map[string]any{"path": sample.link + "/secret.txt"}, tool.OutsideRoot},
		{"Run a stranger's guest that loops for ever", "loop_for_ever", map[string]any{}, tool.Timeout},
	}
	command, without := tourCommand(ctx, rt, sample.own)
	if without == "" {
		stops = append(stops, command)
	}
	t := tourRun{w: w, rt: rt}
	for _, s := range stops {
		t.call(ctx, turn, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if now, err := os.ReadFile(filepath.Join(outside, "secret.txt")); err != nil || string(now) != secretText {
		t.must(false, "a file outside the workspace was changed")
	}
	if without != "" {
		fmt.Fprintf(w, "\nNo command is run: %s. Then commands are refused, and never run without a sandbox.\n", without)
	}
	if err := t.turns(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(w, "\nWhat was recorded of all this:\n")
	if err := record.show(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nYour tree was only read; the scratch copy is removed. %s in all.\n", roundTime(time.Since(began)))
	if t.failed > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "error: %d things were not as they have to be; wasmtools doctor may tell why\n", t.failed)
		return exitCode(exitFailure)
	}
	return nil
}

// tourCommand is the stop that runs a command, or why there is none: no sandbox
// can be had here.
func tourCommand(ctx context.Context, rt *wasmtools.Runtime, own string) (s stop, without string) {
	without = "no sandbox can be had on this system"
	for _, h := range rt.Sandboxes(ctx) {
		if h.OK && strings.HasPrefix(h.Detail, proctree.WorkspaceWrite+":") {
			text := "wc -l " + own + "/notes.txt; echo changed > ../outside/secret.txt"
			return stop{"Run a command in a sandbox: it changes the tree, and nothing else", "terminal_session", map[string]any{"op": "exec", "command": text}, ""}, ""
		}
		if !h.OK {
			without = h.Detail
		}
	}
	return stop{}, without
}

// showAndAnswer is the tour's approver: it prints what it is asked, as a person
// would see it, and says yes to what is inside the tree and not protected.
func showAndAnswer(w io.Writer) func(approval.Request) approval.Decision {
	return func(r approval.Request) approval.Decision {
		fmt.Fprintf(w, "   asked: may %s do exactly this?\n", r.Tool)
		switch {
		case r.Preview.Command != "":
			printIndented(w, r.Preview.Command)
		case r.Preview.Diff != "":
			printIndented(w, r.Preview.Diff)
		default:
			printIndented(w, string(r.Arguments))
		}
		if r.InPerson {
			fmt.Fprintf(w, "   the path is protected: %s\n   answered: no (the tour answers for you)\n", r.Asked.Why)
			return approval.Decision{Verdict: approval.Deny, By: "the tour", Channel: "go", Reason: "protected paths stay as they are"}
		}
		fmt.Fprintln(w, "   answered: yes (the tour answers for you)")
		return approval.Decision{Verdict: approval.Allow, By: "the tour", Channel: "go"}
	}
}

func printIndented(w io.Writer, text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, l := range lines {
		if i == shownLines {
			fmt.Fprintf(w, "   | ... %d more lines\n", len(lines)-i)
			return
		}
		if r := []rune(l); len(r) > 100 {
			l = string(r[:99]) + "…"
		}
		fmt.Fprintf(w, "   | %s\n", l)
	}
}

func roundTime(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
