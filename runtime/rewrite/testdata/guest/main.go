// A guest with the kinds of work that tools do, for the benchmarks. Every
// export takes a size and returns something that depends on all of the work.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
)

func main() {}

var input [1 << 20]byte

func init() {
	for i := range input {
		input[i] = byte(i * 7 >> 3)
	}
}

//go:wasmexport loop
func loop(n uint32) uint32 {
	sum := uint32(0)
	for range n {
		for _, b := range input[:1<<16] {
			sum = sum*31 + uint32(b)
		}
	}
	return sum
}

//go:wasmexport fib
func fib(n uint32) uint32 {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

//go:wasmexport sha
func sha(n uint32) uint32 {
	sum := sha256.Sum256(input[:n])
	return binary.LittleEndian.Uint32(sum[:])
}

//go:wasmexport sorting
func sorting(n uint32) uint32 {
	list := make([]uint32, n)
	x := uint32(1)
	for i := range list {
		x = x*1664525 + 1013904223
		list[i] = x
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return list[n/2]
}

type person struct {
	Name string            `json:"name"`
	Age  int               `json:"age"`
	Tags []string          `json:"tags"`
	More map[string]string `json:"more"`
}

//go:wasmexport jsons
func jsons(n uint32) uint32 {
	size := 0
	for i := range n {
		p := person{fmt.Sprint("person ", i), int(i), []string{"a", "bb", "ccc"}, map[string]string{"k": "v", "key": "value"}}
		text, err := json.Marshal(p)
		if err != nil {
			panic(err)
		}
		var q person
		if err := json.Unmarshal(text, &q); err != nil || q.Name != p.Name {
			panic("lost")
		}
		size += len(text)
	}
	return uint32(size)
}

var words = regexp.MustCompile(`(?i)\b([a-z]+)[0-9]{2,}\b`)

//go:wasmexport regexps
func regexps(n uint32) uint32 {
	text := bytes.Repeat([]byte("the quick brown fox42 jumps over Lazy007 dogs; "), int(n))
	return uint32(len(words.FindAll(text, -1)))
}
