//go:build linux && (amd64 || arm64)

package helper

import (
	"syscall"
	"unsafe"
)

const (
	tiocsptlck  = 0x40045431
	tiocgptpeer = 0x5441
	tiocswinsz  = 0x5414
)

// openTerminal makes a pair of the size given. The peer is taken by descriptor,
// not by name: the name may mean another terminal in another view of files.
func openTerminal(cols, rows uint16) (master, peer int, err error) {
	master, err = syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	var unlocked int32
	size := struct{ rows, cols, x, y uint16 }{rows: rows, cols: cols}
	if err = ioctl(master, tiocsptlck, unsafe.Pointer(&unlocked)); err == nil {
		err = ioctl(master, tiocswinsz, unsafe.Pointer(&size))
	}
	if err == nil {
		fd, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), tiocgptpeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
		if e == 0 {
			return master, int(fd), nil
		}
		err = e
	}
	syscall.Close(master)
	return -1, -1, err
}
