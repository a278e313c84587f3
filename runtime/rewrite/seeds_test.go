package rewrite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "save the seeds of the fuzz targets anew")

// seeds are small modules of many kinds, by name.
func seeds() map[string][]byte {
	all := map[string][]byte{
		"rich":                rich(),
		"stateful":            stateful().Encode(),
		"element_expressions": byExpressions().Encode(),
	}
	for _, r := range runaways {
		all["runaway_"+r.name] = r.m().Encode()
	}
	for i, body := range walks {
		m := only(funcType{params: i32s}, append(body[:len(body):len(body)], byte(opEnd)), run{1, i32})
		m.types = append(m.types, funcType{results: i32s}, funcType{i32s, i32s}, funcType{})
		m.functions = append(m.functions,
			function{typ: 1, body: code(number(3), opEnd)},
			function{typ: 2, body: code(opLocalGet, 0, opEnd)},
			function{typ: 3, body: code(opCall, 1, opDrop, opEnd)})
		m.elements = []element{{offset: code(number(0), opEnd), funcs: []uint32{0, 1, 2, 3}}}
		all[fmt.Sprint("walk_", i)] = m.Encode()
	}
	for _, c := range indexCases {
		m := everything(code(opEnd))
		m.memories[0].shared = false
		m.imports = []moduleImport{{ImportName: ImportName{"env", "f"}, kind: Function}}
		c.put(m, 0)
		all["index_"+c.name] = m.Encode()
	}
	return all
}

// TestSavedSeeds compares the seeds with the saved ones. They are saved because a
// fault of the encoder would else be in the seeds as well, and nothing would be
// left to show it.
func TestSavedSeeds(t *testing.T) {
	for name, wasm := range seeds() {
		for _, target := range []string{"FuzzDecode", "FuzzInstrument"} {
			file := filepath.Join("testdata", "fuzz", target, strings.NewReplacer(" ", "_", "'", "").Replace(name))
			want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", wasm)
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%s is not what is built now (%v); see the difference, then go test -run TestSavedSeeds -update", file, err)
			}
		}
	}
}

// byExpressions is a module whose table is filled by expressions; "f" calls what
// its argument names and keeps the answer in memory.
func byExpressions() *Module {
	m := only(funcType{params: i32s}, code(number(8), opLocalGet, 0, opCallIndirect, 1, 0, opI32Store, 2, 0, opEnd))
	m.imports = []moduleImport{{ImportName: ImportName{"env", "f"}, kind: Function, typ: 1}}
	m.exports[0].index = 1
	m.types = append(m.types, funcType{results: i32s})
	m.functions = append(m.functions, function{typ: 1, body: code(number(11), opEnd)}, function{typ: 1, body: code(number(22), opEnd)})
	m.elements = []element{{flags: elemExprs, elem: ValType{Code: FuncRef}, offset: code(number(0), opEnd),
		inits: [][]byte{refFunc(2), refFunc(3), code(opRefNull, FuncRef, opEnd)}}}
	return m
}

// count adds one to a word of memory, which tells afterwards what was done.
func count(at int32) []byte {
	return code(number(at), number(at), opI32Load, 2, 0, number(1), opI32Add, opI32Store, 2, 0)
}

// again goes to a label while local 1, which began at n, is not zero.
func again(label int) []byte {
	return code(opLocalGet, 1, number(1), opI32Sub, opLocalTee, 1, opBrIf, label)
}

// walks are bodies, without their last end, that come to an end with every
// argument and leave traces of their way. They are for a function that takes an
// i32 and has a local, beside functions that return 3, return what they are
// given, and return nothing, all four of them in the table.
var walks = [][]byte{
	// Branches out of blocks that stand in loops, and on to the loop's head.
	code(number(7), opLocalSet, 1, opLoop, emptyBlock,
		opBlock, emptyBlock, opLocalGet, 0, opBrIf, 0, count(0), opEnd,
		opBlock, emptyBlock, opLocalGet, 1, number(3), opI32Sub, opBrIf, 0, count(4), opEnd,
		again(0), opEnd, count(8)),
	// Loops in loops, left by a table of labels.
	code(number(9), opLocalSet, 1, opBlock, emptyBlock, opLoop, emptyBlock, opBlock, emptyBlock, opLoop, emptyBlock,
		count(0), opLocalGet, 1, number(1), opI32Sub, opLocalTee, 1, opBrTable, 4, 3, 2, 1, 0, 1, opEnd, count(4), opEnd,
		count(8), again(0), opEnd, count(12), opEnd, count(16)),
	// An if in a loop, whose arms go to different heads.
	code(number(6), opLocalSet, 1, opLoop, emptyBlock, opLoop, emptyBlock,
		opLocalGet, 1, number(2), opI32Sub, opIf, emptyBlock, count(0), again(1), opElse, count(4), again(2), opEnd,
		opEnd, opEnd, count(8)),
	// Calls, direct and through the table.
	code(number(5), opLocalSet, 1, opLoop, emptyBlock,
		number(0), opCall, 1, opI32Store, 2, 0, number(4), opLocalGet, 0, opCall, 2, opI32Store, 2, 0, opCall, 3,
		number(8), opLocalGet, 0, number(2), opCallIndirect, 2, 0, opI32Store, 2, 0, again(0), opEnd),
	// Bulk operations, whose lengths are counted.
	code(number(4), opLocalSet, 1, opLoop, emptyBlock,
		number(100), opLocalGet, 0, number(300), opMemoryFill, 0,
		number(500), number(100), number(200), opMemoryCopy, 0, 0,
		number(3), opRefNull, FuncRef, number(1), opTableFill, 0,
		number(2), number(0), number(1), opTableCopy, 0, 0,
		count(0), again(0), opEnd),
	// A value that a loop takes and gives.
	code(number(3), opLocalSet, 1, number(0), number(0), opLoop, 2, number(5), opI32Add,
		opLocalGet, 1, number(1), opI32Sub, opLocalTee, 1, opBrIf, 0, opEnd, opI32Store, 2, 0),
}

// TestWalks wants of the bodies that they run, end, and leave traces.
func TestWalks(t *testing.T) {
	h := newHost(t, interpreter())
	for name, wasm := range seeds() {
		if !strings.HasPrefix(name, "walk_") {
			continue
		}
		mod := h.mustInstantiate(t, wasm)
		for _, v := range []uint64{0, 1, 5} {
			if _, err := mod.ExportedFunction("f").Call(t.Context(), v); err != nil {
				t.Errorf("%s(%d) = %v", name, v, err)
			}
		}
		if p, _ := mod.Memory().Read(0, 512); strings.Trim(string(p), "\x00") == "" {
			t.Errorf("%s leaves no trace", name)
		}
	}
}
