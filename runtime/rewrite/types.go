package rewrite

import "encoding/binary"

// A ValType is the type of a value in a module.
type ValType struct {
	Code byte // the binary format's, see the constants

	// Heap is what a Ref or RefNull refers to: the index of a function type, or
	// one of the negative codes of the binary format.
	Heap int64
}

// Codes of value types.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
	ExnRef    byte = 0x69
	Ref       byte = 0x64
	RefNull   byte = 0x63
)

// Codes of abstract heap types, as signed integers.
const (
	heapFunc   = -0x10
	heapExtern = -0x11
	heapExn    = -0x17
)

func (t ValType) isReference() bool { return t.Code <= FuncRef }

// isNumber tells whether a host can read and write the value as 64 bits.
func (t ValType) isNumber() bool { return t.Code >= F64 && t.Code <= I32 }

func (r *reader) valType() ValType {
	start := r.at
	switch code := r.u8(); code {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef, ExnRef:
		return ValType{Code: code}
	case Ref, RefNull:
		return ValType{Code: code, Heap: r.heapType()}
	default:
		if code >= 0x6a && code <= 0x78 {
			r.unsupported(start, GarbageCollection)
		} else {
			r.malformed(start, "unknown value type %#x", code)
		}
		return ValType{}
	}
}

func (r *reader) refType() ValType {
	start := r.at
	t := r.valType()
	if !t.isReference() {
		r.malformed(start, "value type %#x is no reference", t.Code)
	}
	return t
}

// heapType reads what a reference refers to. The negative codes are single
// bytes: an engine that reads them as such must not find an index in a padded one.
func (r *reader) heapType() int64 {
	start := r.at
	h := r.signed(33)
	switch {
	case h >= 0:
		if uint64(h) >= uint64(r.count[types]) && !r.unchecked {
			r.malformed(start, "type %d does not exist, there are %d", h, r.count[types])
		}
	case r.at-start > 1:
		r.malformed(start, "padded heap type")
	case h != heapFunc && h != heapExtern && h != heapExn:
		r.unsupported(start, GarbageCollection)
	}
	return h
}

// blockType reads the type of a block: nothing, one value, or a function type,
// whose index it returns. The others give -1.
func (r *reader) blockType() int64 {
	if r.left() > 0 {
		switch b := r.wasm[r.at]; {
		case b == emptyBlock:
			r.at++
			return -1
		case b > emptyBlock && b < 0x80:
			r.valType()
			return -1
		}
	}
	start := r.at
	i := r.signed(33)
	if i < 0 {
		r.malformed(start, "padded block type")
	} else if uint64(i) >= uint64(r.count[types]) && !r.unchecked {
		r.malformed(start, "type %d does not exist, there are %d", i, r.count[types])
	}
	return i
}

// emptyBlock is the type of a block that takes and gives nothing.
const emptyBlock = 0x40

func appendValType(b []byte, t ValType) []byte {
	b = append(b, t.Code)
	if t.Code == Ref || t.Code == RefNull {
		b = appendSigned(b, t.Heap)
	}
	return b
}

// A funcType is what a function takes and gives.
type funcType struct {
	params, results []ValType
}

func (r *reader) funcType() funcType {
	start := r.at
	switch form := r.u8(); form {
	case 0x60:
		return funcType{params: r.values(), results: r.values()}
	case 0x4e:
		r.unsupported(start, RecursiveTypes)
	case 0x4f, 0x50, 0x5e, 0x5f:
		r.unsupported(start, GarbageCollection)
	default:
		r.malformed(start, "unknown type form %#x", form)
	}
	return funcType{}
}

func (r *reader) values() []ValType {
	start := r.at
	n := r.entries(1)
	if n > maxValues {
		r.malformed(start, "%d values in a function type, at most %d", n, maxValues)
		n = 0
	}
	var list []ValType
	for range n {
		list = append(list, r.valType())
	}
	return list
}

func appendFuncType(b []byte, t funcType) []byte {
	b = append(b, 0x60)
	for _, list := range [...][]ValType{t.params, t.results} {
		b = appendU32(b, uint32(len(list)))
		for _, v := range list {
			b = appendValType(b, v)
		}
	}
	return b
}

// limits say how large a memory (in pages) or table (in elements) is and may become.
type limits struct {
	min    uint32
	max    uint32 // meaningful if hasMax
	hasMax bool
	shared bool
}

func (r *reader) limits() limits {
	start := r.at
	var l limits
	switch flags := r.u8(); {
	case flags > 0x0f:
		r.malformed(start, "unknown limits %#x", flags)
	case flags&0x08 != 0:
		r.unsupported(start, PageSizes)
	case flags&0x04 != 0:
		r.unsupported(start, Memory64)
	default:
		l.hasMax, l.shared = flags&1 != 0, flags&2 != 0
	}
	l.min = r.u32()
	if l.hasMax {
		l.max = r.u32()
		if l.max < l.min {
			r.malformed(start, "maximum %d below minimum %d", l.max, l.min)
		}
	}
	return l
}

func appendLimits(b []byte, l limits) []byte {
	var flags byte
	if l.hasMax {
		flags |= 1
	}
	if l.shared {
		flags |= 2
	}
	b = appendU32(append(b, flags), l.min)
	if l.hasMax {
		b = appendU32(b, l.max)
	}
	return b
}

func (r *reader) memoryType() limits {
	start := r.at
	l := r.limits()
	if l.shared && !l.hasMax {
		r.malformed(start, "shared memory without a maximum")
	}
	return l
}

// A table is a table's type and, for one that is defined here, the value that
// its elements start with (nil means null).
type table struct {
	elem ValType
	limits
	init []byte
}

func appendTable(b []byte, t table) []byte {
	if t.init != nil {
		b = append(b, 0x40, 0x00)
	}
	b = appendValType(b, t.elem)
	b = appendLimits(b, t.limits)
	return append(b, t.init...)
}

// A globalType is a global's type.
type globalType struct {
	val     ValType
	mutable bool
}

func (r *reader) globalType() globalType {
	t := globalType{val: r.valType()}
	start := r.at
	switch m := r.u8(); m {
	case 0, 1:
		t.mutable = m == 1
	default:
		r.malformed(start, "unknown mutability %#x", m)
	}
	return t
}

func appendGlobalType(b []byte, t globalType) []byte {
	b = appendValType(b, t.val)
	if t.mutable {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

// appendSigned appends v in the shortest signed LEB128 form.
func appendSigned(b []byte, v int64) []byte {
	for v < -0x40 || v > 0x3f {
		b = append(b, byte(v&0x7f)|0x80)
		v >>= 7
	}
	return append(b, byte(v&0x7f))
}

func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}
