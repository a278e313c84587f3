package rewrite

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// The sequences of polls, written out, for a module whose countdown is global c
// and which yields to function 0.

// take takes a unit.
func take(c byte) []byte {
	return []byte{
		0x23, c, // global.get c
		0x41, 1, // i32.const 1
		0x6b,    // i32.sub
		0x24, c, // global.set c
	}
}

// ask refills and yields.
func ask(c byte, left int) []byte {
	return code(number(left), []byte{
		0x24, c, // global.set c
		0x10, 0, // call yield
		0x04, 0x40, 0x00, 0x0b, // if unreachable end
	})
}

// empty begins what is done if nothing is left.
func empty(c byte) []byte {
	return []byte{
		0x23, c, // global.get c
		0x41, 0, // i32.const 0
		0x4c,       // i32.le_s
		0x04, 0x40, // if
	}
}

func poll(c byte) []byte {
	return code(empty(c), ask(c, DefaultQuantum-1), opElse, take(c), opEnd)
}

// loopOf is a loop that has become two.
func loopOf(typ byte, body ...any) []byte {
	return code(opLoop, typ, empty(0), ask(0, DefaultQuantum), opEnd,
		opLoop, typ, empty(0), opBr, 2, opEnd, take(0), code(body...), opEnd, opEnd)
}

// pollBulk is the sequence behind a bulk operation whose length is in local n,
// shifted by unit; function f refills.
func pollBulk(c, f, n, unit byte) []byte {
	return []byte{
		0x23, c, // global.get c
		0x20, n, // local.get n
		0x41, unit, // i32.const unit
		0x76,    // i32.shr_u
		0x6b,    // i32.sub
		0x41, 1, // i32.const 1
		0x6b,    // i32.sub
		0x24, c, // global.set c
		0x23, c, // global.get c
		0x41, 0, // i32.const 0
		0x4c,       // i32.le_s
		0x04, 0x40, // if
		0x10, f, // call f
		0x0b, // end
	}
}

