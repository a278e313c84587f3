package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/testdata/hostile"
)

// TestCompilesInAChild: the command compiles a stranger's module in a process of
// its own, whose work the next command finds; what is made to keep a compiler busy
// does not get that far.
func TestCompilesInAChild(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	plugin := filepath.Join(dependency(t, "github.com/extism/go-sdk"), "wasm", "std_command.wasm")
	sidecar := "name = \"hi\"\nversion = \"1.0.0\"\n[[tools]]\nname = \"hi\"\ndescription = \"Greets.\"\nexport = \"_start\"\ninput = \"{name}\"\n" +
		"input_schema = { type = \"object\", properties = { name = { type = \"string\" } } }\n"
	var slow []byte
	for _, g := range hostile.Guests() {
		if g.Name == "compile-branches" {
			slow = g.Wasm
		}
	}
	for name, p := range map[string][]byte{"hi.toml": []byte(sidecar), "slow.wasm": slow} {
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type want struct {
		code             int
		out, says, never string
	}
	check := func(w want, stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command("wasmtools", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "WASMTOOLS_HOME="+home)
		cmd.Stdin = strings.NewReader(stdin)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		code := 0
		var exit *exec.ExitError
		if err := cmd.Run(); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != w.code || !strings.Contains(out.String(), w.out) || !strings.Contains(said.String(), w.says) ||
			w.never != "" && strings.Contains(said.String(), w.never) {
			t.Errorf("wasmtools %q ends with %d, prints %q and says %q; want %+v", args, code, out.String(), said.String(), w)
		}
	}
	run := []string{"run", "--module", plugin + "=hi.toml", "hi", `{"name":"ben"}`}
	const apart = "for the first time, in a process of its own"
	check(want{0, "hello ben", apart, ""}, "", run...)
	check(want{0, "hello ben", "", "compiling"}, "", run...)
	check(want{exitMismatch, "", "invalid_module: a function merges", "compiling"}, "", "run", "--module", "slow.wasm", "any", `{}`)
	check(want{2, "", "error: ", ""}, "no order", compileArg)
}
