package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/tool"
)

// past is what the record says about a call, beside what the rules say now.
type past struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	Tool string    `json:"tool"`

	Then      policy.Decision `json:"then"` // what the rules said
	ThenRule  string          `json:"then_rule,omitempty"`
	Answer    string          `json:"answer,omitempty"` // what became of a question
	Status    evidence.Status `json:"status"`
	Now       *checked        `json:"now,omitempty"`
	Changed   bool            `json:"changed"`
	NotJudged string          `json:"not_judged,omitempty"` // why the call cannot be judged again
	Inexactly []string        `json:"inexactly,omitempty"`  // what the record does not tell
}

func newPolicyExplain() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain CALL_ID",
		Short: "Tell which rule or person decided about a past call, and what the rules say now",
		Long: `Tell which rule or person decided about a past call of this workspace, and what
the rules in force would say about it now. wasmtools evidence list shows the ids.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			k, r, err := openPast(c, &f)
			if err != nil {
				return err
			}
			defer func() { _ = k.close() }()
			calls, err := r.Find(a[0])
			if errors.Is(err, fs.ErrNotExist) {
				return notRecorded(a[0])
			} else if err != nil {
				return err
			}
			for i, call := range calls {
				p := k.judgePast(c.Context(), call)
				if asJSON {
					err = printLine(c.OutOrStdout(), p)
				} else {
					if i > 0 {
						fmt.Fprintln(c.OutOrStdout())
					}
					err = p.print(c.OutOrStdout(), call)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&f.rules, "rules", "", "judge by this file, in place of your configuration and saved rules")
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each call of this id")
	return c
}

func newPolicyReplay() *cobra.Command {
	var f runtimeFlags
	var asJSON, all bool
	var since string
	c := &cobra.Command{
		Use:   "replay",
		Short: "Judge the calls of the record again, by the rules in force or by those of a file",
		Long: `Judge the calls of this workspace's record again, by the rules in force or by
those of a file, and list the ones about which they decide otherwise than the
rules of then. Nothing is run.

Files are judged as the record names them, links and lists as they are now. What
the record does not hold (arguments that were redacted or cut, hosts that were
not asked) cannot be judged exactly; such calls are marked.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := parseSince(since, time.Now())
			if err != nil {
				return usageError{err}
			}
			k, r, err := openPast(c, &f)
			if errors.Is(err, errNothing) {
				notice(c)(errNothing.Error())
				return nil
			} else if err != nil {
				return err
			}
			defer func() { _ = k.close() }()
			count, changed := 0, 0
			for call, err := range r.Calls(from) {
				if err != nil {
					return err
				}
				if err := c.Context().Err(); err != nil {
					return err
				}
				p := k.judgePast(c.Context(), call)
				count++
				if p.Changed {
					changed++
				}
				if !p.Changed && !all {
					continue
				}
				if asJSON {
					err = printLine(c.OutOrStdout(), p)
				} else {
					_, err = fmt.Fprintln(c.OutOrStdout(), p.line())
				}
				if err != nil {
					return err
				}
			}
			notice(c)(fmt.Sprintf("%d calls, %d would be decided otherwise", count, changed))
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&f.rules, "rules", "", "judge by this file, in place of your configuration and saved rules")
	c.Flags().StringVar(&since, "since", "", "only calls since then: a span such as 24h, or a time such as 2026-11-30 or 2026-11-30T12:00:00Z")
	c.Flags().BoolVar(&all, "all", false, "list every call, not only those that would be decided otherwise")
	c.Flags().BoolVar(&asJSON, "jsonl", false, "print one line of JSON for each call")
	return c
}

// parseSince reads a span back from now, a date or a time. "" is the beginning.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since is a span such as 24h, or a time such as 2026-11-30 or 2026-11-30T12:00:00Z, not %q", s)
}

// openPast opens the record of the workspace, and what judges its calls.
func openPast(c *cobra.Command, f *runtimeFlags) (*checker, *evidence.Reader, error) {
	k, err := newChecker(c, f) // first: rules that cannot be used are a fault also where nothing is recorded
	if err != nil {
		return nil, nil, err
	}
	r, err := evidence.OpenReader(evidence.Dir(userDirs().state, k.root))
	if err != nil {
		_ = k.close()
		if errors.Is(err, fs.ErrNotExist) {
			err = errNothing
		}
		return nil, nil, err
	}
	return k, r, nil
}

