//go:build wasip1

// Package pdk is as much of Extism's interface for plugins as the fixtures
// need.
package pdk

import "encoding/binary"

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoad8(at uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoad64(at uint64) uint64

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env free
func free(at uint64)

//go:wasmimport extism:host/env length
func length(at uint64) uint64

//go:wasmimport extism:host/env load_u8
func load8(at uint64) uint32

//go:wasmimport extism:host/env load_u64
func load64(at uint64) uint64

//go:wasmimport extism:host/env store_u8
func store8(at uint64, b uint32)

//go:wasmimport extism:host/env store_u64
func store64(at, v uint64)

//go:wasmimport extism:host/env output_set
func outputSet(at, n uint64)

//go:wasmimport extism:host/env error_set
func errorSet(at uint64)

//go:wasmimport extism:host/env config_get
func configGet(name uint64) uint64

//go:wasmimport extism:host/env var_get
func varGet(name uint64) uint64

//go:wasmimport extism:host/env var_set
func varSet(name, value uint64)

//go:wasmimport extism:host/env http_request
func httpRequest(request, body uint64) uint64

//go:wasmimport extism:host/env http_status_code
func httpStatus() uint32

// Input is what the call was given.
func Input() []byte {
	p := make([]byte, inputLength())
	for i := range p {
		if i%8 == 0 && i+8 <= len(p) {
			binary.LittleEndian.PutUint64(p[i:], inputLoad64(uint64(i)))
		} else if i >= len(p)&^7 {
			p[i] = byte(inputLoad8(uint64(i)))
		}
	}
	return p
}

// Put hands bytes to the host.
func Put(p []byte) uint64 {
	at := alloc(uint64(len(p)))
	i := 0
	for ; i+8 <= len(p); i += 8 {
		store64(at+uint64(i), binary.LittleEndian.Uint64(p[i:]))
	}
	for ; i < len(p); i++ {
		store8(at+uint64(i), uint32(p[i]))
	}
	return at
}

// Get takes bytes from the host.
func Get(at uint64) []byte {
	if at == 0 {
		return nil
	}
	p := make([]byte, length(at))
	for i := range p {
		p[i] = byte(load8(at + uint64(i)))
	}
	return p
}

// Output sets what the call answers.
func Output(p []byte) {
	outputSet(Put(p), uint64(len(p)))
}

// Fail sets the call's error and gives what it returns.
func Fail(text string) int32 {
	errorSet(Put([]byte(text)))
	return 1
}

// Config reads a setting.
func Config(name string) string { return string(Get(configGet(Put([]byte(name))))) }

// Var reads a variable, SetVar sets one.
func Var(name string) string { return string(Get(varGet(Put([]byte(name))))) }

// SetVar sets a variable.
func SetVar(name, value string) { varSet(Put([]byte(name)), Put([]byte(value))) }

// Fetch makes a request that is described by JSON.
func Fetch(request string) (int, []byte) {
	body := Get(httpRequest(Put([]byte(request)), 0))
	return int(httpStatus()), body
}

// Scribble writes over the memory around a block, where a host may keep what it
// knows about it, and then makes the host look for room.
func Scribble() {
	block := alloc(4096)
	for at := max(block&^7, 128) - 96; at < block+64; at += 4 {
		store64(at, 0xfffffff4fffffff4)
	}
	for range 100 {
		free(alloc(1 << 10))
	}
}
