package linmem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// reserve takes n bytes of address space that can be neither read nor written.
func reserve(n uintptr) (unsafe.Pointer, error) {
	addr, err := windows.VirtualAlloc(0, n, windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return nil, err
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr)), nil // an address outside the Go heap, so no conversion vet would accept
}

// allow makes n bytes at p, reserved before, readable and writable; they are zero.
func allow(p unsafe.Pointer, n uintptr) error {
	if n == 0 {
		return nil
	}
	_, err := windows.VirtualAlloc(uintptr(p), n, windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

// release ends a reservation.
func release(p unsafe.Pointer, _ uintptr) {
	_ = windows.VirtualFree(uintptr(p), 0, windows.MEM_RELEASE) // fails for a wrong address only
}
