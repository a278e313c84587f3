package manifest

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/wasmtools/wasmtools/tool"
)

// reader reads a module's bytes. The first fault sticks: every later read
// gives zero, so that parsers need to look only where they act on a value.
type reader struct {
	p   []byte
	off int
	err *tool.Error
}

func invalid(format string, args ...any) *tool.Error {
	return tool.Errorf(tool.InvalidModule, format, args...)
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = invalid(format, args...)
	}
}

func (r *reader) left() int { return len(r.p) - r.off }

func (r *reader) byte() byte {
	if r.err != nil || r.off >= len(r.p) {
		r.fail("the module ends in the middle of a value")
		return 0
	}
	b := r.p[r.off]
	r.off++
	return b
}

// bytes returns the next n bytes as a view.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || int64(n) > int64(r.left()) {
		r.fail("the module ends in the middle of a value")
		return nil
	}
	b := r.p[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return b
}

// u32 reads an unsigned LEB128 number of at most five bytes.
func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			r.fail("a number does not fit 32 bits")
			return 0
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail("a number does not fit 32 bits")
	return 0
}

// signed skips a signed LEB128 number of at most the given number of bytes and
// returns it.
func (r *reader) signed(maxBytes int) int64 {
	var v int64
	for i := range maxBytes {
		b := r.byte()
		v |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b&0x40 != 0 && 7*(i+1) < 64 {
				v |= -1 << (7 * (i + 1))
			}
			return v
		}
	}
	r.fail("a number is too long")
	return 0
}

// name reads a length and that many bytes of UTF-8.
func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail("a name is not UTF-8")
		return ""
	}
	return string(b)
}

// Ids of the sections.
const (
	sectCustom = iota
	sectType
	sectImport
	sectFunction
	sectTable
	sectMemory
	sectGlobal
	sectExport
	sectStart
	sectElement
	sectCode
	sectData
	sectDataCount
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory",
	"global", "export", "start", "element", "code", "data", "data count"}

// sectionRank is the order in which sections must stand; custom ones may stand
// anywhere.
var sectionRank = [...]int{sectType: 1, sectImport: 2, sectFunction: 3, sectTable: 4, sectMemory: 5,
	sectGlobal: 6, sectExport: 7, sectStart: 8, sectElement: 9, sectDataCount: 10, sectCode: 11, sectData: 12}

// section is one section: its id, where it stands with its header, and its
// content. For a custom section, name is its name and content what follows.
type section struct {
	id         byte
	start, end int
	name       string
	content    []byte
}

// maxSections bounds the loop over sections: there are twelve kinds, and
// toolchains write a few dozen custom ones.
const maxSections = 1000

var magic = [8]byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// sections splits a module. It checks header, sizes and order.
func sections(wasm []byte) ([]section, error) {
	if len(wasm) < len(magic) || [8]byte(wasm) != magic {
		if len(wasm) >= 8 && [4]byte(wasm) == [4]byte(magic[:4]) {
			return nil, invalid("WebAssembly version %d or a component is not supported", binary.LittleEndian.Uint32(wasm[4:])).
				WithNext("build a core module for wasm32")
		}
		return nil, invalid("not a WebAssembly module")
	}
	r := &reader{p: wasm, off: len(magic)}
	var out []section
	last := 0
	for r.left() > 0 {
		s := section{start: r.off}
		s.id = r.byte()
		s.content = r.bytes(r.u32())
		s.end = r.off
		if r.err != nil {
			return nil, r.err
		}
		if len(out) == maxSections {
			return nil, invalid("more than %d sections", maxSections)
		}
		switch {
		case s.id == sectCustom:
			c := &reader{p: s.content}
			s.name = c.name()
			if c.err != nil {
				return nil, c.err
			}
			s.content = s.content[c.off:]
		case int(s.id) >= len(sectionRank):
			return nil, invalid("section %d is unknown", s.id).
				WithNext("build the module without features after WebAssembly 2.0")
		case sectionRank[s.id] <= last:
			return nil, invalid("the %s section stands twice or in the wrong place", sectionNames[s.id])
		default:
			last = sectionRank[s.id]
		}
		out = append(out, s)
	}
	return out, nil
}

// Extract returns the manifest that a module carries, as a view into wasm. It
// is an invalid_module error if there is none, or more than one.
func Extract(wasm []byte) ([]byte, error) {
	all, err := sections(wasm)
	if err != nil {
		return nil, err
	}
	var found []byte
	n := 0
	for _, s := range all {
		if s.id == sectCustom && s.name == Section {
			found = s.content
			n++
		}
	}
	switch {
	case n == 0:
		return nil, invalid("the module has no manifest (custom section %s)", Section).
			WithNext("build it with: wasmtools build")
	case n > 1:
		return nil, invalid("the module has %d manifests", n)
	case len(found) > MaxBytes:
		return nil, invalid("the manifest has %d bytes; at most %d are allowed", len(found), MaxBytes)
	}
	return found, nil
}

// Embed returns wasm with manifestJSON as its manifest, in place of any older
// one. The same input gives the same bytes. It checks neither.
func Embed(wasm, manifestJSON []byte) ([]byte, error) {
	out, err := without(wasm, func(s section) bool { return s.name == Section })
	if err != nil {
		return nil, err
	}
	content := binary.AppendUvarint(nil, uint64(len(Section)))
	content = append(content, Section...)
	content = append(content, manifestJSON...)
	out = append(out, sectCustom)
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...), nil
}

// Strip returns wasm without its custom sections: what an engine needs, and
// none of the names and debugging data that a stranger may have filled in.
func Strip(wasm []byte) ([]byte, error) {
	return without(wasm, func(section) bool { return true })
}

// without copies wasm without the custom sections that drop names.
func without(wasm []byte, drop func(section) bool) ([]byte, error) {
	all, err := sections(wasm)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(wasm)+64)
	out = append(out, magic[:]...)
	for _, s := range all {
		if s.id == sectCustom && drop(s) {
			continue
		}
		out = append(out, wasm[s.start:s.end]...)
	}
	return out, nil
}
