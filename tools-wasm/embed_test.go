package toolswasm_test

import (
	"testing"

	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
	toolswasm "github.com/wasmtools/wasmtools/tools-wasm"
)

// TestCore checks once what no start of the program does any more.
func TestCore(t *testing.T) {
	if got := tool.DigestOf(toolswasm.Core()); got != toolswasm.CoreDigest() {
		t.Errorf("core.wasm is %s, core.wasm.sha256 says %s: run go generate ./tools-wasm", got, toolswasm.CoreDigest())
	}
	if err := runtime.Check(toolswasm.Core()); err != nil {
		t.Errorf("a stranger's module with these bytes is refused: %v", err)
	}
}
