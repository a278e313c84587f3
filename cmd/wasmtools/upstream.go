package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/internal/proctree"
	mcpclient "github.com/wasmtools/wasmtools/mcp/client"
	"github.com/wasmtools/wasmtools/tool"
)

// upstream is a server that is closed with the runtime, and the last one with what
// runs programs for all of them.
type upstream struct {
	*mcpclient.Source
	last func() error
}

// Close implements [io.Closer].
func (u *upstream) Close() error { return errors.Join(u.Source.Close(), u.last()) }

// server is one of the configuration as package client takes it. Programs start
// in the workspace.
func upstreamServer(s config.Server, dir string) mcpclient.Server {
	where := dir
	if s.Cwd != "" {
		if where = s.Cwd; !filepath.IsAbs(where) {
			where = filepath.Join(dir, where)
		}
	}
	return mcpclient.Server{
		Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, PassEnv: s.PassEnv, Dir: where,
		URL: s.URL, Headers: s.Headers, SecretHeaders: s.SecretHeaders, Trusted: s.Trusted, Has: s.Tools.Has,
		Timeout: s.Timeout, MaxMessage: int64(s.ResultKiB) << 10, Concurrency: s.Concurrency,
	}
}

func upstreamOptions(c *cobra.Command, d dirs, host *proctree.Host) mcpclient.Options {
	return mcpclient.Options{
		Host: host, PinsDir: filepath.Join(d.state, "upstream"), Version: version, Env: os.LookupEnv, Secret: secrets(d.state), Notice: notice(c),
	}
}

// openHost is what runs servers that are programs; nil where nothing could end
// them.
func openHost() *proctree.Host {
	if goruntime.GOOS == "windows" {
		return nil
	}
	return proctree.Open(proctree.Options{})
}

// upstreams opens the servers that want is true of.
func upstreams(c *cobra.Command, servers []config.Server, dir string, want func(name string) bool) []*upstream {
	var chosen []config.Server
	for _, s := range servers {
		if !s.Disabled && want != nil && want(s.Name) {
			chosen = append(chosen, s)
		}
	}
	if chosen == nil {
		return nil
	}
	host := openHost()
	var open atomic.Int32
	open.Store(int32(len(chosen)))
	last := func() error {
		if open.Add(-1) > 0 || host == nil {
			return nil
		}
		return host.Close()
	}
	o := upstreamOptions(c, userDirs(), host)
	var all []*upstream
	for _, s := range chosen {
		all = append(all, &upstream{mcpclient.Open(upstreamServer(s, dir), o), last})
	}
	return all
}

// ready waits until each server was reached or could not be, but not for ever.
func ready(ctx context.Context, all []*upstream, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, u := range all {
		u.Ready(ctx)
	}
}

