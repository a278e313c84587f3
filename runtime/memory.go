package runtime

import "github.com/tetratelabs/wazero/experimental"

// linear is the memory of one instance. It is the engine's allocator for
// exactly that instance, so that the limit is exact, what the guest had at most
// is known, and a wish that was refused is remembered: a guest that then fails
// has run out of memory.
//
// The slice that it returns is what the engine checks every access against, so
// it is never longer than what is mapped.
type linear struct {
	limit   uint64
	pages   mapping
	peak    uint64
	refused bool
}

var _ experimental.MemoryAllocator = (*linear)(nil)

// Allocate implements the engine's allocator. It is called once.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate grows the memory to size bytes, or returns nil.
func (l *linear) Reallocate(size uint64) []byte {
	if size > l.limit {
		l.refused = true
		return nil
	}
	buf := l.pages.grow(size, l.limit)
	if uint64(len(buf)) != size {
		l.refused = true
		return nil
	}
	l.peak = max(l.peak, size)
	return buf
}

// Free gives the memory back; no view of it may be used afterwards. The engine
// calls it when it closes the instance, and the lease once more, because the
// engine forgets it where making the instance fails.
func (l *linear) Free() { l.pages.free() }
