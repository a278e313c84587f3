package terminal

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

// State is how something stands.
type State string

const (
	Finished         State = "finished" // also an idle session
	Running          State = "running"
	WaitingForInput  State = "waiting_for_input"
	WaitingForSecret State = "waiting_for_secret"
	Stopped          State = "stopped" // by ctrl-Z or a terminal's signal
	KilledByTimeout  State = "killed_by_timeout"
	SessionEnded     State = "session_ended"
	Busy             State = "busy"
	Lost             State = "lost"
	Failed           State = "error"
)

// Result is what an operation answers.
type Result struct {
	State    State  `json:"state"`
	ExitCode *int   `json:"exit_code,omitempty"` // of the command, only if it has ended by itself
	Signal   string `json:"signal,omitempty"`    // that ended it
	Session  string `json:"session,omitempty"`
	Process  string `json:"process,omitempty"`
	// Cwd is where the shell or process is: relative to the workspace, or absolute
	// if it lies outside.
	Cwd        string `json:"cwd,omitempty"`
	DurationMS int64  `json:"duration_ms"` // of the command so far
	Output     string `json:"output"`
	// Stderr is standard error, if it was asked for apart. StderrBytes counts it
	// also where it stands among the output.
	Stderr      string `json:"stderr,omitempty"`
	StderrBytes int64  `json:"stderr_bytes,omitempty"`
	// Cursor is the offset behind the last whole line of Output: where the next
	// read goes on. An unfinished line is shown, and shown again when it is whole.
	Cursor       int64  `json:"cursor"`
	OmittedBytes int64  `json:"omitted_bytes,omitempty"`
	Artifact     string `json:"artifact,omitempty"` // handle of the whole output
	Foreground   string `json:"foreground,omitempty"`
	SilentForMS  int64  `json:"silent_for_ms,omitempty"`
	Sandbox      string `json:"sandbox,omitempty"` // what holds for it

	// Reason is what ended the waiting: finished, exit, input, regex, idle, port,
	// or time, if it was over first.
	Reason  string   `json:"reason,omitempty"`
	Matched *bool    `json:"matched,omitempty"` // of until: whether it came true
	Match   string   `json:"match,omitempty"`   // what a regexp matched
	Binary  bool     `json:"binary,omitempty"`
	Killed  []string `json:"killed,omitempty"` // programs that needed SIGKILL
	Ended   int      `json:"ended,omitempty"`  // programs that were still there at the end
	Command string   `json:"command,omitempty"`
	Hint    string   `json:"hint,omitempty"`

	// Screen, of op screen: rows as they are seen, from the top.
	Screen       []string `json:"screen,omitempty"`
	ScreenCursor *Point   `json:"screen_cursor,omitempty"`
	Cols         int      `json:"cols,omitempty"`
	Rows         int      `json:"rows,omitempty"`
	Alternate    bool     `json:"alternate_screen,omitempty"`
	Title        string   `json:"title,omitempty"`
	Partial      bool     `json:"partial,omitempty"` // the beginning of what was drawn is not kept

	// Sessions, of op list.
	List []Result `json:"list,omitempty"`
}

// Point is a place on a screen, from 0.
type Point struct {
	Row int `json:"row"`
	Col int `json:"col"`
}

// Store keeps whole outputs. A nil Store keeps none.
type Store interface {
	Artifact(tool.ArtifactInfo, io.Reader) (tool.ArtifactRef, error)
}

// Feedback is where a call's own output goes. The zero value drops it.
type Feedback struct {
	// Output is told what comes while the call waits, from the call's goroutine;
	// stream is stdout, or stderr where it is kept apart. It may keep the slice.
	Output func(stream string, p []byte)
	Store  Store
}

// about fills in what is known of u whatever is asked.
func (u *unit) about(r *Result) {
	if u.session {
		r.Session = u.id
	} else {
		r.Process = u.id
	}
	r.Cwd = u.cwdShown()
	r.Sandbox = sandboxText(u.active, false)
}

