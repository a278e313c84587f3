package httpfetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

func gzipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.Bytes()
}

func TestSizes(t *testing.T) {
	w := newWorld(t)
	w.opts.Limits = Limits{BodyBytes: 1000, HeaderBytes: 4096, RequestBytes: 100}
	w.name("api.example.com", "93.184.216.34")
	bomb := gzipped(strings.Repeat("0", 10<<20))
	if z, err := gzip.NewReader(bytes.NewReader(bomb)); err != nil {
		t.Fatal(err)
	} else if n, _ := io.Copy(io.Discard, z); n != 10<<20 {
		t.Fatalf("control: the bomb unpacks to %d bytes", n)
	}
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		switch r.URL.Path {
		case "/exact":
			rw.Write(make([]byte, 1000))
		case "/declared":
			h.Set("Content-Length", "1001")
			rw.Write(make([]byte, 1001))
		case "/chunked":
			for range 1001 {
				rw.Write([]byte("x"))
				rw.(http.Flusher).Flush()
			}
		case "/endless":
			for r.Context().Err() == nil {
				rw.Write(make([]byte, 4096))
			}
		case "/bomb":
			h.Set("Content-Encoding", "gzip")
			rw.Write(bomb[:min(len(bomb), 900)]) // below the limit until it is unpacked
		case "/members": // gzip members that hold nothing, for ever
			h.Set("Content-Encoding", "gzip")
			for r.Context().Err() == nil {
				rw.Write(gzipped(""))
			}
		case "/exactgzip":
			h.Set("Content-Encoding", "gzip")
			rw.Write(gzipped(strings.Repeat("0", 1000)))
		case "/damaged":
			h.Set("Content-Encoding", "gzip")
			io.WriteString(rw, "no gzip at all")
		case "/headers":
			for i := range 100 {
				h.Set(fmt.Sprint("X-", i), strings.Repeat("x", 100))
			}
		case "/head":
			h.Set("Content-Length", "5000")
		case "/short":
			h.Set("Content-Length", "500")
			io.WriteString(rw, "cut")
		case "/echo":
			io.Copy(rw, r.Body)
		}
	})
	g := Grant{Hosts: []HostRule{{Host: "api.example.com", Methods: []string{"GET", "HEAD", "POST"}}}}
	for _, c := range []struct {
		method, path string
		code         tool.Code
		size         int
	}{
		{"GET", "/exact", "", 1000},
		{"GET", "/declared", tool.TooLarge, 0},
		{"GET", "/chunked", tool.TooLarge, 0},
		{"GET", "/endless", tool.TooLarge, 0},
		{"GET", "/bomb", tool.TooLarge, 0},
		{"GET", "/members", tool.TooLarge, 0},
		{"GET", "/exactgzip", "", 1000},
		{"GET", "/damaged", tool.Upstream, 0},
		{"GET", "/headers", tool.TooLarge, 0},
		{"HEAD", "/head", "", 0},
		{"GET", "/short", tool.Upstream, 0},
	} {
		got, err := w.do(g, Request{Method: c.method, URL: "http://api.example.com" + c.path})
		if tool.CodeOf(err) != c.code || len(got.Body) != c.size {
			t.Errorf("%s %s = %d bytes, %v; want %d bytes, %q", c.method, c.path, len(got.Body), err, c.size, c.code)
		}
		if got.Usage.Received > 200_000 {
			t.Errorf("%s %s received %d bytes", c.method, c.path, got.Usage.Received)
		}
	}
	for n, code := range map[int]tool.Code{100: "", 101: tool.TooLarge} {
		_, err := w.do(g, Request{Method: "POST", URL: "http://api.example.com/echo", Body: make([]byte, n)})
		if tool.CodeOf(err) != code {
			t.Errorf("POST of %d bytes = %v; want %q", n, err, code)
		}
	}
	_, err := w.do(g, Request{URL: "http://api.example.com/", Headers: []Header{{"X-A", strings.Repeat("a", 5000)}}})
	wantCode(t, "Do with long headers", err, tool.TooLarge)
	many := make([]Header, 100_000)
	for i := range many {
		many[i] = Header{"A", ""}
	}
	_, err = w.do(g, Request{URL: "http://api.example.com/", Headers: many})
	wantCode(t, "Do with many headers", err, tool.TooLarge)
}

