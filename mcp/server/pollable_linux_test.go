package server

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestPollable: a pipe that blocks is read through one that does not; what it
// holds is read, closing ends a read that waits, and whoever has the pipe too
// sees nothing of it. What is no pipe stays as it is.
func TestPollable(t *testing.T) {
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	twin, err := syscall.Dup(p[0]) // the same open file, as a parent has it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(twin)
	r, w := os.NewFile(uintptr(p[0]), "r"), os.NewFile(uintptr(p[1]), "w")
	defer r.Close()
	defer w.Close()
	in, done := pollable(r)
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
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(twin), syscall.F_GETFL, 0); errno != 0 || flags&syscall.O_NONBLOCK != 0 {
		t.Errorf("whoever has it too does not block: %#x, %v", flags, errno)
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

	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if in, _ := pollable(file); in != io.Reader(file) {
		t.Error("a regular file was taken")
	}
}
