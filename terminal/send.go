package terminal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/tool"
)

func isErr(err, target error) bool { return errors.Is(err, target) }

// SendRequest is what op send takes: one of Text, Keys and SecretRef.
type SendRequest struct {
	ID        string
	Text      string
	Keys      []string
	SecretRef string
	// Program, if not nil, is what was in the foreground when the question was
	// asked; the call fails if that has changed.
	Program *Program
	Yield   time.Duration // how long the answer is waited for at most; 0 means two seconds
	Limit   int
}

// sendYield is how long an answer to input is waited for at most, sendFirst how
// long for its beginning, and sendIdle the silence that ends it.
const (
	sendYield = 2 * time.Second
	sendFirst = 100 * time.Millisecond
	sendIdle  = 150 * time.Millisecond
	sendTime  = 5 * time.Second // for a program to take the input
	maxLine   = 4095            // of a line that the kernel gives to a reader as one
)

// Send types into a terminal. Its result is what came since; it is part of what
// the next wait or read gives, too.
func (m *Manager) Send(ctx context.Context, r SendRequest, fb Feedback) (Result, error) {
	u, err := m.find(r.ID)
	if err != nil {
		return m.lostResult(r.ID, err)
	}
	if !u.tty {
		return Result{}, tool.Errorf(tool.InvalidArguments, "%s has no terminal, its input is at its end", u.id).
			WithNext("start it with tty true, or in a session")
	}
	p, err := m.input(ctx, r)
	if err != nil {
		return Result{}, err
	}
	if u.over() {
		return u.result(look{}, u.current(), u.seenCursor(), false, limitOf(r.Limit), fb), nil
	}
	u.steady(ctx)
	l := u.look()
	if r.Program != nil && l.program() != *r.Program {
		return Result{}, tool.Errorf(tool.ApprovalMismatch, "another program is in the foreground than when the question was asked").
			WithNext("make the call again")
	}
	c := u.current()
	v := u.out.view()
	if r.SecretRef == "" && r.Text != "" && c != nil {
		u.mu.Lock()
		state, _ := u.stateOf(l, c, v)
		u.mu.Unlock()
		if state == WaitingForSecret {
			return Result{}, tool.Errorf(tool.Denied, "the program asks for a secret, which does not belong into an argument").
				WithNext("use secret_ref with the name of a secret that the user has set, or keys C-c to leave")
		}
	}
	if l.canonical && l.terminal {
		for line := range bytes.SplitSeq(p, []byte{'\n'}) {
			if len(line) > maxLine {
				return Result{}, tool.Errorf(tool.TooLarge, "the program reads line by line, and the kernel cuts a line of %d bytes at %d", len(line), maxLine).
					WithNext("write a file, or send shorter lines")
			}
		}
	}
	if r.SecretRef != "" {
		u.out.mu.Lock()
		u.out.redact.add(p)
		u.out.mu.Unlock()
	}
	if t := u.typedBy("model", p, v.size); t != nil {
		c = t
	}
	if err := u.typeIn(p, sendTime); err != nil && !u.over() {
		if isErr(err, os.ErrDeadlineExceeded) {
			return Result{}, tool.Errorf(tool.Timeout, "the program does not read; a part of the input was taken").
				WithNext("look at its state with op read")
		}
		return Result{}, tool.Errorf(tool.Lost, "the terminal takes no input any more").Because(err)
	}
	most := sendYield
	if r.Yield > 0 {
		most = clampYield(r.Yield)
	}
	u.settle(ctx, c, most)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	res := u.result(u.look(), c, v.size, false, limitOf(r.Limit), fb)
	return res, nil
}

// settle waits for the answer to input: for its beginning, and then for silence.
func (u *unit) settle(ctx context.Context, c *command, most time.Duration) {
	u.quiet(ctx, c, sendFirst, sendIdle, most)
}

// calmEvery is the time between looks at whether programs still run.
const calmEvery = 20 * time.Millisecond

// quiet waits until nothing is printed any more: first for the beginning of
// something, then for the silence of idle behind it, at most for another time,
// and not beyond the end of c. A program that runs, or waits for a processor, has
// not said all that it has to say, however long it has been silent; so much is
// seen twice, since there are moments between two programs.
func (u *unit) quiet(ctx context.Context, c *command, first, idle, most time.Duration) {
	ended := make(<-chan struct{})
	if c != nil {
		u.mu.Lock()
		if !c.over {
			ended = c.done
		}
		u.mu.Unlock()
	}
	stop := time.NewTimer(most)
	defer stop.Stop()
	begin, calm := time.Now(), 0
	for {
		last := u.out.view().last
		wait := first - time.Since(begin)
		if last.After(begin) {
			wait = idle - time.Since(last)
		}
		if wait > 0 {
			calm = 0
		} else {
			l := u.look()
			if calm++; !l.calm() {
				calm = 0
			}
			if calm == 2 || u.over() {
				return
			}
			wait = calmEvery
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			continue
		case <-ended:
		case <-u.done:
		case <-ctx.Done():
		case <-stop.C:
		}
		t.Stop()
		return
	}
}