// judgePast judges a recorded call by the rules in force.
func (k *checker) judgePast(ctx context.Context, call *evidence.Call) past {
	in := call.Intent
	p := past{ID: string(call.Handle), At: call.At, Tool: in.Tool, Status: call.Status}
	p.readThen(call)
	switch {
	case p.Then == "":
		p.NotJudged = "it ended before the rules were asked"
		return p
	case call.Cut && (in.Tool == terminalTool || isCut(in.Arguments)):
		p.NotJudged = "its arguments were too long to be recorded whole"
		return p
	}
	var now policy.Call
	if in.Tool == terminalTool {
		var err error
		if now, err = terminalCall(in.Arguments, k.root, k.source.Settings().Terminal.Profile); err != nil {
			p.NotJudged = "its arguments cannot be read: " + err.Error()
			return p
		}
	} else {
		now = policy.Call{Arguments: in.Arguments, Hosts: pastHosts(call)}
		guessed := false
		if now.Targets, guessed = k.pastTargets(ctx, call); guessed {
			p.Inexactly = append(p.Inexactly, "its files are those that its arguments name")
		}
	}
	now.Tool, now.Source, now.Module, now.Effects, now.Input = in.Tool, in.Source, in.Module, in.Effects, in.Input
	if call.Redacted {
		p.Inexactly = append(p.Inexactly, "something was redacted, so rules about exactly this call do not fit")
	}
	if call.Cut {
		p.Inexactly = append(p.Inexactly, "its arguments were too long to be recorded whole")
	}
	if call.WritesTotal > 0 {
		p.Inexactly = append(p.Inexactly, "not all files that it changed are recorded")
	}
	if in.Effects.Has(tool.UsesNetwork) && len(now.Hosts) > 0 {
		p.Inexactly = append(p.Inexactly, "its hosts are those that it asked, not those that it could have")
	}
	v := verdictOf(in.Tool, policy.Judge(k.source.Policy(), now, k.site(ctx)))
	p.Now, p.Changed = &v, v.Verdict != p.Then
	return p
}

// readThen finds what the rules said at the time, and what became of a question.
func (p *past) readThen(call *evidence.Call) {
	var answer evidence.Approval
	for _, e := range call.Events {
		switch {
		case e.Approval == nil:
		case e.Kind == evidence.ApprovalRequired:
			p.Then, p.ThenRule = policy.Ask, ruleText(e.Approval.Rule)
		case e.Kind == evidence.Decided && (answer.Verdict == "" || decided(e.Approval.Verdict)):
			answer = *e.Approval // one that decides nothing stands only until another comes
		}
	}
	if call.Outcome == nil {
		return
	}
	a := call.Outcome.Approval
	switch {
	case p.Then == policy.Ask && answer.Verdict != "":
		p.Answer = fmt.Sprintf("%s by %s through %s", answer.Verdict, answer.By, answer.Channel)
	case p.Then == policy.Ask && call.Status == evidence.Waiting:
		p.Answer = "waiting"
	case p.Then == policy.Ask:
		p.Answer = "none"
	case slices.Contains([]policy.Decision{policy.Allow, policy.Ask, policy.Deny}, policy.Decision(a.Verdict)):
		p.Then, p.ThenRule = policy.Decision(a.Verdict), ruleText(a.Rule)
	}
}

func decided(verdict string) bool {
	return verdict == string(approval.Allow) || verdict == string(approval.Deny)
}

func ruleText(r evidence.Rule) string {
	switch {
	case r.Name == "":
		return ""
	case r.File == "":
		return tool.QuotePath(r.Name) + " (built in)"
	}
	return fmt.Sprintf("%s (%s:%d)", tool.QuotePath(r.Name), r.File, r.Line)
}

// isCut reports whether recorded arguments of a call that was cut stand for
// longer ones as a whole. A call that was not cut may have such arguments itself.
func isCut(args []byte) bool { return strings.HasPrefix(string(args), `{"cut":{"bytes":`) }

