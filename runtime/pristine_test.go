package runtime

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/testdata/hostile"
	"github.com/wasmtools/wasmtools/tool"
)

// state is everything that a call can find: a module that is reset in place
// writes to no table and drops no segment, and WASI keeps nothing between calls
// but the clock, whose beginning is the snapshot's.
type state struct {
	memory    []byte
	globals   []uint64
	countdown uint64
}

func stateOf(t testing.TB, i *instance) state {
	t.Helper()
	mem, ok := i.guest.Memory().Read(0, i.guest.Memory().Size())
	if !ok {
		t.Fatal("the memory cannot be read")
	}
	s := state{memory: bytes.Clone(mem), countdown: i.countdown.Get()}
	for _, g := range i.globals {
		s.globals = append(s.globals, g.Get())
	}
	return s
}

// differs tells the first difference between two states.
func (s state) differs(o state) string {
	if len(s.memory) != len(o.memory) {
		return fmt.Sprintf("%d bytes of memory, %d", len(s.memory), len(o.memory))
	}
	for i := range s.memory {
		if s.memory[i] != o.memory[i] {
			return fmt.Sprintf("byte %d is %#x, %#x", i, s.memory[i], o.memory[i])
		}
	}
	if !slices.Equal(s.globals, o.globals) || s.countdown != o.countdown {
		return fmt.Sprintf("globals %x and %d, %x and %d", s.globals, s.countdown, o.globals, o.countdown)
	}
	return ""
}

// begins is the state in which calls of m begin: that of an instance that has
// run nothing.
func begins(t testing.TB, m *module) state {
	t.Helper()
	p := m.build.program
	i, err := p.newInstance(hostfuncs.Grant{}, uint64(m.limits.MemoryBytes))
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	return stateOf(t, i)
}

// waits returns the instance that the next call of m will get, or nil if it will
// get a new one.
func waits(m *module) *instance {
	o := m.engine.pool
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := len(o.idle) - 1; n >= 0; n-- {
		if o.idle[n].program == m.build.program {
			return o.idle[n]
		}
	}
	return nil
}

// TestPristine runs everything that hostile guests do, and compares what the
// next call finds with the snapshot, byte by byte.
func TestPristine(t *testing.T) {
	e := newEngine(t, Options{})
	check := func(m *module, name string) {
		t.Helper()
		i := waits(m)
		if i == nil {
			return // closed: the next call gets a new one
		}
		if d := stateOf(t, i).differs(begins(t, m)); d != "" {
			t.Errorf("after %s: %s", name, d)
		}
	}
	again := 0
	for _, g := range hostile.Guests() {
		if g.AtLoad {
			continue
		}
		m := load(t, e, g.Wasm).(*module)
		for range 3 {
			callOnce(m, 0)
			if m.build.program == nil {
				break // the engine did not accept it
			}
			if waits(m) != nil {
				again++
			}
			check(m, g.Name)
		}
		m.Close()
	}
	if again < 20 {
		t.Errorf("only %d calls left an instance that can be used again", again)
	}
	m := load(t, e, goGuest(t)).(*module)
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, g := range hostile.GoTools {
		if g.Slow && testing.Short() {
			continue
		}
		inv := tool.Invocation{CallID: "1", Arguments: []byte("{}"), Deadline: time.Now().Add(200 * time.Millisecond)}
		if _, _, err := m.Run(context.Background(), &hostfuncs.Call{Tool: i, Invocation: inv}); err != nil {
			t.Fatal(err)
		}
		check(m, "go-"+g.Name)
	}
	if d := m.build.program.form.Decision; !d.InPlace || !d.WarmedUp {
		t.Errorf("a Go guest: %s", d)
	}
}

