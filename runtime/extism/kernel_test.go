package extism

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

func sdkDir(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/extism/go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func testHost(limit int64) *wasihost.Host {
	c := &hostfuncs.Call{}
	c.Limits.MemoryBytes = limit
	return wasihost.New(context.Background(), c)
}

// twin is the SDK's own kernel.
type twin struct {
	t   *testing.T
	mod api.Module
}

func newTwin(t *testing.T) twin {
	t.Helper()
	code, err := os.ReadFile(filepath.Join(sdkDir(t), "extism-runtime.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { r.Close(context.Background()) })
	mod, err := r.Instantiate(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	return twin{t, mod}
}

func (w twin) call(name string, args ...uint64) uint64 {
	out, err := w.mod.ExportedFunction(name).Call(w.t.Context(), args...)
	if err != nil {
		w.t.Fatalf("%s%v: %v", name, args, err)
	}
	if len(out) == 0 {
		return 0
	}
	return out[0]
}

func (k *kernel) do(name string, args ...uint64) uint64 {
	stack := append(append([]uint64(nil), args...), 0)
	k.call(name, stack)
	if strings.HasSuffix(kernelFunctions[name], ">") {
		return 0
	}
	return stack[0]
}

// TestKernelTwin does the same random things to our kernel and to the SDK's, as
// plugins and hosts do: only with blocks that they were given. Offsets differ;
// everything else must not.
func TestKernelTwin(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		ours, theirs := newKernel(testHost(32<<20).Memory), newTwin(t)
		theirs.call("reset")
		type pair struct{ a, b, n uint64 }
		var live []pair
		// SDK kernels reuse larger blocks for smaller wishes, so content of a
		// new block is compared only where it was written.
		written := map[uint64]map[uint64]bool{}
		both := func(name string, a, b []uint64) {
			t.Helper()
			if x, y := ours.do(name, a...), theirs.call(name, b...); x != y {
				t.Fatalf("seed %d: %s(%v) = %d, theirs (%v) %d", seed, name, a, x, b, y)
			}
		}
		for range 3000 {
			switch op := rnd.IntN(12); {
			case op == 0 || len(live) == 0:
				n := uint64(rnd.IntN(300))
				a, b := ours.do("alloc", n), theirs.call("alloc", n)
				if (a == 0) != (b == 0) {
					t.Fatalf("seed %d: alloc(%d) = %d, theirs %d", seed, n, a, b)
				}
				if a != 0 {
					live = append(live, pair{a, b, n})
					written[a] = map[uint64]bool{}
				}
			case op == 1:
				i := rnd.IntN(len(live))
				p := live[i]
				ours.do("free", p.a)
				theirs.call("free", p.b)
				live = append(live[:i], live[i+1:]...)
				delete(written, p.a)
			case op == 2:
				p := live[rnd.IntN(len(live))]
				both("length", []uint64{p.a}, []uint64{p.b})
				both("length_unsafe", []uint64{p.a}, []uint64{p.b})
			case op < 6:
				p := live[rnd.IntN(len(live))]
				at, v := uint64(rnd.IntN(int(p.n))), uint64(rnd.IntN(256))
				ours.do("store_u8", p.a+at, v)
				theirs.call("store_u8", p.b+at, v)
				written[p.a][at] = true
			case op < 8:
				p := live[rnd.IntN(len(live))]
				if at := uint64(rnd.IntN(int(p.n))); written[p.a][at] {
					both("load_u8", []uint64{p.a + at}, []uint64{p.b + at})
				}
			case op == 8:
				p := live[rnd.IntN(len(live))]
				name := []string{"input_set", "output_set"}[rnd.IntN(2)]
				n := uint64(rnd.IntN(int(p.n) + 1))
				ours.do(name, p.a, n)
				theirs.call(name, p.b, n)
			case op == 9:
				both("input_length", nil, nil)
				both("output_length", nil, nil)
				n := ours.do("input_length")
				at := uint64(rnd.IntN(400))
				if at >= n {
					both("input_load_u8", []uint64{at}, []uint64{at})
				}
			case op == 10:
				p := live[rnd.IntN(len(live))]
				ours.do("error_set", p.a)
				theirs.call("error_set", p.b)
				if ours.do("error_get") != p.a || theirs.call("error_get") != p.b {
					t.Fatalf("seed %d: error_get is not what was set", seed)
				}
				ours.do("error_set", 0)
				theirs.call("error_set", 0)
				both("error_get", nil, nil)
			default:
				// What is no block has no length.
				both("length", []uint64{0}, []uint64{0})
				both("alloc", []uint64{0}, []uint64{0})
			}
		}
	}
}

// TestKernelBounds gives our kernel what no plugin should.
func TestKernelBounds(t *testing.T) {
	h := testHost(1 << 20)
	k := newKernel(h.Memory)
	trap := func(name string, args ...uint64) {
		t.Helper()
		defer func() {
			if e, ok := recover().(*tool.Error); !ok || e.Code != tool.Trap {
				t.Errorf("%s%v ends with %v; want a trap", name, args, e)
			}
		}()
		k.do(name, args...)
		t.Errorf("%s%v went well", name, args)
	}
	for _, at := range []uint64{1 << 20, 1<<64 - 1, 1<<64 - 8, 1 << 32, uint64(len(k.mem)) - 7} {
		trap("load_u64", at)
		trap("store_u64", at, 1)
		trap("input_load_u64", at)
		if v := k.do("load_u8", at); v != 0 {
			t.Errorf("load_u8(%d) = %d", at, v)
		}
		k.do("store_u8", at, 1)
		k.do("free", at)
		k.do("output_set", at, 10)
		k.do("input_set", at, 1<<63)
		k.do("error_set", at)
		if k.do("length", at) != 0 || k.output.n != 0 || k.input.n != 0 || k.message(100) != "" {
			t.Errorf("%d was taken for memory", at)
		}
	}
	trap("store_u64", 0, 1)
	if got := k.alloc(2 << 20); got != 0 {
		t.Errorf("alloc of twice the limit gives %d", got)
	}
	n := 0
	for k.alloc(1) != 0 {
		n++
	}
	if n == 0 || n > 1<<20/blockCost {
		t.Errorf("%d blocks of one byte fit into a limit of 1 MiB", n)
	}
	if !h.Memory.Refused() {
		t.Error("the memory does not know that it was refused")
	}
	k.reset()
	if k.alloc(1) == 0 {
		t.Error("after reset there is no room")
	}
}

// TestBlocksAreNotCopiedForEachOther takes all the memory that a plugin has in small
// blocks beside a large one. No poll of the guest's stands between them, so each has
// to take little time: what is there is copied as seldom near the limit as elsewhere.
func TestBlocksAreNotCopiedForEachOther(t *testing.T) {
	for _, limit := range []int64{1 << 20, 3<<20 - 5} {
		for _, part := range []int64{0, 4, 8, 9} {
			k := newKernel(testHost(limit).Memory)
			before := allocated()
			if large := uint64(limit * part / 10); large > 0 && k.alloc(large) == 0 {
				t.Fatalf("no room for %d of %d bytes", large, limit)
			}
			n := int64(0)
			for k.alloc(1) != 0 {
				n++
			}
			if got, most := allocated()-before, 24*limit+n*2*blockCost; got > most {
				t.Errorf("%d blocks beside %d tenths of %d bytes allocate %d; want at most %d", n, part, limit, got, most)
			}
			if used := limit - int64(k.memory.Left()); used < limit*9/10 {
				t.Errorf("beside %d tenths only %d of %d bytes can be used", part, used, limit)
			}
		}
	}
}

// TestNothingOfTheSDKIsReachable: after preparation no plugin imports a function
// of the SDK's.
func TestNothingOfTheSDKIsReachable(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sdkDir(t), "wasm", "*.wasm"))
	if err != nil || len(files) < 19 {
		t.Fatalf("%d plugins, %v", len(files), err)
	}
	for _, f := range files {
		code, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := manifest.Strip(code)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Prepare(t.Context(), plain)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
			continue
		}
		m, err := rewrite.Decode(out.Code)
		if err != nil {
			t.Fatal(err)
		}
		for _, im := range m.Imports() {
			if im.Module == envModule {
				t.Errorf("%s still imports %s of %s", filepath.Base(f), im.Field, im.Module)
			}
		}
	}
}
