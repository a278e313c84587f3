package runtime

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/extism/go-sdk"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/tool"
)

// BenchmarkForeign measures whole calls of foreign modules, each in an instance
// of its own; sdk-fresh and sdk-kept are the Extism SDK alone.
func BenchmarkForeign(b *testing.B) {
	e := patientEngine(b)
	_, w := filesSpace(b)
	cat, err := os.ReadFile(filepath.Join(dependency(b, "github.com/tetratelabs/wazero"), "imports/wasi_snapshot_preview1/example/testdata/cargo-wasi/cat.wasm"))
	if err != nil {
		b.Fatal(err)
	}
	vowels := sdkPlugin(b, "count_vowels.wasm")
	read := granting(hostfuncs.Grant{Read: []string{"**"}})
	for _, c := range []struct {
		name string
		tool tool.Tool
		args string
	}{
		{"extism-count_vowels", foreignTool(b, e, vowels, oneTool("", "export = \"count_vowels\"\ninput = \"{input}\"\n"), "t", ToolOptions{}), `{"input":"hello world"}`},
		{"extism-config-tinygo", foreignTool(b, e, sdkPlugin(b, "config.wasm"), oneTool("", "export = \"run_test\"\n"), "t", ToolOptions{}), `{}`},
		{"extism-go-mcprun", foreignTool(b, e, foreignFixture(b, "mcprun", true), nil, "upper", ToolOptions{}), `{"text":"hello"}`},
		{"wasi-cat-rust", foreignTool(b, e, cat, oneTool("", argv), "t", ToolOptions{Workspace: w, Grant: read}), `{"argv":["a.txt"],"input":""}`},
		{"wasi-go", foreignTool(b, e, foreignFixture(b, "files", false), oneTool("", argv), "t", ToolOptions{Workspace: w, Grant: read}), `{"argv":["read=a.txt"],"input":""}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			inv := tool.Invocation{CallID: "c", Tool: "t", Arguments: json.RawMessage(c.args)}
			b.ReportAllocs()
			for b.Loop() {
				r, err := c.tool.Call(context.Background(), inv, tool.Discard{})
				if err != nil || r.IsError {
					b.Fatal(r, err)
				}
			}
		})
	}
	ctx := context.Background()
	p, err := sdk.NewCompiledPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: vowels}}}, sdk.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close(ctx)
	once := func(b *testing.B, i *sdk.Plugin) {
		if _, _, err := i.Call("count_vowels", []byte("hello world")); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("sdk-fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			i, err := p.Instance(ctx, sdk.PluginInstanceConfig{})
			if err != nil {
				b.Fatal(err)
			}
			once(b, i)
			i.Close(ctx)
		}
	})
	b.Run("sdk-kept", func(b *testing.B) {
		i, err := p.Instance(ctx, sdk.PluginInstanceConfig{})
		if err != nil {
			b.Fatal(err)
		}
		defer i.Close(ctx)
		for b.Loop() {
			once(b, i)
		}
	})
}
