//go:build amd64 || arm64

package terminal_test

import (
	"context"
	"testing"

	"github.com/wasmtools/wasmtools/terminal"
)

// TestInterruptFlood: ctrl-C ends a program that prints as fast as it can, again and
// again, although what it printed stands before the prompt that tells its end.
func TestInterruptFlood(t *testing.T) {
	t.Parallel()
	m := plain(t)
	for _, sh := range shells(t) {
		t.Run(sh, func(t *testing.T) {
			t.Parallel()
			id := session(t, m, terminal.OpenRequest{Shell: sh})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for range 5 {
				r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: "yes; echo NOT-REACHED", Until: until(t, "regex:^y$"), Yield: patience}, terminal.Feedback{})
				if err != nil || r.Reason != "regex" {
					t.Fatalf("the flood: %+v, %v", r, err)
				}
				if _, err = m.Send(ctx, terminal.SendRequest{ID: id, Keys: []string{"C-c"}}, terminal.Feedback{}); err == nil {
					r, err = m.Wait(ctx, terminal.WaitRequest{ID: id, Until: until(t, "finished"), Timeout: patience}, terminal.Feedback{})
				}
				if err != nil || r.State != terminal.Finished || r.ExitCode == nil || *r.ExitCode != 130 {
					t.Fatalf("ctrl-C: %s, exit code %v, in front %q, silent for %d ms, cursor %d, %v; want finished, 130", r.State, r.ExitCode, r.Foreground, r.SilentForMS, r.Cursor, err)
				}
				if r := run(t, m, id, "echo alive"); r.Output != "alive\n" {
					t.Fatalf("afterwards %+v", r)
				}
			}
		})
	}
}
