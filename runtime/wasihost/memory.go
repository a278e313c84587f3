package wasihost

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/tool"
)

// Memory is what all instances of one call may have together. It is the
// engine's allocator for them.
type Memory struct {
	limit   uint64
	used    uint64
	peak    uint64
	refused bool
	regions []*region
}

// Peak is what the call had at most, in bytes.
func (m *Memory) Peak() int64 { return int64(m.peak) }

// Limit is what it may have, in bytes.
func (m *Memory) Limit() int64 { return int64(m.limit) }

// Left is what it may still have, in bytes.
func (m *Memory) Left() uint64 { return m.limit - m.used }

// Refused tells whether a wish for more was refused.
func (m *Memory) Refused() bool { return m.refused }

// Take counts memory that the host holds for the guest; it reports whether the
// guest may have it.
func (m *Memory) Take(n uint64) bool {
	if n > m.limit-m.used {
		m.refused = true
		return false
	}
	m.used += n
	m.peak = max(m.peak, m.used)
	return true
}

// Give takes back what was taken.
func (m *Memory) Give(n uint64) { m.used -= n }

// Allocate implements the engine's allocator, once for each memory.
func (m *Memory) Allocate(_, _ uint64) experimental.LinearMemory {
	mem, err := linmem.New(m.limit, nil)
	if err != nil {
		panic(tool.Errorf(tool.Busy, "the machine has no room for the module's memory").Because(err))
	}
	r := &region{memory: m, linear: mem}
	m.regions = append(m.regions, r)
	return r
}

// Free gives everything back. The instances must be closed.
func (m *Memory) Free() {
	for _, r := range m.regions {
		r.Free()
	}
	m.regions = nil
}

// region is the memory of one instance.
type region struct {
	memory *Memory
	linear *linmem.Memory
	size   uint64
}

// Reallocate implements the engine's linear memory: size is the new total.
func (r *region) Reallocate(size uint64) []byte {
	if size < r.size || !r.memory.Take(size-r.size) {
		return nil
	}
	p := r.linear.Reallocate(size)
	if uint64(len(p)) != size {
		r.memory.used -= size - r.size
		r.memory.refused = true
		return nil
	}
	r.size = size
	return p
}

// Free implements the engine's linear memory.
func (r *region) Free() { r.linear.Free() }
