//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/ptytest"
)

// allowed makes a call of the terminal, lets a person allow it at another
// terminal, and makes it again.
func (c *client) allowed(home, ws string, args map[string]any) toolResult {
	c.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	ticket := c.asked("terminal_session", string(raw))
	if out, code := person(c.t, command(c.t, home, ws, "approvals", "allow", ticket)); code != 0 {
		c.t.Fatalf("allow exits with %d and prints:\n%s", code, out)
	}
	return c.call("terminal_session", string(raw))
}

// session is what stands behind a word of a result's first line.
func (r toolResult) named(t *testing.T, word string) string {
	t.Helper()
	_, rest, _ := strings.Cut(r.text(), word+" ")
	id, _, ok := strings.Cut(rest, ",")
	if !ok {
		t.Fatalf("no %s in %s", word, r.text())
	}
	return id
}

// TestCommandsOverMCP: commands and shells run after a person at another terminal
// agreed to exactly them, and are recorded; looking needs no question. What runs
// can neither answer calls nor see what is ours or secret. Control: the same
// files can be read by whoever stands outside.
func TestCommandsOverMCP(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	key := filepath.Join(home, "state", "planted.key")
	for p, text := range map[string]string{key: "KEY-BYTES", filepath.Join(ws, ".env"): "ENV-BYTES", filepath.Join(ws, "a.txt"): "hello"} {
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, command(t, home, ws, "mcp", "-q"))

	exec := map[string]any{"op": "exec", "command": "cat a.txt; exit 7"}
	raw, _ := json.Marshal(exec)
	ticket := c.asked("terminal_session", string(raw))
	out, code := outcome(t, command(t, home, ws, "approvals", "show", ticket))
	if code != 0 || !strings.Contains(out, "| cat a.txt; exit 7") || !strings.Contains(out, realPath(ws)) || !strings.Contains(out, "workspace-write") || !strings.Contains(out, "10m0s") {
		t.Errorf("show exits with %d and prints:\n%s", code, out)
	}
	if r := c.allowed(home, ws, exec); !strings.Contains(r.text(), "exit code 7") || !strings.Contains(r.text(), "hello") {
		t.Errorf("exec answers %+v", r)
	}
	c.asked("terminal_session", string(raw)) // the yes is spent

	open := c.allowed(home, ws, map[string]any{"op": "open"})
	id := open.named(t, "session")
	waits := c.asked("write_file", `{"path":"planted","content":"x"}`)
	hostile := fmt.Sprintf(`wasmtools approvals allow %s; cat %s; for f in $(ls -A); do cat "$f"; done; ls %s; echo done`, waits, key, home)
	r := c.allowed(home, ws, map[string]any{"op": "run", "session": id, "command": hostile})
	if text := r.text(); !strings.Contains(text, "done") || strings.Contains(text, "KEY-BYTES") || strings.Contains(text, "ENV-BYTES") || strings.Contains(text, "allowed "+waits) {
		t.Errorf("a session's shell could do what it must not:\n%s", text)
	}
	c.asked("write_file", `{"path":"planted","content":"x"}`) // still waits
	if p, err := os.ReadFile(key); err != nil || string(p) != "KEY-BYTES" {
		t.Errorf("the control reads %q, %v", p, err)
	}
	for _, op := range []string{"read", "screen", "list", "close"} {
		args := fmt.Sprintf(`{"op":%q,"session":%q}`, op, id)
		if op == "list" {
			args = `{"op":"list"}`
		}
		if r := c.call("terminal_session", args); r.IsError {
			t.Errorf("%s answers %+v", op, r)
		}
	}
	out, code = outcome(t, command(t, home, ws, "evidence", "export"))
	for _, want := range []string{"terminal spawned", "terminal ended", "exit code 7", "terminal gone", `"exit_code":7`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("the record (exit %d) does not tell %q", code, want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestAttach: a person at a terminal of their own sees a session and types into
// it, which the model sees and the record marks; whoever only looks types nothing;
// nobody without a terminal gets in, and no session.
func TestAttach(t *testing.T) {
	ptytest.NeedSandbox(t)
	home, ws := home(t), t.TempDir()
	c := connect(t, command(t, home, ws, "mcp", "-q", "--approve", "all"))
	id := c.call("terminal_session", `{"op":"open"}`).named(t, "session")

	if out, code := outcome(t, command(t, home, ws, "attach", id)); code != exitDenied {
		t.Errorf("attach without a terminal exits with %d and prints:\n%s", code, out)
	}
	if out, code := person(t, command(t, home, ws, "attach", "s-aaaaaaaaaaaa")); code != exitFailure {
		t.Errorf("attach to nothing exits with %d and prints:\n%s", code, out)
	}
	look := ptytest.Start(t, command(t, home, ws, "attach", "--read-only", id))
	look.Expect("ctrl-] leaves")
	look.Send("echo by-who-looks\n\x1d")
	if code := look.Wait(); code != 0 {
		t.Errorf("attach --read-only exits with %d", code)
	}
	at := ptytest.Start(t, command(t, home, ws, "attach", id))
	at.Expect("ctrl-] leaves")
	at.Send("echo by-a-$((40+2))\n")
	at.Expect("by-a-42")
	at.Send("\x1d")
	if code := at.Wait(); code != 0 {
		t.Errorf("attach exits with %d", code)
	}
	r := c.call("terminal_session", fmt.Sprintf(`{"op":"read","session":%q,"cursor":0}`, id))
	if text := r.text(); !strings.Contains(text, "by-a-42") || strings.Contains(text, "by-who-looks") {
		t.Errorf("the model sees:\n%s", text)
	}
	if out, code := outcome(t, command(t, home, ws, "evidence", "export")); code != 0 || !strings.Contains(out, "by the person") {
		t.Errorf("the record (exit %d) does not mark what the person typed:\n%s", code, out)
	}
}

// TestServerLeavesNothing: what ran is gone when the server is killed, and when
// its client hangs up. Control: it runs before.
func TestServerLeavesNothing(t *testing.T) {
	ptytest.NeedSandbox(t)
	home := home(t)
	for _, kill := range []bool{true, false} {
		ws := t.TempDir()
		mark := fmt.Sprintf("98%d", time.Now().UnixNano()%1e12)
		c := connect(t, command(t, home, ws, "mcp", "-q", "--approve", "all"))
		id := c.call("terminal_session", `{"op":"open"}`).named(t, "session")
		r := c.call("terminal_session", fmt.Sprintf(`{"op":"run","session":%q,"command":"setsid sleep %s & (trap '' HUP TERM; sleep %s) & echo begun"}`, id, mark, mark))
		if r.IsError || !within(10*time.Second, func() bool { return runs(mark) >= 2 }) {
			t.Fatalf("the control: %d run: %+v", runs(mark), r)
		}
		if kill {
			_ = c.cmd.Process.Signal(syscall.SIGKILL)
		} else {
			c.in.Close()
		}
		_ = c.cmd.Wait()
		if !within(10*time.Second, func() bool { return runs(mark) == 0 }) {
			t.Errorf("killed=%v: %d are left", kill, runs(mark))
		}
	}
}

// runs counts processes with a word among their arguments.
func runs(word string) int {
	n := 0
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range list {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "\x00"+word+"\x00") {
			n++
		}
	}
	return n
}

// within waits until something holds.
func within(limit time.Duration, holds func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			return holds()
		}
	}
	return true
}
