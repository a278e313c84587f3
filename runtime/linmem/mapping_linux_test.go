package linmem

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Huge pages are kept out of the part that has no file.
func TestNoHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("no huge pages: ", err)
	}
	m := mustNew(t, 64<<20, mustImage(t, layout("tail", 32*WasmPage)), detected())
	mustRealloc(t, m, 40*WasmPage)
	found := 0
	for _, v := range mappings(t, m) {
		if v.file || !v.writable {
			continue
		}
		found++
		if !strings.Contains(" "+v.fields["VmFlags"]+" ", " nh ") {
			t.Errorf("a mapping without the no-huge-pages flag: %+v", v)
		}
	}
	if found == 0 {
		t.Error("no writable mapping without file; want the zeroes behind the image and the growth")
	}
}

// Nothing can be read or written next to a memory, and that is the memory's own
// doing and not what happens to lie there.
func TestGuardIsReserved(t *testing.T) {
	image := mustImage(t, layout("full", WasmPage))
	for _, limit := range []uint64{0, WasmPage, 64 << 20} {
		m := mustNew(t, limit, nil, detected())
		if limit > 0 {
			m = mustNew(t, limit, image, detected())
			mustRealloc(t, m, limit)
		}
		base := uint64(uintptr(m.base))
		if whole := uint64(uintptr(m.whole)); whole != base-Guard || uint64(m.length) != limit+2*Guard {
			t.Fatalf("limit %#x: reserved %#x to %#x for a memory at %#x", limit, whole, whole+uint64(m.length), base)
		}
		for name, at := range map[string]uint64{"before": base - Guard, "after": base + limit} {
			covered := uint64(0)
			for _, v := range allMappings(t) {
				from, to := max(v.from, at), min(v.to, at+Guard)
				if from >= to {
					continue
				}
				covered += to - from
				if v.access != "---p" {
					t.Errorf("limit %#x: %s it %#x bytes are mapped %s", limit, name, to-from, v.access)
				}
			}
			if covered != Guard {
				t.Errorf("limit %#x: %s it %#x bytes are reserved; want %#x", limit, name, covered, uint64(Guard))
			}
		}
	}
}

type mapping struct {
	from, to       uint64
	access         string
	writable, file bool
	fields         map[string]string
}

var mappingLine = regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+)`)

// mappings are the process's mappings within m.
func mappings(t testing.TB, m *Memory) (some []mapping) {
	t.Helper()
	base := uint64(uintptr(m.base))
	for _, v := range allMappings(t) {
		if v.from >= base && v.from < base+m.limit {
			some = append(some, v)
		}
	}
	return some
}

// allMappings are the process's mappings, from /proc/self/smaps.
func allMappings(t testing.TB) (all []mapping) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines(string(text)) {
		if x := mappingLine.FindStringSubmatch(line); x != nil {
			from, _ := strconv.ParseUint(x[1], 16, 64)
			to, _ := strconv.ParseUint(x[2], 16, 64)
			all = append(all, mapping{from, to, x[3], x[3][1] == 'w', x[4] != "0", map[string]string{}})
		} else if name, value, ok := strings.Cut(line, ":"); ok {
			all[len(all)-1].fields[name] = strings.TrimSpace(value)
		}
	}
	return all
}

// privateKiB is how much memory m has of its own.
func privateKiB(t testing.TB, m *Memory) (kib int) {
	t.Helper()
	for _, v := range mappings(t, m) {
		n, err := strconv.Atoi(strings.TrimSuffix(v.fields["Anonymous"], " kB"))
		if err != nil {
			t.Fatal(err)
		}
		kib += n
	}
	return kib
}
