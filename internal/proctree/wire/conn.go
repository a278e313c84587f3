//go:build linux

// Package wire is how the server and its process helpers talk: short frames
// with descriptors over a socketpair. Both ends are one program, but a helper
// stands nearer to what it runs, so each end checks what the other sends: a
// frame has a limit, and so has every list in it.
//
// The package imports only what is initialised first in any Go program; see
// package helper for why.
package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Limits of a frame. A body holds at most an argument vector and an
// environment, of which Linux takes 2 MiB together.
const (
	MaxBody  = 4 << 20
	MaxFiles = 6
)

// Frame is one message. The receiver owns Files.
type Frame struct {
	Type  Type
	Body  []byte
	Files []int
}

// CloseFiles closes the descriptors that came with f.
func (f *Frame) CloseFiles() {
	for _, fd := range f.Files {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
	f.Files = nil
}

// Take hands descriptor i over to the caller; -1 if there is none.
func (f *Frame) Take(i int) int {
	if i >= len(f.Files) {
		return -1
	}
	fd := f.Files[i]
	f.Files[i] = -1
	return fd
}

// ErrFrame means that the other end does not speak the protocol.
var ErrFrame = errors.New("proctree: malformed frame")

const headerLen = 8

// A header is 'W', type, number of descriptors, 0, and the body's length in
// little-endian order.
func putHeader(h *[headerLen]byte, f *Frame) {
	n := len(f.Body)
	*h = [headerLen]byte{'W', byte(f.Type), byte(len(f.Files)), 0, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
}

func parseHeader(h *[headerLen]byte) (t Type, files, body int, err error) {
	body = int(h[4]) | int(h[5])<<8 | int(h[6])<<16 | int(h[7])<<24
	if h[0] != 'W' || h[3] != 0 || h[2] > MaxFiles || body > MaxBody {
		return 0, 0, 0, ErrFrame
	}
	return Type(h[1]), int(h[2]), body, nil
}

// Conn is one end of a stream socket. One goroutine may receive while others
// send.
type Conn struct {
	f    *os.File
	rc   syscall.RawConn
	send sync.Mutex
}

// NewConn takes over fd, a connected stream socket.
func NewConn(fd int) (*Conn, error) {
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "proctree")
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Conn{f: f, rc: rc}, nil
}

// Pair returns two connected descriptors that are closed on exec.
func Pair() (int, int, error) {
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	return p[0], p[1], err
}

// Close ends the connection; a blocked Receive returns.
func (c *Conn) Close() error { return c.f.Close() }

// Send writes frames at once. Only the first of them may hold descriptors, which
// stay the caller's.
func (c *Conn) Send(frames ...Frame) error {
	var buf, oob []byte
	for i, f := range frames {
		if len(f.Body) > MaxBody || len(f.Files) > MaxFiles || i > 0 && len(f.Files) > 0 {
			return ErrFrame
		}
		var h [headerLen]byte
		putHeader(&h, &f)
		buf = append(append(buf, h[:]...), f.Body...)
		if len(f.Files) > 0 {
			oob = syscall.UnixRights(f.Files...)
		}
	}
	c.send.Lock()
	defer c.send.Unlock()
	for len(buf) > 0 {
		var n int
		var err error
		werr := c.rc.Write(func(fd uintptr) bool {
			n, err = syscall.SendmsgN(int(fd), buf, oob, nil, syscall.MSG_NOSIGNAL)
			return err != syscall.EAGAIN && err != syscall.EINTR
		})
		if err = errors.Join(werr, err); err != nil {
			return err
		}
		buf, oob = buf[n:], nil // the descriptors went with the first byte
	}
	return nil
}

// Receive reads one frame. io.EOF: the other end is gone.
func (c *Conn) Receive() (Frame, error) {
	var h [headerLen]byte
	var f Frame
	fail := func(err error) (Frame, error) {
		f.CloseFiles()
		return Frame{}, err
	}
	if err := c.fill(h[:], &f.Files); err != nil {
		return fail(err)
	}
	t, files, body, err := parseHeader(&h)
	if err != nil {
		return fail(err)
	}
	f.Type = t
	if body > 0 {
		f.Body = make([]byte, body)
		if err := c.fill(f.Body, &f.Files); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fail(err)
		}
	}
	if len(f.Files) != files {
		return fail(ErrFrame)
	}
	return f, nil
}

// fill reads len(buf) bytes and collects the descriptors that come with them.
func (c *Conn) fill(buf []byte, files *[]int) error {
	oob := make([]byte, syscall.CmsgSpace(4*MaxFiles))
	for start := true; len(buf) > 0; start = false {
		var n, oobn, flags int
		var err error
		rerr := c.rc.Read(func(fd uintptr) bool {
			n, oobn, flags, _, err = syscall.Recvmsg(int(fd), buf, oob, syscall.MSG_CMSG_CLOEXEC)
			return err != syscall.EAGAIN && err != syscall.EINTR
		})
		if err = errors.Join(rerr, err); err != nil {
			return err
		}
		if oobn > 0 {
			if err := collect(oob[:oobn], files); err != nil {
				return err
			}
		}
		switch {
		case flags&syscall.MSG_CTRUNC != 0:
			return ErrFrame
		case n == 0 && start:
			return io.EOF
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		buf = buf[n:]
	}
	return nil
}

func collect(oob []byte, files *[]int) error {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return ErrFrame
	}
	for i := range msgs {
		fds, err := syscall.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		*files = append(*files, fds...)
	}
	if len(*files) > MaxFiles {
		return ErrFrame
	}
	return nil
}
