package linmem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// usage is what the process holds of the system. rssKiB counts a page of an image
// once for every memory that has it mapped, anonKiB only what is not shared.
type usage struct{ descriptors, mappings, rssKiB, anonKiB int }

func measure() (u usage, err error) {
	runtime.GC()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return u, err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return u, err
	}
	u.descriptors, u.mappings = len(fds), strings.Count(string(maps), "\n")
	for name, kib := range map[string]*int{"VmRSS:": &u.rssKiB, "RssAnon:": &u.anonKiB} {
		_, value, _ := strings.Cut(string(status), name)
		if *kib, err = strconv.Atoi(strings.Fields(value + " -")[0]); err != nil {
			return u, err
		}
	}
	return u, nil
}

func init() {
	children["leak"] = leakChild
	children["address space"] = addressSpaceChild
	children["data"] = dataChild
}

// leakChild makes and frees a thousand memories, each with an image of its own,
// twice, and holds a thousand in between as the control.
func leakChild() error {
	mem := make([]byte, 4*WasmPage)
	for i := uint64(0); i < 4*WasmPage; i += 2 * pageSize {
		mem[i] = 1
	}
	one := func(i int) (*Memory, *Image, error) {
		image, err := NewImage(mem)
		if err != nil {
			return nil, nil, err
		}
		m, err := New(6*WasmPage, image)
		if err != nil {
			return nil, nil, err
		}
		b := m.Reallocate(4 * WasmPage)
		fill(b, byte(i))
		if _, err := m.Reset(); err != nil {
			return nil, nil, err
		}
		m.Reallocate(6 * WasmPage)[5*WasmPage] = 1
		return m, image, nil
	}
	turn := func() error {
		for i := range 1000 {
			m, image, err := one(i)
			if err != nil {
				return err
			}
			if i%2 == 0 { // in either order
				image.Close()
				m.Free()
			} else {
				m.Free()
				image.Close()
			}
			m.Free()
		}
		return nil
	}
	report := func(when string) error {
		u, err := measure()
		fmt.Println(when, u.descriptors, u.mappings, u.rssKiB, u.anonKiB)
		return err
	}
	if _, err := measure(); err != nil { // opens what the Go runtime keeps open
		return err
	}
	if err := errors.Join(turn(), report("before"), turn(), report("after")); err != nil {
		return err
	}
	var held []*Memory
	for i := range 1000 {
		m, image, err := one(i)
		if err != nil {
			return err
		}
		if i%2 == 0 {
			image.Close()
		}
		held = append(held, m)
	}
	err := report("held")
	runtime.KeepAlive(held)
	return err
}

func TestNothingLeftBehind(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max < 2100 {
		t.Skip("the control needs a thousand open files: ", limit.Max, err)
	}
	got := map[string]usage{}
	for _, line := range lines(child(t, "leak")) {
		var when string
		var u usage
		if _, err := fmt.Sscan(line, &when, &u.descriptors, &u.mappings, &u.rssKiB, &u.anonKiB); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got[when] = u
	}
	before, after, held := got["before"], got["after"], got["held"]
	t.Logf("before %+v, after %+v, a thousand held %+v", before, after, held)
	if after.descriptors != before.descriptors || after.mappings > before.mappings+20 || after.rssKiB > before.rssKiB+8<<10 {
		t.Errorf("a thousand memories made and freed: %+v became %+v", before, after)
	}
	if held.descriptors < before.descriptors+1000 || held.mappings < before.mappings+2000 || held.rssKiB < before.rssKiB+100<<10 {
		t.Errorf("the control, a thousand memories held, is not seen: %+v became %+v", before, held)
	}
}

// addressSpaceChild asks for more address space than it may have.
func addressSpaceChild() error {
	image, err := NewImage(append(make([]byte, WasmPage-1), 1))
	if err != nil {
		return err
	}
	m, err := New(MaxLimit, image) // the control
	if err != nil {
		return fmt.Errorf("without a limit: %w", err)
	}
	m.Free()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		return err
	}
	most := pages*pageSize + 1<<30
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	before, err := measure()
	if err != nil {
		return err
	}
	for range 100 {
		if m, err := New(MaxLimit, image); err == nil {
			m.Free()
			return errors.New("New(4 GiB) succeeded with a gigabyte of address space left")
		}
	}
	if image.refs != 0 {
		return fmt.Errorf("%d references to the image after failed attempts", image.refs)
	}
	after, err := measure()
	if err != nil || after.mappings > before.mappings+20 {
		return fmt.Errorf("after failed attempts: %+v, before: %+v: %v", after, before, err)
	}
	m, err = New(WasmPage, image)
	if err != nil {
		return fmt.Errorf("New of one page: %w", err)
	}
	m.Free()
	return nil
}

// dataChild grows a memory beyond what the system gives.
func dataChild() error {
	m, err := New(MaxLimit, nil)
	if err != nil {
		return err
	}
	if m.Reallocate(WasmPage) == nil {
		return errors.New("Reallocate of one page = nil")
	}
	const most = 1 << 30
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	if b := m.Reallocate(2 << 30); b != nil || !m.Refused() || m.Size() != WasmPage {
		return fmt.Errorf("Reallocate(2 GiB) = %d bytes, Refused %v, Size %d; want nil, true, a page", len(b), m.Refused(), m.Size())
	}
	b := m.Reallocate(4 * WasmPage)
	if len(b) != 4*WasmPage {
		return errors.New("a small growth after a refused one failed")
	}
	b[len(b)-1] = 1
	m.Free()
	return nil
}

func TestSystemRefuses(t *testing.T) {
	if math.MaxInt < MaxLimit {
		t.Skip("addresses have 32 bits")
	}
	child(t, "address space")
	child(t, "data")
}
