package terminal

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Kind says how much a call may do, for whoever decides about it.
type Kind string

const (
	Harmless  Kind = "harmless" // looks, waits, or ends what was started
	Opens     Kind = "open"     // starts a shell that does nothing yet
	IsCommand Kind = "command"  // runs a text, or types into what takes commands
	IsInput   Kind = "input"    // types into another program
	IsAnswer  Kind = "answer"   // y, n, Enter, arrows, ctrl-C, into another program
)

// Question is a call with everything that decides what it does, as the manager
// sees it and not as the model claims.
type Question struct {
	Op      string
	Kind    Kind
	Effects tool.Effects

	// Preview holds Command (the shell text, or what is typed), Cwd (real,
	// absolute), Env (what the call sets) and Binding: a digest over all of this
	// type, and the identity of the directory. A question with another Binding is
	// another question.
	Preview tool.Preview

	Profile string
	Shell   string // of the session, or bash
	Changed bool   // the session's shell is not as it was started
	Session string // that the call is about, or
	Process string
	Program Program // in the foreground, of send
	TTY     bool
	Secret  bool          // a secret is typed, of send
	Timeout time.Duration // after which the command is killed; 0: never
}

// Prepared is a call that was looked at and not made. Close gives it up, also
// after it was made.
type Prepared struct {
	Question Question
	args     Arguments
	dir      *Dir
}

// Close gives up what the call holds.
func (p *Prepared) Close() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

