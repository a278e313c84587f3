package httpfetch

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

// world is a small internet on loopback: names that resolve to public
// addresses, and public addresses whose connections end at test servers.
type world struct {
	t       *testing.T
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[netip.AddrPort]string
	lookups []string
	dials   []netip.AddrPort
	opts    Options
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
	w.opts = Options{Resolver: w, Dial: w.dial, LocalAddresses: func() ([]netip.Addr, error) { return nil, nil }}
	return w
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups = append(w.lookups, host)
	if a := w.names[host]; a != nil {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, a)
	to, ok := w.servers[a]
	w.mu.Unlock()
	if !ok {
		if !a.Addr().IsLoopback() {
			return nil, fmt.Errorf("no server at %v", a)
		}
		to = a.String()
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to)
}

// name makes name resolve to addr.
func (w *world) name(name string, addrs ...string) {
	for _, a := range addrs {
		w.names[name] = append(w.names[name], netip.MustParseAddr(a))
	}
}

// serve answers at addr ("93.184.216.34:80") with h.
func (w *world) serve(addr string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.servers[netip.MustParseAddrPort(addr)] = s.Listener.Addr().String()
	return s
}

func (w *world) do(g Grant, req Request) (Response, error) {
	return New(w.opts).Do(w.t.Context(), g, req)
}

// plain is an ordinary HTTP client in the same world, for control runs: same
// names, same servers, no guard.
func (w *world) plain() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(addr)
			a, err := netip.ParseAddr(host)
			if err != nil {
				list, err := w.LookupNetIP(ctx, "ip", host)
				if err != nil {
					return nil, err
				}
				a = list[0]
			}
			return w.dial(ctx, netip.MustParseAddrPort(net.JoinHostPort(a.Unmap().String(), port)))
		},
		DisableKeepAlives: true,
	}}
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
}

func hosts(names ...string) Grant {
	var g Grant
	for _, n := range names {
		g.Hosts = append(g.Hosts, HostRule{Host: n})
	}
	return g
}

func wantCode(t *testing.T, what string, err error, code tool.Code, words ...string) {
	t.Helper()
	if tool.CodeOf(err) != code {
		t.Errorf("%s = %v; want %s", what, err, code)
		return
	}
	var e *tool.Error
	if !errors.As(err, &e) {
		t.Errorf("%s = %T; want *tool.Error", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s = %v; want %q in it", what, err, w)
		}
	}
}

// nameServer is a DNS server on loopback that answers A queries with what next
// gives, with a time to live of zero. It lets guard and control use the same
// *net.Resolver of the standard library.
func nameServer(t *testing.T, next func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := answer(buf[:n], next); out != nil {
				pc.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// answer builds the reply to one query (RFC 1035).
func answer(q []byte, next func(string) netip.Addr) []byte {
	if len(q) < 17 {
		return nil
	}
	var labels []string
	i := 12
	for q[i] != 0 {
		labels = append(labels, string(q[i+1:i+1+int(q[i])]))
		i += 1 + int(q[i])
	}
	end := i + 5
	kind := binary.BigEndian.Uint16(q[i+1:])
	out := append([]byte{}, q[:end]...)
	out[2], out[3] = 0x84, 0 // a response, authoritative
	copy(out[6:12], make([]byte, 6))
	if kind != 1 { // not A: no data
		return out
	}
	out[7] = 1
	a := next(strings.Join(labels, ".")).As4()
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, a[:]...)
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