// sandboxText says what holds, and in full by what means.
func sandboxText(a proctree.Active, full bool) string {
	if a.Profile == proctree.None {
		return "none: everything that the user may do"
	}
	s := a.Profile + "; network " + a.Network
	if full {
		s += "; by " + strings.Join(a.Means, ", ")
	}
	if len(a.Gaps) > 0 {
		s += "; gaps: " + strings.Join(a.Gaps, "; ")
	}
	return s
}

// cwdShown is where u is, for a model.
func (u *unit) cwdShown() string {
	dir, gone := "", false
	if !u.over() {
		dir, gone = directory(u.proc.Pid)
	}
	u.mu.Lock()
	if dir == "" {
		dir = u.cwd
	}
	u.cwd = dir
	u.mu.Unlock()
	if dir == "" {
		return ""
	}
	dir = u.m.shown(dir)
	if gone {
		dir += " (removed)"
	}
	return dir
}

// shown is a directory relative to the workspace, if it lies there.
func (m *Manager) shown(dir string) string {
	if dir == m.o.Root {
		return "."
	}
	if rel, ok := strings.CutPrefix(dir, strings.TrimSuffix(m.o.Root, "/")+"/"); ok {
		return filepath.ToSlash(rel)
	}
	return dir
}

// result describes u, with the output from an offset on; with alone no more than
// the command's.
func (u *unit) result(l look, c *command, from int64, alone bool, limit int, fb Feedback) Result {
	var r Result
	u.about(&r)
	v := u.out.view()
	u.mu.Lock()
	end, over := v.size, u.isOver
	var binary, done bool
	if c != nil {
		r.State, r.Hint = u.stateOf(l, c, v)
		stop := time.Now()
		done = c.over
		if c.over {
			stop = c.ended
			binary = c.binary
			if alone {
				end = c.end
			}
			r.exit(c)
		} else {
			binary = v.binary
		}
		r.DurationMS = stop.Sub(c.started).Milliseconds()
		r.Killed = append(r.Killed, names(c.killed)...)
		if c.note != "" {
			r.Hint = c.note
		}
	} else {
		r.State = Finished
		if over {
			r.State = SessionEnded
		}
	}
	if over {
		r.Killed = append(r.Killed, names(u.killed.Forced)...)
		r.Ended = u.killed.Asked
		if u.stuck {
			r.Hint = "something that it started could not be ended: it runs with another user's rights, or hangs in the kernel"
		}
	}
	u.mu.Unlock()
	if !over && r.State != Finished {
		r.Foreground = l.front.Name
		r.SilentForMS = time.Since(v.last).Milliseconds()
	}
	pending := ""
	if end == v.size {
		pending = v.pending
	}
	u.show(&r, from, end, pending, limit, binary, done || over, fb)
	if u.errs != nil {
		e := u.errs.view()
		u.errs.mu.Lock()
		r.StderrBytes = u.errs.bytes
		u.errs.mu.Unlock()
		if u.split {
			r.Stderr, _ = excerpt(u.errs.log, 0, e.size, limit)
			r.Stderr += e.pending
		} else if len(e.pending) <= limit {
			r.Output += e.pending
		}
	}
	if r.Hint == "" && done && (r.ExitCode == nil || *r.ExitCode != 0) {
		r.Hint = u.denial(r.Output + r.Stderr)
	}
	return r
}

func (r *Result) exit(c *command) {
	if c.signal != 0 {
		r.Signal = signalName(c.signal)
		return
	}
	if c.state == Finished || c.state == SessionEnded {
		code := c.code
		r.ExitCode = &code
	}
}