// input is what a request types.
func (m *Manager) input(ctx context.Context, r SendRequest) ([]byte, error) {
	given := 0
	for _, is := range []bool{r.Text != "", len(r.Keys) > 0, r.SecretRef != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, tool.Errorf(tool.InvalidArguments, "send takes one of text, keys and secret_ref, and %d are given", given)
	}
	switch {
	case r.Text != "":
		if len(r.Text) > MaxSend {
			return nil, tool.Errorf(tool.TooLarge, "text has %d bytes, at most %d are taken", len(r.Text), MaxSend).WithNext("write a file")
		}
		return []byte(r.Text), nil
	case len(r.Keys) > 0:
		if len(r.Keys) > maxKeys {
			return nil, tool.Errorf(tool.TooLarge, "%d keys are given, at most %d are taken", len(r.Keys), maxKeys)
		}
		var p []byte
		for _, k := range r.Keys {
			b, ok := keyBytes(k)
			if !ok {
				return nil, tool.Errorf(tool.InvalidArguments, "there is no key %s", tool.QuotePath(clip(k))).
					WithNext("use names such as C-c, C-d, Enter, Tab, Escape, Up, Down, Left, Right, Home, End, PageUp, PageDown, Delete, Backspace, F1 to F12, M-x; letters belong into text")
			}
			p = append(p, b...)
		}
		return p, nil
	}
	if m.o.Secret == nil {
		return nil, tool.Errorf(tool.NotAvailable, "there is no store of secrets here").WithNext("ask the user to type it")
	}
	secret, err := m.o.Secret(ctx, r.SecretRef)
	if err != nil {
		return nil, err
	}
	if len(secret) == 0 || len(secret) > maxLine || bytes.ContainsAny(secret, "\n\r\x00") {
		return nil, tool.Errorf(tool.InvalidArguments, "the secret cannot be typed as one line")
	}
	return append(bytes.Clone(secret), '\n'), nil
}

const maxKeys = 256

// namedKeys are what terminals send. Arrows are as in the normal cursor mode.
var namedKeys = map[string]string{
	"enter": "\r", "return": "\r", "tab": "\t", "escape": "\x1b", "esc": "\x1b", "space": " ", "backspace": "\x7f",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"pageup": "\x1b[5~", "pagedown": "\x1b[6~", "insert": "\x1b[2~", "delete": "\x1b[3~", "backtab": "\x1b[Z",
	"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~",
	"f8": "\x1b[19~", "f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
}

func keyBytes(name string) (string, bool) {
	if s, ok := namedKeys[strings.ToLower(name)]; ok {
		return s, true
	}
	if len(name) == 3 && (name[:2] == "C-" || name[:2] == "c-" || name[:2] == "^-") {
		switch c := name[2] | 0x20; {
		case c >= 'a' && c <= 'z':
			return string(rune(c & 0x1f)), true
		}
		switch name[2] {
		case '\\':
			return "\x1c", true
		case ']':
			return "\x1d", true
		case '@', ' ':
			return "\x00", true
		case '_':
			return "\x1f", true
		}
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, "M-"); ok && rest != "" {
		if s, ok := keyBytes(rest); ok {
			return "\x1b" + s, true
		}
		if len(rest) == 1 && rest[0] > 0x20 && rest[0] < 0x7f {
			return "\x1b" + rest, true
		}
	}
	return "", false
}

// SignalRequest is what op signal takes.
type SignalRequest struct {
	ID     string
	Signal string // TERM or SIGTERM, ...
	Target string // foreground (default), tree or session
	Limit  int
}

