package extism

import (
	"bytes"
	goruntime "runtime"
	"testing"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// allocated is what was allocated so far, freed since or not.
func allocated() int64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// TestFunctionsCopyLittle gives every function that takes a block a huge one:
// what it copies is not counted as the plugin's memory. The control is the copy
// without a bound, and that a block which fits is taken.
func TestFunctionsCopyLittle(t *testing.T) {
	const huge, little = 40 << 20, 2 << 20
	huger := make([]byte, huge)
	call := func(f hostFunction, which int, block []byte) (code tool.Code, copied int64) {
		h := testHost(64 << 20)
		h.Call.Limits.NoteBytes = hostfuncs.DefaultLimits().NoteBytes
		s := &state{host: h, kernel: newKernel(h.Memory)}
		args := []uint64{s.kernel.put([]byte("{}")), s.kernel.put([]byte("{}"))}
		args[which] = s.kernel.put(block)
		var err error
		before := allocated()
		func() {
			defer wasihost.Recover(&err)
			f.do(s, args)
		}()
		return tool.CodeOf(err), allocated() - before
	}
	tried := 0
	for _, set := range []map[string]hostFunction{hostFunctions, userFunctions} {
		for name, f := range set {
			for which := 0; f.sig[which] == 'I'; which++ {
				tried++
				if code, copied := call(f, which, huger); copied > little {
					t.Errorf("%s, argument %d: %d bytes were copied of a block of %d (%q)", name, which, copied, huge, code)
				}
				if code, _ := call(f, which, bytes.Repeat([]byte(" "), 100)); code == tool.TooLarge {
					t.Errorf("%s, argument %d: a block of 100 bytes is too large", name, which)
				}
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d arguments were tried", tried)
	}
	without := hostFunction{sig: "I>", do: func(c *state, a []uint64) { c.kernel.take(a[0]) }}
	if _, copied := call(without, 0, huger); copied < huge {
		t.Errorf("control: without a bound %d bytes were copied of %d", copied, huge)
	}
}
