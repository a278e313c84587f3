//go:build !unix

package main

import "os"

// sizeChanges: nothing tells of another size here.
func sizeChanges() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal)
	return c, func() { close(c) }
}
