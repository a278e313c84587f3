package main

// digest is a running SHA-256 (FIPS 180-4), written to piece by piece. The standard
// library's would make the module a quarter larger; a test compares them. It is
// used to compare a file with the digest that the caller expects, never as a
// guard against the caller.
type digest struct {
	h     [8]uint32
	size  uint64
	block []byte // less than one
}

func newDigest() *digest {
	return &digest{
		h:     [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
		block: make([]byte, 0, 64),
	}
}

func (s *digest) write(p []byte) {
	s.size += uint64(len(p))
	if len(s.block) > 0 {
		n := min(64-len(s.block), len(p))
		s.block = append(s.block, p[:n]...)
		p = p[n:]
		if len(s.block) < 64 {
			return
		}
		shaBlock(&s.h, s.block)
		s.block = s.block[:0]
	}
	for ; len(p) >= 64; p = p[64:] {
		shaBlock(&s.h, p[:64])
	}
	s.block = append(s.block, p...)
}

// hex ends the sum and returns its hexadecimal digits.
func (s *digest) hex() string {
	h := s.h
	bits := s.size * 8
	tail := append(make([]byte, 0, 128), s.block...)
	tail = append(tail, 0x80)
	for len(tail)%64 != 56 {
		tail = append(tail, 0)
	}
	for shift := 56; shift >= 0; shift -= 8 {
		tail = append(tail, byte(bits>>shift))
	}
	for ; len(tail) > 0; tail = tail[64:] {
		shaBlock(&h, tail[:64])
	}
	out := make([]byte, 0, 64)
	for _, w := range h {
		for shift := 28; shift >= 0; shift -= 4 {
			out = append(out, "0123456789abcdef"[w>>shift&15])
		}
	}
	return string(out)
}

func shaBlock(h *[8]uint32, p []byte) {
	var w [64]uint32
	for i := range 16 {
		w[i] = uint32(p[4*i])<<24 | uint32(p[4*i+1])<<16 | uint32(p[4*i+2])<<8 | uint32(p[4*i+3])
	}
	rot := func(x uint32, n uint) uint32 { return x>>n | x<<(32-n) }
	for i := 16; i < 64; i++ {
		s0 := rot(w[i-15], 7) ^ rot(w[i-15], 18) ^ w[i-15]>>3
		s1 := rot(w[i-2], 17) ^ rot(w[i-2], 19) ^ w[i-2]>>10
		w[i] = w[i-16] + s0 + w[i-7] + s1
	}
	a, b, c, d, e, f, g, k := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	for i := range 64 {
		s1 := rot(e, 6) ^ rot(e, 11) ^ rot(e, 25)
		t1 := k + s1 + (e&f ^ ^e&g) + shaRound[i] + w[i]
		s0 := rot(a, 2) ^ rot(a, 13) ^ rot(a, 22)
		t2 := s0 + (a&b ^ a&c ^ b&c)
		a, b, c, d, e, f, g, k = t1+t2, a, b, c, d+t1, e, f, g
	}
	for i, v := range [8]uint32{a, b, c, d, e, f, g, k} {
		h[i] += v
	}
}

var shaRound = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
