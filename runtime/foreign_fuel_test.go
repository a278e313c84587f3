package runtime

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// TestFuelOfForeignModules wants the same count in every run, in this engine and
// in another, however the guest ends. Programs in Go are not among them: they draw
// their seeds anew in every call.
func TestFuelOfForeignModules(t *testing.T) {
	wasi := filepath.Join(dependency(t, "github.com/tetratelabs/wazero"), "imports/wasi_snapshot_preview1")
	program := func(name string) []byte {
		p, err := os.ReadFile(filepath.Join(wasi, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	input := "export = \"count_vowels\"\ninput = \"{input}\"\n"
	cases := []struct {
		name          string
		code, sidecar []byte
		args          string
		want          tool.Code
	}{
		{"JavaScript plugin", sdkPlugin(t, "count_vowels.wasm"), oneTool("", input), `{"input":"hello world"}`, ""},
		{"the same with more to do", sdkPlugin(t, "count_vowels.wasm"), oneTool("", input), `{"input":"a somewhat longer text than that"}`, ""},
		{"plugin that fails", sdkPlugin(t, "fail.wasm"), oneTool("", "export = \"run_test\"\n"), `{}`, tool.Trap},
		{"plugin that exits", sdkPlugin(t, "exit.wasm"), oneTool("[config]\ncode = \"7\"\n", "export = \"_start\"\n"), `{}`, tool.Trap},
		{"Rust command", program("testdata/cargo-wasi/wasi.wasm"), oneTool("", argv), `{"argv":["stat"],"input":""}`, ""},
		{"Zig command", program("testdata/zig/wasi.wasm"), oneTool("", argv), `{"argv":["preopen"],"input":""}`, ""},
		{"command that fails", program("example/testdata/cargo-wasi/cat.wasm"), oneTool("", argv), `{"argv":["none"],"input":""}`, tool.Trap},
	}
	seen := map[string]int64{}
	for range 2 {
		e := patientEngine(t)
		for _, c := range cases {
			m := foreignModule(t, e, c.code, c.sidecar)
			for range 2 {
				r, u, err := m.Run(context.Background(), &hostfuncs.Call{Invocation: tool.Invocation{CallID: "1", Arguments: []byte(c.args)}})
				if err != nil || r.Code != c.want || u.Fuel <= 0 {
					t.Fatalf("%s = %v, %+v, %v; want code %q and some fuel", c.name, r, u, err, c.want)
				}
				if was, ok := seen[c.name]; ok && was != u.Fuel {
					t.Errorf("%s took %d units, and %d before", c.name, u.Fuel, was)
				}
				seen[c.name] = u.Fuel
			}
			m.Close()
		}
	}
	if less, more := seen[cases[0].name], seen[cases[1].name]; less >= more {
		t.Errorf("a short text took %d units, a longer one %d", less, more)
	}
	t.Log(seen)
}
