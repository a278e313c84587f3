package wasmtools_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/tool"
)

// moduleDir is where the Go module cache holds a dependency, whose test modules
// are used as they are.
func moduleDir(t testing.TB, path string) string {
	t.Helper()
	moduleDirs.Lock()
	defer moduleDirs.Unlock()
	if d := moduleDirs.m[path]; d != "" {
		return d
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	dir := strings.TrimSpace(string(out))
	if err == nil && dir == "" {
		if err = exec.Command("go", "mod", "download", path).Run(); err == nil {
			out, err = exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
			dir = strings.TrimSpace(string(out))
		}
	}
	if err != nil || dir == "" {
		t.Fatalf("the sources of %s are not there: %v", path, err)
	}
	moduleDirs.m[path] = dir
	return dir
}

var moduleDirs = struct {
	sync.Mutex
	m map[string]string
}{m: map[string]string{}}

func extismPlugin(t testing.TB, name string) []byte {
	return readModule(t, filepath.Join(moduleDir(t, "github.com/extism/go-sdk"), "wasm", name))
}

func wasiProgram(t testing.TB, name string) []byte {
	return readModule(t, filepath.Join(moduleDir(t, "github.com/tetratelabs/wazero"), "imports", "wasi_snapshot_preview1", filepath.FromSlash(name)))
}

func readModule(t testing.TB, file string) []byte {
	t.Helper()
	p, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// guest is one module and how it is opened.
type guest struct {
	module  wasmtools.Module
	options wasmtools.Options
	dir     string // of the workspace; "" makes one
}

// openGuest opens a runtime with a module, through the same front door as any.
func openGuest(t testing.TB, g guest) (*wasmtools.Runtime, *wasmtools.Turn) {
	t.Helper()
	if g.dir == "" {
		g.dir = t.TempDir()
	}
	o := g.options
	o.Workspaces = []wasmtools.Workspace{{Dir: g.dir}}
	o.Modules = []wasmtools.Module{g.module}
	o.StateDir, o.CacheDir = filepath.Join(cacheDir(t), "state"), filepath.Join(cacheDir(t), "cache")
	if o.Approvers == nil {
		o.Approvers = []approval.Approver{approval.Always(approval.Allow)}
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	rt, err := wasmtools.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	turn, err := rt.Begin(t.Context(), wasmtools.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return rt, turn
}

// sidecar writes the smallest sidecar: one tool named t.
func sidecar(top, tool string) []byte {
	return []byte("name = \"guest\"\nversion = \"1.0.0\"\n" + top + "\n[[tools]]\nname = \"t\"\ndescription = \"test\"\n" +
		"input_schema = '''{\"type\":\"object\"}'''\n" + tool + "\n")
}

// logSink keeps what a call sends before its result.
type logSink struct {
	tool.Discard
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logSink) Output(stream string, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.out, "%s: %s", stream, p)
}

type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

// certified is a server whose certificate is for the given name.
func certified(t testing.TB, name string, h http.Handler) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	cert := selfSigned(t, name)
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	return s, pool
}

var todo = `{"userId":1,"id":1,"title":"delectus aut autem","completed":false}`

// TestExtismPlugins runs the plugins of the SDK's own tests, unmodified, and
// compares with what those tests expect. What a plugin needs it gets by a grant,
// its sidecar, or a function of this program.
func TestExtismPlugins(t *testing.T) {
	const noArgs = `{}`
	run := `export = "run_test"` + "\ninput = \"none\"\n"
	both := "\n[tools.capabilities]\nfs.read = [\"**\"]\nfs.write = [\"**\"]\n" // both open their file for reading and writing
	upper := wasmtools.HostFunction{Module: "host", Name: "to_upper", Params: 1, HasResult: true,
		Call: func(_ context.Context, m wasmtools.Exchange, a []uint64) (uint64, error) {
			p, err := m.Read(a[0])
			if err != nil {
				return 0, err
			}
			m.Free(a[0])
			return m.Write(bytes.ToUpper(p))
		}}
	message := func(name, prefix string) wasmtools.HostFunction {
		return wasmtools.HostFunction{Name: name, Params: 1, HasResult: true,
			Call: func(_ context.Context, m wasmtools.Exchange, a []uint64) (uint64, error) {
				p, err := m.Read(a[0])
				if err != nil {
					return 0, err
				}
				return m.Write(append([]byte(prefix), p...))
			}}
	}
	mult := wasmtools.HostFunction{Name: "mult", Params: 2, HasResult: true,
		Call: func(_ context.Context, _ wasmtools.Exchange, a []uint64) (uint64, error) {
			return uint64(uint32(int32(a[0]) * int32(a[1]))), nil
		}}
	server, roots := certified(t, "jsonplaceholder.typicode.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/todos/1" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, todo)
	}))
	fetch := wasmtools.NewFetcher(httpfetch.New(httpfetch.Options{
		RootCAs:  roots,
		Resolver: names{"jsonplaceholder.typicode.com": "93.184.216.34"},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
	}))
	type test struct {
		file, top, tool string
		grant           []string
		functions       []wasmtools.HostFunction
		args            string
		files           map[string]string
		want            string    // the text of the result
		code            tool.Code // or the error's
		logs            []string
		changed         string // content of test.txt afterwards
	}
	mount := `mount = "/mnt"`
	hello := map[string]string{"test.txt": "hello world!"}
	for name, c := range map[string]test{
		"config":               {file: "config.wasm", top: "[config]\nthing = \"hello\"\n", tool: run, args: noArgs, want: `{"config": "hello"}`},
		"config unset":         {file: "config.wasm", tool: run, args: noArgs, want: `{"config": "<unset by host>"}`},
		"count_vowels":         {file: "count_vowels.wasm", tool: "export = \"count_vowels\"\ninput = \"{text}\"\nresult = \"json\"\n", args: `{"text":"hello world"}`, want: `{"count":3,"total":3,"vowels":"aeiouAEIOU"}`},
		"count_vowels nothing": {file: "count_vowels.wasm", tool: "export = \"count_vowels\"\ninput = \"{text}\"\n", args: `{"text":"bbb"}`, want: `{"count":0,"total":0,"vowels":"aeiouAEIOU"}`},
		"exit 0":               {file: "exit.wasm", top: "[config]\ncode = \"0\"\n", tool: "export = \"_start\"\n", args: noArgs, want: ""},
		"exit 500":             {file: "exit.wasm", top: "[config]\ncode = \"500\"\n", tool: "export = \"_start\"\n", args: noArgs, code: tool.Trap, want: "code 500"},
		"exit -1":              {file: "exit.wasm", top: "[config]\ncode = \"-1\"\n", tool: "export = \"_start\"\n", args: noArgs, code: tool.Trap, want: "code 4294967295"},
		"exit unset":           {file: "exit.wasm", tool: "export = \"_start\"\n", args: noArgs, code: tool.Trap, want: "code 2"},
		"fail":                 {file: "fail.wasm", tool: run, args: noArgs, code: tool.Trap, want: "Some error message"},
		"fs":                   {file: "fs.wasm", top: mount, tool: run + both, grant: []string{"all"}, args: noArgs, files: hello, want: "hello world!"},
		"fs without a grant":   {file: "fs.wasm", top: mount, tool: run + both, args: noArgs, files: hello, code: tool.Trap},
		"fs_std":               {file: "fs_std.wasm", top: mount, tool: run + both, grant: []string{"all"}, args: noArgs, files: hello, want: "hello world!"},
		"hello_haskell":        {file: "hello_haskell.wasm", top: "[config]\ngreeting = \"Howdy\"\n", tool: "export = \"testing\"\ninput = \"{name}\"\n", args: `{"name":"John"}`, want: "Howdy, John"},
		"host":                 {file: "host.wasm", tool: run, functions: []wasmtools.HostFunction{mult}, args: noArgs, want: "42 x 2 = 84"},
		"host_memory":          {file: "host_memory.wasm", tool: "export = \"run_test\"\ninput = \"{name}\"\n", functions: []wasmtools.HostFunction{upper}, args: `{"name":"Frodo"}`, want: "HELLO FRODO!"},
		"host_multiple green": {file: "host_multiple.wasm", tool: "export = \"say_green\"\ninput = \"{name}\"\n", args: `{"name":"John Doe"}`,
			functions: []wasmtools.HostFunction{message("hostGreenMessage", "🟢:"), message("hostPurpleMessage", "🟣:")}, want: "🟢:🫱 Hey from say_green John Doe"},
		"host_multiple purple": {file: "host_multiple.wasm", tool: "export = \"say_purple\"\ninput = \"{name}\"\n", args: `{"name":"Jane Doe"}`,
			functions: []wasmtools.HostFunction{message("hostGreenMessage", "🟢:"), message("hostPurpleMessage", "🟣:")}, want: "🟣:👋 Hello from say_purple Jane Doe"},
		"http":                 {file: "http.wasm", tool: run, grant: []string{"net=jsonplaceholder.typicode.com"}, args: noArgs, want: todo},
		"http not granted":     {file: "http.wasm", tool: run, args: noArgs, code: tool.GrantMissing},
		"http another host":    {file: "http.wasm", tool: run, grant: []string{"net=example.com"}, args: noArgs, code: tool.GrantMissing},
		"http_headers":         {file: "http_headers.wasm", tool: "export = \"http_get\"\n", grant: []string{"net=jsonplaceholder.typicode.com"}, args: `{"url":"https://jsonplaceholder.typicode.com/todos/1"}`, want: `"content-type":"application/json"`},
		"input_offset":         {file: "input_offset.wasm", tool: "export = \"input_offset_length\"\ninput = \"{text}\"\n", args: `{"text":"hello world"}`, want: "\x0b"},
		"log":                  {file: "log.wasm", tool: run, args: noArgs, logs: []string{"this is an info log", "this is a warning log", "this is an error log"}},
		"nested.c.instr":       {file: "nested.c.instr.wasm", tool: "", args: noArgs, want: "Hello from Wasm!"},
		"read_write reads":     {file: "read_write.wasm", top: mount + "\n[config]\npath = \"/mnt/test.txt\"\n", tool: "export = \"try_read\"\ninput = \"none\"\n", grant: []string{"fs.read=**"}, args: noArgs, files: hello, want: "hello world!"},
		"read_write read-only": {file: "read_write.wasm", top: mount + "\n[config]\npath = \"/mnt/test.txt\"\n", tool: "export = \"try_write\"\ninput = \"{text}\"\n", grant: []string{"fs.read=**"}, args: `{"text":"x"}`, files: hello, code: tool.Trap, want: "Failed to write file", changed: "hello world!"},
		"read_write writes":    {file: "read_write.wasm", top: mount + "\n[config]\npath = \"/mnt/test.txt\"\n", tool: "export = \"try_write\"\ninput = \"{text}\"\n", grant: []string{"fs.read=**", "fs.write=**"}, args: `{"text":"hello hello!"}`, files: hello, want: "hello world!hello hello!", changed: "hello world!hello hello!"},
		"sleep":                {file: "sleep.wasm", top: "[config]\nduration = \"0\"\n", tool: run, args: noArgs, want: "slept for 0 seconds"},
		"sleep too long":       {file: "sleep.wasm", top: "[config]\nduration = \"30\"\n[limits]\ntime_ms = 100\n", tool: run, args: noArgs, code: tool.Timeout},
		"std_command":          {file: "std_command.wasm", tool: "export = \"_start\"\ninput = \"{name}\"\n", args: `{"name":"ben"}`, want: "hello ben"},
		"var":                  {file: "var.wasm", tool: run, args: noArgs},
		"alloc":                {file: "alloc.wasm", tool: run, args: noArgs},
		"hello":                {file: "hello.wasm", tool: run, args: noArgs, want: "Hello, world!"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, turn := openGuest(t, guest{
				module:  wasmtools.Module{Code: extismPlugin(t, c.file), Sidecar: sidecar(c.top, c.tool), Grant: c.grant, Functions: c.functions},
				options: wasmtools.Options{HTTP: fetch},
				dir:     dir,
			})
			sink := &logSink{}
			r := turn.Call(t.Context(), []wasmtools.Request{{Tool: "t", Arguments: json.RawMessage(c.args), Sink: sink}})[0].Result
			if r.Code != c.code || !strings.Contains(r.PlainText(), c.want) {
				t.Errorf("%s %s = %q, code %q, details %v; want %q, code %q", c.file, c.args, r.PlainText(), r.Code, r.Details, c.want, c.code)
			}
			for _, l := range c.logs {
				if !strings.Contains(sink.out.String(), l) {
					t.Errorf("the log lacks %q:\n%s", l, sink.out.String())
				}
			}
			if c.changed != "" {
				if got, _ := os.ReadFile(filepath.Join(dir, "test.txt")); string(got) != c.changed {
					t.Errorf("test.txt holds %q, want %q", got, c.changed)
				}
			}
		})
	}
}

