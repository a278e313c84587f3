package manifest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// validates reports whether the engine takes a module.
func validates(t testing.TB, wasm []byte) error {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, wasm)
	return err
}

func TestExtractEmbed(t *testing.T) {
	bare, err := manifest.Strip(hostile.Good())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Extract(bare); tool.CodeOf(err) != tool.InvalidModule || !strings.Contains(err.Error(), "no manifest") {
		t.Errorf("Extract of a bare module = %v", err)
	}
	one, err := manifest.Embed(bare, []byte(`{"first":1}`))
	if err != nil {
		t.Fatal(err)
	}
	two, err := manifest.Embed(one, []byte(`{"second":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := manifest.Extract(two); err != nil || string(got) != `{"second":2}` {
		t.Errorf("Extract = %q, %v; want the second manifest alone", got, err)
	}
	again, _ := manifest.Embed(bare, []byte(`{"second":2}`))
	if !bytes.Equal(two, again) {
		t.Error("the same manifest in the same module gives other bytes")
	}
	if err := validates(t, two); err != nil {
		t.Errorf("the engine does not take a module with a manifest: %v", err)
	}
	doubled := append(bytes.Clone(two), two[len(bare):]...)
	if _, err := manifest.Extract(doubled); tool.CodeOf(err) != tool.InvalidModule {
		t.Errorf("Extract of two manifests = %v; want invalid_module", err)
	}
	if fixed, err := manifest.Embed(doubled, []byte(`{}`)); err != nil {
		t.Errorf("Embed over two manifests = %v", err)
	} else if got, err := manifest.Extract(fixed); err != nil || string(got) != `{}` {
		t.Errorf("Extract after Embed over two = %q, %v", got, err)
	}
}

func TestSummarize(t *testing.T) {
	s, err := manifest.Summarize(hostile.With(hostile.Yield, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Imports); got != "[{wasi_snapshot_preview1 sched_yield function () -> (i32)}]" {
		t.Errorf("Imports = %s", got)
	}
	if got := fmt.Sprint(s.Exports); got != "[{wt_alloc function 1 (i32) -> (i32)} {wt_call function 2 (i32, i32) -> (i64)} {memory memory 0 () -> ()}]" {
		t.Errorf("Exports = %s", got)
	}
	if len(s.Memories) != 1 || s.Memories[0].Min != 1 || s.Memories[0].HasMax || s.Functions != 2 || s.Segments != 1 {
		t.Errorf("Summarize = %+v", s)
	}
}

// TestSummarizeMeasures compares the measures of functions whose measures are
// known.
func TestSummarizeMeasures(t *testing.T) {
	code := wasmasm.Code{}.Block(wasmasm.Void).Loop(wasmasm.Void).
		I32Const(1).I32Const(2).Loop(wasmasm.Void).LocalGet(0).BrIf(1).End().Drop().Drop().
		End().End()
	m := wasmasm.Module{Funcs: []wasmasm.Func{{
		Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}}, Locals: []wasmasm.Run{{N: 3, Type: wasmasm.I64}}, Body: code,
	}}}
	if err := validates(t, m.Encode()); err != nil {
		t.Fatal(err)
	}
	s, err := manifest.Summarize(m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	c := s.Code
	// Joins: the parameter at the outer loop; that and two values on the stack at
	// the inner one and at its branch. Nothing reads the other locals.
	if c.MostLocals != 4 || c.DeepestNest != 3 || c.DeepestLoop != 2 || c.MostTargets != 1 || c.MostJoins != 1+3+3 {
		t.Errorf("Code = %+v", c)
	}
}

// TestJoinsCountLiveLocals: a local is live across a join if it is read where
// it was not set since; one that is set right before it is read is not.
func TestJoinsCountLiveLocals(t *testing.T) {
	for _, c := range []struct {
		name string
		body func() wasmasm.Code
		want int64
	}{
		{"read in the loop", func() wasmasm.Code {
			return wasmasm.Code{}.I32Const(1).LocalSet(0).Loop(wasmasm.Void).LocalGet(0).Drop().End()
		}, 1},
		{"read after the loop", func() wasmasm.Code {
			return wasmasm.Code{}.I32Const(1).LocalSet(0).Loop(wasmasm.Void).End().LocalGet(0).Drop()
		}, 1},
		{"carried round the loop", func() wasmasm.Code {
			return wasmasm.Code{}.Loop(wasmasm.Void).LocalGet(0).LocalSet(0).End()
		}, 1},
		{"set and read at one place", func() wasmasm.Code {
			return wasmasm.Code{}.Loop(wasmasm.Void).I32Const(1).LocalSet(0).LocalGet(0).Drop().End()
		}, 0},
		{"set, and read after a branch", func() wasmasm.Code {
			return wasmasm.Code{}.Loop(wasmasm.Void).I32Const(1).LocalSet(0).I32Const(0).BrIf(0).LocalGet(0).Drop().End()
		}, 2},
	} {
		m := wasmasm.Module{Funcs: []wasmasm.Func{{Locals: []wasmasm.Run{{N: 1, Type: wasmasm.I32}}, Body: c.body()}}}
		if err := validates(t, m.Encode()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		s, err := manifest.Summarize(m.Encode())
		if err != nil || s.Code.MostJoins != c.want {
			t.Errorf("%s: MostJoins = %d, %v; want %d", c.name, s.Code.MostJoins, err, c.want)
		}
	}
}

// TestSummarizeRefuses gives modules that are damaged or beyond what we read.
func TestSummarizeRefuses(t *testing.T) {
	base := wasmasm.Module{Memory: &wasmasm.Limits{Min: 1, Max: -1}}
	with := func(change func(m *wasmasm.Module)) []byte {
		m := base
		change(&m)
		return m.Encode()
	}
	body := func(c wasmasm.Code) []byte {
		return with(func(m *wasmasm.Module) { m.Funcs = []wasmasm.Func{{Body: c}} })
	}
	header := []byte("\x00asm\x01\x00\x00\x00")
	for name, wasm := range map[string][]byte{
		"empty":                   {},
		"other magic":             []byte("\x7fELF\x01\x00\x00\x00"),
		"unknown section":         append(bytes.Clone(header), 13, 0),
		"sections in disorder":    wasmasm.Section(wasmasm.Section(bytes.Clone(header), 3, []byte{0}), 1, []byte{0}),
		"a section twice":         wasmasm.Section(wasmasm.Section(bytes.Clone(header), 1, []byte{0}), 1, []byte{0}),
		"a section cut":           append(bytes.Clone(header), 1, 5, 0),
		"bytes left over":         wasmasm.Section(bytes.Clone(header), 1, []byte{0, 0}),
		"a count beyond the end":  wasmasm.Section(bytes.Clone(header), 1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a number over 32 bits":   wasmasm.Section(bytes.Clone(header), 1, []byte{0xff, 0xff, 0xff, 0xff, 0x7f}),
		"a number of six bytes":   wasmasm.Section(bytes.Clone(header), 1, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}),
		"a name that is not text": wasmasm.Section(bytes.Clone(header), 0, []byte{2, 0xff, 0xfe}),
		"a type of another form":  wasmasm.Section(bytes.Clone(header), 1, []byte{1, 0x5f, 0, 0}),
		"64-bit memory":           wasmasm.Section(bytes.Clone(header), 5, []byte{1, 4, 1}),
		"shared memory":           wasmasm.Section(bytes.Clone(header), 5, []byte{1, 3, 1, 1}),
		"exports of one name":     wasmasm.Section(bytes.Clone(header), 7, []byte{2, 1, 'a', 2, 0, 1, 'a', 2, 0}),
		"an export past the end":  with(func(m *wasmasm.Module) { m.ExportRaw = [][]byte{{1, 'f', 0, 0}} }),
		"threads":                 body(wasmasm.Code{}.Op(0xfe, 0x03, 0)),
		"exceptions":              body(wasmasm.Code{}.Op(0x06, 0x40)),
		"a tail call":             body(wasmasm.Code{}.Op(0x12, 0)),
		"relaxed SIMD":            body(wasmasm.Code{}.Op(0xfd, 0x80, 0x02)),
		"SIMD in too many bytes":  body(wasmasm.Code{}.Op(0xfd, 0x8c, 0x00)),
		"an unknown operation":    body(wasmasm.Code{}.Op(0xff)),
		"a type that is missing":  body(wasmasm.Code{}.Block(5)),
		"code after its end":      body(wasmasm.Code{}.End().Op(1)),
		"code without end": with(func(m *wasmasm.Module) {
			m.Funcs = []wasmasm.Func{{Body: wasmasm.Code{}.Block(wasmasm.Void).End(), Raw: true}}
		}),
		"a call past the end": body(wasmasm.Code{}.Call(1)),
		"an element past the end": with(func(m *wasmasm.Module) {
			m.Tables = []wasmasm.Limits{{Min: 1, Max: -1}}
			m.Elems = [][]byte{{0, 0x41, 0, 0x0b, 1, 7}}
		}),
		"a constant past the end": with(func(m *wasmasm.Module) { m.Globals = [][]byte{{0x70, 0, 0xd2, 3, 0x0b}} }),
		"a long constant":         with(func(m *wasmasm.Module) { m.Globals = [][]byte{{0x7f, 0, 0x41, 0, 0x41, 0, 0x41, 0, 0x41, 0, 0x0b}} }),
	} {
		if _, err := manifest.Summarize(wasm); tool.CodeOf(err) != tool.InvalidModule {
			t.Errorf("%s: Summarize = %v; want invalid_module", name, err)
		}
	}
}

// TestBoundGrowthBehaves runs memory.grow before and after, for sizes around
// every border.
func TestBoundGrowthBehaves(t *testing.T) {
	ctx := context.Background()
	for _, max := range []int64{-1, 1, 3, 65536} {
		fns := make([]wasmasm.Func, 130) // so that indexes need two bytes
		fns[129] = wasmasm.Func{
			Type:   wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}},
			Body:   wasmasm.Code{}.Block(wasmasm.Void).End().LocalGet(0).MemoryGrow().I32Const(0).MemoryGrow().Drop(),
			Export: "grow",
		}
		m := wasmasm.Module{Memory: &wasmasm.Limits{Min: 1, Max: max}, Funcs: fns, Tables: []wasmasm.Limits{{Min: 2, Max: -1}}}
		before := m.Encode()
		after, err := manifest.BoundGrowth(before, 10)
		if err != nil {
			t.Fatal(err)
		}
		s, err := manifest.Summarize(after)
		if err != nil || s.Memories[0].HasMax || s.Tables[0].Max != 10 {
			t.Errorf("max %d: the changed module has %+v, %v", max, s.Memories, err)
		}
		for _, n := range []uint64{0, 1, 2, 3, 65534, 65535, 65536, 65537, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			var got [2]uint64
			for i, wasm := range [][]byte{before, after} {
				r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1000))
				if max > 0 && i == 1 && max < 1000 {
					// The limit that the allocator of the runtime would apply.
					r = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(uint32(max)))
				}
				mod, err := r.Instantiate(ctx, wasm)
				if err != nil {
					t.Fatalf("max %d: %v", max, err)
				}
				res, err := mod.ExportedFunction("grow").Call(ctx, n)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = res[0]
				r.Close(ctx)
			}
			if got[0] != got[1] {
				t.Errorf("max %d: memory.grow(%d) = %d before and %d after", max, n, int32(got[0]), int32(got[1]))
			}
		}
	}
}

// FuzzModule gives arbitrary bytes to the parser. What it takes apart must come
// together again, and what the engine takes too must be taken after every change
// of ours.
func FuzzModule(f *testing.F) {
	for _, g := range hostile.Guests() {
		if len(g.Wasm) < 1<<12 {
			f.Add(g.Wasm)
		}
	}
	f.Add(hostile.Good())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		s, err := manifest.Summarize(wasm)
		if err != nil {
			if tool.CodeOf(err) != tool.InvalidModule {
				t.Errorf("Summarize = %v; want invalid_module", err)
			}
			return
		}
		bare, err := manifest.Strip(wasm)
		if err != nil {
			t.Fatalf("Strip of what Summarize takes = %v", err)
		}
		if _, err := manifest.Summarize(bare); err != nil {
			t.Fatalf("Summarize of a stripped module = %v", err)
		}
		bounded, err := manifest.BoundGrowth(bare, 1000)
		if err != nil {
			t.Fatalf("BoundGrowth of what Summarize takes = %v", err)
		}
		if _, err := manifest.Summarize(bounded); err != nil {
			t.Fatalf("Summarize of a bounded module = %v", err)
		}
		embedded, err := manifest.Embed(wasm, []byte(`{}`))
		if err != nil {
			t.Fatalf("Embed = %v", err)
		}
		if got, err := manifest.Extract(embedded); err != nil || string(got) != `{}` {
			t.Fatalf("Extract after Embed = %q, %v", got, err)
		}
		if s.Code.MostLocals > 1000 || len(s.Tables) > 0 && s.Tables[0].Min > 1000 {
			return // costs the engine more than a fuzz run is worth
		}
		if validates(t, bare) == nil {
			if err := validates(t, bounded); err != nil {
				t.Errorf("the engine takes the module and not what BoundGrowth made of it: %v", err)
			}
		} else if validates(t, bounded) == nil && len(s.Memories) < 2 {
			before := validates(t, bare).Error()
			if !strings.Contains(before, "max") && !strings.Contains(before, "minimum") && !strings.Contains(before, "min ") {
				t.Errorf("BoundGrowth made a module valid that was not: %v", before)
			}
		}
	})
}
