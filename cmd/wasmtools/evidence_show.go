package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// sheet prints names and values, one a line. What strangers wrote is escaped.
type sheet struct{ w io.Writer }

func (s sheet) row(name string, parts ...string) {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, tool.QuotePath(p))
		}
	}
	if len(list) > 0 {
		fmt.Fprintf(s.w, "%-11s %s\n", name, strings.Join(list, ", "))
	}
}

func printCall(w io.Writer, c *evidence.Call) error {
	var b strings.Builder
	s, in := sheet{&b}, &c.Intent
	s.row("call", string(c.Handle), "called "+in.Call)
	s.row("turn", in.Turn, prefix("session ", in.Session), prefix("trace ", in.Trace), prefix("by ", in.Principal))
	s.row("tool", in.Tool, prefix("as ", in.As), string(in.Source), in.From)
	s.row("module", string(in.Module))
	s.row("definition", string(in.Definition))
	s.row("effects", in.Effects.Strings()...)
	if len(in.Arguments) > 0 {
		fmt.Fprintf(&b, "%-11s %s\n", "arguments", visible(in.Arguments))
	}
	s.row("input", string(in.Input))
	if c.Redacted {
		s.row("redacted", "something was taken out before it was written, so its digests are keyed")
	}
	if c.Cut {
		s.row("cut", "the arguments are not whole")
	}
	s.row("intent", c.At.Format(time.RFC3339))
	for _, e := range c.Events {
		s.row("  "+string(e.Kind), eventParts(c.At, &e)...)
	}
	for _, o := range c.Earlier {
		s.row("  answered", after(c.At, o.At), string(o.Status), string(o.Code), prefix("ticket ", o.Approval.Ticket))
	}
	status := string(c.Status)
	switch {
	case c.Status == evidence.Interrupted && c.Acted():
		status += ": its process ended while it acted; look at what it changed"
	case c.Status == evidence.Interrupted:
		status += ": its process ended before it acted"
	}
	s.row("status", status)
	if o := c.Outcome; o != nil {
		printOutcome(s, c, o)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printOutcome(s sheet, c *evidence.Call, o *evidence.Outcome) {
	s.row("code", string(o.Code))
	s.row("refused", prefix("the tool was ", o.Refused))
	s.row("message", o.Message)
	s.row("outcome", c.Ended.Format(time.RFC3339), after(c.At, c.Ended)+" after the intent")
	s.row("decision", approvalParts(&o.Approval)...)
	for _, w := range o.Writes {
		s.row("changed", string(w.Op), w.Path, prefix("from ", w.From), prefix("before ", string(w.Before)), prefix("after ", string(w.After)))
	}
	if n := c.WritesTotal; n > len(o.Writes) {
		s.row("changed", fmt.Sprintf("%d more", n-len(o.Writes)))
	}
	u := &o.Used
	s.row("used", count(u.HostCalls, "host calls"), count(u.BytesRead, "bytes read"), count(u.Requests, "requests"), count(u.BytesSent, "bytes sent"),
		count(u.BytesReceived, "bytes received"), count(u.MemoryPeak, "bytes of memory"), count(int64(u.Fuel), "fuel"))
	s.row("paths", u.Paths...)
	s.row("hosts", u.Hosts...)
	s.row("output", string(o.Output), count(o.OutputBytes, "bytes"))
	for _, a := range o.Artifact {
		s.row("artifact", a.Handle, a.Title, count(a.Bytes, "bytes"), string(a.Digest))
	}
	for _, st := range c.Streams {
		s.row("stream", st.Stream, count(st.Bytes, "bytes"), st.Head)
	}
}

func eventParts(began time.Time, e *evidence.CallEvent) []string {
	parts := []string{after(began, e.At)}
	if a := e.Approval; a != nil {
		parts = append(parts, approvalParts(a)...)
	}
	for _, w := range e.Writes {
		parts = append(parts, string(w.Op)+" "+w.Path)
	}
	if e.Artifact != nil {
		parts = append(parts, e.Artifact.Handle, e.Artifact.Title)
	}
	if e.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d", e.Done, e.Total))
	}
	return append(parts, e.Stream, count(e.Bytes, "bytes"), e.Note)
}

func approvalParts(a *evidence.Approval) []string {
	parts := []string{a.Verdict, prefix("by ", a.By), prefix("through ", a.Channel)}
	if r := a.Rule; r.Name != "" || r.File != "" {
		where := ""
		if r.File != "" {
			where = fmt.Sprintf(" (%s:%d)", r.File, r.Line)
		}
		parts = append(parts, "rule "+r.Name+where)
	}
	return append(parts, prefix("ticket ", a.Ticket), a.Reason, prefix("saved as ", a.Saved))
}

func prefix(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

func count(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func after(from, to time.Time) string { return to.Sub(from).Round(time.Microsecond).String() }

// visible is JSON in which what cannot be seen is escaped.
func visible(p json.RawMessage) string {
	var b strings.Builder
	if err := printLine(&b, p); err != nil {
		return "unreadable"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func newEvidenceTail() *cobra.Command {
	var f runtimeFlags
	var n int
	var follow, asLines bool
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest records of calls, and those to come",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 0 {
				return usageError{fmt.Errorf("--lines is a number of records, not %d", n)}
			}
			r, err := f.openReader(c)
			if errors.Is(err, errNothing) && !follow {
				notice(c)(err.Error())
				return nil
			} else if err != nil {
				return err
			}
			p := tailPrinter{w: c.OutOrStdout(), raw: asLines, tools: map[evidence.Handle]string{}}
			at, err := p.last(r, n)
			if err != nil || !follow {
				return err
			}
			return p.follow(c.Context(), r, at)
		},
	}
	f.addWorkspace(c)
	c.Flags().IntVarP(&n, "lines", "n", 10, "how many of the newest records")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is recorded from now on, until interrupted")
	c.Flags().BoolVar(&asLines, "jsonl", false, "print the records as they stand")
	return c
}

// followEvery is how often a record is looked at. Telling processes of each
// other's records would cost every call more than this costs one reader.
const followEvery = 200 * time.Millisecond

type tailPrinter struct {
	w     io.Writer
	raw   bool
	tools map[evidence.Handle]string
}

// last prints the newest n records of calls and returns the end.
func (p *tailPrinter) last(r *evidence.Reader, n int) (evidence.Cursor, error) {
	at := evidence.Cursor{}
	var ring []evidence.Line
	for l, err := range r.Lines(at) {
		if err != nil {
			return at, err
		}
		at = l.After()
		if l.Call() == "" {
			continue
		}
		p.learn(l)
		if n == 0 {
			continue
		}
		own := *l
		own.Raw = append([]byte(nil), l.Raw...)
		if ring = append(ring, own); len(ring) > n {
			ring = ring[1:]
		}
	}
	for i := range ring {
		if err := p.print(&ring[i]); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (p *tailPrinter) follow(ctx context.Context, r *evidence.Reader, at evidence.Cursor) error {
	t := time.NewTicker(followEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		for l, err := range r.Lines(at) {
			if err != nil {
				return err
			}
			at = l.After()
			if l.Call() == "" {
				continue
			}
			p.learn(l)
			if err := p.print(l); err != nil {
				return err
			}
		}
	}
}

// maxTools bounds what a tail remembers of calls that never end.
const maxTools = 10_000

func (p *tailPrinter) learn(l *evidence.Line) {
	if l.Type == "intent" && len(p.tools) < maxTools {
		var in evidence.Intent
		if json.Unmarshal(l.Raw, &in) == nil {
			p.tools[l.Call()] = in.Tool
		}
	}
}

func (p *tailPrinter) print(l *evidence.Line) error {
	if p.raw {
		_, err := p.w.Write(append(l.Raw, '\n'))
		return err
	}
	var what []string
	switch l.Type {
	case "intent":
		var in evidence.Intent
		if json.Unmarshal(l.Raw, &in) == nil {
			what = append(what, visible(in.Arguments))
		}
	case "event":
		var e evidence.CallEvent
		if json.Unmarshal(l.Raw, &e) == nil {
			for _, s := range append([]string{string(e.Kind)}, eventParts(l.Time, &e)[1:]...) {
				if s != "" {
					what = append(what, tool.QuotePath(s))
				}
			}
		}
	case "outcome":
		var o evidence.Outcome
		if json.Unmarshal(l.Raw, &o) == nil {
			for _, s := range []string{string(o.Status), string(o.Code), o.Message, prefix("by ", o.Approval.By)} {
				if s != "" {
					what = append(what, tool.QuotePath(s))
				}
			}
			if o.Status != evidence.Waiting {
				defer delete(p.tools, l.Call())
			}
		}
	}
	_, err := fmt.Fprintf(p.w, "%s %s %s %s: %s\n", l.Time.Format(time.RFC3339), l.Call(), cell(p.tools[l.Call()]), l.Type, strings.Join(what, ", "))
	return err
}
