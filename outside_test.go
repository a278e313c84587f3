package wasmtools_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/wasmtools/wasmtools"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/internal/guestbuild"
	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
)

// TestNativeOutside: a module of our own kind fetches, keeps values and reads
// settings, each only with its grant.
func TestNativeOutside(t *testing.T) {
	out := filepath.Join(t.TempDir(), "outside.wasm")
	if _, err := guestbuild.Build(t.Context(), guestbuild.Options{
		Dir: "testdata/foreign/outside", Out: out, Describe: runtime.Describe, Embed: manifest.Embed, AnyToolchain: true,
	}); err != nil {
		t.Fatal(err)
	}
	code := readModule(t, out)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Test"), body)
	}))
	defer web.Close()
	options := wasmtools.Options{
		HTTP: wasmtools.NewFetcher(httpfetch.New(httpfetch.Options{
			Resolver: names{"api.example.com": "93.184.216.34", "other.example.com": "93.184.216.34"},
			Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", web.Listener.Addr().String())
			},
		})),
		Env: func(n string) (string, bool) { return "C", n == "LANG" },
	}
	dir := t.TempDir()
	_, granted := openGuest(t, guest{module: wasmtools.Module{Code: code, Grant: []string{"all"}}, options: options, dir: dir})
	_, nothing := openGuest(t, guest{module: wasmtools.Module{Code: code}, options: options, dir: dir})
	for _, c := range []struct {
		turn       *wasmtools.Turn
		tool, args string
		code       tool.Code
		want       string
	}{
		{granted, "fetch", `{"url":"http://api.example.com/a"}`, "", "418 text/plain GET /a yes "},
		{granted, "fetch", `{"url":"http://api.example.com/a","method":"POST","body":"hi"}`, "", "418 text/plain POST /a yes hi"},
		{granted, "fetch", `{"url":"http://api.example.com/a","method":"DELETE"}`, tool.GrantMissing, ""},
		{granted, "fetch", `{"url":"http://other.example.com/"}`, tool.GrantMissing, ""},
		{granted, "fetch", `{"url":"file:///etc/passwd"}`, tool.InvalidArguments, ""},
		{nothing, "fetch", `{"url":"http://api.example.com/a"}`, tool.GrantMissing, ""},
		{granted, "count", `{}`, "", "1 C"},
		{granted, "count", `{}`, "", "2 C"},
		{granted, "count", `{}`, "", "forgotten"},
		{granted, "count", `{}`, "", "1 C"},
		{nothing, "count", `{}`, tool.GrantMissing, ""},
	} {
		r := call(t, c.turn, c.tool, c.args).Result
		if r.Code != c.code || c.code == "" && r.PlainText() != c.want {
			t.Errorf("%s %s = %q, code %q; want %q, code %q", c.tool, c.args, r.PlainText(), r.Code, c.want, c.code)
		}
	}
}
