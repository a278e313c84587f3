//go:build linux

package wire

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

type message interface {
	Encode() []byte
	Decode([]byte) error
}

// samples has one of each message, with all fields set.
var samples = []message{
	&Spawn{Kind: KindBoxed, OwnNet: true, Setup: "s"},
	&Spawned{Pid: 4711},
	&Setup{
		Profile: "workspace-write", Write: []string{"/w"}, Read: []string{"/r"}, Protect: []string{"/w/.git/hooks"}, Hide: []string{"/s", "/w/.env"}, Tmp: "/t",
		Loopback: true, Weak: true, OpenFiles: 1024, FileSize: 1 << 40, Processes: 300, Nice: 19,
	},
	&Ready{Means: []string{"seccomp"}, Network: "off", Processes: true, Gaps: []string{"a gap"}},
	&Refused{Op: "program", Path: "/bin/x", Reason: "r", Errno: 2},
	&Start{Path: "/bin/sh", Argv: []string{"sh", "", "a b"}, Env: []string{"A=1"}, Dir: "/d", Flags: StartTTY | StartDirFile, Cols: 65535, Rows: 1},
	&Started{Pid: 1},
	&Exited{Status: 0xff7f, User: 1 << 62, System: 1},
	&Refresh{Hide: []string{"/a"}, Protect: []string{"/b"}},
	&Port{Seq: 7, Number: 65535},
	&PortState{Seq: 7, Open: true},
}

func TestMessages(t *testing.T) {
	for _, want := range samples {
		b := want.Encode()
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(message)
		if err := got.Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %+v, %v; want %+v", want, got, err, want)
		}
		for n := range b { // each cut is noticed
			if err := got.Decode(b[:n]); err == nil {
				t.Errorf("%T: %d of %d bytes decode", want, n, len(b))
			}
		}
		if err := got.Decode(append(b, 0)); err == nil {
			t.Errorf("%T: a byte too many decodes", want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		m    message
		body []byte
	}{
		{"a kind that is none", new(Spawn), []byte{KindWrapped + 1, 0, 0}},
		{"a truth that is neither", new(Spawn), []byte{0, 2, 0}},
		{"a number with a longer spelling", new(Port), []byte{0x80, 0x00, 1}},
		{"a number without an end", new(Port), bytes.Repeat([]byte{0xff}, 20)},
		{"a port beyond the last", new(Port), []byte{1, 0x80, 0x80, 0x04}},
		{"a string longer than the frame", new(Refused), []byte{200, 1, 'x'}},
		{"a list longer than the frame", new(Refresh), []byte{100, 0}},
		{"a list beyond all limits", new(Refresh), []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
	} {
		if err := c.m.Decode(c.body); err == nil {
			t.Errorf("%s: decoded as %+v", c.name, c.m)
		}
	}
}

// FuzzDecode: whatever decodes is what Encode writes, and nothing panics or
// takes more memory than the frame is long.
func FuzzDecode(f *testing.F) {
	for i, m := range samples {
		f.Add(uint8(i), m.Encode())
	}
	f.Add(uint8(8), []byte{0xff, 0xff, 3, 0})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		m := reflect.New(reflect.TypeOf(samples[int(which)%len(samples)]).Elem()).Interface().(message)
		if m.Decode(b) == nil && !bytes.Equal(m.Encode(), b) {
			t.Errorf("%T from %x encodes to %x", m, b, m.Encode())
		}
	})
}

