package runtime

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/manifest"
)

func TestLinearMemory(t *testing.T) {
	l := &linear{limit: 4 << 16}
	if got := l.Reallocate(1 << 16); len(got) != 1<<16 || cap(got) != 1<<16 {
		t.Fatalf("Reallocate(64 KiB) has length %d and capacity %d", len(got), cap(got))
	} else {
		got[1<<16-1] = 7
	}
	got := l.Reallocate(4 << 16)
	if len(got) != 4<<16 || got[1<<16-1] != 7 || got[1<<16] != 0 || l.refused {
		t.Errorf("Reallocate(256 KiB) has length %d, refused %v", len(got), l.refused)
	}
	got[4<<16-1] = 1
	if got := l.Reallocate(5 << 16); got != nil || !l.refused {
		t.Errorf("Reallocate above the limit has length %d, refused %v; want nil, true", len(got), l.refused)
	}
	if l.peak != 4<<16 {
		t.Errorf("peak = %d", l.peak)
	}
	l.Free()
	l.Free() // the engine and the lease both do it
	if got := (&linear{}).Reallocate(1); got != nil {
		t.Error("memory without a limit gives memory")
	}
}

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
		l := &linear{limit: 64 << 20}
		ctx := experimental.WithMemoryAllocator(context.Background(), l)
		r := wazero.NewRuntime(ctx)
		mod, err := r.Instantiate(ctx, c.wasm)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mod.ExportedFunction("wt_call").Call(ctx, 0, 0); err == nil {
			t.Error("the guest got 4 GiB")
		}
		if l.refused != c.want {
			t.Errorf("the allocator refused: %v, want %v", l.refused, c.want)
		}
		r.Close(ctx)
	}
}

// TestEngineForgetsMemory is the control for the lease's second Free: where
// making an instance fails, the engine leaves its memory allocated.
func TestEngineForgetsMemory(t *testing.T) {
	l := &freed{linear: linear{limit: 1 << 20}}
	ctx := experimental.WithMemoryAllocator(context.Background(), experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return l }))
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	if _, err := r.Instantiate(ctx, find(t, "data-outside")); err == nil {
		t.Fatal("a data segment outside the memory is taken")
	}
	if l.times != 0 {
		t.Errorf("the engine frees the memory %d times by now; the lease need not do it again", l.times)
	}
}

type freed struct {
	linear
	times int
}

func (f *freed) Free() { f.times++; f.linear.Free() }
