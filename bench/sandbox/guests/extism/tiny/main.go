//go:build wasip1

// Command tiny is the guest of the same name as an Extism plugin.
package main

import "github.com/wasmtools/wasmtools/testdata/foreign/pdk"

//go:wasmexport call
func call() int32 {
	count := byte(0)
	for _, b := range pdk.Input() {
		if b == 'a' {
			count++
		}
	}
	answer := []byte(`{"content":[{"type":"text","text":"0"}]}`)
	answer[len(answer)-5] += count % 10
	pdk.Output(answer)
	return 0
}

func main() {}
