//go:build linux || darwin

package terminal

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errOver        = errors.New("nothing waits for an answer")
	errInterrupted = errors.New("something changed")
)

// maxLine is how much is read of one line; the system's own limit is 4 KiB.
const maxLine = 4 << 10

// tty is the controlling terminal, opened anew: its file description is shared
// with nobody, so that nothing done to it changes somebody else's.
type tty struct {
	file *os.File
	raw  syscall.RawConn

	typed chan input // from the goroutine that reads, if there is one
	reads bool       // it is reading
}

type input struct {
	text string
	err  error
}

func openTTY() (*tty, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.New("there is no controlling terminal")
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &tty{file: f, raw: raw, typed: make(chan input, 1)}, nil
}

func (t *tty) close() error { return t.file.Close() }

// control runs f with the descriptor. File.Fd would make reads wait where
// nothing can end them.
func (t *tty) control(f func(fd int) error) error {
	var err error
	return errors.Join(t.raw.Control(func(fd uintptr) { err = f(int(fd)) }), err)
}

// foreground reports whether this process may read from the terminal.
func (t *tty) foreground() bool {
	return t.control(func(fd int) error {
		front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err == nil && front != unix.Getpgrp() {
			err = errors.New("in the background")
		}
		return err
	}) == nil
}

// alive reports whether the terminal is still there. One that hung up reads as
// the end of the input, and that must not pass for an answer.
func (t *tty) alive() bool {
	return t.control(func(fd int) error {
		_, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	}) == nil
}

// size is how much the terminal shows; what it does not say is taken as 24 by 80.
func (t *tty) size() (rows, columns int) {
	rows, columns = 24, 80
	_ = t.control(func(fd int) error {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil && ws.Row > 0 && ws.Col > 0 {
			rows, columns = int(ws.Row), int(ws.Col)
		}
		return err
	})
	return rows, columns
}

// print writes. What does not get through is noticed when reading.
func (t *tty) print(s string) { _, _ = t.file.WriteString(s) }

// flush drops what was typed so far.
func (t *tty) flush() {
	_ = t.control(dropInput)
	if t.reads {
		select {
		case <-t.typed:
			t.reads = false
		default: // it still waits, with nothing in its hands
		}
	}
}

// read returns the next line without its end. It ends early with errInterrupted
// when something comes over interrupt or the time is over. The end of the input
// (^D) is an empty line; a terminal that is gone is an error.
func (t *tty) read(interrupt <-chan struct{}, until time.Time) (string, error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	if !t.reads {
		t.reads = true
		_ = t.file.SetReadDeadline(time.Time{})
		go t.readLine()
	}
	select {
	case in := <-t.typed:
		t.reads = false
		return in.text, in.err
	case <-interrupt:
	case <-timer.C:
	}
	return "", errInterrupted
}

// release ends the goroutine that reads, so that what is typed from now on goes
// to others. Where the system cannot end a read it takes the next line with it.
func (t *tty) release() {
	if !t.reads || t.file.SetReadDeadline(time.Unix(1, 0)) != nil {
		return
	}
	<-t.typed
	t.reads = false
}

func (t *tty) readLine() {
	var line []byte
	buf := make([]byte, maxLine)
	for {
		n, err := t.file.Read(buf)
		line = append(line, buf[:n]...)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0 && t.alive():
			t.typed <- input{} // ^D
			return
		case err != nil:
			t.typed <- input{err: err}
			return
		}
		if i := strings.IndexAny(string(line), "\r\n"); i >= 0 {
			t.typed <- input{text: string(line[:i])}
			return
		}
		if len(line) > maxLine {
			line = line[:maxLine]
		}
	}
}
