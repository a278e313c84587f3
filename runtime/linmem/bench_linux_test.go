package linmem

import (
	"fmt"
	"testing"
)

// benchImage is an image in which two of three pages hold data.
func benchImage(size uint64) []byte {
	b := make([]byte, size)
	for p := uint64(0); p < size/pageSize; p++ {
		if p%3 != 0 {
			b[p*pageSize] = 1
		}
	}
	return b
}

// BenchmarkReset is a call that writes to so many pages, evenly spread, and the
// reset after it. Faults of the writes are part of it: they are what dropping
// pages costs.
func BenchmarkReset(b *testing.B) {
	for _, c := range []struct {
		size  uint64
		pages int
	}{
		{WasmPage, 1}, {4 << 20, 0}, {4 << 20, 1}, {4 << 20, 8}, {4 << 20, 64}, {4 << 20, 1024},
		{64 << 20, 0}, {64 << 20, 1}, {64 << 20, 8}, {64 << 20, 64}, {64 << 20, 1024}, {64 << 20, 16384},
	} {
		image := mustImage(b, benchImage(c.size))
		for how := detected(); ; how-- {
			b.Run(fmt.Sprintf("image=%dKiB/pages=%d/%v", c.size>>10, c.pages, how), func(b *testing.B) {
				m := mustNew(b, c.size, image, how)
				mem := mustRealloc(b, m, c.size)
				step := c.size
				if c.pages > 0 {
					step /= uint64(c.pages)
				}
				for b.Loop() {
					for i, off := 0, uint64(8); i < c.pages; i, off = i+1, off+step {
						mem[off]++
					}
					if _, err := m.Reset(); err != nil {
						b.Fatal(err)
					}
				}
			})
			if how == whole {
				break
			}
		}
	}
}

var sink byte

// BenchmarkResetAfterReads is a reset of a memory whose pages were all read once
// and none written: the kernel has an entry for each page to look at.
func BenchmarkResetAfterReads(b *testing.B) {
	for _, size := range []uint64{WasmPage, 4 << 20, 64 << 20} {
		image := mustImage(b, benchImage(size))
		for how := detected(); how >= dontneed; how-- {
			b.Run(fmt.Sprintf("image=%dKiB/%v", size>>10, how), func(b *testing.B) {
				m := mustNew(b, size, image, how)
				mem := mustRealloc(b, m, size)
				for off := uint64(0); off < size; off += pageSize {
					sink += mem[off]
				}
				for b.Loop() {
					if _, err := m.Reset(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkNew makes a memory from an image and frees it.
func BenchmarkNew(b *testing.B) {
	for _, limit := range []uint64{64 << 20, MaxLimit} {
		image := mustImage(b, benchImage(4<<20))
		b.Run(fmt.Sprintf("limit=%dMiB", limit>>20), func(b *testing.B) {
			for b.Loop() {
				m, err := New(limit, image)
				if err != nil {
					b.Fatal(err)
				}
				if m.Reallocate(4<<20) == nil {
					b.Fatal("Reallocate = nil")
				}
				m.Free()
			}
		})
	}
}

// BenchmarkNewImage makes a snapshot, once for each module.
func BenchmarkNewImage(b *testing.B) {
	mem := benchImage(4 << 20)
	for b.Loop() {
		image, err := NewImage(mem)
		if err != nil {
			b.Fatal(err)
		}
		image.Close()
	}
}

// BenchmarkGrow is a guest's growth by 1 MiB, from 4 MiB to 64 MiB.
func BenchmarkGrow(b *testing.B) {
	image := mustImage(b, benchImage(4<<20))
	for b.Loop() {
		m, err := New(64<<20, image)
		if err != nil {
			b.Fatal(err)
		}
		for size := uint64(4 << 20); size <= 64<<20; size += 1 << 20 {
			if m.Reallocate(size) == nil {
				b.Fatal("Reallocate = nil")
			}
		}
		m.Free()
	}
}

// BenchmarkWarm tells what a memory in a pool takes: untouched, and after calls
// that wrote to 37 pages each, the private pages kept.
func BenchmarkWarm(b *testing.B) {
	for _, pages := range []int{0, 37} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			image := mustImage(b, benchImage(4<<20))
			for b.Loop() {
				before, err := measure()
				if err != nil {
					b.Fatal(err)
				}
				all := make([]*Memory, 1000)
				for i := range all {
					all[i] = mustNew(b, 64<<20, image, detected())
					mem := mustRealloc(b, all[i], 4<<20)
					for p := range pages {
						mem[p*97*int(pageSize)%len(mem)]++
					}
					if _, err := all[i].Reset(); err != nil {
						b.Fatal(err)
					}
				}
				after, err := measure()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(after.rssKiB-before.rssKiB)/1000, "KiB-mapped/memory")
				b.ReportMetric(float64(after.anonKiB-before.anonKiB)/1000, "KiB-private/memory")
				b.ReportMetric(float64(after.mappings-before.mappings)/1000, "mappings/memory")
				for _, m := range all {
					m.Free()
				}
			}
		})
	}
}
