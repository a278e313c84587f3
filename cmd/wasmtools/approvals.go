package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/tool"
)

func newApprovals() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "See the calls that wait for a person, and answer them",
		Long: `See the calls that wait for a person, and answer them.

A call with effects that no rule decides waits in its runtime (wasmtools mcp,
wasmtools run) until somebody answers: in the client, at the runtime's own
terminal, or here, from any other terminal. The first answer counts. Answers are
for people: they need a terminal, and no program that a runtime started can give
them. docs/approvals.md tells the rest.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newApprovalsList(), newApprovalsShow(), newApprovalsAllow(), newApprovalsDeny(), newApprovalsWatch())
	return c
}

// waiting is one call with the runtime that it waits in.
type waiting struct {
	channel.Waiting
	Runtime channel.About `json:"runtime"`

	from *channel.Client
}

// visits are open connections to every runtime of the user.
type visits struct {
	clients  []*channel.Client
	problems []channel.Problem
}

// visit connects to all runtimes. It fails with denied if every one refuses
// this process; what else goes wrong is said on stderr.
func visit(c *cobra.Command) (*visits, error) {
	clients, problems, err := channel.Find(c.Context(), channel.Folder(userDirs().run))
	if err != nil {
		return nil, err
	}
	v := &visits{clients, problems}
	for _, p := range problems {
		if errors.Is(p.Err, channel.ErrRefused) {
			v.close()
			return nil, refused(p)
		}
		fmt.Fprintf(c.ErrOrStderr(), "wasmtools: %v\n", p)
	}
	return v, nil
}

// refused is the end of a command that a runtime takes for a model's.
func refused(p channel.Problem) error {
	return tool.Errorf(tool.Denied, "%v", p).WithNext("run this in a terminal of your own")
}

func (v *visits) close() {
	for _, c := range v.clients {
		c.Close()
	}
}

// list is everything that waits, oldest expiry first.
func (v *visits) list() ([]waiting, error) {
	var all []waiting
	for _, c := range v.clients {
		ws, err := c.List()
		if err != nil {
			return nil, fmt.Errorf("runtime %d: %w", c.About().PID, err)
		}
		for _, w := range ws {
			all = append(all, waiting{w, c.About(), c})
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int { return a.Expires.Compare(b.Expires) })
	return all, nil
}

// minPrefix is how many characters of a ticket have to be given.
const minPrefix = 6

// pick finds the call of a ticket, which may be shortened.
func pick(all []waiting, ticket string) (waiting, error) {
	var hits []waiting
	for _, w := range all {
		if w.Ticket == ticket {
			return w, nil
		}
		if strings.HasPrefix(w.Ticket, ticket) {
			hits = append(hits, w)
		}
	}
	switch {
	case len(ticket) < minPrefix:
		return waiting{}, fmt.Errorf("give at least %d characters of the ticket", minPrefix)
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return waiting{}, errors.New("several tickets begin like this; give more of it")
	}
	return waiting{}, channel.ErrNoSuch
}

func newApprovalsList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the calls that wait",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := visit(c)
			if err != nil {
				return err
			}
			defer v.close()
			all, err := v.list()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), append([]waiting{}, all...))
			}
			if len(all) == 0 {
				notice(c)("nothing waits")
				return nil
			}
			return printWaiting(c.OutOrStdout(), all, time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON document")
	return c
}

func printWaiting(w io.Writer, all []waiting, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TICKET\tLEFT\tRUNTIME\tWORKSPACE\tWHAT")
	for _, x := range all {
		fmt.Fprintf(t, "%s\t%s\t%d %s\t%s\t%s\n", show.Clean(x.Ticket), left(x.Expires, now), x.Runtime.PID, show.Clean(x.Runtime.Program), show.Inline(x.Runtime.Workspace), x.Summary)
	}
	return t.Flush()
}

func left(until, now time.Time) string {
	return max(0, until.Sub(now)).Round(time.Second).String()
}

func printJSON(w io.Writer, x any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(x)
}

func newApprovalsShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [flags] TICKET",
		Short: "Show all of what a call would do",
		Long: `Show all of what a call would do: its files with their real paths and the whole
diff, or the whole command, hosts, arguments, the rule that asked, and the rule
that could be saved with the answer. What a model or a module wrote stands behind
a bar, with control and invisible characters by name.

A ticket may be shortened to its first characters, six at least.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			v, err := visit(c)
			if err != nil {
				return err
			}
			defer v.close()
			all, err := v.list()
			if err != nil {
				return err
			}
			w, err := pick(all, a[0])
			if err != nil {
				return fmt.Errorf("%s: %w", tool.QuotePath(a[0]), err)
			}
			r, err := w.from.Show(w.Ticket)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), channel.JSON(r))
			}
			_, err = io.WriteString(c.OutOrStdout(), show.Text(show.Lines(r, show.Options{Now: time.Now(), Offer: true})))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as one JSON document")
	return c
}

