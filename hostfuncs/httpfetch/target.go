package httpfetch

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// target is where a URL leads, in the one form in which it is compared with
// rules, looked up, dialled and sent: two spellings that a later step could
// read differently do not exist after parseTarget.
type target struct {
	url     *url.URL
	host    string     // lower case, no brackets, no trailing dot
	literal netip.Addr // set if the host is an IP address
	port    uint16
}

// String gives scheme, host and port, for texts.
func (t target) String() string { return t.url.Scheme + "://" + t.url.Host }

func (t target) defaultPort() bool { return t.port == schemePort(t.url.Scheme) }

// origin tells whether two targets are the same scheme, host and port.
func (t target) sameOrigin(o target) bool {
	return t.url.Scheme == o.url.Scheme && t.host == o.host && t.port == o.port
}

func schemePort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

func badURL(format string, args ...any) *tool.Error {
	return tool.Errorf(tool.InvalidArguments, "url: "+format, args...)
}

// parseTarget reads an absolute URL of at most limit bytes.
func parseTarget(raw string, limit int) (target, error) {
	if len(raw) > limit {
		return target{}, badURL("over %d bytes", limit)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's own text repeats the URL, with what may be in it.
		return target{}, badURL("not a valid URL")
	}
	return newTarget(u)
}

func newTarget(in *url.URL) (target, error) {
	u := *in
	if u.Scheme != "http" && u.Scheme != "https" {
		return target{}, badURL("the scheme is not http or https")
	}
	if u.User != nil {
		return target{}, badURL("a user name or password in the URL is not allowed").
			WithNext("leave it out; a person can grant a secret for this host")
	}
	if u.Opaque != "" || u.Host == "" {
		return target{}, badURL("no host; write scheme://host/path")
	}
	host, literal, err := parseHost(u.Hostname())
	if err != nil {
		return target{}, badURL("%v", err)
	}
	// Hostname drops brackets; only IPv6 may have had them.
	if strings.HasPrefix(u.Host, "[") != strings.Contains(u.Hostname(), ":") {
		return target{}, badURL("brackets are for IPv6 addresses only")
	}
	t := target{url: &u, host: host, literal: literal, port: schemePort(u.Scheme)}
	if p := u.Port(); p != "" {
		if t.port, err = parsePort(p); err != nil {
			return target{}, badURL("%v", err)
		}
	}
	u.Host = hostPort(host, literal, t.port, t.defaultPort())
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapeQuery(u.RawQuery)
	return t, nil
}

// escapeQuery escapes what ends a URL for whoever reads the line that it is sent
// in: the parser lets a query pass as it is.
func escapeQuery(q string) string {
	var b strings.Builder
	for i := range len(q) {
		if c := q[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// hostPort writes host and port as they stand in a URL and in the Host header.
func hostPort(host string, literal netip.Addr, port uint16, omit bool) string {
	if literal.Is6() {
		host = "[" + host + "]"
	}
	if omit {
		return host
	}
	return host + ":" + strconv.Itoa(int(port))
}

type hostError string

func (e hostError) Error() string { return string(e) }

// parseHost normalises a host name or IP address (IPv6 without brackets).
//
// Only names of ASCII letters, digits, '-' and '_' pass, so there is nothing
// that IDNA, percent-decoding or another parser could turn into another name.
// A host whose last label is a number is an IPv4 address in one of the many
// forms that C libraries know (decimal, octal, hexadecimal, shortened); only
// the plain dotted form is taken.
func parseHost(s string) (string, netip.Addr, error) {
	none := netip.Addr{}
	if strings.Contains(s, ":") {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return "", none, hostError("the host is not a valid IPv6 address")
		case a.Zone() != "":
			return "", none, hostError("an IPv6 zone is not allowed")
		}
		a = a.Unmap()
		return a.String(), a, nil
	}
	s = strings.TrimSuffix(s, ".")
	if s == "" {
		return "", none, hostError("the host is empty")
	}
	if len(s) > 253 {
		return "", none, hostError("the host is longer than a name can be")
	}
	b := []byte(s)
	for i, c := range b {
		switch {
		case c >= 0x80:
			return "", none, hostError("the host is not ASCII; write its punycode form (xn--...)")
		case 'A' <= c && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return "", none, hostError("the host has a character that is not allowed in names")
		}
	}
	s = string(b)
	last := s
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return "", none, hostError("the host has an empty or overlong label")
		}
		last = label
	}
	if isNumber(last) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return "", none, hostError("the host is an IPv4 address in an unusual form; write four decimal numbers")
		}
		return a.String(), a, nil
	}
	return s, none, nil
}

// isNumber tells whether a C library would read the label as a number.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, hostError("the port is not a number from 1 to 65535")
	}
	return uint16(n), nil
}
