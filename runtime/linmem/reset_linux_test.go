package linmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What this kernel can do must be what is used: a mistake in a mechanism would
// otherwise only show as slowness.
func TestMechanismOfThisKernel(t *testing.T) {
	f, err := os.Open("/proc/self/pagemap")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skip("no page map: ", err)
	}
	f.Close()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	want := "pagemap"
	if major > 6 || major == 6 && minor >= 7 {
		want = "pagemap_scan"
	}
	if got := Mechanism(); got != want {
		t.Errorf("Mechanism() = %s on Linux %d.%d; want %s", got, major, minor, want)
	}
}

func TestPrivateEntries(t *testing.T) {
	for _, c := range []struct {
		entry uint64
		want  bool
	}{
		{0, false},
		{1 << 63, true},
		{1<<63 | 1<<61, false},
		{1 << 62, true}, // swapped out, or moving
		{1<<62 | 1<<61, false},
		{1 << 61, false},
		{1<<63 | 1<<55 | 1<<56 | 0x1234, true}, // soft-dirty, exclusive, frame number
		{1<<57 | 1<<58, false},                 // write-protected marker, guard region
	} {
		if got := private(binary.NativeEndian.AppendUint64(make([]byte, 8), c.entry), 1); got != c.want {
			t.Errorf("private(%#x) = %v; want %v", c.entry, got, c.want)
		}
	}
}

// More runs of pages than one scan returns: the scan goes on where it stopped.
func TestScanInSeveralSteps(t *testing.T) {
	if detected() < scan {
		t.Skip("no scan on this kernel")
	}
	const size = 2 << 20
	want := layout("random", size)
	m := mustNew(t, size, mustImage(t, want), scan)
	b := mustRealloc(t, m, size)
	for _, n := range []int{scanRegions - 1, scanRegions, scanRegions + 1, 2 * scanRegions, 3*scanRegions + 7} {
		if 2*n > size/int(pageSize) {
			continue
		}
		m.drop(0, size)
		for p := range n {
			b[2*p*int(pageSize)]++
		}
		if s, err := m.Reset(); err != nil || s.Private != n || s.Changed != n {
			t.Errorf("%d runs: Reset = %+v, %v; want all private and changed", n, s, err)
		}
		if d := differs(b, want); d != "" {
			t.Errorf("%d runs: %s", n, d)
		}
	}
}

// Reading is no change: pages that were read belong to the file or are the
// system's page of zeroes, and get no copy by a reset.
func TestReadPagesStayShared(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		const size = 1 << 20
		for name, want := range layouts(size) {
			m := mustNew(t, size, mustImage(t, want), how)
			b := mustRealloc(t, m, size)
			for range 3 {
				if d := differs(b, want); d != "" { // reads all
					t.Fatal(d)
				}
				s, err := m.Reset()
				if err != nil || s.Changed != 0 {
					t.Fatalf("image %s: Reset after reads = %+v, %v; want nothing changed", name, s, err)
				}
				if how == scan && s.Private != 0 {
					t.Errorf("image %s: %d private pages after reads; want none", name, s.Private)
				}
			}
			if kib := privateKiB(t, m); kib != 0 {
				t.Errorf("image %s: %d KiB of its own after reads and resets; want 0", name, kib)
			}
		}
	})
}

// A page of zeroes where the image has data is a change: the kernel may have
// merged what the guest wrote with its own page of zeroes.
func TestZeroPageOverData(t *testing.T) {
	want := layout("holes", WasmPage)
	m := mustNew(t, WasmPage, mustImage(t, want), detected())
	b := mustRealloc(t, m, WasmPage)
	clear(b)
	p := pass{m: m}
	if more, err := m.foundRegion(&p, 0, WasmPage, true); !more || err != nil {
		t.Fatalf("foundRegion = %v, %v; want true, nil", more, err)
	}
	if d := differs(b, want); d != "" {
		t.Error(d)
	}
	if want := WasmPage / int(pageSize) / 2; p.stats.Changed != want {
		t.Errorf("%d pages changed; want %d", p.stats.Changed, want)
	}
}

// A page in swap is as much a change as one in memory.
func TestSwappedPages(t *testing.T) {
	want := layout("holes", WasmPage)
	m := mustNew(t, WasmPage, mustImage(t, want), detected())
	b := mustRealloc(t, m, WasmPage)
	fill(b, 9)
	if err := unix.Madvise(b, unix.MADV_PAGEOUT); err != nil {
		t.Skip("pages cannot be swapped out on request: ", err)
	}
	var entry [8]byte
	if _, err := unix.Pread(pagemapFD(), entry[:], int64(uintptr(unsafe.Pointer(&b[0]))/uintptr(pageSize)*8)); err != nil {
		t.Skip("no page map: ", err)
	}
	if binary.NativeEndian.Uint64(entry[:])&entrySwapped == 0 {
		t.Skip("the system has no swap")
	}
	if s, err := m.Reset(); err != nil || s.Private != WasmPage/int(pageSize) {
		t.Errorf("Reset = %+v, %v; want all pages private", s, err)
	}
	if d := differs(b, want); d != "" {
		t.Error(d)
	}
}

// Locked memory cannot be dropped; a reset must then find another way.
func TestRefusedCallsFallBack(t *testing.T) {
	const size = KeepBytes + 4*WasmPage
	want := layout("holes", size)
	for how := dontneed; how <= detected(); how++ {
		m := mustNew(t, size, mustImage(t, want), how)
		b := mustRealloc(t, m, size)
		for _, locked := range []bool{false, true, false} { // the first and last are the control
			wantBy := how.String()
			if locked {
				if err := unix.Mlock(b); err != nil {
					t.Skip("memory cannot be locked: ", err)
				}
				wantBy = "copy"
			}
			fill(b, 3)
			s, err := m.Reset()
			if err != nil || s.Mechanism != wantBy {
				t.Errorf("%v, locked %v: Reset = %+v, %v; want by %s", how, locked, s, err, wantBy)
			}
			if d := differs(b, want); d != "" {
				t.Errorf("%v, locked %v: %s", how, locked, d)
			}
			if locked {
				if err := unix.Munlock(b); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A reset happens after every call, so it leaves nothing for the collector.
func TestResetAllocatesNothing(t *testing.T) {
	eachMechanism(t, func(t *testing.T, how mechanism) {
		want := layout("holes", 4*WasmPage)
		m := mustNew(t, 4*WasmPage, mustImage(t, want), how)
		b := mustRealloc(t, m, 4*WasmPage)
		n := testing.AllocsPerRun(200, func() {
			b[0]++
			if _, err := m.Reset(); err != nil {
				t.Error(err)
			}
		})
		if n >= 1 {
			t.Errorf("%v allocations a reset; want none", n)
		}
	})
}
