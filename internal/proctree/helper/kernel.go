//go:build linux && (amd64 || arm64)

package helper

import (
	"syscall"
	"unsafe"
)

// Numbers of system calls that are the same on all architectures.
const (
	sysOpenTree              = 428
	sysMoveMount             = 429
	sysFsopen                = 430
	sysFsconfig              = 431
	sysFsmount               = 432
	sysFspick                = 433
	sysClone3                = 435
	sysOpenat2               = 437
	sysPidfdGetfd            = 438
	sysProcessMadvise        = 440
	sysMountSetattr          = 442
	sysQuotactlFd            = 443
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446
	sysOpenTreeAttr          = 467
	sysIoUringSetup          = 425
	sysIoUringEnter          = 426
	sysIoUringRegister       = 427
)

// Options of prctl.
const (
	prSetDumpable       = 4
	prCapbsetDrop       = 24
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
	prCapAmbient        = 47
	prCapAmbientClear   = 4
)

const (
	atFdcwd     = -100
	atEmptyPath = 0x1000
	atRecursive = 0x8000
	oPath       = 0x200000

	resolveNoSymlinks = 0x4
)

func prctl(option, a, b uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if e == syscall.EINTR {
			continue
		}
		if e != 0 {
			return e
		}
		return nil
	}
}

// openPath opens path for nothing but to name it.
func openPath(path string, flags int) (int, error) {
	for {
		fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC|flags, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// errnoOf returns err's number; EIO for an error that has none.
func errnoOf(err error) uint32 {
	if e, ok := err.(syscall.Errno); ok {
		return uint32(e)
	}
	return uint32(syscall.EIO)
}
