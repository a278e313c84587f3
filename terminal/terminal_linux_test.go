package terminal_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/internal/proctree"
	"github.com/wasmtools/wasmtools/terminal"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// canBox tells whether this system lets a user make the namespaces of a sandbox.
var canBox = sync.OnceValue(func() bool {
	return exec.Command("unshare", "-Urmpf", "mount", "-t", "proc", "none", "/proc").Run() == nil
})

func needBox(t testing.TB) {
	t.Helper()
	if !canBox() {
		t.Skip("the system refuses user namespaces, or mounts in them")
	}
}

// realDir is a directory without links in its path.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// open gives a manager that is shut down with the test.
func open(t testing.TB, o terminal.Options) *terminal.Manager {
	t.Helper()
	m, err := terminal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Shutdown(); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
	})
	return m
}

// plain is a manager without sandbox.
func plain(t testing.TB) *terminal.Manager {
	t.Helper()
	return open(t, terminal.Options{Root: realDir(t), State: realDir(t), Profile: proctree.None, AllowUnsandboxed: true})
}

func until(t testing.TB, s string) *terminal.Until {
	t.Helper()
	u, err := terminal.ParseUntil(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func session(t testing.TB, m *terminal.Manager, r terminal.OpenRequest) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := m.Open(ctx, r, terminal.Feedback{})
	if err != nil {
		t.Fatalf("Open(%+v) = %v", r, err)
	}
	return res.Session
}

// run runs a command to its end.
func run(t testing.TB, m *terminal.Manager, id, command string) terminal.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Run(ctx, terminal.RunRequest{Session: id, Command: command, Yield: patience}, terminal.Feedback{})
	if err != nil {
		t.Fatalf("Run(%q) = %v", command, err)
	}
	return r
}

func execute(t testing.TB, m *terminal.Manager, r terminal.ExecRequest) terminal.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if r.Yield == 0 {
		r.Yield = patience
	}
	res, err := m.Exec(ctx, r, terminal.Feedback{})
	if err != nil {
		t.Fatalf("Exec(%+v) = %v", r, err)
	}
	return res
}