func TestPollsStandWhereTheyMust(t *testing.T) {
	straight := bytes.Repeat(code(number(7), opDrop), 400) // 1200 bytes
	cut := 1025                                            // the first end of an instruction past StraightBytes
	leaf := code(number(7), opDrop, opEnd)
	calls := bytes.Repeat(code(opCall, 1), 9)
	for _, c := range []struct {
		name       string
		body, want []byte
		f          byte // the refilling function
	}{
		{"entry of a function that calls",
			code(opCall, 0, opEnd),
			code(poll(0), opCall, 1, opEnd), 3},
		{"entry of one that is long",
			code(straight[:129], opEnd),
			code(poll(0), straight[:129], opEnd), 3},
		{"none in a short leaf",
			code(straight[:120], opEnd),
			code(straight[:120], opEnd), 3},
		{"head of a loop, and not at the entry before it",
			code(opLoop, emptyBlock, opBr, 0, opEnd, opEnd),
			code(loopOf(emptyBlock, opBr, 0), opEnd), 3},
		{"entry if a loop can be missed",
			code(number(1), opIf, emptyBlock, opLoop, emptyBlock, opEnd, opEnd, opEnd),
			code(poll(0), number(1), opIf, emptyBlock, loopOf(emptyBlock), opEnd, opEnd), 3},
		{"head of a loop that gives a value",
			code(number(1), opBlock, emptyBlock, opLoop, I32, opBr, 1, opEnd, opDrop, opEnd, opDrop, opEnd),
			code(number(1), opBlock, emptyBlock, loopOf(I32, opBr, 2), opDrop, opEnd, opDrop, opEnd), 3},
		{"head of a loop that takes a value",
			code(number(1), opLoop, 1, opBr, 0, opEnd, opDrop, opEnd),
			code(number(1), opLoop, 1, poll(0), opBr, 0, opEnd, opDrop, opEnd), 3},
		{"labels outside of loops",
			code(opBlock, emptyBlock, opLoop, emptyBlock, opBlock, emptyBlock, opLoop, emptyBlock,
				number(0), opBrTable, 5, 0, 1, 2, 3, 4, 0, opEnd, opEnd, opEnd, opEnd, opEnd),
			code(opBlock, emptyBlock, loopOf(emptyBlock, opBlock, emptyBlock, loopOf(emptyBlock,
				number(0), opBrTable, 5, 0, 2, 3, 5, 6, 0), opEnd), opEnd, opEnd), 3},
		{"labels of catches",
			code(opLoop, emptyBlock, opTryTable, emptyBlock, 3, 0, 0, 1, 2, 0, 2, 1, opEnd, opEnd, opEnd),
			code(loopOf(emptyBlock, opTryTable, emptyBlock, 3, 0, 0, 2, 2, 0, 2, 2, opEnd), opEnd), 3},
		{"straight code",
			code(straight, opEnd),
			code(poll(0), straight[:cut], poll(0), straight[cut:], opEnd), 3},
		{"calls of leaves",
			code(calls, opEnd),
			code(poll(0), bytes.Repeat(code(opCall, 2), 8), poll(0), opCall, 2, opEnd), 3},
		{"memory.fill",
			code(number(1), number(2), number(3), opMemoryFill, 0, opEnd),
			code(poll(0), number(1), number(2), number(3), opLocalTee, 0, opMemoryFill, 0,
				pollBulk(0, 3, 0, 6), opEnd), 3},
		{"table.grow",
			code(opRefNull, FuncRef, number(3), opTableGrow, 0, opDrop, opEnd),
			code(poll(0), opRefNull, FuncRef, number(3), opLocalTee, 0, opTableGrow, 0,
				pollBulk(0, 3, 0, 3), opDrop, opEnd), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := only(funcType{}, c.body)
			m.types = append(m.types, funcType{params: i32s, results: i32s})
			m.functions = append(m.functions, function{body: leaf})
			m.tags = []uint32{0}
			m = mustDecode(t, m.Encode())
			m.apply(Plan{Countdown: true, Quantum: DefaultQuantum, TableMax: DefaultTableMax}) // also with exceptions
			if got := m.functions[0].body; !bytes.Equal(got, c.want) {
				t.Errorf("got  % x\nwant % x", got, c.want)
			}
			if h := newHost(t, interpreter()); !validates(t.Context(), h, m.Encode()) {
				t.Error("the engine refuses the result")
			}
		})
	}
}

