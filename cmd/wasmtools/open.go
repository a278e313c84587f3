package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/budget"
	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/catalog/embedhttp"
	"github.com/wasmtools/wasmtools/catalog/rank"
	"github.com/wasmtools/wasmtools/config"
	"github.com/wasmtools/wasmtools/evidence"
	"github.com/wasmtools/wasmtools/host"
	"github.com/wasmtools/wasmtools/skill"
	"github.com/wasmtools/wasmtools/tool"
)

// runtimeFlags are the flags of every command that opens a workspace.
type runtimeFlags struct {
	workspace string
	approve   string
	module    moduleFlags

	program string  // "run" or "mcp", if people are to be asked
	people  *people // who can be; once opened

	// servers says which upstream servers are connected to; nil: none. They are
	// waited for so long.
	servers  func(name string) bool
	patience time.Duration
	ups      []*upstream // once opened
	skills   *skill.Set

	rules  string         // a file in place of the user's configuration; "" is none
	source *config.Source // the settings, once opened
	record *evidence.Log  // what happens, once opened
}

func (f *runtimeFlags) addWorkspace(c *cobra.Command) {
	c.Flags().StringVarP(&f.workspace, "workspace", "w", "", "directory that the tools may see (default: $WASMTOOLS_WORKSPACE, else the current directory)")
}

func (f *runtimeFlags) add(c *cobra.Command) {
	f.addWorkspace(c)
	c.Flags().StringVar(&f.approve, "approve", "ask", "who answers for changes: ask (a person), all (yes to everything), none (no to everything)")
	f.module.add(c)
}

// begin opens the runtime that the flags describe and begins its one turn. The
// caller closes the runtime.
func (f *runtimeFlags) begin(c *cobra.Command) (*wasmtools.Runtime, *wasmtools.Turn, error) {
	return f.beginWith(c, wasmtools.Facts{Exposure: catalog.ExposeAll})
}

func (f *runtimeFlags) beginWith(c *cobra.Command, facts wasmtools.Facts) (*wasmtools.Runtime, *wasmtools.Turn, error) {
	rt, err := f.open(c)
	if err != nil {
		return nil, nil, err
	}
	turn, err := rt.Begin(c.Context(), facts)
	if err != nil {
		return nil, nil, errors.Join(err, rt.Close())
	}
	return rt, turn, nil
}

func (f *runtimeFlags) open(c *cobra.Command) (*wasmtools.Runtime, error) {
	dir, err := f.dir(c)
	if err != nil {
		return nil, err
	}
	approvers, err := f.approvers(c)
	if err != nil {
		return nil, err
	}
	modules, err := f.module.load()
	if err != nil {
		return nil, err
	}
	if f.source, err = settings(c, dir, f.rules); err != nil {
		return nil, err
	}
	d, set := userDirs(), f.source.Settings()
	if f.program != "" {
		f.people = meet(c, f.program, realPath(dir), f.approve == "ask", set.Approvals.Headless)
		approvers = append(approvers, f.people.approvers(c, f.program, set.Approvals.Headless)...)
	}
	if f.record, err = openRecord(d, realPath(dir)); err != nil {
		return nil, err
	}
	f.skills = skill.Load(skillFolders(set.Skills)...)
	for _, x := range f.skills.Faults {
		notice(c)("a skill is left out: " + x.String())
	}
	f.ups = upstreams(c, set.MCP.Servers, realPath(dir), f.servers)
	noInput, _ := c.Flags().GetBool("no-input")
	sources := []catalog.Source{host.Source(host.Adapters{AskUser: f.askPerson(noInput)})}
	for _, u := range f.ups {
		sources = append(sources, u)
	}
	ready(c.Context(), f.ups, f.patience)
	rt, err := wasmtools.Open(c.Context(), wasmtools.Options{
		Sources: sources,
		Workspaces: []wasmtools.Workspace{{
			Dir: dir, Policy: f.source.Policy, Evidence: f.record,
			DenyRead: set.Workspace.DenyRead, Protect: set.Workspace.Protect, AllowRead: set.Workspace.AllowRead,
			Lists:          f.source.Lists,
			AllowHardLinks: set.Workspace.HardLinks, RequireRead: set.Workspace.RequireRead,
			Tools: func(name string) bool { return f.source.Settings().Tools.Has(name) },
		}},
		Limits:      limits(set.Limits),
		Budget:      func() budget.Gates { return gates(f.source.Settings().Budget) },
		Artifacts:   kept(set.Artifacts),
		Undo:        journal(set.Undo),
		Modules:     modules,
		Secrets:     secrets(d.state),
		Hidden:      (&secretValues{dir: filepath.Join(d.state, "secrets")}).get,
		Approvers:   approvers,
		ApprovalTTL: set.Approvals.Timeout,
		Rules:       ruleKeeper{config.OpenSaved(savedRules(d))},
		Private:     d.private(),
		StateDir:    d.state,
		CacheDir:    d.cache,
		Notice:      notice(c),
		Skills:      f.skills,
		Deferral:    deferral(set.ToolSearch, notice(c)),
		Pins:        set.ToolSearch.Pins,
		Ranker:      ranker(c, set.ToolSearch, d.state),

		CompileChild: compileChild(),
		Terminal:     commands(set.Terminal, d.state),
	})
	if err == nil && f.people != nil {
		f.people.started.rt.Store(rt)
	}
	if tool.CodeOf(err) == tool.InvalidArguments { // a grant that says nothing
		err = usageError{err}
	}
	return rt, err
}

