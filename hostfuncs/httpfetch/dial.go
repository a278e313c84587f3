package httpfetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/wasmtools/wasmtools/tool"
)

// absolute looks names up as they are, without the search domains of the
// system: "api.example.com" must not become "api.example.com.corp.internal".
// Names of one label are left to the system; whoever grants "localhost" or
// "nas" means what the machine means by it, and the hosts file knows no
// "localhost.".
type absolute struct{ Resolver }

func (r absolute) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.Contains(host, ".") {
		host += "."
	}
	return r.Resolver.LookupNetIP(ctx, network, host)
}

// addresses looks t up once and checks every answer. What it returns is the
// only thing that the hop may dial. One bad answer refuses the hop: a name that
// leads both out and in is either an attack or a mistake.
func (x *exchange) addresses(ctx context.Context, t target, d decision) ([]netip.AddrPort, error) {
	answers := []netip.Addr{t.literal}
	if !t.literal.IsValid() {
		var err error
		answers, err = x.resolver.LookupNetIP(ctx, "ip", t.host)
		if err != nil {
			if err := x.stopped(ctx, t); err != nil {
				return nil, err
			}
			text := "could not be looked up"
			var dns *net.DNSError
			if errors.As(err, &dns) && dns.IsNotFound {
				text = "does not exist in DNS"
			}
			return nil, tool.Errorf(tool.Upstream, "host %s %s", t.host, text).Because(err)
		}
	}
	if len(answers) == 0 {
		return nil, tool.Errorf(tool.Upstream, "host %s has no address", t.host)
	}
	own, err := x.local()
	if err != nil {
		// Without the list this machine could be reached by its outer address.
		return nil, tool.Errorf(tool.Internal, "this machine's own addresses cannot be listed").Because(err)
	}
	out := make([]netip.AddrPort, 0, len(answers))
	for _, a := range answers {
		a = a.Unmap()
		c := classify(a)
		if c == public && slices.Contains(own, plain(a)) {
			c = loopback
		}
		if !d.permits(c, t.literal.IsValid()) {
			return nil, refuseAddress(t, a, c, d)
		}
		out = append(out, netip.AddrPortFrom(a, t.port))
	}
	return out[:min(len(out), x.limits.DialAddresses)], nil
}

func refuseAddress(t target, a netip.Addr, c class, d decision) error {
	where := hostPort(t.host, t.literal, t.port, t.defaultPort())
	e := tool.Errorf(tool.GrantMissing, "%s leads to a %s address, which is not granted", t, c).
		With("host", where).With("address_class", c.String()).
		Because(fmt.Errorf("address %v", a)) // for logs only: a guest is not to map the network
	switch {
	case c == never:
		return e.WithNext("use another host; no grant reaches such an address")
	case c == linkLocal || c == metadata:
		return e.WithNext("use another host; only a grant for the very address, with private access, reaches it")
	}
	return e.WithNext("ask a person to grant this tool host %s with private access", where)
}

// connect dials the first address that answers.
func (x *exchange) connect(ctx context.Context, t target, addrs []netip.AddrPort) (net.Conn, netip.AddrPort, error) {
	var last error
	for _, a := range addrs {
		one, cancel := context.WithTimeout(ctx, x.limits.ConnectTime)
		conn, err := x.dial(one, a)
		cancel()
		if err == nil {
			return conn, a, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, x.explain(ctx, t, last)
}

// dialTCP connects to addr and to nothing else: the control function sees the
// address that the kernel is about to get.
func dialTCP(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{
		Control: func(network, address string, _ syscall.RawConn) error {
			if got, err := netip.ParseAddrPort(address); err != nil || got != addr {
				return fmt.Errorf("about to dial %s instead of %v", address, addr)
			}
			return nil
		},
	}
	return d.DialContext(ctx, "tcp", addr.String())
}

func isRefused(err error) bool {
	const wsaConnRefused = syscall.Errno(10061) // syscall.ECONNREFUSED is another number on Windows
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, wsaConnRefused)
}
