package rewrite

import (
	"fmt"
	"testing"
)

// code writes instructions: an opcode as its bytes, an int as an index, a number
// as a constant, bytes and characters as they are.
func code(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case opcode:
			switch p &^ 0xff {
			case misc:
				b = append(b, 0xfc)
			case vector:
				b = append(b, 0xfd)
			case atomic:
				b = append(b, 0xfe)
			}
			if p > 0xff {
				b = appendU32(b, uint32(p&0xff))
			} else {
				b = append(b, byte(p))
			}
		case byte:
			b = append(b, p)
		case rune:
			b = append(b, byte(p))
		case int:
			b = appendU32(b, uint32(p))
		case number:
			b = appendSigned(append(b, byte(opI32Const)), int64(p))
		case []byte:
			b = append(b, p...)
		default:
			panic(fmt.Sprintf("code: %T", p))
		}
	}
	return b
}

// A number is an i32.const.
type number int32

const (
	opNop        opcode = 0x01
	opBrIf       opcode = 0x0d
	opBrTable    opcode = 0x0e
	opReturn     opcode = 0x0f
	opDrop       opcode = 0x1a
	opLocalSet   opcode = 0x21
	opTableGet   opcode = 0x25
	opI32Load    opcode = 0x28
	opI32Store   opcode = 0x36
	opI32Eqz     opcode = 0x45
	opMemorySize opcode = 0x3f
)

var (
	i32  = ValType{Code: I32}
	i64  = ValType{Code: I64}
	i32s = []ValType{i32}
)

// only is a module with one exported function "f" of the given type and body,
// one page of memory and one table of four null functions.
func only(t funcType, body []byte, locals ...run) *Module {
	return &Module{
		types:     []funcType{t},
		functions: []function{{body: body, locals: locals}},
		tables:    []table{{elem: ValType{Code: FuncRef}, limits: limits{min: 4}}},
		memories:  []limits{{min: 1}},
		exports:   []moduleExport{{"f", Function, 0}, {"memory", Memory, 0}},
	}
}

func mustDecode(tb testing.TB, wasm []byte) *Module {
	tb.Helper()
	m, err := Decode(wasm)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
