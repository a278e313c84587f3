package terminal

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/tool"
)

// Until is what a call waits for.
type Until struct {
	Kind  string // exit, finished, input, regex, idle, port
	Regex *regexp.Regexp
	Idle  time.Duration
	Port  uint16
}

const (
	maxRegex = 4 << 10 // bytes of an expression

	// A match is found across the borders of what is read at a time if it is not
	// longer than this.
	matchBytes = 16 << 10
	scanBytes  = 64 << 10
)

// ParseUntil reads exit, finished, input, regex:<re2>, idle:<ms> or port:<n>.
func ParseUntil(s string) (*Until, error) {
	kind, arg, has := strings.Cut(s, ":")
	bad := func(format string, args ...any) (*Until, error) {
		return nil, tool.Errorf(tool.InvalidArguments, "until: "+format, args...).
			WithNext("use exit, finished, input, regex:<re2>, idle:<ms> or port:<n>")
	}
	u := &Until{Kind: kind}
	switch kind {
	case "exit", "finished", "input":
		if has {
			return bad("%s takes nothing behind it", kind)
		}
	case "regex":
		if len(arg) > maxRegex || arg == "" {
			return bad("the expression has %d bytes, 1 to %d are taken", len(arg), maxRegex)
		}
		re, err := regexp.Compile("(?m)" + arg)
		if err != nil {
			return bad("the expression cannot be read: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		u.Regex = re
	case "idle":
		ms, err := strconv.Atoi(arg)
		if err != nil || ms < 1 || ms > int(MaxYield/time.Millisecond) {
			return bad("%s is no number of milliseconds between 1 and %d", tool.QuotePath(clip(arg)), MaxYield/time.Millisecond)
		}
		u.Idle = time.Duration(ms) * time.Millisecond
	case "port":
		n, err := strconv.ParseUint(arg, 10, 16)
		if err != nil || n == 0 {
			return bad("%s is no port", tool.QuotePath(clip(arg)))
		}
		u.Port = uint16(n)
	default:
		return bad("%s is not known", tool.QuotePath(clip(s)))
	}
	return u, nil
}

// waiting is one wait for a unit.
type waiting struct {
	u     *unit
	c     *command // whose end ends the waiting; nil if none runs
	until *Until
	yield time.Duration
	idle  bool // nothing runs that could be waited for
	early bool // return when the program surely waits for input
	fb    Feedback
	base  int64 // of the output that an expression may match
	at    int64 // of the output that was passed on
	errAt int64 // of standard error, where it is kept apart

	last  look // at the kernel's state, when the waiting ended
	scan  int64
	match string
}

// Times between looks at what the kernel does not tell by itself. A look at a
// unit with few processes takes some 100 µs.
const (
	lookEvery = 100 * time.Millisecond
	portEvery = 50 * time.Millisecond
	// scanEvery bounds how often an expression is matched while output floods.
	scanEvery = 10 * time.Millisecond
)

// wait returns why it ended: finished, exit, input, regex, idle, port, or time.
func (w *waiting) wait(ctx context.Context) string {
	u := w.u
	begin := time.Now()
	deadline := time.NewTimer(w.yield)
	defer deadline.Stop()
	every := lookEvery
	if w.until != nil && w.until.Kind == "port" {
		every = portEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var scanned time.Time
	var pause <-chan time.Time
	looked := begin // most commands are over before there is anything to see
	if w.until != nil {
		looked = time.Time{}
	}
	for {
		ch := u.changes()
		w.pass()
		u.mu.Lock()
		over, done := u.isOver, w.idle || w.c != nil && w.c.over
		u.mu.Unlock()
		if w.until != nil && w.until.Regex != nil {
			if since := time.Since(scanned); since >= scanEvery || over || done {
				scanned, pause = time.Now(), nil
				if w.found() {
					w.last = u.look()
					return "regex"
				}
			} else if pause == nil {
				pause = time.After(scanEvery - since)
			}
		}
		if over || done && (w.until == nil || w.until.Kind != "exit") {
			w.pass()
			w.last = u.look()
			if over && u.session {
				return "exit"
			}
			return "finished"
		}
		if now := time.Now(); now.Sub(looked) >= every {
			looked = now
			w.last = u.look()
			if reason := w.condition(ctx, begin); reason != "" {
				return reason
			}
		}
		wake := ch
		if pause != nil {
			wake = nil
		}
		select {
		case <-wake:
		case <-pause:
		case <-tick.C:
		case <-ctx.Done():
			return "cancelled"
		case <-deadline.C:
			w.pass()
			if w.until != nil && w.until.Regex != nil && w.found() {
				w.last = u.look()
				return "regex"
			}
			w.last = u.look()
			return "time"
		}
	}
}

// condition is what is asked from time to time.
func (w *waiting) condition(ctx context.Context, begin time.Time) string {
	v := w.u.out.view()
	if w.until != nil {
		switch w.until.Kind {
		case "idle":
			if min(time.Since(v.last), time.Since(w.since(begin))) >= w.until.Idle && !w.last.behind {
				return "idle"
			}
		case "port":
			pctx, cancel := context.WithTimeout(ctx, time.Second)
			open, err := w.u.proc.PortOpen(pctx, w.until.Port)
			cancel()
			if err == nil && open {
				return "port"
			}
		}
	}
	wants := w.until != nil && w.until.Kind == "input"
	if w.c == nil || !wants && !w.early {
		return ""
	}
	w.u.mu.Lock()
	state, hint := w.u.stateOf(w.last, w.c, v)
	w.u.mu.Unlock()
	switch {
	case state == WaitingForSecret, state == WaitingForInput && wants, state == Stopped:
	case state == WaitingForInput && hint == "" && w.until == nil && time.Since(v.last) >= earlySilence && time.Since(begin) >= earlySilence:
		// Nothing will come before somebody types.
	default:
		return ""
	}
	return "input"
}

// since is from when on silence counts: a command that its shell has not begun yet
// is not silent.
func (w *waiting) since(begin time.Time) time.Time {
	if w.c == nil {
		return begin
	}
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	switch c := w.c; {
	case c.over || c.sent:
	case !c.began:
		return time.Now()
	case c.beganAt.After(begin):
		return c.beganAt
	}
	return begin
}

// earlySilence is how long a program has to be silent and blocked in a read of its
// terminal before a call returns that has not asked for that.
const earlySilence = 400 * time.Millisecond

// pass tells the caller's sink what came.
func (w *waiting) pass() {
	u := w.u
	u.mu.Lock()
	began := w.c == nil || w.c.began || w.c.sent
	if began && w.c != nil && w.at < w.c.from {
		w.at = w.c.from
	}
	u.mu.Unlock()
	if w.fb.Output == nil || !began {
		return
	}
	w.at = w.passFrom(u.out, w.at, "stdout")
	if u.split && u.errs != nil {
		w.errAt = w.passFrom(u.errs, w.errAt, "stderr")
	}
}

func (w *waiting) passFrom(s *stream, at int64, name string) int64 {
	size := s.log.Size()
	if at >= size {
		return at
	}
	buf := make([]byte, min(size-at, scanBytes))
	for at < size {
		n, gap, err := s.log.ReadAt(buf[:min(size-at, int64(len(buf)))], at)
		at += gap + int64(n)
		if n > 0 {
			w.fb.Output(name, bytes.Clone(buf[:n]))
		}
		if err != nil || n == 0 {
			break
		}
	}
	return at
}

// found matches the expression against what came since the last time, with what
// stood just before it.
func (w *waiting) found() bool {
	u := w.u
	start := w.base
	if w.c != nil {
		u.mu.Lock()
		began := w.c.began || w.c.sent
		start = max(start, w.c.from)
		u.mu.Unlock()
		if !began {
			return false
		}
	}
	w.scan = max(w.scan, start)
	v := u.out.view()
	for {
		from := max(w.scan-matchBytes, start)
		end := min(v.size, w.scan+scanBytes)
		text, _ := part(u.out.log, from, end)
		// A line that is cut at its beginning would match ^ where no line begins.
		if from > start && from < w.scan {
			if i := strings.IndexByte(text[:min(len(text), int(w.scan-from))], '\n'); i >= 0 {
				text = text[i+1:]
			}
		}
		if end == v.size {
			text += v.pending
		}
		if m := w.until.Regex.FindString(text); m != "" || w.until.Regex.MatchString(text) {
			w.match = clip(m)
			return true
		}
		w.scan = end
		if end == v.size {
			return false
		}
	}
}

// reasons notes in r why the waiting ended.
func (w *waiting) reasons(r *Result, reason string) {
	r.Reason = reason
	r.Match = w.match
	if w.until != nil {
		matched := reason == w.until.Kind
		switch w.until.Kind {
		case "finished":
			matched = reason == "finished" || reason == "exit"
		case "exit":
			matched = w.u.over()
		}
		r.Matched = &matched
	}
}

// WaitRequest is what op wait takes.
type WaitRequest struct {
	ID      string
	Until   *Until
	Timeout time.Duration // 0 means DefaultYield
	Limit   int
}

// Wait waits for something of a process or session, and gives the output since
// the last answer. It ends nothing.
func (m *Manager) Wait(ctx context.Context, r WaitRequest, fb Feedback) (Result, error) {
	u, err := m.find(r.ID)
	if err != nil {
		return m.lostResult(r.ID, err)
	}
	c := u.current()
	w := waiting{u: u, c: c, until: r.Until, yield: clampYield(r.Timeout), fb: fb, at: u.seenCursor(), base: u.seenCursor()}
	u.mu.Lock()
	idle := c == nil || c.over
	u.mu.Unlock()
	if idle && r.Until != nil && r.Until.Kind != "finished" && r.Until.Kind != "input" {
		w.c = nil // what comes then is of programs in the background
	}
	w.idle = c == nil && w.until != nil && (w.until.Kind == "finished" || w.until.Kind == "input")
	reason := w.wait(ctx)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	from := u.seenCursor()
	res := u.result(w.last, c, from, false, limitOf(r.Limit), fb)
	u.saw(res.Cursor)
	w.reasons(&res, reason)
	return res, nil
}

// ReadRequest is what op read takes.
type ReadRequest struct {
	ID     string
	Cursor *int64 // nil: behind what was answered last
	Limit  int
}

// Read gives output from a cursor on, also of what has ended or was lost. It
// shows the beginning of what is too long, and a cursor behind it.
func (m *Manager) Read(ctx context.Context, r ReadRequest) (Result, error) {
	limit := limitOf(r.Limit)
	u, err := m.find(r.ID)
	if err != nil {
		l := m.lostOf(r.ID)
		if l == nil {
			return Result{}, err
		}
		res := l.result()
		if l.log != nil {
			from := max(l.log.Size()-int64(limit), 0)
			if r.Cursor != nil {
				from = *r.Cursor
			}
			err = page(&res, l.log, from, l.log.Size(), limit, "")
		}
		return res, err
	}
	l := u.look()
	c := u.current()
	v := u.out.view()
	var res Result
	u.about(&res)
	res.State = Finished
	u.mu.Lock()
	if c != nil {
		res.State, res.Hint = u.stateOf(l, c, v)
		if c.over {
			res.exit(c)
		}
	}
	from := u.seen
	over := u.isOver
	u.mu.Unlock()
	if !over && res.State != Finished {
		res.Foreground = l.front.Name
		res.SilentForMS = time.Since(v.last).Milliseconds()
	}
	if r.Cursor != nil {
		from = *r.Cursor
	}
	log, done := u.log()
	defer done()
	if err := page(&res, log, from, v.size, limit, v.pending); err != nil {
		return Result{}, err
	}
	u.saw(res.Cursor)
	return res, nil
}

// page puts one page of a log into r.
func page(r *Result, log interface {
	ReadAt([]byte, int64) (int, int64, error)
}, from, end int64, limit int, pending string) error {
	if from < 0 || from > end {
		return tool.Errorf(tool.InvalidArguments, "cursor %d is outside the output, which has %d bytes", from, end).
			WithNext("use a cursor that an answer gave, or none")
	}
	p := make([]byte, min(int64(limit), end-from))
	n, gap := 0, int64(0)
	for n < len(p) {
		k, g, err := log.ReadAt(p[n:], from+gap+int64(n))
		if g > 0 {
			if n > 0 {
				break // what is behind the gap is another page's
			}
			gap = g
		}
		n += k
		if err == io.EOF || k == 0 {
			break
		}
		if err != nil {
			return tool.Errorf(tool.Lost, "the output cannot be read any more").Because(err)
		}
	}
	text := jsonsize.Prefix(string(p[:n]), jsonRoom(limit))
	if n = len(text); from+gap+int64(n) < end {
		text = cutEnd(text)
	} else {
		r.Output = pending
	}
	r.Output = text + r.Output
	r.OmittedBytes = gap
	r.Cursor = from + gap + int64(len(text))
	return nil
}

func (m *Manager) lostOf(id string) *lost {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[id]
}

// lostResult answers for what was lost, with its last output; err is for what
// never was.
func (m *Manager) lostResult(id string, err error) (Result, error) {
	l := m.lostOf(id)
	if l == nil {
		return Result{}, err
	}
	r := l.result()
	if l.log != nil {
		size := l.log.Size()
		r.Output, r.OmittedBytes = excerpt(l.log, 0, size, DefaultOutput)
		r.Cursor = size
	}
	return r, nil
}

func (l *lost) result() Result {
	r := Result{State: Lost, Command: l.command, Hint: "it ended with the server that ran it; how, nobody knows"}
	if l.session {
		r.Session = l.id
	} else {
		r.Process = l.id
	}
	return r
}