func newUpstream() *cobra.Command {
	c := &cobra.Command{
		Use:   "upstream",
		Short: "Look at upstream MCP servers, and accept what they changed",
		Long: `Look at the upstream MCP servers of the configuration ([mcp.servers.NAME]), and
accept definitions of their tools that are new or have changed. What a server lists
when it is used for the first time is accepted; later changes are held back until a
person has looked.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newUpstreamList(), newUpstreamShow(), newUpstreamAccept(), newUpstreamDrop())
	return c
}

// upstreamFlags find a server of the configuration.
type upstreamFlags struct{ runtimeFlags }

func (f *upstreamFlags) all(c *cobra.Command) (dir string, servers []config.Server, err error) {
	if dir, err = f.dir(c); err != nil {
		return "", nil, err
	}
	dir = realPath(dir)
	src, err := settings(c, dir, "")
	if err != nil {
		return "", nil, err
	}
	return dir, src.Settings().MCP.Servers, nil
}

func (f *upstreamFlags) one(c *cobra.Command, name string) (mcpclient.Server, mcpclient.Options, func() error, error) {
	dir, servers, err := f.all(c)
	if err != nil {
		return mcpclient.Server{}, mcpclient.Options{}, nil, err
	}
	for _, s := range servers {
		if s.Name == name {
			host := openHost()
			done := func() error {
				if host == nil {
					return nil
				}
				return host.Close()
			}
			return upstreamServer(s, dir), upstreamOptions(c, userDirs(), host), done, nil
		}
	}
	return mcpclient.Server{}, mcpclient.Options{}, nil, usageError{fmt.Errorf("no server is named %s in the configuration ([mcp.servers]); wasmtools upstream list names them", tool.QuotePath(name))}
}

func newUpstreamList() *cobra.Command {
	var f upstreamFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "Connect to every server and say how it is with it",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, servers, err := f.all(c)
			if err != nil {
				return err
			}
			all := upstreams(c, servers, dir, func(string) bool { return true })
			defer func() {
				for _, u := range all {
					_ = u.Close()
				}
			}()
			ready(c.Context(), all, 30*time.Second)
			health := []mcpclient.Health{}
			for _, u := range all {
				health = append(health, u.Health())
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				return enc.Encode(health)
			}
			if len(servers) == 0 {
				notice(c)("no server is configured; write [mcp.servers.NAME] into your configuration (wasmtools config path)")
				return nil
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SERVER\tSTATE\tTOOLS\tHELD BACK\tTROUBLE")
			for _, h := range health {
				state := "away"
				if h.Connected {
					state = "connected"
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", h.Server, state, h.Tools, h.Held, orNothing(h.Trouble))
			}
			for _, s := range servers {
				if s.Disabled {
					fmt.Fprintf(w, "%s\tdisabled\t\t\t\n", s.Name)
				}
			}
			return w.Flush()
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// orNothing is a text that is safe to print.
func orNothing(s string) string {
	if s == "" {
		return ""
	}
	return tool.QuotePath(s)
}

func newUpstreamShow() *cobra.Command {
	var f upstreamFlags
	var asJSON, whole bool
	c := &cobra.Command{
		Use:   "show SERVER",
		Short: "Show what a server lists now, and how that differs from what was accepted",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			s, o, done, err := f.one(c, a[0])
			if err != nil {
				return err
			}
			defer done()
			diffs, err := mcpclient.Look(c.Context(), s, o)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				return enc.Encode(diffs)
			}
			return showDifferences(c.OutOrStdout(), diffs, whole)
		},
	}
	f.addWorkspace(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&whole, "all", false, "show the definitions of unchanged tools, too")
	return c
}

func showDifferences(w io.Writer, diffs []mcpclient.Difference, whole bool) error {
	for _, d := range diffs {
		fmt.Fprintf(w, "%-8s %s  %s\n", d.Standing, d.Tool, orNothing(d.Why))
		if d.Standing == mcpclient.Accepted && !whole {
			continue
		}
		before, now := readable(d.Before), readable(d.Now)
		if d.Standing == mcpclient.Changed {
			for _, line := range strings.SplitAfter(udiff.Unified("accepted", "now", before, now), "\n") {
				fmt.Fprintf(w, "         %s", line)
			}
			fmt.Fprintln(w)
			continue
		}
		for _, line := range strings.Split(strings.TrimSuffix(now, "\n"), "\n") {
			if line != "" {
				fmt.Fprintf(w, "         %s\n", line)
			}
		}
	}
	_, err := fmt.Fprintf(w, "digest %s\n", mcpclient.Digest(diffs))
	return err
}

// readable lays a definition out by lines. What could act on a terminal is
// escaped: JSON does that to control characters, and the rest is quoted.
func readable(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return ""
	}
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		lines[i] = tool.QuotePath(l)
	}
	return strings.Join(lines, "\n") + "\n"
}

func newUpstreamAccept() *cobra.Command {
	var f upstreamFlags
	var digest string
	c := &cobra.Command{
		Use:   "accept SERVER [TOOL...]",
		Short: "Accept the definitions that a server lists now",
		Long: `Accept the definitions that a server lists now: of the tools that are named, or of
all. With --digest, as "upstream show" printed it, nothing is accepted that was not
shown. This is for people: it needs a terminal.`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := humanHere(c.Context()); err != nil {
				return err
			}
			s, o, done, err := f.one(c, a[0])
			if err != nil {
				return err
			}
			defer done()
			accepted, err := mcpclient.Accept(c.Context(), s, o, tool.Digest(digest), a[1:]...)
			if err != nil {
				return err
			}
			for _, d := range accepted {
				if d.Standing != mcpclient.Accepted {
					fmt.Fprintf(c.OutOrStdout(), "%s (was %s)\n", d.Tool, d.Standing)
				}
			}
			notice(c)(fmt.Sprintf("%d definitions of the server %s are accepted", len(accepted), s.Name))
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&digest, "digest", "", "accept only what \"upstream show\" printed this digest for")
	return c
}

func newUpstreamDrop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop SERVER",
		Short: "Forget what was accepted of a server",
		Long:  "Forget what was accepted of a server: what it lists at its next use is accepted.\nThis is for people: it needs a terminal.",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if err := humanHere(c.Context()); err != nil {
				return err
			}
			if strings.ContainsAny(a[0], "/\\.") {
				return usageError{fmt.Errorf("%s is no name of a server", tool.QuotePath(a[0]))}
			}
			return mcpclient.OpenPins(filepath.Join(userDirs().state, "upstream"), a[0]).Drop()
		},
	}
}
