package runtime

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/linmem"
)

// TestEngineHidesLargeGrowth is the control for manifest.BoundGrowth: without
// it the engine refuses 4 GiB by itself, the allocator does not learn of it, and
// a guest that then fails would count as broken and not as out of memory.
func TestEngineHidesLargeGrowth(t *testing.T) {
	bare := find(t, "grow-4gib")
	bounded, err := manifest.BoundGrowth(bare, maxTable)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		wasm []byte
		want bool
	}{{bare, false}, {bounded, true}} {
		l := newMemory(t, 64<<20)
		ctx := experimental.WithMemoryAllocator(context.Background(), allocator{l})
		r := wazero.NewRuntime(ctx)
		mod, err := r.Instantiate(ctx, c.wasm)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mod.ExportedFunction("wt_call").Call(ctx, 0, 0); err == nil {
			t.Error("the guest got 4 GiB")
		}
		if l.Refused() != c.want {
			t.Errorf("the allocator refused: %v, want %v", l.Refused(), c.want)
		}
		r.Close(ctx)
	}
}

// TestEngineForgetsMemory is the control for the instance's own Free: where
// making an instance fails, the engine leaves its memory allocated.
func TestEngineForgetsMemory(t *testing.T) {
	l := &freed{Memory: newMemory(t, 1<<20)}
	ctx := experimental.WithMemoryAllocator(context.Background(), experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return l }))
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	if _, err := r.Instantiate(ctx, find(t, "data-outside")); err == nil {
		t.Fatal("a data segment outside the memory is taken")
	}
	if l.times != 0 {
		t.Errorf("the engine frees the memory %d times by now; the instance need not do it again", l.times)
	}
}

func newMemory(t *testing.T, limit uint64) *linmem.Memory {
	t.Helper()
	m, err := linmem.New(limit, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

type freed struct {
	*linmem.Memory
	times int
}

func (f *freed) Free() { f.times++; f.Memory.Free() }
