package linmem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// children are bodies that a test runs in a process of its own, since they
// change or end the process. They print what they saw.
var children = map[string]func() error{}

const childEnv = "LINMEM_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		body, ok := children[name]
		if !ok {
			fmt.Println("no such child:", name)
			os.Exit(2)
		}
		if err := body(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs the body called name and returns what it printed.
func child(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child %s: %v\n%s", name, err, out)
	}
	return string(out)
}

func mustImage(t testing.TB, mem []byte) *Image {
	t.Helper()
	i, err := NewImage(mem)
	if err != nil {
		t.Fatalf("NewImage(%d bytes) = %v", len(mem), err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return i
}

func mustNew(t testing.TB, limit uint64, i *Image, how mechanism) *Memory {
	t.Helper()
	m, err := newMemory(limit, i, how)
	if err != nil {
		t.Fatalf("newMemory(%d) = %v", limit, err)
	}
	t.Cleanup(m.Free)
	return m
}

func mustRealloc(t testing.TB, m *Memory, size uint64) []byte {
	t.Helper()
	b := m.Reallocate(size)
	if b == nil || uint64(len(b)) != size || uint64(cap(b)) != size {
		t.Fatalf("Reallocate(%d) has length %d, capacity %d; want both %d", size, len(b), cap(b), size)
	}
	return b
}

// eachMechanism runs f once for every mechanism that this system can have.
func eachMechanism(t *testing.T, f func(t *testing.T, how mechanism)) {
	for how := whole; how <= detected(); how++ {
		t.Run(how.String(), func(t *testing.T) { f(t, how) })
	}
}

// filledPages says for an image of n pages which of them hold data.
var filledPages = map[string]func(p, n int, r *rand.Rand) bool{
	"zero":   func(int, int, *rand.Rand) bool { return false },
	"full":   func(int, int, *rand.Rand) bool { return true },
	"holes":  func(p, _ int, _ *rand.Rand) bool { return p%2 == 1 },
	"first":  func(p, _ int, _ *rand.Rand) bool { return p == 0 },
	"last":   func(p, n int, _ *rand.Rand) bool { return p == n-1 },
	"tail":   func(p, n int, _ *rand.Rand) bool { return p < n/3 },
	"random": func(_, _ int, r *rand.Rand) bool { return r.IntN(3) == 0 },
}

// layout is an image of size bytes with the named distribution of data.
func layout(name string, size int) []byte {
	page := int(pageSize)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	b := make([]byte, size)
	for p := range size / page {
		if !filledPages[name](p, size/page, r) {
			continue
		}
		for i := p * page; i < (p+1)*page; i += 1 + r.IntN(256) {
			b[i] = byte(r.Uint32())
		}
		b[p*page+r.IntN(page)] = 1
	}
	return b
}

// layouts are images of size bytes that differ in where their data lie.
func layouts(size int) map[string][]byte {
	all := map[string][]byte{}
	for name := range filledPages {
		all[name] = layout(name, size)
	}
	return all
}

// differs names the first byte in which got is not want.
func differs(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes; want %d", len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return ""
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %#x (page %d) is %#x; want %#x", i, i/int(pageSize), got[i], want[i])
		}
	}
	return ""
}

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }
