package linmem

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"
)

func TestReallocate(t *testing.T) {
	const limit = 8 * WasmPage
	image := mustImage(t, layout("full", 2*WasmPage))
	m := mustNew(t, limit+WasmPage-1, image, detected()) // rounded down
	first := mustRealloc(t, m, 2*WasmPage)
	start := unsafe.SliceData(first)
	for _, c := range []struct {
		size uint64
		ok   bool
	}{
		{2 * WasmPage, true},
		{0, false}, {WasmPage, false}, // never smaller
		{2*WasmPage + 1, false}, {3*WasmPage - 1, false}, // whole pages only
		{3 * WasmPage, true},
		{limit + 1, false}, {limit + WasmPage, false},
		{4 << 30, false}, {4<<30 + WasmPage, false}, {math.MaxUint64, false},
		{math.MaxUint64 &^ (WasmPage - 1), false}, {1<<63 + limit, false}, {1<<32 + 4*WasmPage, false},
		{limit, true},
		{limit, true},
		{limit + WasmPage, false},
	} {
		before := m.Size()
		b := m.Reallocate(c.size)
		if !c.ok {
			if b != nil || !m.Refused() || m.Size() != before {
				t.Fatalf("Reallocate(%#x) = %d bytes, Refused %v, Size %#x; want nil, true, %#x", c.size, len(b), m.Refused(), m.Size(), before)
			}
			continue
		}
		if uint64(len(b)) != c.size || uint64(cap(b)) != c.size || unsafe.SliceData(b) != start {
			t.Fatalf("Reallocate(%#x): length %#x, capacity %#x, moved %v", c.size, len(b), cap(b), unsafe.SliceData(b) != start)
		}
		for i := before; i < c.size; i++ {
			if b[i] != 0 {
				t.Fatalf("byte %#x of grown memory is %#x; want 0", i, b[i])
			}
		}
		if c.size > 0 {
			b[c.size-1] = 0
		}
	}
	if !m.Grown() {
		t.Error("Grown() = false after growth")
	}
	m.Free()
	m.Free()
	if b := m.Reallocate(limit); b != nil {
		t.Errorf("Reallocate after Free = %d bytes; want nil", len(b))
	}
	if _, err := m.Reset(); !errors.Is(err, ErrFreed) {
		t.Errorf("Reset after Free = %v; want ErrFreed", err)
	}
}

// A growth that is refused must be forgotten by the next reset, and a growth by
// nothing is none.
func TestRefusedUntilReset(t *testing.T) {
	m := mustNew(t, 2*WasmPage, mustImage(t, make([]byte, WasmPage)), detected())
	mustRealloc(t, m, WasmPage)
	if m.Refused() || m.Grown() {
		t.Fatalf("Refused %v, Grown %v at the start; want neither", m.Refused(), m.Grown())
	}
	m.Reallocate(3 * WasmPage)
	if !m.Refused() {
		t.Fatal("Refused() = false after a growth above the limit")
	}
	if _, err := m.Reset(); err != nil || m.Refused() {
		t.Fatalf("Reset = %v, Refused %v; want nil, false", err, m.Refused())
	}
}

func TestWithoutImage(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		m := mustNew(t, 4*WasmPage, nil, how)
		if b := mustRealloc(t, m, 0); b == nil {
			t.Fatal("Reallocate(0) = nil; want an empty slice")
		}
		m.Free()
		m = mustNew(t, 4*WasmPage, nil, how)
		b := mustRealloc(t, m, 2*WasmPage)
		b[0], b[WasmPage], b[2*WasmPage-1] = 1, 2, 3
		_ = b[5*pageSize] // read, not written
		if _, err := m.Reset(); err != nil {
			t.Fatal(err)
		}
		if d := differs(b, make([]byte, 2*WasmPage)); d != "" {
			t.Fatal("after Reset ", d)
		}
		if b := mustRealloc(t, m, 4*WasmPage); !m.Grown() || len(b) != 4*WasmPage {
			t.Fatal("growth to the limit is not reported")
		}
	})
}

