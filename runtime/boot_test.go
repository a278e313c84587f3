package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
)

// restoreEnv makes the test binary restore a guest that another process froze.
const restoreEnv = "WASMTOOLS_TEST_RESTORE"

func restore(home string) error {
	told := false
	e, err := New(context.Background(), Options{
		CacheDir: filepath.Join(home, "cache"), StateDir: filepath.Join(home, "state"),
		Notice: func(string) { told = true },
	})
	if err != nil {
		return err
	}
	m, err := e.Load(context.Background(), clockGuest(), LoadOptions{})
	if err != nil {
		return err
	}
	if slot := e.cache.slot(cacheKey(m.(*module), true)); !slot.hit() || told {
		return fmt.Errorf("the snapshot is not that of the process before")
	}
	for range 3 {
		if code, text, err := callOnce(m, 0); code != "" || err != nil {
			return fmt.Errorf("%q %s %v", code, text, err)
		}
	}
	return e.Close()
}

// TestRestoredAfterAnotherBoot freezes a guest in this process and restores it in
// one whose monotonic clock has just begun, as after another boot.
func TestRestoredAfterAnotherBoot(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("needs the time namespaces of Linux")
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	seconds, _, _ := strings.Cut(string(up), ".")
	since, err := strconv.Atoi(seconds)
	if err != nil || since < 10 {
		t.Skipf("this machine is up for %q only", seconds)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	back := fmt.Sprint(-(since - 5))
	young := func(command ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--user", "--map-root-user", "--time", "--monotonic", back, "--boottime", back, "--fork"}, command...)...)
	}
	if out, err := young("cat", "/proc/uptime").Output(); err != nil {
		t.Skipf("needs unshare, and a kernel with time namespaces: %v", err)
	} else if s, _, _ := strings.Cut(string(out), "."); len(s) > 2 {
		t.Fatalf("control: in the namespace the machine is up for %s s; it should be a few", s)
	}
	home := t.TempDir()
	e := newEngine(t, Options{CacheDir: filepath.Join(home, "cache"), StateDir: filepath.Join(home, "state")})
	m := load(t, e, clockGuest()).(*module)
	if code, text, err := callOnce(m, 0); code != "" || err != nil {
		t.Fatal(code, text, err)
	}
	if !m.build.program.form.Decision.Snapshot {
		t.Fatal(m.build.program.form.Decision)
	}
	cmd := young(self)
	cmd.Env = append(os.Environ(), restoreEnv+"="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("after another boot: %v\n%s", err, out)
	}
}
