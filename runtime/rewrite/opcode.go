package rewrite

// An opcode is an instruction's number: its byte, or for the prefixed ones the
// prefix' page and the number that follows.
type opcode uint16

// Pages of prefixed instructions.
const (
	misc   opcode = 0x100 // prefix 0xfc
	vector opcode = 0x200 // prefix 0xfd
	atomic opcode = 0x300 // prefix 0xfe
)

// The opcodes that somebody here asks for by name.
const (
	opUnreachable        opcode = 0x00
	opBlock              opcode = 0x02
	opLoop               opcode = 0x03
	opIf                 opcode = 0x04
	opElse               opcode = 0x05
	opThrow              opcode = 0x08
	opThrowRef           opcode = 0x0a
	opEnd                opcode = 0x0b
	opBr                 opcode = 0x0c
	opCall               opcode = 0x10
	opCallIndirect       opcode = 0x11
	opReturnCall         opcode = 0x12
	opReturnCallIndirect opcode = 0x13
	opCallRef            opcode = 0x14
	opReturnCallRef      opcode = 0x15
	opTryTable           opcode = 0x1f
	opLocalGet           opcode = 0x20
	opLocalTee           opcode = 0x22
	opGlobalGet          opcode = 0x23
	opGlobalSet          opcode = 0x24
	opTableSet           opcode = 0x26
	opMemoryGrow         opcode = 0x40
	opI32Const           opcode = 0x41
	opI64Const           opcode = 0x42
	opF32Const           opcode = 0x43
	opF64Const           opcode = 0x44
	opI32LeS             opcode = 0x4c
	opI32Add             opcode = 0x6a
	opI32Sub             opcode = 0x6b
	opI32Mul             opcode = 0x6c
	opI32ShrU            opcode = 0x76
	opI64Add             opcode = 0x7c
	opI64Mul             opcode = 0x7e
	opRefNull            opcode = 0xd0
	opRefFunc            opcode = 0xd2

	opMemoryInit = misc | 0x08
	opDataDrop   = misc | 0x09
	opMemoryCopy = misc | 0x0a
	opMemoryFill = misc | 0x0b
	opTableInit  = misc | 0x0c
	opElemDrop   = misc | 0x0d
	opTableCopy  = misc | 0x0e
	opTableGrow  = misc | 0x0f
	opTableFill  = misc | 0x11

	opV128Const = vector | 0x0c

	opWait32 = atomic | 0x01
	opWait64 = atomic | 0x02
)

// A shape is what follows an opcode in the binary format.
type shape byte

const (
	immUnknown    shape = iota // no instruction of this number is known
	immNone                    // nothing
	immBlock                   // a block type; opens a label
	immTry                     // a block type and catch clauses; opens a label
	immEnd                     // nothing; closes a label
	immLabel                   // a label
	immLabels                  // a list of labels and one more
	immFunction                // a function
	immTypeTable               // a type and a table
	immType                    // a type
	immTag                     // a tag
	immLocal                   // a local
	immGlobal                  // a global
	immTable                   // a table
	immTables                  // two tables
	immSelect                  // a list of exactly one value type
	immHeap                    // a heap type
	immAccess                  // alignment and offset
	immAccessLane              // alignment, offset and a lane
	immLane                    // a lane
	immZero                    // a zero byte
	immMemory                  // a zero byte where the index of a memory could stand
	immMemories                // two of them
	immI32                     // a signed integer of 32 bits
	immI64                     // a signed integer of 64 bits
	imm4                       // four bytes
	imm8                       // eight bytes
	imm16                      // sixteen bytes
	immData                    // a data segment
	immDataMemory              // a data segment and a memory
	immElem                    // an element segment
	immElemTable               // an element segment and a table
)

// A row says that the instructions from one number to another have one shape.
type row struct {
	from, to opcode
	shape    shape
}

