package linmem

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
)

// writes are the ways in which a guest can dirty n pages.
func writes(n int, r *rand.Rand) map[string]func(b []byte) {
	page := int(pageSize)
	return map[string]func(b []byte){
		"none":       func([]byte) {},
		"all":        func(b []byte) { fill(b, 0xff) },
		"clear":      func(b []byte) { clear(b) },
		"first byte": func(b []byte) { b[0]++ },
		"last byte":  func(b []byte) { b[len(b)-1]++ },
		"last page":  func(b []byte) { fill(b[(n-1)*page:], 7) },
		"even":       func(b []byte) { each(b, func(p int) bool { return p%2 == 0 }) },
		"odd":        func(b []byte) { each(b, func(p int) bool { return p%2 == 1 }) },
		"same bytes": func(b []byte) { copy(b, append([]byte(nil), b...)) },
		"read all":   func(b []byte) { bytes.Count(b, []byte{42}) },
		"read, write": func(b []byte) {
			bytes.Count(b, []byte{42})
			each(b, func(p int) bool { return p%5 == 0 })
		},
		"random": func(b []byte) {
			for range 1 + r.IntN(20) {
				from := r.IntN(len(b))
				fill(b[from:from+r.IntN(min(len(b)-from, 3*page))], byte(r.Uint32()))
			}
		},
	}
}

func fill(b []byte, v byte) {
	for n := copy(b, []byte{v}); n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func each(b []byte, pick func(p int) bool) {
	page := int(pageSize)
	for p := range len(b) / page {
		if pick(p) {
			b[p*page+p%page]++
		}
	}
}

// Whatever was written, a reset gives the image, byte for byte, and does so again
// and again in the same memory.
func TestResetEqualsImage(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		for _, wasmPages := range []int{1, 3, 17} {
			n := wasmPages * WasmPage / int(pageSize)
			for name, want := range layouts(n * int(pageSize)) {
				image := mustImage(t, want)
				m := mustNew(t, uint64(len(want)), image, how)
				b := mustRealloc(t, m, uint64(len(want)))
				if d := differs(b, want); d != "" {
					t.Fatalf("%d pages, image %s: at the start %s", n, name, d)
				}
				r := rand.New(rand.NewPCG(7, uint64(n)))
				kinds := writes(n, r)
				for round := range 3 {
					for kind, write := range kinds {
						write(b)
						s, err := m.Reset()
						if err != nil || s.Mechanism != how.String() {
							t.Fatalf("Reset = %+v, %v; want by %v", s, err, how)
						}
						if d := differs(b, want); d != "" {
							t.Fatalf("%d pages, image %s, write %q, round %d: after Reset %s", n, name, kind, round, d)
						}
					}
				}
			}
		}
	})
}

// The same where there are no files in memory, which other systems than Linux
// never have: nothing may be dropped, since nothing would bring it back.
func TestCopiedImage(t *testing.T) {
	n := 3 * WasmPage / int(pageSize)
	for name, want := range layouts(n * int(pageSize)) {
		image := &Image{size: uint64(len(want)), filled: mustImage(t, want).filled}
		image.keep(want[:(bytes.LastIndexFunc(want, func(r rune) bool { return r != 0 })+int(pageSize))&^int(pageSize-1)])
		m := mustNew(t, 4*WasmPage, image, detected())
		b := mustRealloc(t, m, uint64(len(want)))
		if d := differs(b, want); d != "" {
			t.Fatalf("image %s: at the start %s", name, d)
		}
		for kind, write := range writes(n, rand.New(rand.NewPCG(7, 7))) {
			write(b)
			if s, err := m.Reset(); err != nil || s.Mechanism != "copy" {
				t.Fatalf("Reset = %+v, %v; want by copy", s, err)
			}
			if d := differs(b, want); d != "" {
				t.Fatalf("image %s, write %q: after Reset %s", name, kind, d)
			}
		}
		b = mustRealloc(t, m, 4*WasmPage)
		fill(b, 1)
		if s, err := m.Reset(); !errors.Is(err, ErrGrown) || s.Mechanism != "copy" {
			t.Fatalf("Reset = %+v, %v; want ErrGrown", s, err)
		}
		if d := differs(b, append(bytes.Clone(want), make([]byte, WasmPage)...)); d != "" {
			t.Fatalf("image %s: grown, after Reset %s", name, d)
		}
	}
}

// Other memories of the image never see a write, nor does the image.
func TestMemoriesAreApart(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		want := layout("holes", 2*WasmPage)
		image := mustImage(t, want)
		a, b := mustNew(t, 4*WasmPage, image, how), mustNew(t, 4*WasmPage, image, how)
		x, y := mustRealloc(t, a, 2*WasmPage), mustRealloc(t, b, 2*WasmPage)
		fill(x, 0xaa)
		if d := differs(y, want); d != "" {
			t.Fatal("after a write to another memory ", d)
		}
		if z := mustRealloc(t, mustNew(t, 4*WasmPage, image, how), 2*WasmPage); differs(z, want) != "" {
			t.Fatal("a new memory: ", differs(z, want))
		}
	})
}

