package hostfuncs

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// TestTrail: what a call read is noted, what it was refused is not, and a call
// that reads a whole tree leaves a bounded list and a count.
func TestTrail(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range tool.MaxUsagePaths + 10 {
		write(fmt.Sprintf("%s/f%03d", dir, i))
	}
	write(dir + "/secret")
	w, err := workspace.Open(dir, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var trail Trail
	grant := Grant{Read: []string{"f*"}}
	call := &Call{Grant: grant, Files: NewOverlay(w, grant, &trail, nil)}
	read := func(path string) error {
		_, err := call.ReadAt(t.Context(), path, make([]byte, 1), 0)
		return err
	}
	for range 2 {
		for i := range 3 {
			if err := read(fmt.Sprintf("f%03d", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := read("secret"); tool.CodeOf(err) != tool.GrantMissing {
		t.Fatalf("reading what was not granted = %v", err)
	}
	if paths, more := trail.Files(); fmt.Sprint(paths) != "[f000 f001 f002]" || more != 0 {
		t.Errorf("noted %v and %d more; want the three files that were read", paths, more)
	}
	for i := range tool.MaxUsagePaths + 10 {
		if err := read(fmt.Sprintf("f%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if paths, more := trail.Files(); len(paths) != tool.MaxUsagePaths || more != 10 {
		t.Errorf("noted %d paths and %d more; want %d and 10", len(paths), more, tool.MaxUsagePaths)
	}
}

// TestTrailIsConcurrent is for the race detector: a search asks from several
// goroutines.
func TestTrailIsConcurrent(t *testing.T) {
	var trail Trail
	guard := trail.watch(Guard(Grant{Read: []string{"**"}}))
	var wg sync.WaitGroup
	const n = 8
	for g := range n {
		wg.Go(func() {
			for i := range 100 {
				_ = guard(workspace.VerbRead, fmt.Sprintf("%d/%d", g, i), tool.Identity{})
			}
		})
	}
	wg.Wait()
	if paths, more := trail.Files(); int64(len(paths))+more != n*100 {
		t.Errorf("%d paths and %d more are noted of %d readings", len(paths), more, n*100)
	}
}