// TestResetIsNeeded is the control: without the reset a call leaves its marks. The
// guest writes random bytes; what is always the same, the warm-up has done already.
func TestResetIsNeeded(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, scribbler([]byte{9, 1, 0, 16})).(*module)
	if code, text, err := callOnce(m, 0); code != "" || err != nil {
		t.Fatal(code, text, err)
	}
	i := waits(m)
	i.seat.lease = &lease{call: &hostfuncs.Call{}, term: newTerm(context.Background(), e, time.Minute, time.Time{})}
	if _, err := i.guest.ExportedFunction("wt_call").Call(i.ctx, 0, 0); err != nil {
		t.Fatal(err)
	}
	if d := stateOf(t, i).differs(begins(t, m)); d == "" {
		t.Error("the call left nothing to put back")
	}
	i.seat.lease = nil
	if !i.reset() {
		t.Fatal("the instance cannot be put back")
	}
	if d := stateOf(t, i).differs(begins(t, m)); d != "" {
		t.Error(d)
	}
}

// scribbler makes a guest that does what the bytes say, and then answers.
func scribbler(what []byte) []byte {
	const pages = 3
	var c wasmasm.Code
	next := func() byte {
		if len(what) == 0 {
			return 0
		}
		b := what[0]
		what = what[1:]
		return b
	}
	// An address below the answer's page is spared, so that it can be read.
	address := func() int32 {
		return 4096 + int32(uint32(next())<<10|uint32(next()))%(pages<<16-4096-8)
	}
	for n := 0; len(what) > 0 && n < 64; n++ {
		switch next() % 10 {
		case 0:
			c = c.I32Const(address()).I32Const(int32(next())<<16 | 1).I32Store(0)
		case 1:
			c = c.I32Const(address()).I64Const(int64(next()) << 40).I64Store(0)
		case 2: // memory.fill
			c = c.I32Const(address()).I32Const(int32(next())).I32Const(int32(next())<<8).Op(0xfc, 11, 0)
		case 3: // memory.copy
			c = c.I32Const(address()).I32Const(address()).I32Const(int32(next())<<8).Op(0xfc, 10, 0, 0)
		case 4:
			c = c.I32Const(int32(next() % 3)).MemoryGrow().Drop()
		case 5:
			c = c.I32Const(int32(next())).GlobalSet(0)
		case 6:
			c = c.I64Const(int64(next()) * 12345).GlobalSet(1)
		case 7:
			c = c.GlobalGet(0).If(wasmasm.Void).Unreachable().End()
		case 8:
			if next()%64 == 0 { // until it is stopped; a warm-up waits for that too
				c = c.Loop(wasmasm.Void).I32Const(4096).I32Const(4096).I32Load(0).I32Const(1).I32Add().I32Store(0).Br(0).End()
			}
		case 9: // random_get
			c = c.I32Const(address()).I32Const(int32(next())).Call(0).Drop()
		}
	}
	m := &wasmasm.Module{
		Imports: []wasmasm.Import{{Module: wasiModule, Name: "random_get", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I32}}}},
		Memory:  &wasmasm.Limits{Min: pages, Max: -1},
		Globals: [][]byte{{wasmasm.I32, 1, 0x41, 0, 0x0b}, {wasmasm.I64, 1, 0x42, 9, 0x0b}},
		Data:    []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(hostile.Answer)}, {Offset: 100_000, Bytes: []byte("in the data section")}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}},
				Body: c.Packed(hostile.AnswerAt, uint32(len(hostile.Answer))), Export: "wt_call"},
			{Type: wasmasm.FuncType{}, Body: wasmasm.Code{}.I32Const(8192).I32Const(77).I32Store(0).I32Const(3).GlobalSet(0), Export: "_initialize"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest(`"time_ms":20`)}},
	}
	return m.Encode()
}

