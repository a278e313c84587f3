package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

const unclean = `{"content":[{"type":"text","text":"unclean"}]}`

// witness is a guest that looks, in every call, for what an earlier one left: in
// its memory's size, in every eighth word of it but where its answers stand, in
// its globals. It says "unclean" if it finds anything. Else it leaves marks
// everywhere and ends in the way that end gives.
func witness(end wasmasm.Code, imports ...wasmasm.Import) []byte {
	const pages, from, step, uncleanAt = 3, 8192, 64, 6144
	mark := int32(0x5aa5_c33c)
	var c wasmasm.Code
	found := func(c wasmasm.Code) wasmasm.Code { return c.If(wasmasm.Void).I32Const(1).LocalSet(2).End() }
	c = found(c.Op(0x3f, 0).I32Const(pages).Op(0x47)) // memory.size is another
	c = found(c.GlobalGet(0).I32Const(3).Op(0x47))
	// local 3 walks over the memory.
	c = c.I32Const(from).LocalSet(3).Loop(wasmasm.Void)
	c = found(c.LocalGet(3).I32Load(0).I32Const(mark).Op(0x46))
	c = c.LocalGet(3).I32Const(step).I32Add().LocalSet(3)
	c = c.LocalGet(3).I32Const(pages << 16).Op(0x49).BrIf(0).End()
	c = c.LocalGet(2).If(wasmasm.Void).Packed(uncleanAt, uint32(len(unclean))).Op(0x0f).End()
	c = c.I32Const(99).GlobalSet(0)
	c = c.I32Const(from).LocalSet(3).Loop(wasmasm.Void)
	c = c.LocalGet(3).I32Const(mark).I32Store(0)
	c = c.LocalGet(3).I32Const(step).I32Add().LocalSet(3)
	c = c.LocalGet(3).I32Const(pages << 16).Op(0x49).BrIf(0).End()
	m := &wasmasm.Module{
		Imports: imports,
		Memory:  &wasmasm.Limits{Min: pages, Max: -1},
		Globals: [][]byte{{wasmasm.I32, 1, 0x41, 3, 0x0b}},
		Data:    []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(hostile.Answer)}, {Offset: uncleanAt, Bytes: []byte(unclean)}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}},
				Locals: []wasmasm.Run{{N: 2, Type: wasmasm.I32}},
				Body:   append(c, end.Packed(hostile.AnswerAt, uint32(len(hostile.Answer)))...), Export: "wt_call"},
			{Body: wasmasm.Code{}.Call(uint32(len(imports)) + 2)}, // for ever deeper
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest("")}},
	}
	return m.Encode()
}

// TestNextCallFindsSnapshot ends calls in every way and lets the next one, of
// the same module, look around. What guests find is compared in TestPristine
// without them; here it is what they see.
func TestNextCallFindsSnapshot(t *testing.T) {
	exit := wasmasm.Import{Module: wasiModule, Name: "proc_exit", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}}}
	stat := wasmasm.Import{Module: abiModule, Name: "fs_stat", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}}
	// A guest whose warm-up is answered has its marks in the snapshot. One that asks
	// the host for something has none.
	untouched := wasmasm.Code{}.I32Const(0).I32Const(1)
	for _, c := range []struct {
		name    string
		imports []wasmasm.Import
		end     wasmasm.Code
		want    tool.Code
	}{
		{"answers", []wasmasm.Import{stat}, append(untouched, wasmasm.Code{}.Call(0).Op(0x1a)...), ""},
		{"traps", nil, wasmasm.Code{}.Unreachable(), tool.Trap},
		{"grows, and answers", []wasmasm.Import{stat}, append(untouched, wasmasm.Code{}.Call(0).Op(0x1a).I32Const(5).MemoryGrow().Drop()...), ""},
		{"grows, and traps", nil, wasmasm.Code{}.I32Const(5).MemoryGrow().Drop().Unreachable(), tool.Trap},
		{"is stopped", nil, wasmasm.Code{}.Loop(wasmasm.Void).Br(0).End(), tool.Timeout},
		{"fills beyond its end", nil, wasmasm.Code{}.I32Const(9000).I32Const(7).I32Const(-1).Op(0xfc, 11, 0), tool.Trap},
		{"exits", []wasmasm.Import{exit}, wasmasm.Code{}.I32Const(0).Call(0), tool.Trap},
		{"recurses", nil, wasmasm.Code{}.Call(2), tool.Trap},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, Options{})
			m := load(t, e, witness(c.end, c.imports...)).(*module)
			if err := m.Prepare(context.Background()); err != nil {
				t.Fatal(err)
			}
			for n := range 4 {
				inv := tool.Invocation{CallID: "1", Arguments: []byte("{}")}
				if c.want == tool.Timeout {
					inv.Deadline = time.Now().Add(100 * time.Millisecond)
				}
				r, _, err := m.Run(context.Background(), &hostfuncs.Call{Invocation: inv})
				if err != nil || r.Code != c.want || r.PlainText() == "unclean" {
					t.Fatalf("call %d = %q %q, %v; want %q", n, r.Code, r.PlainText(), err, c.want)
				}
			}
			if d := m.build.program.form.Decision; !d.InPlace || d.WarmedUp {
				t.Errorf("the guest begins elsewhere than where it should: %s", d)
			}
			// The control: on an instance that is not put back the guest sees it.
			l := &lease{call: &hostfuncs.Call{}, term: newTerm(context.Background(), e, time.Minute, time.Time{})}
			m.limit(l.call)
			if err := l.begin(m.build.program); err != nil {
				t.Fatal(err)
			}
			defer l.release()
			l.term.until = time.Now().Add(50 * time.Millisecond)
			req, err := encodeRequest(tool.Invocation{CallID: "1", Arguments: []byte("{}")}, 0, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = l.run(req, 1<<20)
			l.spoiled = true
			l.term = newTerm(context.Background(), e, time.Minute, time.Time{})
			if got, err := l.run(req, 1<<20); err != nil || string(got) != unclean {
				t.Errorf("control: without the reset the guest answers %q, %v; it should see what was left", got, err)
			}
		})
	}
}