func pair(t *testing.T) (*Conn, int) {
	t.Helper()
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewConn(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, b
}

func TestConn(t *testing.T) {
	a, fd := pair(t)
	b, err := NewConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	big := []byte(strings.Repeat("0123456789abcdef", MaxBody/16)) // far beyond the socket's buffer
	sent := make(chan error, 1)
	go func() {
		fds := []int{int(w.Fd()), int(w.Fd())}
		for _, f := range []Frame{{Type: TypeGone}, {Type: TypeStart, Body: big, Files: fds}, {Type: TypePort, Body: []byte{1}, Files: fds[:1]}, {Type: TypeGone}} {
			if err := a.Send(f); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for _, want := range []struct {
		t     Type
		n     int
		files int
	}{{TypeGone, 0, 0}, {TypeStart, MaxBody, 2}, {TypePort, 1, 1}, {TypeGone, 0, 0}} {
		f, err := b.Receive()
		if err != nil || f.Type != want.t || len(f.Body) != want.n || len(f.Files) != want.files {
			t.Fatalf("Receive() = type %d, %d bytes, %d files, %v; want %+v", f.Type, len(f.Body), len(f.Files), err, want)
		}
		if want.n == MaxBody && !bytes.Equal(f.Body, big) {
			t.Error("the body is another one")
		}
		if want.files == 2 {
			if _, err := syscall.Write(f.Take(0), []byte("x")); err != nil {
				t.Errorf("the descriptor does not work: %v", err)
			}
			if f.Take(0) != -1 {
				t.Error("a descriptor was taken twice")
			}
			flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.Files[1]), syscall.F_GETFD, 0)
			if flags&syscall.FD_CLOEXEC == 0 {
				t.Error("a descriptor would leak into what is started")
			}
		}
		f.CloseFiles()
	}
	if err := <-sent; err != nil {
		t.Errorf("Send() = %v", err)
	}
	a.Close()
	if _, err := b.Receive(); err != io.EOF {
		t.Errorf("Receive() after the end = %v; want EOF", err)
	}
	w.Close()
}

// TestReceiveRefuses: what a hostile other end sends is an error, and its
// descriptors are not kept.
func TestReceiveRefuses(t *testing.T) {
	before := files(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]int, MaxFiles+3)
	for i := range many {
		many[i] = int(null.Fd())
	}
	for _, c := range []struct {
		name  string
		bytes []byte
		files []int
	}{
		{"no header", []byte("HTTP/1.1"), nil},
		{"a body too long", []byte{'W', 1, 0, 0, 0xff, 0xff, 0xff, 0x7f}, nil},
		{"a negative length", []byte{'W', 1, 0, 0, 0, 0, 0, 0xff}, nil},
		{"descriptors that do not come", []byte{'W', 1, 1, 0, 0, 0, 0, 0}, nil},
		{"descriptors unasked", []byte{'W', 1, 0, 0, 0, 0, 0, 0}, many[:2]},
		{"too many descriptors", []byte{'W', 1, 6, 0, 0, 0, 0, 0}, many},
		{"a cut header", []byte{'W', 1, 0}, many[:1]},
		{"a cut body", []byte{'W', 1, 1, 0, 9, 0, 0, 0, 'x'}, many[:1]},
	} {
		conn, fd := pair(t)
		var oob []byte
		if c.files != nil {
			oob = syscall.UnixRights(c.files...)
		}
		if err := syscall.Sendmsg(fd, c.bytes, oob, nil, 0); err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		if f, err := conn.Receive(); err == nil || err == io.EOF {
			t.Errorf("%s: Receive() = %+v, %v", c.name, f, err)
		}
		conn.Close()
	}
	null.Close()
	if after := files(t); after > before {
		t.Errorf("%d descriptors; at the start there were %d", after, before)
	}
	conn, fd := pair(t)
	defer syscall.Close(fd)
	if err := conn.Send(Frame{Body: make([]byte, MaxBody+1)}); err != ErrFrame {
		t.Errorf("Send of too much = %v", err)
	}
	if err := conn.Send(Frame{Files: make([]int, MaxFiles+1)}); err != ErrFrame {
		t.Errorf("Send of too many = %v", err)
	}
	if err := conn.Send(Frame{}, Frame{Files: []int{fd}}); err != ErrFrame {
		t.Errorf("Send of descriptors in a second frame = %v", err)
	}
}

// TestSendSeveral: frames that go out together come one by one.
func TestSendSeveral(t *testing.T) {
	conn, fd := pair(t)
	defer conn.Close()
	other, err := NewConn(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	sent := []Frame{{Type: TypeExited, Body: []byte("one"), Files: []int{0}}, {Type: TypeGone}, {Type: TypeExited, Body: []byte("three")}}
	if err := conn.Send(sent...); err != nil {
		t.Fatal(err)
	}
	for i, want := range sent {
		got, err := other.Receive()
		if err != nil || got.Type != want.Type || string(got.Body) != string(want.Body) || len(got.Files) != len(want.Files) {
			t.Errorf("frame %d: Receive() = %+v, %v; want %+v", i, got, err, want)
		}
		got.CloseFiles()
	}
}

func files(t *testing.T) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(l)
}

// FuzzReceive feeds a connection any bytes.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{'W', 1, 0, 0, 1, 0, 0, 0, 'x', 'W', 2, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{'W', 1, 0, 0, 0, 0, 0, 0x40})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		conn, fd := pair(t)
		defer conn.Close()
		if _, err := syscall.Write(fd, b); len(b) > 0 && err != nil {
			t.Fatal(err)
		}
		syscall.Close(fd)
		for n := 0; ; n++ {
			fr, err := conn.Receive()
			if err != nil {
				return
			}
			if len(fr.Body) > len(b) || n > len(b) {
				t.Fatalf("frame %+v from %d bytes", fr, len(b))
			}
		}
	})
}
