package main

import "github.com/wasmtools/wasmtools/manifest"

// hostileGuest is a module whose one tool loops for ever, with a time limit of
// 300 ms of its own. It is assembled here, byte by byte, so that a reader sees
// that nothing else is in it.
func hostileGuest() ([]byte, error) {
	code := []byte("\x00asm\x01\x00\x00\x00" +
		"\x01\x0c\x02\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e" + // types: (i32) -> i32, (i32, i32) -> i64
		"\x03\x03\x02\x00\x01" + // two functions
		"\x05\x03\x01\x00\x01" + // one page of memory
		"\x07\x1f\x03\x06memory\x02\x00\x08wt_alloc\x00\x00\x07wt_call\x00\x01" +
		"\x0a\x10\x02" +
		"\x05\x00\x41\x80\x08\x0b" + // wt_alloc: i32.const 1024
		"\x08\x00\x03\x40\x0c\x00\x0b\x00\x0b") // wt_call: loop; br 0; end; unreachable
	return manifest.Embed(code, []byte(`{
		"abi": 1, "name": "hostile", "version": "1.0.0",
		"tools": [{"name": "loop_for_ever", "description": "Never answers.",
			"inputSchema": {"type": "object", "additionalProperties": false}, "effects": []}],
		"limits": {"time_ms": 300}}`))
}
