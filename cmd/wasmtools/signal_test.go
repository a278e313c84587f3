//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestInterrupted: a command that waits for its standard input ends on a signal
// with the code for that.
func TestInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.Command("wasmtools", "run", "-q", "grep", "-")
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+sharedHome(t))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It reads once the pipe is empty again: the signal handler stands then.
		if _, err := in.Write(make([]byte, 128<<10)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err = <-done:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			t.Fatalf("%v: still running after 30 s", sig)
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: ended with %v, want exit code %d", sig, err, exitInterrupted)
		}
	}
}
