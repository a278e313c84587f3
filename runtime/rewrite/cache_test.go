package rewrite

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cacheRefused lists the valid modules of the module cache that are refused.
var cacheRefused = map[string]Feature{
	"experimental/testdata/cpp_exceptions.wasm":                          Exceptions,
	"internal/integration_test/engine/testdata/eh_br_orphan.wasm":        Exceptions,
	"internal/integration_test/engine/testdata/eh_br_stale_handler.wasm": Exceptions,
	"internal/integration_test/engine/testdata/eh_cross_callnative.wasm": Exceptions,
	"internal/integration_test/engine/testdata/eh_pdfium.wasm":           Exceptions,
	"internal/integration_test/engine/testdata/eh_throw_ref_null.wasm":   Exceptions,
	"experimental/testdata/pthread.wasm":                                 AtomicWait,
	"internal/integration_test/engine/testdata/threads/mutex.wasm":       AtomicWait,
}

// TestModuleCache instruments the modules that lie in the module cache besides
// the specification tests: made by many compilers, and found by fuzzing the
// engine. Each must stay as valid as it was and do what it did.
func TestModuleCache(t *testing.T) {
	dir, err := wazeroDir()
	if err != nil {
		t.Skipf("needs the go command and the engine's source: %v", err)
	}
	dirs := []string{dir}
	if out, err := exec.Command("go", "env", "GOMODCACHE").Output(); err == nil {
		more, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "github.com", "extism", "go-sdk@*"))
		dirs = append(dirs, more...)
	}
	h := newHost(t, interpreter())
	n := 0
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(file) != ".wasm" || strings.Contains(file, "spectest") {
				return err
			}
			name, _ := filepath.Rel(dir, file)
			wasm, err := os.ReadFile(file)
			if err != nil || !long() && len(wasm) > 500_000 {
				return err
			}
			n++
			t.Run(filepath.ToSlash(name), func(t *testing.T) { checkCached(t, h, wasm, filepath.ToSlash(name)) })
			return nil
		})
	}
	t.Logf("%d modules", n)
}

func checkCached(t *testing.T, h *host, wasm []byte, name string) {
	m, err := Decode(wasm)
	if err == nil {
		_, err = Instrument(m, production)
	}
	if err != nil {
		if validates(t.Context(), h, wasm) && string(cacheRefused[name]) != reason(err) {
			t.Errorf("refused: %v; want %q", err, cacheRefused[name])
		}
		return
	}
	checkInstrument(t, h, wasm)
}
