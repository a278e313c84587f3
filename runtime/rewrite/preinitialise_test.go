package rewrite

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// stateful is a module whose start function changes globals of all number types
// and its memory, grows the memory, and whose function "f" tells what it finds:
// the memory's size, a word of it, an element of the table called, the globals.
func stateful() *Module {
	f64 := code(opF64Const, make([]byte, 7), byte(0x40)) // 2.0
	start := uint32(0)
	m := only(funcType{}, code(
		opGlobalGet, 0, number(-9), opI32Add, opGlobalSet, 0,
		opI64Const, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}, opGlobalSet, 1, // math.MinInt64
		opF32Const, []byte{1, 2, 0xc0, 0x7f}, opGlobalSet, 2, // a NaN with a payload
		f64, opGlobalSet, 3,
		number(2), opMemoryGrow, 0, opDrop,
		number(100), opGlobalGet, 0, opI32Store, 2, 0,
		opEnd))
	m.start = &start
	m.types = append(m.types, funcType{results: []ValType{i32, i32, i32, i32, i64, {Code: F32}, {Code: F64}}}, funcType{results: i32s})
	m.functions = append(m.functions,
		function{typ: 1, body: code(opMemorySize, 0, number(100), opI32Load, 2, 0, number(1), opCallIndirect, 2, 0,
			opGlobalGet, 0, opGlobalGet, 1, opGlobalGet, 2, opGlobalGet, 3, opEnd)},
		function{typ: 2, body: code(number(77), opEnd)})
	m.exports[0].index = 1
	m.exports = append(m.exports, moduleExport{"_initialize", Function, 0}, moduleExport{"kept", Function, 0})
	m.globals = []global{
		{globalType{i32, true}, code(number(4), opEnd)},
		{globalType{i64, true}, code(opI64Const, 0, opEnd)},
		{globalType{ValType{Code: F32}, true}, code(opF32Const, make([]byte, 4), opEnd)},
		{globalType{ValType{Code: F64}, true}, code(f64, opEnd)},
		{globalType{i32, false}, code(number(1), opEnd)},
	}
	m.elements = []element{{offset: code(number(1), opEnd), funcs: []uint32{2}}}
	m.datas = []data{{offset: code(number(100), opEnd), bytes: []byte("abcd")}, {flags: dataPassive, bytes: []byte("passive")}}
	two := uint32(2)
	m.dataCount = &two
	return m
}

// snapshot is the state of an instance, and its memory.
func snapshot(mod api.Module, info Info) (State, []byte) {
	var s State
	for _, g := range info.Globals {
		s.Globals = append(s.Globals, GlobalValue{g.Index, mod.ExportedGlobal(g.Name).Get()})
	}
	mem := mod.ExportedMemory("memory")
	bytes, _ := mem.Read(0, mem.Size())
	s.MemoryPages = mem.Size() >> 16
	return s, slices.Clone(bytes)
}

