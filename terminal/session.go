package terminal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

func sorted(l []string) []string {
	slices.Sort(l)
	return l
}

// Dir is a working directory as it was seen: Start and Run refuse if the name has
// come to mean another one.
type Dir struct {
	Path string // real, absolute
	file *os.File
}

// OpenRequest is what op open takes.
type OpenRequest struct {
	Shell      string // a name, or a full path; "" is bash
	Cwd        string // "" is the workspace
	Dir        *Dir   // see ExecRequest
	Env        map[string]string
	Cols, Rows int
	Profile    string
}

// Open starts a session.
func (m *Manager) Open(ctx context.Context, r OpenRequest, fb Feedback) (Result, error) {
	if r.Cols == 0 {
		r.Cols = DefaultCols
	}
	if r.Rows == 0 {
		r.Rows = DefaultRows
	}
	if err := checkSize(r.Cols, r.Rows); err != nil {
		return Result{}, err
	}
	if err := checkEnv(r.Env); err != nil {
		return Result{}, err
	}
	done, err := m.admit(true)
	if err != nil {
		return Result{}, err
	}
	defer done()
	u := &unit{m: m, id: newID(true), session: true, tty: true, profile: m.profileName(r.Profile), cols: r.Cols, rows: r.Rows, nonce: random(26)}
	spec := proctree.Spec{TTY: &proctree.Size{Cols: uint16(r.Cols), Rows: uint16(r.Rows)}}
	dir := r.Dir
	if dir == nil {
		if dir, err = m.directory(r.Cwd); err != nil {
			return Result{}, err
		}
		defer dir.Close()
	}
	spec.Dir, spec.DirFile = dir.Path, dir.file
	env := m.o.environment(r.Env, true, u.profile != proctree.None, u.id)
	if u.shell, err = m.newShell(r.Shell, u.nonce, environMap(env)); err != nil {
		return Result{}, err
	}
	for name, value := range u.shell.env {
		env = append(env, name+"="+value)
	}
	u.text, u.cwd = filepath.Base(u.shell.path), dir.Path
	if u.shell.kind == "" { // it is its own command
		u.cmd = newCommand(u.text)
		u.cmd.began = true
	}
	u.changed = m.o.Startup || u.shell.kind != "bash" || len(r.Env) > 0
	spec.Path, spec.Argv, spec.Env = u.shell.path, u.shell.argv, env
	if err := u.launch(ctx, spec); err != nil {
		u.shell.remove()
		return Result{}, err
	}
	if u.shell.kind != "" {
		if err := u.await(ctx, readyTime, func() bool { return u.ready }); err != nil {
			view := u.out.view()
			u.end()
			return Result{}, tool.Errorf(tool.NotAvailable, "the shell did not come to its prompt: %s", err).
				WithNext("look at what it printed, or open another shell").With("output", clip(u.textFrom(0, view.size, 2<<10)))
		}
		u.shell.started()
	} else {
		u.quiet(ctx, nil, 200*time.Millisecond, 200*time.Millisecond, 2*time.Second)
	}
	u.mu.Lock()
	u.ready = true
	if u.marks {
		u.seen = u.out.log.Size() // what start-up files print is nobody's answer
	}
	seen := u.seen
	u.mu.Unlock()
	res := u.result(u.look(), u.current(), seen, false, DefaultOutput, fb)
	res.Cols, res.Rows = r.Cols, r.Rows
	res.Sandbox = sandboxText(u.active, true)
	if !u.marks {
		res.Hint = "this program has no marks, so op run is not possible: use send and wait"
	}
	return res, nil
}

// RunRequest is what op run takes.
type RunRequest struct {
	Session string
	Command string
	// Plan, if not nil, is run in the session's terminal and directory, with its
	// own environment: what a rule has judged does not depend on the shell's
	// state, and does not change it.
	Plan *tool.Plan
	// Cwd is where the session was seen; empty means anywhere. Unchanged says that
	// its shell was seen as it had been started.
	Cwd       string
	Unchanged bool
	Yield     time.Duration
	Timeout   time.Duration // kills the command; 0 means never
	Until     *Until
	Limit     int // bytes of output
}