// FuzzReset lets random guests do their work and compares an instance that was
// put back with one that is new.
func FuzzReset(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 24 {
		p := make([]byte, 8+r.IntN(120))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		f.Add(p)
	}
	e := newEngine(f, Options{})
	f.Fuzz(func(t *testing.T, what []byte) {
		m := load(t, e, scribbler(what)).(*module)
		defer m.Close()
		first, _, err := callOnce(m, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := begins(t, m)
		for range 3 {
			if i := waits(m); i != nil {
				if d := stateOf(t, i).differs(want); d != "" {
					t.Fatal(d)
				}
			}
			code, text, err := callOnce(m, 0)
			stopped := code == tool.Timeout || first == tool.Timeout // a slow machine stops others too
			if err != nil || code != first && !stopped {
				t.Fatalf("the first call ended with %q, a later one with %q (%s), %v", first, code, text, err)
			}
		}
	})
}

// TestFuel wants the same count in every run, on new and on reused instances, in
// this engine and in another.
func TestFuel(t *testing.T) {
	seen := map[int]int64{}
	for range 2 {
		e := newEngine(t, Options{})
		m := load(t, e, goGuest(t))
		for range 3 {
			for _, index := range []int{0, 11, 12, 1, 0} {
				_, u, err := m.Run(context.Background(), &hostfuncs.Call{Tool: index, Invocation: tool.Invocation{CallID: "1", Arguments: []byte(`{}`), Deadline: time.Now().Add(time.Hour)}})
				if err != nil || u.Fuel <= 0 {
					t.Fatal(u, err)
				}
				if was, ok := seen[index]; ok && was != u.Fuel {
					t.Errorf("tool %d took %d units, and %d before", index, u.Fuel, was)
				}
				seen[index] = u.Fuel
			}
		}
	}
	t.Log(seen)
}

// clockGuest compares the clocks with what they were while it was initialised,
// and traps if one of them has gone back.
func clockGuest() []byte {
	read := func(c wasmasm.Code, clock, at int32) wasmasm.Code {
		return c.I32Const(clock).I64Const(0).I32Const(at).Call(0).Drop()
	}
	i64load := func(c wasmasm.Code, at int32) wasmasm.Code { return c.I32Const(at).Op(0x29, 3, 0) }
	var start, call wasmasm.Code
	for clock := range int32(2) {
		start = read(start, clock, 512+8*clock)
		call = read(call, clock, 600+8*clock)
		call = i64load(i64load(call, 600+8*clock), 512+8*clock)
		call = call.Op(0x54).If(wasmasm.Void).Unreachable().End() // i64.lt_u
	}
	m := &wasmasm.Module{
		Imports: []wasmasm.Import{{Module: wasiModule, Name: "clock_time_get", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I64, wasmasm.I32}, Results: []byte{wasmasm.I32}}}},
		Memory:  &wasmasm.Limits{Min: 1, Max: -1},
		Data:    []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(hostile.Answer)}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}, Body: call.Packed(hostile.AnswerAt, uint32(len(hostile.Answer))), Export: "wt_call"},
			{Type: wasmasm.FuncType{}, Body: start, Export: "_initialize"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest("")}},
	}
	return m.Encode()
}

// TestTimeNeverRunsBackwards restores a guest in this engine and, from the cache,
// in others, on other days.
func TestTimeNeverRunsBackwards(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	for _, day := range []time.Time{{}, time.Unix(0, 0), dawn, dawn.Add(time.Second), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)} {
		e := newEngine(t, Options{CacheDir: dir, StateDir: state})
		if !day.IsZero() {
			e.day = func(time.Time) time.Time { return day }
		}
		m := load(t, e, clockGuest()).(*module)
		for range 3 {
			if code, text, err := callOnce(m, 0); code != "" || err != nil {
				t.Fatalf("%q %s %v", code, text, err)
			}
		}
		if d := m.build.program.form.Decision; !d.WarmedUp {
			t.Error(d)
		}
	}
	// A host whose clock was never set, and a snapshot that is old in its own time.
	l := &lease{began: time.Now(), clockFrom: int64(time.Hour), call: &hostfuncs.Call{}}
	if a, b := l.monotonic(), l.monotonic(); a < int64(time.Hour) || b < a {
		t.Errorf("the monotonic clock goes from %d to %d", a, b)
	}
}