func TestPreinitialise(t *testing.T) {
	h := newHost(t, compiler())
	wasm, info := instrumented(t, stateful().Encode(), Plan{Countdown: true, Quantum: 500, ExportGlobals: true})
	before := h.mustInstantiate(t, wasm)
	want, err := before.ExportedFunction("f").Call(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state, mem := snapshot(before, info)
	state.DropExports = []string{"_initialize", "memory"}

	m := mustDecode(t, wasm)
	if err := Preinitialise(m, state); err != nil {
		t.Fatal(err)
	}
	after := h.mustInstantiate(t, m.Encode())
	if got := after.ExportedMemory("memory"); got.Size() != uint32(len(mem)) {
		t.Fatalf("memory of %d bytes, want %d", got.Size(), len(mem))
	}
	if got, _ := after.ExportedMemory("memory").Read(0, uint32(len(mem))); !bytes.Equal(got, make([]byte, len(mem))) {
		t.Error("instantiation writes to memory")
	}
	after.ExportedMemory("memory").Write(0, mem)
	got, err := after.ExportedFunction("f").Call(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	if want[0] != 3 || want[2] != 77 || int32(want[3]) != -5 {
		t.Errorf("the start function did not do its work: %x", want)
	}
	if after.ExportedFunction("_initialize") != nil || after.ExportedFunction("kept") == nil {
		t.Error("_initialize is still exported, or more than it is gone")
	}
	if c := countdownOf(after).Get(); c != 500-1 { // the entry of f
		t.Errorf("the countdown began at %d, want 500", c+1)
	}
	if len(m.datas) != 0 || m.dataCount != nil {
		t.Errorf("%d data segments left", len(m.datas))
	}
}

// TestPreinitialiseKeepsSegments has a module that asks for segments later: a
// passive one must be there, an active one be like a dropped one. (By the
// specification it is dropped when it has been applied; wazero 1.12 forgets to.)
func TestPreinitialiseKeepsSegments(t *testing.T) {
	initOf := func(segment int) []byte {
		return code(opLocalGet, 0, number(0), opLocalGet, 1, opMemoryInit, segment, 0, opEnd)
	}
	m := only(funcType{params: []ValType{i32, i32}}, initOf(0))
	m.functions = append(m.functions, function{body: initOf(1)})
	m.exports = append(m.exports, moduleExport{"g", Function, 1})
	two := uint32(2)
	m.dataCount = &two
	m.datas = []data{{offset: code(number(0), opEnd), bytes: []byte("active")}, {flags: dataPassive, bytes: []byte("passive")}}
	h := newHost(t, compiler())
	wasm, info := instrumented(t, m.Encode(), Plan{Countdown: true, ExportGlobals: true})
	before := h.mustInstantiate(t, wasm)
	state, _ := snapshot(before, info)
	changed := mustDecode(t, wasm)
	if err := Preinitialise(changed, state); err != nil {
		t.Fatal(err)
	}
	after := h.mustInstantiate(t, changed.Encode())
	for _, c := range []struct {
		f    string
		n    uint64
		fine bool
	}{{"f", 0, true}, {"f", 1, false}, {"g", 7, true}, {"g", 8, false}} {
		if _, err := after.ExportedFunction(c.f).Call(t.Context(), 8, c.n); (err == nil) != c.fine {
			t.Errorf("%s of %d bytes: %v", c.f, c.n, err)
		}
	}
	if got, _ := after.ExportedMemory("memory").Read(0, 16); string(got) != "\x00\x00\x00\x00\x00\x00\x00\x00passive\x00" {
		t.Errorf("memory is %q", got)
	}
}

func TestPreinitialiseRefuses(t *testing.T) {
	wasm, info := instrumented(t, stateful().Encode(), Plan{Countdown: true, ExportGlobals: true})
	good := func() State {
		s := State{MemoryPages: 3}
		for _, g := range info.Globals {
			s.Globals = append(s.Globals, GlobalValue{g.Index, 0})
		}
		return s
	}
	for name, change := range map[string]func(m *Module, s *State){
		"missing global":        func(_ *Module, s *State) { s.Globals = s.Globals[1:] },
		"global that is none":   func(_ *Module, s *State) { s.Globals[0].Index = 99 },
		"constant global":       func(_ *Module, s *State) { s.Globals[0].Index = 4 },
		"memory below minimum":  func(_ *Module, s *State) { s.MemoryPages = 0 },
		"memory above maximum":  func(m *Module, s *State) { m.memories[0].hasMax, m.memories[0].max = true, 2 },
		"memory above all":      func(_ *Module, s *State) { s.MemoryPages = 1<<16 + 1 },
		"memory without memory": func(m *Module, s *State) { m.memories = nil },
		"not resettable":        func(m *Module, s *State) { m.uses[opTableSet] = true },
	} {
		m, s := mustDecode(t, wasm), good()
		change(m, &s)
		before := m.Encode()
		if err := Preinitialise(m, s); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if !bytes.Equal(m.Encode(), before) {
			t.Errorf("%s: the module was changed", name)
		}
	}
	if err := Preinitialise(mustDecode(t, wasm), good()); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestResettable(t *testing.T) {
	inCode := func(parts ...any) func(m *Module) {
		return func(m *Module) {
			m.functions[0].body = code(append(append([]any{opUnreachable}, parts...), opUnreachable, opEnd)...)
		}
	}
	imports := func(imp moduleImport) func(m *Module) {
		return func(m *Module) {
			m.imports = []moduleImport{imp}
			m.memories, m.tables, m.elements = nil, nil, nil
		}
	}
	funcref := ValType{Code: FuncRef}
	for name, c := range map[string]struct {
		change func(m *Module)
		want   string // the reason; empty: resettable
	}{
		"as it is":           {func(m *Module) {}, ""},
		"table.get":          {inCode(opTableGet, 0), ""},
		"table.set":          {inCode(opTableSet, 0), "its code uses table.set"},
		"table.init":         {inCode(opTableInit, 0, 0), "its code uses table.init"},
		"table.copy":         {inCode(opTableCopy, 0, 0), "its code uses table.copy"},
		"table.grow":         {inCode(opTableGrow, 0), "its code uses table.grow"},
		"table.fill":         {inCode(opTableFill, 0), "its code uses table.fill"},
		"elem.drop":          {inCode(opElemDrop, 0), "its code uses elem.drop"},
		"data.drop":          {inCode(opDataDrop, 0), "its code uses data.drop"},
		"memory.init":        {inCode(opMemoryInit, 0, 0), ""},
		"memory.grow":        {inCode(opMemoryGrow, 0), ""},
		"imported function":  {imports(moduleImport{kind: Function}), ""},
		"imported constant":  {imports(moduleImport{kind: Global, global: globalType{val: i32}}), ""},
		"imported global":    {imports(moduleImport{ImportName{"m", "f"}, Global, 0, table{}, limits{}, globalType{i32, true}}), `it imports the global "f" of "m"`},
		"imported memory":    {imports(moduleImport{kind: Memory}), `it imports the memory "" of ""`},
		"imported table":     {imports(moduleImport{kind: Table, table: table{elem: funcref}}), `it imports the table "" of ""`},
		"reference":          {func(m *Module) { m.globals[0] = global{globalType{funcref, true}, code(opRefNull, FuncRef, opEnd)} }, "global 0 holds what a host cannot restore"},
		"constant reference": {func(m *Module) { m.globals[0] = global{globalType{funcref, false}, code(opRefNull, FuncRef, opEnd)} }, ""},
		"vector": {func(m *Module) {
			m.globals[0] = global{globalType{ValType{Code: V128}, true}, code(opV128Const, make([]byte, 16), opEnd)}
		}, "global 0 holds what a host cannot restore"},
		"shared memory":   {func(m *Module) { m.memories[0].shared = true }, "its memory is shared between threads"},
		"start function":  {func(m *Module) { m.start = new(uint32) }, ""},
		"exported memory": {func(m *Module) { m.exports = append(m.exports, moduleExport{"m", Memory, 0}) }, ""},
	} {
		m := everything(code(opEnd))
		m.memories[0].shared = false
		c.change(m)
		m = mustDecode(t, m.Encode())
		for _, when := range []string{"before", "after"} {
			ok, reasons := Resettable(m)
			if got := fmt.Sprint(reasons); ok != (c.want == "") || got != "["+c.want+"]" {
				t.Errorf("%s, %s instrumentation: Resettable = %v, %v; want %q", name, when, ok, reasons, c.want)
			}
			if _, err := Instrument(m, Plan{Countdown: true, ExportGlobals: true}); when == "before" && err != nil {
				t.Fatal(err)
			}
			m = mustDecode(t, m.Encode())
		}
	}
}

// TestGoGuestBecomesPreinitialised does with a Go program what the runtime does.
func TestGoGuestBecomesPreinitialised(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles 4 MB twice")
	}
	h := newHost(t, compiler())
	wasi_snapshot_preview1.MustInstantiate(t.Context(), h)
	wasm, info := instrumented(t, mustBuildGuest(t), production)
	m := mustDecode(t, wasm)
	if ok, reasons := Resettable(m); !ok {
		t.Fatalf("not resettable: %v", reasons)
	}
	before := h.mustInstantiate(t, wasm)
	if _, err := before.ExportedFunction("_initialize").Call(t.Context()); err != nil {
		t.Fatal(err)
	}
	state, mem := snapshot(before, info)
	state.DropExports = []string{"_initialize"}
	if err := Preinitialise(m, state); err != nil {
		t.Fatal(err)
	}
	frozen := m.Encode()
	after := h.mustInstantiate(t, frozen)
	after.ExportedMemory("memory").Write(0, mem)
	for _, f := range []string{"jsons", "regexps", "sorting", "sha"} {
		want, err := before.ExportedFunction(f).Call(t.Context(), 20)
		if err != nil {
			t.Fatal(err)
		}
		got, err := after.ExportedFunction(f).Call(t.Context(), 20)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", f, got, err, want)
		}
	}
	t.Logf("%d bytes as built, %d instrumented, %d frozen; %+v", len(mustBuildGuest(t)), len(wasm), len(frozen), info)
}
