package httpfetch

import (
	"net"
	"net/netip"
)

// class says what kind of place an address is, as far as the guard must know.
type class uint8

const (
	public    class = iota
	private         // another machine that is not on the internet; needs a rule with Private
	loopback        // this machine; the same
	linkLocal       // needs a rule with Private that names the very address
	metadata        // a cloud's service that gives out credentials; the same
	never           // no rule reaches it: unspecified, multicast, reserved, tunnels
)

func (c class) String() string {
	return [...]string{"public", "private", "loopback", "link-local", "metadata", "reserved"}[c]
}

// special lists what is not public, first match wins. Sources: the IANA special
// purpose registries for IPv4 and IPv6, and the clouds' own documentation for
// the metadata addresses. Outside 2000::/3 nothing in IPv6 is public, so that
// side needs only what is not simply refused.
var special = []struct {
	prefix netip.Prefix
	class  class
}{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata}, // most clouds
	{netip.MustParsePrefix("169.254.170.2/32"), metadata},   // AWS containers
	{netip.MustParsePrefix("169.254.170.23/32"), metadata},  // AWS EKS pod identity
	{netip.MustParsePrefix("100.100.100.200/32"), metadata}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},   // Azure's host, in a public range
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},      // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},   // Google
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata},

	{netip.MustParsePrefix("0.0.0.0/8"), never}, // dialling 0.0.0.0 reaches this machine
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("100.64.0.0/10"), private}, // carrier-grade NAT
	{netip.MustParsePrefix("127.0.0.0/8"), loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.0.0.0/24"), never},
	{netip.MustParsePrefix("192.0.2.0/24"), never},     // documentation
	{netip.MustParsePrefix("192.88.99.0/24"), never},   // 6to4 relays
	{netip.MustParsePrefix("192.168.0.0/16"), private}, //
	{netip.MustParsePrefix("198.18.0.0/15"), private},  // benchmarks; fake answers of local proxies
	{netip.MustParsePrefix("198.51.100.0/24"), never},  // documentation
	{netip.MustParsePrefix("203.0.113.0/24"), never},   // documentation
	{netip.MustParsePrefix("224.0.0.0/3"), never},      // multicast, reserved, broadcast

	{netip.MustParsePrefix("::1/128"), loopback},
	{netip.MustParsePrefix("fc00::/7"), private},
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
	{netip.MustParsePrefix("fec0::/10"), private},   // the old site-local range
	{netip.MustParsePrefix("2001::/23"), never},     // protocol assignments, Teredo among them
	{netip.MustParsePrefix("2001:db8::/32"), never}, // documentation
	{netip.MustParsePrefix("2002::/16"), never},     // 6to4: hides an IPv4 address
	{netip.MustParsePrefix("3fff::/20"), never},     // documentation
	{netip.MustParsePrefix("2000::/3"), public},
	{netip.MustParsePrefix("::/0"), never},
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// plain gives the IPv4 address that an IPv6 one stands for, or the address itself.
func plain(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// classify tells what kind of place a is. IPv6 forms that stand for an IPv4
// address are judged by that address, or refused where it cannot be told.
func classify(a netip.Addr) class {
	if !a.IsValid() || a.Zone() != "" {
		return never
	}
	if a = plain(a); a.Is6() {
		b := a.As16()
		// ISATAP: the interface identifier hides an IPv4 address.
		if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
			return never
		}
	}
	for _, s := range special {
		if s.prefix.Contains(a) {
			return s.class
		}
	}
	return public // IPv4; all of IPv6 is in the table
}

// interfaceAddresses lists the addresses of this machine's interfaces.
func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
