package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/approval/channel"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/tool"
)

func newPolicy() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Say what the rules would decide, test them, list and revoke them",
		Long: `Say what the rules would decide, test them, list and revoke them.

Rules stand in your configuration (wasmtools config path), in the workspace's
own wasmtools.toml, which can only tighten, and in what you saved from answers.
The strictest rule wins: deny over ask over allow; what no rule speaks of is
asked. docs/policy.md tells the rest.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPolicyCheck(), newPolicyTest(), newPolicyRules(), newPolicyRevoke(), newPolicyStarter(), newPolicyExplain(), newPolicyReplay())
	return c
}

func newPolicyCheck() *cobra.Command {
	var f runtimeFlags
	var asJSON, asLines bool
	c := &cobra.Command{
		Use:   "check [flags] -- TOOL [JSON | - | @file]",
		Short: "Explain what the rules would decide about a call, without making it",
		Long: `Explain what the rules would decide about a call, without making it.

It names the rule with its file and line, each part of the call, what would run,
and the smallest rule that would allow this call and no other. A call that
changes files is tried on a copy that is thrown away. Shell commands are calls of
terminal_session (or of bash, its other name).

With --jsonl, lines {"tool": ..., "arguments": {...}} are read from standard
input, and one verdict is printed for each; a line that is no call is denied,
with an error.

