package rewrite

// An instruction is one instruction as it stands in the module.
type instruction struct {
	op      opcode
	at, end int // offsets of its first byte and of the byte behind it

	x uint32 // the function, global, type or label that it names, if it names one

	// typ is the function type of a block, or what a ref.null refers to. It is
	// negative where that is no type of the module.
	typ int64
}

// open tells whether the code that is being read has more instructions. A
// reader is put in front of code by giving it one label, that of the code itself.
func (r *reader) open() bool { return r.err == nil && r.count[labels] > 0 }

// instruction reads one instruction with all its immediates.
func (r *reader) instruction() instruction {
	in := instruction{at: r.at}
	in.op = r.opcode()
	switch shapes[in.op] {
	case immNone:
	case immBlock:
		in.typ = r.blockType()
		r.count[labels]++
	case immTry:
		in.typ = r.blockType()
		r.catches()
		r.count[labels]++
	case immEnd:
		r.count[labels]--
	case immLabel:
		in.x = r.index(labels)
	case immLabels:
		for range r.entries(1) + 1 {
			r.index(labels)
		}
	case immFunction:
		in.x = r.index(functions)
	case immTypeTable:
		in.x = r.index(types)
		r.index(tables)
	case immType:
		in.x = r.index(types)
	case immTag:
		r.index(tags)
	case immLocal:
		r.index(locals)
	case immGlobal:
		in.x = r.index(globals)
	case immTable:
		r.index(tables)
	case immTables:
		r.index(tables)
		r.index(tables)
	case immSelect:
		if start := r.at; r.u8() != 1 {
			r.malformed(start, "select with more or less than one type")
		}
		r.valType()
	case immHeap:
		in.typ = r.heapType()
	case immAccess:
		r.access()
	case immAccessLane:
		r.access()
		r.u8()
	case immLane:
		r.u8()
	case immZero:
		if start := r.at; r.u8() != 0 {
			r.malformed(start, "zero byte expected")
		}
	case immMemory:
		r.memory()
	case immMemories:
		r.memory()
		r.memory()
	case immI32:
		r.signed(32)
	case immI64:
		r.signed(64)
	case imm4:
		r.bytes(4)
	case imm8:
		r.bytes(8)
	case imm16:
		r.bytes(16)
	case immData:
		r.index(datas)
	case immDataMemory:
		r.index(datas)
		r.memory()
	case immElem:
		r.index(elements)
	case immElemTable:
		r.index(elements)
		r.index(tables)
	default:
		if f, ok := refusedOpcodes[in.op]; ok {
			r.unsupported(in.at, f)
		} else {
			r.malformed(in.at, "unknown instruction % x", r.wasm[in.at:min(in.at+2, len(r.wasm))])
		}
	}
	in.end = r.at
	return in
}

// opcode reads the number of an instruction. The second number of a prefixed
// one is a LEB128 integer by the specification, and a single byte to an engine
// that takes the byte 0x01 behind a number above 0x7f for a nop (wazero 1.12).
// Only the shortest form of a number below 0x100 means the same to both.
func (r *reader) opcode() opcode {
	var page opcode
	switch b := r.u8(); b {
	case 0xfc:
		page = misc
	case 0xfd:
		page = vector
	case 0xfe:
		page = atomic
	default:
		return opcode(b)
	}
	start := r.at
	n := r.u32()
	switch short := n < 0x80 && r.at-start == 1 || n >= 0x80 && r.at-start == 2; {
	case n > 0xff && page == vector:
		r.unsupported(start-1, RelaxedSIMD)
	case n > 0xff || !short:
		r.malformed(start-1, "unknown instruction % x", r.wasm[start-1:min(start+2, len(r.wasm))])
	}
	return page | opcode(n&0xff)
}

// access reads the alignment and offset of a load or store.
func (r *reader) access() {
	start := r.at
	if align := r.u32(); align >= 0x40 && align < 0x80 {
		r.unsupported(start, MultipleMemories)
	} else if align >= 32 {
		r.malformed(start, "alignment 2^%d", align)
	}
	r.u32()
}

// catches reads the catch clauses of a try_table. Their labels are counted from
// outside the block.
func (r *reader) catches() {
	for range r.entries(2) {
		start := r.at
		switch kind := r.u8(); kind {
		case 0, 1: // catch, catch_ref
			r.index(tags)
		case 2, 3: // catch_all, catch_all_ref
		default:
			r.malformed(start, "unknown catch clause %#x", kind)
		}
		r.index(labels)
	}
}
