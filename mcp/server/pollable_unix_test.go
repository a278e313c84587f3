//go:build unix

package server

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// blocking gives both ends of a pipe whose read end blocks, as an inherited
// standard input does.
func blocking(t *testing.T) (r, w *os.File) {
	t.Helper()
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestPollable: a pipe that blocks becomes one that does not, for the time of a
// session; what it holds is read, and closing it ends a read that waits. What
// is open for the output too stays as it is.
func TestPollable(t *testing.T) {
	r, w := blocking(t)
	_, out := blocking(t)
	twin, err := syscall.Dup(int(fdOf(t, r))) // of the same open file, as a parent has it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(twin)
	in, done := pollable(r, out)
	if in == io.Reader(r) || in.(*os.File).SetReadDeadline(time.Time{}) != nil {
		t.Fatal("it blocks")
	}
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("read %q, %v", buf, err)
	}
	ended := make(chan error)
	go func() { _, err := in.Read(buf); ended <- err }()
	done()
	if err := <-ended; err == nil {
		t.Error("a read that waits is not ended")
	}
	if _, err := w.WriteString("after"); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Read(twin, buf); err != nil || string(buf[:n]) != "after" {
		t.Errorf("whoever has it too reads %q, %v", buf[:n], err)
	}
	if n, err := syscall.Read(twin, buf[:0]); err != nil || n != 0 {
		t.Errorf("read of nothing = %d, %v", n, err)
	}

	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	both := os.NewFile(uintptr(pair[0]), "socket")
	defer both.Close()
	if in, _ := pollable(both, both); in != io.Reader(both) {
		t.Error("the output would stop blocking too")
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if in, _ := pollable(file, out); in != io.Reader(file) {
		t.Error("a regular file was taken")
	}
}

func fdOf(t *testing.T, f *os.File) (fd uintptr) {
	t.Helper()
	c, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Control(func(n uintptr) { fd = n }); err != nil {
		t.Fatal(err)
	}
	return fd
}