// Run runs a command in a session.
func (m *Manager) Run(ctx context.Context, r RunRequest, fb Feedback) (Result, error) {
	u, err := m.findSession(r.Session)
	if err != nil {
		return Result{}, err
	}
	if err := checkCommand(r.Command); err != nil {
		return Result{}, err
	}
	if u.over() {
		return u.result(look{}, u.current(), u.seenCursor(), false, limitOf(r.Limit), fb), nil
	}
	u.mu.Lock()
	marks := u.marks
	u.mu.Unlock()
	if !marks {
		return Result{}, tool.Errorf(tool.NotAvailable, "%s runs in this session, which has no marks to tell a command's end", tool.QuotePath(u.text)).
			WithNext("type with op send, and use op wait with until idle:<ms> or regex:<re2>")
	}
	if err := u.refresh(ctx); err != nil {
		return Result{}, err
	}
	c := newCommand(r.Command)
	w := waiting{u: u, c: c, until: r.Until, yield: clampYield(r.Yield), early: true, fb: fb}
	if busy, err := u.begin(ctx, c, r); err != nil || busy != nil {
		if busy != nil {
			return *busy, nil
		}
		return Result{}, err
	}
	u.mu.Lock()
	if r.Timeout > 0 && !c.over {
		c.timer = time.AfterFunc(min(r.Timeout, MaxTimeout), func() {
			u.mu.Lock()
			c.timedOut = !c.over
			u.mu.Unlock()
			u.interrupt(c)
		})
	}
	u.mu.Unlock()
	reason := w.wait(ctx)
	if ctx.Err() != nil {
		go u.interrupt(c)
		return Result{}, ctx.Err()
	}
	u.mu.Lock()
	began, from, settled := c.began, c.from, c.settled
	u.mu.Unlock()
	if settled != nil && reason != "time" {
		<-settled // it knows what had to be killed
	}
	if !began && !u.over() {
		from = u.out.log.Size()
	}
	res := u.result(w.last, c, from, true, limitOf(r.Limit), fb)
	u.saw(res.Cursor)
	w.reasons(&res, reason)
	return res, nil
}

// refresh hides from u's programs what has come to be hidden since they began.
func (u *unit) refresh(ctx context.Context) error {
	if u.profile == proctree.None {
		return nil
	}
	hide, protect, err := u.m.o.Lists(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := u.proc.Refresh(ctx, hide, protect); err != nil && !u.over() {
		return tool.Errorf(tool.NotAvailable, "what the sandbox hides could not be renewed, so nothing was run").
			WithNext("close the session and open another one").Because(err)
	}
	return nil
}

// begin hands c to the shell, or tells why it cannot.
func (u *unit) begin(ctx context.Context, c *command, r RunRequest) (busy *Result, err error) {
	u.mu.Lock()
	if old := u.cmd; old != nil && !old.over {
		age := time.Since(old.started).Round(time.Second)
		u.mu.Unlock()
		res := u.result(u.look(), old, u.seenCursor(), false, MinOutput, Feedback{})
		res.State, res.Output, res.OmittedBytes = Busy, "", 0
		res.Command = clip(old.text)
		res.Hint = fmt.Sprintf("a command has been running for %s; wait for it, send it input, or signal it", age)
		return &res, nil
	}
	u.cmd = c // nobody else can begin now
	c.nonce = random(26)
	u.mu.Unlock()
	undo := func(err error) (*Result, error) {
		u.mu.Lock()
		c.note = "it was not started"
		u.finish(c, Failed, u.out.log.Size(), false)
		u.mu.Unlock()
		return nil, err
	}
	if !u.steady(ctx) {
		if ctx.Err() != nil {
			return undo(ctx.Err())
		}
		if l := u.look(); !l.shell {
			_, _ = undo(nil)
			res := u.brief()
			res.State, res.Foreground, res.Hint = Busy, l.front.Name, "it is in the foreground of the session; wait for it, send it input, or signal it"
			return &res, nil
		}
		c.late = true
	}
	if r.Cwd != "" {
		if dir, _ := directory(u.proc.Pid); dir != r.Cwd {
			return undo(tool.Errorf(tool.ApprovalMismatch, "the session is not in the directory any more in which the command was to run").
				WithNext("make the call again"))
		}
	}
	u.mu.Lock()
	changed := u.changed
	u.mu.Unlock()
	if r.Unchanged && changed {
		return undo(tool.Errorf(tool.ApprovalMismatch, "the session's shell has changed since the question was asked").
			WithNext("make the call again"))
	}
	text := r.Command
	if r.Plan != nil {
		text = u.planned(r.Plan)
	}
	c.file = filepath.Join(u.shell.dir, c.nonce)
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		return undo(tool.Errorf(tool.Internal, "the command could not be handed over").Because(err))
	}
	members, err := u.proc.Members()
	if err != nil {
		return undo(err)
	}
	u.typing.Lock() // answers to questions of before are typed before this, or never
	defer u.typing.Unlock()
	discard(u.proc.Terminal)
	u.out.mu.Lock()
	u.out.muted, u.out.echo = true, true
	u.out.mu.Unlock()
	u.mu.Lock()
	c.keep, c.started = members, time.Now()
	u.prompt, c.typed = false, true
	u.changed = u.changed || r.Plan == nil
	u.mu.Unlock()
	if err := u.write([]byte(u.shell.typed(c.nonce)), startTime); err != nil && !u.over() {
		u.out.mu.Lock()
		u.out.muted, u.out.echo = false, false
		u.out.mu.Unlock()
		return undo(tool.Errorf(tool.Internal, "the shell does not read").Because(err))
	}
	return nil, nil
}

