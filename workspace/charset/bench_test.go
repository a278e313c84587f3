package charset

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// BenchmarkDetect has 1 MiB of text, and of bytes that are as bad as can be.
func BenchmarkDetect(b *testing.B) {
	const size = 1 << 20
	repeat := func(p []byte) []byte { return bytes.Repeat(p, size/len(p)) }
	random := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(0x80 + r.IntN(0x80))
	}
	for name, p := range map[string][]byte{
		"ascii":     []byte(strings.Repeat("int x = 1;\n", size/11)),
		"gb18030":   repeat(encoded(b, "gb18030", chinese)),
		"shift_jis": repeat(encoded(b, "shift_jis", japanese)),
		"latin1":    repeat(encoded(b, "latin1", german)),
		"utf-16le":  repeat(encoded(b, "utf-16le", german)),
		"random":    random,
		"a1":        repeat([]byte{0xa1}),
		"a1 lines":  repeat([]byte("a\xa1\n")),
		"spaces":    repeat([]byte("\xe9    ")),
		"cjk tail":  append(repeat([]byte{0xb0, 0xa1}), 0xff),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				Detect(p)
			}
		})
	}
}