// shapes holds the shape of every instruction there is. What no row names is
// unknown and refused.
var shapes = fill(
	// Control.
	row{0x00, 0x01, immNone},  // unreachable, nop
	row{0x02, 0x04, immBlock}, // block, loop, if
	row{0x05, 0x05, immNone},  // else
	row{0x08, 0x08, immTag},   // throw
	row{0x0a, 0x0a, immNone},  // throw_ref
	row{0x0b, 0x0b, immEnd},
	row{0x0c, 0x0d, immLabel}, // br, br_if
	row{0x0e, 0x0e, immLabels},
	row{0x0f, 0x0f, immNone}, // return
	row{0x10, 0x10, immFunction},
	row{0x11, 0x11, immTypeTable},
	row{0x12, 0x12, immFunction},  // return_call
	row{0x13, 0x13, immTypeTable}, // return_call_indirect
	row{0x14, 0x15, immType},      // call_ref, return_call_ref
	row{0x1a, 0x1b, immNone},      // drop, select
	row{0x1c, 0x1c, immSelect},    // select with a type
	row{0x1f, 0x1f, immTry},

	// Variables, tables, memory, constants.
	row{0x20, 0x22, immLocal},
	row{0x23, 0x24, immGlobal},
	row{0x25, 0x26, immTable},  // table.get, table.set
	row{0x28, 0x3e, immAccess}, // loads and stores
	row{0x3f, 0x40, immMemory}, // memory.size, memory.grow
	row{0x41, 0x41, immI32},
	row{0x42, 0x42, immI64},
	row{0x43, 0x43, imm4},
	row{0x44, 0x44, imm8},

	// Arithmetic, conversions, sign extension.
	row{0x45, 0xc4, immNone},

	// References.
	row{0xd0, 0xd0, immHeap},     // ref.null
	row{0xd1, 0xd1, immNone},     // ref.is_null
	row{0xd2, 0xd2, immFunction}, // ref.func
	row{0xd4, 0xd4, immNone},     // ref.as_non_null
	row{0xd5, 0xd6, immLabel},    // br_on_null, br_on_non_null

	// Saturating conversions and bulk operations.
	row{misc, misc | 0x07, immNone},
	row{misc | 0x08, misc | 0x08, immDataMemory}, // memory.init
	row{misc | 0x09, misc | 0x09, immData},       // data.drop
	row{misc | 0x0a, misc | 0x0a, immMemories},   // memory.copy
	row{misc | 0x0b, misc | 0x0b, immMemory},     // memory.fill
	row{misc | 0x0c, misc | 0x0c, immElemTable},  // table.init
	row{misc | 0x0d, misc | 0x0d, immElem},       // elem.drop
	row{misc | 0x0e, misc | 0x0e, immTables},     // table.copy
	row{misc | 0x0f, misc | 0x11, immTable},      // table.grow, table.size, table.fill

	// Vectors. The numbers have gaps where earlier drafts had instructions.
	row{vector, vector | 0x0b, immAccess},
	row{vector | 0x0c, vector | 0x0d, imm16},   // v128.const, i8x16.shuffle
	row{vector | 0x0e, vector | 0x14, immNone}, // swizzle, splats
	row{vector | 0x15, vector | 0x22, immLane},
	row{vector | 0x23, vector | 0x53, immNone},
	row{vector | 0x54, vector | 0x5b, immAccessLane},
	row{vector | 0x5c, vector | 0x5d, immAccess},
	row{vector | 0x5e, vector | 0x99, immNone},
	row{vector | 0x9b, vector | 0xa1, immNone},
	row{vector | 0xa3, vector | 0xa4, immNone},
	row{vector | 0xa7, vector | 0xae, immNone},
	row{vector | 0xb1, vector | 0xb1, immNone},
	row{vector | 0xb5, vector | 0xba, immNone},
	row{vector | 0xbc, vector | 0xc1, immNone},
	row{vector | 0xc3, vector | 0xc4, immNone},
	row{vector | 0xc7, vector | 0xce, immNone},
	row{vector | 0xd1, vector | 0xd1, immNone},
	row{vector | 0xd5, vector | 0xe1, immNone},
	row{vector | 0xe3, vector | 0xed, immNone},
	row{vector | 0xef, vector | 0xff, immNone},

	// Atomics.
	row{atomic, atomic | 0x02, immAccess},      // notify, wait
	row{atomic | 0x03, atomic | 0x03, immZero}, // fence
	row{atomic | 0x10, atomic | 0x4e, immAccess},
)

func fill(rows ...row) (t [0x400]shape) {
	for _, r := range rows {
		for op := r.from; op <= r.to; op++ {
			t[op] = r.shape
		}
	}
	return t
}

// refusedOpcodes are instructions that exist and are refused by name.
var refusedOpcodes = map[opcode]Feature{
	0x06: LegacyExceptions, // try
	0x07: LegacyExceptions, // catch
	0x09: LegacyExceptions, // rethrow
	0x18: LegacyExceptions, // delegate
	0x19: LegacyExceptions, // catch_all
	0xd3: GarbageCollection,
	0xfb: GarbageCollection,
}

// isCall tells whether op may run another function.
func (op opcode) isCall() bool { return op >= opCall && op <= opReturnCallRef }

// isControl tells whether op can go on elsewhere than behind itself, or depends
// on what is there. A block does neither.
func (op opcode) isControl() bool {
	return op < 0x20 && op != opBlock || shapes[op] == immLabel
}

// bulkUnit is how many bytes or elements of work are one unit of fuel, as a
// power of two, or 0 if op is no bulk operation. An element takes eight bytes,
// so a unit is 64 bytes either way.
func (op opcode) bulkUnit() int64 {
	switch op {
	case opMemoryInit, opMemoryCopy, opMemoryFill:
		return 6
	case opTableInit, opTableCopy, opTableGrow, opTableFill:
		return 3
	}
	return 0
}

// isConstant tells whether op may stand in a constant expression.
func (op opcode) isConstant() bool {
	switch op {
	case opEnd, opGlobalGet, opRefNull, opRefFunc, opV128Const:
		return true
	}
	return op >= opI32Const && op <= opF64Const ||
		op >= opI32Add && op <= opI32Mul ||
		op >= opI64Add && op <= opI64Mul
}
