package runtime

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/extism/go-sdk"

	"github.com/wasmtools/wasmtools/tool"
)

// TestPluginHostPanics: a mistake in a function of the host ends the call of the
// plugin, with a code, without its words, and with nothing else. The control: the
// SDK alone gives such words to its caller.
func TestPluginHostPanics(t *testing.T) {
	code := sdkPlugin(t, "host.wasm")
	const secret = "a path of the host"
	mult := sdk.NewHostFunctionWithStack("mult", func(context.Context, *sdk.CurrentPlugin, []uint64) { panic(secret) },
		[]sdk.ValueType{sdk.ValueTypeI64, sdk.ValueTypeI64}, []sdk.ValueType{sdk.ValueTypeI64})
	mult.SetNamespace("extism:host/user")
	p, err := sdk.NewPlugin(t.Context(), sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: code}}}, sdk.PluginConfig{EnableWasi: true}, []sdk.HostFunction{mult})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	if _, _, err := p.Call("run_test", nil); err == nil || !strings.Contains(err.Error(), secret) {
		t.Fatalf("control: the SDK's call ends with %v", err)
	}

	e := patientEngine(t)
	for _, c := range []struct {
		name string
		call func() (uint64, error)
		want tool.Code
	}{
		{"a panic", func() (uint64, error) { panic(secret) }, tool.Internal},
		{"a fault", func() (uint64, error) { return uint64([]int(nil)[len(code)]), nil }, tool.Internal},
		{"an error with a code", func() (uint64, error) { return 0, tool.Errorf(tool.Upstream, "the other side is away") }, tool.Upstream},
		{"none", func() (uint64, error) { return 84, nil }, ""},
	} {
		m, err := e.Load(t.Context(), code, LoadOptions{
			Sidecar: oneTool("", "export = \"run_test\"\ninput = \"none\"\n"),
			Functions: []HostFunction{{Name: "mult", Params: 2, HasResult: true,
				Call: func(context.Context, Exchange, []uint64) (uint64, error) { return c.call() }}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			v := preview(t, toolOf(t, m, "t", ToolOptions{}), args())
			if v.Result.Code != c.want || strings.Contains(v.Result.PlainText(), secret) {
				t.Errorf("%s: the call ends with %q %s; want %q and no word of the host's", c.name, v.Result.Code, v.Result.PlainText(), c.want)
			}
		}
		m.Close()
	}
}
