package rewrite

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// raw is a module of sections as they stand.
func raw(sections ...[]byte) []byte {
	return append([]byte(header), bytes.Join(sections, nil)...)
}

// sec is one section.
func sec(id byte, parts ...any) []byte {
	contents := code(parts...)
	return append(appendU32([]byte{id}, uint32(len(contents))), contents...)
}

// withBody is a module of one function.
func withBody(parts ...any) []byte {
	body := append([]byte{0}, code(parts...)...) // no locals
	return raw(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, len(body), body))
}

// TestRefusedFeatures checks that what exists but is not supported is refused
// by its name, where it stands.
func TestRefusedFeatures(t *testing.T) {
	for _, c := range []struct {
		feature Feature
		wasm    []byte
		section string
	}{
		{RecursiveTypes, raw(sec(1, 1, 0x4e, 1, 0x60, 0, 0)), "type section"},
		{GarbageCollection, raw(sec(1, 1, 0x5f, 1, 0x7f, 0)), "type section"},    // struct
		{GarbageCollection, raw(sec(1, 1, 0x5e, 0x7f, 0)), "type section"},       // array
		{GarbageCollection, raw(sec(1, 1, 0x50, 0, 0x60, 0, 0)), "type section"}, // sub
		{GarbageCollection, raw(sec(1, 1, 0x4f, 0, 0x60, 0, 0)), "type section"}, // sub final
		{GarbageCollection, raw(sec(1, 1, 0x60, 1, 0x6e, 0)), "type section"},    // anyref
		{GarbageCollection, raw(sec(1, 1, 0x60, 1, 0x63, 0x6e, 0)), "type section"},
		{GarbageCollection, withBody([]byte{0xfb, 0x01, 0, 0x0b}), "code section"},
		{GarbageCollection, withBody([]byte{0xd3, 0x0b}), "code section"},
		{LegacyExceptions, withBody([]byte{0x06, 0x40, 0x0b, 0x0b}), "code section"},
		{LegacyExceptions, withBody([]byte{0x07, 0, 0x0b}), "code section"},
		{LegacyExceptions, withBody([]byte{0x09, 0, 0x0b}), "code section"},
		{LegacyExceptions, withBody([]byte{0x18, 0, 0x0b}), "code section"},
		{LegacyExceptions, withBody([]byte{0x19, 0x0b}), "code section"},
		{MultipleMemories, raw(sec(5, 2, 0, 1, 0, 1)), "memory section"},
		{MultipleMemories, raw(sec(2, 1, 1, 'a', 1, 'b', 2, 0, 1), sec(5, 1, 0, 1)), "memory section"},
		{MultipleMemories, withBody([]byte{0x28, 0x42, 1, 0, 0x0b}), "code section"},
		{MultipleMemories, withBody([]byte{0x3f, 1, 0x0b}), "code section"},
		{Memory64, raw(sec(5, 1, 4, 1)), "memory section"},
		{Memory64, raw(sec(4, 1, 0x70, 5, 1, 1)), "table section"},
		{PageSizes, raw(sec(5, 1, 8, 1, 0)), "memory section"},
		{SharedTables, raw(sec(4, 1, 0x70, 3, 1, 1)), "table section"},
		{RelaxedSIMD, withBody([]byte{0xfd, 0x80, 0x02, 0x0b}), "code section"},
		{RelaxedSIMD, withBody([]byte{0xfd, 0x93, 0x02, 0x0b}), "code section"},
	} {
		_, err := Decode(c.wasm)
		var e *tool.Error
		if !errors.As(err, &e) || e.Code != tool.InvalidModule || e.Details["feature"] != string(c.feature) || e.Details["section"] != c.section {
			t.Errorf("% x: Decode = %v; want a refusal of %s in the %s", c.wasm[8:], err, c.feature, c.section)
		}
	}
}

