package toolswasm_test

import (
	"testing"

	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

// TestModules checks once what no start of the program does any more.
func TestModules(t *testing.T) {
	for name, m := range map[string]struct {
		wasm   []byte
		digest tool.Digest
	}{
		"core":  {toolswasm.Core(), toolswasm.CoreDigest()},
		"media": {toolswasm.Media(), toolswasm.MediaDigest()},
	} {
		if got := tool.DigestOf(m.wasm); got != m.digest {
			t.Errorf("%s.wasm is %s, %s.wasm.sha256 says %s: run go generate ./tools-wasm", name, got, name, m.digest)
		}
	}
	// media asks for more memory than a stranger's module gets.
	if err := runtime.Check(toolswasm.Core()); err != nil {
		t.Errorf("a stranger's module with the bytes of core.wasm is refused: %v", err)
	}
}
