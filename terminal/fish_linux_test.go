package terminal_test

import (
	"context"
	"testing"

	"github.com/wasmtools/wasmtools/terminal"
)

// TestFish: fish is another language, and has the same marks.
func TestFish(t *testing.T) {
	need(t, "fish")
	m := plain(t)
	id := session(t, m, terminal.OpenRequest{Shell: "fish"})
	step := func(command, output string, code int) {
		t.Helper()
		r := run(t, m, id, command)
		if r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != code || r.Output != output {
			t.Errorf("%q: %+v, want %q and exit code %d", command, r, output, code)
		}
	}
	step("echo one; echo two >&2", "one\ntwo\n", 0)
	step("mkdir -p d; and cd d; set -g x kept; sh -c 'exit 7'", "", 7)
	step("echo $status $x (basename $PWD)", "7 kept d\n", 0)
	step("for i in 1 2\n\techo \"line $i\"\nend", "line 1\nline 2\n", 0)
	step("echo $PAGER $GIT_EDITOR", "cat :\n", 0)
	step("printf unfinished", "unfinished", 0)
	step("function fish_prompt; echo mine; end; echo ok", "ok\n", 0)
	step("echo next", "next\n", 0)
	if r := run(t, m, id, "echo 'unclosed"); r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode == 0 {
		t.Errorf("an open quote: %+v", r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "cat; echo NOT-REACHED", Until: until(t, "input"), Yield: patience}, terminal.Feedback{})
	if err != nil || r.State != terminal.WaitingForInput {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-c"}}, terminal.Feedback{}); err != nil {
		t.Fatal(err)
	}
	if r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{}); err != nil || r.State != terminal.Finished {
		t.Errorf("got %+v, %v", r, err)
	}
	step("echo alive", "alive\n", 0)
	if r := run(t, m, id, "exit 5"); r.State != terminal.SessionEnded || r.ExitCode == nil || *r.ExitCode != 5 {
		t.Errorf("exit: %+v", r)
	}
}