// More than KeepBytes: what is above is dropped, the bytes are still the image's.
func TestResetBeyondKeep(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		n := (2*KeepBytes + 5*WasmPage) / int(pageSize)
		for _, name := range []string{"full", "holes", "tail"} {
			want := layout(name, n*int(pageSize))
			image := mustImage(t, want)
			for _, every := range []int{1, 2, 3, 64} {
				m := mustNew(t, uint64(len(want)), image, how)
				b := mustRealloc(t, m, uint64(len(want)))
				each(b, func(p int) bool { return p%every == 0 })
				s, err := m.Reset()
				if err != nil {
					t.Fatal(err)
				}
				if d := differs(b, want); d != "" {
					t.Fatalf("image %s, every %d. page written: after Reset %s", name, every, d)
				}
				if over := uint64((n-1)/every+1)*pageSize > KeepBytes; how >= pagemap && s.Dropped != over {
					t.Errorf("image %s, every %d. page written: Dropped = %v; want %v (%+v)", name, every, s.Dropped, over, s)
				}
			}
		}
	})
}

// A memory whose page table is read in several pieces, written to at their edges.
func TestResetLarge(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		const size = 20 << 20
		n := size / int(pageSize)
		want := layout("tail", size)
		m := mustNew(t, size, mustImage(t, want), how)
		b := mustRealloc(t, m, size)
		for _, pages := range [][]int{{0}, {n - 1}, {511, 512, 513}, {4095, 4096, 4097}, {4094, 4095}, {4096}, {0, 2047, 4096, n - 1}} {
			for _, p := range pages {
				b[p*int(pageSize)+p%int(pageSize)]++
			}
			s, err := m.Reset()
			if err != nil || how != dontneed && s.Changed == 0 && !s.Dropped {
				t.Fatalf("pages %d: Reset = %+v, %v", pages, s, err)
			}
			if d := differs(b, want); d != "" {
				t.Fatalf("pages %d: after Reset %s", pages, d)
			}
		}
	})
}

// A memory that grew is never handed on with another call's bytes in it.
func TestResetGrown(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		want := layout("holes", 2*WasmPage)
		m := mustNew(t, 6*WasmPage, mustImage(t, want), how)
		mustRealloc(t, m, 2*WasmPage)
		b := mustRealloc(t, m, 5*WasmPage)
		fill(b, 0x55)
		for range 2 {
			if _, err := m.Reset(); !errors.Is(err, ErrGrown) {
				t.Fatalf("Reset = %v; want ErrGrown", err)
			}
			if d := differs(b[:2*WasmPage], want); d != "" {
				t.Fatal("the image's part: ", d)
			}
			if d := differs(b[2*WasmPage:], make([]byte, 3*WasmPage)); d != "" {
				t.Fatal("the grown part: ", d)
			}
		}
		if !m.Grown() || m.Size() != 5*WasmPage {
			t.Fatalf("Grown %v, Size %d; want true, %d", m.Grown(), m.Size(), 5*WasmPage)
		}
		// What was never handed out holds nothing either.
		if d := differs(mustRealloc(t, m, 6*WasmPage)[5*WasmPage:], make([]byte, WasmPage)); d != "" {
			t.Fatal("the last page: ", d)
		}
	})
}

// An engine that starts a memory larger than its image has one that a reset
// cannot restore, since nobody knows what was written behind the image.
func TestStartedLargerThanImage(t *testing.T) {
	m := mustNew(t, 2*WasmPage, mustImage(t, make([]byte, WasmPage)), detected())
	mustRealloc(t, m, 2*WasmPage)
	if _, err := m.Reset(); !m.Grown() || !errors.Is(err, ErrGrown) {
		t.Fatalf("Grown %v, Reset = %v; want true, ErrGrown", m.Grown(), err)
	}
}

