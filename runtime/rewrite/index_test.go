package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// An indexCase puts an index where a module can have one of its space.
type indexCase struct {
	name  string
	space space
	put   func(m *Module, index int)

	// reaches tells, for the index one past the end and the next one, whether
	// the engine would accept the module with a countdown in it if we did not check.
	reaches [2]bool
}

var (
	never  = [2]bool{}
	first  = [2]bool{true, false}
	second = [2]bool{false, true}
	both   = [2]bool{true, true}
)

// inCode puts an index into a function in which any operands fit.
func inCode(before, after []any) func(*Module, int) {
	return func(m *Module, index int) {
		parts := append([]any{opUnreachable}, before...)
		parts = append(append(parts, index), after...)
		m.functions[0].body = code(append(parts, opUnreachable, opEnd)...)
	}
}

func instr(parts ...any) func(*Module, int) { return inCode(parts, nil) }

func withType(put func(m *Module, t ValType)) func(*Module, int) {
	return func(m *Module, index int) { put(m, ValType{RefNull, int64(index)}) }
}

func refFunc(index int) []byte { return code(opRefFunc, index, opEnd) }

var indexCases = []indexCase{
	// Two types are added.
	{"call_indirect", types, inCode([]any{opCallIndirect}, []any{0}), both},
	{"return_call_indirect", types, inCode([]any{opReturnCallIndirect}, []any{0}), second},
	{"call_ref", types, instr(opCallRef), both},
	{"block", types, inCode([]any{opBlock}, []any{opUnreachable, opEnd}), both},
	{"loop", types, inCode([]any{opLoop}, []any{opUnreachable, opEnd}), both},
	{"if", types, inCode([]any{opIf}, []any{opUnreachable, opElse, opUnreachable, opEnd}), both},
	{"try_table", types, inCode([]any{opTryTable}, []any{0, opUnreachable, opEnd}), both},
	{"ref.null", types, instr(opRefNull), both},
	{"select", types, inCode([]any{opcode(0x1c), 1, RefNull}, nil), both},
	{"block of a reference", types, inCode([]any{opBlock, RefNull}, []any{opUnreachable, opEnd}), both},
	{"function", types, func(m *Module, i int) { m.functions[0].typ = uint32(i) }, second},
	{"imported function", types, func(m *Module, i int) { m.imports[0].typ = uint32(i) }, both},
	{"tag", types, func(m *Module, i int) { m.tags[0] = uint32(i) }, second},
	{"local", types, withType(func(m *Module, t ValType) { m.functions[0].locals[0].t = t }), both},
	{"global", types, withType(func(m *Module, t ValType) {
		m.globals[0] = global{globalType{t, true}, code(opRefNull, int(t.Heap), opEnd)}
	}), both},
	{"table", types, withType(func(m *Module, t ValType) { m.tables[0].elem = t; m.elements = nil }), both},
	{"parameter", types, withType(func(m *Module, t ValType) { m.types[0].params = []ValType{t} }), never},

	// One function is added behind the imports, and what came behind it moves, so
	// the one past the end names the function that is added there.
	{"call", functions, instr(opCall), first},
	{"return_call", functions, instr(opReturnCall), first},
	{"ref.func", functions, instr(opRefFunc), never},
	{"export of a function", functions, func(m *Module, i int) { m.exports[0].index = uint32(i) }, first},
	{"start", functions, func(m *Module, i int) { u := uint32(i); m.start = &u }, first},
	{"element", functions, func(m *Module, i int) { m.elements[0].funcs[0] = uint32(i) }, first},
	{"element expression", functions, func(m *Module, i int) {
		m.elements[0].flags, m.elements[0].inits = elemExprs, [][]byte{refFunc(i)}
	}, first},
	{"global's initialiser", functions, func(m *Module, i int) {
		m.globals[0] = global{globalType{ValType{Code: FuncRef}, true}, refFunc(i)}
	}, first},
	{"table's initialiser", functions, func(m *Module, i int) { m.tables[0].init = refFunc(i) }, first},

	// One global is added.
	{"global.get", globals, instr(opGlobalGet), first},
	{"global.set", globals, instr(opGlobalSet), first},
	{"export of a global", globals, func(m *Module, i int) {
		m.exports[0].kind, m.exports[0].index = Global, uint32(i)
	}, first},
	{"offset of elements", globals, func(m *Module, i int) {
		m.elements[0].offset = code(opGlobalGet, i, opEnd)
	}, first},
	{"offset of data", globals, func(m *Module, i int) {
		m.datas[0] = data{offset: code(opGlobalGet, i, opEnd)}
	}, never},

	// One local is added to functions with bulk operations.
	{"local.get", locals, inBulk(opLocalGet), first},
	{"local.set", locals, inBulk(opLocalSet), first},
	{"local.tee", locals, inBulk(opLocalTee), first},

	// Nothing is added, and so nothing may change.
	{"br", labels, instr(opBr), never},
	{"br_if", labels, instr(opBrIf), never},
	{"br_table", labels, inCode([]any{opBrTable, 1, 0}, nil), never},
	{"catch", labels, inCode([]any{opTryTable, emptyBlock, 1, 2}, []any{opEnd}), never},
	{"table.get", tables, instr(opTableGet), never},
	{"export of a table", tables, func(m *Module, i int) {
		m.exports[0].kind, m.exports[0].index = Table, uint32(i)
	}, never},
	{"export of a memory", memories, func(m *Module, i int) {
		m.exports[0].kind, m.exports[0].index = Memory, uint32(i)
	}, never},
	{"throw", tags, instr(opThrow), never},
	{"export of a tag", tags, func(m *Module, i int) {
		m.exports[0].kind, m.exports[0].index = Tag, uint32(i)
	}, never},
	{"elem.drop", elements, instr(opElemDrop), never},
	{"data.drop", datas, instr(opDataDrop), never},
}

