package extism

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

// Is reports whether a module is an Extism plugin.
func Is(s manifest.Summary) bool {
	for _, im := range s.Imports {
		if im.Module == envModule || im.Module == userModule {
			return true
		}
	}
	return false
}

// Check compares what a plugin imports with what is there.
func Check(s manifest.Summary, functions []Function) error {
	for _, im := range s.Imports {
		sig, ok := offered(im, functions)
		switch {
		case im.Kind != manifest.KindFunc || !ok:
			return tool.Errorf(tool.InvalidModule, "the plugin imports the %s %q of %q, which is not offered here", im.Kind, im.Name, im.Module).
				WithNext("the embedding program can offer it (LoadOptions.Functions)")
		case sig != "" && !im.Type.Equal(typeOf(sig)):
			return tool.Errorf(tool.InvalidModule, "the plugin imports %q of %q with type %s; it is %s here", im.Name, im.Module, im.Type, typeOf(sig))
		}
	}
	return nil
}

// offered gives the type of what is imported, if it is there; "" if that is for
// the engine to compare.
func offered(im manifest.Import, functions []Function) (sig string, ok bool) {
	for _, f := range functions {
		if f.module() == im.Module && f.Name == im.Name {
			return f.sig(), true
		}
	}
	switch im.Module {
	case envModule:
		if sig, ok := kernelFunctions[im.Name]; ok {
			return sig, true
		}
		f, ok := hostFunctions[im.Name]
		return f.sig, ok
	case userModule:
		f, ok := userFunctions[im.Name]
		return f.sig, ok
	}
	return "", wasihost.Offered(im)
}

func typeOf(sig string) manifest.FuncType {
	var t manifest.FuncType
	list := &t.Params
	for _, c := range sig {
		switch c {
		case '>':
			list = &t.Results
		case 'i':
			*list = append(*list, manifest.I32)
		default:
			*list = append(*list, manifest.I64)
		}
	}
	return t
}

// Plugin is a compiled plugin. It is safe for concurrent use.
type Plugin struct {
	compiled *sdk.CompiledPlugin
	quantum  int32
}

// Prepare makes a plugin that was checked one that can be stopped, and gives its
// imports our names.
func Prepare(ctx context.Context, wasm []byte) (wasihost.Prepared, error) {
	return wasihost.Prepare(ctx, wasm, redirects())
}

// Compile compiles a plugin. cache may be nil.
func Compile(ctx context.Context, prepared wasihost.Prepared, functions []Function, cache wazero.CompilationCache) (p *Plugin, err error) {
	defer wasihost.Recover(&err)
	compiled, err := sdk.NewCompiledPlugin(wasihost.Compiling(ctx), sdk.Manifest{
		// Nothing but the code: paths, hosts, configuration and time are not the
		// SDK's to decide. A time limit would also make its engine several times
		// slower.
		Wasm: []sdk.Wasm{sdk.WasmData{Data: prepared.Code, Name: "main"}},
	}, sdk.PluginConfig{RuntimeConfig: wasihost.RuntimeConfig(cache), EnableWasi: true}, bound(functions))
	if err != nil {
		return nil, wasihost.NotCompiled(ctx, err)
	}
	return &Plugin{compiled, prepared.Quantum}, nil
}

// Close gives the compiled form back. No call may be running.
func (p *Plugin) Close() { wasihost.Closed(p.compiled) }

// Call is one call of a plugin.
type Call struct {
	Export string
	Input  []byte
	Config map[string]string
	Mount  string
	Limit  int64 // bytes of output
}

// Failure is what a plugin itself says went wrong.
type Failure struct {
	Code    uint32 // what it returned or exited with
	Message string
}

func (f *Failure) Error() string {
	if f.Message == "" {
		return fmt.Sprintf("the plugin returned %d", f.Code)
	}
	return f.Message
}

const maxMessage = 8 << 10

// Run calls one function of the plugin, in an instance of its own. An error is
// a [Failure] if it is the plugin's own.
func (p *Plugin) Run(h *wasihost.Host, c Call) (out []byte, err error) {
	defer wasihost.Recover(&err)
	// With this variable set the SDK connects plugins to our standard output,
	// where the protocol of the server may run.
	if _, set := os.LookupEnv(wasiOutput); set {
		_ = os.Unsetenv(wasiOutput)
	}
	s := &state{host: h, kernel: newKernel(h.Memory), config: c.Config}
	if !h.Memory.Take(uint64(len(c.Input))) {
		return nil, tool.Errorf(tool.MemoryLimit, "the module has no room for %d bytes of input", len(c.Input))
	}
	if len(c.Input) > 0 {
		s.kernel.input = block{at: s.kernel.put(c.Input), n: uint64(len(c.Input))}
	}
	ctx := context.WithValue(h.Context(), stateKey{}, s)
	plugin, err := p.compiled.Instance(ctx, sdk.PluginInstanceConfig{ModuleConfig: h.Config(wasihost.Options{
		Args: []string{"plugin"}, Mount: c.Mount,
	})})
	if err != nil {
		return nil, err
	}
	defer func() {
		h.Burn(p.quantum, mainOf(plugin))
		h.End()
		wasihost.Closed(plugin)
	}()
	plugin.SetLogger(func(sdk.LogLevel, string) {})
	if !plugin.FunctionExists(c.Export) {
		return nil, tool.Errorf(tool.InvalidModule, "the plugin does not export %q", c.Export)
	}
	code, _, err := plugin.CallWithContext(ctx, c.Export, nil)
	var end *sys.ExitError
	switch {
	case errors.As(err, &end):
		return nil, &Failure{Code: end.ExitCode(), Message: s.kernel.message(maxMessage)}
	case err != nil:
		return nil, err
	}
	if text := s.kernel.message(maxMessage); code != 0 || text != "" {
		return nil, &Failure{Code: code, Message: strings.ToValidUTF8(text, "\uFFFD")}
	}
	if int64(s.kernel.output.n) > c.Limit {
		return nil, tool.Errorf(tool.Quota, "the module's output has more than %d bytes", c.Limit)
	}
	if err := h.Finish(); err != nil {
		return nil, err
	}
	return s.kernel.bytes(s.kernel.output), nil
}

const wasiOutput = "EXTISM_ENABLE_WASI_OUTPUT"

// mainOf finds the instance of the plugin's own code, which holds its countdown.
// The SDK (1.7.1) does not give it out, so the field is looked at; nil if there is
// no such field. TestFuelOfForeignModules fails then.
func mainOf(p *sdk.Plugin) api.Module {
	f := reflect.ValueOf(p).Elem().FieldByName("mainModule")
	if !f.IsValid() || f.Type() != reflect.TypeFor[api.Module]() {
		return nil
	}
	return *(*api.Module)(f.Addr().UnsafePointer())
}
