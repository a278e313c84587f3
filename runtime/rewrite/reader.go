package rewrite

import (
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// A space is a set of things that a module numbers.
type space int

const (
	types space = iota
	functions
	tables
	memories
	tags
	globals
	elements
	datas
	locals
	labels
	spaces
)

var spaceNames = [spaces]string{
	"type", "function", "table", "memory", "tag", "global", "element segment", "data segment", "local", "label",
}

// A reader reads a module and never past the part that it was given. Its first
// error stays and moves it to the end; from then on every read gives zero, so
// callers look at err once, after a loop, and not after each byte.
type reader struct {
	wasm    []byte // the module from its first byte to where reading must stop
	at      int    // offset of the next byte
	section string // where we are, for errors

	// count holds how many things each space has. An index is compared with it
	// in the moment that it is read.
	count [spaces]uint32

	// unchecked lets any index pass. It is set for code that was checked before,
	// and by the tests that show what would happen without the check.
	unchecked bool

	listed int // entries of all lists so far

	err *tool.Error
}

func (r *reader) fail(err *tool.Error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.wasm)
}

func (r *reader) malformed(at int, format string, args ...any) {
	r.fail(malformed(r.section, at, format, args...))
}

func (r *reader) unsupported(at int, f Feature) {
	r.fail(unsupported(r.section, at, f))
}

func (r *reader) left() int { return len(r.wasm) - r.at }

// within lets read have the next n bytes, of which it must leave none.
func (r *reader) within(n uint32, read func()) {
	if uint64(n) > uint64(r.left()) {
		r.malformed(r.at, "%d bytes announced, %d left", n, r.left())
		return
	}
	whole := r.wasm
	r.wasm = whole[:r.at+int(n)]
	read()
	if r.left() > 0 {
		r.malformed(r.at, "%d bytes left over", r.left())
	}
	r.wasm = whole
}

func (r *reader) u8() byte {
	if r.at >= len(r.wasm) {
		r.malformed(r.at, "ends too early")
		return 0
	}
	b := r.wasm[r.at]
	r.at++
	return b
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(r.left()) {
		r.malformed(r.at, "%d bytes announced, %d left", n, r.left())
		return nil
	}
	b := r.wasm[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

// u32 reads an unsigned LEB128 integer. Padding is legal, and linkers use it.
func (r *reader) u32() uint32 {
	if r.at < len(r.wasm) && r.wasm[r.at] < 0x80 {
		r.at++
		return uint32(r.wasm[r.at-1])
	}
	start, v := r.at, uint32(0)
	for shift := 0; shift < 35; shift += 7 {
		b := r.u8()
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			if shift == 28 && b > 0x0f {
				break
			}
			return v
		}
	}
	r.malformed(start, "integer of more than 32 bits")
	return 0
}

// signed reads a signed LEB128 integer of 32, 33 or 64 bits.
func (r *reader) signed(bits int) int64 {
	start, v := r.at, int64(0)
	for shift := 0; shift < bits; shift += 7 {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		digit := int64(int8(b<<1)) >> 1 // the seven bits, sign extended
		if spare := bits - shift; spare < 7 {
			if high := digit >> (spare - 1); high != 0 && high != -1 {
				break
			}
		}
		if shift+7 < 64 {
			v |= digit << shift
		}
		return v
	}
	r.malformed(start, "integer of more than %d bits", bits)
	return 0
}

// entries reads how many entries follow, each of at least size bytes. A count
// that cannot be true is refused before anybody allocates for it.
func (r *reader) entries(size int) int {
	start := r.at
	n := r.u32()
	if uint64(n)*uint64(size) > uint64(r.left()) {
		r.malformed(start, "%d entries announced in %d bytes", n, r.left())
		return 0
	}
	if r.listed += int(n); r.listed > 2*maxEntries {
		r.malformed(start, "more than %d entries in all lists", maxEntries)
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	start := r.at
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.malformed(start, "name is not UTF-8")
		return ""
	}
	return string(b)
}

// index reads an index into a space and checks that it exists there.
func (r *reader) index(s space) uint32 {
	start := r.at
	i := r.u32()
	if i >= r.count[s] && !r.unchecked {
		r.malformed(start, "%s %d does not exist, there are %d", spaceNames[s], i, r.count[s])
	}
	return i
}

// memory reads the byte that stands where an index of a memory could.
func (r *reader) memory() {
	start := r.at
	if r.u8() != 0 {
		r.unsupported(start, MultipleMemories)
	} else if r.count[memories] == 0 && !r.unchecked {
		r.malformed(start, "memory 0 does not exist, there are 0")
	}
}