func inBulk(op opcode) func(*Module, int) { return instr(opMemoryFill, 0, opUnreachable, op) }

// TestIndexPastTheEnd puts the two indices behind the end of every space
// wherever an index can stand. Decode must refuse each. The control run decodes
// without that check and shows which of them would then have reached what we
// add: the engine refuses the original and accepts what became of it.
func TestIndexPastTheEnd(t *testing.T) {
	h := newHost(t, interpreter())
	covered := map[space]bool{}
	for _, c := range indexCases {
		covered[c.space] = true
		for past := range 2 {
			t.Run(fmt.Sprintf("%s %d", c.name, past), func(t *testing.T) {
				m := everything(code(opEnd))
				m.memories[0].shared = false
				m.elements[0].flags, m.elements[0].offset = 0, code(number(0), opEnd)
				m.imports = []moduleImport{{ImportName: ImportName{"env", "f"}, kind: Function}}
				m.exports[0].index = 1
				m.elements[0].funcs[0] = 1
				counts := mustDecode(t, m.Encode()).count
				counts[labels], counts[locals] = 1, 1
				c.put(m, int(counts[c.space])+past)
				wasm := m.Encode()

				_, err := Decode(wasm)
				if err == nil || !strings.Contains(err.Error(), "does not exist") {
					t.Errorf("Decode = %v; want a refusal", err)
				}
				if validates(t.Context(), h, wasm) {
					t.Fatal("the engine accepts the original, so the case shows nothing")
				}
				loose, err := decode(wasm, true)
				if err != nil {
					t.Fatalf("control: %v", err)
				}
				loose.apply(Plan{Countdown: true, Quantum: 2, TableMax: DefaultTableMax})
				if got := validates(t.Context(), h, loose.Encode()); got != c.reaches[past] {
					t.Errorf("control: reaches what we add: %v, want %v", got, c.reaches[past])
				}
			})
		}
	}
	for s := range spaces {
		if !covered[s] {
			t.Errorf("no case for the space of %ss", spaceNames[s])
		}
	}
}