func TestFunctionsMoveEverywhere(t *testing.T) {
	start := uint32(1)
	funcref := ValType{Code: FuncRef}
	m := &Module{
		types:     []funcType{{}},
		imports:   []moduleImport{{ImportName: ImportName{"env", "f"}, kind: Function}, {ImportName: ImportName{"env", "g"}, kind: Global, global: globalType{val: i32}}},
		functions: []function{{body: code(opCall, 0, opCall, 1, opReturnCall, 2, opEnd)}, {body: code(opRefFunc, 1, opDrop, opRefFunc, 0, opDrop, opEnd)}},
		tables:    []table{{elem: funcref, limits: limits{min: 9}, init: refFunc(2)}},
		globals:   []global{{globalType{funcref, false}, refFunc(1)}, {globalType{i32, false}, code(opGlobalGet, 0, opEnd)}},
		exports:   []moduleExport{{"imported", Function, 0}, {"own", Function, 1}, {"global", Global, 1}},
		start:     &start,
		elements: []element{
			{flags: 0, elem: funcref, offset: code(number(0), opEnd), funcs: []uint32{0, 1, 2}},
			{flags: elemExprs, elem: funcref, offset: code(opGlobalGet, 0, opEnd), inits: [][]byte{refFunc(2), code(opRefNull, FuncRef, opEnd), refFunc(0)}},
		},
		customs: []custom{{"name", code(
			0, 2, 1, []byte("m"), // module
			1, 10, 3, 0, 1, []byte("a"), 1, 1, []byte("b"), 2, 1, []byte("c"), // functions
			2, 6, 1, 1, 1, 0, 1, []byte("x"), // locals
			3, 1, 0, // labels, which the engine does not read
		)}, {".debug_line", nil}, {"producers", []byte("x")}},
	}
	m = mustDecode(t, m.Encode())
	info, err := Instrument(m, Plan{Countdown: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	check("start", *m.start, uint32(2))
	check("exports", m.exports, []moduleExport{{"imported", Function, 0}, {"own", Function, 2}, {"global", Global, 1}, {CountdownExport, Global, 3}})
	check("table", m.tables[0].init, refFunc(3))
	check("globals", [][]byte{m.globals[0].init, m.globals[1].init}, [][]byte{refFunc(2), code(opGlobalGet, 0, opEnd)})
	check("elements", m.elements[0].funcs, []uint32{0, 2, 3})
	check("element expressions", m.elements[1].inits, [][]byte{refFunc(3), code(opRefNull, FuncRef, opEnd), refFunc(0)})
	check("calls", m.functions[0].body, code(bytes.ReplaceAll(poll(3), []byte{0x10, 0}, []byte{0x10, 1}), opCall, 0, opCall, 2, opReturnCall, 3, opEnd))
	check("references", m.functions[1].body, code(opRefFunc, 2, opDrop, opRefFunc, 0, opDrop, opEnd))
	check("custom sections", m.customs, []custom{{"name", code(
		0, 2, 1, []byte("m"),
		1, 10, 3, 0, 1, []byte("a"), 2, 1, []byte("b"), 3, 1, []byte("c"),
		2, 6, 1, 2, 1, 0, 1, []byte("x"))}, {"producers", []byte("x")}})
	check("info", info, Info{Quantum: DefaultQuantum, Functions: 2, Leaves: 1, Polls: 1, CodeBefore: 14, CodeAfter: info.CodeAfter})
	check("yield", m.imports[2], moduleImport{ImportName: Yield, kind: Function, typ: 1})
	if h := newHost(t, interpreter()); !validates(t.Context(), h, m.Encode()) {
		t.Error("the engine refuses the result")
	}
	if _, err := Decode(m.Encode()); err != nil {
		t.Errorf("the result cannot be decoded: %v", err)
	}
}

func TestReservedNames(t *testing.T) {
	for name, change := range map[string]func(m *Module){
		"export":          func(m *Module) { m.exports[0].name = CountdownExport },
		"import's module": func(m *Module) { m.imports = []moduleImport{{ImportName: ImportName{Yield.Module, "x"}}} },
		"import's field":  func(m *Module) { m.imports = []moduleImport{{ImportName: ImportName{"env", "wt__x"}}} },
	} {
		for _, plan := range []Plan{{}, {Countdown: true}} {
			m := only(funcType{}, code(opEnd))
			change(m)
			m = mustDecode(t, m.Encode())
			before := m.Encode()
			_, err := Instrument(m, plan)
			if tool.CodeOf(err) != tool.InvalidModule || !strings.Contains(err.Error(), "reserved") {
				t.Errorf("%s: Instrument = %v; want a refusal", name, err)
			}
			if !bytes.Equal(m.Encode(), before) {
				t.Errorf("%s: the module was changed", name)
			}
		}
	}
	// The control: names that only look alike are the guest's own.
	m := only(funcType{}, code(opEnd))
	m.exports[0].name = "wt_call"
	m.imports = []moduleImport{{ImportName: ImportName{"wt", "_wt__"}}}
	if _, err := Instrument(mustDecode(t, m.Encode()), Plan{Countdown: true}); err != nil {
		t.Error(err)
	}
	// And what we made is not instrumented a second time.
	m = only(funcType{}, code(opEnd))
	wasm, _ := instrumented(t, m.Encode(), Plan{Countdown: true})
	if _, err := Instrument(mustDecode(t, wasm), Plan{Countdown: true}); err == nil {
		t.Error("instrumented twice")
	}
}

func TestTablesAreLimited(t *testing.T) {
	for _, c := range []struct {
		have limits
		max  uint32 // of the plan
		want limits // none: refused
	}{
		{limits{min: 1}, 0, limits{min: 1, max: DefaultTableMax, hasMax: true}},
		{limits{min: 1, max: 5, hasMax: true}, 0, limits{min: 1, max: 5, hasMax: true}},
		{limits{min: 1, max: 1 << 30, hasMax: true}, 0, limits{min: 1, max: DefaultTableMax, hasMax: true}},
		{limits{min: DefaultTableMax}, 0, limits{min: DefaultTableMax, max: DefaultTableMax, hasMax: true}},
		{limits{min: DefaultTableMax + 1}, 0, limits{}},
		{limits{min: 1 << 27}, 0, limits{}},
		{limits{min: 1 << 20}, 1 << 20, limits{min: 1 << 20, max: 1 << 20, hasMax: true}},
		{limits{min: 9}, 8, limits{}},
	} {
		m := only(funcType{}, code(opEnd))
		m.tables[0].limits = c.have
		m = mustDecode(t, m.Encode())
		_, err := Instrument(m, Plan{TableMax: c.max})
		if got := m.tables[0].limits; err == nil && got != c.want {
			t.Errorf("%+v with %d: got %+v, want %+v", c.have, c.max, got, c.want)
		}
		if refused := c.want == (limits{}); refused != (err != nil) {
			t.Errorf("%+v with %d: %v", c.have, c.max, err)
		}
	}
	// However many there are, they have no more than that together.
	m := only(funcType{}, code(opEnd))
	for i := range uint32(9) {
		m.tables = append(m.tables, table{elem: m.tables[0].elem, limits: limits{min: i, max: DefaultTableMax, hasMax: i%2 == 0}})
	}
	m = mustDecode(t, m.Encode())
	if _, err := Instrument(m, Plan{}); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for i, tb := range m.tables {
		sum += int(tb.max)
		if !tb.hasMax || tb.max < tb.min+1000 {
			t.Errorf("table %d is limited to %+v", i, tb.limits)
		}
	}
	if sum > DefaultTableMax {
		t.Errorf("the tables may have %d elements, want at most %d", sum, DefaultTableMax)
	}
	m.tables[0].limits, m.tables[1].limits = limits{min: DefaultTableMax / 2}, limits{min: DefaultTableMax/2 + 1}
	if _, err := Instrument(mustDecode(t, m.Encode()), Plan{}); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("too many elements in two tables: %v; want a refusal", err)
	}
	m = only(funcType{}, code(opEnd))
	for range maxTables {
		m.tables = append(m.tables, m.tables[0])
	}
	if _, err := Instrument(mustDecode(t, m.Encode()), Plan{}); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("%d tables: %v; want a refusal", len(m.tables), err)
	}
}

