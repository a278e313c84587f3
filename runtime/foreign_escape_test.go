package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/internal/wasmasm"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
	"github.com/wasmtools/wasmtools/workspace"
)

// The ways out that the engine and the Extism SDK leave open. Each test has a
// control: the same guest, the same attack, without our guard; it has to
// succeed there, or the refusal here proves nothing.

// dependency is where the module cache holds a dependency.
func dependency(t testing.TB, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}

func sdkPlugin(t testing.TB, name string) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join(dependency(t, "github.com/extism/go-sdk"), "wasm", name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var fixtures = struct {
	sync.Mutex
	m map[string][]byte
}{m: map[string][]byte{}}

// foreignFixture builds one of testdata/foreign.
func foreignFixture(t testing.TB, name string, reactor bool) []byte {
	t.Helper()
	fixtures.Lock()
	defer fixtures.Unlock()
	if fixtures.m[name] == nil {
		out := filepath.Join(t.TempDir(), name+".wasm")
		args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}
		if reactor {
			args = append(args, "-buildmode=c-shared")
		}
		c := exec.Command("go", append(args, "../testdata/foreign/"+name)...)
		c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", name, err, text)
		}
		p, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		fixtures.m[name] = p
	}
	return fixtures.m[name]
}

// patientEngine gives the compiler time: under the race detector, a Go program
// takes it half a minute.
func patientEngine(t testing.TB) *Engine {
	return newEngine(t, Options{Limits: Limits{Compile: 10 * time.Minute}})
}

// filesModule is the command files with its arguments from the call, loaded once
// for all tests: compiling it is what they would mostly do otherwise.
func filesModule(t testing.TB) Module {
	t.Helper()
	code := foreignFixture(t, "files", false)
	files.Do(func() {
		e, err := New(context.Background(), Options{Limits: Limits{Compile: 10 * time.Minute}})
		if err == nil {
			files.m, err = e.Load(context.Background(), code, LoadOptions{Sidecar: oneTool("[config]\nFIXED = \"1\"\n", argv)})
		}
		files.err = err
	})
	if files.err != nil {
		t.Fatal(files.err)
	}
	return files.m
}

var files struct {
	sync.Once
	m   Module
	err error
}

// oneTool is a sidecar with one tool t, which passes the list argv and the text
// input on.
func oneTool(top, rest string) []byte {
	return []byte("name = \"g\"\nversion = \"1.0.0\"\n" + top + "\n[[tools]]\nname = \"t\"\ndescription = \"t\"\n" +
		"input_schema = '''{\"type\":\"object\"}'''\n" + rest + "\n")
}

const argv = "args = [\"{argv...}\"]\ninput = \"{input}\"\n"

// foreignTool loads a module and gives one of its tools, with all that is
// granted.
func foreignTool(t testing.TB, e *Engine, code, sidecar []byte, name string, o ToolOptions) tool.Tool {
	t.Helper()
	return toolOf(t, foreignModule(t, e, code, sidecar), name, o)
}

