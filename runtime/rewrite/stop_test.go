package rewrite

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// A runaway is a guest that never ends by itself. Its function "f" runs for ever
// if its argument is not zero.
type runaway struct {
	name string
	m    func() *Module
}

// whenAsked is a function's body that runs body only if the argument is not zero.
func whenAsked(body ...any) []byte {
	return code(opLocalGet, 0, opIf, emptyBlock, code(body...), opEnd, opEnd)
}

func runsAway(body []byte) func() *Module {
	return func() *Module { return only(funcType{params: i32s}, body) }
}

var runaways = []runaway{
	{"empty loop", runsAway(whenAsked(opLoop, emptyBlock, opBr, 0, opEnd))},
	{"loop of straight code", runsAway(whenAsked(opLoop, emptyBlock,
		bytes.Repeat(code(number(0), opI32Load, 2, 0, opDrop), 500), opBr, 0, opEnd))},
	{"br_table", runsAway(whenAsked(opLoop, emptyBlock, opBlock, emptyBlock, opLocalGet, 0,
		opBrTable, 2, 0, 1, 1, opEnd, opBr, 0, opEnd))},
	{"conditional branch", runsAway(whenAsked(opLoop, emptyBlock, opLocalGet, 0, opBrIf, 0, opEnd))},
	{"calls of a leaf", func() *Module {
		m := runsAway(whenAsked(opLoop, emptyBlock, opCall, 1, opBr, 0, opEnd))()
		m.types = append(m.types, funcType{})
		m.functions = append(m.functions, function{typ: 1, body: code(number(1), opDrop, opEnd)})
		return m
	}},
	{"recursion that returns", func() *Module {
		// fib(60) by the naive way: a tree of 2^41 calls.
		m := runsAway(whenAsked(number(60), opCall, 1, opDrop))()
		m.types = append(m.types, funcType{params: i32s, results: i32s})
		m.functions = append(m.functions, function{typ: 1, body: code(
			opLocalGet, 0, number(2), opcode(0x48), opIf, I32, opLocalGet, 0, opElse,
			opLocalGet, 0, number(1), opI32Sub, opCall, 1,
			opLocalGet, 0, number(2), opI32Sub, opCall, 1, opI32Add, opEnd, opEnd)})
		return m
	}},
	{"tail calls", runsAway(whenAsked(opLocalGet, 0, opReturnCall, 0))},
	{"tail calls through a table", func() *Module {
		m := runsAway(whenAsked(opLocalGet, 0, number(0), opReturnCallIndirect, 0, 0))()
		m.elements = []element{{offset: code(number(0), opEnd), funcs: []uint32{0}}}
		return m
	}},
	{"tail calls through a reference", func() *Module {
		m := runsAway(whenAsked(opLocalGet, 0, opRefFunc, 0, opReturnCallRef, 0))()
		m.elements = []element{{flags: elemPassive | elemExplicit, funcs: []uint32{0}}}
		return m
	}},
	{"exceptions", func() *Module {
		// A loop whose only way back is a catch.
		m := runsAway(whenAsked(opLoop, emptyBlock, opTryTable, emptyBlock, 1, 2, 0, opThrow, 0, opEnd, opEnd))()
		m.types = append(m.types, funcType{})
		m.tags = []uint32{1}
		return m
	}},
	{"inside a block that catches everything", func() *Module {
		m := runsAway(whenAsked(opLoop, emptyBlock,
			opTryTable, emptyBlock, 1, 2, 0, opLoop, emptyBlock, opBr, 0, opEnd, opEnd, opEnd))()
		return m
	}},
	{"fills", runsAway(whenAsked(opLoop, emptyBlock, number(0), number(1), number(65536), opMemoryFill, 0, opBr, 0, opEnd))},
	{"copies", runsAway(whenAsked(opLoop, emptyBlock, number(1), number(0), number(65535), opMemoryCopy, 0, 0, opBr, 0, opEnd))},
	{"fills of a table", runsAway(whenAsked(opLoop, emptyBlock, number(0), opRefNull, FuncRef, number(4), opTableFill, 0, opBr, 0, opEnd))},
	{"growth", runsAway(whenAsked(opLoop, emptyBlock, number(0), opMemoryGrow, 0, opDrop, opBr, 0, opEnd))},
}

// TestStop stops every runaway at its hundredth yield. The call must end with a
// trap that nothing in the guest caught, and the instance must be good for
// another call.
func TestStop(t *testing.T) {
	for _, r := range runaways {
		t.Run(r.name, func(t *testing.T) {
			m := mustDecode(t, r.m().Encode())
			info := m.apply(Plan{Countdown: true, Quantum: 16, TableMax: DefaultTableMax}) // also with exceptions
			h := newHost(t, compiler())
			mod := h.mustInstantiate(t, m.Encode())
			f, c := mod.ExportedFunction("f"), countdownOf(mod)
			for range 3 {
				h.yields = 0
				h.stop = func(n int64) bool { return n >= 100 }
				c.Set(uint64(info.Quantum))
				_, err := f.Call(t.Context(), 1)
				if err == nil || !strings.Contains(err.Error(), "unreachable") || h.yields != 100 {
					t.Fatalf("stopped after %d yields with %v; want 100 and a trap", h.yields, err)
				}
				h.stop = nil
				c.Set(uint64(info.Quantum))
				if _, err := f.Call(t.Context(), 0); err != nil {
					t.Fatalf("the next call: %v", err)
				}
			}
		})
	}
}

