package wasmtools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wasmtools/wasmtools/catalog"
	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/tools-wasm/alias"
)

// Terminal lets models run commands: the tool terminal_session. Every command is
// judged by the rules of its workspace and runs in a sandbox profile, or not at
// all. It needs [Options.StateDir].
//
// The helper processes of the terminal are the program itself, started again, see
// package internal/proctree: they take over before main.
type Terminal struct {
	// Profile is that of calls that name none: workspace-write (also for "") or
	// read-only.
	Profile string
	// AllowUnsandboxed lets calls ask for the profile none. The rules have to allow
	// it besides, see [policy.Policy.Unsandboxed].
	AllowUnsandboxed bool
	// Weak accepts sandboxes without namespaces where the system refuses those;
	// results say what is then not guarded.
	Weak bool
	// NoNetwork turns off the network of sandboxes, which is a loopback of their own.
	NoNetwork bool
	// PassEnv names variables of this process that commands get, beside the few
	// that all get.
	PassEnv []string
	// Secret gives the secret that op send names; nil means that there are none. It
	// must be safe for concurrent use.
	Secret func(ctx context.Context, name string) ([]byte, error)
}

// commands is the terminal of one workspace. It is opened at its first use.
type commands struct {
	space   *space
	host    *proctree.Host
	options terminal.Options
	watch   watch

	mu      sync.Mutex
	closed  bool
	manager *terminal.Manager
	tool    *terminal.Tool
}

// commands is the terminal of s; nil if none is asked for.
func (o Options) commands(s *space, host *proctree.Host) *commands {
	t := o.Terminal
	private := []string{o.StateDir, o.CacheDir}
	c := &commands{space: s, host: host}
	c.watch.sink = s.evidence
	c.options = terminal.Options{
		Root: s.files.RealPath(), State: filepath.Join(o.StateDir, "terminal"), Host: host,
		Profile: t.Profile, AllowUnsandboxed: t.AllowUnsandboxed, Weak: t.Weak, NoNetwork: t.NoNetwork, PassEnv: t.PassEnv, Secret: t.Secret,
		Lists: c.lists, Private: absolute(append(private, o.Private...)), Events: c.watch.event,
	}
	return c
}

// absolute lists what is there of some paths, by their real names.
func absolute(paths []string) []string {
	var out []string
	for _, p := range paths {
		if p == "" {
			continue
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			p = real
		}
		if abs, err := filepath.Abs(p); err == nil {
			out = append(out, abs)
		}
	}
	return out
}

// keepsakes are where programs keep credentials below a home directory. No
// sandbox shows them.
var keepsakes = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker/config.json", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
	".pgpass", ".my.cnf", ".vault-token", ".password-store", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".config/gcloud", ".config/gh", ".config/hub", ".config/git/credentials", ".config/op", ".config/rclone", ".local/share/keyrings",
	".mozilla", ".config/google-chrome", ".config/chromium", ".terraform.d/credentials.tfrc.json", ".bash_history", ".zsh_history",
}

// surveyFor bounds how long a command waits for the lists.
const surveyFor = 15 * time.Second

// lists gives what no program may see, and what none may write. Nothing runs in a
// tree in which not all secrets can be found.
func (c *commands) lists(ctx context.Context) (hide, protect []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, surveyFor)
	defer cancel()
	hide, protect, err = c.space.files.Present(ctx)
	if err != nil {
		return nil, nil, tool.Errorf(tool.NotAvailable, "nothing was run: not all secrets of the workspace can be found, so that they cannot be hidden").
			WithNext("tell the user to take a smaller directory for the workspace, or to move .env files and keys out of it and use the profile none").Because(err)
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range keepsakes {
			if p := filepath.Join(home, filepath.FromSlash(name)); exists(p) {
				hide = append(hide, p)
			}
		}
	}
	return hide, protect, nil
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// source lists the tool.
func (c *commands) source() catalog.Source {
	return catalog.Fixed("terminal", catalog.Entry{Tool: c, Available: true, Aliases: alias.Names(c.Definition().Name)})
}

// open gives the manager, made at the first use: that ends what killed servers
// have left.
func (c *commands) open() (*terminal.Manager, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, tool.Errorf(tool.NotAvailable, "the terminal is shut down").WithNext("start the server again")
	}
	if c.manager == nil {
		m, err := terminal.Open(c.options)
		if err != nil {
			return nil, tool.Errorf(tool.NotAvailable, "no command can be run here").
				WithNext("tell the user that the terminal cannot be opened (wasmtools doctor)").Because(err)
		}
		c.manager, c.tool = m, terminal.NewTool(m, nil)
	}
	return c.manager, nil
}

// close ends everything that was started.
func (c *commands) close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	c.closed = true
	m := c.manager
	c.mu.Unlock()
	if m == nil {
		return nil
	}
	err := m.Shutdown()
	c.watch.flush()
	return err
}

// Definition implements [tool.Tool].
func (c *commands) Definition() tool.Definition { return (*terminal.Tool)(nil).Definition() }

// Origin implements [tool.Tool].
func (c *commands) Origin() tool.Origin { return (*terminal.Tool)(nil).Origin() }

// Preview implements [tool.Previewer]: what is seen of the call's surroundings,
// and not what the model claims.
func (c *commands) Preview(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Preview, error) {
	m, err := c.open()
	if err != nil {
		return tool.Preview{}, err
	}
	p, err := m.Prepare(ctx, inv.Arguments)
	if err != nil {
		return tool.Preview{}, err
	}
	defer p.Close()
	return previewOf(p.Question), nil
}