// One large call must not make all later small ones slow, and calls of one size
// must not lose their pages.
func TestCalmMemoryGivesPagesBack(t *testing.T) {
	if detected() < pagemap {
		t.Skip("pages are not counted by", Mechanism())
	}
	const size = KeepBytes + WasmPage
	want := layout("holes", size)
	m := mustNew(t, size, mustImage(t, want), detected())
	b := mustRealloc(t, m, size)
	large := int(2 * calmBytes / pageSize)
	call := func(pages int) Stats {
		for p := range pages {
			b[p*int(pageSize)]++
		}
		s, err := m.Reset()
		if err != nil || s.Changed != pages {
			t.Fatalf("Reset = %+v, %v; want %d pages changed", s, err, pages)
		}
		if d := differs(b, want); d != "" {
			t.Fatal(d)
		}
		return s
	}
	for range 3 * calmResets {
		if s := call(large); s.Dropped || s.Private != large {
			t.Fatalf("a steady call: %+v; want its %d pages kept", s, large)
		}
	}
	for i := 1; i <= calmResets; i++ {
		if s := call(1); s.Dropped != (i == calmResets) || s.Private != large {
			t.Fatalf("small call %d after large ones: %+v", i, s)
		}
	}
	if s := call(1); s.Private != 1 {
		t.Fatalf("a small call after the drop: %+v; want one private page", s)
	}

	// Kept pages that nobody uses must not hold the place of those in use either.
	fill(b, 1)
	if s, err := m.Reset(); err != nil || s.Private < KeepBytes/int(pageSize) {
		t.Fatalf("Reset of everything = %+v, %v", s, err)
	}
	last := -1
	for i := range 2 * calmResets {
		b[KeepBytes+WasmPage-1]++
		s, err := m.Reset()
		if d := differs(b, want); err != nil || d != "" {
			t.Fatal(err, d)
		}
		if last < 0 && s.Private == 1 {
			last = i
		}
	}
	if last != calmResets {
		t.Fatalf("the page behind %d kept ones was kept from call %d; want %d", KeepBytes/pageSize, last, calmResets)
	}
}

// Different memories may be reset, grown, made and freed at the same time.
func TestConcurrent(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		want := layout("random", 4*WasmPage)
		image := mustImage(t, want)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(3, uint64(g)))
				for range 6 {
					m, err := newMemory(6*WasmPage, image, how)
					if err != nil {
						t.Error(err)
						return
					}
					b := m.Reallocate(4 * WasmPage)
					for range 10 {
						for range r.IntN(12) {
							b[r.IntN(len(b))] = byte(g + 1)
						}
						if _, err := m.Reset(); err != nil {
							t.Error(err)
						}
						if d := differs(b, want); d != "" {
							t.Errorf("goroutine %d: %s", g, d)
							return
						}
					}
					m.Reallocate(6 * WasmPage)[5*WasmPage] = 1
					m.Free()
				}
			})
		}
		wg.Wait()
	})
}

// FuzzReset plays a guest on a memory of each mechanism and on a plain slice.
func FuzzReset(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xff, 0, 0xff, 0, 0, 0, 0, 0, 1, 2, 3, 4, 250, 0, 0, 0, 251, 0, 0, 0})
	f.Add([]byte{1, 2, 4, 8, 16, 32, 64, 128, 253, 5, 0, 0, 250, 0, 0, 0, 252, 0, 0, 0, 250, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 253, 1, 0, 0, 200, 255, 255, 9, 250, 0, 0, 0, 40, 255, 255, 1, 250, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		const first, limit = 4 * WasmPage, 8 * WasmPage
		want := make([]byte, first)
		var layout [8]byte
		in = in[copy(layout[:], in):]
		for p := range uint64(first) / pageSize {
			if layout[p/8%8]>>(p%8)&1 == 1 {
				want[p*pageSize+p*13%pageSize] = byte(p | 1)
			}
		}
		image := mustImage(t, want)
		for how := whole; how <= detected(); how++ {
			m := mustNew(t, limit, image, how)
			b := mustRealloc(t, m, first)
			twin := bytes.Clone(want)
			ops := in
			for step := 0; len(ops) >= 4 && step < 256; step++ {
				op, x, y, v := ops[0], int(ops[1]), int(ops[2]), ops[3]
				ops = ops[4:]
				switch {
				case op >= 254: // read all
					bytes.Count(b, []byte{v})
				case op == 253: // grow by x
					size := len(twin) + x*WasmPage
					got := m.Reallocate(uint64(size))
					if (got != nil) != (size <= limit) {
						t.Fatalf("%v: Reallocate(%d) = %d bytes", how, size, len(got))
					}
					if got != nil {
						b = got
						twin = append(twin, make([]byte, x*WasmPage)...)
					}
				case op >= 250: // reset
					_, err := m.Reset()
					if grown := len(twin) > first; errors.Is(err, ErrGrown) != grown || (err != nil && !grown) {
						t.Fatalf("%v: Reset = %v with %d bytes", how, err, len(twin))
					}
					clear(twin)
					copy(twin, want)
					if d := differs(b, twin); d != "" {
						t.Fatalf("%v: after Reset %s", how, d)
					}
				default: // write a run of op+1 bytes
					from := (x<<8 | y) * len(twin) >> 16
					to := min(from+(int(op)+1)*37, len(twin))
					fill(b[from:to], v)
					fill(twin[from:to], v)
				}
				if len(b) != len(twin) || cap(b) != len(b) {
					t.Fatalf("%v: length %d, capacity %d; want %d", how, len(b), cap(b), len(twin))
				}
			}
			if d := differs(b, twin); d != "" {
				t.Fatalf("%v: at the end %s", how, d)
			}
			m.Free()
		}
	})
}