func newApprovalsAllow() *cobra.Command {
	var asJSON bool
	var rule string
	c := &cobra.Command{
		Use:   "allow [flags] TICKET...",
		Short: "Allow calls that wait, once",
		Long: `Allow calls that wait, once. Each yes covers exactly what "approvals show" shows;
if the call would do something else when it goes on, it is asked about again.

With --save a rule is kept too. Its text and id stand in "approvals show"; the id
is made of the text, so that what is saved is what you read.`,
		Example: `  wasmtools approvals allow k3jx7q
  wasmtools approvals allow --save write-docs-1f2e3d k3jx7q`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			if rule != "" && len(a) > 1 {
				return usageError{errors.New("--save goes with one ticket")}
			}
			return answer(c, a, false, asJSON, channel.Reply{Verdict: approval.Allow}, rule)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what became of each answer as one JSON document")
	c.Flags().StringVar(&rule, "save", "", "also save the rule with this id, as approvals show shows it")
	return c
}

func newApprovalsDeny() *cobra.Command {
	var asJSON, all bool
	var reason string
	c := &cobra.Command{
		Use:   "deny [flags] TICKET... | --all",
		Short: "Refuse calls that wait",
		Example: `  wasmtools approvals deny k3jx7q --reason "not before the release"
  wasmtools approvals deny --all`,
		Args: func(_ *cobra.Command, a []string) error {
			if all == (len(a) > 0) {
				return usageError{errors.New("name tickets, or use --all")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error {
			if len(reason) > channel.MaxReason {
				return usageError{fmt.Errorf("the reason is longer than %d bytes", channel.MaxReason)}
			}
			return answer(c, a, all, asJSON, channel.Reply{Verdict: approval.Deny, Reason: reason}, "")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print what became of each answer as one JSON document")
	c.Flags().BoolVar(&all, "all", false, "everything that waits now")
	c.Flags().StringVar(&reason, "reason", "", "why; the model reads it")
	return c
}

// answered is what became of one answer.
type answered struct {
	Ticket  string           `json:"ticket"`
	OK      bool             `json:"ok"`
	Verdict approval.Verdict `json:"verdict"`
	Error   string           `json:"error,omitempty"`
}

// answer gives the same reply to several calls. It needs a human.
func answer(c *cobra.Command, tickets []string, everything, asJSON bool, reply channel.Reply, rule string) error {
	if err := humanHere(c.Context()); err != nil {
		return err
	}
	v, err := visit(c)
	if err != nil {
		return err
	}
	defer v.close()
	all, err := v.list()
	if err != nil {
		return err
	}
	if everything {
		for _, w := range all {
			tickets = append(tickets, w.Ticket)
		}
	}
	out, code := []answered{}, error(nil)
	for _, ticket := range tickets {
		got := answered{Ticket: ticket, Verdict: reply.Verdict}
		w, err := pick(all, ticket)
		if err == nil {
			got.Ticket = w.Ticket
			err = answerOne(w, reply, rule)
		}
		got.OK = err == nil
		word := map[approval.Verdict]string{approval.Allow: "allowed", approval.Deny: "denied"}[reply.Verdict]
		switch {
		case err != nil:
			got.Error, code = err.Error(), exitCode(exitFailure)
			if errors.Is(err, channel.ErrRefused) {
				code = exitCode(exitDenied)
			}
			fmt.Fprintf(c.ErrOrStderr(), "error: %s: %v\n", tool.QuotePath(got.Ticket), err)
		case !asJSON:
			fmt.Fprintf(c.OutOrStdout(), "%s %s  %s\n", word, w.Ticket, w.Summary)
		}
		out = append(out, got)
	}
	if asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), out), code)
	}
	return code
}

// answerOne answers one call, with the digest of what it would do.
func answerOne(w waiting, reply channel.Reply, rule string) error {
	reply.Ticket, reply.Binding = w.Ticket, w.Binding
	if rule != "" {
		r, err := w.from.Show(w.Ticket)
		switch {
		case err != nil:
			return err
		case r.Offer == nil:
			return errors.New("no rule can be saved for this call")
		case r.Offer.ID != rule:
			return errors.New("the rule that could be saved has another id; approvals show tells it")
		}
		reply.Save = r.Offer
	}
	return w.from.Answer(reply)
}

// humanHere is the question of commands that only a person may run.
func humanHere(ctx context.Context) error {
	return channel.Human(ctx, channel.Folder(userDirs().run))
}

func newApprovalsWatch() *cobra.Command {
	var plain, asLines bool
	c := &cobra.Command{
		Use:   "watch [flags]",
		Short: "Follow what waits, and answer it",
		Long: `Follow what waits in any runtime, also in those that start later.

On a terminal it shows list and request on the whole screen and takes answers; no
single key gives one. Elsewhere, with --plain, or where TERM is dumb, it prints a
line for every call that begins or ends to wait. While somebody watches, runtimes
wait for an answer before they tell their client that approval is required.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			dir := channel.Folder(userDirs().run)
			if noInput, _ := c.Flags().GetBool("no-input"); plain || asLines || noInput || !onScreen(c) {
				return watchLines(c.Context(), c.OutOrStdout(), dir, asLines, notice(c))
			}
			if err := humanHere(c.Context()); err != nil {
				return err
			}
			return watchScreen(c.Context(), dir)
		},
	}
	c.Flags().BoolVar(&plain, "plain", false, "print lines, also on a terminal")
	c.Flags().BoolVar(&asLines, "jsonl", false, "print every change as a line of JSON")
	return c
}

// onScreen reports whether input and output are a terminal that can be drawn on.
func onScreen(c *cobra.Command) bool {
	in, isFile := c.InOrStdin().(*os.File)
	out, alsoFile := c.OutOrStdout().(*os.File)
	return isFile && alsoFile && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}
