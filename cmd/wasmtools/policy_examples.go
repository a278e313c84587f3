package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// exampleRoot is the workspace of examples. Nothing is there.
const exampleRoot = "/workspace"

func newPolicyTest() *cobra.Command {
	var f runtimeFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "test [FILE]",
		Short: "Run the examples of a file of rules",
		Long: `Run the examples of a file of rules: calls with the verdict that the rules should
give. Without FILE it is your configuration.

Examples are judged by the rules of their own file alone, as if every program
were installed and nothing else were on the disk, so that they give the same
everywhere. Exit code 1 if one fails.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			file := userConfig(userDirs())
			if len(a) == 1 {
				file = a[0]
			}
			p, err := config.ReadFile(file)
			if len(a) == 0 && errors.Is(err, fs.ErrNotExist) {
				return usageError{fmt.Errorf("nothing is configured at %s; name the file whose examples are meant", file)}
			} else if err != nil {
				return usageError{err}
			}
			s, err := config.Parse(file, p)
			if err != nil {
				return usageError{err}
			}
			tools, err := exampleTools(c, &f)
			if err != nil {
				return err
			}
			failed := 0
			for _, e := range s.Examples {
				r := runExample(s, e, tools)
				if !r.OK {
					failed++
				}
				if asJSON {
					err = printLine(c.OutOrStdout(), r)
				} else {
					_, err = fmt.Fprintln(c.OutOrStdout(), r)
				}
				if err != nil {
					return err
				}
			}
			notice(c)(fmt.Sprintf("%d examples, %d failed", len(s.Examples), failed))
			if failed > 0 {
				return exitCode(exitFailure)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each example")
	return c
}

// exampleResult is what became of an example.
type exampleResult struct {
	File   string          `json:"file"`
	Line   int             `json:"line"`
	Call   string          `json:"call"`
	Should policy.Decision `json:"should"`
	Got    policy.Decision `json:"got"`
	OK     bool            `json:"ok"`
	Rule   policy.Ref      `json:"rule"`
	Reason string          `json:"reason"`
}

func (r exampleResult) String() string {
	if r.OK {
		return fmt.Sprintf("ok    %-5s  %s", r.Got, r.Call)
	}
	return fmt.Sprintf("FAIL  %s:%d: %s\n      should be %s, is %s: %s\n      by %s", r.File, r.Line, r.Call, r.Should, r.Got, r.Reason, where(r.Rule))
}

// exampleTools are the definitions of the tools that examples can name.
func exampleTools(c *cobra.Command, f *runtimeFlags) (map[string]exampleTool, error) {
	scratch, err := os.MkdirTemp("", "wasmtools-examples-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	rt, err := wasmtools.Open(c.Context(), wasmtools.Options{Workspaces: []wasmtools.Workspace{{Dir: scratch}}})
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	turn, err := rt.Begin(c.Context(), wasmtools.Facts{})
	if err != nil {
		return nil, err
	}
	out := map[string]exampleTool{}
	for _, it := range turn.List() {
		o := it.Tool.Origin()
		out[it.Definition.Name] = exampleTool{it.Definition.Effects, o.Source, o.Trusted}
	}
	return out, nil
}

type exampleTool struct {
	effects tool.Effects
	source  tool.Source
	trusted bool
}

// runExample judges an example by the rules of its own file.
func runExample(s config.Settings, e config.Example, tools map[string]exampleTool) exampleResult {
	r := exampleResult{File: e.Origin.File, Line: e.Origin.Line, Should: e.Should}
	name, args := e.Tool, json.RawMessage(e.Arguments)
	if name == "" {
		name = terminalTool
		args, _ = json.Marshal(map[string]string{"op": "exec", "command": e.Command, "cwd": e.Cwd, "profile": e.Profile})
		r.Call = tool.QuotePath(e.Command)
	} else {
		if args == nil {
			args = json.RawMessage("{}")
		}
		r.Call = tool.QuotePath(name + " " + string(args))
	}
	v, err := judgeExample(s, name, args, tools)
	if err != nil {
		r.Got, r.Reason = policy.Deny, err.Error()
	} else {
		r.Got, r.Rule, r.Reason = v.Decision, v.Rule, v.Reason
	}
	r.OK = err == nil && r.Got == e.Should
	return r
}

func judgeExample(s config.Settings, name string, args json.RawMessage, tools map[string]exampleTool) (policy.Verdict, error) {
	site := policy.Site{Root: exampleRoot, Home: "/home/you", Path: []string{"/usr/bin"}, FS: exampleFS{path: []string{"/usr/bin"}}}
	if to, mapped, ok, err := alias.Resolve(name, args); ok {
		if err != nil {
			return policy.Verdict{}, err
		}
		name, args = to, mapped
	}
	if name == terminalTool {
		call, err := terminalCall(args, exampleRoot, s.Terminal.Profile)
		if err != nil {
			return policy.Verdict{}, err
		}
		return policy.Judge(s.Policy(), call, site), nil
	}
	canonical, err := canonicalArguments(args)
	if err != nil {
		return policy.Verdict{}, err
	}
	about, known := tools[name]
	if !known {
		about = exampleTool{tool.Reads | tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork, tool.Installed, false}
	}
	call := policy.Call{Tool: name, Source: about.source, Trusted: about.trusted, Effects: about.effects, Arguments: canonical}
	call.Targets = argumentTargets(about.effects, canonical)
	return policy.Judge(s.Policy(), call, site), nil
}

// argumentTargets are the files that the arguments of one of our own tools name.
func argumentTargets(effects tool.Effects, args json.RawMessage) []policy.Target {
	var out []policy.Target
	add := func(verb policy.Verb, p string) {
		if p != "" {
			out = append(out, policy.Target{Verb: verb, Path: path.Clean(p)})
		}
	}
	writes := effects.Any(tool.Writes | tool.Destroys)
	verb := policy.Read
	if writes {
		verb = policy.Write
	}
	add(verb, textMember(args, "path"))
	add(policy.Read, textMember(args, "root")) // of a search
	if writes {
		add(policy.Delete, textMember(args, "from"))
		add(policy.Write, textMember(args, "to"))
	}
	return slices.Clip(out)
}