Exit codes: 0 allow (and always with --jsonl), 3 deny, 4 ask.`,
		Example: `  wasmtools policy check -- terminal_session '{"op":"exec","command":"ls -la | head"}'
  wasmtools policy check --rules mine.toml --json -- write_file '{"path":"a","content":"x"}'`,
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case asLines && len(a) > 0:
				return usageError{fmt.Errorf("with --jsonl the calls come from standard input; leave %q away", a[0])}
			case !asLines && (len(a) < 1 || len(a) > 2):
				return usageError{fmt.Errorf("name a tool and its arguments, or use --jsonl; usage: %s", c.UseLine())}
			}
			k, err := newChecker(c, &f)
			if err != nil {
				return err
			}
			defer func() { _ = k.close() }() // nothing was made
			if asLines {
				return k.lines(c.InOrStdin(), c.OutOrStdout())
			}
			arguments, err := readArguments(c.InOrStdin(), a[1:])
			if err != nil {
				return err
			}
			v := k.check(c.Context(), a[0], arguments)
			if asJSON {
				err = printLine(c.OutOrStdout(), v)
			} else {
				err = v.print(c.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if code := exitForVerdict(v.Verdict); code != exitOK {
				return exitCode(code)
			}
			return nil
		},
	}
	f.addWorkspace(c)
	f.module.add(c)
	c.Flags().StringVar(&f.rules, "rules", "", "judge by this file, in place of your configuration and saved rules (the workspace's own file still counts)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict as one line of JSON")
	c.Flags().BoolVar(&asLines, "jsonl", false, "judge the calls that standard input lists, one line of JSON each")
	c.MarkFlagsMutuallyExclusive("json", "jsonl")
	return c
}

func exitForVerdict(d policy.Decision) int {
	switch d {
	case policy.Allow:
		return exitOK
	case policy.Ask:
		return exitApproval
	}
	return exitDenied
}

// printLine prints v as one line. What cannot be seen is escaped, so that a line
// is one line for every reader, and nothing in a command reorders a terminal.
func printLine(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	out := make([]byte, 0, b.Len())
	for _, r := range b.String() { // UTF-8 already: the encoder sees to it
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	_, err := w.Write(out)
	return err
}

// maxCallLine bounds one line of --jsonl.
const maxCallLine = 16 << 20

// lines judges one call a line. What is no call gets a verdict too, so that
// lines of input and output belong together.
func (k *checker) lines(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 64<<10)
	w := bufio.NewWriterSize(out, 64<<10)
	for n := 1; ; n++ {
		line, whole, err := readLine(r, maxCallLine)
		if err != nil && err != io.EOF {
			return errors.Join(err, w.Flush())
		}
		if len(bytes.TrimSpace(line)) > 0 || !whole {
			v := k.line(line, whole)
			v.Line = n
			if err := printLine(w, v); err != nil {
				return err
			}
		}
		if r.Buffered() == 0 { // whoever waits for the answer should get it
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return w.Flush()
		}
	}
}

func (k *checker) line(line []byte, whole bool) checked {
	if !whole {
		return failed("", tool.Errorf(tool.TooLarge, "the line has more than %d bytes", maxCallLine))
	}
	var call struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) == nil {
		for name := range members {
			for _, known := range []string{"tool", "arguments"} {
				if name != known && strings.EqualFold(name, known) { // the decoder would take it for the other
					return failed("", tool.Errorf(tool.InvalidArguments, "the line is no call: it has %s, which is not %s", tool.QuotePath(name), known).
						WithNext(`write {"tool": NAME, "arguments": {...}} in each line`))
				}
			}
		}
	}
	if err := json.Unmarshal(line, &call); err != nil {
		return failed("", tool.Errorf(tool.InvalidArguments, "the line is no call: %v", err).
			WithNext(`write {"tool": NAME, "arguments": {...}} in each line`))
	}
	if call.Tool == "" {
		return failed("", tool.Errorf(tool.InvalidArguments, "the line names no tool").
			WithNext(`write {"tool": NAME, "arguments": {...}} in each line`))
	}
	if err := k.c.Context().Err(); err != nil {
		return failed(call.Tool, err)
	}
	return k.check(k.c.Context(), call.Tool, call.Arguments)
}

// readLine reads a line without its end. Whole is false if it is longer than
// most bytes; then the rest of it is skipped.
func readLine(r *bufio.Reader, most int) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most+1 {
			whole = false
		}
		if whole {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimSuffix(line, []byte("\n")), whole, err
		}
	}
}

// print writes the verdict for people.
func (v checked) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Verdict, tool.QuotePath(v.Tool))
	fmt.Fprintf(&b, "  because  %s\n", v.Reason)
	fmt.Fprintf(&b, "  rule     %s\n", where(v.Rule))
	if v.Error != nil {
		fmt.Fprintf(&b, "  error    %s\n", v.Error.Text)
	}
	if v.Note != "" {
		fmt.Fprintf(&b, "  note     %s\n", v.Note)
	}
	if v.InPerson {
		b.WriteString("  asked    only at your own terminal: neither a client nor --approve all can answer\n")
	}
	if len(v.Parts) > 1 {
		for _, p := range v.Parts {
			fmt.Fprintf(&b, "  %-7s  %s: %s\n", p.Verdict, p.Part, where(p.Rule))
		}
	}
	if v.Runs != nil {
		b.WriteString("  runs     " + v.Runs.line() + "\n")
	}
	if v.Instead != "" {
		fmt.Fprintf(&b, "\n%s\n", v.Instead)
	}
	if v.Smallest != "" {
		b.WriteString("\nthe smallest rule that would allow this call and no other:\n\n" + v.Smallest)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// where names a rule for a person, with the whole path of its file.
func where(r policy.Ref) string {
	s := tool.QuotePath(r.Name)
	switch {
	case r.File == "":
		return s + " (built in)"
	case r.ID != "":
		return fmt.Sprintf("%s (saved rule %s, %s:%d)", s, r.ID, r.File, r.Line)
	}
	return fmt.Sprintf("%s (%s:%d)", s, r.File, r.Line)
}

// line is what runs, as one line.
func (p *shellPlan) line() string {
	if p.Script != "" {
		return tool.QuotePath(strings.TrimSuffix(p.Script, "\n"))
	}
	var parts []string
	for _, argv := range p.Pipe {
		parts = append(parts, fmt.Sprintf("%q", argv))
	}
	return strings.Join(parts, " | ") + ", without a shell"
}

func newPolicyRules() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "rules",
		Short: "List the rules in force, with where each stands",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := f.dir(c)
			if err != nil {
				return err
			}
			src, err := settings(c, dir, f.rules)
			if err != nil {
				return err
			}
			p := src.Policy()
			if asJSON {
				list := []listedRule{}
				for _, r := range p.Rules {
					list = append(list, listedRule{r.Ref(), r.Decision, r.Expires, expired(r), r.TOML()})
				}
				return printLine(c.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "VERDICT\tNAME\tABOUT\tEXPIRES\tSTANDS IN")
			for _, r := range p.Rules {
				until := "never"
				if !r.Expires.IsZero() {
					until = r.Expires.UTC().Format("2006-01-02 15:04 UTC")
				}
				if expired(r) {
					until = "has expired"
				}
				stands := fmt.Sprintf("%s:%d", r.Origin.File, r.Origin.Line)
				if r.ID != "" {
					stands = "saved, id " + r.ID
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Decision, tool.QuotePath(r.Name), tool.QuotePath(about(r)), until, stands)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			mode := p.Mode
			if mode == "" {
				mode = policy.ModeAsk
			}
			notice(c)(fmt.Sprintf("mode %s; what no rule speaks of and has effects is %s", mode, map[policy.Mode]string{
				policy.ModeAsk: "asked", policy.ModeAllowEdits: "asked, but for changes of unprotected files", policy.ModePlan: "denied, as is everything with effects", policy.ModeDeny: "denied",
			}[mode]))
			return nil
		},
	}
	f.addWorkspace(c)
	c.Flags().StringVar(&f.rules, "rules", "", "list those of this file, in place of your configuration and saved rules")
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as one JSON document")
	return c
}

type listedRule struct {
	policy.Ref
	Verdict policy.Decision `json:"verdict"`
	Expires time.Time       `json:"expires,omitzero"`
	Expired bool            `json:"expired,omitempty"`
	TOML    string          `json:"toml"`
}

func expired(r policy.Rule) bool { return !r.Expires.IsZero() && !time.Now().Before(r.Expires) }

// about is what a rule is about, in a few words.
func about(r policy.Rule) string {
	var parts []string
	add := func(what string, list []string) {
		if len(list) == 0 {
			return
		}
		shown := strings.Join(list[:min(len(list), 4)], ", ")
		if len(list) > 4 {
			shown += fmt.Sprintf(" and %d more", len(list)-4)
		}
		parts = append(parts, what+" "+shown)
	}
	texts := func(patterns [][]string) (out []string) {
		for _, p := range patterns {
			out = append(out, strings.Join(p, " "))
		}
		return out
	}
	add("tools", r.Tools)
	add("commands", texts(r.Commands))
	add("exactly", texts(r.Exact))
	add("paths", r.Paths)
	add("hosts", r.Hosts)
	add("effects", r.Effects.Strings())
	if len(r.Modules)+len(r.Inputs) > 0 {
		parts = append(parts, fmt.Sprintf("%d digests", len(r.Modules)+len(r.Inputs)))
	}
	for _, s := range r.Sources {
		parts = append(parts, "source "+string(s))
	}
	add("profiles", r.Profiles)
	add("in", r.Workspaces)
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, "; ")
}

func newPolicyRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a rule that was saved from an answer (for a person, at a terminal)",
		Long: `Revoke a rule that was saved from an answer; wasmtools policy rules shows the ids.
What runs already sees it at its next call. Rules that you wrote yourself are
removed with an editor.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			d := userDirs()
			if err := channel.Human(c.Context(), channel.Folder(d.run)); err != nil {
				return err
			}
			if err := config.OpenSaved(savedRules(d)).Revoke(a[0]); err != nil {
				return err
			}
			notice(c)("revoked " + a[0])
			return nil
		},
	}
}

func newPolicyStarter() *cobra.Command {
	return &cobra.Command{
		Use:   "starter",
		Short: "Print a file of rules for everyday development, with its examples",
		Long: `Print a file of rules for everyday development, with its examples. It is meant to
be read and cut: copy what you agree with into your configuration.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Starter())
			return err
		},
	}
}
