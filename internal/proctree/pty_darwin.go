package proctree

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptyName asks for the name of a master's terminal.
func ptyName(fd int, name *[128]byte) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCPTYGNAME, uintptr(unsafe.Pointer(name))); e != 0 {
		return e
	}
	return nil
}
