package wasmtools_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/approval"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/tool"
)

var built = struct {
	sync.Mutex
	m map[string][]byte
}{m: map[string][]byte{}}

// fixture builds one of testdata/foreign with the Go toolchain, once.
func fixture(t testing.TB, name string, reactor bool) []byte {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.m[name] == nil {
		out := filepath.Join(t.TempDir(), name+".wasm")
		args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}
		if reactor {
			args = append(args, "-buildmode=c-shared")
		}
		c := exec.Command("go", append(args, "./testdata/foreign/"+name)...)
		c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", name, err, text)
		}
		built.m[name] = readModule(t, out)
	}
	return built.m[name]
}

// toolNames lists the tools of a turn that come from modules.
func toolNames(turn *wasmtools.Turn) []string {
	var names []string
	for _, it := range turn.List() {
		if it.Tool.Origin().Source == tool.Installed {
			names = append(names, it.Definition.Name)
		}
	}
	return names
}

// TestMCPRunPlugin: a plugin of that style lists its tools and runs them, each
// under its own grant, each call from a fresh start.
func TestMCPRunPlugin(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte("inside"), 0o644); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "from the net") }))
	defer web.Close()
	fetch := wasmtools.NewFetcher(httpfetch.New(httpfetch.Options{
		Resolver: names{"api.example.com": "93.184.216.34"},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", web.Listener.Addr().String())
		},
	}))
	rt, turn := openGuest(t, guest{
		module: wasmtools.Module{Code: fixture(t, "mcprun", true), Name: "mcprun", Grant: []string{
			"fetch:net=api.example.com", "file:fs.read=**", "file:fs.write=out/**", "setting:env=LANG",
		}},
		options: wasmtools.Options{HTTP: fetch, Env: func(n string) (string, bool) { return "value of " + n, true }},
		dir:     dir,
	})
	_ = rt
	want := []string{"upper", "count", "fetch", "file", "attack", "spin", "setting"}
	if got := toolNames(turn); !slices.Equal(got, want) {
		t.Fatalf("the plugin's tools are %q, want %q", got, want)
	}
	for _, c := range []struct {
		tool, args string
		code       tool.Code
		want       string
	}{
		{"upper", `{"text":"quiet"}`, "", "QUIET"},
		{"upper", `{"text":""}`, tool.Trap, "there is no text"},
		{"upper", `{}`, tool.SchemaInvalid, "text"},
		{"count", `{}`, "", `call 1, variable ""`},
		{"count", `{}`, "", `call 1, variable ""`},
		{"fetch", `{"url":"http://api.example.com/"}`, "", "200 from the net"},
		{"fetch", `{"url":"http://other.example.com/"}`, tool.GrantMissing, "other.example.com"},
		{"file", `{"read":"/in.txt"}`, "", "inside"},
		{"file", `{"write":"/out.txt"}`, tool.Trap, "Permission"},
		{"file", `{"write":"/out/a.txt","read":"/out/a.txt"}`, tool.Trap, "No such file"}, // there is no directory
		{"attack", `{}`, "", "still here"},
		{"setting", `{"name":"LANG"}`, "", "value of LANG"},
		{"setting", `{"name":"HOME"}`, "", ""},
	} {
		r := call(t, turn, c.tool, c.args).Result
		if r.Code != c.code || !strings.Contains(strings.ToLower(r.PlainText()), strings.ToLower(c.want)) {
			t.Errorf("%s %s = %q, code %q, details %v; want %q, code %q", c.tool, c.args, r.PlainText(), r.Code, r.Details, c.want, c.code)
		}
	}
	// The same plugin, where only one tool may touch files.
	if r := call(t, turn, "count", `{}`).Result; r.IsError {
		t.Errorf("count = %s", r.PlainText())
	}
}

// TestGrantDecidesEffects: a plugin says nothing of what its tools do, so
// approval is asked by what the grant makes possible.
func TestGrantDecidesEffects(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, turn := openGuest(t, guest{
		module:  wasmtools.Module{Code: fixture(t, "mcprun", true), Grant: []string{"file:fs.read=**", "file:fs.write=out/**", "fetch:net=example.com", "upper:fs.read=**"}},
		options: wasmtools.Options{Approvers: []approval.Approver{approval.Always(approval.Deny)}},
		dir:     dir,
	})
	for _, c := range []struct {
		tool, args string
		code       tool.Code
	}{
		{"upper", `{"text":"x"}`, ""},
		{"file", `{"write":"/out/a.txt"}`, tool.Denied},
		{"fetch", `{"url":"http://example.com/"}`, tool.Denied},
	} {
		if r := call(t, turn, c.tool, c.args).Result; r.Code != c.code {
			t.Errorf("%s %s: code %q, want %q\n%s", c.tool, c.args, r.Code, c.code, r.PlainText())
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "out")); len(left) != 0 {
		t.Errorf("a denied call left %v", left)
	}
	for _, it := range turn.List() {
		want := map[string]tool.Effects{"upper": tool.Reads, "count": 0, "file": tool.Reads | tool.Writes, "fetch": tool.UsesNetwork}
		if w, ok := want[it.Definition.Name]; ok && it.Definition.Effects != w {
			t.Errorf("%s has effects %v, want %v", it.Definition.Name, it.Definition.Effects, w)
		}
	}
}

// TestHyperMCPPlugin: a plugin of that style lists its tools and runs them.
func TestHyperMCPPlugin(t *testing.T) {
	_, turn := openGuest(t, guest{module: wasmtools.Module{Code: fixture(t, "hypermcp", true), Name: "hyper"}})
	if got, want := toolNames(turn), []string{"add", "roots", "ask", "page"}; !slices.Equal(got, want) {
		t.Fatalf("the plugin's tools are %q, want %q", got, want)
	}
	r := call(t, turn, "add", `{"a":1.5,"b":2}`).Result
	if r.PlainText() != "3.5" || string(r.Structured) != `{"sum":3.5}` {
		t.Errorf("add = %q, %s", r.PlainText(), r.Structured)
	}
	if r := call(t, turn, "roots", `{}`).Result; r.PlainText() != `{"roots":[]}` {
		t.Errorf("roots = %q", r.PlainText())
	}
	if r := call(t, turn, "ask", `{}`).Result; r.Code != tool.NotAvailable {
		t.Errorf("ask = %q, code %q; want not_available", r.PlainText(), r.Code)
	}
	if r := call(t, turn, "page", `{}`).Result; r.PlainText() != "the page" {
		t.Errorf("page = %q, code %q", r.PlainText(), r.Code)
	}
}
