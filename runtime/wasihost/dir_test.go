package wasihost

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// TestNamesAreMemory reads one directory through many descriptors. The names that
// stand in the host's memory meanwhile count as the guest's, until it closes the
// directory or begins anew.
func TestNamesAreMemory(t *testing.T) {
	const files, limit = 2_000, 1 << 20
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("a-name-of-some-length-%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	newTree := func(memory int64) *readOnlyTree {
		c := &hostfuncs.Call{Grant: hostfuncs.Grant{Read: []string{"**"}}}
		c.Files = hostfuncs.NewOverlay(w, c.Grant, nil, nil)
		c.Limits.MemoryBytes = memory
		return &readOnlyTree{tree{host: New(t.Context(), c)}}
	}
	read := func(tr *readOnlyTree) (sys.File, sys.Errno) {
		t.Helper()
		d, errno := tr.OpenFile(".", sys.O_DIRECTORY, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		_, errno = d.Readdir(10 * files)
		return d, errno
	}
	readAll := func(tr *readOnlyTree) (n int) {
		t.Helper()
		for ; n < 30; n++ {
			if _, errno := read(tr); errno != 0 {
				break
			}
		}
		return n
	}

	tr := newTree(limit)
	if n := readAll(tr); n == 0 || n > limit/(files*nameCost) {
		t.Errorf("the names of %d directories of %d files fit into %d bytes", n, files, limit)
	}
	err = fmt.Errorf("the guest fails")
	if fault := tr.host.Outcome(err); fault.Code != tool.MemoryLimit {
		t.Errorf("the call ends with %v; want memory_limit", fault)
	}
	if n := readAll(newTree(64 << 20)); n != 30 {
		t.Errorf("control: with enough memory %d of 30 are read", n)
	}

	tr = newTree(limit)
	for range 30 {
		d, errno := read(tr)
		if errno != 0 {
			t.Fatalf("what was closed still counts: %v", errno)
		}
		if _, errno := d.Seek(0, io.SeekStart); errno != 0 || tr.host.Memory.used != 0 {
			t.Errorf("%d bytes count after a new beginning (%v)", tr.host.Memory.used, errno)
		}
		if _, errno := d.Readdir(10 * files); errno != 0 {
			t.Fatal(errno)
		}
		if d.Close(); tr.host.Memory.used != 0 {
			t.Errorf("%d bytes count after Close", tr.host.Memory.used)
		}
	}
}