// previewOf is a question as the gate takes it.
func previewOf(q terminal.Question) tool.Preview {
	v := q.Preview
	v.Runs, v.Effects = true, tool.Executes
	v.Profile, v.Shell, v.Changed, v.Timeout = q.Profile, q.Shell, q.Changed, q.Timeout
	if v.Shell == "bash" {
		v.Shell = ""
	}
	v.InPerson = q.Profile == proctree.None && q.Kind != terminal.Harmless && q.Kind != terminal.IsAnswer && q.Kind != terminal.IsCommand
	switch q.Kind {
	case terminal.Harmless, terminal.IsAnswer:
		// It looks, ends what was allowed, or answers a question of it.
		v.Effects, v.Command = tool.Reads, ""
	case terminal.IsCommand:
		// What is typed is read by a program in a state that nobody knows: no rule
		// can allow it, but rules can deny it.
		v.Changed = v.Changed || q.Op == "send"
	}
	v.InPerson = v.InPerson || q.Secret
	if q.Op == "send" {
		v.Into = intoOf(q)
	}
	return v
}

// intoOf says what reads that which is typed.
func intoOf(q terminal.Question) string {
	name := cmp.Or(q.Program.File, q.Program.Name, "a program that cannot be seen")
	if q.Session != "" {
		return name + ", in session " + q.Session
	}
	return name + ", of process " + q.Process
}

// Call implements [tool.Tool]. It looks again, and does only what was agreed to.
func (c *commands) Call(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	m, err := c.open()
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	p, err := m.Prepare(ctx, inv.Arguments)
	if err != nil {
		return tool.ErrorResult(err), nil
	}
	defer p.Close()
	if p.Question.Preview.Binding != inv.Approved {
		return tool.ErrorResult(tool.Errorf(tool.ApprovalMismatch, "the command would now run otherwise than was approved").
			WithNext("nothing was run; make the call again, so that what would run now can be approved")), nil
	}
	id := p.Question.Session + p.Question.Process
	done := c.watch.call(id)
	res := c.tool.Do(ctx, p, inv.Plan, sink)
	var about struct {
		Session, Process string
		ExitCode         *int `json:"exit_code"`
	}
	_ = json.Unmarshal(res.Structured, &about) // a refusal has none
	if id == "" {
		id = about.Session + about.Process
	}
	if e, ok := sink.(interface{ exited(int) }); ok && about.ExitCode != nil && slices.Contains(ending, p.Question.Op) {
		e.exited(*about.ExitCode)
	}
	done(id, sink)
	return res, nil
}

// ending are the operations whose answer may tell the end of a command.
var ending = []string{"exec", "run", "wait"}

// closeTerminals ends all terminals, side by side: each needs up to three seconds.
func (r *Runtime) closeTerminals() error {
	errs := make([]error, len(r.spaces)+1)
	var wg sync.WaitGroup
	for i, s := range r.spaces {
		wg.Go(func() { errs[i] = s.commands.close() })
	}
	wg.Wait()
	if r.host != nil {
		errs[len(r.spaces)] = r.host.Close()
	}
	return errors.Join(errs...)
}

// Leaders lists the processes from which everything descends that was started
// for models: nothing that does may pass for a person.
func (r *Runtime) Leaders() []terminal.Leader {
	var l []terminal.Leader
	for _, m := range r.managers() {
		l = append(l, m.Leaders()...)
	}
	return l
}

// sandboxes says which profiles can be had.
func (c *commands) sandboxes(ctx context.Context) []Health {
	m, err := c.open()
	if err != nil {
		return []Health{{"terminal", false, err.Error()}}
	}
	var list []Health
	for _, name := range []string{proctree.WorkspaceWrite, proctree.ReadOnly} {
		active, err := m.Probe(ctx, name)
		if err != nil {
			list = append(list, Health{"terminal", false, name + ": " + err.Error()})
			continue
		}
		detail := name + ": " + strings.Join(active.Means, ", ") + "; network " + active.Network
		if len(active.Gaps) > 0 {
			detail += "; not guarded: " + strings.Join(active.Gaps, "; ")
		}
		list = append(list, Health{"terminal", true, detail})
	}
	none := proctree.None + ": not allowed"
	if c.options.AllowUnsandboxed {
		none = proctree.None + ": allowed, asked about each time"
	}
	return append(list, Health{"terminal", true, none})
}

// Sandboxes says which profiles commands can be had under on this machine; empty
// without a terminal. It starts helper processes.
func (r *Runtime) Sandboxes(ctx context.Context) []Health {
	for _, s := range r.spaces {
		if s.commands != nil {
			return s.commands.sandboxes(ctx)
		}
	}
	return nil
}

// Joinable lists what [Runtime.Join] takes, the oldest of each workspace first.
func (r *Runtime) Joinable() []terminal.Joinable {
	var l []terminal.Joinable
	for _, m := range r.managers() {
		l = append(l, m.Joinable()...)
	}
	return l
}

// managers are the terminals that were opened.
func (r *Runtime) managers() []*terminal.Manager {
	var l []*terminal.Manager
	for _, s := range r.spaces {
		if c := s.commands; c != nil {
			c.mu.Lock()
			if c.manager != nil {
				l = append(l, c.manager)
			}
			c.mu.Unlock()
		}
	}
	return l
}

// Join lets a person take part in a session, see [terminal.Manager.Join]. Whoever
// calls it has made sure that it is one.
func (r *Runtime) Join(session string, out func(p []byte)) (*terminal.Joined, error) {
	err := error(tool.Errorf(tool.NotFound, "there is no session %s", tool.QuotePath(session)))
	for _, s := range r.spaces {
		if s.commands == nil {
			continue
		}
		m, oerr := s.commands.open()
		if oerr != nil {
			return nil, oerr
		}
		j, jerr := m.Join(session, out)
		if jerr == nil {
			return j, nil
		}
		err = jerr
	}
	return nil, err
}
