package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval/policy"
	"github.com/wasmtools/wasmtools/approval/shell"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
	"github.com/wasmtools/wasmtools/workspace"
)

// terminalTool is the tool that runs shell texts.
const terminalTool = "terminal_session"

// checker says what the rules would decide about calls, without making them.
type checker struct {
	c     *cobra.Command
	flags *runtimeFlags
	root  string // real path of the workspace

	source *config.Source
	files  *workspace.Workspace // for its lists

	turn    *wasmtools.Turn // opened when a call needs it
	rt      *wasmtools.Runtime
	openErr error
}

func newChecker(c *cobra.Command, f *runtimeFlags) (*checker, error) {
	dir, err := f.dir(c)
	if err != nil {
		return nil, err
	}
	k := &checker{c: c, flags: f, root: realPath(dir)}
	if k.source, err = settings(c, dir, f.rules); err != nil {
		return nil, err
	}
	set := k.source.Settings().Workspace
	k.files, err = workspace.Open(dir, workspace.Options{
		Deny: userDirs().private(), DenyRead: set.DenyRead, Protect: set.Protect, AllowRead: set.AllowRead,
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// close gives back what was opened.
func (k *checker) close() error {
	err := k.files.Close()
	if k.rt != nil {
		err = errors.Join(err, k.rt.Close())
	}
	k.flags.leave()
	return err
}

// checked is the verdict on one call, as --json and --jsonl print it.
type checked struct {
	Line     int             `json:"line,omitempty"` // of the input, with --jsonl
	Tool     string          `json:"tool"`
	Verdict  policy.Decision `json:"verdict"`
	Rule     policy.Ref      `json:"rule"`
	Reason   string          `json:"reason"`
	Parts    []checkedPart   `json:"parts,omitempty"`
	Runs     *shellPlan      `json:"runs,omitempty"`
	Smallest string          `json:"smallest,omitempty"`
	Save     string          `json:"save,omitempty"`
	Instead  string          `json:"instead,omitempty"`
	InPerson bool            `json:"in_person,omitempty"`
	Note     string          `json:"note,omitempty"`
	Error    *checkedError   `json:"error,omitempty"`
}

type checkedPart struct {
	Part    string          `json:"part"`
	Verdict policy.Decision `json:"verdict"`
	Rule    policy.Ref      `json:"rule"`
	Why     string          `json:"why,omitempty"`
}

type shellPlan struct {
	Pipe   [][]string `json:"pipe,omitempty"`
	Script string     `json:"script,omitempty"`
	Env    []string   `json:"env,omitempty"`
}

type checkedError struct {
	Code tool.Code `json:"code"`
	Text string    `json:"text"`
}

// failed is the verdict on what is no call that could be made.
func failed(name string, err error) checked {
	e := tool.AsError(err)
	return checked{
		Tool: name, Verdict: policy.Deny, Rule: policy.Ref{Name: "not-a-call", Origin: policy.Origin{Layer: policy.BuiltIn}},
		Reason: "the call cannot be made as it is", Error: &checkedError{e.Code, e.Error()},
	}
}

// verdictOf is v as it is printed.
func verdictOf(name string, v policy.Verdict) checked {
	out := checked{
		Tool: name, Verdict: v.Decision, Rule: v.Rule, Reason: v.Reason, Instead: v.Instead, InPerson: v.InPerson,
	}
	for _, f := range v.Findings {
		out.Parts = append(out.Parts, checkedPart{f.Part, f.Decision, f.Rule, f.Why})
	}
	if v.Smallest != nil {
		out.Smallest = v.Smallest.TOML()
	}
	if v.Save != nil {
		out.Save = v.Save.TOML()
	}
	if p := v.Plan; p != nil {
		out.Runs = &shellPlan{Script: p.Script}
		for _, e := range p.Env {
			if !strings.HasPrefix(e, "PATH=") { // this process's own
				out.Runs.Env = append(out.Runs.Env, e)
			}
		}
		for _, e := range p.Pipe {
			out.Runs.Pipe = append(out.Runs.Pipe, e.Args)
		}
	}
	return out
}

// check judges one call.
func (k *checker) check(ctx context.Context, name string, args json.RawMessage) checked {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if to, mapped, ok, err := alias.Resolve(name, args); ok && to == terminalTool {
		if err != nil {
			return failed(to, err)
		}
		name, args = to, mapped
	}
	if name == terminalTool {
		return k.terminal(ctx, args)
	}
	turn, err := k.open()
	if err != nil {
		return failed(name, err)
	}
	if v, ok := k.secret(ctx, turn, name, args); ok {
		return verdictOf(name, v)
	}
	v, answer, judged := turn.Check(ctx, wasmtools.Request{Tool: name, Arguments: args})
	switch {
	case judged:
		return verdictOf(name, v)
	case answer.Code == tool.NotRegistered:
		return k.unregistered(ctx, name, args)
	case answer.IsError:
		text := ""
		for _, c := range answer.Content {
			text += c.Text
		}
		out := failed(name, nil)
		out.Error = &checkedError{answer.Code, text}
		return out
	}
	return checked{
		Tool: name, Verdict: policy.Allow, Rule: policy.Ref{Name: "no-change", Origin: policy.Origin{Layer: policy.BuiltIn}},
		Reason: "the call would change nothing, so nobody is asked",
	}
}

// secret judges a call of ours that names a secret path. The workspace refuses
// it before the rules are asked; here a person should read which list it is on.
func (k *checker) secret(ctx context.Context, turn *wasmtools.Turn, name string, args json.RawMessage) (policy.Verdict, bool) {
	i := slices.IndexFunc(turn.List(), func(it catalog.Item) bool { return it.Definition.Name == name })
	if i < 0 {
		return policy.Verdict{}, false
	}
	it := turn.List()[i]
	for _, member := range []string{"path", "root", "from", "to"} {
		p := textMember(args, member)
		if p == "" {
			continue
		}
		if list, secret := k.listed(ctx, p); secret {
			call := policy.Call{
				Tool: name, Source: it.Tool.Origin().Source, Effects: it.Definition.Effects, Arguments: args,
				Targets: []policy.Target{{Verb: policy.Read, Path: p, List: list, Secret: true}},
			}
			return policy.Judge(k.source.Policy(), call, k.site(ctx)), true
		}
	}
	return policy.Verdict{}, false
}

// open opens the runtime at the first call that needs it.
func (k *checker) open() (*wasmtools.Turn, error) {
	if k.turn == nil && k.openErr == nil {
		rt, turn, err := k.flags.begin(k.c)
		k.rt, k.turn, k.openErr = rt, turn, err
	}
	return k.turn, k.openErr
}

// site is where calls would run.
func (k *checker) site(ctx context.Context) policy.Site {
	home, _ := os.UserHomeDir()
	return policy.Site{
		Now: time.Now(), Fold: goruntime.GOOS != "linux",
		Root: k.root, Home: home, Path: shell.Path(), FS: shell.OS{},
		Listed: func(path string) (string, bool) { return k.listed(ctx, path) },
	}
}

// listed looks a file of a command up in the lists of the workspace.
func (k *checker) listed(ctx context.Context, path string) (rule string, secret bool) {
	if k.files == nil {
		return "", false
	}
	return k.files.RuleOf(ctx, path)
}

// unregistered judges a call of a tool that is not here now, such as that of a
// server that is not connected: with every effect, from the least trusted place.
func (k *checker) unregistered(ctx context.Context, name string, args json.RawMessage) checked {
	canonical, err := canonicalArguments(args)
	if err != nil {
		return failed(name, err)
	}
	source := tool.Installed
	if strings.Contains(name, "__") {
		source = tool.MCP
	}
	call := policy.Call{
		Tool: name, Source: source, Effects: tool.Reads | tool.Writes | tool.Destroys | tool.Executes | tool.UsesNetwork,
		Arguments: canonical,
	}
	out := verdictOf(name, policy.Judge(k.source.Policy(), call, k.site(ctx)))
	out.Note = fmt.Sprintf("no tool of this name is here now; it was judged as one of source %s that can do everything", source)
	return out
}

// terminalArgs are the arguments of the terminal that decide what it does.
type terminalArgs struct {
	Op      string            `json:"op"`
	Command *string           `json:"command"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
	Profile string            `json:"profile"`
	Shell   string            `json:"shell"`
}

// canonicalArguments checks that args are a JSON object and gives its canonical
// form (RFC 8785), of which a call's digest is taken.
func canonicalArguments(args json.RawMessage) (json.RawMessage, error) {
	bad := func(why string) error {
		return tool.Errorf(tool.InvalidArguments, "the arguments are no JSON object%s", why)
	}
	if !json.Valid(args) { // also bounds how deep they are nested
		return nil, bad("")
	}
	if trimmed := bytes.TrimLeft(args, " \t\r\n"); trimmed[0] != '{' {
		return nil, bad("")
	}
	out, err := jcs.Transform(args)
	if err != nil {
		return nil, bad(": " + err.Error())
	}
	return out, nil
}

// terminalMembers are all arguments of the terminal, as its schema spells them.
// The decoder takes Command for command too, so a member that is spelt otherwise
// would be judged in place of the one that runs, or pass unjudged.
var terminalMembers = sync.OnceValue(func() []string {
	var schema struct{ Properties map[string]json.RawMessage }
	_ = json.Unmarshal((*terminal.Tool)(nil).Definition().Input, &schema) // it is our own
	return slices.Sorted(maps.Keys(schema.Properties))
})

// knownMembers refuses arguments that the terminal does not have.
func knownMembers(args json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(args, &m); err != nil {
		return tool.Errorf(tool.SchemaInvalid, "the arguments of %s do not fit: %v", terminalTool, err)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(terminalMembers(), name) {
			return tool.Errorf(tool.SchemaInvalid, "$.%s: %s has no such argument", tool.QuotePath(name), terminalTool).
				WithNext("leave it out, or spell it as the tool does: %s", strings.Join(terminalMembers(), ", "))
		}
	}
	return nil
}

// textMember is the text that a member of exactly this name holds, or "".
func textMember(args json.RawMessage, name string) string {
	var m map[string]json.RawMessage
	var s string
	if json.Unmarshal(args, &m) != nil || json.Unmarshal(m[name], &s) != nil {
		return ""
	}
	return s
}

// looking are the operations of the terminal that run nothing and send nothing,
// or end what was allowed.
var looking = []string{"read", "screen", "wait", "list", "resize", "signal", "close"}

// terminal judges a call of the terminal.
func (k *checker) terminal(ctx context.Context, args json.RawMessage) checked {
	call, err := terminalCall(args, k.root, k.source.Settings().Terminal.Profile)
	if err != nil {
		return failed(terminalTool, err)
	}
	v := policy.Judge(k.source.Policy(), call, k.site(ctx))
	if textMember(args, "op") == "open" && textMember(args, "profile") == policy.ProfileNone && v.Decision != policy.Deny {
		if !k.source.Settings().Terminal.AllowUnsandboxed {
			return failed(terminalTool, tool.Errorf(tool.Denied, "the profile none is not allowed here").
				WithNext("use another profile, or set allow_unsandboxed = true in [terminal] of your configuration"))
		}
		// There is no text that a rule could be about.
		v.Decision, v.InPerson, v.Smallest, v.Save = policy.Ask, true, nil, nil
	}
	return verdictOf(terminalTool, v)
}

// terminalCall is a call of the terminal as the rules see it.
func terminalCall(args json.RawMessage, root, profile string) (policy.Call, error) {
	canonical, err := canonicalArguments(args)
	if err != nil {
		return policy.Call{}, err
	}
	if err := knownMembers(canonical); err != nil {
		return policy.Call{}, err
	}
	var a terminalArgs
	if err := json.Unmarshal(canonical, &a); err != nil {
		return policy.Call{}, tool.Errorf(tool.SchemaInvalid, "the arguments of %s do not fit: %v", terminalTool, err)
	}
	call := policy.Call{Tool: terminalTool, Source: tool.Native, Effects: tool.Executes, Arguments: canonical}
	if a.Op == "" {
		a.Op = "exec"
	}
	switch {
	case slices.Contains(looking, a.Op):
		call.Effects = tool.Reads
		return call, nil
	case a.Op != "exec" && a.Op != "run":
		return call, nil // it runs or sends something that is no text to judge
	case a.Command == nil:
		return policy.Call{}, tool.Errorf(tool.SchemaInvalid, "$.command: missing")
	}
	if a.Profile != "" {
		profile = a.Profile
	}
	cwd := root
	switch {
	case filepath.IsAbs(a.Cwd):
		cwd = realPath(a.Cwd)
	case a.Cwd != "":
		cwd = realPath(filepath.Join(root, filepath.FromSlash(a.Cwd)))
	}
	call.Command = &policy.Command{Text: *a.Command, Cwd: cwd, Env: maps.Clone(a.Env), Profile: profile, Shell: filepath.Base(a.Shell)}
	if a.Shell == "" {
		call.Command.Shell = ""
	}
	return call, nil
}
