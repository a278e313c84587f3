//go:build !linux && !darwin

package channel

import "errors"

const supported = false

// Identify names a live process. On this system it cannot.
func Identify(int) (Process, error) { return Process{}, errors.ErrUnsupported }

func readProc(int) (proc, error) { return proc{}, errors.ErrUnsupported }
