package workspace

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wasmtools/wasmtools/tool"
)

func TestOpenat2Probe(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.EAGAIN} {
		w := &Workspace{sysOpenat2: func(int, string, *unix.OpenHow) (int, error) { return -1, errno }}
		w.probe(Options{})
		if w.openat2 || !strings.HasPrefix(w.Mechanism(), "os.Root (") {
			t.Errorf("probe that answers %v: %s", errno, w.Mechanism())
		}
	}
	b := newBox(t, Options{})
	if !strings.HasPrefix(b.w.Mechanism(), "openat2") {
		t.Errorf("Mechanism() = %q", b.w.Mechanism())
	}
}

// TestOpenat2Refusal: once the probe has succeeded, a refusal is an error of that
// call. To fall back then would let anybody who can cause one error turn the
// guard off.
func TestOpenat2Refusal(t *testing.T) {
	b := newBox(t, Options{})
	b.build("f = x", "l => $O/secret")
	for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
		calls := 0
		b.w.sysOpenat2 = func(int, string, *unix.OpenHow) (int, error) { calls++; return -1, errno }
		if got, err := readAll(t, b.overlay(), "f"); err == nil {
			t.Errorf("with openat2 answering %v the read gave %q", errno, got)
		}
		if !b.w.openat2 || calls == 0 {
			t.Errorf("%v switched openat2 off", errno)
		}
	}
	b.w.sysOpenat2 = unix.Openat2
	if got, err := readAll(t, b.overlay(), "f"); got != "x" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

func TestOpenat2Again(t *testing.T) {
	b := newBox(t, Options{})
	b.build("f = x")
	calls := 0
	b.w.sysOpenat2 = func(dirfd int, path string, how *unix.OpenHow) (int, error) {
		if calls++; calls < maxAgain {
			return -1, unix.EAGAIN
		}
		return unix.Openat2(dirfd, path, how)
	}
	if got, err := readAll(t, b.overlay(), "f"); got != "x" || err != nil {
		t.Errorf("after %d refusals: %q, %v", calls, got, err)
	}
	calls = 0
	b.w.sysOpenat2 = func(int, string, *unix.OpenHow) (int, error) { calls++; return -1, unix.EAGAIN }
	_, err := readAll(t, b.overlay(), "f")
	wantCode(t, err, tool.Busy)
	if most := maxAgain * (maxTries + 2) * 2; calls > most {
		t.Errorf("%d calls; want at most %d", calls, most)
	}
}

// TestFlags: no call may ever create, truncate or follow by accident.
func TestFlags(t *testing.T) {
	b := newBox(t, Options{})
	b.build("d/f = x", "l => d")
	b.w.sysOpenat2 = func(dirfd int, path string, how *unix.OpenHow) (int, error) {
		if how.Resolve != beneath {
			t.Errorf("openat2(%s) with resolve %#x", path, how.Resolve)
		}
		if how.Flags&(unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_RDWR) != 0 || how.Flags&unix.O_CLOEXEC == 0 {
			t.Errorf("openat2(%s) with flags %#o", path, how.Flags)
		}
		if how.Flags&unix.O_PATH == 0 && how.Flags&(unix.O_NONBLOCK|unix.O_NOCTTY) != unix.O_NONBLOCK|unix.O_NOCTTY {
			t.Errorf("openat2(%s) could wait: flags %#o", path, how.Flags)
		}
		return unix.Openat2(dirfd, path, how)
	}
	o := b.overlay()
	for i, v := range verbs {
		v.do(o, t, []string{"d/f", "l", fmt.Sprint("new", i)}[i%3])
	}
	b.commit(o)
}
