//go:build amd64 || arm64

package proctree_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/internal/proctree/walk"
)

// The promise of three seconds after the end of the server.
const promise = 3 * time.Second

// clingers leaves behind everything that escapes a kill of the process group:
// a child in the background, one in a session of its own, a double-forked one,
// those that ignore signals, and one of all these kinds. They are known by the
// argument of sleep. The last line says that all of them run.
func clingers(marker string) string {
	return strings.ReplaceAll(`
sleep MARK &
setsid sleep MARK &
( setsid sleep MARK & )
nohup sleep MARK >/dev/null 2>&1 &
( trap '' HUP TERM INT QUIT; exec setsid sleep MARK ) &
( ( trap '' HUP TERM; exec setsid -f bash -c 'trap "" HUP TERM; while :; do sleep MARK; done' </dev/null >/dev/null 2>&1 ) & )
planted() {
	for f in /proc/[0-9]*/cmdline; do
		{ { read -r -d '' a && read -r -d '' b; } <$f && [ "$a $b" = "sleep MARK" ] && echo; } 2>/dev/null
	done
}
until [ $(planted | wc -l) -ge 6 ]; do sleep 0.01; done
echo planted
`, "MARK", marker)
}

// marked lists the processes anywhere on the machine whose arguments hold the
// marker.
func marked(t testing.TB, marker string) []int {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b, err := os.ReadFile("/proc/" + d.Name() + "/cmdline"); err == nil && bytes.Contains(b, []byte(marker)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

var markers = 0

// newMarker is a time to sleep that nobody else on this machine sleeps.
func newMarker() string {
	markers++
	return fmt.Sprintf("86%d.%d%d", markers, os.Getpid(), time.Now().UnixNano()%1e6)
}

// count is what a leak would show in.
type count struct {
	goroutines, files, processes, terminals int
}

func take() count {
	c := count{goroutines: goruntime.NumGoroutine(), processes: len(walk.Descendants(os.Getpid(), true))}
	for _, pid := range append(pidsOf(walk.Descendants(os.Getpid(), false)), os.Getpid()) {
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		names, _ := filepath.Glob(dir + "*")
		for _, n := range names {
			to, err := os.Readlink(n)
			if err != nil {
				continue // the descriptor of the glob itself
			}
			c.files++
			if strings.HasPrefix(to, "/dev/pt") {
				c.terminals++
			}
		}
	}
	return c
}

// groupsOf lists the control groups that these helpers have made.
func groupsOf(helpers []int) (groups []string) {
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if pid, ok := strings.CutPrefix(d.Name(), "wasmtools-"); ok {
			if n, err := strconv.Atoi(pid); err == nil && slices.Contains(helpers, n) {
				groups = append(groups, path)
			}
		}
		return nil
	})
	return groups
}

func pidsOf(l []walk.Process) (pids []int) {
	for _, p := range l {
		pids = append(pids, p.Pid)
	}
	return pids
}

func (c count) within(most count) bool {
	return c.goroutines <= most.goroutines && c.files <= most.files && c.processes <= most.processes && c.terminals <= most.terminals
}

// settled takes counts until one is within most, or patience ends.
func settled(most count) count {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if c := take(); c.within(most) || time.Now().After(deadline) {
			return c
		}
	}
}

// TestNothingIsLeft starts trees that leave everything behind, on terminals and
// pipes, under each profile. With WASMTOOLS_LONG 2,000 of them.
func TestNothingIsLeft(t *testing.T) {
	starts := 30
	if os.Getenv("WASMTOOLS_LONG") != "" {
		starts = 2000
	}
	before := take()
	h := proctree.Open(proctree.Options{})
	defer h.Close()
	ws := realDir(t)
	profiles := possible(t,
		proctree.Profile{Name: proctree.None},
		proctree.Profile{Name: proctree.WorkspaceWrite, Network: proctree.NetworkLoopback, Write: []string{ws}, Tmp: realDir(t)},
		proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff, Tmp: realDir(t)},
	)
	marker := newMarker()
	var warm count
	var helpers []int
	for i := range starts {
		s := script("/", clingers(marker))
		s.Profile = profiles[i%len(profiles)]
		if i%2 == 1 {
			s.Merge, s.TTY = false, &proctree.Size{Cols: 80, Rows: 24}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		p, err := h.Start(ctx, s)
		cancel()
		if err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		out := p.Stdout
		if p.Terminal != nil {
			out = p.Terminal
		}
		if got := readLine(t, out); got != "planted" {
			t.Fatalf("start %d: got %q", i, got)
		}
		switch i % 3 {
		case 0:
			<-p.Done() // the leader has gone, the others have not
		case 1:
			if n := len(marked(t, marker)); n < 6 { // the control: they do live
				t.Fatalf("start %d: only %d processes are marked", i, n)
			}
		}
		helpers = append(helpers, pidsOf(helpersOf(walk.Descendants(os.Getpid(), false)))...)
		out.Close()
		if err := p.Close(); err != nil {
			t.Fatalf("start %d: Close() = %v", i, err)
		}
		if left := marked(t, marker); len(left) > 0 {
			t.Fatalf("start %d: processes %v are left", i, left)
		}
		if i == 5 {
			warm = take()
		}
	}
	if now := settled(warm); !now.within(warm) {
		t.Errorf("after %d starts: %+v; after six there were %+v", starts, now, warm)
	}
	if err := h.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	if now := settled(before); !now.within(before) {
		t.Errorf("in the end: %+v; at the start there were %+v", now, before)
	}
	if left := groupsOf(helpers); len(left) > 0 {
		t.Errorf("control groups are left: %q", left)
	}
}

