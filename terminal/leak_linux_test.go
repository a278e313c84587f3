package terminal_test

import (
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/internal/proctree/walk"
	"github.com/wasmtools/wasmtools/terminal"
	"github.com/wasmtools/wasmtools/tool"
)

// clingers leaves behind what outlives a kill of the process group: children in
// the background, in a session of their own, double-forked, and deaf to signals.
// They are known by the argument of sleep. The last line says that all run.
func clingers(marker string) string {
	return strings.ReplaceAll(`
sleep MARK &
setsid sleep MARK &
( setsid sleep MARK & )
( trap '' HUP TERM INT QUIT; exec setsid sleep MARK ) &
( ( trap '' HUP TERM; exec setsid -f sh -c 'trap "" HUP TERM; while :; do sleep MARK; done' </dev/null >/dev/null 2>&1 ) & )
planted() {
	for f in /proc/[0-9]*/cmdline; do
		{ { read -r -d '' a && read -r -d '' b; } <$f && [ "$a $b" = "sleep MARK" ] && echo; } 2>/dev/null
	done
}
until [ $(planted | wc -l) -ge 5 ]; do sleep 0.01; done
echo planted
`, "MARK", marker)
}

var markers atomic.Int64

// newMarker is a time to sleep that nobody else on this machine sleeps.
func newMarker() string {
	return fmt.Sprintf("87%d.%d%d", markers.Add(1), os.Getpid(), time.Now().UnixNano()%1e6)
}

// marked lists the processes anywhere on the machine whose arguments hold the marker.
func marked(marker string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b, err := os.ReadFile(d + "/cmdline"); err == nil && bytes.Contains(b, []byte(marker)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// count is what a leak would show in. Zombies are processes, too.
type count struct{ goroutines, files, processes, terminals int }

func take() count {
	c := count{goroutines: goruntime.NumGoroutine()}
	below := walk.Descendants(os.Getpid(), true)
	c.processes = len(below)
	pids := []int{os.Getpid()}
	for _, p := range below {
		pids = append(pids, p.Pid)
	}
	for _, pid := range pids {
		names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, n := range names {
			to, err := os.Readlink(n)
			if err != nil {
				continue // that of the glob itself
			}
			c.files++
			if strings.HasPrefix(to, "/dev/pt") {
				c.terminals++
			}
		}
	}
	return c
}

func (c count) within(most count) bool {
	return c.goroutines <= most.goroutines && c.files <= most.files && c.processes <= most.processes && c.terminals <= most.terminals
}

func settled(most count) count {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if c := take(); c.within(most) || time.Now().After(deadline) {
			return c
		}
	}
}

// TestNothingIsLeft runs processes and sessions that leave everything behind,
// under two profiles. With WASMTOOLS_LONG 2,000 processes and 200 sessions.
func TestNothingIsLeft(t *testing.T) {
	execs, sessions := 12, 4
	if os.Getenv("WASMTOOLS_LONG") != "" {
		execs, sessions = 2000, 200
	}
	before := take()
	m, err := terminal.Open(terminal.Options{Root: realDir(t), State: realDir(t), AllowUnsandboxed: true})
	if err != nil {
		t.Fatal(err)
	}
	profiles := []string{proctree.None}
	if canBox() {
		profiles = append(profiles, proctree.WorkspaceWrite)
	}
	marker := newMarker()
	ctx := context.Background()
	var warm count
	for i := range execs {
		r := execute(t, m, terminal.ExecRequest{Command: clingers(marker), Profile: profiles[i%len(profiles)], TTY: i%3 == 0, Split: i%3 == 1})
		if !strings.Contains(r.Output, "planted\n") || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Fatalf("exec %d: %+v", i, r)
		}
		if left := marked(marker); len(left) > 0 {
			t.Fatalf("exec %d: processes %v are left", i, left)
		}
		if i == 7 {
			warm = take()
		}
	}
	if now := settled(warm); !now.within(warm) {
		t.Errorf("after %d processes: %+v; after eight there were %+v", execs, now, warm)
	}
	for i := range sessions {
		id := session(t, m, terminal.OpenRequest{Profile: profiles[i%len(profiles)]})
		if r := run(t, m, id, clingers(marker)); !strings.Contains(r.Output, "planted\n") {
			t.Fatalf("session %d: %+v", i, r)
		}
		if n := len(marked(marker)); n < 5 { // the control: they do live
			t.Fatalf("session %d: only %d processes are marked", i, n)
		}
		if i%2 == 0 {
			if _, err := m.Close(ctx, id, terminal.Feedback{}); err != nil {
				t.Fatal(err)
			}
		} else if r := run(t, m, id, "exit 0"); r.State != terminal.SessionEnded {
			t.Fatalf("session %d: exit: %+v", i, r)
		}
		for end := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			left := marked(marker)
			if len(left) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("session %d: processes %v are left", i, left)
			}
		}
	}
	if now := settled(warm); !now.within(warm) {
		t.Errorf("after %d sessions: %+v; before there were %+v", sessions, now, warm)
	}
	id := session(t, m, terminal.OpenRequest{Profile: profiles[len(profiles)-1]})
	run(t, m, id, clingers(marker))
	if err := m.Shutdown(); err != nil {
		t.Fatalf("Shutdown() = %v", err)
	}
	if left := marked(marker); len(left) > 0 {
		t.Errorf("after the shutdown processes %v are left", left)
	}
	if now := settled(before); !now.within(before) {
		t.Errorf("in the end: %+v; at the start there were %+v", now, before)
	}
	if _, err := m.Exec(ctx, terminal.ExecRequest{Command: "true"}, terminal.Feedback{}); tool.CodeOf(err) != tool.NotAvailable {
		t.Errorf("after the shutdown: %v", err)
	}
}

