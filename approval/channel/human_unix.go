//go:build unix

package channel

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// atTerminal checks that this process has a controlling terminal and owns its
// foreground.
func atTerminal() error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return errors.New("there is no controlling terminal")
	}
	defer tty.Close()
	front, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return errors.New("the controlling terminal is gone")
	}
	if front != unix.Getpgrp() {
		return errors.New("it runs in the background of its terminal")
	}
	return nil
}