// pastTargets are the files that a call changed or would have; guessed says that
// they are only those that its arguments name.
func (k *checker) pastTargets(ctx context.Context, call *evidence.Call) (out []policy.Target, guessed bool) {
	var writes []evidence.Write
	if call.Outcome != nil {
		writes = call.Outcome.Writes
	}
	for _, e := range call.Events {
		if len(writes) == 0 {
			writes = e.Writes
		}
	}
	add := func(verb policy.Verb, path string) {
		out = append(out, policy.Target{Verb: verb, Path: path})
	}
	for _, w := range writes {
		switch w.Op {
		case tool.OpDelete:
			add(policy.Delete, w.Path)
		case tool.OpMove:
			add(policy.Delete, w.From)
			add(policy.Write, w.Path)
		case tool.OpMkdir:
			add(policy.Make, w.Path)
		default:
			add(policy.Write, w.Path)
		}
	}
	if len(out) == 0 && ours(call.Intent.Source) {
		out = argumentTargets(call.Intent.Effects, call.Intent.Arguments)
		guessed = call.Intent.Effects.Any(tool.Writes | tool.Destroys)
	}
	for i := range out {
		out[i].List, out[i].Secret = k.listed(ctx, out[i].Path)
	}
	return out, guessed && len(out) > 0
}

// ours reports whether a tool names the files that it works on as ours do.
func ours(s tool.Source) bool { return s == tool.Builtin || s == tool.Installed }

// pastHosts are the hosts that a call asked.
func pastHosts(call *evidence.Call) []string {
	if call.Outcome == nil {
		return nil
	}
	return call.Outcome.Used.Hosts
}

// line is p as one line of a list.
func (p past) line() string {
	head := fmt.Sprintf("%-8s  %s  %-16s  ", p.ID, p.At.UTC().Format(time.RFC3339), tool.QuotePath(p.Tool))
	switch {
	case p.Then == "":
		return head + "not judged: " + p.NotJudged
	case p.Now == nil:
		return fmt.Sprintf("%sthen %s by %s; now not judged: %s", head, p.Then, p.ThenRule, p.NotJudged)
	}
	return fmt.Sprintf("%sthen %s by %s; now %s by %s%s", head, p.Then, p.ThenRule, p.Now.Verdict, where(p.Now.Rule), p.doubt())
}

// doubt says why the verdict of now may be another than it would be.
func (p past) doubt() string {
	if len(p.Inexactly) == 0 {
		return ""
	}
	return " (" + strings.Join(p.Inexactly, "; ") + ")"
}

// print tells about one call, for a person.
func (p past) print(w io.Writer, call *evidence.Call) error {
	var b strings.Builder
	fmt.Fprintf(&b, "call %s of %s at %s: %s\n", p.ID, tool.QuotePath(p.Tool), p.At.UTC().Format(time.RFC3339), p.Status)
	if len(call.Intent.Arguments) > 0 {
		fmt.Fprintf(&b, "  with     %s\n", tool.QuotePath(clipText(string(call.Intent.Arguments), 200)))
	}
	switch {
	case p.Then == "":
		fmt.Fprintf(&b, "  then     %s\n", p.NotJudged)
	default:
		fmt.Fprintf(&b, "  then     %s by %s\n", p.Then, p.ThenRule)
	}
	if p.Then != policy.Ask && call.Outcome != nil && call.Outcome.Approval.Reason != "" {
		fmt.Fprintf(&b, "  because  %s\n", tool.QuotePath(call.Outcome.Approval.Reason))
	}
	if p.Answer != "" {
		fmt.Fprintf(&b, "  answer   %s\n", tool.QuotePath(p.Answer))
	}
	if call.Outcome != nil && call.Outcome.Approval.Saved != "" {
		b.WriteString("  saved    a rule, with this answer\n")
	}
	if p.Then != "" && p.NotJudged != "" {
		fmt.Fprintf(&b, "  now      not judged: %s\n", p.NotJudged)
	}
	if p.Now == nil {
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString("now" + p.doubt() + ":\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return p.Now.print(w)
}

func clipText(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