// TestKilledServer: a server that is killed leaves nothing that runs, and the next
// one knows what was lost, with its last output. With WASMTOOLS_LONG it has had
// 2,000 processes and 200 sessions by then.
func TestKilledServer(t *testing.T) {
	for _, profile := range []string{proctree.None, proctree.WorkspaceWrite} {
		t.Run(profile, func(t *testing.T) {
			if profile != proctree.None {
				needBox(t)
			}
			marker := newMarker()
			root, state := realDir(t), realDir(t)
			execs, sessions := "2", "1"
			if os.Getenv("WASMTOOLS_LONG") != "" {
				execs, sessions = "2000", "200"
			}
			server := exec.Command("/proc/self/exe")
			server.Env = append(os.Environ(), serverEnv+"="+state, "TERMINAL_TEST_PROFILE="+profile, "TERMINAL_TEST_ROOT="+root, "TERMINAL_TEST_SCRIPT="+clingers(marker), "TERMINAL_TEST_EXECS="+execs, "TERMINAL_TEST_SESSIONS="+sessions)
			out, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			server.Stderr = os.Stderr
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			var line [200]byte
			n, err := out.Read(line[:])
			words := strings.Fields(string(line[:n]))
			if err != nil || len(words) != 3 || words[0] != "serving" {
				server.Process.Kill()
				rest, _ := io.ReadAll(out)
				t.Fatalf("the server said %q%q, %v", line[:n], rest, err)
			}
			if n := len(marked(marker)); n < 5 {
				t.Errorf("only %d processes are marked", n)
			}
			helpers := walk.Descendants(server.Process.Pid, true)
			server.Process.Kill()
			_ = server.Wait()
			for end := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				left := slices.DeleteFunc(slices.Clone(helpers), func(p walk.Process) bool {
					now, ok := walk.Stat(p.Pid)
					return !ok || now.Start != p.Start || now.State == 'Z'
				})
				if len(left) == 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("of the server's processes %+v are left", left)
				}
			}
			m := open(t, terminal.Options{Root: root, State: state, Profile: profile, AllowUnsandboxed: true})
			for end := time.Now().Add(3 * time.Second); len(marked(marker)) > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("processes %v are left", marked(marker))
				}
			}
			ctx := context.Background()
			for _, id := range words[1:] {
				r, err := m.Read(ctx, terminal.ReadRequest{ID: id})
				if err != nil || r.State != terminal.Lost || !strings.Contains(r.Output, "planted\n") {
					t.Errorf("Read(%s) = %+v, %v", id, r, err)
				}
				if _, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "true"}, terminal.Feedback{}); tool.CodeOf(err) != tool.Lost {
					t.Errorf("Run(%s) = %v", id, err)
				}
			}
			if got, lost := readAll(t, m, words[2]); got != numbers(100_000)+"planted\n" || lost != 0 {
				t.Errorf("its spool has %d bytes, %d lost", len(got), lost)
			}
			if l, err := m.List(ctx); err != nil || len(l.List) != 2 || l.List[0].State != terminal.Lost {
				t.Errorf("List() = %+v, %v", l, err)
			}
			x := terminal.NewTool(m, nil)
			if r, _ := call(t, x, `{"op":"wait","session":"`+words[1]+`","until":"exit"}`); r.Code != tool.Lost || !strings.Contains(r.PlainText(), "planted") {
				t.Errorf("the tool says %s", r.PlainText())
			}
		})
	}
}
