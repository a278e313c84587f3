//go:build unix

package linmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve takes n bytes of address space that can be neither read nor written.
func reserve(n uintptr) (unsafe.Pointer, error) {
	p, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|reserveFlags)
	if err != nil {
		return nil, err
	}
	adviseReserved(unsafe.Slice((*byte)(p), n))
	return p, nil
}

// allow makes n bytes at p, reserved before, readable and writable; they are zero.
func allow(p unsafe.Pointer, n uintptr) error {
	if n == 0 {
		return nil
	}
	return unix.Mprotect(unsafe.Slice((*byte)(p), n), unix.PROT_READ|unix.PROT_WRITE)
}

// release ends a reservation of n bytes.
func release(p unsafe.Pointer, n uintptr) {
	if unix.MunmapPtr(p, n) != nil {
		// Ending a mapping in the middle of a larger one needs a further one, and a
		// process can have used up its number. The memory itself still goes back.
		abandon(unsafe.Slice((*byte)(p), n))
	}
}
