package linmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unsealedImage is what NewImage makes but for its seals.
func unsealedImage(t *testing.T, mem []byte) *Image {
	t.Helper()
	i := mustImage(t, mem)
	fd, err := createMemfd()
	if err != nil {
		t.Fatal(err)
	}
	data, err := i.fill(fd, mem[:len(i.data)], 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.discard(); err != nil {
		t.Fatal(err)
	}
	i.data, i.file.fd = data, fd
	return i
}

// attacks are ways to change a file that somebody else has mapped.
var attacks = []struct {
	name string
	do   func(fd int) error
}{
	{"write", func(fd int) error { _, err := unix.Pwrite(fd, []byte("evil"), 0); return err }},
	{"map shared", func(fd int) error {
		b, err := unix.Mmap(fd, 0, int(pageSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			copy(b, "evil")
			err = unix.Munmap(b)
		}
		return err
	}},
	{"punch hole", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(pageSize))
	}},
	{"grow", func(fd int) error { return unix.Ftruncate(fd, 64<<20) }},
	{"allocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, 64<<20) }},
	{"shrink", func(fd int) error { return unix.Ftruncate(fd, int64(pageSize)) }},
	{"unseal", func(fd int) error {
		// Seals cannot be taken away; adding one is what the last seal forbids.
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
		return err
	}},
}

// The snapshot is shared by all instances of a module: whoever could write to it
// would be in every call. Both the descriptor and a second opening are tried.
func TestImageCannotBeChanged(t *testing.T) {
	want := layout("full", 2*WasmPage)
	copy(want, "good")
	image := mustImage(t, want)
	if image.copied {
		t.Skip("no files in memory here")
	}
	m := mustNew(t, 2*WasmPage, image, detected())
	b := mustRealloc(t, m, 2*WasmPage)
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", image.file.fd), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, fd := range []int{image.file.fd, int(again.Fd())} {
		for _, a := range attacks {
			if err := a.do(fd); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s = %v; want EPERM", a.name, err)
			}
		}
	}
	if _, err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if d := differs(b, want); d != "" {
		t.Error("after the attacks ", d)
	}
	if d := differs(mustRealloc(t, mustNew(t, 2*WasmPage, image, detected()), 2*WasmPage), want); d != "" {
		t.Error("a new memory after the attacks ", d)
	}
	if got, err := unix.FcntlInt(uintptr(image.file.fd), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		t.Errorf("seals = %#x, %v; want all of %#x", got, err, seals)
	}
}

// The control: without seals the same attacks succeed, and the first three change
// what all instances see, the ones that exist and those to come.
func TestUnsealedImageIsChanged(t *testing.T) {
	for _, a := range attacks {
		want := layout("full", 2*WasmPage)
		copy(want, "good")
		if mustImage(t, want).copied {
			t.Skip("no files in memory here")
		}
		image := unsealedImage(t, want)
		m := mustNew(t, 2*WasmPage, image, detected())
		b := mustRealloc(t, m, 2*WasmPage)
		again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", image.file.fd), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := a.do(int(again.Fd())); err != nil {
			t.Errorf("without seals %s = %v; want success", a.name, err)
		}
		switch a.name {
		case "write", "map shared", "punch hole":
			if _, err := m.Reset(); err != nil {
				t.Fatal(err)
			}
			other := mustRealloc(t, mustNew(t, 2*WasmPage, image, detected()), 2*WasmPage)
			if bytes.HasPrefix(b, []byte("good")) || bytes.HasPrefix(other, []byte("good")) {
				t.Errorf("without seals %s changed nothing: %q, %q", a.name, b[:4], other[:4])
			}
		}
	}
}

// Zeroes cost nothing: neither those between the data nor those behind it.
func TestImageIsSparse(t *testing.T) {
	mem := make([]byte, 16<<20)
	for _, off := range []int{0, 4 << 20, 8 << 20} {
		mem[off+5] = 1
	}
	image := mustImage(t, mem)
	if image.copied {
		t.Skip("no files in memory here")
	}
	var st unix.Stat_t
	if err := unix.Fstat(image.file.fd, &st); err != nil {
		t.Fatal(err)
	}
	if got, want := uint64(st.Blocks)*512, 3*pageSize; got != want {
		t.Errorf("three pages of data take %d bytes; want %d", got, want)
	}
	if got, want := uint64(st.Size), uint64(8<<20)+pageSize; got != want {
		t.Errorf("the file has %d bytes; want %d", got, want)
	}

	// Putting zeroes back must not fill the holes either.
	m := mustNew(t, 16<<20, image, detected())
	b := mustRealloc(t, m, 16<<20)
	b[12<<20] = 1
	if _, err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fstat(image.file.fd, &st); err != nil {
		t.Fatal(err)
	}
	if got, want := uint64(st.Blocks)*512, 3*pageSize; got != want {
		t.Errorf("after a reset the data takes %d bytes; want %d", got, want)
	}
}

func init() { children["descriptors"] = descriptorsChild }

func descriptorsChild() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fmt.Println(to)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	fmt.Printf("%s", maps)
	return err
}

// A program that this process starts gets neither the snapshot nor a view of this
// process's page tables.
func TestNotInherited(t *testing.T) {
	image := mustImage(t, layout("full", WasmPage))
	if image.copied || pagemapFD() < 0 {
		t.Skip("no files in memory, or no page map here")
	}
	seen := func(out string) (memfd, pagemap bool) {
		return strings.Contains(out, "wasmtools-image"), strings.Contains(out, "pagemap")
	}
	if memfd, pm := seen(child(t, "descriptors")); memfd || pm {
		t.Errorf("a child sees the image %v, the page map %v; want neither", memfd, pm)
	}

	// The control: copies that may be inherited are seen.
	for _, fd := range []int{image.file.fd, pagemapFD()} {
		dup, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(dup)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=descriptors")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if memfd, pm := seen(string(out)); !memfd || !pm {
		t.Errorf("the control sees the image %v, the page map %v; want both", memfd, pm)
	}
}
