package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/internal/tame"
	"github.com/wasmtools/wasmtools/tool"
)

// detachKey is ctrl-], as telnet has it.
const detachKey = 0x1d

func newAttach() *cobra.Command {
	var readOnly bool
	c := &cobra.Command{
		Use:   "attach [flags] [SESSION]",
		Short: "Take part in a session that a model opened (for a person, at a terminal)",
		Long: `Take part in a session of terminal_session that a model opened: see its terminal,
and type into it, a password for instance. What you type runs without a question,
is counted in the record as yours, and shown to the model as far as the programs
show it. Ctrl-] leaves; the session goes on.

Without a session it lists those that can be joined: name, since when, profile,
the program in the foreground, and workspace.

What the session's programs print draws on your terminal and does nothing else:
titles, links, the clipboard, the mouse and questions to the terminal are left out.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := humanHere(c.Context()); err != nil {
				return tool.Errorf(tool.Denied, "%v", err).WithNext("run this in a terminal of your own")
			}
			if len(a) == 0 {
				return listSessions(c)
			}
			in, isFile := c.InOrStdin().(*os.File)
			if !isFile || !term.IsTerminal(int(in.Fd())) {
				return usageError{errors.New("attach needs a terminal as its input")}
			}
			joined, leave, err := findSession(c, a[0], readOnly)
			if err != nil {
				return err
			}
			defer leave()
			return takePart(c, in, joined, leave, readOnly)
		},
	}
	c.Flags().BoolVar(&readOnly, "read-only", false, "only look")
	return c
}

// listSessions prints what can be joined, of all runtimes.
func listSessions(c *cobra.Command) error {
	clients, problems, err := channel.Find(c.Context(), channel.Folder(userDirs().run))
	if err != nil {
		return err
	}
	var all []channel.Session
	for _, x := range clients {
		l, err := x.Joinable()
		if err != nil {
			problems = append(problems, channel.Problem{Runtime: channel.Process{PID: x.About().PID, Start: x.About().Start}, Err: err})
		}
		all = append(all, l...)
		_ = x.Close()
	}
	for _, p := range problems {
		notice(c)(fmt.Sprintf("a runtime could not be asked: %v", p))
	}
	if len(all) == 0 {
		notice(c)("no session can be joined: ask for one that a model opens with op open of terminal_session, or for an exec with tty, while its server runs")
		return nil
	}
	slices.SortStableFunc(all, func(a, b channel.Session) int { return a.Since.Compare(b.Since) })
	t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(s.ID), s.Since.UTC().Format(time.RFC3339), cell(s.Profile), cell(s.Foreground), cell(s.Workspace))
	}
	return t.Flush()
}

// findSession joins a session, whichever runtime has it.
func findSession(c *cobra.Command, session string, readOnly bool) (*channel.Attached, func(), error) {
	clients, problems, err := channel.Find(c.Context(), channel.Folder(userDirs().run))
	if err != nil {
		return nil, nil, err
	}
	leave := func() {
		for _, x := range clients {
			_ = x.Close()
		}
	}
	err = channel.ErrNoSession
	for _, x := range clients {
		joined, jerr := x.Attach(session, readOnly)
		if jerr == nil {
			return joined, leave, nil
		}
		if !errors.Is(jerr, channel.ErrNoSession) {
			err = jerr
		}
	}
	leave()
	for _, p := range problems {
		notice(c)(fmt.Sprintf("a runtime could not be asked: %v", p))
	}
	return nil, nil, fmt.Errorf("%s: %w", tool.QuotePath(session), err)
}

// takePart connects the terminal to a session until one of them ends, and leaves
// it as it was.
func takePart(c *cobra.Command, in *os.File, joined *channel.Attached, leave func(), readOnly bool) error {
	// These would end the program with the terminal still raw.
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	fd := int(in.Fd())
	// First: whoever types at once must not be shown a password by this terminal.
	before, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	fmt.Fprint(noticeWriter(c), "wasmtools: ctrl-] leaves\r\n")
	ends, shown := make(chan error, 2), make(chan struct{})
	var screen tame.Filter
	go func() {
		defer close(shown)
		ends <- guarded(func() error { return showScreen(c.OutOrStdout(), &screen, joined) })
	}()
	go func() {
		ends <- guarded(func() error { return typeKeys(in, fd, joined, readOnly) })
	}()
	select {
	case err = <-ends:
	case <-ctx.Done():
		err = exitCode(exitInterrupted)
	}
	_ = term.Restore(fd, before)
	leave()
	select {
	case <-shown: // nobody else writes to the terminal any more
		_, _ = c.OutOrStdout().Write(screen.Reset())
		fmt.Fprintln(c.ErrOrStderr())
	case <-time.After(time.Second): // it takes nothing
	}
	switch {
	case err == nil:
		notice(c)("you have left; the session goes on")
	case errors.Is(err, channel.ErrOver):
		notice(c)("the session has ended")
		err = nil
	}
	return err
}

// guarded turns a panic into an error: it must not end the program with the
// terminal still raw.
func guarded(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("attach panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return do()
}

// showScreen shows what the session's terminal shows, as far as it only draws,
// until the session or its runtime ends.
func showScreen(w io.Writer, screen *tame.Filter, joined *channel.Attached) error {
	var out []byte
	for {
		p, anew, err := joined.Next()
		if err != nil {
			return err
		}
		out = out[:0]
		if anew {
			out = append(append(out, screen.Reset()...), "\r\n[some output was skipped]\r\n"...)
		}
		if out = screen.Next(out, p); len(out) == 0 {
			continue
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
}

// typeKeys types what comes from the terminal, until the detach key or the
// terminal's end, and gives the session its size.
func typeKeys(in io.Reader, fd int, joined *channel.Attached, readOnly bool) error {
	if !readOnly {
		changes, stop := sizeChanges()
		defer stop()
		go func() {
			var cols, rows int
			for ok := true; ok; _, ok = <-changes {
				if w, h, err := term.GetSize(fd); err == nil && (w != cols || h != rows) {
					cols, rows = w, h
					_ = joined.Resize(cols, rows) // a session that is gone shows itself otherwise
				}
			}
		}()
	}
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		typed, _, leaves := bytes.Cut(buf[:n], []byte{detachKey})
		if len(typed) > 0 && !readOnly {
			readOnly = joined.Type(typed) != nil // then it is over, and showScreen knows why
		}
		if leaves || err != nil {
			return nil
		}
	}
}