// TestBombIsNotUnpacked: the answer alone would not tell whether the bomb went
// off before it was refused.
func TestBombIsNotUnpacked(t *testing.T) {
	w := newWorld(t)
	w.opts.Limits.BodyBytes = 100 << 10
	w.name("api.example.com", "93.184.216.34")
	bomb := gzipped(strings.Repeat("0", 16<<20))
	if len(bomb) > 100<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		rw.Write(bomb)
	})
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if n := allocated(func() {
		z, _ := gzip.NewReader(bytes.NewReader(bomb))
		io.ReadAll(z)
	}); n < 16<<20 {
		t.Fatalf("control: unpacking allocates %d bytes", n)
	}
	n := allocated(func() {
		_, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/"})
		wantCode(t, "Do", err, tool.TooLarge)
	})
	if n > 8<<20 {
		t.Errorf("refusing the bomb allocated %d bytes", n)
	}
}

// TestFlood: what comes before or instead of a proper answer is bounded too.
func TestFlood(t *testing.T) {
	for name, flood := range map[string]struct{ head, repeat string }{
		"informational": {"", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"},
		"header line":   {"HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 1000)},
		"status line":   {"HTTP/1.1 200 ", strings.Repeat("a", 1000)},
		"no HTTP":       {"", strings.Repeat("x", 1000)},
		"chunk line":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", strings.Repeat("x", 1000)},
		"empty chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1;" + strings.Repeat("x", 1000) + "\r\nx\r\n"},
		"trailers":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: " + strings.Repeat("x", 1000) + "\r\n"},
	} {
		c := New(Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				http.ReadRequest(newReader(server))
				_, err := io.WriteString(server, flood.head)
				for err == nil {
					_, err = io.WriteString(server, flood.repeat)
				}
			}()
			return client, nil
		}})
		got, err := c.Do(t.Context(), hosts("93.184.216.34"), Request{URL: "http://93.184.216.34/"})
		if code := tool.CodeOf(err); code != tool.TooLarge && code != tool.Upstream {
			t.Errorf("%s: %v; want too_large or upstream", name, err)
		}
		if got.Usage.Received > 1<<20 {
			t.Errorf("%s: received %d bytes", name, got.Usage.Received)
		}
	}
}

// TestTime owns the clock: servers that stall at every point of an exchange.
func TestTime(t *testing.T) {
	reply := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
	for name, serve := range map[string]func(ctx context.Context, c net.Conn){
		"reads nothing": func(ctx context.Context, c net.Conn) { <-ctx.Done() },
		"answers never": func(ctx context.Context, c net.Conn) { http.ReadRequest(newReader(c)); <-ctx.Done() },
		"stops in body": func(ctx context.Context, c net.Conn) {
			http.ReadRequest(newReader(c))
			io.WriteString(c, reply+"x")
			<-ctx.Done()
		},
		"drips its body": func(ctx context.Context, c net.Conn) {
			http.ReadRequest(newReader(c))
			io.WriteString(c, reply)
			drip(ctx, c)
		},
		"drips its head": func(ctx context.Context, c net.Conn) { http.ReadRequest(newReader(c)); drip(ctx, c) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opts := Options{Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				client, server := net.Pipe()
				go func() { serve(ctx, server); server.Close() }()
				return client, nil
			}}
			start := time.Now()
			_, err := New(opts).Do(ctx, hosts("93.184.216.34"), Request{URL: "http://93.184.216.34/"})
			wantCode(t, name, err, tool.Timeout)
			if d := time.Since(start); d != 30*time.Second {
				t.Errorf("%s: ended after %v; want 30s", name, d)
			}
			// The caller's own deadline and withdrawal.
			short, stop := context.WithTimeout(ctx, time.Second)
			_, err = New(opts).Do(short, hosts("93.184.216.34"), Request{URL: "http://93.184.216.34/"})
			stop()
			wantCode(t, name, err, tool.Timeout)
			gone, stop := context.WithCancel(ctx)
			time.AfterFunc(time.Second, stop)
			_, err = New(opts).Do(gone, hosts("93.184.216.34"), Request{URL: "http://93.184.216.34/"})
			wantCode(t, name, err, tool.Cancelled)
			cancel() // no goroutine may be left when the bubble ends
		})
	}
}

func TestTimeOfDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Dial = func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			w.dials = append(w.dials, netip.AddrPort{})
			<-ctx.Done()
			return nil, ctx.Err()
		}
		for i := range 20 {
			w.name("many.example.com", fmt.Sprintf("93.184.216.%d", i+1))
		}
		w.opts.Limits.ConnectTime = time.Second
		start := time.Now()
		_, err := w.do(hosts("many.example.com"), Request{URL: "http://many.example.com"})
		wantCode(t, "Do", err, tool.Timeout)
		if d := time.Since(start); d != 8*time.Second || len(w.dials) != 8 {
			t.Errorf("%d dials in %v; want 8 of 1 s", len(w.dials), d)
		}
		w.opts.Resolver = slowResolver{}
		start = time.Now()
		_, err = w.do(hosts("many.example.com"), Request{URL: "http://many.example.com"})
		wantCode(t, "Do with a slow resolver", err, tool.Timeout)
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("ended after %v; want 30s", d)
		}
	})
}

type slowResolver struct{}

func (slowResolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func drip(ctx context.Context, c net.Conn) {
	for {
		if _, err := io.WriteString(c, "H"); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func TestRedirects(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	w.name("other.example.com", "93.184.216.35")
	var last *http.Request
	var body []byte
	land := func(rw http.ResponseWriter, r *http.Request) {
		last = r
		body, _ = io.ReadAll(r.Body)
	}
	w.serve("93.184.216.35:80", land)
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		var code int
		if n, _ := fmt.Sscanf(r.URL.Path, "/%d", &code); n == 1 {
			rw.Header()["Location"] = r.URL.Query()["to"]
			if r.FormValue("to") == "long" {
				rw.Header().Set("Location", "/"+strings.Repeat("a", 9000))
			}
			rw.WriteHeader(code)
			return
		}
		land(rw, r)
	})
	g := Grant{Hosts: []HostRule{
		{Host: "api.example.com", Methods: []string{"GET", "HEAD", "POST", "PUT"}},
		{Host: "other.example.com", Methods: []string{"GET", "POST"}},
	}}
	for _, c := range []struct {
		method string
		code   int
		want   string
		body   string
	}{
		{"GET", 301, "GET", "b"}, {"POST", 301, "GET", ""}, {"PUT", 301, "PUT", "b"}, {"HEAD", 302, "HEAD", "b"},
		{"POST", 302, "GET", ""}, {"POST", 303, "GET", ""}, {"PUT", 303, "GET", ""}, {"HEAD", 303, "HEAD", "b"},
		{"POST", 307, "POST", "b"}, {"PUT", 308, "PUT", "b"}, {"GET", 308, "GET", "b"},
	} {
		got, err := w.do(g, Request{Method: c.method, URL: fmt.Sprintf("http://api.example.com/%d?to=/end", c.code), Body: []byte("b"),
			Headers: []Header{{"Content-Type", "text/x"}, {"Authorization", "a"}, {"X-Kept", "k"}}})
		if err != nil || len(got.Hops) != 2 || last.Method != c.want || string(body) != c.body {
			t.Errorf("%s %d = %s %q, %v; want %s %q", c.method, c.code, last.Method, body, err, c.want, c.body)
			continue
		}
		if typed := last.Header.Get("Content-Type") != ""; typed != (c.body != "") {
			t.Errorf("%s %d: Content-Type sent %v, body %q", c.method, c.code, typed, body)
		}
		if last.Header.Get("Authorization") != "a" || last.Header.Get("X-Kept") != "k" || last.Header.Get("Referer") != "" {
			t.Errorf("%s %d: headers %v", c.method, c.code, last.Header)
		}
	}
	// Another origin does not get the credentials that were meant for the first.
	_, err := w.do(g, Request{URL: "http://api.example.com/302?to=http://other.example.com/",
		Headers: []Header{{"Authorization", "a"}, {"cookie", "c"}, {"X-Kept", "k"}}})
	if err != nil || last.Header.Get("Authorization")+last.Header.Get("Cookie") != "" || last.Header.Get("X-Kept") != "k" {
		t.Errorf("cross-origin: %v, headers %v", err, last.Header)
	}
	// Each hop needs its method granted.
	_, err = w.do(g, Request{Method: "PUT", URL: "http://api.example.com/307?to=http://other.example.com/", Body: []byte("b")})
	wantCode(t, "PUT to a host with GET and POST", err, tool.GrantMissing, "PUT", "not with this method")
	for to, code := range map[string]tool.Code{
		"":                            "", // no location: final
		"ftp://api.example.com/":      tool.Upstream,
		"http://u:p@api.example.com/": tool.Upstream,
		"http://[::1/":                tool.Upstream,
		"javascript:alert(1)":         tool.Upstream,
		"//evil.example/":             tool.GrantMissing,
		"http://127.1/":               tool.Upstream,
		"http://127.0.0.1/":           tool.GrantMissing,
		"long":                        tool.Upstream,
		"relative?x":                  "",
	} {
		got, err := w.do(g, Request{URL: "http://api.example.com/302?to=" + to})
		if tool.CodeOf(err) != code {
			t.Errorf("redirect to %.40q = %d, %v; want %q", to, got.Status, err, code)
		}
	}
	for _, code := range []int{300, 304, 305, 306} {
		got, err := w.do(g, Request{URL: fmt.Sprintf("http://api.example.com/%d?to=/end", code)})
		if err != nil || got.Status != code {
			t.Errorf("status %d = %d, %v; want it as the answer", code, got.Status, err)
		}
	}
}

func TestRedirectCount(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	n := 0
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		n++
		http.Redirect(rw, r, r.URL.Path, http.StatusFound)
	})
	got, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/"})
	wantCode(t, "Do", err, tool.Quota, "10 redirects")
	if n != 11 || len(got.Hops) != 11 {
		t.Errorf("%d requests, %d hops; want 11", n, len(got.Hops))
	}
	w.opts.Limits.Redirects = -1
	got, err = w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/"})
	if err != nil || got.Status != http.StatusFound {
		t.Errorf("with redirects off: %d, %v; want 302", got.Status, err)
	}
}

