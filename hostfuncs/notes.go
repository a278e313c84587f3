package hostfuncs

import (
	"bytes"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Notes are what a guest says before its result: log lines, partial output and
// progress. They are for people and surfaces; all kinds share one quota of
// bytes and one of notes per second. Over the first the call ends with quota,
// over the second too, but for what a language's runtime writes to its standard
// streams: that is held back and sent in fewer, larger notes.

// noteOverhead is what a note counts in addition to its bytes, so that empty
// ones are not free.
const noteOverhead = 16

// maxLine bounds what is held back of a standard stream.
const maxLine = 4 << 10

// notes is the state of a call's note quotas.
type notes struct {
	bytes   int64
	tokens  float64 // notes that may be sent at once
	last    time.Time
	streams [3]bytes.Buffer // held back, by descriptor
	first   []byte          // the beginning of standard error
}

// Streams of a sink's output.
const (
	StreamOut = "stdout"
	StreamErr = "stderr"
	StreamLog = "log"
)

// Log takes one log line. Level is 0 (debug) to 3 (error).
func (c *Call) Log(level uint32, text string) error {
	if level > 3 {
		return tool.Errorf(tool.InvalidArguments, "log level %d; it must be 0 to 3", level)
	}
	if err := c.note(len(text)); err != nil {
		return err
	}
	c.sink().Output(StreamLog, logLine(level, text))
	return nil
}

func logLine(level uint32, text string) []byte {
	text = strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\n")
	return []byte([...]string{"debug: ", "info: ", "warning: ", "error: "}[level&3] + text + "\n")
}

// Emit takes partial output: stream 1 is stdout, 2 stderr. data is not kept.
func (c *Call) Emit(stream uint32, data []byte) error {
	name := StreamOut
	switch stream {
	case 1:
	case 2:
		name = StreamErr
	default:
		return tool.Errorf(tool.InvalidArguments, "stream %d; it must be 1 (stdout) or 2 (stderr)", stream)
	}
	if err := c.note(len(data)); err != nil {
		return err
	}
	c.sink().Output(name, bytes.Clone(data))
	return nil
}

// Progress tells how far the call is; total 0 means unknown.
func (c *Call) Progress(done, total int64, note string) error {
	if done < 0 || total < 0 {
		return tool.Errorf(tool.InvalidArguments, "progress %d of %d; neither can be below zero", done, total)
	}
	if err := c.note(len(note)); err != nil {
		return err
	}
	c.sink().Progress(done, total, strings.ToValidUTF8(note, "\uFFFD"))
	return nil
}

// Stdio takes what a guest writes to descriptor 1 or 2. It goes to the log, one
// note a line, or several lines in one where they come too fast.
func (c *Call) Stdio(fd uint32, data []byte) error {
	if fd != 1 && fd != 2 {
		return tool.Errorf(tool.InvalidArguments, "descriptor %d is not open", fd)
	}
	if err := c.noteBytes(len(data)); err != nil {
		return err
	}
	if fd == 2 {
		c.notes.first = append(c.notes.first, data[:min(len(data), maxFirst-len(c.notes.first))]...)
	}
	held := &c.notes.streams[fd]
	held.Write(data)
	if bytes.IndexByte(data, '\n') >= 0 || held.Len() >= maxLine {
		c.flush(fd, false)
	}
	return nil
}

// maxFirst is how much of standard error is kept for the result of a guest that
// failed: a panic's text and its first frames.
const maxFirst = 1 << 10

// Complaint is the beginning of what the guest wrote to standard error.
func (c *Call) Complaint() string {
	return strings.ToValidUTF8(string(c.notes.first), "\uFFFD")
}

// Flush sends what is still held back of the standard streams. The runtime
// calls it when the guest has ended, however it did.
func (c *Call) Flush() {
	c.flush(1, true)
	c.flush(2, true)
}

func (c *Call) flush(fd uint32, end bool) {
	held := &c.notes.streams[fd]
	n := held.Len()
	if !end && n < maxLine {
		n = bytes.LastIndexByte(held.Bytes(), '\n') + 1
	}
	if n == 0 || !c.token() && !end {
		return // a later write or the end sends it; the byte quota bounds it
	}
	level := uint32(1)
	if fd == 2 {
		level = 2
	}
	c.sink().Output(StreamLog, logLine(level, string(held.Next(n))))
}

// note counts one note of n bytes.
func (c *Call) note(n int) error {
	if err := c.noteBytes(n); err != nil {
		return err
	}
	if !c.token() {
		return c.exceed("the module sent more than %d notes in a second", c.limits().NotesPerSec)
	}
	return nil
}

func (c *Call) noteBytes(n int) error {
	c.notes.bytes += int64(n) + noteOverhead
	c.used.NoteBytes += int64(n)
	if limit := c.limits().NoteBytes; c.notes.bytes > limit {
		return c.exceed("the module logged, emitted and reported more than %d bytes", limit)
	}
	return nil
}

// token takes one note from a bucket that refills within a second.
func (c *Call) token() bool {
	rate := float64(c.limits().NotesPerSec)
	now := c.time()
	if c.notes.last.IsZero() {
		c.notes.tokens = rate
	} else {
		c.notes.tokens = min(rate, c.notes.tokens+rate*max(0, now.Sub(c.notes.last).Seconds()))
	}
	c.notes.last = now
	if c.notes.tokens < 1 {
		return false
	}
	c.notes.tokens--
	return true
}
