//go:build linux && (amd64 || arm64)

package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/mcp/client"
	"github.com/wasmtools/wasmtools/tool"
)

// webServer is a server over HTTP; face decides how a call is answered.
func webServer(t *testing.T, face func(w http.ResponseWriter, r *http.Request, m fakeMessage)) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var greeted atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		b, _ := io.ReadAll(r.Body)
		var m fakeMessage
		if json.Unmarshal(b, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		switch {
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", greeted.Add(1)))
			answer(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"f","version":"1"}}`)
		case r.Header.Get("Mcp-Session-Id") != fmt.Sprint("session-", greeted.Load()) || r.Header.Get("MCP-Protocol-Version") != "2025-11-25":
			w.WriteHeader(http.StatusNotFound)
		case m.Method == "tools/list":
			answer(`{"tools":[` + listing("echo", "work") + `]}`)
		case m.Method == "tools/call" && m.Params.Name == "echo":
			answer(`{"content":[{"type":"text","text":"echo"}]}`)
		case m.Method == "tools/call":
			face(w, r, m)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s, &greeted
}

func events(w http.ResponseWriter, each ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range each {
		fmt.Fprint(w, e)
		w.(http.Flusher).Flush()
	}
}

// TestHTTP: whatever a server over HTTP does, its call has a coded answer, and the
// server can be used again.
func TestHTTP(t *testing.T) {
	result := func(m fakeMessage, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, text)
	}
	for name, c := range map[string]struct {
		face func(w http.ResponseWriter, r *http.Request, m fakeMessage)
		code tool.Code
		text string
	}{
		"one message": {func(w http.ResponseWriter, _ *http.Request, m fakeMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, result(m, "fine"))
		}, "", "fine"},
		"events": {func(w http.ResponseWriter, _ *http.Request, m fakeMessage) {
			first, rest, _ := strings.Cut(result(m, "fine"), `"result"`)
			events(w, ": hello\r\n\r\n", "event: message\nid: 7\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n", "data: "+first+"\ndata:\"result\""+rest+"\n\n")
		}, "", "fine"},
		"an endless event": {func(w http.ResponseWriter, r *http.Request, _ fakeMessage) {
			events(w)
			for chunk := "data: " + strings.Repeat("x", 1<<16) + "\n"; r.Context().Err() == nil; {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}, tool.Upstream, "over the limit"},
		"an endless message": {func(w http.ResponseWriter, r *http.Request, _ fakeMessage) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 1<<16)); err != nil {
					return
				}
			}
		}, tool.Upstream, "over the limit"},
		"a page": {func(w http.ResponseWriter, _ *http.Request, _ fakeMessage) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, tool.Upstream, "text/html"},
		"a status": {func(w http.ResponseWriter, _ *http.Request, _ fakeMessage) {
			w.WriteHeader(http.StatusInternalServerError)
		}, tool.Upstream, "status 500"},
		"no key":                 {func(w http.ResponseWriter, _ *http.Request, _ fakeMessage) { w.WriteHeader(http.StatusUnauthorized) }, tool.Upstream, "secret_headers"},
		"a session that is over": {func(w http.ResponseWriter, _ *http.Request, _ fakeMessage) { w.WriteHeader(http.StatusNotFound) }, tool.Upstream, "forgotten the session"},
		"an error in a status": {func(w http.ResponseWriter, _ *http.Request, m fakeMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad numbers"}}`, m.ID)
		}, tool.Upstream, "bad numbers"},
		"nothing": {func(_ http.ResponseWriter, r *http.Request, _ fakeMessage) { <-r.Context().Done() }, tool.Timeout, "2s"},
		"a broken line": {func(w http.ResponseWriter, _ *http.Request, _ fakeMessage) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}, tool.Upstream, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, greeted := webServer(t, c.face)
			src := connect(t, client.Server{Name: "w", URL: s.URL, Timeout: 2 * time.Second, MaxMessage: 1 << 20}, client.Options{})
			if r := call(t, src, "w__echo", `{}`, nil); r.PlainText() != "echo" {
				t.Fatalf("%s %s, %+v", r.Code, r.PlainText(), src.Health())
			}
			if r := call(t, src, "w__work", `{}`, nil); r.Code != c.code || !strings.Contains(r.PlainText(), c.text) {
				t.Errorf("%s %q, want %s with %q", r.Code, r.PlainText(), c.code, c.text)
			}
			until(t, "the server can be used again", func() bool {
				return src.Health().Connected && call(t, src, "w__echo", `{}`, nil).PlainText() == "echo"
			})
			if again := greeted.Load() > 1; again != (c.code == tool.Upstream && name != "an error in a status") {
				t.Errorf("it was connected to %d times", greeted.Load())
			}
		})
	}
}

// TestSecretsStay: a server that redirects elsewhere gets no key for that place;
// control: the place itself is reached, and a redirect within the server is
// followed.
func TestSecretsStay(t *testing.T) {
	var stolen atomic.Value
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.Store(r.Header.Get("X-Key") + r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	var keyed atomic.Value
	to := thief.URL
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keyed.Store(r.Header.Get("X-Key"))
		if r.URL.Path == "/inside" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	server := client.Server{Name: "w", URL: s.URL, SecretHeaders: map[string]string{"X-Key": "web", "Authorization": "web"}, Timeout: time.Second}
	o := client.Options{Secret: func(string) (string, error) { return "the-key", nil }}
	src := connect(t, server, o)
	if h := src.Health(); h.Connected || !strings.Contains(h.Trouble, "redirects to somewhere else") || stolen.Load() != nil {
		t.Errorf("%+v, %v", h, stolen.Load())
	}
	if keyed.Load() != "the-key" {
		t.Errorf("the server got %v", keyed.Load())
	}
	if _, err := http.Get(thief.URL); err != nil || stolen.Load() == nil {
		t.Error("the place cannot be reached at all")
	}
	to = "/inside"
	if h := connect(t, server, o).Health(); !strings.Contains(h.Trouble, "418") {
		t.Errorf("%+v", h)
	}
	o.Secret = func(string) (string, error) { return "", fmt.Errorf("it is not set") }
	if h := connect(t, server, o).Health(); !strings.Contains(h.Trouble, "wasmtools secret set web") {
		t.Errorf("%+v", h)
	}
}