func TestRedirect(t *testing.T) {
	m := only(funcType{}, code(opEnd))
	get, post, global := ImportName{"http", "get"}, ImportName{"http", "post"}, ImportName{"http", "g"}
	m.imports = []moduleImport{
		{ImportName: get}, {ImportName: post}, {ImportName: get},
		{ImportName: global, kind: Global, global: globalType{val: i32}},
	}
	m = mustDecode(t, m.Encode())
	safe := ImportName{"safe", "get"}
	info, err := Instrument(m, Plan{Redirect: map[ImportName]ImportName{get: safe, global: safe, {"http", "put"}: safe}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Import{{safe, Function}, {post, Function}, {safe, Function}, {global, Global}}
	if got := m.Imports(); !reflect.DeepEqual(got, want) || info.Redirected != 2 {
		t.Errorf("got %v, %d redirected; want %v, 2", got, info.Redirected, want)
	}
}

func TestExportGlobals(t *testing.T) {
	m := only(funcType{}, code(opEnd))
	m.imports = []moduleImport{{ImportName: ImportName{"env", "g"}, kind: Global, global: globalType{i32, true}}}
	m.globals = []global{
		{globalType{i32, true}, code(number(5), opEnd)},
		{globalType{i64, false}, code(opI64Const, 0, opEnd)},
		{globalType{ValType{Code: FuncRef}, true}, code(opRefNull, FuncRef, opEnd)},
		{globalType{ValType{Code: F64}, true}, code(opF64Const, make([]byte, 8), opEnd)},
	}
	m = mustDecode(t, m.Encode())
	info, err := Instrument(m, Plan{ExportGlobals: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []ExportedGlobal{{1, "wt__global_1", i32}, {4, "wt__global_4", ValType{Code: F64}}}
	if !reflect.DeepEqual(info.Globals, want) {
		t.Errorf("got %v, want %v", info.Globals, want)
	}
}

func TestWhatCannotBeStopped(t *testing.T) {
	for _, c := range []struct {
		feature Feature
		body    []byte
	}{
		{AtomicWait, code(opUnreachable, opWait32, 2, 0, opDrop, opEnd)},
		{AtomicWait, code(opUnreachable, opWait64, 3, 0, opDrop, opEnd)},
		{Exceptions, code(opTryTable, emptyBlock, 0, opEnd, opEnd)},
		{Exceptions, code(opThrow, 0, opEnd)},
		{Exceptions, code(opUnreachable, opThrowRef, opEnd)},
	} {
		wasm := everything(c.body).Encode()
		if h := newHost(t, interpreter()); !validates(t.Context(), h, wasm) {
			t.Errorf("% x: the engine refuses it, so the case shows nothing", c.body)
		}
		_, err := Instrument(mustDecode(t, wasm), Plan{Countdown: true})
		var e *tool.Error
		if !errors.As(err, &e) || e.Code != tool.InvalidModule || e.Details["feature"] != string(c.feature) {
			t.Errorf("% x: Instrument = %v; want a refusal of %s", c.body, err, c.feature)
		}
		if _, err := Instrument(mustDecode(t, wasm), Plan{}); err != nil {
			t.Errorf("% x: without a countdown: %v", c.body, err)
		}
	}
}

func TestQuantumOutOfRange(t *testing.T) {
	for _, q := range []int32{-1, maxQuantum + 1} {
		m := mustDecode(t, only(funcType{}, code(opEnd)).Encode())
		if _, err := Instrument(m, Plan{Countdown: true, Quantum: q}); err == nil || tool.CodeOf(err) == tool.InvalidModule {
			t.Errorf("quantum %d: %v; want an error that is not the module's", q, err)
		}
	}
}

// TestTooLarge has functions and modules at the limits and just beyond.
func TestTooLarge(t *testing.T) {
	fill := func(n int, b ...byte) []byte { return bytes.Repeat(b, n) }
	loops := func(n int) []byte { return code(fill(n, 0x03, 0x40), fill(n, 0x0b), opEnd) }
	calls := func(n int) []byte { return code(fill(n, 0x10, 1), opEnd) }
	leaf := function{body: code(opEnd)}
	for _, c := range []struct {
		name string
		m    *Module
		fine bool
	}{
		{"body", only(funcType{}, code(fill(MaxBody-1, 0x01), opEnd)), true},
		{"body", only(funcType{}, code(fill(MaxBody, 0x01), opEnd)), false},
		{"loops", only(funcType{}, loops(maxPolls-8)), true},
		{"loops", only(funcType{}, loops(maxPolls)), false},
		{"calls", only(funcType{}, calls(15_000)), true},
		{"calls", only(funcType{}, calls(16_000)), false},
		{"locals", only(funcType{params: i32s}, code(opUnreachable, opMemoryFill, 0, opEnd), run{maxLocals - 1, i32}), true},
		{"locals", only(funcType{params: i32s}, code(opEnd), run{maxLocals, i32}), false},
	} {
		c.m.functions = append(c.m.functions, leaf)
		m := mustDecode(t, c.m.Encode())
		before := m.Encode()
		info, err := Instrument(m, Plan{Countdown: true})
		if c.fine != (err == nil) || err != nil && tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Instrument = %v; want success: %v", c.name, err, c.fine)
		}
		if err != nil {
			if !bytes.Equal(m.Encode(), before) {
				t.Errorf("%s: the module was changed", c.name)
			}
			continue
		}
		if _, err := Decode(m.Encode()); err != nil {
			t.Errorf("%s: the result of %d bytes cannot be decoded: %v", c.name, info.CodeAfter, err)
		}
	}
	m := mustDecode(t, only(funcType{}, code(opEnd)).Encode())
	m.size = MaxModule + 1
	if _, err := Instrument(m, Plan{}); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("module of %d bytes: %v; want a refusal", m.size, err)
	}
}
