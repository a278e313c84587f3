package linmem

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Containers filter system calls, and a filter answers for a call it does not let
// pass what an old kernel answers. Each refused call must lead to the next
// mechanism, found by trying it, and every one to the same bytes.
func TestFilteredSystemCalls(t *testing.T) {
	for _, c := range []struct {
		filter string
		want   mechanism
	}{
		{"none", scan}, // the control
		{"ioctl", pagemap},
		{"ioctl pread64", dontneed},
		{"ioctl pread64 madvise", whole},
		{"memfd_create", whole},
	} {
		want := min(c.want, detected())
		if got := strings.TrimSpace(child(t, "filter "+c.filter)); got != want.String() {
			t.Errorf("without %s: mechanism %q; want %q", c.filter, got, want)
		}
	}
}

var filtered = map[string]uint32{
	"ioctl": unix.SYS_IOCTL, "pread64": unix.SYS_PREAD64,
	"madvise": unix.SYS_MADVISE, "memfd_create": unix.SYS_MEMFD_CREATE,
}

func init() {
	for _, names := range []string{"none", "ioctl", "ioctl pread64", "ioctl pread64 madvise", "memfd_create"} {
		children["filter "+names] = func() error { return filterChild(strings.Fields(names)) }
	}
}

func filterChild(names []string) error {
	var refused []uint32
	for name, number := range filtered {
		if slices.Contains(names, name) {
			refused = append(refused, number)
		}
	}
	if len(refused) > 0 {
		if err := refuse(refused); err != nil {
			return err
		}
	}
	want := layout("holes", 4*WasmPage)
	image, err := NewImage(want)
	if err != nil {
		return err
	}
	m, err := New(6*WasmPage, image)
	if err != nil {
		return err
	}
	b := m.Reallocate(4 * WasmPage)
	if d := differs(b, want); d != "" {
		return fmt.Errorf("at the start %s", d)
	}
	for range 3 {
		fill(b[pageSize:3*pageSize], 1)
		s, err := m.Reset()
		if err != nil {
			return err
		}
		if d := differs(b, want); d != "" {
			return fmt.Errorf("after Reset %s", d)
		}
		if s.Mechanism != m.how.String() {
			return fmt.Errorf("a reset by %s; want %v, which was tried before", s.Mechanism, m.how)
		}
	}
	fmt.Println(m.how)
	return nil
}

// refuse makes the calls with these numbers fail with EPERM from now on, in all
// threads of the process.
func refuse(numbers []uint32) error {
	const ret, jumpEqual, load = unix.BPF_RET | unix.BPF_K, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	program := []unix.SockFilter{{Code: load, K: 0}} // the call's number
	for _, n := range numbers {
		program = append(program,
			unix.SockFilter{Code: jumpEqual, Jf: 1, K: n},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	program = append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}