// deferral is what the configuration says about it, changed by the environment.
// A value there that says nothing is told, and ignored.
func deferral(set config.ToolSearch, notice func(string)) catalog.DeferralOptions {
	o := catalog.DeferralOptions{Off: !set.Enabled, Models: set.Models, Threshold: set.ThresholdPct, Least: set.MinDeferCount}
	ignored := func(name, want string) {
		notice(fmt.Sprintf("%s=%s is ignored: it is %s", name, tool.QuotePath(os.Getenv(name)), want))
	}
	if name := "WASMTOOLS_TOOL_SEARCH"; os.Getenv(name) != "" {
		switch os.Getenv(name) {
		case "1", "true":
			o.Off = false
		case "0", "false":
			o.Off = true
		default:
			ignored(name, "1 or 0")
		}
	}
	if v := os.Getenv("WASMTOOLS_TOOL_SEARCH_MODELS"); v != "" {
		o.Models = strings.Split(v, ",")
	}
	if name := "WASMTOOLS_TOOL_SEARCH_THRESHOLD_PCT"; os.Getenv(name) != "" {
		if x, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil && x > 0 && x <= 1 {
			o.Threshold = x
		} else {
			ignored(name, "a share of the context window, over 0 and up to 1")
		}
	}
	if name := "WASMTOOLS_TOOL_SEARCH_MIN_DEFER_COUNT"; os.Getenv(name) != "" {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			o.Least = n
		} else {
			ignored(name, "a number of tools, 1 or more")
		}
	}
	return o
}

// ranker ranks by words, and by meaning where a server for that is configured.
func ranker(c *cobra.Command, set config.ToolSearch, state string) catalog.Ranker {
	words := rank.New(rank.Options{})
	if set.EmbedURL == "" {
		return words
	}
	o := embedhttp.Options{URL: set.EmbedURL, Model: set.EmbedModel}
	if set.EmbedSecret != "" {
		o.Key = func() (string, error) { return secrets(state)(set.EmbedSecret) }
	}
	client, err := embedhttp.New(o)
	if err != nil { // the configuration was checked; words do
		notice(c)(err.Error())
		return words
	}
	return rank.Hybrid(words, client, rank.HybridOptions{Notice: notice(c)})
}

// skillFolders are the folders of the configuration, of which ~/ begins those below
// the home folder.
func skillFolders(written []string) []string {
	home, _ := os.UserHomeDir()
	var out []string
	for _, p := range written {
		if rest, ok := strings.CutPrefix(p, "~/"); ok && home != "" {
			p = filepath.Join(home, rest)
		}
		out = append(out, p)
	}
	return out
}

// commands lets models run commands, where there is something that ends them.
func commands(set config.Terminal, state string) *wasmtools.Terminal {
	if goruntime.GOOS == "windows" {
		return nil
	}
	get := secrets(state)
	return &wasmtools.Terminal{
		Profile: set.Profile, AllowUnsandboxed: set.AllowUnsandboxed,
		Weak: set.WeakSandbox, NoNetwork: set.Network == config.NetworkOff, PassEnv: set.PassEnv,
		Secret: func(_ context.Context, name string) ([]byte, error) {
			v, err := get(name)
			return []byte(v), err
		},
	}
}

