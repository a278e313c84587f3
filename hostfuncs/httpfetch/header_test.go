package httpfetch

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestHeadersOfTheHost(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	w.name("victim.example.com", "93.184.216.34")
	var last *http.Request
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) { last = r })

	// Controls: what an ordinary client passes on.
	for name, value := range map[string]string{"X-HTTP-Method-Override": "DELETE", "Proxy-Authorization": "x"} {
		req, _ := http.NewRequest("GET", "http://api.example.com/", nil)
		req.Header.Set(name, value)
		resp, err := w.plain().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if last.Header.Get(name) != value {
			t.Fatalf("control: %s did not arrive", name)
		}
	}
	req, _ := http.NewRequest("GET", "http://api.example.com/", nil)
	req.Host = "victim.example.com"
	if resp, err := w.plain().Do(req); err != nil || last.Host != "victim.example.com" {
		t.Fatalf("control: host %q, %v", last.Host, err)
	} else {
		resp.Body.Close()
	}

	last = nil
	for _, h := range []Header{
		{"Host", "victim.example.com"}, {"HOST", "x"}, {"Connection", "keep-alive"}, {"connection", "upgrade"}, {"Content-Length", "5"},
		{"Transfer-Encoding", "chunked"}, {"transfer_encoding", "chunked"}, {"TE", "trailers"}, {"Trailer", "X"}, {"Upgrade", "websocket"},
		{"Keep-Alive", "1"}, {"Proxy-Authorization", "x"}, {"PROXY_CONNECTION", "x"}, {"Expect", "100-continue"}, {"Via", "x"},
		{"HTTP2-Settings", "x"}, {"X-HTTP-Method-Override", "DELETE"}, {"x_http_method", "PUT"}, {"X-Method-Override", "PUT"},
		{"", "x"}, {"A B", "x"}, {"A:", "x"}, {"A\r\nB", "x"}, {"Ä", "x"}, {"A\x00", "x"}, {strings.Repeat("a", 300), "x"}, {" Host", "x"},
		{"X-A", "a\r\nHost: victim.example.com"}, {"X-A", "a\nb"}, {"X-A", "a\rb"}, {"X-A", "a\x00b"}, {"X-A", "a\x7fb"}, {"X-A", "a\x0bb"},
	} {
		_, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/", Headers: []Header{h}})
		wantCode(t, "Do with "+tool.QuotePath(h.Name), err, tool.InvalidArguments, "header")
	}
	for _, m := range []string{"CONNECT", "TRACE", "TRACK", "connect", "GET /x", "GET\r\n", "PO ST", "É", strings.Repeat("A", 40)} {
		_, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/", Method: m})
		wantCode(t, "Do with method "+tool.QuotePath(m), err, tool.InvalidArguments, "method")
	}
	if last != nil {
		t.Errorf("a refused request arrived: %v", last)
	}

	_, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/", Method: "get", Headers: []Header{
		{"accept", "text/html"}, {"Accept", "text/plain"}, {"user-agent", "mine"}, {"X-Tab", "a\tb"}, {"X-Utf", "é"}, {"Accept-Encoding", "br"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Accept": {"text/html", "text/plain"}, "User-Agent": {"mine"}, "X-Tab": {"a\tb"}, "X-Utf": {"é"},
		"Accept-Encoding": {"identity"}, "Connection": {"close"}}
	for name, values := range want {
		if got := last.Header[name]; strings.Join(got, "|") != strings.Join(values, "|") {
			t.Errorf("header %s = %q; want %q", name, got, values)
		}
	}
	if len(last.Header) != len(want) {
		t.Errorf("headers = %v; want %v", last.Header, want)
	}
}

// FuzzHeaders: what passes the check arrives as exactly that header and as
// nothing else.
func FuzzHeaders(f *testing.F) {
	f.Add("X-A", "value")
	f.Add("X-A", "a\r\nHost: evil")
	f.Add("Connection", "close")
	f.Add("x_http_method", "\t")
	x := &exchange{Client: New(Options{})}
	grant, err := compile(hosts("api.example.com"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		h, err := x.firstHop(Request{Method: "POST", URL: "http://api.example.com/p", Headers: []Header{{name, value}}, Body: []byte("body")})
		if err != nil {
			return
		}
		d, err := decide(grant, h.target, "POST")
		if tool.CodeOf(err) != tool.GrantMissing {
			t.Fatalf("decide = %v, %v; POST is not granted", d, err)
		}
		req, err := x.request(t.Context(), h, decision{})
		if err != nil {
			t.Fatalf("request with %q %q = %v", name, value, err)
		}
		var wire bytes.Buffer
		if err := req.Write(&wire); err != nil {
			t.Fatalf("write with %q %q = %v", name, value, err)
		}
		got, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("a server cannot read the request with %q %q: %v", name, value, err)
		}
		if got.Method != "POST" || got.Host != "api.example.com" || got.ContentLength != 4 || len(got.TransferEncoding) > 0 {
			t.Fatalf("with %q %q a server reads %s %s, %d bytes", name, value, got.Method, got.Host, got.ContentLength)
		}
		for n, v := range got.Header {
			switch {
			case n == "User-Agent" || n == "Accept-Encoding" || n == "Content-Length":
			case strings.EqualFold(n, name) && len(v) == 1 && v[0] == strings.TrimSpace(value):
			case strings.EqualFold(n, name) && len(v) == 1 && v[0] == strings.Trim(value, " \t"):
			default:
				t.Fatalf("with %q %q a server reads header %q %q", name, value, n, v)
			}
		}
	})
}
