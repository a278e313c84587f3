package runtime

import (
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/hostfuncs"
)

// TestLimits has the figures that are promised.
func TestLimits(t *testing.T) {
	want := Limits{
		Limits: hostfuncs.Limits{MemoryBytes: 64 << 20, OutputBytes: 1 << 20, HostCalls: 10_000, NoteBytes: 256 << 10, NotesPerSec: 100},
		Time:   30 * time.Second, Compile: 30 * time.Second, CompileMemory: 2 << 30, Concurrency: 4, Total: 32, Queue: 64,
	}
	if got := (Limits{}).withDefaults(); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	for name, c := range map[string][2]int{
		"elements of tables": {maxTable, 65_536}, "bytes of a function's body": {maxBody, 512 << 10}, "bytes of a module": {maxModule, 32 << 20},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: at most %d, want %d", name, c[0], c[1])
		}
	}
}
