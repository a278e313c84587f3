package main

import "math/bits"

// countByte counts c in p, eight bytes at a time: counting lines is most of what
// reading a large file costs, and the standard library has no fast way on wasm.
func countByte(p []byte, c byte) int64 {
	const low = 0x7f7f7f7f7f7f7f7f
	all := uint64(c) * 0x0101010101010101
	n := 0
	for ; len(p) >= 8; p = p[8:] {
		x := word(p) ^ all // a byte that is c is zero now
		// The high bit of each byte is set unless the byte is zero.
		n += 8 - bits.OnesCount64(((x&low)+low|x)&^low)
	}
	for _, b := range p {
		if b == c {
			n++
		}
	}
	return int64(n)
}

// word is what encoding/binary would give; that package would link reflect.
func word(p []byte) uint64 {
	_ = p[7]
	return uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
		uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
}