// Prepare finds out what a call would do.
func (m *Manager) Prepare(ctx context.Context, raw json.RawMessage) (*Prepared, error) {
	a, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	p := &Prepared{args: a, Question: Question{Op: a.Op, Kind: Harmless, Effects: tool.Reads, Session: a.Session, Process: a.Process}}
	q := &p.Question
	switch a.Op {
	case "exec", "open":
		err = m.prepareStart(p)
	case "run":
		err = m.prepareRun(p)
	case "send":
		err = m.prepareSend(p)
	case "signal", "resize", "close":
		q.Effects = tool.Executes
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	p.bind()
	return p, nil
}

func (m *Manager) prepareStart(p *Prepared) error {
	a, q := &p.args, &p.Question
	if err := checkEnv(a.Env); err != nil {
		return err
	}
	q.Profile, q.Effects = m.profileName(a.Profile), tool.Executes
	if err := m.permits(q.Profile); err != nil {
		return err
	}
	dir, err := m.directory(a.Cwd)
	if err != nil {
		return err
	}
	p.dir = dir
	q.Preview.Cwd, q.Preview.Env = dir.Path, a.Env
	if a.Op == "open" {
		q.Kind, q.TTY = Opens, true
		if q.Shell = a.Shell; q.Shell == "" {
			q.Shell = "bash"
		}
		return nil
	}
	if err := checkCommand(a.Command); err != nil {
		return err
	}
	q.Kind, q.Shell, q.TTY, q.Preview.Command = IsCommand, "bash", a.TTY, a.Command
	if q.Timeout = millis(a.TimeoutMS); q.Timeout == 0 {
		q.Timeout = DefaultTimeout
	}
	return nil
}

func (m *Manager) prepareRun(p *Prepared) error {
	a, q := &p.args, &p.Question
	if err := checkCommand(a.Command); err != nil {
		return err
	}
	q.Kind, q.Effects, q.Preview.Command, q.TTY, q.Timeout = IsCommand, tool.Executes, a.Command, true, millis(a.TimeoutMS)
	return m.observe(p)
}

// observe fills in what is seen of the session or process.
func (m *Manager) observe(p *Prepared) error {
	q := &p.Question
	u, err := m.find(p.args.id())
	if err != nil {
		return err
	}
	q.Profile, q.TTY = u.profile, u.tty
	q.Shell = "bash"
	if u.shell != nil {
		q.Shell = u.text
	}
	u.mu.Lock()
	q.Changed = u.changed
	u.mu.Unlock()
	q.Preview.Cwd, _ = directory(u.proc.Pid)
	if q.Preview.Cwd == "" {
		u.mu.Lock()
		q.Preview.Cwd = u.cwd
		u.mu.Unlock()
	}
	return nil
}

func (m *Manager) prepareSend(p *Prepared) error {
	a, q := &p.args, &p.Question
	u, err := m.find(a.id())
	if err != nil {
		return err
	}
	if err := m.observe(p); err != nil {
		return err
	}
	q.Effects, q.Secret = tool.Executes, a.SecretRef != ""
	switch {
	case a.SecretRef != "":
		q.Preview.Command = "(the secret " + tool.QuotePath(clip(a.SecretRef)) + ")"
	case len(a.Keys) > 0:
		q.Preview.Command = "(keys " + tool.QuotePath(strings.Join(a.Keys, " ")) + ")"
	default:
		q.Preview.Command = a.Text
	}
	if u.over() {
		q.Kind = Harmless // nobody is there
		return nil
	}
	l := u.look()
	q.Program = l.program()
	switch {
	case onlyInterrupts(a.Keys):
		q.Kind = IsAnswer
	case q.Program.Pid == 0 || q.Program.Commands:
		q.Kind = IsCommand
	case isAnswer(a.Text, a.Keys):
		q.Kind = IsAnswer
	default:
		q.Kind = IsInput
	}
	return nil
}

// bind makes the digest of what was found.
func (p *Prepared) bind() {
	q := &p.Question
	var id string
	if p.dir != nil {
		id = identity(p.dir.file)
	}
	b, err := json.Marshal(struct {
		Op, Kind, Command, Cwd, Identity string
		Env                              map[string]string
		Profile, Shell                   string
		Changed                          bool
		Session, Process                 string
		Program                          Program
		TTY, Split                       bool
		Timeout                          time.Duration
		Keys                             []string
		SecretRef                        string
		Cols, Rows                       int64
	}{
		q.Op, string(q.Kind), q.Preview.Command, q.Preview.Cwd, id, q.Preview.Env, q.Profile, q.Shell, q.Changed, q.Session, q.Process,
		q.Program, q.TTY, p.args.Split, q.Timeout, p.args.Keys, p.args.SecretRef, p.args.Cols, p.args.Rows,
	})
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	q.Preview.Binding = tool.DigestOf(b)
}

// Do makes a call that was prepared. plan, if not nil, is run instead of the text
// of exec or run. What has changed since Prepare, of what the question showed, is
// approval_mismatch.
func (m *Manager) Do(ctx context.Context, p *Prepared, plan *tool.Plan, fb Feedback) (Result, error) {
	a, q := &p.args, &p.Question
	limit := int(a.MaxOutputBytes)
	switch a.Op {
	case "exec":
		return m.Exec(ctx, ExecRequest{
			Command: a.Command, Plan: plan, Cwd: a.Cwd, Dir: p.dir, Env: a.Env, TTY: a.TTY, Split: a.Split,
			Yield: millis(a.YieldMS), Timeout: q.Timeout, Until: a.until, Limit: limit, Profile: q.Profile,
		}, fb)
	case "open":
		return m.Open(ctx, OpenRequest{Shell: a.Shell, Cwd: a.Cwd, Dir: p.dir, Env: a.Env, Cols: int(a.Cols), Rows: int(a.Rows), Profile: q.Profile}, fb)
	case "run":
		return m.Run(ctx, RunRequest{
			Session: a.Session, Command: a.Command, Plan: plan, Cwd: q.Preview.Cwd, Unchanged: !q.Changed,
			Yield: millis(a.YieldMS), Timeout: q.Timeout, Until: a.until, Limit: limit,
		}, fb)
	case "send":
		return m.Send(ctx, SendRequest{ID: a.id(), Text: a.Text, Keys: a.Keys, SecretRef: a.SecretRef, Program: &q.Program, Yield: millis(a.YieldMS), Limit: limit}, fb)
	case "read":
		return m.Read(ctx, ReadRequest{ID: a.id(), Cursor: a.Cursor, Limit: int(a.MaxBytes)})
	case "screen":
		return m.Screen(ctx, a.id())
	case "wait":
		return m.Wait(ctx, WaitRequest{ID: a.id(), Until: a.until, Timeout: millis(a.TimeoutMS), Limit: limit}, fb)
	case "resize":
		return m.Resize(ctx, a.id(), int(a.Cols), int(a.Rows))
	case "signal":
		return m.Signal(ctx, SignalRequest{ID: a.id(), Signal: a.Signal, Target: a.Target, Limit: limit}, fb)
	case "list":
		return m.List(ctx)
	}
	return m.Close(ctx, a.id(), fb)
}
