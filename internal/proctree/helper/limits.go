//go:build linux && (amd64 || arm64)

package helper

import (
	"strconv"
	"syscall"
	"unsafe"

	"github.com/wasmtools/wasmtools/internal/proctree/wire"
)

const (
	rlimitCore   = 4
	rlimitFsize  = 1
	rlimitNofile = 7
	rlimitNproc  = 6
)

// leastFiles is what a reaper itself needs.
const leastFiles = 64

// limit sets, for the reaper and so for its trees, what a process inherits. The
// number of processes is set around each start; see processLimit.
func limit(s *wire.Setup) (reason string) {
	set := func(which int, n uint64) string {
		if err := syscall.Setrlimit(which, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return "limit of " + strconv.FormatUint(n, 10) + ": " + err.Error()
		}
		return ""
	}
	if r := set(rlimitCore, 0); r != "" {
		return r
	}
	if s.OpenFiles > 0 {
		if s.OpenFiles < leastFiles {
			return "fewer than " + strconv.Itoa(leastFiles) + " open files"
		}
		if r := set(rlimitNofile, s.OpenFiles); r != "" {
			return r
		}
	}
	if s.FileSize > 0 {
		return set(rlimitFsize, s.FileSize)
	}
	return ""
}

// processLimit makes what is started next inherit a limit of processes, and
// returns a function that takes it back from the reaper and fixes it for pid.
// A user namespace counts its own processes, so there the number is the tree's.
func processLimit(n uint64) func(pid int) {
	var old syscall.Rlimit
	if n == 0 || syscall.Getrlimit(rlimitNproc, &old) != nil {
		return func(int) {}
	}
	n = min(n, old.Max)
	if syscall.Setrlimit(rlimitNproc, &syscall.Rlimit{Cur: n, Max: old.Max}) != nil {
		return func(int) {}
	}
	return func(pid int) {
		if pid > 0 {
			fixed := syscall.Rlimit{Cur: n, Max: n}
			syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), rlimitNproc, uintptr(unsafe.Pointer(&fixed)), 0, 0, 0)
		}
		syscall.Setrlimit(rlimitNproc, &old)
	}
}
