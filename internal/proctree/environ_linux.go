package proctree

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"unsafe"
)

// hideEnviron erases the environment that this process was started with from
// where the kernel shows it to every program of the same user, /proc/PID/environ:
// it holds the keys of whoever started us. Go has made copies of it long before,
// and os.Getenv gives those. What stays is [Tag].
var hideEnviron = sync.OnceFunc(func() {
	start, end := environBounds()
	if start == 0 || end <= start {
		return
	}
	all := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&start))), end-start)
	for len(all) > 0 {
		n := bytes.IndexByte(all, 0)
		if n < 0 {
			n = len(all)
		}
		if !bytes.HasPrefix(all[:n], []byte(Tag+"=")) {
			clear(all[:n])
		}
		all = all[min(n+1, len(all)):]
	}
})

// environBounds are the addresses between which the kernel finds it, zero where it
// does not say.
func environBounds() (start, end uintptr) {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0
	}
	// Of the fields, see proc(5), the third follows the name's parenthesis.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const third, envStart, envEnd = 3, 50, 51
	if len(fields) <= envEnd-third {
		return 0, 0
	}
	at := func(n int) uintptr {
		v, err := strconv.ParseUint(string(fields[n-third]), 10, 64)
		if err != nil {
			return 0
		}
		return uintptr(v)
	}
	return at(envStart), at(envEnd)
}
