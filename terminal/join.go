package terminal

import (
	"bytes"
	"context"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Joined is a person at a session, or at a process with a terminal. What they see
// and type is raw.
type Joined struct{ u *unit }

// Joinable is a session, or a process with a terminal, that a person can join.
type Joinable struct {
	ID         string
	Workspace  string // its real path
	Profile    string
	Foreground string // the program that has the terminal; "" if nobody can tell
	Since      time.Time
}

// Joinable lists what can be joined, the oldest first.
func (m *Manager) Joinable() []Joinable {
	m.mu.Lock()
	units := m.live()
	m.mu.Unlock()
	var l []Joinable
	for _, u := range units {
		if u.tty {
			l = append(l, Joinable{u.id, m.o.Root, u.profile, u.look().front.Name, u.started})
		}
	}
	return l
}

// Join gives output to out: the end of what was written so far, as far as a
// screen needs it, and then everything as it comes, until Leave. Output waits for
// out, so it must not block for long; it must not keep the slice. Secrets are
// taken out.
func (m *Manager) Join(id string, out func(p []byte)) (*Joined, error) {
	u, err := m.find(id)
	if err != nil {
		return nil, err
	}
	if !u.tty {
		return nil, tool.Errorf(tool.InvalidArguments, "%s has no terminal", u.id)
	}
	if u.over() {
		return nil, tool.Errorf(tool.Lost, "%s has ended", u.id).WithNext("read its output")
	}
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	first := u.out.raw.total - int64(len(u.out.raw.buf))
	raw, _ := recent(u.out.raw.buf, first, u.out.raw.alternate)
	out(bytes.Clone(raw))
	j := &Joined{u: u}
	u.out.taps = append(u.out.taps, tap{j, out})
	return j, nil
}

// Done is closed when there is nothing to be joined any more.
func (j *Joined) Done() <-chan struct{} { return j.u.done }

// Size is the size of the terminal.
func (j *Joined) Size() (cols, rows int) {
	j.u.mu.Lock()
	defer j.u.mu.Unlock()
	return j.u.cols, j.u.rows
}

// Type types. The session counts as changed from then on, and as busy while what
// was typed at its prompt runs.
func (j *Joined) Type(p []byte) error {
	j.u.steady(context.Background())
	j.u.typedBy("person", p, j.u.out.view().size)
	return j.u.typeIn(p, sendTime)
}

// Resize gives the terminal the person's size.
func (j *Joined) Resize(ctx context.Context, cols, rows int) error {
	_, err := j.u.m.Resize(ctx, j.u.id, cols, rows)
	return err
}

// Leave ends it.
func (j *Joined) Leave() {
	j.u.out.mu.Lock()
	defer j.u.out.mu.Unlock()
	for i, t := range j.u.out.taps {
		if t.joined == j {
			j.u.out.taps = append(j.u.out.taps[:i:i], j.u.out.taps[i+1:]...)
			return
		}
	}
}

// tap is where raw output goes, too.
type tap struct {
	joined *Joined
	out    func(p []byte)
}

// Times to a prompt. It follows a command's end at once, if nothing of it hangs; on
// a busy machine the shell may wait for a processor in between.
const (
	promptTime = 2 * time.Second  // while another program is in the foreground
	promptMost = 10 * time.Second // while the shell runs
	promptLook = 30 * time.Millisecond
)

// steady waits for the prompt that follows a command's end: what is typed before
// it would seem to have been typed into the command. It returns false if no
// prompt was told of: somebody else is in the foreground, or the shell waits for
// its input although it said nothing, as one does whose prompts are redirected.
func (u *unit) steady(ctx context.Context) bool {
	if !u.session {
		return true
	}
	begin, silent := time.Now(), 0
	for {
		ch := u.changes()
		u.mu.Lock()
		there := u.prompt || !u.marks || u.isOver || u.cmd != nil && !u.cmd.over && (u.cmd.began || u.cmd.sent)
		u.mu.Unlock()
		if there {
			return true
		}
		t := time.NewTimer(promptLook)
		select {
		case <-ch:
			t.Stop()
			continue
		case <-ctx.Done():
			t.Stop()
			return false
		case <-t.C:
		}
		l := u.look()
		if silent++; !l.waits() {
			silent = 0
		}
		since := time.Since(begin)
		if silent == 4 || since > promptMost || since > promptTime && !l.shell {
			return false
		}
	}
}

// typedBy notes that somebody types. At the prompt a line is a command, of which
// the next prompt tells the end.
func (u *unit) typedBy(who string, p []byte, size int64) *command {
	enter := bytes.ContainsAny(p, "\r\n\x0f")
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changed = u.changed || u.session
	c := u.cmd
	if u.session && u.prompt && enter && (c == nil || c.over) {
		c = newCommand("(typed by the " + who + ")")
		c.sent, c.typed, c.from = true, true, size
		u.cmd, u.prompt = c, false
	}
	if c != nil && c.sent && !c.over && bytes.ContainsRune(p, 3) {
		c.broken = true
	}
	u.event(Event{Kind: Typed, Who: who, Bytes: int64(len(p))})
	return c
}

// EventKind says what an Event tells.
type EventKind string

const (
	Spawned EventKind = "spawned" // a tree was started
	Began   EventKind = "began"   // a shell took a command
	Typed   EventKind = "typed"   // somebody typed
	Ended   EventKind = "ended"   // a command ended
	Gone    EventKind = "gone"    // nothing of the tree is left
)

// Event is what happens outside of calls, too: for the record.
type Event struct {
	Kind     EventKind
	At       time.Time
	ID       string // of the session or process
	Pid      int    // of its leader, in the server's view
	Profile  string
	Sandbox  string // what holds, of Spawned
	Command  string // its beginning
	Who      string // model or person, of Typed
	State    State  // of Ended
	ExitCode int    // -1 if a signal ended it
	Signal   string
	Duration time.Duration
	Bytes    int64    // of output, or typed
	Killed   []string // programs that needed SIGKILL
	Left     int      // programs that were ended
}

// event tells Options.Events; u.mu is held.
func (u *unit) event(e Event) {
	if u.m.o.Events == nil {
		return
	}
	e.At, e.ID, e.Pid, e.Profile = time.Now(), u.id, u.proc.Pid, u.profile
	u.m.o.Events(e)
}
