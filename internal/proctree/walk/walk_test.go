//go:build linux

package walk

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 10 20 30 34816 20 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n"
	for _, c := range []struct {
		text string
		name string
		ok   bool
	}{
		{"7 (sleep)" + rest, "sleep", true},
		{"7 (a b)" + rest, "a b", true},
		{"7 () S 1 1 1)" + rest, ") S 1 1 1", true}, // a name made to deceive
		{"7 ((sd-pam))" + rest, "(sd-pam)", true},
		{"7 (\n)" + rest, "\n", true},
		{"7 ()" + rest, "", true},
		{"7 (sleep) S 10 20", "", false},
		{"7 (sleep", "", false},
		{"(sleep)" + rest, "", false},
		{"x (sleep)" + rest, "", false},
		{"", "", false},
	} {
		p, ok := parseStat([]byte(c.text))
		if ok != c.ok || ok && (p != Process{7, 10, 20, 30, 987654, 'S', c.name}) {
			t.Errorf("parseStat(%q) = %+v, %v; want name %q, %v", c.text, p, ok, c.name, c.ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) b) S 10 20 30 34816 20 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1"))
	f.Add([]byte("7 () R -1 -1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && (p.State == 0 || len(p.Name) > len(b)) {
			t.Errorf("parseStat(%q) = %+v", b, p)
		}
	})
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int
	}{
		{"1 22 333 ", []int{1, 22, 333}}, {"", nil}, {"1 2", []int{1}}, {"x 5 ", []int{5}},
	} {
		if got := appendNumbers(nil, []byte(c.text)); !slices.Equal(got, c.want) {
			t.Errorf("appendNumbers(%q) = %v; want %v", c.text, got, c.want)
		}
	}
}

func TestDescendants(t *testing.T) {
	cmd := exec.Command("bash", "-c", "(sleep 600 & sleep 600 & wait) & wait")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	var l []Process
	t.Cleanup(func() {
		for _, p := range l {
			Signal(p, syscall.SIGKILL)
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); len(l) != 3; time.Sleep(time.Millisecond) {
		if l = Descendants(cmd.Process.Pid, false); time.Now().After(deadline) {
			t.Fatalf("descendants are %+v", l)
		}
	}
	if l[0].Parent != cmd.Process.Pid || l[1].Parent != l[0].Pid || l[2].Parent != l[0].Pid {
		t.Errorf("%+v: want parents first", l)
	}
	all := Descendants(os.Getpid(), false)
	if !slices.ContainsFunc(all, func(p Process) bool { return p.Pid == l[2].Pid }) {
		t.Errorf("%+v lacks %d", all, l[2].Pid)
	}
}

// TestScan: where the kernel lists no children, a slow look finds the same.
func TestScan(t *testing.T) {
	if !kernelLists() {
		t.Skip("this kernel lists no children, so there is nothing to compare with")
	}
	for range 5 {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
	}
	fast, slow := Children(os.Getpid()), scan(os.Getpid())
	slices.Sort(fast)
	slices.Sort(slow)
	if len(slow) < 5 || !slices.Equal(fast, slow) {
		t.Errorf("Children() = %v; scan finds %v", fast, slow)
	}
}

// TestSignalKnowsStrangers: a number that went to another process is not hit.
func TestSignalKnowsStrangers(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	p, ok := Stat(cmd.Process.Pid)
	if !ok {
		t.Fatal("Stat finds nobody")
	}
	stranger := p
	stranger.Start--
	if err := Signal(stranger, syscall.SIGKILL); err != syscall.ESRCH {
		t.Errorf("Signal(another start time) = %v; want ESRCH", err)
	}
	if now, ok := Stat(p.Pid); !ok || now.State == 'Z' {
		t.Error("it was hit")
	}
	if err := Signal(p, syscall.SIGKILL); err != nil { // the control
		t.Errorf("Signal() = %v", err)
	}
}
