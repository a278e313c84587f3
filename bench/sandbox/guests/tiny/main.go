//go:build wasip1

// Command tiny is a Go guest that speaks the ABI by hand, without JSON: it counts
// a letter in the bytes of its request.
package main

import "unsafe"

var (
	request [1 << 16]byte
	answer  = []byte(`{"content":[{"type":"text","text":"0"}]}`)
)

//go:wasmexport wt_alloc
func alloc(n int32) int32 {
	if n < 0 || int(n) > len(request) {
		return 0
	}
	return int32(uintptr(unsafe.Pointer(&request)))
}

//go:wasmexport wt_call
func call(_, n int32) int64 {
	count := byte(0)
	for _, b := range request[:n] {
		if b == 'a' {
			count++
		}
	}
	answer[len(answer)-5] = '0' + count%10
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(answer))))<<32 | int64(len(answer))
}

func main() {}