// serverRole lets the test binary be a server that is to be killed.
const serverRole = "PROCTREE_TEST_SERVER"

func TestMain(m *testing.M) {
	if marker := os.Getenv(serverRole); marker != "" {
		os.Exit(serve(marker))
	}
	if name := os.Getenv(attackRole); name != "" {
		os.Exit(attack(name))
	}
	if os.Getenv(keyRole) != "" {
		os.Exit(sayKey())
	}
	if os.Getenv(whoRole) != "" {
		fmt.Println(os.Geteuid())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve starts one tree under each profile, on a terminal and on pipes, and
// waits to be killed. Each line of its output is one that has planted its
// clingers.
func serve(marker string) int {
	os.Unsetenv(serverRole)
	h := proctree.Open(proctree.Options{})
	tmp, wrapped := os.Args[1], len(os.Args) > 2
	if wrapped {
		proctree.ForbidBox(h, true)
	}
	for i := range 4 {
		s := proctree.Spec{
			Path: "/bin/bash", Argv: []string{"bash", "-c", clingers(marker) + "sleep " + marker}, Env: []string{"PATH=/usr/bin:/bin"},
			Dir: "/", Profile: proctree.Profile{Name: proctree.None},
		}
		if i >= 2 && canBox() || wrapped {
			s.Profile = proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff, Tmp: tmp}
		}
		if i%2 == 0 {
			s.TTY = &proctree.Size{Cols: 80, Rows: 24}
		} else {
			s.Merge = true
		}
		p, err := h.Start(context.Background(), s)
		if err != nil {
			fmt.Println("error:", err)
			return 1
		}
		out := p.Stdout
		if p.Terminal != nil {
			out = p.Terminal
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			fmt.Println("error:", err)
			return 1
		}
		fmt.Println(strings.TrimSpace(line))
	}
	fmt.Println("all")
	select {}
}

// victim is a server in a process of its own, with its trees running.
func victim(t *testing.T, marker string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{realDir(t)}, more...)...)
	cmd.Env = append(os.Environ(), serverRole+"="+marker)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(io.LimitReader(out, 1<<16))
	for lines.Scan() {
		switch {
		case lines.Text() == "all":
			return cmd
		case lines.Text() != "planted":
			t.Fatalf("the server says %q", lines.Text())
		}
	}
	t.Fatal("the server has ended")
	return nil
}