func foreignModule(t testing.TB, e *Engine, code, sidecar []byte) Module {
	t.Helper()
	m, err := e.Load(context.Background(), code, LoadOptions{Sidecar: sidecar})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func toolOf(t testing.TB, m Module, name string, o ToolOptions) tool.Tool {
	t.Helper()
	o.Source = tool.Installed
	for i, have := range m.Manifest().Tools {
		if have.Name == name {
			return Tools(m, o)[i]
		}
	}
	t.Fatalf("the module has no tool %s", name)
	return nil
}

func granting(g hostfuncs.Grant) func(string) hostfuncs.Grant {
	return func(string) hostfuncs.Grant { return g }
}

func everything() hostfuncs.Grant {
	return hostfuncs.Grant{Read: []string{"**"}, Write: []string{"**"}}
}

// preview runs a tool and gives its result and what it would change.
func preview(t testing.TB, tl tool.Tool, args any) tool.Preview {
	t.Helper()
	return previewWithin(t, tl, args, 0)
}

// previewWithin does the same with a deadline, 0 for none.
func previewWithin(t testing.TB, tl tool.Tool, args any, limit time.Duration) tool.Preview {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	inv := tool.Invocation{CallID: "c", Tool: "t", Arguments: raw}
	if limit > 0 {
		inv.Deadline = time.Now().Add(limit)
	}
	if p, ok := tl.(tool.Previewer); ok {
		v, err := p.Preview(context.Background(), inv, tool.Discard{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	r, err := tl.Call(context.Background(), inv, tool.Discard{})
	if err != nil {
		t.Fatal(err)
	}
	return tool.Preview{Result: r}
}

func args(argv ...string) map[string]any { return map[string]any{"argv": argv, "input": ""} }

// twoTrees makes a workspace beside a folder with a secret.
func twoTrees(t testing.TB) (inside string, w *workspace.Workspace) {
	t.Helper()
	base := t.TempDir()
	inside = filepath.Join(base, "inside")
	for _, d := range []string{inside, filepath.Join(base, "outside")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "outside", "secret"), []byte("top secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(inside, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return inside, w
}

// plainWASI runs a command in the engine as it is.
func plainWASI(t testing.TB, code []byte, config wazero.ModuleConfig) (string, error) {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	var out bytes.Buffer
	m, err := r.InstantiateWithConfig(ctx, code, config.WithStdout(&out).WithStderr(&out))
	if m != nil {
		m.Close(ctx)
	}
	if x, ok := err.(*sys.ExitError); ok && x.ExitCode() == 0 {
		err = nil
	}
	return out.String(), err
}

// TestEscapeByOwnLink: a guest makes a link that leads out, and reads through it.
func TestEscapeByOwnLink(t *testing.T) {
	code := foreignFixture(t, "files", false)
	inside, w := twoTrees(t)
	attack := []string{"symlink=../outside|/way", "read=/way/secret"}

	out, err := plainWASI(t, code, wazero.NewModuleConfig().WithArgs(append([]string{"files"}, attack...)...).
		WithFSConfig(wazero.NewFSConfig().WithDirMount(inside, "/")))
	if !strings.Contains(out, "top secret") {
		t.Fatalf("control: with the engine's directory mount the attack gives %q, %v; it should succeed", out, err)
	}
	if err := os.Remove(filepath.Join(inside, "way")); err != nil {
		t.Fatal(err)
	}

	tl := toolOf(t, filesModule(t), "t", ToolOptions{Workspace: w, Grant: granting(everything())})
	for _, a := range [][]string{attack, {"symlink=../outside/secret|/way", "read=/way"}, {"link=/way/../../outside/secret|/hard", "read=/hard"}, {"link=../outside/secret|/hard"}} {
		v := preview(t, tl, args(a...))
		if !v.Result.IsError || strings.Contains(fmt.Sprint(v.Result), "top secret") || !v.Writes.Empty() {
			t.Errorf("%q = %v, writes %v; want a failure without the secret", a, v.Result, v.Writes)
		}
	}
	if _, err := os.Lstat(filepath.Join(inside, "way")); err == nil {
		t.Error("a link was made on the disk")
	}
}

// TestEscapeByReadOnlyMount: a read-only mount of the SDK follows a link that is
// already there.
func TestEscapeByReadOnlyMount(t *testing.T) {
	code := sdkPlugin(t, "read_write.wasm")
	inside, w := twoTrees(t)
	if err := os.Symlink("../outside/secret", filepath.Join(inside, "way")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	ctx := context.Background()
	p, err := sdk.NewPlugin(ctx, sdk.Manifest{
		Wasm:         []sdk.Wasm{sdk.WasmData{Data: code}},
		AllowedPaths: map[string]string{"ro:" + inside: "/mnt"}, Config: map[string]string{"path": "/mnt/way"},
	}, sdk.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	if _, out, err := p.Call("try_read", nil); string(out) != "top secret" {
		t.Fatalf("control: through the SDK's read-only mount the plugin reads %q, %v; it should read the secret", out, err)
	}

	tl := foreignTool(t, patientEngine(t), code,
		oneTool("mount = \"/mnt\"\n[config]\npath = \"/mnt/way\"\n", "export = \"try_read\"\ninput = \"none\"\n"), "t",
		ToolOptions{Workspace: w, Grant: granting(hostfuncs.Grant{Read: []string{"**"}})})
	v := preview(t, tl, args())
	if v.Result.Code != tool.Trap || strings.Contains(fmt.Sprint(v.Result), "top secret") {
		t.Errorf("the plugin answers %v; want a failure without the secret", v.Result)
	}
	if no := fmt.Sprint(v.Result.Details["refused"]); !strings.Contains(no, "outside_root") {
		t.Errorf("the reason given is %q, want outside_root", no)
	}
}

// guarded gives the guarded client to the tests of this package.
type guarded struct{ c *httpfetch.Client }

func (g guarded) Fetch(ctx context.Context, rules []manifest.HostRule, req hostfuncs.HTTPRequest) (hostfuncs.HTTPResponse, error) {
	var grant httpfetch.Grant
	for _, r := range rules {
		grant.Hosts = append(grant.Hosts, httpfetch.HostRule{Host: r.Host, Methods: r.Methods, Private: r.Private})
	}
	resp, err := g.c.Do(ctx, grant, httpfetch.Request{Method: req.Method, URL: req.URL})
	out := hostfuncs.HTTPResponse{Status: resp.Status, Body: resp.Body}
	for _, h := range resp.Headers {
		out.Headers = append(out.Headers, hostfuncs.Header(h))
	}
	return out, err
}

// TestEscapeByRedirect: a host that is allowed redirects to one that is not.
func TestEscapeByRedirect(t *testing.T) {
	reached := 0
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		w.Header().Set("X-Inside", "top secret")
	}))
	defer secret.Close()
	_, port, _ := net.SplitHostPort(secret.Listener.Addr().String())
	open := httptest.NewServer(http.RedirectHandler("http://localhost:"+port+"/", http.StatusFound))
	defer open.Close()
	code := sdkPlugin(t, "http_headers.wasm")
	request := fmt.Sprintf(`{"url":%q}`, open.URL+"/")

	ctx := context.Background()
	p, err := sdk.NewPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: code}}, AllowedHosts: []string{"127.0.0.1"}},
		sdk.PluginConfig{EnableWasi: true, EnableHttpResponseHeaders: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	if _, out, err := p.Call("http_get", []byte(request)); !strings.Contains(string(out), "top secret") {
		t.Fatalf("control: through the SDK the plugin gets %q, %v; it should get to the other host", out, err)
	}

	reached = 0
	host := strings.TrimPrefix(open.URL, "http://")
	tl := foreignTool(t, patientEngine(t), code, oneTool("", "export = \"http_get\"\n"), "t", ToolOptions{
		HTTP:  guarded{httpfetch.New(httpfetch.Options{})},
		Grant: granting(hostfuncs.Grant{Net: []manifest.HostRule{{Host: host, Private: true}}}),
	})
	v := preview(t, tl, json.RawMessage(request))
	if v.Result.Code != tool.GrantMissing || reached != 0 {
		t.Errorf("the plugin answers %v, the other host was asked %d times; want grant_missing and 0", v.Result, reached)
	}
}

// TestEscapeByRebinding: a name that is allowed leads to this machine.
func TestEscapeByRebinding(t *testing.T) {
	reached := 0
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached++
		w.Header().Set("X-Inside", "top secret")
	}))
	defer inner.Close()
	_, port, _ := net.SplitHostPort(inner.Listener.Addr().String())
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", inner.Listener.Addr().String())
	}
	code := sdkPlugin(t, "http_headers.wasm")
	request := `{"url":"http://rebound.example:` + port + `/"}`

	// The SDK uses the default client, in which the name leads to this machine.
	old := http.DefaultClient.Transport
	http.DefaultClient.Transport = &http.Transport{DialContext: dial}
	defer func() { http.DefaultClient.Transport = old }()
	ctx := context.Background()
	p, err := sdk.NewPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: code}}, AllowedHosts: []string{"rebound.example"}},
		sdk.PluginConfig{EnableWasi: true, EnableHttpResponseHeaders: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	if _, out, err := p.Call("http_get", []byte(request)); !strings.Contains(string(out), "top secret") {
		t.Fatalf("control: through the SDK the plugin gets %q, %v; it should get to this machine", out, err)
	}

	reached = 0
	client := httpfetch.New(httpfetch.Options{
		Resolver: loopback{},
		Dial:     func(ctx context.Context, a netip.AddrPort) (net.Conn, error) { return dial(ctx, "tcp", "") },
	})
	grant := hostfuncs.Grant{Net: []manifest.HostRule{{Host: "rebound.example:" + port}}}
	e := patientEngine(t)
	tl := foreignTool(t, e, code, oneTool("", "export = \"http_get\"\n"), "t", ToolOptions{HTTP: guarded{client}, Grant: granting(grant)})
	if v := preview(t, tl, json.RawMessage(request)); v.Result.Code != tool.GrantMissing || reached != 0 {
		t.Errorf("the plugin answers %v, this machine was asked %d times; want grant_missing and 0", v.Result, reached)
	}
	// With the grant that says so it works: the refusal was about the address.
	grant.Net[0].Private = true
	tl = foreignTool(t, e, code, oneTool("", "export = \"http_get\"\n"), "t", ToolOptions{HTTP: guarded{client}, Grant: granting(grant)})
	if v := preview(t, tl, json.RawMessage(request)); !strings.Contains(v.Result.PlainText(), "top secret") {
		t.Errorf("with private granted the plugin answers %v", v.Result)
	}
}