// TestSnapshotIsReproducible wants the same snapshot from the same module, on
// another day too: nothing of the host's time or chance is in it.
func TestSnapshotIsReproducible(t *testing.T) {
	var first state
	for n := range 2 {
		m := load(t, newEngine(t, Options{}), goGuest(t)).(*module)
		if err := m.Prepare(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := begins(t, m); n == 0 {
			first = s
		} else if d := s.differs(first); d != "" {
			t.Error(d)
		}
	}
}

// TestWarmUpAsksNothing gives guests that ask the host for something before they
// are called, or fail: there is no snapshot, or none after a warm-up.
func TestWarmUpAsksNothing(t *testing.T) {
	e := newEngine(t, Options{})
	stat := wasmasm.Import{Module: abiModule, Name: "fs_stat", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}}
	for _, c := range []struct {
		name           string
		wasm           []byte
		snapshot, warm bool
		why            string
	}{
		{"good", hostile.Good(), true, true, ""},
		{"asks in the warm-up", hostile.With(stat, wasmasm.Code{}.I32Const(8).I32Const(1)), true, false, "fs_stat"},
		{"traps in the warm-up", find(t, "unreachable"), true, false, "not warmed up"},
		{"writes to a table", tableWriter(), false, false, "table.set"},
	} {
		m := load(t, e, c.wasm).(*module)
		if err := m.Prepare(context.Background()); err != nil {
			t.Fatal(c.name, err)
		}
		d := m.build.program.form.Decision
		if d.Snapshot != c.snapshot || d.WarmedUp != c.warm || !strings.Contains(d.String(), c.why) {
			t.Errorf("%s: %s", c.name, d)
		}
		callOnce(m, 0)
		if got := waits(m) != nil; got != c.snapshot {
			t.Errorf("%s: an instance is kept: %v", c.name, got)
		}
	}
}

// tableWriter is a guest whose code has a table.set.
func tableWriter() []byte {
	m := &wasmasm.Module{
		Memory: &wasmasm.Limits{Min: 1, Max: -1},
		Tables: []wasmasm.Limits{{Min: 2, Max: 2}},
		Data:   []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(hostile.Answer)}},
		Funcs: []wasmasm.Func{
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
			{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}},
				Body: wasmasm.Code{}.I32Const(0).I32Const(1).Op(0x25, 0).Op(0x26, 0).Packed(hostile.AnswerAt, uint32(len(hostile.Answer))), Export: "wt_call"},
		},
		Customs: []wasmasm.Custom{{Name: manifest.Section, Data: hostile.Manifest("")}},
	}
	return m.Encode()
}

// TestLateStops hands an instance from call to call while the call before is
// being cancelled. Nobody but that call may be hit.
func TestLateStops(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, hostile.WithLimits(hostile.Good(), ""))
	n := 20_000
	if os.Getenv("WASMTOOLS_LONG") != "" {
		n = 1_000_000
	}
	late := make(chan context.CancelFunc, 64)
	go func() {
		for cancel := range late {
			cancel()
		}
	}()
	defer close(late)
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		r, _, err := m.Run(ctx, &hostfuncs.Call{Invocation: tool.Invocation{Arguments: []byte("{}")}})
		late <- cancel
		if err != nil || r.IsError {
			t.Fatalf("call %d = %q %s, %v", i, r.Code, r.PlainText(), err)
		}
	}
	if made := e.Pool().Made; made != 1 {
		t.Errorf("%d instances were made; the calls were to share one", made)
	}
	t.Logf("%d calls on one instance, each while the one before was being cancelled; none was hit", n)
}

// TestGrantsDoNotShare wants a new instance for every set of grants.
func TestGrantsDoNotShare(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, hostile.Good())
	for i, g := range []hostfuncs.Grant{{}, {Read: []string{"**"}}, {Read: []string{"a"}}, {Read: []string{"a"}, Write: []string{"a"}}, {KV: true}} {
		for range 2 {
			if r, _, err := m.Run(context.Background(), &hostfuncs.Call{Grant: g, Invocation: tool.Invocation{Arguments: []byte("{}")}}); err != nil || r.IsError {
				t.Fatal(r, err)
			}
		}
		if made := e.Pool().Made; made != int64(i+1) {
			t.Errorf("%d sets of grants share %d instances", i+1, made)
		}
	}
}

