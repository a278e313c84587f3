package terminal

import "golang.org/x/sys/unix"

func dropInput(fd int) error {
	const input = 1 // FREAD
	return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, input)
}
