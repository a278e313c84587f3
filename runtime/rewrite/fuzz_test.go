package rewrite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/tool"
)

// FuzzDecode gives the decoder arbitrary bytes. It must not panic, must say
// invalid_module if it refuses, and what it accepts must survive encoding: the
// same module, and valid in the engine exactly if the original was.
func FuzzDecode(f *testing.F) {
	addSeeds(f)
	f.Add([]byte(header))
	f.Add(raw(sec(1, 1, 0x60, 0, 0), sec(3, 1, 0), sec(10, 1, 2, 0, 0x0b)))
	h := newHost(f, interpreter())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := Decode(wasm)
		if err != nil {
			if tool.CodeOf(err) != tool.InvalidModule {
				t.Fatalf("Decode = %v; want invalid_module", err)
			}
			return
		}
		encoded := m.Encode()
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("what was encoded cannot be decoded: %v", err)
		}
		if !bytes.Equal(again.Encode(), encoded) {
			t.Fatal("encoding changes with every time")
		}
		again.size = m.size // padding is gone
		if !reflect.DeepEqual(again, m) {
			t.Fatal("decoding what was encoded gives another module")
		}
		if before, after := validates(t.Context(), h, wasm), validates(t.Context(), h, encoded); before != after {
			t.Fatalf("the engine accepts the original: %v, the encoded: %v", before, after)
		}
	})
}

// FuzzInstrument changes modules at random; see checkInstrument.
func FuzzInstrument(f *testing.F) {
	addSeeds(f)
	h := newHost(f, interpreter())
	f.Fuzz(func(t *testing.T, wasm []byte) { checkInstrument(t, h, wasm) })
}

// FuzzCode makes code at random, in a module where many indices exist.
func FuzzCode(f *testing.F) {
	// Without their last end, which is added to whatever comes.
	for _, r := range runaways {
		for _, fn := range r.m().functions {
			f.Add(fn.body[:len(fn.body)-1])
		}
	}
	for _, body := range walks {
		f.Add(body)
	}
	for op := range opcode(len(shapes)) {
		f.Add(code(opUnreachable, op, 0, 0, opUnreachable))
	}
	h := newHost(f, interpreter())
	f.Fuzz(func(t *testing.T, body []byte) {
		m := everything(append(body, byte(opEnd)))
		m.memories[0].shared = false
		m.types[0] = funcType{params: i32s}
		m.types = append(m.types, funcType{results: i32s}, funcType{i32s, i32s}, funcType{})
		m.tags[0] = 3
		m.functions = append(m.functions,
			function{typ: 1, body: code(number(3), opEnd)},
			function{typ: 2, body: code(opLocalGet, 0, opEnd)},
			function{typ: 3, body: code(opCall, 1, opDrop, opEnd)})
		m.elements = append(m.elements, element{offset: code(number(0), opEnd), elem: ValType{Code: FuncRef}, funcs: []uint32{0, 1, 2, 3}})
		m.exports = append(m.exports, moduleExport{"memory", Memory, 0}, moduleExport{"g", Function, 3})
		checkInstrument(t, h, m.Encode())
	})
}

// checkInstrument instruments a module, if it can be. The engine must accept
// what became of it exactly if it accepts the module; and if it does, both must
// do the same, as far as they end in a reasonable time.
func checkInstrument(t *testing.T, h *host, wasm []byte) {
	m, err := Decode(wasm)
	if err != nil {
		return
	}
	if _, err := Instrument(m, Plan{Countdown: true, Quantum: 2, ExportGlobals: true}); err != nil {
		return
	}
	changed := m.Encode()
	if _, err := Decode(changed); err != nil {
		t.Fatalf("the result cannot be decoded: %v", err)
	}
	before, after := validates(t.Context(), h, wasm), validates(t.Context(), h, changed)
	if before != after {
		t.Fatalf("the engine accepts the original: %v, the result: %v", before, after)
	}
	if before {
		compare(t, wasm, changed)
	}
}