// TestExtismVariables: what a plugin stores is gone with the call, unless its
// tool was granted a store.
func TestExtismVariables(t *testing.T) {
	code := fixture(t, "mcprun", true)
	counted := func(turn *wasmtools.Turn) string { return call(t, turn, "count", `{}`).Result.PlainText() }
	_, without := openGuest(t, guest{module: wasmtools.Module{Code: code}})
	for range 2 {
		if got, want := counted(without), `call 1, variable ""`; got != want {
			t.Errorf("without kv: %s, want %s", got, want)
		}
	}
	dir := t.TempDir()
	_, with := openGuest(t, guest{module: wasmtools.Module{Code: code, Grant: []string{"count:kv"}}, dir: dir})
	if got, want := counted(with), `call 1, variable ""`; got != want {
		t.Errorf("first call with kv: %s, want %s", got, want)
	}
	_, again := openGuest(t, guest{module: wasmtools.Module{Code: code, Grant: []string{"count:kv"}}, dir: dir})
	if got, want := counted(again), `call 1, variable "1"`; got != want {
		t.Errorf("second call with kv, in another runtime: %s, want %s", got, want)
	}
	_, elsewhere := openGuest(t, guest{module: wasmtools.Module{Code: code, Grant: []string{"count:kv"}}})
	if got, want := counted(elsewhere), `call 1, variable ""`; got != want {
		t.Errorf("in another workspace: %s, want %s", got, want)
	}
	// The SDK's own plugin doubles its variable in each call.
	vars := wasmtools.Module{Code: extismPlugin(t, "var.wasm"), Sidecar: sidecar("", "export = \"run_test\"\ninput = \"none\"\n"), Grant: []string{"kv"}}
	_, turn := openGuest(t, guest{module: vars, dir: dir})
	for range 2 {
		if r := call(t, turn, "t", `{}`).Result; r.IsError {
			t.Errorf("var: %s %v", r.PlainText(), r.Details)
		}
	}
}
