package selftest

import (
	"encoding/binary"

	"github.com/wasmtools/wasmtools/manifest"
)

// Where the guest keeps its answer; the digit in it is what it remembers.
const (
	answerAt = 1024
	answer   = `{"content":[{"type":"text","text":"0"}]}`
	digitAt  = answerAt + 35
)

// hostileGuest is a module of three tools: one never answers, one takes memory
// as long as it gets any, one tries to remember how often it was called. It is
// assembled here, so that a reader sees that nothing else is in it.
func hostileGuest() ([]byte, error) {
	call := body(
		0x20, 0, 0x28, 2, 4, // local.get 0; i32.load offset=4: the index of the tool
		0x41, 0, 0x46, 0x04, 0x40, // i32.const 0; i32.eq; if
		0x03, 0x40, 0x0c, 0, 0x0b, // loop; br 0; end
		0x0b,                                           // end
		0x20, 0, 0x28, 2, 4, 0x41, 1, 0x46, 0x04, 0x40, // the same for tool 1
		0x03, 0x40, 0x41, 1, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, // loop; memory.grow 1; i32.const -1; i32.ne; br_if 0; end
		0x00, // unreachable: there is no more
		0x0b, // end
		// else: the digit is raised and the answer given
		0x41, sleb(digitAt), 0x41, sleb(digitAt), 0x2d, 0, 0, 0x41, 1, 0x6a, 0x3a, 0, 0, // i32.store8(digit, i32.load8_u(digit) + 1)
		0x42, sleb(answerAt<<32|int64(len(answer))), // i64.const
	)
	code := []byte("\x00asm\x01\x00\x00\x00")
	code = section(code, 1, 2, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7e) // types: (i32) -> i32, (i32, i32) -> i64
	code = section(code, 3, 2, 0, 1)                                                 // two functions
	code = section(code, 5, 1, 0, 1)                                                 // one page of memory
	code = section(code, 7, 3, name("memory"), 2, 0, name("wt_alloc"), 0, 0, name("wt_call"), 0, 1)
	code = section(code, 10, 2, body(0x41, sleb(4096)), call) // wt_alloc: i32.const 4096
	code = section(code, 11, 1, 0, 0x41, sleb(answerAt), 0x0b, name(answer))
	return manifest.Embed(code, []byte(`{
		"abi": 1, "name": "hostile", "version": "1.0.0",
		"tools": [
			{"name": "loop_for_ever", "description": "Never answers.", "inputSchema": {"type": "object", "additionalProperties": false}, "effects": []},
			{"name": "take_memory", "description": "Takes memory as long as it gets any.", "inputSchema": {"type": "object", "additionalProperties": false}, "effects": []},
			{"name": "remember", "description": "Says how often it was called.", "inputSchema": {"type": "object", "additionalProperties": false}, "effects": []}
		],
		"limits": {"time_ms": 300, "memory_mib": 16}}`))
}

// section appends a section of the module. Its parts are bytes, given as int,
// and runs of bytes.
func section(module []byte, id byte, parts ...any) []byte {
	content := flat(parts)
	return append(binary.AppendUvarint(append(module, id), uint64(len(content))), content...)
}

// body is a function without locals.
func body(parts ...any) []byte {
	code := append([]byte{0}, flat(append(parts, 0x0b))...)
	return append(binary.AppendUvarint(nil, uint64(len(code))), code...)
}

func name(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }

func flat(parts []any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			out = append(out, byte(p))
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

// sleb is a number as constants are written: signed, seven bits a byte.
func sleb(v int64) []byte {
	for out := []byte(nil); ; {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
