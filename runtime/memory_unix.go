//go:build unix

package runtime

import "golang.org/x/sys/unix"

// mapping is a range of addresses of which the first part can be used. It never
// moves, so growing copies nothing.
type mapping struct {
	reserved []byte
	used     uint64
}

// grow makes the first size bytes usable, out of at most limit. It returns nil
// if the system has no memory.
func (m *mapping) grow(size, limit uint64) []byte {
	if m.reserved == nil {
		if limit == 0 {
			return nil
		}
		p, err := unix.Mmap(-1, 0, int(limit), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|noReserve)
		if err != nil {
			return nil
		}
		m.reserved = p
		adviseSmallPages(p)
	}
	if size > m.used {
		if err := unix.Mprotect(m.reserved[:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.used = size
	}
	return m.reserved[:size:size]
}

func (m *mapping) free() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved)
		m.reserved, m.used = nil, 0
	}
}