// TestPoolShrinks lets a minute pass, and then fills the pool beyond its bounds.
func TestPoolShrinks(t *testing.T) {
	e := newEngine(t, Options{})
	m := load(t, e, hostile.Good()).(*module)
	callOnce(m, 0)
	if s := e.Pool(); s.Waiting != 1 || s.Bytes == 0 {
		t.Fatalf("after a call %+v", s)
	}
	e.pool.trim(time.Now().Add(idleTime / 2))
	if s := e.Pool(); s.Waiting != 1 {
		t.Errorf("after half the time %+v", s)
	}
	e.pool.trim(time.Now().Add(idleTime))
	if s := e.Pool(); s.Waiting != 0 || s.Bytes != 0 {
		t.Errorf("after the time %+v", s)
	}
	for _, bounds := range []struct {
		instances int
		bytes     uint64
	}{{3, warmBytes}, {100, 3 * 2 * instanceCost}} {
		e.pool.instances, e.pool.bytes = bounds.instances, bounds.bytes
		for i := range 20 {
			m.Run(context.Background(), &hostfuncs.Call{Grant: hostfuncs.Grant{Read: []string{fmt.Sprint(i)}}, Invocation: tool.Invocation{Arguments: []byte("{}")}})
		}
		if s := e.Pool(); s.Waiting > bounds.instances || s.Bytes > bounds.bytes || s.Waiting < 3 {
			t.Errorf("%d instances of %d bytes wait; at most %d of %d may", s.Waiting, s.Bytes, bounds.instances, bounds.bytes)
		}
	}
}

// TestFairQueue floods one tool and wants another to find a place.
func TestFairQueue(t *testing.T) {
	a := newAdmission(1, 4)
	flood, other := toolKey{"m", 0}, toolKey{"m", 1}
	if !a.tryEnter(flood, 4) {
		t.Fatal("an empty engine is full")
	}
	ends := make(chan error, 5)
	enter := func(k toolKey) {
		before := func() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.waiting) }()
		go func() { ends <- a.enter(context.Background(), k, 4) }()
		if before < 4 {
			waitFor(t, func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.waiting) == before+1 })
		}
	}
	for range 4 {
		enter(flood)
	}
	if err := a.enter(context.Background(), flood, 4); tool.CodeOf(err) != tool.Busy {
		t.Errorf("a fifth of the flood = %v; want busy", err)
	}
	enter(other)
	if err := <-ends; tool.CodeOf(err) != tool.Busy {
		t.Errorf("the youngest of the flood = %v; want busy", err)
	}
	for range 4 {
		a.leave(flood)
		if err := <-ends; err != nil {
			t.Errorf("one that waited = %v", err)
		}
	}
	a.leave(other) // it came last
	if a.running != 0 || len(a.byTool) != 0 {
		t.Errorf("afterwards %+v", a)
	}
}

// TestStacksAreGivenBack recurses until there is no stack left, and wants none of
// it kept. It fails where the engine no longer tells what a function holds.
func TestStacksAreGivenBack(t *testing.T) {
	e := newEngine(t, Options{})
	good := load(t, e, hostile.Good()).(*module)
	callOnce(good, 0)
	if i := waits(good); i.functions[1].name != "wt_call" || stackOf(i.functions[1].Function) > keepStack {
		t.Errorf("after a short call %s is kept with a stack of %d bytes", i.functions[1].name, stackOf(i.functions[1].Function))
	}
	m := load(t, e, hostile.WithLimits(find(t, "recursion"), "")).(*module)
	code, text, _ := callOnce(m, 0)
	if i := waits(m); i == nil || i.functions[1].name != "" {
		t.Errorf("after an endless recursion (%s, %s) its function is kept", code, text)
	}
}