// compare runs every exported function that takes nothing but numbers in the
// original and in the result, and compares results, traps and memories.
func compare(t *testing.T, original, changed []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const pages, yields = 16, 20_000
	plain := newHost(t, compiler().WithMemoryLimitPages(pages).WithCloseOnContextDone(true))
	polled := newHost(t, compiler().WithMemoryLimitPages(pages))
	endless := false
	polled.stop = func(n int64) bool {
		endless = n > yields
		return endless
	}

	// The result goes first everywhere, since it can be stopped.
	second, err2 := startFuzzed(ctx, polled, changed)
	if endless {
		return
	}
	first, err1 := startFuzzed(ctx, plain, original)
	if (err1 == nil) != (err2 == nil) { // which of several faults it names is chance
		t.Fatalf("instantiation: %v as it is, %v with a countdown", err1, err2)
	}
	if err1 != nil {
		return
	}
	for name, def := range first.ExportedFunctionDefinitions() {
		for _, v := range []uint64{0, 1, 5} {
			args, ok := arguments(def.ParamTypes(), v)
			if !ok {
				continue
			}
			results2, err2 := second.ExportedFunction(name).Call(ctx, args...)
			if endless {
				return
			}
			results1, err1 := first.ExportedFunction(name).Call(ctx, args...)
			if outcome(err1) != outcome(err2) {
				t.Fatalf("%q(%d): %v as it is, %v with a countdown", name, v, err1, err2)
			}
			if strings.Contains(outcome(err1), "stack overflow") {
				return // how deep it was may differ, and so may what was done
			}
			if err1 != nil {
				continue
			}
			if got, want := describe(def.ResultTypes(), results2), describe(def.ResultTypes(), results1); got != want {
				t.Fatalf("%q(%d): %q as it is, %q with a countdown", name, v, want, got)
			}
		}
	}
	for name := range first.ExportedMemoryDefinitions() {
		m1, m2 := first.ExportedMemory(name), second.ExportedMemory(name)
		b1, _ := m1.Read(0, m1.Size())
		b2, _ := m2.Read(0, m2.Size())
		if !bytes.Equal(b1, b2) {
			t.Fatalf("memory %q differs", name)
		}
	}
}

// outcome is what ended a call.
func outcome(err error) string {
	if err == nil {
		return "result"
	}
	return trapOf(err)
}

// startFuzzed instantiates a module with imports that do nothing.
func startFuzzed(ctx context.Context, h *host, wasm []byte) (mod api.Module, err error) {
	compiled, err := compile(ctx, h, wasm)
	if err != nil {
		return nil, err
	}
	byModule := map[string][]api.FunctionDefinition{}
	for _, def := range compiled.ImportedFunctions() {
		module, _, _ := def.Import()
		byModule[module] = append(byModule[module], def)
	}
	for module, defs := range byModule {
		if module == Yield.Module {
			continue
		}
		b := h.NewHostModuleBuilder(module)
		for _, def := range defs {
			_, name, _ := def.Import()
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
				clear(stack)
			}), def.ParamTypes(), def.ResultTypes()).Export(name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return nil, err
		}
	}
	return h.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// arguments are some for a function, if it takes only what has a zero: v as a
// number, else zero.
func arguments(params []api.ValueType, v uint64) (args []uint64, ok bool) {
	for _, p := range params {
		switch p {
		case I32, I64:
			args = append(args, v)
		case F32, F64, ExternRef, FuncRef:
			args = append(args, 0)
		case V128:
			args = append(args, v, 0)
		default:
			return nil, false
		}
	}
	return args, true
}

// addSeeds adds modules from the engine's tests, where they are at hand, a few
// that are valid in each suite. Those of our own are saved in testdata/fuzz.
func addSeeds(f *testing.F) {
	dir, err := wazeroDir()
	if err != nil {
		return
	}
	for _, suite := range specSuites {
		files, _ := filepath.Glob(filepath.Join(dir, "internal", "integration_test", "spectest", suite, "testdata", "*.wasm"))
		slices.Sort(files)
		for i := 0; i < len(files); i += max(1, len(files)/40) {
			if wasm, err := os.ReadFile(files[i]); err == nil && len(wasm) < 4096 {
				f.Add(wasm)
			}
		}
	}
}