// leave ends what open began beside the runtime; it may be called always, after
// the runtime was closed.
func (f *runtimeFlags) leave() {
	if f.people != nil {
		f.people.leave()
	}
	if f.record != nil {
		_ = f.record.Close() // what could not be written was told when it happened
	}
}

func (f *runtimeFlags) approvers(c *cobra.Command) ([]approval.Approver, error) {
	switch f.approve {
	case "", "ask":
		return nil, nil
	case "all":
		notice(c)("every change is accepted without asking (--approve all)")
		return []approval.Approver{approval.Always(approval.Allow)}, nil
	case "none":
		notice(c)("every change is refused (--approve none)")
		return []approval.Approver{approval.Always(approval.Deny)}, nil
	}
	return nil, usageError{fmt.Errorf("--approve is ask, all or none, not %q", f.approve)}
}

// dir chooses the workspace. A default that is far wider than a project is
// refused: only naming it says that it is meant.
func (f *runtimeFlags) dir(c *cobra.Command) (string, error) {
	named, meant := f.workspace, f.workspace != ""
	if !meant {
		named = os.Getenv("WASMTOOLS_WORKSPACE")
	}
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", usageError{fmt.Errorf("the workspace %s cannot be used: %w; name a directory that exists with --workspace", named, errors.Unwrap(err))}
		}
		if err := needDir(named); err != nil {
			return "", usageError{fmt.Errorf("the workspace cannot be used: %w; name a directory with --workspace", err)}
		}
		if own := ownFolder(named); own != "" {
			return "", usageError{fmt.Errorf("the workspace %s lies in %s, where wasmtools keeps what is its own; no tool may see that", named, own)}
		}
		if wide, what := tooWide(named); wide && !meant {
			return "", usageError{fmt.Errorf("WASMTOOLS_WORKSPACE is %s, which is too wide as a workspace; name it with --workspace if it is meant", what)}
		} else if wide {
			notice(c)("warning: the workspace is " + what + "; tools see everything below it")
		}
		return named, nil
	}
	if own := ownFolder("."); own != "" {
		return "", usageError{fmt.Errorf("the current directory lies in %s, where wasmtools keeps what is its own; change to a project, or name it with --workspace", own)}
	}
	if wide, what := tooWide("."); wide {
		return "", usageError{fmt.Errorf("the current directory is %s, which is too wide as a workspace; change to a project, or name it with --workspace", what)}
	}
	return ".", nil
}

// ownFolder is the folder of ours that dir lies in or is; "" if in none.
func ownFolder(dir string) string {
	real := realPath(dir)
	for _, own := range userDirs().private() {
		if isBelow(real, realPath(own)) {
			return own
		}
	}
	return ""
}

// tooWide reports whether dir is the file system's root, the home folder, or a
// parent of the folder that holds our own state.
func tooWide(dir string) (bool, string) {
	real := realPath(dir)
	home, _ := os.UserHomeDir()
	switch {
	case real == filepath.Dir(real):
		return true, "the root of the file system"
	case home != "" && real == realPath(home):
		return true, "the home folder"
	case isBelow(realPath(userDirs().state), real):
		return true, "a parent of the folder where wasmtools keeps its state"
	}
	return false, ""
}

func realPath(p string) string {
	if abs, err := filepath.Abs(p); err == nil {
		p = abs
	}
	// What does not exist yet is resolved as far as it exists.
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest)
		} else if !errors.Is(err, os.ErrNotExist) || p == filepath.Dir(p) {
			return filepath.Join(p, rest)
		}
		rest, p = filepath.Join(filepath.Base(p), rest), filepath.Dir(p)
	}
}

func isBelow(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// noticeWriter is where remarks for a person go, line by line.
func noticeWriter(c *cobra.Command) io.Writer {
	if quiet, _ := c.Flags().GetBool("quiet"); quiet {
		return io.Discard
	}
	return c.ErrOrStderr()
}

// verbose returns a function that prints a remark on stderr if -v was given.
func verbose(c *cobra.Command) func(string) {
	if on, _ := c.Flags().GetBool("verbose"); on {
		return notice(c)
	}
	return func(string) {}
}

// notice returns a function that prints a remark for a person on stderr.
func notice(c *cobra.Command) func(string) {
	w := noticeWriter(c)
	return func(s string) { fmt.Fprintf(w, "wasmtools: %s\n", s) }
}
