//go:build !unix

package runtime

// mapping is the guest's memory on the Go heap.
type mapping struct{ buf []byte }

func (m *mapping) grow(size, limit uint64) []byte {
	if size > uint64(cap(m.buf)) {
		grown := make([]byte, size, min(limit, max(size, 2*uint64(cap(m.buf)))))
		copy(grown, m.buf)
		m.buf = grown
	}
	m.buf = m.buf[:size]
	return m.buf[:size:size]
}

func (m *mapping) free() { m.buf = nil }
