//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// sizeChanges tells when the terminal may have another size, until stop.
func sizeChanges() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c); close(c) }
}
