package terminal

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// isOurs tells our marks from OSC strings of programs.
func (u *unit) isOurs(osc []byte) bool {
	_, _, _, ok := u.mark(osc)
	return ok
}

// mark takes one of our marks apart: its letter, the status that D and P tell, and
// the command that C and D are of.
func (u *unit) mark(osc []byte) (letter byte, code int, c *command, ok bool) {
	s, found := strings.CutPrefix(string(osc), "133;")
	if !found || len(s) < 3 || s[1] != ';' {
		return 0, 0, nil, false
	}
	letter, s = s[0], s[2:]
	if letter == 'D' || letter == 'P' {
		status, rest, _ := strings.Cut(s, ";")
		n, err := strconv.Atoi(status)
		if err != nil {
			return 0, 0, nil, false
		}
		code, s = n, rest
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch letter {
	case 'C', 'D':
		ok = u.cmd != nil && u.cmd.nonce != "" && s == u.cmd.nonce
		c = u.cmd
	case 'P', 'A', 'B':
		ok = u.nonce != "" && s == u.nonce
	}
	return letter, code, c, ok
}

// gotOSC is told of OSC strings; the stream's lock is held.
func (u *unit) gotOSC(osc []byte) {
	letter, code, c, ok := u.mark(osc)
	if !ok {
		u.reply(answerOSC(osc))
		return
	}
	size := u.out.log.Size()
	u.mu.Lock()
	defer u.mu.Unlock()
	if c == nil {
		c = u.cmd
	}
	switch letter {
	case 'A': // a prompt is drawn
		u.out.muted = true
	case 'B':
		u.out.muted = c != nil && !c.over && !c.began && !c.sent
		if c != nil && c.sent && c.broken && !c.over {
			c.code, u.prompt = 128+int(syscall.SIGINT), true
			u.finish(c, Finished, size, false)
		}
	case 'C':
		if c.began || c.over {
			return
		}
		if u.out.echo {
			u.out.echo = false
			u.out.drawn(asTyped(c.text))
		}
		u.out.muted = false
		u.out.separate()
		u.out.sniff = sniffer{}
		c.began, c.beganAt, c.from = true, time.Now(), u.out.log.Size()
		u.event(Event{Kind: Began, Command: clip(c.text)})
		if c.file != "" {
			os.Remove(c.file)
		}
	case 'D':
		if c.began && !c.over {
			c.code = code
			u.finish(c, Finished, size, u.out.sniff.binary())
		}
	case 'P':
		first := !u.ready
		u.prompt, u.ready, u.marks = true, true, true
		switch {
		case first:
			u.out.muted = false
		case c == nil || c.over || !c.typed:
		case c.late && c.began: // a shell whose errors were redirected kept it back
			c.late, u.prompt = false, false
		case c.began || c.sent: // it was aborted, or typed
			c.code = code
			u.finish(c, Finished, size, u.out.sniff.binary())
		default:
			time.AfterFunc(takeTime, func() { u.refused(c) })
		}
		u.notify()
	}
}

// takeTime is how long after a prompt a shell that was told a command may begin
// with it; what it was told stands in its input already. A shell that runs, or
// waits for a processor, has longer.
const (
	takeTime = 500 * time.Millisecond
	takeMost = 20 * time.Second
)

// refused ends a command that the shell did not take.
func (u *unit) refused(c *command) {
	l := u.look()
	u.mu.Lock()
	again := !c.began && !c.over && !u.isOver && !l.waits() && time.Since(c.started) < takeMost
	u.mu.Unlock()
	if again {
		time.AfterFunc(takeTime/5, func() { u.refused(c) })
		return
	}
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.began || c.over {
		return
	}
	u.out.muted, u.out.echo = false, false
	c.note = "the shell did not take the command: what it was prepared with at its start is not there any more"
	c.from = u.out.log.Size()
	u.finish(c, Failed, c.from, false)
}

// maxTyped is how much of a command is shown on the terminal.
const maxTyped = 2 << 10

// asTyped is a command as a person at the terminal sees it: at the prompt, as if
// it had been typed there.
func asTyped(text string) []byte {
	if len(text) > maxTyped {
		text = text[:maxTyped] + "..."
	}
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.TrimRight(text, "\n"))
	return []byte(strings.ReplaceAll(text, "\n", "\r\n> ") + "\r\n")
}

// gotControl is told of escapes; the stream's lock is held.
func (u *unit) gotControl(params []byte, final byte) {
	switch final {
	case 'h', 'l':
		if p := string(params); p == "?1049" || p == "?47" || p == "?1047" {
			u.out.raw.alternate = final == 'h'
		}
	case 'n', 'c', 'q', 't', 'p':
		u.mu.Lock()
		cols, rows := u.cols, u.rows
		u.mu.Unlock()
		u.reply(answer(params, final, cols, rows, u.out.clean.Column()))
	}
}

// reply answers a question of a program; at the prompt nobody asked, or nobody
// would read it.
func (u *unit) reply(text string) {
	if text == "" {
		return
	}
	u.mu.Lock()
	c, asked := u.cmd, u.asks(u.cmd)
	u.mu.Unlock()
	if !asked {
		return
	}
	select {
	case u.replies <- reply{c, text}:
	default: // nobody reads them
	}
}

// reply is an answer for a command's program.
type reply struct {
	of   *command
	text string
}

// asks tells whether programs of a command may ask; u.mu is held.
func (u *unit) asks(c *command) bool {
	return c != nil && c == u.cmd && !c.over && (c.began || c.sent)
}

// maxReplies is how many answers may wait for a program to read.
const maxReplies = 64

// answerQuestions types the answers, so that a program that does not read them
// does not hold up the reader of its output.
func (u *unit) answerQuestions() {
	for {
		select {
		case r := <-u.replies:
			u.typing.Lock()
			u.mu.Lock()
			asked := u.asks(r.of)
			u.mu.Unlock()
			if asked { // still
				_ = u.write([]byte(r.text), replyTime)
			}
			u.typing.Unlock()
		case <-u.done:
			return
		}
	}
}

// replyTime is how long a full terminal is waited for with an answer.
const replyTime = 20 * time.Millisecond
