//go:build unix

package artifact

import "syscall"

// openFlags: a FIFO that was put in place of a file blocks nobody.
const openFlags = syscall.O_NONBLOCK
