//go:build linux && (amd64 || arm64)

package helper

import (
	"os"
	"syscall"
	"unsafe"
)

// Capabilities, by number.
const (
	capChown       = 0
	capDacOverride = 1
	capFowner      = 3
	capFsetid      = 4
	capSetpcap     = 8
	capNetAdmin    = 12
	capSysAdmin    = 21
	capLast        = 63
)

// keptCaps is what a sandboxed root keeps: without them root could not work
// with a workspace that belongs to another user, as in most containers. All
// they reach is bounded by the mounts or by Landlock.
const keptCaps = 1<<capChown | 1<<capDacOverride | 1<<capFowner | 1<<capFsetid

// dropCaps takes all capabilities but the kept ones from the calling thread, and
// from what it starts.
func dropCaps() error {
	var keep uint64
	if os.Geteuid() == 0 {
		keep = keptCaps
	}
	prctl(prCapAmbient, prCapAmbientClear, 0) // kernels before 4.3 have none
	for c := range uintptr(capLast + 1) {
		if keep&(1<<c) != 0 {
			continue
		}
		if prctl(prCapbsetDrop, c, 0) != nil {
			// Too high a number, or not allowed; without new privileges no program gets
			// more than what capset leaves below.
			continue
		}
	}
	header := struct {
		version uint32
		pid     int32
	}{version: 0x20080522}
	var now, want [2]struct{ effective, permitted, inheritable uint32 }
	if _, _, e := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&now)), 0); e != 0 {
		return e
	}
	for i := range want {
		left := now[i].permitted & uint32(keep>>(32*i))
		want[i].effective, want[i].permitted = left, left
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&want)), 0); e != 0 {
		return e
	}
	return nil
}
