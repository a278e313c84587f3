package runtime

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// shaped is a good guest with something more in it.
func shaped(change func(*wasmasm.Module)) []byte {
	m := &wasmasm.Module{
		Memory: &wasmasm.Limits{Min: 1, Max: -1},
		Data:   []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(hostile.Answer)}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}},
				Body: wasmasm.Code{}.Packed(hostile.AnswerAt, uint32(len(hostile.Answer))), Export: "wt_call"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest("")}},
	}
	change(m)
	return m.Encode()
}

// passive is a segment of so many elements that nothing uses.
func passive(n int) []byte {
	return append(wasmasm.Uint([]byte{1, 0}, uint64(n)), bytes.Repeat([]byte{0}, n)...)
}

// TestPoolCountsTheHost: what an instance costs the host beside its memory counts
// for the pool, whatever a module is made of: its bound would else be none. What
// would cost most is refused.
func TestPoolCountsTheHost(t *testing.T) {
	const instances = 8
	for name, wasm := range map[string][]byte{
		"nothing":  shaped(func(*wasmasm.Module) {}),
		"elements": shaped(func(m *wasmasm.Module) { m.Elems = [][]byte{passive(maxTable)} }),
		"segments": shaped(func(m *wasmasm.Module) {
			for range 60_000 {
				m.Elems = append(m.Elems, passive(0))
			}
		}),
		"table": shaped(func(m *wasmasm.Module) { m.Tables = []wasmasm.Limits{{Min: maxTable, Max: maxTable}} }),
		"globals": shaped(func(m *wasmasm.Module) {
			for range 9_000 {
				m.Globals = append(m.Globals, []byte{wasmasm.I64, 1, 0x42, 0, 0x0b})
			}
		}),
		"constants": shaped(func(m *wasmasm.Module) {
			for range 9_000 {
				m.Globals = append(m.Globals, []byte{wasmasm.I64, 0, 0x42, 0, 0x0b})
			}
		}),
		"Go": goGuest(t),
	} {
		e := newEngine(t, Options{})
		m := load(t, e, wasm)
		if err := m.Prepare(context.Background()); err != nil {
			t.Fatal(name, err)
		}
		before := resources(t)
		for i := range instances {
			r, _, err := m.Run(context.Background(), &hostfuncs.Call{
				Grant: hostfuncs.Grant{Read: []string{fmt.Sprint(i)}}, Invocation: tool.Invocation{Arguments: []byte("{}")}})
			if err != nil || r.IsError {
				t.Fatal(name, r, err)
			}
		}
		cost := resources(t).heap - before.heap
		s := e.Pool()
		t.Logf("%s: %d instances cost %d KiB of heap; the pool counts %d", name, instances, cost>>10, s.Bytes>>10)
		if s.Waiting != instances || int64(s.Bytes) < cost*4/5 {
			t.Errorf("%s: %d instances wait and count %d bytes; they cost %d", name, s.Waiting, s.Bytes, cost)
		}
	}
	many := shaped(func(m *wasmasm.Module) { m.Elems = [][]byte{passive(maxTable), passive(1)} })
	if _, err := newEngine(t, Options{}).Load(context.Background(), many, LoadOptions{}); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("a module with %d elements: %v; want invalid_module", maxTable+1, err)
	}
}
