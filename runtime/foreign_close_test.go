package runtime

import (
	"context"
	goruntime "runtime"
	"testing"
	"weak"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
)

// TestClosedModulesAreForgotten: a program that loads modules again and again, as
// one that watches a folder does, holds none of those it has closed.
func TestClosedModulesAreForgotten(t *testing.T) {
	e := newEngine(t, Options{})
	command := (&wasmasm.Module{Memory: &wasmasm.Limits{Min: 1, Max: -1}, Funcs: []wasmasm.Func{{Export: "_start"}}}).Encode()
	load := map[string]func() Module{
		"command": func() Module { return foreignModule(t, e, command, oneTool("", "")) },
		"native": func() Module {
			m, err := e.Load(context.Background(), find(t, "grow-to-limit"), LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
	}
	gone := func(name string, closes bool) func() bool {
		m := load[name]()
		if closes {
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if f, ok := m.(*foreign); ok {
			w := weak.Make(f)
			return func() bool { return w.Value() == nil }
		}
		w := weak.Make(m.(*module))
		return func() bool { return w.Value() == nil }
	}
	for name := range load {
		closed, open := gone(name, true), gone(name, false)
		for range 3 {
			goruntime.GC()
		}
		if !closed() {
			t.Errorf("%s: the engine holds a module that was closed", name)
		}
		if open() {
			t.Errorf("control: %s: the engine holds no module that is open", name)
		}
	}
}
