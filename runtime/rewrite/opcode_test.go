package rewrite

import (
	"bytes"
	"testing"
)

// TestOpcodesAgainstEngine gives every instruction there could be, followed by
// zero to eighteen zero bytes, to the decoder and to the engine, which must
// agree. Behind an unreachable any operands fit, and what follows can only be
// read from its first byte, so to accept the module is to know the instruction
// and to take exactly these zeros for its immediates (and for unreachables).
func TestOpcodesAgainstEngine(t *testing.T) {
	h := newHost(t, interpreter())
	after := code(opV128Const, bytes.Repeat([]byte{0xfb}, 16), opDrop, opUnreachable)
	agreed := 0
	for op := range opcode(len(shapes)) {
		if op == 0xfc || op == 0xfd || op == 0xfe {
			continue // prefixes
		}
		for zeros := range 19 {
			body := code(opUnreachable, op, make([]byte, zeros), after)
			if shapes[op] == immBlock || shapes[op] == immTry {
				body = append(body, byte(opEnd))
			}
			wasm := everything(append(body, byte(opEnd))).Encode()
			_, err := Decode(wasm)
			switch valid := validates(t.Context(), h, wasm); {
			case valid == (err == nil):
				if valid {
					agreed++
				}
			case !valid && engineAlone[op]:
			default:
				t.Errorf("%#x and %d zeros: Decode: %v; the engine accepts: %v", uint16(op), zeros, err, valid)
			}
		}
	}
	if agreed < 8000 {
		t.Errorf("only %d modules were accepted", agreed)
	}
}

// engineAlone are the instructions that the engine refuses for reasons that are
// none of the decoder's.
var engineAlone = map[opcode]bool{
	opElse: true, // without an if
	0xd6:   true, // br_on_non_null to a label that takes nothing

	atomic | 0x13: true, // i32.atomic.load16_u: zero is not its alignment
}

// everything is a module with one of everything that an index of zero can name,
// and a function of the given body.
func everything(body []byte) *Module {
	one := uint32(1)
	return &Module{
		types:     []funcType{{}},
		functions: []function{{body: body, locals: []run{{1, i32}}}},
		tables:    []table{{elem: ValType{Code: FuncRef}, limits: limits{min: 4}}},
		memories:  []limits{{min: 1, max: 1, hasMax: true, shared: true}},
		tags:      []uint32{0},
		globals:   []global{{globalType{i32, true}, code(number(0), opEnd)}},
		exports:   []moduleExport{{"f", Function, 0}},
		elements:  []element{{flags: elemPassive, elem: ValType{Code: FuncRef}, funcs: []uint32{0}}},
		dataCount: &one,
		datas:     []data{{flags: dataPassive, bytes: []byte("x")}},
	}
}