// allGone waits for the end of everything that belongs to a server.
func allGone(t *testing.T, marker string, helpers []walk.Process, since time.Time) {
	t.Helper()
	for {
		left := marked(t, marker)
		for _, p := range helpers {
			if now, ok := walk.Stat(p.Pid); ok && now.Start == p.Start && now.State != 'Z' {
				left = append(left, p.Pid)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Since(since) > promise {
			for _, pid := range left {
				st, _ := walk.Stat(pid)
				t.Errorf("left after %v: %+v", time.Since(since), st)
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestServerIsKilled: nothing outlives a server by more than three seconds, and
// not the death of single helpers either.
func TestServerIsKilled(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(server int, all []walk.Process)
	}{
		{"the server", func(server int, _ []walk.Process) { syscall.Kill(server, syscall.SIGKILL) }},
		{"the server, after all helpers were asked to end", func(server int, all []walk.Process) {
			for _, p := range helpersOf(all) {
				syscall.Kill(p.Pid, syscall.SIGTERM)
				syscall.Kill(p.Pid, syscall.SIGHUP)
			}
			syscall.Kill(server, syscall.SIGKILL)
		}},
		{"the reapers and then the server", func(server int, all []walk.Process) {
			for _, p := range helpersOf(all) {
				if role(p.Pid) == "reaper" || role(p.Pid) == "boxed" {
					syscall.Kill(p.Pid, syscall.SIGKILL)
				}
			}
			syscall.Kill(server, syscall.SIGKILL)
		}},
		{"the zygote and then the server", func(server int, all []walk.Process) {
			for _, p := range helpersOf(all) {
				if role(p.Pid) == "zygote" || role(p.Pid) == "box" {
					syscall.Kill(p.Pid, syscall.SIGKILL)
				}
			}
			syscall.Kill(server, syscall.SIGKILL)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			marker := newMarker()
			cmd := victim(t, marker)
			if n := len(marked(t, marker)); n < 24 {
				t.Fatalf("only %d processes are marked", n)
			}
			all := walk.Descendants(cmd.Process.Pid, false)
			want := 6 // a zygote, a box, four reapers
			if !canBox() {
				want--
			}
			if n := len(helpersOf(all)); n != want {
				t.Fatalf("%d helpers in %+v", n, all)
			}
			helpersAll := helpersOf(all)
			begin := time.Now()
			c.kill(cmd.Process.Pid, all)
			cmd.Wait()
			allGone(t, marker, all, begin)
			for len(groupsOf(pidsOf(helpersAll))) > 0 {
				if time.Since(begin) > promise {
					t.Fatalf("control groups are left: %q", groupsOf(pidsOf(helpersAll)))
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

// TestServerIsKilledInBubblewrap is the same where bubblewrap makes the boxes.
func TestServerIsKilledInBubblewrap(t *testing.T) {
	h := open(t)
	proctree.ForbidBox(h, true)
	if _, err := h.Probe(context.Background(), proctree.Profile{Name: proctree.ReadOnly, Network: proctree.NetworkOff, Tmp: realDir(t)}); err != nil {
		t.Skip(err)
	}
	for _, reapersToo := range []bool{false, true} {
		marker := newMarker()
		cmd := victim(t, marker, "wrapped")
		all := walk.Descendants(cmd.Process.Pid, false)
		begin := time.Now()
		if reapersToo {
			for _, p := range helpersOf(all) {
				if role(p.Pid) != "zygote" {
					syscall.Kill(p.Pid, syscall.SIGKILL)
				}
			}
		}
		syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		allGone(t, marker, all, begin)
	}
}

func role(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	f := strings.Split(string(b), "\x00")
	if len(f) < 3 || f[0] != "wasmtools-helper" && f[0] != "/run/wasmtools-helper" {
		return ""
	}
	return f[2]
}

func helpersOf(all []walk.Process) (l []walk.Process) {
	for _, p := range all {
		if role(p.Pid) != "" {
			l = append(l, p)
		}
	}
	return l
}

// TestWithoutAReaper is the control: the same clingers survive the death of
// their server and of their process group if nobody looks after them.
func TestWithoutAReaper(t *testing.T) {
	marker := newMarker()
	cmd := exec.Command("/bin/bash", "-c", clingers(marker)+"sleep "+marker)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range marked(t, marker) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "planted\n" {
		t.Fatalf("got %q", line)
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Process.Wait()
	if left := marked(t, marker); len(left) < 4 {
		t.Errorf("a kill of the group leaves %d processes; the clingers do not cling", len(left))
	}
}

// TestReaperIsKilled: a program that kills its own helper gains nothing.
func TestReaperIsKilled(t *testing.T) {
	h := open(t)
	marker := newMarker()
	p := start(t, h, script("/", clingers(marker)+"kill -9 $PPID; sleep "+marker))
	readLine(t, p.Stdout)
	gone(t, p)
	if e := p.Exit(); e.Signal != syscall.SIGKILL {
		t.Errorf("Exit() = %+v; want killed", e)
	}
	allGone(t, marker, nil, time.Now())
	if out, _ := finish(t, start(t, h, script("/", "echo next"))); out != "next\n" {
		t.Errorf("the next tree says %q", out)
	}
}

// TestZygoteIsKilled: the host gets a new one.
func TestZygoteIsKilled(t *testing.T) {
	h := open(t)
	finish(t, start(t, h, script("/", "true")))
	for _, p := range helpersOf(walk.Descendants(os.Getpid(), false)) {
		if role(p.Pid) == "zygote" {
			syscall.Kill(p.Pid, syscall.SIGKILL)
		}
	}
	for i := range 4 { // idle reapers first, then new ones
		p := start(t, h, script("/", "echo alive; sleep 600"))
		if got := readLine(t, p.Stdout); got != "alive" {
			t.Errorf("start %d: got %q", i, got)
		}
	}
}