// show puts output into r, cut to limit bytes, and archives what does not fit
// once it is complete.
func (u *unit) show(r *Result, from, end int64, pending string, limit int, binary, complete bool, fb Feedback) {
	log, done := u.log()
	defer done()
	r.Cursor = end
	if from > end {
		from = end
	}
	mime := "text/plain; charset=utf-8"
	if b := u.out.asIs.Load(); b != nil && binary {
		r.Binary = true
		r.Output = fmt.Sprintf("[binary output, %d bytes]\n", b.Size())
		r.OmittedBytes = b.Size()
		kept, kdone := u.whole(b, asItCame)
		defer kdone()
		log, from, end, mime = kept, 0, b.Size(), "application/octet-stream"
	} else if binary {
		r.Binary = true
		r.Output = fmt.Sprintf("[binary output, %d bytes as text]\n", end-from)
		r.OmittedBytes = end - from
	} else {
		r.Output, r.OmittedBytes = excerpt(log, from, end, limit)
		if len(pending) > limit {
			pending = cutStart(pending[len(pending)-limit:])
		}
		r.Output += pending
	}
	if r.OmittedBytes == 0 || !complete || fb.Store == nil {
		return
	}
	title := "output"
	if c := u.current(); c != nil {
		title = "output of: " + clip(c.text)
	}
	ref, err := fb.Store.Artifact(tool.ArtifactInfo{Title: title, MIMEType: mime}, &logReader{log: log, at: from, end: end})
	if err == nil {
		r.Artifact = ref.Handle
	}
}

// stateOf tells how a command stands. u.mu is held.
func (u *unit) stateOf(l look, c *command, v view) (State, string) {
	switch {
	case c.over && u.isOver && u.session && c.state != KilledByTimeout:
		return SessionEnded, ""
	case c.over:
		return c.state, ""
	case l.stopped:
		return Stopped, "the program was stopped; send signal CONT, or fg to its shell"
	case !u.tty || !l.terminal:
		return Running, ""
	case u.session && l.shell && !c.began && !c.sent:
		return Running, "" // the shell is about to begin
	}
	if l.behind {
		return Running, "" // what it asks for may not be there yet
	}
	silent := time.Since(v.last)
	switch {
	case l.canonical && !l.echo && (l.reading || !l.shell && (l.polling || l.hidden && silent >= secretSilence && !l.running)):
		return WaitingForSecret, "the program asks for a secret; send it with secret_ref"
	case l.reading && silent >= readingSilence:
		return WaitingForInput, ""
	case !l.canonical && l.polling && silent >= pollingSilence:
		return WaitingForInput, "the program edits lines or draws on the screen itself; that it waits is a guess"
	}
	return Running, ""
}

const (
	// A read that is blocked is certain; the moment is for what was typed before,
	// which the kernel may not have handed over yet.
	readingSilence = 30 * time.Millisecond
	pollingSilence = 300 * time.Millisecond
	// Of a program with another user's rights, as sudo is, nobody may see in what
	// call it waits. That it shows nothing of what is typed says enough.
	secretSilence = 200 * time.Millisecond
)

// refusals are what programs say when a sandbox refuses something, in lower case,
// as libraries spell it differently. A hidden file has no device, and one that is
// kept is busy.
var refusals = []string{
	"permission denied", "operation not permitted", "read-only file system", "no such device or address", "device or resource busy",
	"network is unreachable", "temporary failure in name resolution", "could not resolve host", "no such host",
}

var refusalCodes = []string{"PermissionError", "EACCES", "EPERM", "EROFS", "ENXIO", "EBUSY", "ENETUNREACH", "EAI_AGAIN"}

// denial guesses whether the sandbox is why a command failed.
func (u *unit) denial(out string) string {
	if u.profile == proctree.None {
		return ""
	}
	if len(out) > 4<<10 {
		out = out[len(out)-4<<10:]
	}
	lower := strings.ToLower(out)
	says := func(sign string) bool { return strings.Contains(lower, sign) }
	if slices.ContainsFunc(refusals, says) || slices.ContainsFunc(refusalCodes, func(code string) bool { return strings.Contains(out, code) }) {
		what := "reads everything but secrets, and writes in the workspace and /tmp only"
		if u.profile == proctree.ReadOnly {
			what = "reads everything but secrets, and writes in /tmp only"
		}
		return fmt.Sprintf("the sandbox may be why: %s %s, and reaches no network but its own loopback", u.profile, what)
	}
	return ""
}
