package linmem

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"
)

const (
	// WasmPage is the unit in which linear memory is sized, in bytes.
	WasmPage = 64 << 10

	// MaxLimit is the largest memory that 32-bit indices can address, in bytes.
	MaxLimit = 4 << 30

	// Guard is how many bytes on either side of a memory's limit can be neither
	// read nor written. It costs address space only.
	Guard = 1 << 20
)

var (
	// ErrGrown means that the memory is larger than what a reset restores. Its
	// bytes are gone, its length cannot be taken back: make a new instance.
	ErrGrown = errors.New("linmem: the memory has grown: a new instance is needed")

	// ErrFreed means that the memory was freed before.
	ErrFreed = errors.New("linmem: the memory was freed")
)

// A Memory is the linear memory of one instance. Its methods may be called from
// any goroutine, but no method looks out for the guest: while a call of the
// instance runs, only the guest's own growth may use the Memory.
type Memory struct {
	image *Image // what a reset restores; nil: zeroes
	how   mechanism

	whole  unsafe.Pointer // the reservation, guards included
	length uintptr        // its length
	base   unsafe.Pointer // address 0 of the guest

	mu      sync.Mutex
	limit   uint64 // what size may become; a multiple of WasmPage
	allowed uint64 // bytes from base that are mapped for reading and writing
	size    uint64 // bytes that the engine was told of
	first   uint64 // the size that a reset restores
	sized   bool   // first is known
	refused bool
	freed   bool
	calm    int // resets in a row that found few of the kept pages changed
}

// New reserves address space for a memory of at most limit bytes (rounded down
// to whole wasm pages) and maps image into it. With a nil image the memory
// starts with zeroes, and its first Reallocate says how large it starts.
//
// It fails for a limit above [MaxLimit] or below the image's size, for a closed
// image, and where the system has no address space or no mapping left. Callers
// check that what the module asks for at least equals the image's size (or,
// without image, is at most limit) before they hand the Memory to an engine:
// wazero panics when its very first Reallocate is refused.
func New(limit uint64, image *Image) (*Memory, error) {
	return newMemory(limit, image, detected())
}

func newMemory(limit uint64, image *Image, how mechanism) (*Memory, error) {
	if limit > MaxLimit || limit > math.MaxInt-2*Guard {
		return nil, fmt.Errorf("linmem: a limit of %d bytes is more than can be addressed", limit)
	}
	limit -= limit % WasmPage
	m := &Memory{image: image, how: how, limit: limit, length: uintptr(limit) + 2*Guard}
	if image != nil {
		if image.size > limit {
			return nil, fmt.Errorf("linmem: the image has %d bytes, the limit is %d", image.size, limit)
		}
		if !image.acquire() {
			return nil, errImageClosed
		}
		if image.copied {
			m.how = whole // there is no file whose pages could come back
		}
	}
	var err error
	if m.whole, err = reserve(m.length); err != nil {
		image.release()
		return nil, fmt.Errorf("linmem: reserve %d bytes: %w", m.length, err)
	}
	m.base = unsafe.Add(m.whole, Guard)
	if image != nil {
		if err := m.load(); err != nil {
			m.Free()
			return nil, fmt.Errorf("linmem: map an image of %d bytes: %w", image.size, err)
		}
		m.size, m.first, m.sized = image.size, image.size, true
	}
	return m, nil
}

// load puts the image at the start of the reservation. The zeroes at its end are
// no part of its file and come from the system.
func (m *Memory) load() error {
	from := uint64(0)
	if !m.image.copied && len(m.image.data) > 0 {
		from = uint64(len(m.image.data))
		if err := m.image.mapAt(m.base); err != nil {
			return err
		}
	}
	if err := allow(unsafe.Add(m.base, from), uintptr(m.image.size-from)); err != nil {
		return err
	}
	m.allowed = m.image.size
	if m.image.copied {
		m.restore(0, uint64(len(m.image.data)))
	}
	return nil
}

// Reallocate makes the memory size bytes long and returns all of it: length and
// capacity are size, the start is the same for the life of the Memory, new bytes
// are zero. size is a new total, not an increment.
//
// It returns nil, which a guest sees as -1 from memory.grow, when size is above
// the limit, is no whole number of wasm pages, is smaller than before, or the
// system refuses; [Memory.Refused] then answers true. The memory keeps its size.
func (m *Memory) Reallocate(size uint64) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freed || size > m.limit || size < m.size || size%WasmPage != 0 || !m.extend(size) {
		m.refused = true
		return nil
	}
	// The engine trusts this length and nothing else. Whatever the lines above
	// become, no slice may leave that is longer than what is mapped.
	if size > m.allowed || m.allowed > m.limit || uint64(m.length) != m.limit+2*Guard {
		m.refused = true
		return nil
	}
	m.size = size
	if !m.sized {
		m.first, m.sized = size, true
	}
	return unsafe.Slice((*byte)(m.base), size)
}

// extend makes the first size bytes readable and writable.
func (m *Memory) extend(size uint64) bool {
	if size <= m.allowed {
		return true
	}
	if allow(unsafe.Add(m.base, m.allowed), uintptr(size-m.allowed)) != nil {
		return false
	}
	m.allowed = size
	return true
}

// Size is the present length in bytes.
func (m *Memory) Size() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

// Refused tells whether a growth was refused since the last Reset, so that a
// trap can be reported as the limit it probably ran into.
func (m *Memory) Refused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// Grown tells whether the memory is larger than what a reset restores.
func (m *Memory) Grown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size > m.first
}

// Free gives the memory back to the system. It may be called more than once.
//
// The caller must know that no call of the instance runs and that nobody holds a
// slice of the memory any more: an access after Free faults, and such a fault
// ends the process. An engine calls Free when it closes the instance, so a
// running instance is first stopped and then closed.
func (m *Memory) Free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freed {
		return
	}
	m.freed = true
	release(m.whole, m.length)
	m.size, m.allowed, m.limit = 0, 0, 0
	m.whole, m.base = nil, nil
	m.image.release()
}

// bytes is the part of the memory between two offsets that are mapped.
func (m *Memory) bytes(from, to uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, from)), to-from)
}
