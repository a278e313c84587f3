package output_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/terminal/output"
)

// stream is n bytes that differ from place to place.
func stream(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(7, 7))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// TestLogAgainstSlowTwin: whatever is written in whatever pieces, every read
// gives the bytes that stand there, or says how many are lost.
func TestLogAgainstSlowTwin(t *testing.T) {
	all := stream(3 << 20)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		var f *os.File
		limit := int64(0)
		if seed%4 != 0 {
			var err error
			if f, err = os.Create(filepath.Join(t.TempDir(), "spool")); err != nil {
				t.Fatal(err)
			}
			limit = []int64{1 << 10, 400 << 10, 900 << 10, 64 << 20}[r.IntN(4)]
		}
		l := output.NewLog(f, limit)
		written := 0
		for range 1 + r.IntN(60) {
			n := min(r.IntN([]int{100, 5000, 400_000}[r.IntN(3)]), len(all)-written)
			l.Write(all[written : written+n])
			written += n
			if l.Size() != int64(written) {
				t.Fatalf("Size() = %d after %d bytes", l.Size(), written)
			}
			p := make([]byte, 1+r.IntN(100_000))
			off := int64(r.IntN(written + 10))
			k, gap, err := l.ReadAt(p, off)
			at := off + gap
			if off >= int64(written) {
				if k != 0 || err != io.EOF {
					t.Fatalf("behind the end: %d, %v", k, err)
				}
				continue
			}
			if err != nil && err != io.EOF || !bytes.Equal(p[:k], all[at:at+int64(k)]) || k == 0 {
				t.Fatalf("seed %d: ReadAt(%d bytes, %d of %d) = %d, gap %d, %v: not what stands there", seed, len(p), off, written, k, gap, err)
			}
			if err == io.EOF && at+int64(k) != int64(written) {
				t.Fatalf("seed %d: an end at %d of %d", seed, at+int64(k), written)
			}
			inMemory := off < output.HeadBytes || off >= int64(written)-output.TailBytes
			if gap > 0 && (inMemory || int64(written) <= limit) {
				t.Fatalf("seed %d: %d bytes at %d of %d are lost with a spool of %d", seed, gap, off, written, limit)
			}
		}
		if f != nil {
			if fi, err := f.Stat(); err != nil || fi.Size() > limit {
				t.Errorf("a spool of %d bytes has %d, %v", limit, fi.Size(), err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSpoolThatFails: the log goes on in memory and says so.
func TestSpoolThatFails(t *testing.T) {
	f, err := os.Open(os.DevNull) // for reading
	if err != nil {
		t.Fatal(err)
	}
	l := output.NewLog(f, 1<<20)
	defer l.Close()
	all := stream(1 << 20)
	l.Write(all)
	if l.Spool() == nil {
		t.Error("nobody is told that the spool failed")
	}
	p := make([]byte, 100)
	for off, gap := range map[int64]int64{0: 0, output.HeadBytes: int64(len(all)) - output.TailBytes - output.HeadBytes, int64(len(all)) - 100: 0} {
		n, g, _ := l.ReadAt(p, off)
		if g != gap || !bytes.Equal(p[:n], all[off+gap:off+gap+int64(n)]) {
			t.Errorf("at %d: %d bytes after a gap of %d; want %d", off, n, g, gap)
		}
	}
}

func TestLogIsConcurrent(t *testing.T) {
	l := output.NewLog(nil, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				l.Write(bytes.Repeat([]byte("x"), 997))
				n, _, _ := l.ReadAt(make([]byte, 2000), max(0, l.Size()-1500))
				if n == 0 {
					t.Error("nothing was read")
				}
			}
		})
	}
	wg.Wait()
	if l.Size() != 4*200*997 {
		t.Errorf("Size() = %d", l.Size())
	}
}

// TestOpenSpool: what a spool holds is read again by its offsets, as far as it was
// kept.
func TestOpenSpool(t *testing.T) {
	for _, size := range []int{0, 100, output.HeadBytes, 2 * output.TailBytes, 1 << 20, 3<<20 + 17} {
		path := t.TempDir() + "/spool"
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, size)
		for i := range text {
			text[i] = byte('a' + (i*i>>8+i)%26)
		}
		const limit = 2 << 20
		l := output.NewLog(nil, 0)
		l.Attach(f, limit)
		for rest := text; len(rest) > 0; {
			n := min(5003, len(rest))
			l.Write(rest[:n])
			rest = rest[n:]
		}
		l.Close()
		if f, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		again, err := output.OpenSpool(f, limit, int64(size))
		if err != nil {
			t.Fatal(err)
		}
		var kept int
		for at := int64(0); at < int64(size); {
			p := make([]byte, 7001)
			n, gap, err := again.ReadAt(p, at)
			if n > 0 && !bytes.Equal(p[:n], text[at+gap:at+gap+int64(n)]) {
				t.Fatalf("size %d: other bytes at %d", size, at+gap)
			}
			kept += n
			at += gap + int64(n)
			if err == io.EOF {
				break
			} else if err != nil || n == 0 && gap == 0 {
				t.Fatal(n, gap, err)
			}
		}
		if want := min(size, limit); kept != want {
			t.Errorf("of %d bytes %d are kept, want %d", size, kept, want)
		}
		again.Close()
	}
}
