package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/artifact"
	"github.com/wasmtools/wasmtools/tool"
)

func newArtifacts() *cobra.Command {
	c := &cobra.Command{
		Use:   "artifacts",
		Short: "Look at outputs that were too long to be shown",
		Long: `Look at outputs of calls that were too long to be shown to a model.

A model reads them by artifact:HANDLE with read_open and grep, and only in the
session that made them; a person sees those of all sessions of a workspace here.
docs/artifacts.md says what is kept, and for how long.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newArtifactsList(), newArtifactsShow(), newArtifactsExport(), newArtifactsPrune())
	return c
}

// artifacts opens the store of the workspace that the flags name.
func (f *runtimeFlags) artifacts(c *cobra.Command) (*artifact.Store, error) {
	dir, err := f.dir(c)
	if err != nil {
		return nil, err
	}
	return artifact.Open(artifact.Dir(userDirs().state, realPath(dir)), artifact.Options{}), nil
}

// findArtifact is the artifact that an argument names, with or without the
// scheme before its handle.
func findArtifact(s *artifact.Store, arg string) (artifact.Info, error) {
	handle := strings.TrimPrefix(arg, "artifact:")
	if !artifact.ValidHandle(handle) {
		return artifact.Info{}, usageError{fmt.Errorf("%s is no handle, which has 26 letters and digits; wasmtools artifacts list shows them", tool.QuotePath(arg))}
	}
	info, err := s.FindAny(handle)
	if errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf("this workspace has no artifact %s; wasmtools artifacts list shows those that it has", handle)
	}
	return info, err
}

// openArtifact opens the content for a person.
func openArtifact(c *cobra.Command, s *artifact.Store, info artifact.Info) (*artifact.File, error) {
	f, err := s.Open(info.Session, info.Handle)
	if err != nil && info.Removed == "" && tool.CodeOf(err) == tool.Lost {
		fmt.Fprintf(c.ErrOrStderr(), "error: %v\n", err)
		return nil, exitCode(exitMismatch)
	}
	return f, err
}

func newArtifactsList() *cobra.Command {
	var f runtimeFlags
	var session string
	var asJSON, asLines bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the artifacts of a workspace, oldest first",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := f.artifacts(c)
			if err != nil {
				return err
			}
			defer s.Close()
			all, err := s.List()
			if err != nil {
				return err
			}
			list := []artifact.Info{}
			for _, i := range all {
				if session == "" || i.Session == session {
					list = append(list, i)
				}
			}
			w := c.OutOrStdout()
			switch {
			case asJSON:
				return printLine(w, list)
			case asLines:
				for _, i := range list {
					if err := printLine(w, i); err != nil {
						return err
					}
				}
				return nil
			case len(list) == 0:
				notice(c)("no artifact is kept for this workspace")
				return nil
			}
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "HANDLE\tAT\tBYTES\tLINES\tTOOL\tCALL\tSTATE")
			for _, i := range list {
				state := "kept"
				if i.Removed != "" {
					state = "removed: " + i.Removed
				}
				fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", i.Handle, i.Created.Format(time.RFC3339), i.Bytes, i.Lines, cell(i.Tool), cell(i.Call), cell(state))
			}
			return t.Flush()
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&session, "session", "", "only those of this session")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&asLines, "jsonl", false, "print one line of JSON for each artifact")
	return c
}

// shownHead is how much of an artifact show prints.
const shownHead = 4 << 10

func newArtifactsShow() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "show HANDLE",
		Short: "Show what is known of an artifact, and how it begins",
		Long: `Show what is known of an artifact, and its first 4 KiB with what a terminal would
obey escaped. export gives all of it, as it is.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			s, err := f.artifacts(c)
			if err != nil {
				return err
			}
			defer s.Close()
			info, err := findArtifact(s, a[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printLine(c.OutOrStdout(), info)
			}
			w := c.OutOrStdout()
			printArtifact(w, info)
			if info.Removed != "" || info.Bytes == 0 {
				return nil
			}
			file, err := openArtifact(c, s, info)
			if err != nil {
				return err
			}
			defer file.Close()
			p := make([]byte, min(shownHead, info.Bytes))
			n, err := file.ReadAt(p, 0)
			if err != nil && err != io.EOF {
				return err
			}
			text := strings.ToValidUTF8(string(p[:n]), "\uFFFD")
			fmt.Fprintf(w, "\n%s\n", strings.TrimSuffix(show.Block(text), "\n"))
			if more := info.Bytes - int64(n); more > 0 {
				fmt.Fprintf(w, "[%d more bytes: wasmtools artifacts export %s]\n", more, info.Handle)
			}
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, without the text")
	return c
}

func printArtifact(w io.Writer, i artifact.Info) {
	s := sheet{w}
	s.row("artifact", "artifact:"+i.Handle)
	s.row("title", i.Title, i.MIMEType)
	s.row("made by", i.Tool, prefix("call ", i.Call), prefix("session ", i.Session))
	s.row("at", i.Created.Format(time.RFC3339))
	s.row("size", fmt.Sprintf("%d bytes", i.Bytes), fmt.Sprintf("%d lines", i.Lines), prefix("the longest of ", count(i.Longest, "characters")))
	s.row("dropped", count(i.Dropped, "bytes at the end, over the limit of one artifact"))
	s.row("digest", string(i.Digest))
	if i.Removed != "" {
		s.row("removed", i.Gone.Format(time.RFC3339), i.Removed)
	}
}

func newArtifactsExport() *cobra.Command {
	var f runtimeFlags
	var to string
	c := &cobra.Command{
		Use:   "export HANDLE",
		Short: "Write all of an artifact, as it is",
		Example: `  wasmtools artifacts export HANDLE | less
  wasmtools artifacts export HANDLE -o build.log`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			s, err := f.artifacts(c)
			if err != nil {
				return err
			}
			defer s.Close()
			info, err := findArtifact(s, a[0])
			if err != nil {
				return err
			}
			file, err := openArtifact(c, s, info)
			if err != nil {
				return err
			}
			defer file.Close()
			content := io.NewSectionReader(file, 0, file.Size())
			if to == "" || to == "-" {
				_, err := io.Copy(c.OutOrStdout(), content)
				return err
			}
			out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			n, err := io.Copy(out, content)
			if err = errors.Join(err, out.Close()); err == nil {
				notice(c)(fmt.Sprintf("%d bytes are in %s", n, to))
			}
			return err
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVarP(&to, "output", "o", "", "write into this file, which must not exist yet")
	return c
}

func newArtifactsPrune() *cobra.Command {
	var f runtimeFlags
	var keep retention
	var dry, asJSON bool
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove old artifacts (for a person, at a terminal)",
		Long: `Remove artifacts by age, and then the oldest until the rest fits. A handle that was
given out then says that its content was removed. --dry-run only looks, and needs
nobody.`,
		Example: `  wasmtools artifacts prune --older-than 7d --dry-run
  wasmtools artifacts prune --max-size 500MiB`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			age, bytes, err := keep.parse()
			if err != nil {
				return err
			}
			r := artifact.Retention{MaxAge: age, MaxBytes: bytes}
			s, err := f.artifacts(c)
			if err != nil {
				return err
			}
			defer s.Close()
			prune, verb := s.Plan, "would be removed"
			if !dry {
				if err := humanHere(c.Context()); err != nil {
					return err
				}
				prune, verb = s.Prune, "removed"
			}
			gone, err := prune(r, time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return printLine(c.OutOrStdout(), append([]artifact.Info{}, gone...))
			}
			if len(gone) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "nothing is old enough or too much")
				return nil
			}
			for _, i := range gone {
				fmt.Fprintf(c.OutOrStdout(), "%s (%d bytes) %s: %s\n", i.Handle, i.Bytes, verb, i.Removed)
			}
			return nil
		},
	}
	f.addWorkspace(c)
	keep.add(c, "artifacts that are older than this: 7d, 12h", "artifacts beyond this size of all together: 500MiB, 1GiB")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
