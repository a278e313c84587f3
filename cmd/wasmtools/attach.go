package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/tool"
)

// detachKey is ctrl-], as telnet has it.
const detachKey = 0x1d

func newAttach() *cobra.Command {
	var readOnly bool
	c := &cobra.Command{
		Use:   "attach [flags] SESSION",
		Short: "Take part in a session that a model opened (for a person, at a terminal)",
		Long: `Take part in a session of terminal_session that a model opened: see its terminal,
and type into it, a password for instance. What you type runs without a question,
is counted in the record as yours, and shown to the model as far as the programs
show it. Ctrl-] leaves; the session goes on.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := humanHere(c.Context()); err != nil {
				return tool.Errorf(tool.Denied, "%v", err).WithNext("run this in a terminal of your own")
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
			return takePart(c, in, joined, readOnly)
		},
	}
	c.Flags().BoolVar(&readOnly, "read-only", false, "only look")
	return c
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

// takePart connects the terminal to a session until one of them ends.
func takePart(c *cobra.Command, in *os.File, joined *channel.Attached, readOnly bool) error {
	fd := int(in.Fd())
	notice(c)("ctrl-] leaves")
	before, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer func() {
		_ = term.Restore(fd, before)
		fmt.Fprintln(c.ErrOrStderr())
	}()
	done := make(chan error, 2)
	go func() {
		for {
			p, err := joined.Next()
			if err == nil {
				_, err = c.OutOrStdout().Write(p)
			}
			if err != nil {
				done <- nil // the session, or its runtime, has ended
				return
			}
		}
	}()
	go func() {
		var cols, rows int
		buf := make([]byte, 4096)
		for {
			if w, h, err := term.GetSize(fd); err == nil && !readOnly && (w != cols || h != rows) {
				cols, rows = w, h
				_ = joined.Resize(cols, rows) // the session shows itself if it is gone
			}
			n, err := in.Read(buf)
			typed, _, leaves := bytes.Cut(buf[:n], []byte{detachKey})
			if len(typed) > 0 && !readOnly && err == nil {
				err = joined.Type(typed)
			}
			if leaves || err != nil {
				done <- nil
				return
			}
		}
	}()
	select {
	case err := <-done:
		return err
	case <-c.Context().Done():
		return c.Context().Err()
	}
}
