package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// TestForeignCache: a foreign module is compiled once for all processes, and
// again if its entry was touched.
func TestForeignCache(t *testing.T) {
	home := t.TempDir()
	hello := sdkPlugin(t, "std_command.wasm")
	use := func() (compiled bool) {
		t.Helper()
		e := newEngine(t, Options{
			CacheDir: filepath.Join(home, "cache"), StateDir: filepath.Join(home, "state"), Limits: Limits{Compile: 10 * time.Minute},
			Notice: func(s string) {
				if !strings.HasPrefix(s, "compiling ") {
					t.Errorf("notice: %s", s)
				}
				compiled = true
			},
		})
		tl := foreignTool(t, e, hello, oneTool("", "export = \"_start\"\ninput = \"{input}\"\n"), "t", ToolOptions{})
		r, err := tl.Call(context.Background(), tool.Invocation{Arguments: []byte(`{"input":"ben"}`)}, tool.Discard{})
		if err != nil || !strings.Contains(r.PlainText(), "hello ben") {
			t.Fatalf("std_command = %v, %v", r, err)
		}
		return compiled
	}
	for i, want := range []bool{true, false, false} {
		if got := use(); got != want {
			t.Errorf("use %d compiled: %v, want %v", i, got, want)
		}
	}
	entries, err := filepath.Glob(filepath.Join(home, "cache", "compiled", "*"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("the cache holds %v, %v", entries, err)
	}
	p, err := os.ReadFile(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	p[len(p)/2] ^= 1
	if err := os.WriteFile(entries[0], p, 0o600); err != nil {
		t.Fatal(err)
	}
	if !use() {
		t.Error("a changed entry was used")
	}
	if use() {
		t.Error("the entry was not made again")
	}
}
