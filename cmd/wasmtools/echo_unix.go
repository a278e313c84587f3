//go:build linux || darwin

package main

import "golang.org/x/sys/unix"

// muteTerminal turns the echo of a terminal off. It has to be off before the
// question stands there: whoever answers at once would be shown what is typed.
func muteTerminal(fd int) {
	if t, err := unix.IoctlGetTermios(fd, getTermios); err == nil {
		t.Lflag &^= unix.ECHO
		_ = unix.IoctlSetTermios(fd, setTermios, t)
	}
}
