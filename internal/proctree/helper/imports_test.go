//go:build linux && (amd64 || arm64)

package helper

import (
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
)

// TestImports: each further import lets more of the program initialise before
// a helper runs, in the helper too.
func TestImports(t *testing.T) {
	const ours = "github.com/wasmtools/wasmtools/internal/proctree/"
	allowed := []string{"errors", "io", "os", "os/signal", "runtime", "slices", "strconv", "sync", "syscall", "time", "unsafe", ours + "walk", ours + "wire"}
	for _, pkg := range []string{ours + "helper", ours + "walk", ours + "wire"} {
		out, err := exec.Command("go", "list", "-json=Imports", pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		var p struct{ Imports []string }
		if err := json.Unmarshal(out, &p); err != nil {
			t.Fatal(err)
		}
		for _, imp := range p.Imports {
			if !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s: what a helper needs is initialised before it starts, see hook.go", pkg, imp)
			}
		}
		if len(p.Imports) == 0 {
			t.Errorf("%s imports nothing", pkg)
		}
	}
}