func TestNewRefuses(t *testing.T) {
	image := mustImage(t, make([]byte, 2*WasmPage))
	closed, err := NewImage(make([]byte, WasmPage))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		limit uint64
		image *Image
	}{
		{MaxLimit + 1, nil}, {MaxLimit + WasmPage, nil}, {math.MaxUint64, nil}, {math.MaxUint64 - Guard, nil}, {1 << 63, nil},
		{WasmPage, image}, {2*WasmPage - 1, image}, {0, image},
		{WasmPage, closed},
	} {
		if m, err := New(c.limit, c.image); err == nil {
			m.Free()
			t.Errorf("New(%#x) with an image %v succeeded; want an error", c.limit, c.image != nil)
		}
	}
	for _, n := range []int{1, WasmPage - 1, WasmPage + 1, WasmPage + int(pageSize)} {
		if n%WasmPage == 0 {
			continue
		}
		if _, err := NewImage(make([]byte, n)); err == nil {
			t.Errorf("NewImage(%d bytes) succeeded; want an error", n)
		}
	}
}

// The largest memory that exists: its address space is reserved and a growth to
// all of it succeeds, unless the system refuses, which it must do with nil.
func TestFourGiB(t *testing.T) {
	if math.MaxInt < MaxLimit+2*Guard {
		t.Skip("addresses have 32 bits")
	}
	m := mustNew(t, MaxLimit, mustImage(t, layout("full", WasmPage)), detected())
	mustRealloc(t, m, WasmPage)
	if b := m.Reallocate(MaxLimit); b != nil {
		if uint64(len(b)) != MaxLimit || uint64(cap(b)) != MaxLimit {
			t.Fatalf("Reallocate(4 GiB): length %#x, capacity %#x", len(b), cap(b))
		}
		b[len(b)-1] = 1
	} else if !m.Refused() {
		t.Fatal("Reallocate(4 GiB) = nil and Refused() = false")
	}
	if b := m.Reallocate(MaxLimit + WasmPage); b != nil {
		t.Fatalf("Reallocate(4 GiB + a page) = %d bytes; want nil", len(b))
	}
}

// An image lives as long as somebody needs it.
func TestImageOutlivedByMemory(t *testing.T) {
	want := layout("full", WasmPage)
	image, err := NewImage(want)
	if err != nil {
		t.Fatal(err)
	}
	m := mustNew(t, WasmPage, image, detected())
	b := mustRealloc(t, m, WasmPage)
	if err := image.Close(); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if _, err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if d := differs(b, want); d != "" {
		t.Fatal("after Close and Reset ", d)
	}
	m.Free()
	if !image.gone {
		t.Fatal("the last Free of a closed image kept it")
	}
	if image.refs != 0 {
		t.Fatalf("refs = %d; want 0", image.refs)
	}
}

func init() { children["guard"] = guardChild }

// guardChild touches the edges of a memory and prints whether that faulted.
func guardChild() error {
	debug.SetPanicOnFault(true)
	const size, limit = 2 * WasmPage, 4 * WasmPage
	mem := make([]byte, size)
	mem[0], mem[size-1] = 1, 1
	image, err := NewImage(mem)
	if err != nil {
		return err
	}
	m, err := New(limit, image)
	if err != nil {
		return err
	}
	if m.Reallocate(size) == nil {
		return errors.New("Reallocate = nil")
	}
	touch := func(off int, write bool) (result string) {
		defer func() {
			if recover() != nil {
				result = "fault"
			}
		}()
		p := (*byte)(unsafe.Add(m.base, off))
		if write {
			*p = 1
		} else if *p == 77 {
			return "odd"
		}
		return "ok"
	}
	probe := func(when string) {
		for _, off := range []int{-Guard, -1, 0, size - 1, size, 3*WasmPage - 1, 3 * WasmPage, limit - 1, limit, limit + Guard - 1} {
			fmt.Println(when, off, touch(off, false), touch(off, true))
		}
	}
	probe("first")
	if m.Reallocate(3*WasmPage) == nil {
		return errors.New("Reallocate = nil")
	}
	probe("grown")
	return nil
}

func TestGuard(t *testing.T) {
	got := lines(child(t, "guard"))
	var want []string
	for _, c := range []struct {
		when string
		size int
	}{{"first", 2 * WasmPage}, {"grown", 3 * WasmPage}} {
		for _, off := range []int{-Guard, -1, 0, 2*WasmPage - 1, 2 * WasmPage, 3*WasmPage - 1, 3 * WasmPage, 4*WasmPage - 1, 4 * WasmPage, 4*WasmPage + Guard - 1} {
			r := "fault fault"
			if off >= 0 && off < c.size { // the control: the same access within succeeds
				r = "ok ok"
			}
			want = append(want, fmt.Sprintln(c.when, off, r))
		}
	}
	if g, w := strings.Join(got, "\n")+"\n", strings.Join(want, ""); g != w {
		t.Errorf("accesses at the edges:\n%swant:\n%s", g, w)
	}
}
