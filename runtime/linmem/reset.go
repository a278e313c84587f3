package linmem

import "bytes"

const (
	// KeepBytes is how much a memory may hold of its own after a reset, in bytes.
	// Writing back 2 MiB takes 0.1 to 0.2 ms; the bound is for the sake of a pool of
	// a thousand idle memories.
	KeepBytes = 2 << 20

	// A memory that holds at least calmBytes of its own, of which less than a
	// quarter had changed in calmResets resets in a row, drops them: looking at
	// them in each reset (0.1 µs a page) then costs more than the faults to get
	// some of them back (1 to 8 µs a page).
	calmBytes  = 256 << 10
	calmResets = 32
)

// A mechanism is a way to find the pages that a guest has written.
type mechanism uint8

const (
	whole    mechanism = iota // compare everything
	dontneed                  // drop everything
	pagemap                   // read the page table's entries from /proc
	scan                      // have the kernel list them
)

func (how mechanism) String() string {
	return [...]string{"copy", "dontneed", "pagemap", "pagemap_scan"}[how]
}

// Mechanism names the way in which resets work on this system, best first:
// pagemap_scan (Linux 6.7), pagemap (older kernels), dontneed (no /proc), copy
// (other systems). Each is tried once, on a small memory, before it is used.
func Mechanism() string { return detected().String() }

// Stats tell what a reset did. Pages are those of the system, usually 4 KiB.
type Stats struct {
	Mechanism string // what did it in the end: a refused system call falls back to a simpler one
	Private   int    // pages found that the memory had of its own, until dropping began; 0 for dontneed and copy
	Changed   int    // of these and those compared, pages that differed and were written back
	Dropped   bool   // pages were given back to the system, their number is not known
}

// Reset makes every byte equal to the image again and forgets refusals. The
// guest must not be running, and slices of the memory keep pointing into it.
//
// A memory that has grown is emptied (the image's part equals the image, the rest
// is zero) and [ErrGrown] returned: the engine keeps the length, and a guest could
// read from it what an earlier call needed.
func (m *Memory) Reset() (Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freed {
		return Stats{}, ErrFreed
	}
	m.refused = false
	if m.size > m.first {
		return m.resetBy(min(m.how, dontneed)), ErrGrown
	}
	return m.resetBy(m.how), nil
}

// resetBy tries how and then, since each can be refused by a system or a filter,
// the simpler ways. The simplest cannot fail.
func (m *Memory) resetBy(how mechanism) Stats {
	for ; how > whole; how-- {
		if s, err := m.resetFast(how); err == nil {
			s.Mechanism = how.String()
			return s
		}
	}
	return Stats{Mechanism: whole.String(), Changed: m.restore(0, m.size)}
}

// restore makes the pages between two offsets equal to the image and counts the
// ones that were not. Comparing first costs a written page nothing, as the copy
// finds both sides in the cache, and spares the ones that an earlier call wrote.
func (m *Memory) restore(from, to uint64) (changed int) {
	mem := m.bytes(from, to)
	for off := from; off < to; off += pageSize {
		page := mem[off-from:][:pageSize]
		if want := m.image.page(off); !bytes.Equal(page, want) {
			copy(page, want)
			changed++
		}
	}
	return changed
}

// A pass restores the private pages that a mechanism finds, in ascending order.
type pass struct {
	m     *Memory
	kept  uint64 // bytes looked at and not dropped
	stats Stats
}

// found takes the next run of private pages and tells whether to go on. Once
// KeepBytes are found the rest of the memory is dropped instead.
func (p *pass) found(from, to uint64) (more bool, err error) {
	keep := min(to, from+KeepBytes-p.kept)
	p.kept += keep - from
	p.stats.Changed += p.m.restore(from, keep)
	p.stats.Private += int((to - from) / pageSize)
	if keep == to {
		return true, nil
	}
	p.stats.Dropped = true
	return false, p.m.drop(keep, p.m.size)
}

// end drops what the memory kept if calls no longer use it.
func (p *pass) end() error {
	s, m := &p.stats, p.m
	if p.kept < calmBytes || uint64(s.Changed)*4*pageSize >= p.kept {
		m.calm = 0
		return nil
	}
	if m.calm++; m.calm < calmResets {
		return nil
	}
	m.calm = 0
	s.Dropped = true
	return m.drop(0, m.size)
}