type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// TestStateKeptBetweenCalls: count_vowels adds up over calls where an instance
// is kept, as other hosts do for speed.
func TestStateKeptBetweenCalls(t *testing.T) {
	code := sdkPlugin(t, "count_vowels.wasm")
	ctx := context.Background()
	p, err := sdk.NewPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: code}}}, sdk.PluginConfig{EnableWasi: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	var last []byte
	for range 2 {
		if _, last, err = p.Call("count_vowels", []byte("aaa")); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(last), `"total":6`) {
		t.Fatalf("control: the second call of one instance gives %s; it should know of the first", last)
	}
	tl := foreignTool(t, patientEngine(t), code, oneTool("", "export = \"count_vowels\"\ninput = \"{input}\"\n"), "t", ToolOptions{})
	for range 3 {
		v := preview(t, tl, map[string]any{"input": "aaa"})
		if !strings.Contains(v.Result.PlainText(), `"total":3`) {
			t.Errorf("a call gives %s; want a total of 3 each time", v.Result.PlainText())
		}
	}
}

// TestGuestsAreStopped: loops in every place end with timeout soon after the
// limit, also with as many guests as there are processors and a collector that
// wants the world to stop.
func TestGuestsAreStopped(t *testing.T) {
	e := patientEngine(t)
	_, w := twoTrees(t)
	const limit = 200 * time.Millisecond
	command := toolOf(t, filesModule(t), "t", ToolOptions{Workspace: w})
	sleeper := foreignTool(t, e, sdkPlugin(t, "sleep.wasm"), oneTool("[config]\nduration = \"60\"\n", "export = \"run_test\"\n"), "t", ToolOptions{})
	loop, err := os.ReadFile(filepath.Join(dependency(t, "github.com/tetratelabs/wazero"), "cmd/wazero/testdata/infinite_loop.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	// Its limit is the module's own.
	tight := foreignTool(t, e, loop, oneTool("[limits]\ntime_ms = 200\n", ""), "t", ToolOptions{})
	for _, c := range []struct {
		name string
		tool tool.Tool
		args any
	}{{"Go", command, args("spin=")}, {"sleeping plugin", sleeper, args()}, {"tight loop", tight, args()}} {
		within := limit
		if c.name == "tight loop" {
			within = 0
		}
		prepare(t, c.tool)
		var wg sync.WaitGroup
		began := time.Now()
		for range goruntime.GOMAXPROCS(0) + 1 {
			wg.Go(func() {
				if v := previewWithin(t, c.tool, c.args, within); v.Result.Code != tool.Timeout {
					t.Errorf("%s = %v; want timeout", c.name, v.Result)
				}
			})
		}
		goruntime.GC()
		wg.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %s for a limit of %s", c.name, took, limit)
		}
	}
}

// prepare compiles the module of a tool.
func prepare(t testing.TB, tl tool.Tool) {
	t.Helper()
	m := tl.(interface{ owner() Module }).owner()
	if err := m.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (g *guestTool) owner() Module { return g.module }

// TestStopCannotBeCleared: a module that writes to the global one past its last
// would, once instrumented, write to its own countdown.
func TestStopCannotBeCleared(t *testing.T) {
	body := wasmasm.Code{}.Loop(wasmasm.Void).I32Const(1 << 20).GlobalSet(0).Br(0).End()
	m := wasmasm.Module{Funcs: []wasmasm.Func{{Body: body, Export: "_start"}}}
	if _, err := patientEngine(t).Load(context.Background(), m.Encode(), LoadOptions{Sidecar: oneTool("", "")}); err == nil {
		tl := foreignTool(t, patientEngine(t), m.Encode(), oneTool("[limits]\ntime_ms = 500\n", ""), "t", ToolOptions{})
		if v := preview(t, tl, args()); v.Result.Code != tool.InvalidModule {
			t.Errorf("the module runs: %v; want invalid_module", v.Result)
		}
	}
	// The control: with a global of its own the same code is a module, and is
	// stopped although it sets what it can.
	m.Globals = [][]byte{append([]byte{wasmasm.I32, 1}, wasmasm.Code{}.I32Const(0).End()...)}
	tl := foreignTool(t, patientEngine(t), m.Encode(), oneTool("[limits]\ntime_ms = 300\n", ""), "t", ToolOptions{})
	if v := preview(t, tl, args()); v.Result.Code != tool.Timeout {
		t.Errorf("control: the module ends with %v; want timeout", v.Result)
	}
}

// TestRenumberCostsNothing: the engine makes its table of descriptors as long as
// the number that a guest gives one.
func TestRenumberCostsNothing(t *testing.T) {
	code := renumbers(1 << 24)
	_, w := twoTrees(t)
	before := allocated()
	if _, err := plainWASI(t, code, wazero.NewModuleConfig().WithFSConfig(wazero.NewFSConfig().WithDirMount(t.TempDir(), "/"))); err != nil {
		t.Fatalf("control: %v", err)
	}
	if got := allocated() - before; got < 100<<20 {
		t.Fatalf("control: the engine allocated %d bytes for descriptor 2^24; it should be above 100 MiB", got)
	}
	tl := foreignTool(t, patientEngine(t), code, oneTool("", ""), "t",
		ToolOptions{Workspace: w, Grant: granting(hostfuncs.Grant{Read: []string{"**"}})})
	preview(t, tl, args())
	before = allocated()
	if v := preview(t, tl, args()); v.Result.IsError {
		t.Errorf("the command answers %v", v.Result)
	}
	if got := allocated() - before; got > 8<<20 {
		t.Errorf("the call allocated %d bytes", got)
	}
}

func allocated() uint64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.TotalAlloc
}

// renumbers is a command that opens its directory and moves it to a descriptor.
func renumbers(to int32) []byte {
	i, I := byte(wasmasm.I32), byte(wasmasm.I64)
	body := wasmasm.Code{}.
		I32Const(3).I32Const(0).I32Const(0).I32Const(1).I32Const(0).I64Const(0).I64Const(0).I32Const(0).I32Const(16).Call(0).Drop().
		I32Const(16).I32Load(0).I32Const(to).Call(1).Drop()
	m := wasmasm.Module{
		Imports: []wasmasm.Import{
			{Module: "wasi_snapshot_preview1", Name: "path_open", Type: wasmasm.FuncType{Params: []byte{i, i, i, i, i, I, I, i, i}, Results: []byte{i}}},
			{Module: "wasi_snapshot_preview1", Name: "fd_renumber", Type: wasmasm.FuncType{Params: []byte{i, i}, Results: []byte{i}}},
		},
		Funcs:  []wasmasm.Func{{Body: body, Export: "_start"}},
		Memory: &wasmasm.Limits{Min: 1, Max: -1},
		Data:   []wasmasm.Data{{Offset: 0, Bytes: []byte(".")}},
	}
	return m.Encode()
}

// TestNothingOnOurOutput: a variable of the environment connects the SDK's
// plugins to the standard output of the process, where a protocol may run.
func TestNothingOnOurOutput(t *testing.T) {
	code := sdkPlugin(t, "println.wasm")
	captured := func(run func()) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		old := os.Stdout
		os.Stdout = w
		defer func() { os.Stdout = old }()
		run()
		w.Close()
		out, _ := io.ReadAll(r)
		return string(out)
	}
	t.Setenv("EXTISM_ENABLE_WASI_OUTPUT", "1")
	ctx := context.Background()
	if out := captured(func() {
		p, err := sdk.NewPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: code}}}, sdk.PluginConfig{EnableWasi: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(ctx)
		_, _, _ = p.Call("run_test", nil)
	}); out == "" {
		t.Fatal("control: with the variable the SDK's plugin prints nothing; it should")
	}
	tl := foreignTool(t, patientEngine(t), code, oneTool("", "export = \"run_test\"\ninput = \"none\"\n"), "t", ToolOptions{})
	if out := captured(func() { preview(t, tl, args()) }); out != "" {
		t.Errorf("the plugin printed %q on our standard output", out)
	}
}
