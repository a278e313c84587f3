// Package httpfetch is the only way from a guest to the network, and the only
// part of hostfuncs that reaches it. A [Client] fetches one URL under one
// [Grant]: host, port, method and the address really dialled are checked on
// every hop, redirects included; sizes and times are capped; secrets are added
// by the host, for the hosts they are named for, and taken out of everything
// that goes back.
//
// What it refuses: hosts, ports and methods that no rule names (before the name
// is even looked up); private, loopback, link-local, metadata and reserved
// addresses, whatever name or spelling leads there, unless a rule for exactly
// that host says Private; redirects that leave the grant or fall from https to
// http; headers that belong to the host. DNS answers are looked up once per
// hop, all of them are checked, and only a checked address is dialled, so a
// name cannot be bound to something else between check and use. There is no
// proxy, no cookie jar, no connection that outlives its hop, and no HTTP/2.
//
// What it does not stop: a granted server does with the request, and with a
// secret sent to it, what it likes. Redaction catches a secret that comes back
// whole, in the usual encodings; it does not catch one that a server hides on
// purpose (encrypted, cut up, inside an archive). A server that takes the
// method from the URL (`?_method=delete`) makes method rules worthless for
// itself. A wildcard rule trusts whoever may make names below the domain, and
// the names looked up there can carry data out.
package httpfetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

// Limits bound one call of [Client.Do]. Zero fields mean those of
// [DefaultLimits].
type Limits struct {
	Time          time.Duration // everything: look-ups, connections, all hops, the body
	ConnectTime   time.Duration // one attempt to connect to one address
	BodyBytes     int64         // response body, after decompression
	HeaderBytes   int64         // response headers of one hop, and the guest's request headers
	RequestBytes  int64         // request body
	URLBytes      int           // the URL, and each redirect's
	Redirects     int           // hops after the first; below zero: none are followed
	DialAddresses int           // addresses of one host that are tried
}

// DefaultLimits are the limits that hold where nothing else is said: about
// what a page or an API answer needs, well below what hurts the host when
// thirty-two calls do it at once.
var DefaultLimits = Limits{
	Time:          30 * time.Second,
	ConnectTime:   8 * time.Second,
	BodyBytes:     4 << 20,
	HeaderBytes:   64 << 10,
	RequestBytes:  1 << 20,
	URLBytes:      8 << 10,
	Redirects:     10,
	DialAddresses: 8,
}

// Resolver looks names up. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options shape a [Client]. The zero value is what production wants, but for
// Secrets.
type Options struct {
	Limits Limits

	// Secrets gives the value of a named secret; (*secret.Store).Get is one. It
	// must be safe for concurrent use. Nil: no secret is set.
	Secrets func(name string) (string, error)

	// Resolver defaults to the system's; names with a dot are then
	// looked up as absolute ones, so no search domain is appended.
	Resolver Resolver

	// Dial connects to an address that has passed all checks. Default: TCP.
	Dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)

	// RootCAs defaults to the system's.
	RootCAs *x509.CertPool

	// LocalAddresses lists this machine's own addresses, which count as
	// loopback whatever range they are from. Default: those of its interfaces.
	LocalAddresses func() ([]netip.Addr, error)
}

// Client fetches for guests. One serves a whole runtime: it holds no
// connections, cookies or sessions, so calls share nothing. Safe for
// concurrent use.
type Client struct {
	limits   Limits
	secrets  func(string) (string, error)
	resolver Resolver
	dial     func(context.Context, netip.AddrPort) (net.Conn, error)
	roots    *x509.CertPool
	local    func() ([]netip.Addr, error)
}

// New makes a Client.
func New(opts Options) *Client {
	c := &Client{
		limits:   opts.Limits.orDefault(),
		secrets:  opts.Secrets,
		resolver: opts.Resolver,
		dial:     opts.Dial,
		roots:    opts.RootCAs,
		local:    opts.LocalAddresses,
	}
	if c.secrets == nil {
		c.secrets = func(name string) (string, error) {
			return "", tool.Errorf(tool.NotFound, "secret %s is not set", tool.QuotePath(name))
		}
	}
	if c.resolver == nil {
		c.resolver = absolute{net.DefaultResolver}
	}
	if c.dial == nil {
		c.dial = dialTCP
	}
	if c.local == nil {
		c.local = interfaceAddresses
	}
	return c
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	or := func(p *int64, v int64) {
		if v > 0 {
			*p = v
		}
	}
	or((*int64)(&d.Time), int64(l.Time))
	or((*int64)(&d.ConnectTime), int64(l.ConnectTime))
	or(&d.BodyBytes, l.BodyBytes)
	or(&d.HeaderBytes, l.HeaderBytes)
	or(&d.RequestBytes, l.RequestBytes)
	if l.URLBytes > 0 {
		d.URLBytes = l.URLBytes
	}
	if l.DialAddresses > 0 {
		d.DialAddresses = l.DialAddresses
	}
	switch {
	case l.Redirects > 0:
		d.Redirects = l.Redirects
	case l.Redirects < 0:
		d.Redirects = 0
	}
	return d
}

