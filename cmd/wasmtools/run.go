package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/show"
	"github.com/wasmtools/wasmtools/tool"
)

// maxArgumentFile bounds what is read from a file or stdin as arguments.
const maxArgumentFile = 64 << 20

func newRun() *cobra.Command {
	f := runtimeFlags{program: "run"}
	var asJSON bool
	var overlay string
	c := &cobra.Command{
		Use:   "run [flags] TOOL [JSON | - | @file]",
		Short: "Run one tool call through the whole path and print its result",
		Long: `Run one tool call through the whole path and print its result.

The arguments are a JSON object, "-" for standard input, or "@file". The text
goes to stdout; with --json one line {"content","structuredContent","isError","code"}.

With --module the tools of a module can be run without installing it. It gets
what --grant gives, and nothing else:

  fs.read=GLOB,...  fs.write=GLOB,...       files of the workspace
  net=HOST[:PORT][:METHOD,...]              hosts, by GET and HEAD unless methods are named
  net.private=HOST[:PORT][:METHOD,...]      the same, also at private and local addresses
  secret=HOST[:PORT]/HEADER/NAME[/FORMAT]   a header that is added for a host granted before
  env=NAME,...                              variables of the environment
  kv                                        a store that is kept between calls
  clock                                     clocks at full precision
  all                                       what the tool asks for

"TOOL:" before any of these gives it to that tool alone.

With --overlay (or --overlay=NAME) the call is a dry run: see wasmtools overlay.

Exit codes: 0 ok, 2 usage, 3 denied, 4 approval required and nobody answered,
5 the tool returned an error, 6 a module is not what it should be, 7 a limit was
hit, 130 interrupted, 1 anything else.`,
		Example: `  wasmtools run grep '{"pattern":"func main"}'
  wasmtools run --approve all write_file '{"path":"a.txt","content":"hi\n"}'
  wasmtools run --module cat.wasm=cat.toml --grant fs.read='docs/**' cat '{"path":"docs/a.txt"}'`,
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, a []string) error {
			arguments, err := readArguments(c.InOrStdin(), a[1:])
			if err != nil {
				return err
			}
			// Of upstream servers, only the one that is meant is needed.
			f.servers, f.patience = func(name string) bool { return strings.HasPrefix(a[0], name+"__") }, 30*time.Second
			defer f.leave()
			var dry *overlayFile
			if c.Flags().Changed("overlay") {
				dir, err := f.dir(c)
				if err != nil {
					return err
				}
				if dry, err = holdOverlay(realPath(dir), overlay); err != nil {
					return err
				}
				defer dry.unlock()
			}
			rt, turn, err := f.begin(c)
			if err != nil {
				return err
			}
			defer rt.Close()
			began := time.Now()
			req := wasmtools.Request{Tool: a[0], Arguments: arguments}
			var out wasmtools.Outcome
			if dry != nil {
				if out, err = runOn(c, turn, dry, req); err != nil {
					return err
				}
			} else {
				out = turn.Call(c.Context(), []wasmtools.Request{req})[0]
			}
			verbose(c)(fmt.Sprintf("%s took %s", out.Tool, roundTime(time.Since(began))))
			if err := printResult(c.OutOrStdout(), out.Result, asJSON); err != nil {
				return err
			}
			if len(rt.Leaders()) > 0 {
				notice(c)("what the call started and still runs is ended now; wasmtools mcp keeps it between calls")
			}
			if out.Result.IsError {
				return exitCode(exitForCode(out.Result.Code))
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as one line of JSON")
	c.Flags().StringVar(&overlay, "overlay", defaultOverlay, "a dry run: the call sees, and changes, an overlay of this `NAME` that is kept until wasmtools overlay commit or drop")
	c.Flags().Lookup("overlay").NoOptDefVal = defaultOverlay
	return c
}

func readArguments(in io.Reader, a []string) (json.RawMessage, error) {
	if len(a) == 0 {
		return json.RawMessage("{}"), nil
	}
	var r io.Reader = strings.NewReader(a[0])
	switch {
	case a[0] == "-":
		r = in
	case strings.HasPrefix(a[0], "@"):
		f, err := openNamed(a[0][1:])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	p, err := io.ReadAll(io.LimitReader(r, maxArgumentFile+1))
	if err != nil {
		return nil, err
	}
	if len(p) > maxArgumentFile {
		return nil, usageError{fmt.Errorf("the arguments are larger than %d bytes", maxArgumentFile)}
	}
	return p, nil
}

// resultJSON is the contract of --json.
type resultJSON struct {
	Content    []tool.Content  `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError"`
	Code       tool.Code       `json:"code,omitempty"`
	Details    map[string]any  `json:"details,omitempty"`
}

// onScreenText is text as a terminal may get it: lines and tabs stay, what it would
// obey is shown by its name.
func onScreenText(text string) string {
	parts := strings.Split(text, "\t")
	for i, p := range parts {
		parts[i] = show.Block(p)
	}
	return strings.Join(parts, "\t")
}

// printResult prints a result as it is, but on a terminal, which would obey what a
// stranger's tool says.
func printResult(w io.Writer, r tool.Result, asJSON bool) error {
	f, isFile := w.(*os.File)
	onTerminal := isFile && term.IsTerminal(int(f.Fd()))
	if asJSON {
		if r.Content == nil {
			r.Content = []tool.Content{}
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(resultJSON{r.Content, r.Structured, r.IsError, r.Code, r.Details})
	}
	for _, c := range r.Content {
		text := c.Text
		switch c.Kind {
		case tool.KindText:
		case tool.KindResourceLink:
			if text = c.URI; strings.Contains(r.PlainText(), text) {
				continue // a receipt, which names it
			}
		default:
			text = fmt.Sprintf("[%s, %s, %d bytes; use --json to get it]", c.Kind, c.MIMEType, len(c.Data))
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if onTerminal {
			text = onScreenText(text)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}
