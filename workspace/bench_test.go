package workspace

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// benchBox holds a file of 2 KB at depths 0, 4 and 8.
func benchBox(b *testing.B, opts Options) *box {
	x := newBox(b, opts)
	for depth := 0; depth <= 8; depth += 4 {
		x.build(strings.Repeat("d/", depth) + "f = " + strings.Repeat("0123456789abcde\n", 128))
	}
	return x
}

// BenchmarkRead is one call that reads a small file: check, open, stat, read,
// close.
func BenchmarkRead(b *testing.B) {
	for _, depth := range []int{0, 4, 8} {
		name := strings.Repeat("d/", depth) + "f"
		buf := make([]byte, 4096)
		for _, no := range []bool{false, true} {
			b.Run(fmt.Sprintf("depth=%d/how=%s", depth, map[bool]string{false: "openat2", true: "fallback"}[no]), func(b *testing.B) {
				x := benchBox(b, Options{NoOpenat2: no})
				ctx := b.Context()
				for b.Loop() {
					o := x.overlay()
					if n, _ := o.ReadAt(ctx, name, buf, 0); n != 2048 {
						b.Fatal(n)
					}
					o.Close()
				}
			})
		}
		b.Run(fmt.Sprintf("depth=%d/how=os.Root", depth), func(b *testing.B) {
			x := benchBox(b, Options{})
			for b.Loop() {
				f, err := x.w.osRoot.Open(name)
				if err != nil {
					b.Fatal(err)
				}
				f.Stat()
				f.ReadAt(buf, 0)
				f.Close()
			}
		})
		b.Run(fmt.Sprintf("depth=%d/how=os", depth), func(b *testing.B) {
			x := benchBox(b, Options{})
			for b.Loop() {
				f, err := os.Open(x.W + "/" + name)
				if err != nil {
					b.Fatal(err)
				}
				f.Stat()
				f.ReadAt(buf, 0)
				f.Close()
			}
		})
	}
}

// BenchmarkResolve is the canonical name and identity of a path, without and with
// a link in it.
func BenchmarkResolve(b *testing.B) {
	for _, no := range []bool{false, true} {
		x := benchBox(b, Options{NoOpenat2: no})
		x.build("d/d/d/d/l => d/d/d/d", "d/d/d/d/flat => f")
		for _, p := range []string{"f", "d/d/d/d/f", "d/d/d/d/d/d/d/d/f", "d/d/d/d/flat", "d/d/d/d/l/f"} {
			b.Run(fmt.Sprintf("%s/%s", map[bool]string{false: "openat2", true: "fallback"}[no], strings.ReplaceAll(p, "/", "_")), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := x.w.Resolve(p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkWrite4K overwrites a file: read and digest the old one, approve
// nothing, lock, check, stage, swap.
func BenchmarkWrite4K(b *testing.B) {
	data := [2][]byte{[]byte(strings.Repeat("a", 4096)), []byte(strings.Repeat("b", 4096))}
	for _, c := range []struct {
		name string
		opts Options
	}{
		{"nosync", Options{NoSync: true}},
		{"nosync,repository", Options{NoSync: true}},
		{"nosync,locks", Options{NoSync: true, StateDir: b.TempDir()}},
		{"sync", Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			x := benchBox(b, c.opts)
			if strings.HasSuffix(c.name, "repository") {
				x.build(".git/HEAD = x", ".git/objects/", ".git/refs/", ".git/config = [core]\n\tbare = false\n")
			}
			ctx := b.Context()
			for i := 0; b.Loop(); i++ {
				o := x.overlay()
				if _, err := o.Write(ctx, "f", data[i%2], true); err != nil {
					b.Fatal(err)
				}
				if err := x.w.Commit(ctx, o.WriteSet()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("os.WriteFile", func(b *testing.B) {
		x := benchBox(b, Options{})
		for i := 0; b.Loop(); i++ {
			if err := os.WriteFile(x.W+"/f", data[i%2], 0o644); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList(b *testing.B) {
	x := newBox(b, Options{})
	for i := range 1000 {
		x.build(fmt.Sprintf("d/file%04d = x", i))
	}
	ctx := b.Context()
	for b.Loop() {
		if page, err := x.overlay().List(ctx, "d", ListOptions{}); err != nil || len(page.Entries) != 200 {
			b.Fatal(err)
		}
	}
}

func BenchmarkEdit(b *testing.B) {
	for _, eol := range []string{"\n", "\r\n", "mixed"} {
		line := "some line of text" + eol
		if eol == "mixed" {
			line = "some line\r\nof text\n"
		}
		src := []byte(strings.Repeat(line, 60_000) + "needle\n" + strings.Repeat(line, 100))
		m := newMatcher(src)
		b.Run(strings.NewReplacer("\n", "LF", "\r", "CR").Replace(eol), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if len(m.occurrences([]byte("text\nneedle\n"), 2, true)) == 0 {
					b.Fatal("not found")
				}
			}
		})
	}
}
