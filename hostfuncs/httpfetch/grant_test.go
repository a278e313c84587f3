package httpfetch

import (
	"math/big"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

func TestGrantCheck(t *testing.T) {
	for _, h := range []HostRule{
		{Host: "api.example.com"}, {Host: "API.Example.COM."}, {Host: "*.example.com"}, {Host: "*"}, {Host: "*:8080"}, {Host: "*.example.com:8443"},
		{Host: "localhost:3000", Private: true}, {Host: "127.0.0.1", Private: true}, {Host: "[::1]:80", Private: true}, {Host: "[::1]"},
		{Host: "xn--bcher-kva.example", Methods: []string{"GET", "M-SEARCH"}}, {Host: "a_b.example.com"},
		{Host: "a.b", Secrets: []SecretHeader{{"Authorization", "s", "Bearer %s"}, {"X-Key", "s", ""}}},
	} {
		if err := (Grant{Hosts: []HostRule{h}}).Check(); err != nil {
			t.Errorf("Check(%+v) = %v; want nil", h, err)
		}
	}
	for _, h := range []HostRule{
		{}, {Host: "*."}, {Host: "*.com"}, {Host: "**"}, {Host: "a*.example.com"}, {Host: "*.*.example.com"}, {Host: "*example.com"},
		{Host: "https://api.example.com"}, {Host: "api.example.com/path"}, {Host: "user@api.example.com"}, {Host: "api.example.com:"},
		{Host: "api.example.com:0"}, {Host: "api.example.com:http"}, {Host: "api.example.com:1:2"}, {Host: "::1"}, {Host: "[::1"}, {Host: "[::1]x"},
		{Host: "[1.2.3.4]"}, {Host: "[a.b]"}, {Host: "[::1%lo]"}, {Host: "127.1"}, {Host: "0x7f000001"}, {Host: "10.0.0.0/8"}, {Host: "*.127.0.0.1"},
		{Host: "bücher.example"}, {Host: "a..b"}, {Host: " a.b"}, {Host: "a.b\n"}, {Host: strings.Repeat("a.", 200) + "b"},
		{Host: "*.example.com", Private: true}, {Host: "*", Private: true},
		{Host: "a.b", Methods: []string{"get"}}, {Host: "a.b", Methods: []string{"*"}}, {Host: "a.b", Methods: []string{""}}, {Host: "a.b", Methods: []string{"CONNECT"}},
		{Host: "*.example.com", Secrets: []SecretHeader{{"X", "s", ""}}}, {Host: "*", Secrets: []SecretHeader{{"X", "s", ""}}},
		{Host: "a.b", Secrets: []SecretHeader{{"Host", "s", ""}}}, {Host: "a.b", Secrets: []SecretHeader{{"X:", "s", ""}}}, {Host: "a.b", Secrets: []SecretHeader{{"X", "", ""}}},
		{Host: "a.b", Secrets: []SecretHeader{{"X", "s", "none"}}}, {Host: "a.b", Secrets: []SecretHeader{{"X", "s", "%s%s"}}},
		{Host: "a.b", Secrets: []SecretHeader{{"X", "s", "%s\r\n"}}}, {Host: "a.b", Secrets: []SecretHeader{{"X-A", "s", ""}, {"x_a", "r", ""}}},
	} {
		err := (Grant{Hosts: []HostRule{h}}).Check()
		wantCode(t, "Check", err, tool.NotAvailable, "cannot be used")
		// One faulty rule refuses the whole grant: nothing is silently dropped.
		_, err = New(Options{}).Do(t.Context(), Grant{Hosts: []HostRule{{Host: "93.184.216.34"}, h}}, Request{URL: "http://93.184.216.34/"})
		wantCode(t, "Do", err, tool.NotAvailable)
	}
	wantCode(t, "Check", Grant{Hosts: make([]HostRule, maxRules+1)}.Check(), tool.NotAvailable)
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		rule   HostRule
		method string
		url    string
		ok     bool
	}{
		{HostRule{Host: "api.example.com"}, "GET", "https://api.example.com/x", true},
		{HostRule{Host: "api.example.com"}, "HEAD", "http://api.example.com/x", true},
		{HostRule{Host: "api.example.com"}, "POST", "https://api.example.com/x", false},
		{HostRule{Host: "api.example.com", Methods: []string{"POST"}}, "POST", "https://api.example.com/x", true},
		{HostRule{Host: "api.example.com", Methods: []string{"POST"}}, "GET", "https://api.example.com/x", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://api.example.com:80/", false},
		{HostRule{Host: "api.example.com"}, "GET", "http://api.example.com:443/", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://api.example.com:8443/", false},
		{HostRule{Host: "api.example.com:8443"}, "GET", "https://api.example.com:8443/", true},
		{HostRule{Host: "api.example.com:8443"}, "GET", "https://api.example.com/", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://example.com/", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://x.api.example.com/", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://api.example.com.evil.net/", false},
		{HostRule{Host: "api.example.com"}, "GET", "https://xapi.example.com/", false},
		{HostRule{Host: "*.example.com"}, "GET", "https://api.example.com/", true},
		{HostRule{Host: "*.example.com"}, "GET", "https://a.b.example.com/", true},
		{HostRule{Host: "*.example.com"}, "GET", "https://example.com/", false},
		{HostRule{Host: "*.example.com"}, "GET", "https://evilexample.com/", false},
		{HostRule{Host: "*.example.com"}, "GET", "https://example.com.evil.net/", false},
		{HostRule{Host: "*"}, "GET", "https://anything.net/", true},
		{HostRule{Host: "*"}, "GET", "https://1.1.1.1/", false},
		{HostRule{Host: "*"}, "GET", "https://anything.net:22/", false},
		{HostRule{Host: "[2606:4700::1]"}, "GET", "https://[2606:4700:0::1]/", true},
		{HostRule{Host: "1.1.1.1"}, "GET", "https://[::ffff:1.1.1.1]/", true},
	} {
		rules, err := compile(Grant{Hosts: []HostRule{c.rule}})
		if err != nil {
			t.Fatal(err)
		}
		target, err := parseTarget(c.url, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decide(rules, target, c.method); (err == nil) != c.ok {
			t.Errorf("decide(%+v, %s %s) = %v; want ok %v", c.rule, c.method, c.url, err, c.ok)
		} else if err != nil {
			wantCode(t, "decide", err, tool.GrantMissing, c.method, target.host, "ask a person to grant")
		}
	}
	if _, err := decide(nil, target{url: &url.URL{}}, "GET"); err == nil {
		t.Error("the zero grant allows a request")
	}
	// Two rules that disagree about one header: neither wins.
	rules, err := compile(Grant{Hosts: []HostRule{
		{Host: "a.b", Secrets: []SecretHeader{{"X-Key", "one", ""}}}, {Host: "a.b:443", Secrets: []SecretHeader{{"x_key", "two", ""}}}}})
	if err != nil {
		t.Fatal(err)
	}
	ab, _ := parseTarget("https://a.b", 100)
	_, err = decide(rules, ab, "GET")
	wantCode(t, "decide", err, tool.NotAvailable, "two rules")
}

// slowHost reads scheme, host and port off a URL by hand, in the plainest form
// only. It is the twin that FuzzRules holds parseTarget against.
func slowHost(raw string) (scheme, host, port string) {
	scheme, rest, _ := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	host = rest
	if strings.HasPrefix(rest, "[") {
		i := strings.Index(rest, "]")
		host, rest = rest[1:i], rest[i+1:]
	} else if i := strings.Index(rest, ":"); i >= 0 {
		host, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	port = strings.TrimPrefix(rest, ":")
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme, strings.TrimSuffix(strings.ToLower(host), "."), port
}

// slowAllows compares labels from the right.
func slowAllows(ruleHost, host, port, scheme string) bool {
	ruleHost = strings.ToLower(ruleHost)
	want := map[string]string{"http": "80", "https": "443"}[scheme]
	if i := strings.LastIndex(ruleHost, ":"); i >= 0 && !strings.HasSuffix(ruleHost, "]") {
		want, ruleHost = ruleHost[i+1:], ruleHost[:i]
	}
	if want != port {
		return false
	}
	addr, err := netip.ParseAddr(host)
	isAddr := err == nil
	if isAddr {
		r, err := netip.ParseAddr(strings.Trim(strings.TrimSuffix(ruleHost, "."), "[]"))
		return err == nil && r.Unmap() == addr.Unmap()
	}
	if ruleHost == "*" {
		return true
	}
	r, h := strings.Split(strings.TrimSuffix(ruleHost, "."), "."), strings.Split(host, ".")
	for len(r) > 0 && len(h) > 0 {
		last := r[len(r)-1]
		if last == "*" && len(r) == 1 {
			return true
		}
		if last != h[len(h)-1] {
			return false
		}
		r, h = r[:len(r)-1], h[:len(h)-1]
	}
	return len(r) == 0 && len(h) == 0
}

func FuzzRules(f *testing.F) {
	for _, r := range []string{"api.example.com", "*.example.com", "*", "127.0.0.1:80", "[::1]", "*.example.com:8443", "api.example.com."} {
		for _, u := range []string{"https://api.example.com/x", "http://x@api.example.com", "http://127.0.0.1", "https://[::1]:443/", "http://API.example.com.:80?x",
			"https://evil.net#@api.example.com", "http://[::ffff:127.0.0.1]/", "https://example.com:8443", "http://0x7f.1/", "http://a.example.com\\@b/"} {
			f.Add(r, u)
		}
	}
	f.Fuzz(func(t *testing.T, ruleHost, raw string) {
		target, err := parseTarget(raw, 1000)
		if err != nil {
			return
		}
		scheme, host, port := slowHost(raw)
		if target.literal.IsValid() {
			if a, err := netip.ParseAddr(host); err != nil || a.Unmap() != target.literal {
				t.Fatalf("parseTarget(%q) leads to %v; the twin reads %q", raw, target.literal, host)
			}
		} else if target.host != host {
			t.Fatalf("parseTarget(%q) leads to %q; the twin reads %q", raw, target.host, host)
		}
		// What is sent must read back as what was checked.
		again, err := parseTarget(target.url.String(), 10000)
		if err != nil || !again.sameOrigin(target) || again.url.RequestURI() != target.url.RequestURI() {
			t.Fatalf("parseTarget(%q) gives %q, which reads back as %v, %v", raw, target.url, again, err)
		}
		rules, err := compile(Grant{Hosts: []HostRule{{Host: ruleHost}}})
		if err != nil {
			return
		}
		_, err = decide(rules, target, "GET")
		if slow := slowAllows(ruleHost, host, port, scheme); slow != (err == nil) {
			t.Fatalf("rule %q, URL %q: decide = %v; the twin says %v", ruleHost, raw, err, slow)
		}
		if _, err = decide(rules, target, "POST"); err == nil {
			t.Fatalf("rule %q, URL %q: POST is allowed", ruleHost, raw)
		}
	})
}

func TestClassify(t *testing.T) {
	for addr, want := range map[string]class{
		"1.1.1.1": public, "8.8.8.8": public, "172.15.255.255": public, "172.32.0.0": public, "100.63.255.255": public, "100.128.0.0": public,
		"192.167.255.255": public, "192.169.0.0": public, "11.0.0.0": public, "126.255.255.255": public, "223.255.255.255": public, "198.17.255.255": public,
		"10.0.0.0": private, "10.255.255.255": private, "172.16.0.0": private, "172.31.255.255": private, "192.168.0.1": private, "100.64.0.1": private,
		"100.127.255.255": private, "198.18.0.1": private, "198.19.255.255": private, "127.0.0.1": loopback, "127.255.255.255": loopback,
		"169.254.0.1": linkLocal, "169.254.169.253": linkLocal, "169.254.169.254": metadata, "169.254.170.2": metadata, "169.254.170.23": metadata,
		"100.100.100.200": metadata, "168.63.129.16": metadata, "192.0.0.192": metadata, "0.0.0.0": never, "0.1.2.3": never, "192.0.0.1": never,
		"192.0.2.1": never, "192.88.99.1": never, "198.51.100.1": never, "203.0.113.1": never, "224.0.0.1": never, "239.255.255.255": never,
		"240.0.0.1": never, "255.255.255.255": never,
		"2606:4700::1111": public, "2a00:1450::1": public, "3ffe::1": public, "::1": loopback, "::": never, "::2": never, "::127.0.0.1": never,
		"fc00::1": private, "fd12::1": private, "fec0::1": private, "fe80::1": linkLocal, "febf::1": linkLocal, "fe80::a9fe:a9fe": metadata,
		"fd00:ec2::254": metadata, "fd00:ec2::23": metadata, "fd20:ce::254": metadata, "ff02::1": never, "4000::1": never, "100::1": never, "5f00::1": never,
		"2001::1": never, "2001:0:7f00:1::": never, "2001:db8::1": never, "2001:1ff::1": never, "2001:200::1": public, "2002:7f00:1::": never, "3fff::1": never,
		"::ffff:1.1.1.1": public, "::ffff:127.0.0.1": loopback, "::ffff:169.254.169.254": metadata, "::ffff:0:127.0.0.1": never,
		"64:ff9b::1.1.1.1": public, "64:ff9b::127.0.0.1": loopback, "64:ff9b::10.1.2.3": private, "64:ff9b::169.254.169.254": metadata, "64:ff9b::0.0.0.0": never,
		"64:ff9b:1::1.1.1.1": never, "2606:4700::5efe:7f00:1": never, "2606:4700::200:5efe:7f00:1": never, "fe80::1%eth0": never, "2606:4700::1%x": never,
	} {
		if got := classify(netip.MustParseAddr(addr)); got != want {
			t.Errorf("classify(%s) = %v; want %v", addr, got, want)
		}
	}
	if classify(netip.Addr{}) != never {
		t.Error("the zero address is not refused")
	}
}

// slowRanges is the twin's table: first and last address, most special first.
var slowRanges = []struct {
	first, last string
	class       class
}{
	{"169.254.169.254", "169.254.169.254", metadata}, {"169.254.170.2", "169.254.170.2", metadata}, {"169.254.170.23", "169.254.170.23", metadata},
	{"100.100.100.200", "100.100.100.200", metadata}, {"168.63.129.16", "168.63.129.16", metadata}, {"192.0.0.192", "192.0.0.192", metadata},
	{"0.0.0.0", "0.255.255.255", never}, {"10.0.0.0", "10.255.255.255", private}, {"100.64.0.0", "100.127.255.255", private},
	{"127.0.0.0", "127.255.255.255", loopback}, {"169.254.0.0", "169.254.255.255", linkLocal}, {"172.16.0.0", "172.31.255.255", private},
	{"192.0.0.0", "192.0.0.255", never}, {"192.0.2.0", "192.0.2.255", never}, {"192.88.99.0", "192.88.99.255", never},
	{"192.168.0.0", "192.168.255.255", private}, {"198.18.0.0", "198.19.255.255", private}, {"198.51.100.0", "198.51.100.255", never},
	{"203.0.113.0", "203.0.113.255", never}, {"224.0.0.0", "255.255.255.255", never}, {"0.0.0.0", "255.255.255.255", public},

	{"fd00:ec2::", "fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff", metadata}, {"fd20:ce::254", "fd20:ce::254", metadata}, {"fe80::a9fe:a9fe", "fe80::a9fe:a9fe", metadata},
	{"::1", "::1", loopback}, {"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", private}, {"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", linkLocal},
	{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", private}, {"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", never},
	{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", never}, {"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", never},
	{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", never}, {"2000::", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", public},
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// slowClassify works on numbers and text.
func slowClassify(a netip.Addr) class {
	if a.Is6() {
		hex := a.StringExpanded()
		v4 := func() class {
			s := a.As16()
			return slowClassify(netip.AddrFrom4([4]byte{s[12], s[13], s[14], s[15]}))
		}
		switch {
		case strings.HasPrefix(hex, "0000:0000:0000:0000:0000:ffff:"), a.Is4In6(), strings.HasPrefix(hex, "0064:ff9b:0000:0000:0000:0000:"):
			return v4()
		case hex[20:29] == "0000:5efe", hex[20:29] == "0200:5efe":
			return never
		}
	}
	n := number(a)
	for _, r := range slowRanges {
		first, last := netip.MustParseAddr(r.first), netip.MustParseAddr(r.last)
		if first.Is4() == a.Is4() && n.Cmp(number(first)) >= 0 && n.Cmp(number(last)) <= 0 {
			return r.class
		}
	}
	return never
}

func FuzzClassify(f *testing.F) {
	for _, r := range slowRanges {
		for _, s := range []string{r.first, r.last} {
			a := netip.MustParseAddr(s)
			f.Add(a.AsSlice())
			f.Add(a.Next().AsSlice())
			f.Add(a.Prev().AsSlice())
			b := a.As16()
			f.Add(b[:])
			copy(b[:], []byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})
			f.Add(b[:])
			copy(b[:], []byte{0x26, 6, 0x47, 0, 0, 0, 0, 0, 2, 0, 0x5e, 0xfe})
			f.Add(b[:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if got, want := classify(a), slowClassify(a); got != want {
			t.Fatalf("classify(%v) = %v; the twin says %v", a, got, want)
		}
	})
}