// TestStopControl shows that nothing but the countdown stops such a guest: the
// cancelled context does not, and the guest ends because the host, which it
// calls here by itself, traps.
func TestStopControl(t *testing.T) {
	m := runsAway(whenAsked(opLoop, emptyBlock, opCall, 0, opBr, 0, opEnd))()
	m.imports = []moduleImport{{ImportName: ImportName{"env", "tick"}, kind: Function, typ: 1}}
	m.types = append(m.types, funcType{})
	m.exports[0].index = 1
	h := newHost(t, compiler())
	ctx, cancel := context.WithCancel(t.Context())
	ticks := 0
	enough := errors.New("enough")
	_, err := h.NewHostModuleBuilder("env").NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {
		if ticks++; ticks == 10 {
			cancel()
		}
		if ticks == 1_000_000 {
			panic(enough)
		}
	}), nil, nil).Export("tick").Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mod := h.mustInstantiate(t, m.Encode())
	if _, err := mod.ExportedFunction("f").Call(ctx, 1); !errors.Is(err, enough) {
		t.Errorf("call = %v after %d ticks; want it to run until the host had enough", err, ticks)
	}
}

// TestStoppedCountdown shows why the countdown is compared by sign: a call that
// begins with what a stopped one left, or with nonsense, asks the host at once.
func TestStoppedCountdown(t *testing.T) {
	wasm, _ := instrumented(t, runaways[0].m().Encode(), Plan{Countdown: true, Quantum: 16})
	h := newHost(t, compiler())
	h.stop = func(int64) bool { return true }
	mod := h.mustInstantiate(t, wasm)
	c := countdownOf(mod)
	for _, left := range []int32{0, -1, -5000, 1, 1024} {
		c.Set(uint64(uint32(left)))
		h.yields = 0
		if _, err := mod.ExportedFunction("f").Call(t.Context(), 1); err == nil || h.yields != 1 {
			t.Errorf("begun at %d: %d yields, %v; want 1 and a trap", left, h.yields, err)
		}
	}
}

// TestFuel compares the units of known work with what they must be, between
// engines, quanta and runs.
func TestFuel(t *testing.T) {
	const rounds = 1000
	loop := func(body ...any) []byte {
		// for local 0 rounds: do body
		return code(opLoop, emptyBlock, code(body...), opLocalGet, 0, number(1), opI32Sub, opLocalTee, 0, opBrIf, 0, opEnd, opEnd)
	}
	for _, c := range []struct {
		name  string
		body  []byte
		units int64
	}{
		{"rounds", loop(), rounds},
		{"fills", loop(number(0), number(1), number(6400), opMemoryFill, 0), rounds * (1 + 1 + 100)},
		{"short fills", loop(number(0), number(1), number(63), opMemoryFill, 0), rounds * (1 + 1)},
		{"a fill that traps", code(number(0), number(1), number(-1), opMemoryFill, 0, opEnd), 1},
		{"table copies", loop(number(0), number(0), number(24), opTableCopy, 0, 0), rounds * (1 + 1 + 3)},
		{"calls of a leaf", loop(opCall, 1), rounds},
		{"calls", loop(opCall, 2), 2 * rounds},
	} {
		m := only(funcType{params: i32s}, c.body)
		m.types = append(m.types, funcType{})
		m.tables[0].min = 32
		m.functions = append(m.functions, function{typ: 1, body: code(opEnd)}, function{typ: 1, body: code(opCall, 1, opEnd)})
		for _, quantum := range []int32{1, 2, 3, 1000, DefaultQuantum} {
			wasm, info := instrumented(t, m.Encode(), Plan{Countdown: true, Quantum: quantum})
			for _, config := range []string{"compiler", "interpreter"} {
				h := newHost(t, compiler())
				if config == "interpreter" {
					h = newHost(t, interpreter())
				}
				mod := h.mustInstantiate(t, wasm)
				for range 2 {
					h.yields = 0
					countdownOf(mod).Set(uint64(quantum))
					mod.ExportedFunction("f").Call(t.Context(), rounds)
					if got := info.Units(h.yields, int32(countdownOf(mod).Get())); got != c.units {
						t.Errorf("%s, quantum %d, %s: %d units, want %d", c.name, quantum, config, got, c.units)
					}
				}
			}
		}
	}
}

// TestGuestThatClearsItsStop names, in every round of a loop, the global that is
// added for the countdown, and fills it up. Decode refuses the module. The
// control leaves that check away: the engine then accepts what became of it, and
// the guest runs a million rounds without once asking whether it may.
func TestGuestThatClearsItsStop(t *testing.T) {
	const rounds = 1_000_000
	m := only(funcType{params: i32s}, code(opLoop, emptyBlock,
		number(1<<20), opGlobalSet, 0,
		opLocalGet, 0, number(1), opI32Sub, opLocalTee, 0, opBrIf, 0, opEnd, opEnd))
	wasm := m.Encode()
	if _, err := Decode(wasm); err == nil || !strings.Contains(err.Error(), "global 0 does not exist") {
		t.Errorf("Decode = %v; want a refusal", err)
	}
	h := newHost(t, compiler())
	run := func(m *Module) {
		t.Helper()
		m.apply(Plan{Countdown: true, Quantum: 16, TableMax: DefaultTableMax})
		h.yields = 0
		if _, err := h.mustInstantiate(t, m.Encode()).ExportedFunction("f").Call(t.Context(), rounds); err != nil {
			t.Fatal(err)
		}
	}
	loose, err := decode(wasm, true)
	if err != nil {
		t.Fatal(err)
	}
	if run(loose); h.yields != 0 {
		t.Errorf("control: the guest asked %d times; it should have cleared its stop", h.yields)
	}
	// With a global of its own the same code is a module, and asks.
	m.globals = []global{{globalType{i32, true}, code(number(0), opEnd)}}
	if run(mustDecode(t, m.Encode())); h.yields < rounds/16-1 {
		t.Errorf("the guest asked %d times in %d rounds", h.yields, rounds)
	}
}