func TestTLS(t *testing.T) {
	w := newWorld(t)
	w.name("example.com", "93.184.216.34")
	w.name("wrong.example.net", "93.184.216.34")
	w.name("down.example.com", "93.184.216.36")
	var sni string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		sni = r.TLS.ServerName
		if r.URL.Path == "/down" {
			http.Redirect(rw, r, "http://down.example.com/", http.StatusFound)
		}
		fmt.Fprint(rw, r.Proto)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	s.StartTLS()
	defer s.Close()
	w.servers[netip.MustParseAddrPort("93.184.216.34:443")] = s.Listener.Addr().String()
	w.serve("93.184.216.36:80", text("clear"))
	w.serve("93.184.216.36:443", text("no TLS here"))
	g := hosts("example.com", "wrong.example.net", "down.example.com")

	_, err := w.do(g, Request{URL: "https://example.com/"})
	wantCode(t, "Do with an unknown authority", err, tool.Upstream, "not trusted")
	w.opts.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	got, err := w.do(g, Request{URL: "https://example.com/"})
	if err != nil || sni != "example.com" || string(got.Body) != "HTTP/1.1" {
		t.Errorf("Do = %q, %v; server name %q; want the host's", got.Body, err, sni)
	}
	_, err = w.do(g, Request{URL: "https://wrong.example.net/"})
	wantCode(t, "Do with a certificate for another name", err, tool.Upstream, "another name")
	_, err = w.do(g, Request{URL: "https://down.example.com/"})
	wantCode(t, "Do without TLS", err, tool.Upstream, "TLS")

	control := w.plain()
	control.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	resp, err := control.Get("https://example.com/down")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "clear" {
		t.Fatalf("control: got %q; the downgrade should work without the guard", body)
	}
	resp.Body.Close()
	_, err = w.do(g, Request{URL: "https://example.com/down"})
	wantCode(t, "Do with a downgrade", err, tool.Upstream, "https to http")
}

func TestConnectionFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	_, err = New(Options{}).Do(t.Context(), Grant{Hosts: []HostRule{{Host: closed, Private: true}}}, Request{URL: "http://" + closed})
	wantCode(t, "Do", err, tool.Upstream, "refused the connection")
	w := newWorld(t)
	_, err = w.do(hosts("nowhere.example.com"), Request{URL: "http://nowhere.example.com"})
	wantCode(t, "Do", err, tool.Upstream, "does not exist in DNS")
}
