package linmem

import (
	"encoding/binary"
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagemapFD is /proc/self/pagemap, opened once for the life of the process and
// not inherited by programs it starts; -1 where it cannot be opened.
var pagemapFD = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// detected is the best mechanism that works here.
var detected = sync.OnceValue(func() mechanism {
	for how := scan; how > whole; how-- {
		if works(how) {
			return how
		}
	}
	return whole
})

// works tries how on a small memory. What a kernel, a container's emulation of
// one, or a filter on system calls lets pass is thereby known from its effect.
func works(how mechanism) bool {
	const pages = 16
	mem := make([]byte, max(pages*pageSize, WasmPage))
	for p := uint64(0); p < 8; p += 2 {
		mem[p*pageSize+7] = byte(p + 1)
	}
	image, err := NewImage(mem)
	if err != nil {
		return false
	}
	defer image.Close()
	m, err := newMemory(image.size, image, how)
	if err != nil {
		return false
	}
	defer m.Free()
	if m.how != how {
		return false
	}
	got := m.Reallocate(image.size)
	if got == nil {
		return false
	}
	for _, p := range []uint64{2, 3, 12} { // data, a hole, the zeroes behind the data
		got[p*pageSize+7] ^= 0xff
	}
	s, err := m.Reset()
	return err == nil && s.Mechanism == how.String() && string(got) == string(mem)
}

func (m *Memory) resetFast(how mechanism) (Stats, error) {
	p := pass{m: m}
	var err error
	switch how {
	case dontneed:
		p.stats.Dropped = true
		return p.stats, m.drop(0, m.size)
	case pagemap:
		err = m.readPagemap(&p)
	case scan:
		err = m.scanPages(&p)
	}
	if err == nil {
		err = p.end()
	}
	return p.stats, err
}

// drop gives the pages between two offsets back to the system: the next access
// finds the image again, or zeroes behind it. A process that locks its memory
// (mlockall) may not.
func (m *Memory) drop(from, to uint64) error {
	if from == to {
		return nil
	}
	return unix.Madvise(m.bytes(from, to), unix.MADV_DONTNEED)
}

// The kernel's interface to page table entries: Documentation/admin-guide/mm/pagemap.rst
// and include/uapi/linux/fs.h.
const (
	ioctlPagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)

	pageIsFile    = 1 << 2 // of the file, or shared: not this memory's own
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4 // in swap, or on the move between two places
	pageIsPFNZero = 1 << 5 // the system's one page of zeroes, mapped by a read

	entryPresent = 1 << 63
	entrySwapped = 1 << 62
	entryFile    = 1 << 61
)

// scanRegions is how many runs of pages one scan may return. The kernel allocates
// as much for each call, and beyond one page of it that shows.
const scanRegions = 64

type scanRegion struct{ start, end, categories uint64 }

type scanArg struct {
	size, flags, start, end, walkEnd   uint64
	vec, vecLen, maxPages              uint64
	inverted, mask, anyOf, returnedFor uint64
}

// A scanner is what one scan needs. It lives on the heap, where its address
// stays: the kernel is told it as a number.
type scanner struct {
	arg     scanArg
	regions [scanRegions]scanRegion
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// quickScan is the largest memory whose scan the scheduler is not told of, in
// bytes. That saves 0.1 µs, and holds up the collector for 30 µs at worst.
const quickScan = 16 << 20

// scanPages restores the pages that the kernel lists: present or swapped out, and
// not the file's. It costs 0.6 µs for 4 MiB that nobody touched (1.3 µs for 64 MiB)
// and 7 ns more for each page that was ever read or written (BenchmarkReset,
// BenchmarkResetAfterReads, minima on a loaded machine), so that not even for one
// wasm page comparing everything is quicker.
func (m *Memory) scanPages(p *pass) error {
	fd := pagemapFD()
	if fd < 0 {
		return errors.ErrUnsupported
	}
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	base := uint64(uintptr(m.base))
	end := base + m.size
	for at := base; at < end; {
		s.arg = scanArg{
			size:  uint64(unsafe.Sizeof(s.arg)),
			start: at, end: end,
			vec: uint64(uintptr(unsafe.Pointer(&s.regions))), vecLen: scanRegions,
			inverted: pageIsFile, mask: pageIsFile,
			anyOf:       pageIsPresent | pageIsSwapped,
			returnedFor: pageIsPFNZero,
		}
		var n uintptr
		var errno unix.Errno
		if m.size <= quickScan {
			n, _, errno = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), ioctlPagemapScan, uintptr(unsafe.Pointer(&s.arg)))
		} else {
			n, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlPagemapScan, uintptr(unsafe.Pointer(&s.arg)))
		}
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		if n > scanRegions || s.arg.walkEnd <= at || s.arg.walkEnd > end {
			return errors.New("linmem: the scan of pages answered out of range")
		}
		at = s.arg.walkEnd
		for _, r := range s.regions[:n] {
			if r.start < base || r.end < r.start || r.end > end {
				return errors.New("linmem: the scan of pages answered out of range")
			}
			more, err := m.foundRegion(p, r.start-base, r.end-base, r.categories&pageIsPFNZero != 0)
			if err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// foundRegion hands a region to the pass. Where the image is zero, the system's
// page of zeroes is no change; elsewhere it can be (the kernel merges equal pages
// of processes that ask for it), so it counts.
func (m *Memory) foundRegion(p *pass, from, to uint64, zero bool) (more bool, err error) {
	if !zero {
		return p.found(from, to)
	}
	for off := from; off < to; off += pageSize {
		if m.image.holds(off) {
			if more, err := p.found(off, off+pageSize); err != nil || !more {
				return false, err
			}
		}
	}
	return true, nil
}

// pagemapChunk is how many entries are read at once, 8 bytes each.
const pagemapChunk = 4096

var entryBuffers = sync.Pool{New: func() any { return new([pagemapChunk * 8]byte) }}

// readPagemap restores the pages whose entries say the same. It reads one entry
// for each page of the memory, used or not.
func (m *Memory) readPagemap(p *pass) error {
	fd := pagemapFD()
	if fd < 0 {
		return errors.ErrUnsupported
	}
	buf := entryBuffers.Get().(*[pagemapChunk * 8]byte)
	defer entryBuffers.Put(buf)
	first := uint64(uintptr(m.base)) / pageSize
	for page, pages := uint64(0), m.size/pageSize; page < pages; {
		want := min(pages-page, pagemapChunk) * 8
		n, err := unix.Pread(fd, buf[:want], int64((first+page)*8))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		got := uint64(n) / 8
		if got == 0 {
			return errors.New("linmem: the page map ended early")
		}
		for i := uint64(0); i < got; {
			if !private(buf[:], i) {
				i++
				continue
			}
			from := i
			for i < got && private(buf[:], i) {
				i++
			}
			more, err := p.found((page+from)*pageSize, (page+i)*pageSize)
			if err != nil || !more {
				return err
			}
		}
		page += got
	}
	return nil
}

// private tells whether entry i of a page map is a page of the memory's own.
func private(entries []byte, i uint64) bool {
	e := binary.NativeEndian.Uint64(entries[i*8:])
	return e&(entryPresent|entrySwapped) != 0 && e&entryFile == 0
}