// Signal sends a signal. Its result is what came since, as that of Send is.
func (m *Manager) Signal(ctx context.Context, r SignalRequest, fb Feedback) (Result, error) {
	sig, ok := signalNumber(r.Signal)
	if !ok {
		return Result{}, tool.Errorf(tool.InvalidArguments, "there is no signal %s", tool.QuotePath(clip(r.Signal))).
			WithNext("use INT, TERM, KILL, HUP, QUIT, STOP, CONT, TSTP, USR1, USR2 or WINCH")
	}
	targets := map[string]proctree.Target{"": proctree.Foreground, "foreground": proctree.Foreground, "tree": proctree.Tree, "session": proctree.Session}
	target, ok := targets[r.Target]
	if !ok {
		return Result{}, tool.Errorf(tool.InvalidArguments, "target: %s is none of foreground, tree and session", tool.QuotePath(clip(r.Target)))
	}
	u, err := m.find(r.ID)
	if err != nil {
		return m.lostResult(r.ID, err)
	}
	c := u.current()
	from := u.out.log.Size()
	if !u.over() {
		if err := u.proc.Signal(target, sig); err != nil && !u.over() {
			if err == proctree.ErrGone {
				return Result{}, tool.Errorf(tool.NotFound, "nobody is there for the signal").WithNext("look at its state with op read")
			}
			return Result{}, tool.Errorf(tool.Permission, "the signal was refused: %s", err).Because(err)
		}
		u.settle(ctx, c, sendYield)
	}
	return u.result(u.look(), c, from, false, limitOf(r.Limit), fb), nil
}

// Resize changes the size of a terminal.
func (m *Manager) Resize(ctx context.Context, id string, cols, rows int) (Result, error) {
	if err := checkSize(cols, rows); err != nil {
		return Result{}, err
	}
	u, err := m.find(id)
	if err != nil {
		return Result{}, err
	}
	if !u.tty {
		return Result{}, tool.Errorf(tool.InvalidArguments, "%s has no terminal", u.id)
	}
	if !u.over() {
		// Noted before a program can draw for it.
		u.out.mu.Lock()
		u.out.clean.Width = cols
		u.out.raw.resized(cols, rows)
		u.out.mu.Unlock()
		if err := u.proc.Resize(proctree.Size{Cols: uint16(cols), Rows: uint16(rows)}); err != nil && !u.over() {
			return Result{}, tool.Errorf(tool.Internal, "the size could not be set").Because(err)
		}
		u.mu.Lock()
		u.cols, u.rows = cols, rows
		u.mu.Unlock()
		u.settle(ctx, nil, time.Second) // a program of the whole screen draws it anew
	}
	res := u.brief()
	res.Cols, res.Rows = cols, rows
	return res, nil
}

// brief is u without its output.
func (u *unit) brief() Result {
	var r Result
	u.about(&r)
	c := u.current()
	l := u.look()
	v := u.out.view()
	u.mu.Lock()
	defer u.mu.Unlock()
	r.State, r.Cursor = Finished, v.size
	if c == nil && u.isOver {
		r.State = SessionEnded
	}
	if c != nil {
		r.State, r.Hint = u.stateOf(l, c, v)
		r.Command = clip(c.text)
		stop := time.Now()
		if c.over {
			stop = c.ended
			r.exit(c)
		}
		r.DurationMS = stop.Sub(c.started).Milliseconds()
	}
	if !u.isOver && r.State != Finished {
		r.Foreground, r.SilentForMS = l.front.Name, time.Since(v.last).Milliseconds()
	}
	return r
}

// List gives what runs, and what has ended and can still be read, the oldest first.
func (m *Manager) List(ctx context.Context) (Result, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return Result{}, errClosed()
	}
	m.prune()
	var l []*unit
	for _, u := range m.units {
		l = append(l, u)
	}
	var gone []*lost
	for _, x := range m.lost {
		gone = append(gone, x)
	}
	m.mu.Unlock()
	slices.SortFunc(l, func(a, b *unit) int { return a.started.Compare(b.started) })
	slices.SortFunc(gone, func(a, b *lost) int { return strings.Compare(a.id, b.id) })
	r := Result{State: Finished}
	for _, x := range gone {
		r.List = append(r.List, x.result())
	}
	for _, u := range l {
		r.List = append(r.List, u.brief())
	}
	return r, nil
}

// Close ends a session or process with all that came of it, and tells what had
// to be killed. The output can still be read.
func (m *Manager) Close(ctx context.Context, id string, fb Feedback) (Result, error) {
	u, err := m.find(id)
	if err != nil {
		return m.lostResult(id, err)
	}
	u.end()
	res := u.result(look{}, u.current(), u.seenCursor(), false, DefaultOutput, fb)
	u.saw(res.Cursor)
	return res, nil
}

// signalNumber reads a signal's name, with or without SIG.
func signalNumber(name string) (syscall.Signal, bool) {
	n, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
	return n, ok
}

// nameOf is a signal's name; "" for none.
func nameOf(sig syscall.Signal) string {
	if sig == 0 {
		return ""
	}
	return signalName(sig)
}

func signalName(sig syscall.Signal) string {
	for name, n := range signals {
		if n == sig {
			return "SIG" + name
		}
	}
	return sig.String()
}
