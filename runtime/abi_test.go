package runtime

import (
	"bytes"
	"context"
	"os"
	"regexp"
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

// TestABIMatchesDocs compares the functions that we offer with docs/abi.md.
func TestABIMatchesDocs(t *testing.T) {
	doc, err := os.ReadFile("../docs/abi.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|([^|]*)\\|")
	_, table, _ := strings.Cut(string(doc), "## Host functions")
	seen := 0
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		f, ok := abiFunctions[m[1]]
		if !ok {
			t.Errorf("docs/abi.md has %s, which is not offered", m[1])
			continue
		}
		seen++
		sig := ""
		for _, arg := range strings.FieldsFunc(strings.Trim(m[2], "` "), func(r rune) bool { return r == ',' }) {
			if strings.HasSuffix(arg, "i64") {
				sig += "I"
			} else {
				sig += "i"
			}
		}
		if sig+">I" != f.sig {
			t.Errorf("docs/abi.md gives %s the type %s, the code %s", m[1], sig+">I", f.sig)
		}
	}
	if seen != len(abiFunctions) {
		t.Errorf("docs/abi.md has %d functions, the code %d", seen, len(abiFunctions))
	}
}

// run loads a guest and calls it once.
func run(t *testing.T, e *Engine, wasm []byte, sink tool.Sink) tool.Result {
	t.Helper()
	m := load(t, e, wasm)
	defer m.Close()
	r, _, err := m.Run(context.Background(), &hostfuncs.Call{Sink: sink, Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWASIAnswers calls every function of WASI with zeros: what has no meaning
// here must say so, and none may end the guest or open anything.
func TestWASIAnswers(t *testing.T) {
	e := newEngine(t, Options{})
	answers := map[string]int32{
		"args_get": 0, "args_sizes_get": 0, "environ_get": 0, "environ_sizes_get": 0, "clock_res_get": 0,
		"clock_time_get": 0, "fd_read": 0, "fd_seek": errnoSpipe, "fd_fdstat_get": 0, "sched_yield": 0, "random_get": 0,
		"poll_oneoff": errnoInval, "proc_raise": errnoNosys,
	}
	for name, f := range wasiFunctions {
		if name == "proc_exit" {
			continue
		}
		typ := signature(f.sig)
		im := wasmasm.Import{Module: wasiModule, Name: name, Type: wasmasm.FuncType{Results: []byte{wasmasm.I32}}}
		var push wasmasm.Code
		for _, p := range typ.Params {
			im.Type.Params = append(im.Type.Params, byte(p))
			if p == manifest.I64 {
				push = push.I64Const(0)
			} else {
				push = push.I32Const(0)
			}
		}
		want, ok := answers[name]
		if !ok {
			want = errnoBadf
		}
		// Fails unless the function gives what is wanted.
		wasm := hostile.Calling(im, push.Call(0).I32Const(want).Op(0x47).If(wasmasm.Void).Unreachable().End(), nil)
		if r := run(t, e, wasm, nil); r.IsError {
			t.Errorf("%s does not answer %d: %s", name, want, r.PlainText())
		}
	}
}

// TestEveryHostFunctionLooksAtTheTime: a guest whose time is over ends in the next
// host function, whichever that is, before the function does anything. The control
// has time left; it ends otherwise, since it has no memory.
func TestEveryHostFunctionLooksAtTheTime(t *testing.T) {
	e := newEngine(t, Options{})
	for module, set := range hostModules {
		for name, f := range set {
			end := func(left time.Duration) (code tool.Code) {
				l := &lease{call: &hostfuncs.Call{}, term: newTerm(t.Context(), e, left, time.Time{})}
				defer l.term.end()
				defer func() {
					if s, ok := recover().(*stop); ok {
						code = tool.CodeOf(s)
					}
				}()
				f.bind(name)(context.WithValue(t.Context(), seatKey{}, &seat{l}), nil, make([]uint64, 8))
				return ""
			}
			if got := end(-time.Second); got != tool.Timeout {
				t.Errorf("%s.%s when the time is over ends with %q; want timeout", module, name, got)
			}
			if got := end(time.Hour); got == tool.Timeout {
				t.Errorf("control: %s.%s with an hour left ends with timeout", module, name)
			}
		}
	}
}

// TestClocks wants a real clock that is right and a monotonic one that starts
// with the call and moves on.
func TestClocks(t *testing.T) {
	began := time.Now().Add(-time.Second)
	l := &lease{began: began, day: began, call: &hostfuncs.Call{}}
	if now, ok := l.clock(clockReal); !ok || time.Since(time.Unix(0, now)).Abs() > time.Minute || now%int64(clockGrain) != 0 {
		t.Errorf("the real clock = %d, %v", now, ok)
	}
	a, _ := l.clock(clockMonotonic)
	if d := time.Duration(a); d < 2*time.Second || d > time.Minute || a%int64(clockGrain) != 0 {
		t.Errorf("the monotonic clock a second into the call = %s; want two", d)
	}
	if _, ok := l.clock(2); ok {
		t.Error("a clock of the processor's time is offered")
	}
}

// TestHostPanicIsInternal lets a sink panic under a host function.
func TestHostPanicIsInternal(t *testing.T) {
	e := newEngine(t, Options{})
	im := wasmasm.Import{Module: abiModule, Name: "log", Type: wasmasm.FuncType{Params: []byte{wasmasm.I32, wasmasm.I32, wasmasm.I32}, Results: []byte{wasmasm.I64}}}
	wasm := hostile.With(im, wasmasm.Code{}.I32Const(1).I32Const(0).I32Const(1))
	if r := run(t, e, wasm, panicking{}); r.Code != tool.Internal || strings.Contains(r.PlainText(), "secret") {
		t.Errorf("a panic in a host function = %q, %s; want internal without the panic's text", r.Code, r.PlainText())
	}
	if r := run(t, e, wasm, tool.Discard{}); r.IsError {
		t.Errorf("without the panic = %s", r.PlainText())
	}
}

type panicking struct{ tool.Discard }

func (panicking) Output(string, []byte) { panic("secret of the host") }

func TestRequestEncoding(t *testing.T) {
	at := time.Unix(1, 2)
	got, err := encodeRequest(tool.Invocation{CallID: "id", Arguments: []byte(`{"a":1}`)}, 3, at)
	want := slices.Concat([]byte{1, 0, 0, 0, 3, 0, 0, 0, 0x02, 0xca, 0x9a, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0}, make([]byte, 8), []byte(`id{"a":1}`))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("encodeRequest = %x, %v; want %x", got, err, want)
	}
	if _, err := encodeRequest(tool.Invocation{CallID: strings.Repeat("x", 257)}, 0, at); err == nil {
		t.Error("a call id of 257 bytes is taken")
	}
}

// FuzzHostFunctions calls one host function with arbitrary arguments on
// arbitrary memory. Whatever comes, the guest goes on or ends with a code that
// is its own fault.
func FuzzHostFunctions(f *testing.F) {
	type target struct {
		module, name string
		sig          string
	}
	var all []target
	for mod, set := range hostModules {
		for name, fn := range set {
			all = append(all, target{mod, name, fn.sig})
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.module+a.name, b.module+b.name) })
	for i := range all {
		f.Add(uint8(i), []byte(`{"kind":"grep","pattern":"x"}`), uint64(8), uint64(29), uint64(8), uint64(29), uint64(1))
		f.Add(uint8(i), []byte("a.txt"), uint64(8), uint64(5), uint64(1<<32-1), uint64(1<<32-1), uint64(0))
	}
	e := newEngine(f, Options{})
	w := fuzzSpace(f)
	f.Fuzz(func(t *testing.T, which uint8, memory []byte, a, b, c, d, x uint64) {
		tg := all[int(which)%len(all)]
		typ := signature(tg.sig)
		im := wasmasm.Import{Module: tg.module, Name: tg.name}
		var push wasmasm.Code
		args := []uint64{a, b, c, d, x}
		for i, p := range typ.Params {
			im.Type.Params = append(im.Type.Params, byte(p))
			if v := args[i%len(args)]; p == manifest.I64 {
				push = push.I64Const(int64(v))
			} else {
				push = push.I32Const(int32(v))
			}
		}
		for _, r := range typ.Results {
			im.Type.Results = append(im.Type.Results, byte(r))
		}
		call := push.Call(0)
		if len(typ.Results) > 0 {
			call = call.Drop()
		}
		m, err := e.Load(context.Background(), hostile.Calling(im, call, memory[:min(len(memory), 4000)]), LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		grant := hostfuncs.Grant{Read: []string{"**"}, Write: []string{"**"}}
		o := hostfuncs.NewOverlay(w, grant, nil, nil)
		defer o.Close()
		r, _, err := m.Run(context.Background(), &hostfuncs.Call{
			Grant: grant, Files: o,
			Invocation: tool.Invocation{CallID: "1", Arguments: []byte("{}"), Deadline: time.Now().Add(200 * time.Millisecond)},
		})
		switch r.Code {
		case "", tool.Trap, tool.Quota, tool.Timeout:
		default:
			t.Errorf("%s.%s(%v) = %s, %v", tg.module, tg.name, args, r.PlainText(), err)
		}
		if err != nil {
			t.Errorf("%s.%s(%v) = %v", tg.module, tg.name, args, err)
		}
	})
}
