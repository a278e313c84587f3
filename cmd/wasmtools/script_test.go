package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the commands as people type them: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	home := sharedHome(t)
	extism, wazero := dependency(t, "github.com/extism/go-sdk"), dependency(t, "github.com/tetratelabs/wazero")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("WASMTOOLS_HOME", home)
			e.Setenv("HOME", e.WorkDir+"/.home")
			core, err := filepath.Abs("../../tools-wasm/core.wasm")
			e.Setenv("CORE", core)
			e.Setenv("PLUGINS", filepath.Join(extism, "wasm"))
			e.Setenv("COMMANDS", filepath.Join(wazero, "imports", "wasi_snapshot_preview1"))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// dependency is where the module cache holds a dependency, with the modules of
// its own tests.
func dependency(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}

// exits runs a command and compares its exit code: exits CODE COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = err.Error()
		if rest, ok := cutLast(code, "exit status "); ok {
			code = rest
		}
	}
	if code != args[0] {
		ts.Fatalf("%v exits with %s, want %s", args[1:], code, args[0])
	}
}

func cutLast(s, sep string) (string, bool) {
	for i := len(s) - len(sep); i >= 0; i-- {
		if s[i:i+len(sep)] == sep {
			return s[i+len(sep):], true
		}
	}
	return s, false
}