// planned is the text that runs a plan from a shell: nothing of the shell's own
// state has a part in it.
func (u *unit) planned(p *tool.Plan) string {
	env := u.m.o.environment(nil, true, u.profile != proctree.None, u.id)
	env = append(env, p.Env...)
	var b strings.Builder
	word := func(s string) { b.WriteString(" " + quoted(s)) }
	run := func(path string, args []string) {
		b.WriteString("/usr/bin/env -i")
		for _, kv := range env {
			word(kv)
		}
		word(path)
		for _, a := range args {
			word(a)
		}
	}
	if len(p.Pipe) == 0 {
		run(u.m.program("bash"), []string{"--norc", "--noprofile", "-p", "-c", p.Script})
		return b.String()
	}
	for i, e := range p.Pipe {
		if i > 0 {
			b.WriteString(" | ")
		}
		run(e.Path, e.Args[1:])
	}
	return b.String()
}

// await waits until cond, which is called with u.mu held.
func (u *unit) await(ctx context.Context, most time.Duration, cond func() bool) error {
	t := time.NewTimer(most)
	defer t.Stop()
	for {
		ch := u.changes()
		u.mu.Lock()
		ok, over := cond(), u.isOver
		u.mu.Unlock()
		switch {
		case ok:
			return nil
		case over:
			return fmt.Errorf("it ended")
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return fmt.Errorf("it took longer than %s", most)
		}
	}
}

func (u *unit) seenCursor() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

// saw notes how far the caller has been told of the output.
func (u *unit) saw(cursor int64) {
	u.mu.Lock()
	u.seen = max(u.seen, cursor)
	u.mu.Unlock()
}

// textFrom is text of the log, cut.
func (u *unit) textFrom(from, end int64, limit int) string {
	log, done := u.log()
	defer done()
	s, _ := excerpt(log, from, end, limit)
	return s
}

func (m *Manager) profileName(name string) string {
	if name == "" {
		return m.o.Profile
	}
	return name
}

func checkSize(cols, rows int) error {
	if cols < 1 || cols > MaxCols || rows < 1 || rows > MaxRows {
		return tool.Errorf(tool.InvalidArguments, "a terminal of %d columns and %d rows is not possible", cols, rows).
			WithNext("use 1 to %d columns and 1 to %d rows", MaxCols, MaxRows)
	}
	return nil
}

func checkCommand(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return tool.Errorf(tool.InvalidArguments, "command is empty")
	case len(text) > MaxCommand:
		return tool.Errorf(tool.TooLarge, "the command has %d bytes, at most %d are taken", len(text), MaxCommand).
			WithNext("write a file and run that")
	case strings.ContainsRune(text, 0):
		return tool.Errorf(tool.InvalidArguments, "the command holds a NUL")
	case literal(text):
		return tool.Errorf(tool.InvalidArguments, "the command looks like JSON, not like a shell's text").
			WithNext("give the shell text alone")
	}
	return nil
}

// literal tells arguments of a tool that came instead of a command.
func literal(text string) bool {
	t := strings.TrimSpace(text)
	return strings.HasPrefix(t, `[{"`) || strings.HasPrefix(t, `{"`) || strings.HasPrefix(t, `[{'`) || strings.HasPrefix(t, `["`)
}

func environMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		m[name] = value
	}
	return m
}

func limitOf(n int) int {
	if n <= 0 {
		return DefaultOutput
	}
	return min(max(n, MinOutput), MaxOutput)
}

func clampYield(d time.Duration) time.Duration {
	if d <= 0 {
		return DefaultYield
	}
	return min(max(d, MinYield), MaxYield)
}