// Header is one header line.
type Header struct{ Name, Value string }

// Request is what a guest asks for.
type Request struct {
	Method  string // "" means GET
	URL     string // http or https, absolute, no user name, ASCII host
	Headers []Header
	Body    []byte
}

// Response is what comes back, already redacted. After an error it still holds
// the hops and the usage so far, for the evidence.
type Response struct {
	Status   int
	Headers  []Header // sorted by name
	Body     []byte
	FinalURL string
	Hops     []Hop
	Usage    Usage
}

// Hop is one request of the chain, for the evidence; Address tells more than a
// guest should learn about the host's network.
type Hop struct {
	Method  string
	URL     string
	Address string   // the address dialled, with its port; "" if none was
	Status  int      // 0 if no answer came
	Secrets []string // names of the secrets that were sent
}

// Usage is what a call used.
type Usage struct {
	Sent     int64 // bytes on the wire, TLS included
	Received int64
	Elapsed  time.Duration
}

// Do fetches req under grant. An HTTP status of any kind is an answer, not an
// error. Every error is a *tool.Error:
//
//   - invalid_arguments: the URL, method or a header cannot be honoured
//   - grant_missing: host, port, method or address is not granted; the text
//     names what is missing
//   - not_available: the grant itself is faulty, or a secret it needs is not set
//   - too_large: request or response is over a limit; quota: too many redirects
//   - timeout, cancelled: the limit on time, or the caller's context
//   - upstream: the server or the way to it failed
func (c *Client) Do(ctx context.Context, grant Grant, req Request) (Response, error) {
	start := time.Now()
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, c.limits.Time)
	defer cancel()
	x := &exchange{Client: c, caller: caller}
	err := x.run(ctx, grant, req)
	x.resp.Usage = Usage{Sent: x.sent.Load(), Received: x.received.Load(), Elapsed: time.Since(start)}
	if err != nil {
		return Response{Hops: x.resp.Hops, Usage: x.resp.Usage}, err
	}
	return x.resp, nil
}

// exchange is the state of one Do.
type exchange struct {
	*Client
	caller   context.Context
	redact   redactor
	resp     Response
	sent     atomic.Int64
	received atomic.Int64
}

func (x *exchange) run(ctx context.Context, grant Grant, req Request) error {
	rules, err := compile(grant)
	if err != nil {
		return err
	}
	h, err := x.firstHop(req)
	if err != nil {
		return err
	}
	x.redact = x.newRedactor(rules)
	for n := 0; ; n++ {
		ans, err := x.hop(ctx, rules, h)
		if err != nil {
			return err
		}
		next, err := x.follow(h, ans)
		if err != nil {
			ans.Body.Close()
			return err
		}
		if next == nil {
			defer ans.Body.Close()
			return x.finish(ctx, h, ans)
		}
		// Unread: the connection dies with its hop, whatever is still in it.
		ans.Body.Close()
		if n == x.limits.Redirects {
			return tool.Errorf(tool.Quota, "%s redirects again after %d redirects", h.target, n).
				WithNext("ask for the final URL directly")
		}
		h = *next
	}
}

// hop makes one request: decide, look up, check, connect, send. The caller
// closes the body.
func (x *exchange) hop(ctx context.Context, rules []rule, h hop) (*http.Response, error) {
	d, err := decide(rules, h.target, h.method)
	if err != nil {
		return nil, fromRedirect(err, h)
	}
	out, err := x.request(ctx, h, d)
	if err != nil {
		return nil, fromRedirect(err, h)
	}
	rec := Hop{Method: h.method, URL: x.redact.text(h.target.url.String())}
	defer func() { x.resp.Hops = append(x.resp.Hops, rec) }()
	addrs, err := x.addresses(ctx, h.target, d)
	if err != nil {
		return nil, fromRedirect(err, h)
	}
	conn, addr, err := x.connect(ctx, h.target, addrs)
	if err != nil {
		return nil, err
	}
	rec.Address = addr.String()
	for _, s := range d.secrets {
		rec.Secrets = append(rec.Secrets, s.Secret)
	}
	ans, err := x.transport(h.target, &countingConn{Conn: conn, x: x}).RoundTrip(out)
	if err != nil {
		conn.Close() // the transport may have given up before it took it
		return nil, x.explain(ctx, h.target, err)
	}
	rec.Status = ans.StatusCode
	if ans.StatusCode == http.StatusSwitchingProtocols {
		ans.Body.Close()
		return nil, tool.Errorf(tool.Upstream, "%s changed the protocol without being asked", h.target)
	}
	return ans, nil
}