// TestHiddenLoop gives the decoder a number that the specification and the
// engine read differently, with a loop in between: fd 80 03 is one unknown
// instruction to the one, i16x8.abs and a loop to the other.
func TestHiddenLoop(t *testing.T) {
	vec := code(opV128Const, make([]byte, 16))
	wasm := withBody(vec, []byte{0xfd, 0x80, 0x03, emptyBlock}, opBr, 0, opEnd, opDrop, opEnd)
	if h := newHost(t, interpreter()); !validates(t.Context(), h, wasm) {
		t.Error("the engine refuses it, so the case shows nothing")
	}
	for name, wasm := range map[string][]byte{
		"hidden loop": wasm,
		"padded":      withBody(vec, []byte{0xfd, 0x80, 0x81, 0x00}, opDrop, opEnd),
	} {
		if _, err := Decode(wasm); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Decode = %v; want a refusal", name, err)
		}
	}
	// The control: the same instruction in its only form passes.
	if _, err := Decode(withBody(vec, vector|0x80, opDrop, opEnd)); err != nil {
		t.Error(err)
	}
}

// TestBombs gives counts and sizes that bytes cannot back, or that engines
// allocate for.
func TestBombs(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	local := func(n ...byte) []byte { return append(append([]byte{}, n...), I32) }
	body := func(b []byte) []byte {
		return raw(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, len(b), b))
	}
	type bomb struct {
		name, says string
		wasm       []byte
	}
	bombs := []bomb{
		{"module", "at most", make([]byte, 2*MaxModule+1)},
		{"section size", "announced", append([]byte(header), 1, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{"parameters", "announced", raw(sec(1, 1, 0x60, huge, 0))},
		{"many parameters", "at most", raw(sec(1, 1, 0x60, maxValues+1, bytes.Repeat([]byte{I32}, maxValues+1), 0))},
		{"name", "announced", raw(sec(0, huge))},
		{"body", "announced", raw(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, 0x7fff))},
		{"large body", "at most", body(make([]byte, 2*MaxBody+1))},
		{"locals", "locals", body(append(append([]byte{1}, local(huge...)...), 0x0b))},
		{"locals in sum", "locals", body(append(append([]byte{3}, bytes.Repeat(local(0xd0, 0x86, 0x03), 3)...), 0x0b))}, // 50,000 each
		{"labels of a br_table", "announced", withBody(number(0), opBrTable, huge, opEnd)},
		{"names of functions", "announced", raw(sec(0, 4, []byte("name"), 1, 5, huge))},
		{"names of locals", "announced", raw(sec(0, 4, []byte("name"), 2, 7, 1, 0, huge))},
	}
	const half = maxEntries
	functions := raw(sec(1, 1, 0x60, 0, 0), sec(3, half, make([]byte, half)), sec(10, half, bytes.Repeat([]byte{2, 0, 0x0b}, half)))
	bombs = append(bombs, bomb{"functions", "entries in all lists", functions})
	for id := byte(1); id <= 13; id++ {
		if id != 8 && id != 12 {
			bombs = append(bombs, bomb{sectionKinds[id].name, "announced", raw(sec(id, huge))})
		}
	}
	for _, b := range bombs {
		_, err := Decode(b.wasm)
		if tool.CodeOf(err) != tool.InvalidModule || !strings.Contains(err.Error(), b.says) {
			t.Errorf("%s: Decode = %v; want a refusal that says %q", b.name, err, b.says)
		}
	}
	// The controls: as much as is allowed.
	for name, wasm := range map[string][]byte{
		"parameters": raw(sec(1, 1, 0x60, maxValues, bytes.Repeat([]byte{I32}, maxValues), 0)),
		"locals":     body(append(append([]byte{1}, local(0xd0, 0x86, 0x03)...), 0x0b)),
		"body":       body(append(make([]byte, MaxBody-1), 0x0b)),
	} {
		if _, err := Decode(wasm); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMalformed holds what is neither too much nor unsupported but wrong.
func TestMalformed(t *testing.T) {
	types := sec(1, 1, 0x60, 0, 0)
	for name, wasm := range map[string][]byte{
		"nothing":                      {},
		"another version":              []byte("\x00asm\x02\x00\x00\x00"),
		"section twice":                raw(types, types),
		"section out of order":         raw(sec(3, 0), types),
		"tag section too late":         raw(sec(6, 0), sec(13, 0)),
		"data count behind the code":   raw(sec(10, 0), sec(12, 0)),
		"unknown section":              raw(sec(14)),
		"bytes left in a section":      raw(sec(1, 0, 0)),
		"name that is no UTF-8":        raw(sec(0, 1, 0xff)),
		"functions without code":       raw(types, sec(3, 1, 0)),
		"code without functions":       raw(types, sec(10, 1, 2, 0, 0x0b)),
		"one body too many":            raw(types, sec(3, 1, 0), sec(10, 2, 2, 0, 0x0b, 2, 0, 0x0b)),
		"body without end":             withBody(opNop),
		"code behind the end":          withBody(opEnd, opNop),
		"block without end":            withBody(opBlock, emptyBlock, opEnd),
		"padded block type":            withBody(opBlock, []byte{0xc0, 0x7f}, opEnd, opEnd),
		"padded heap type":             withBody(opRefNull, []byte{0xf0, 0x7f}, opDrop, opEnd),
		"integer of 33 bits":           withBody([]byte{0x41, 0xff, 0xff, 0xff, 0xff, 0x0f}, opDrop, opEnd),
		"integer of six bytes":         withBody([]byte{0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, opDrop, opEnd),
		"index of 33 bits":             withBody([]byte{0x0c, 0x80, 0x80, 0x80, 0x80, 0x10}, opEnd),
		"long integer of 65 bits":      withBody([]byte{0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, opDrop, opEnd),
		"select with two types":        withBody(opUnreachable, []byte{0x1c, 2, I32, I32}, opDrop, opEnd),
		"unknown limits":               raw(sec(5, 1, 0x10, 1)),
		"shared without maximum":       raw(sec(5, 1, 2, 1)),
		"maximum below minimum":        raw(sec(5, 1, 1, 2, 1)),
		"unknown mutability":           raw(sec(6, 1, I32, 2, opI32Const, 0, opEnd)),
		"no constant":                  raw(sec(6, 1, I32, 0, opI32Const, 0, opI32Const, 0, opNop, opEnd)),
		"global that names itself":     raw(sec(6, 1, I32, 0, opGlobalGet, 0, opEnd)),
		"mutable global in a constant": raw(sec(2, 1, 0, 0, 3, I32, 1), sec(6, 1, I32, 0, opGlobalGet, 0, opEnd)),
		"null for what may not be":     raw(sec(4, 1, 0x40, 0, Ref, 0x70, 0, 1, opRefNull, 0x70, opEnd)),
		"export twice":                 raw(types, sec(3, 1, 0), sec(7, 2, 1, 'f', 0, 0, 1, 'f', 0, 0), sec(10, 1, 2, 0, 0x0b)),
		"unknown kind of import":       raw(sec(2, 1, 0, 0, 9, 0)),
		"unknown kind of export":       raw(sec(7, 1, 0, 9, 0)),
		"unknown attribute of a tag":   raw(types, sec(13, 1, 1, 0)),
		"unknown element segment":      raw(sec(9, 1, 8, 0, 0)),
		"unknown kind of elements":     raw(sec(9, 1, 1, 1, 0)),
		"elements without a table":     raw(sec(9, 1, 0, opI32Const, 0, opEnd, 0)),
		"unknown data segment":         raw(sec(11, 1, 3, 0)),
		"another number of data":       raw(sec(12, 2), sec(11, 1, 1, 0)),
		"unknown catch clause":         withBody(opTryTable, emptyBlock, 1, 4, 0, opEnd, opEnd),
		"damaged names":                raw(sec(0, 4, []byte("name"), 1, 3, 1, 0, 9)),
	} {
		if _, err := Decode(wasm); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Decode = %v; want a refusal", name, err)
		}
	}
}

// rich is a module that has a bit of everything.
func rich() []byte {
	m := everything(code(
		opBlock, emptyBlock, opLoop, emptyBlock, number(-70000), opBrTable, 2, 0, 1, 1, opEnd, opEnd,
		opTryTable, emptyBlock, 2, 0, 0, 0, 2, 0, opThrow, 0, opEnd,
		opRefFunc, 0, opcode(0xd4), opcode(0x1c), 1, FuncRef, opDrop,
		opV128Const, make([]byte, 16), vector|0xff, opDrop,
		number(0), number(0), number(0), opMemoryInit, 0, 0, opEnd))
	m.types = append(m.types, funcType{[]ValType{i32, {Ref, 0}}, []ValType{{RefNull, heapExtern}, {Code: V128}}})
	m.imports = []moduleImport{
		{ImportName: ImportName{"env", "f"}, kind: Function, typ: 1},
		{ImportName: ImportName{"env", "t"}, kind: Table, table: table{elem: ValType{Code: ExternRef}, limits: limits{min: 1, max: 2, hasMax: true}}},
		{ImportName: ImportName{"env", "g"}, kind: Global, global: globalType{val: i32}},
		{ImportName: ImportName{"env", "e"}, kind: Tag, typ: 0},
	}
	start := uint32(1)
	m.start = &start
	m.exports = append(m.exports, moduleExport{"", Tag, 1}, moduleExport{"grüße", Memory, 0})
	m.tables = append(m.tables, table{elem: ValType{Ref, 0}, init: refFunc(1)})
	funcref := ValType{Code: FuncRef}
	offset := code(opGlobalGet, 0, opEnd)
	m.elements = []element{
		{flags: 0, elem: ValType{Code: FuncRef}, offset: offset, funcs: []uint32{1, 0}},
		{flags: 1, elem: funcref, funcs: []uint32{1}},
		{flags: 2, elem: funcref, table: 1, offset: offset, funcs: []uint32{}},
		{flags: 3, elem: funcref, funcs: []uint32{1}},
		{flags: 4, elem: funcref, offset: offset, inits: [][]byte{refFunc(0)}},
		{flags: 5, elem: ValType{Code: ExternRef}, inits: [][]byte{code(opRefNull, ExternRef, opEnd)}},
		{flags: 6, elem: funcref, table: 1, offset: offset, inits: [][]byte{code(opRefNull, FuncRef, opEnd)}},
		{flags: 7, elem: ValType{Ref, 0}, inits: [][]byte{refFunc(1)}},
	}
	three := uint32(3)
	m.dataCount = &three
	m.datas = []data{{flags: 1, bytes: []byte("a")}, {offset: offset, bytes: nil}, {flags: 2, offset: offset, bytes: []byte("b")}}
	m.customs = []custom{{"name", []byte{0, 2, 1, 'm'}}, {"other", []byte("anything")}}
	return m.Encode()
}

// TestEncode checks that a module keeps everything on the way through.
func TestEncode(t *testing.T) {
	wasm := rich()
	m := mustDecode(t, wasm)
	again := m.Encode()
	if !bytes.Equal(wasm, again) {
		t.Errorf("got  % x\nwant % x", again, wasm)
	}
	if !reflect.DeepEqual(mustDecode(t, again), m) {
		t.Error("decoding what was encoded gives another module")
	}
	if names, ok := m.Custom("other"); !ok || string(names) != "anything" {
		t.Errorf("Custom = %q, %v", names, ok)
	}
	if _, ok := m.Custom("none"); ok {
		t.Error("Custom finds what is not there")
	}
	if got := m.Exports(); got[1] != (Export{"", Tag}) || got[2].Kind.String() != "memory" {
		t.Errorf("Exports = %v", got)
	}
}

// TestCutShort decodes every beginning of a module. Nearly all are refused, and
// none that is taken is one that lacks something.
func TestCutShort(t *testing.T) {
	wasm := rich()
	taken := 0
	for n := range wasm {
		m, err := Decode(wasm[:n])
		if err == nil {
			taken++
			if !bytes.Equal(m.Encode(), wasm[:n]) {
				t.Errorf("of %d bytes something is missing", n)
			}
		} else if tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if taken > 6 { // behind the header, the two sections before the functions, the last two
		t.Errorf("%d beginnings were taken for modules", taken)
	}
}