// TestSnapshotOff has a guest whose two tools tell what was drawn at random while
// it was initialised: with a snapshot the same every time, without never.
func TestSnapshotOff(t *testing.T) {
	about := func(module, first, second string) []byte {
		one := func(name, snapshot string) string {
			return `{"name":"` + name + `","description":"Tells.","inputSchema":{"type":"object"},"effects":["read"]` + snapshot + `}`
		}
		return []byte(`{"abi":1,"name":"off","version":"1.0.0","tools":[` + one("a", first) + `,` + one("b", second) + `]` + module + `}`)
	}
	guest := func(manifestJSON []byte) []byte {
		const text = `{"content":[{"type":"text","text":"--------"}]}`
		at := int32(hostile.AnswerAt + strings.Index(text, "-"))
		// Eight letters from eight random bytes: 'a' + (byte & 15).
		start := wasmasm.Code{}.I32Const(512).I32Const(8).Call(0).Drop()
		for i := range int32(8) {
			start = start.I32Const(at+i).I32Const(512+i).Op(0x2d, 0, 0).I32Const(15).Op(0x71).I32Const('a').I32Add().Op(0x3a, 0, 0)
		}
		m := &wasmasm.Module{
			Imports: []wasmasm.Import{{Module: wasiModule, Name: "random_get", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I32}}}},
			Memory:  &wasmasm.Limits{Min: 1, Max: -1},
			Data:    []wasmasm.Data{{Offset: hostile.AnswerAt, Bytes: []byte(text)}},
			Funcs: []wasmasm.Func{
				{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32}, Results: []byte{wasmasm.I32}}, Body: wasmasm.Code{}.I32Const(2048), Export: "wt_alloc"},
				{Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}, Body: wasmasm.Code{}.Packed(hostile.AnswerAt, uint32(len(text))), Export: "wt_call"},
				{Body: start, Export: "_initialize"},
			},
			Customs: []wasmasm.Custom{{Name: manifest.Section, Data: manifestJSON}},
		}
		return m.Encode()
	}
	const off = `,"snapshot":"off"`
	e := newEngine(t, Options{})
	for _, c := range []struct {
		name, module, first, second string
		same                        [2]bool
		decision                    string
	}{
		{"everywhere", "", "", "", [2]bool{true, true}, "reset in place"},
		{"off for the module", off, "", "", [2]bool{}, "each call initialises"},
		{"off for one tool", "", "", off, [2]bool{true, false}, "b: it asks for no snapshot"},
	} {
		wasm := guest(about(c.module, c.first, c.second))
		m := load(t, e, wasm)
		for index, same := range c.same {
			_, a, err := callOnce(m, index)
			if err != nil || len(a) != 8 || strings.Contains(a, "-") {
				t.Fatalf("%s: %q, %v", c.name, a, err)
			}
			if _, b, _ := callOnce(m, index); (a == b) != same {
				t.Errorf("%s, tool %d: %q, then %q", c.name, index, a, b)
			}
		}
		if d, err := Decide(wasm); err != nil || !strings.Contains(d.String(), c.decision) {
			t.Errorf("%s: Decide = %s, %v; want %q", c.name, d, err, c.decision)
		}
	}
}

// TestSameGrant changes every field of a grant, those that are added later too.
func TestSameGrant(t *testing.T) {
	whole := hostfuncs.Grant{Read: []string{"a"}, Write: []string{"b"}, Net: []manifest.HostRule{{Host: "h"}}, Env: []string{"E"}, KV: true, Clock: true}
	for _, base := range []hostfuncs.Grant{{}, whole} {
		if !sameGrant(base, base) {
			t.Errorf("%+v is another grant than itself", base)
		}
		for i := range reflect.TypeFor[hostfuncs.Grant]().NumField() {
			other := base
			f, from := reflect.ValueOf(&other).Elem().Field(i), reflect.ValueOf(whole).Field(i)
			if from.IsZero() {
				t.Fatalf("the test does not know the field %s", reflect.TypeFor[hostfuncs.Grant]().Field(i).Name)
			}
			if f.IsZero() {
				f.Set(from)
			} else {
				f.SetZero()
			}
			if sameGrant(base, other) || sameGrant(other, base) {
				t.Errorf("%+v and %+v count as the same", base, other)
			}
		}
	}
}