// transport speaks HTTP/1.1 over conn, once. It cannot dial: a second
// connection of the same hop would be one that nobody checked.
func (x *exchange) transport(t target, conn net.Conn) *http.Transport {
	var taken atomic.Bool
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, errors.New("the hop's only connection is used up")
			}
			return conn, nil
		},
		Proxy:                  nil, // never the environment's
		TLSClientConfig:        &tls.Config{ServerName: t.host, RootCAs: x.roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: x.limits.HeaderBytes,
		Protocols:              protocols,
	}
}

// finish reads the final answer.
func (x *exchange) finish(ctx context.Context, h hop, ans *http.Response) error {
	var body []byte
	if h.method != http.MethodHead {
		var err error
		if body, err = x.body(ctx, h.target, ans); err != nil {
			return err
		}
	}
	x.resp.Status = ans.StatusCode
	x.resp.Body = x.redact.bytes(body)
	x.resp.FinalURL = x.redact.text(h.target.url.String())
	for name, values := range ans.Header {
		for _, v := range values {
			x.resp.Headers = append(x.resp.Headers, Header{x.redact.text(name), x.redact.text(v)})
		}
	}
	slices.SortStableFunc(x.resp.Headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// body reads at most the limit, counted both before and after decompression.
// It decodes gzip, which some servers send unasked: a compressed body would
// hide a secret from the redaction. Any other coding is passed on as it is if
// there is no secret that it could hide.
func (x *exchange) body(ctx context.Context, t target, ans *http.Response) ([]byte, error) {
	limit := x.limits.BodyBytes
	tooLarge := func() error {
		return tool.Errorf(tool.TooLarge, "the response body of %s is over %d bytes", t, limit).
			WithNext("ask for less, for instance one page")
	}
	if ans.ContentLength > limit {
		return nil, tooLarge()
	}
	raw := io.LimitReader(ans.Body, limit+1)
	data, err := io.ReadAll(raw)
	if int64(len(data)) > limit {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, x.explain(ctx, t, err)
	}
	switch coding := strings.ToLower(strings.TrimSpace(strings.Join(ans.Header.Values("Content-Encoding"), ","))); coding {
	case "", "identity":
		return data, nil
	case "gzip", "x-gzip":
		if len(data) == 0 {
			return data, nil
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, tool.Errorf(tool.Upstream, "%s sent a damaged gzip body", t)
		}
		plain, err := io.ReadAll(io.LimitReader(z, limit+1))
		if int64(len(plain)) > limit {
			return nil, tooLarge()
		}
		if err != nil {
			return nil, tool.Errorf(tool.Upstream, "%s sent a damaged gzip body", t)
		}
		ans.Header.Del("Content-Encoding")
		ans.Header.Del("Content-Length")
		return plain, nil
	default:
		if !x.redact.empty() {
			return nil, tool.Errorf(tool.Upstream,
				"%s compressed its answer in a way that was not asked for and that could hide a secret", t)
		}
		return data, nil
	}
}

// explain turns a failure of net/http into an error in our own words: the
// texts of net, tls and x509 name the host's addresses and name servers and
// repeat what the server sent.
func (x *exchange) explain(ctx context.Context, t target, err error) error {
	var e *tool.Error
	if errors.As(err, &e) {
		return e
	}
	if err := x.stopped(ctx, t); err != nil {
		return err
	}
	code, text := tool.Upstream, "failed before a whole answer came"
	var (
		netErr   net.Error
		host     x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		alert    tls.AlertError
		notTLS   tls.RecordHeaderError
		tooLarge = strings.Contains(err.Error(), "server response headers exceeded")
	)
	switch {
	case tooLarge:
		code, text = tool.TooLarge, "sent too many response headers"
	case errors.As(err, &host):
		text = "has a certificate for another name"
	case errors.As(err, &unknown):
		text = "has a certificate from an authority that is not trusted here"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		text = "has a certificate that is not valid at this time"
	case errors.As(err, &verify), errors.As(err, &invalid):
		text = "has a certificate that is not valid"
	case errors.As(err, &notTLS), errors.As(err, &alert):
		text = "does not speak TLS as expected"
	case isRefused(err):
		text = "refused the connection"
	case errors.As(err, &netErr) && netErr.Timeout():
		code, text = tool.Timeout, "did not answer in time"
	}
	return tool.Errorf(code, "%s %s", t, text).Because(errors.New(x.redact.text(err.Error())))
}

// stopped says whether the call is over: the caller gave up, or the time is up.
func (x *exchange) stopped(ctx context.Context, t target) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(x.caller.Err(), context.Canceled):
		return tool.Errorf(tool.Cancelled, "the call was withdrawn while it waited for %s", t).Because(context.Canceled)
	}
	return tool.Errorf(tool.Timeout, "%s did not answer in time", t).Because(context.DeadlineExceeded)
}

// countingConn counts what goes over the wire.
type countingConn struct {
	net.Conn
	x *exchange
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.x.received.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	// Counted before: the answer can be here, and the call over, before Write
	// returns in its own goroutine.
	c.x.sent.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.x.sent.Add(int64(n - len(p)))
	return n, err
}
