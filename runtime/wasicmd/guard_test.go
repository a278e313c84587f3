package wasicmd

import (
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// signatures are the types of WASI's functions, as the engine has them.
func signatures(t *testing.T) map[string]wasmasm.FuncType {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer r.Close(t.Context())
	if _, err := wasi_snapshot_preview1.Instantiate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	m := r.Module("wasi_snapshot_preview1")
	all := map[string]wasmasm.FuncType{}
	for name, def := range m.ExportedFunctionDefinitions() {
		all[name] = wasmasm.FuncType{Params: def.ParamTypes(), Results: def.ResultTypes()}
	}
	return all
}

// caller makes a command that calls one function of WASI with these arguments,
// zero where there are none, so many times.
func caller(name string, sig wasmasm.FuncType, times int32, args map[int]int32) []byte {
	c := wasmasm.Code{}.Loop(wasmasm.Void)
	for i, p := range sig.Params {
		if p == wasmasm.I64 {
			c = c.I64Const(int64(args[i]))
		} else {
			c = c.I32Const(args[i])
		}
	}
	if c = c.Call(0); len(sig.Results) > 0 {
		c = c.Drop()
	}
	c = c.LocalGet(0).I32Const(1).I32Add().LocalSet(0)
	c = c.LocalGet(0).I32Const(times).Op(0x49).BrIf(0).End()
	m := wasmasm.Module{
		Imports: []wasmasm.Import{{Module: "wasi_snapshot_preview1", Name: name, Type: sig}},
		Memory:  &wasmasm.Limits{Min: 64, Max: -1},
		Funcs:   []wasmasm.Func{{Export: "_start", Locals: []wasmasm.Run{{N: 1, Type: wasmasm.I32}}, Body: c}},
	}
	return m.Encode()
}

// run runs a command whose time is over before it begins. Only what looks at the
// time can know.
func run(t *testing.T, p *Program, ctx context.Context) error {
	t.Helper()
	h := wasihost.New(ctx, &hostfuncs.Call{Limits: hostfuncs.DefaultLimits()})
	defer h.Memory.Free()
	_, err := p.Run(h, wasihost.Options{Args: []string{"x"}, Stdout: &wasihost.Output{Limit: 1 << 20}}, nil)
	if fault := h.Outcome(err); fault != nil {
		return fault
	}
	return nil
}

// unguarded compiles a command with the engine's WASI as it is.
func unguarded(t *testing.T, prepared wasihost.Prepared) *Program {
	t.Helper()
	p := &Program{engine: wazero.NewRuntimeWithConfig(t.Context(), wasihost.RuntimeConfig(nil)), quantum: prepared.Quantum}
	t.Cleanup(p.Close)
	if _, err := wasi_snapshot_preview1.Instantiate(t.Context(), p.engine); err != nil {
		t.Fatal(err)
	}
	if err := instantiateOwn(t.Context(), p.engine); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.compiled, err = p.engine.CompileModule(t.Context(), prepared.Code); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEveryFunctionLooksAtTheTime: a guest whose time is over ends in the next
// function of WASI that it calls, whichever that is. A quantum of polls may be as
// many calls of it, so what takes a function long would otherwise be taken 16,384
// times. The control shows that the engine's own functions do not look.
func TestEveryFunctionLooksAtTheTime(t *testing.T) {
	over, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(-time.Second), tool.Errorf(tool.Timeout, "over"))
	defer cancel()
	blind := map[string]bool{}
	for name, sig := range signatures(t) {
		prepared, err := Prepare(t.Context(), caller(name, sig, 3, nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, err := Compile(t.Context(), prepared, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := run(t, p, t.Context()); tool.CodeOf(err) == tool.Timeout {
			t.Errorf("control: %s within its time: %v", name, err)
		}
		if err := run(t, p, over); tool.CodeOf(err) != tool.Timeout && name != wasihost.Renumber {
			t.Errorf("%s when the time is over: %v; want timeout", name, err)
		}
		p.Close()
		blind[name] = run(t, unguarded(t, prepared), over) == nil
	}
	for _, name := range []string{"poll_oneoff", "path_open", "path_rename", "fd_close", "args_get", "environ_get"} {
		if !blind[name] {
			t.Errorf("control: %s of the engine looks at the time by itself", name)
		}
	}
}

// TestOneCallIsBounded: what a function has to do before it reaches us cannot be
// made long by a number that the guest gives.
func TestOneCallIsBounded(t *testing.T) {
	sigs := signatures(t)
	for _, c := range []struct {
		name string
		args map[int]int32
		fits map[int]int32
	}{
		{"poll_oneoff", map[int]int32{1: 2 << 20, 2: 40_000}, map[int]int32{1: 2 << 20, 2: 1_000, 3: 4 << 16}},
		{"path_unlink_file", map[int]int32{0: 99, 2: 3 << 20}, map[int]int32{0: 99, 2: 1 << 10}},
		{"path_open", map[int]int32{0: 99, 3: 3 << 20}, map[int]int32{0: 99, 3: 1 << 10}},
		{"path_rename", map[int]int32{0: 99, 2: 10, 3: 99, 5: 3 << 20}, map[int]int32{0: 99, 2: 10, 3: 99, 5: 1 << 10}},
		{"path_symlink", map[int]int32{1: 3 << 20, 2: 99}, map[int]int32{1: 10, 2: 99, 4: 10}},
	} {
		for _, way := range []struct {
			args map[int]int32
			want tool.Code
		}{{c.args, tool.Trap}, {c.fits, ""}} {
			prepared, err := Prepare(t.Context(), caller(c.name, sigs[c.name], 1, way.args))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(t.Context(), prepared, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := run(t, p, t.Context()); tool.CodeOf(err) != way.want {
				t.Errorf("%s%v: %v; want %q", c.name, way.args, err, way.want)
			}
			p.Close()
			if err := run(t, unguarded(t, prepared), t.Context()); err != nil {
				t.Errorf("control: the engine's %s%v: %v; it should do it", c.name, way.args, err)
			}
		}
	}
}
