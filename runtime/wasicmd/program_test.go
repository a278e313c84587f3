package wasicmd

import (
	"context"
	"testing"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// TestCompileRefuses: what cannot be compiled, or not in time, is an error with
// its own code and nothing else.
func TestCompileRefuses(t *testing.T) {
	good := wasmasm.Module{Funcs: []wasmasm.Func{{Export: "_start"}}}
	prepared, err := Prepare(t.Context(), good.Encode())
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	p, err := Compile(t.Context(), prepared, nil)
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	p.Close()

	late, cancel := context.WithCancelCause(t.Context())
	cancel(tool.Errorf(tool.Quota, "too late"))
	if _, err := Compile(late, prepared, nil); err != nil && tool.CodeOf(err) != tool.Quota {
		t.Errorf("in an ended context: %v; want quota", err)
	}
	wrong := wasmasm.Module{Funcs: []wasmasm.Func{{Export: "_start", Body: wasmasm.Code{}.I64Const(1).LocalSet(0)}}}
	invalid := wasmasm.Module{Funcs: []wasmasm.Func{{Export: "_start", Body: wasmasm.Code{}.I32Add()}}}
	for name, m := range map[string]wasmasm.Module{"a local that is not there": wrong, "a stack that is empty": invalid} {
		if _, err := Prepare(t.Context(), m.Encode()); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Prepare = %v; want invalid_module", name, err)
		}
		if _, err := Compile(t.Context(), wasihost.Prepared{Code: m.Encode()}, nil); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Compile = %v; want invalid_module", name, err)
		}
	}
}

// TestCheck: a command gets what WASI has, and nothing else.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		module, name string
		ok           bool
	}{
		{"wasi_snapshot_preview1", "fd_write", true}, {"wasi_snapshot_preview1", "sock_open", false},
		{"wasi_unstable", "fd_write", false}, {"env", "x", false}, {"wt__host", "wt__yield", false}, {"wasmtools:guarded", "fd_renumber", false},
		{"wasmtools_v1", "fs_read", false}, {"extism:host/env", "alloc", false}, {"dylibso_observe", "instrument_enter", true},
	} {
		err := Check(manifest.Summary{Imports: []manifest.Import{{Module: c.module, Name: c.name}}})
		if (err == nil) != c.ok || !c.ok && tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("Check(%s.%s) = %v", c.module, c.name, err)
		}
	}
}
