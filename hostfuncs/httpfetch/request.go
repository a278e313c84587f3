package httpfetch

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// hop is one request of the chain, before secrets are added.
type hop struct {
	method  string
	target  target
	headers []Header
	body    []byte
	from    string // where a redirect came from; "" for the first hop
}

func (x *exchange) firstHop(req Request) (hop, error) {
	h := hop{method: strings.ToUpper(req.Method), body: req.Body}
	if h.method == "" {
		h.method = http.MethodGet
	}
	if err := checkMethod(h.method); err != nil {
		return hop{}, tool.Errorf(tool.InvalidArguments, "method: %v", err)
	}
	var err error
	if h.target, err = parseTarget(req.URL, x.limits.URLBytes); err != nil {
		return hop{}, err
	}
	if h.headers, err = x.guestHeaders(req.Headers); err != nil {
		return hop{}, err
	}
	if int64(len(req.Body)) > x.limits.RequestBytes {
		return hop{}, tool.Errorf(tool.TooLarge, "the request body has %d bytes; at most %d can be sent",
			len(req.Body), x.limits.RequestBytes).WithNext("send less")
	}
	return h, nil
}

// guestHeaders checks what the guest wants to send.
func (x *exchange) guestHeaders(in []Header) ([]Header, error) {
	size := int64(0)
	out := make([]Header, 0, min(len(in), 64))
	for _, h := range in {
		size += int64(len(h.Name) + len(h.Value) + len(": \r\n"))
		switch {
		case size > x.limits.HeaderBytes:
			return nil, tool.Errorf(tool.TooLarge, "the request headers are over %d bytes", x.limits.HeaderBytes).
				WithNext("send less")
		case !isToken(h.Name):
			return nil, tool.Errorf(tool.InvalidArguments, "header %s: not a valid name", shortName(h.Name))
		case belongsToHost(h.Name):
			return nil, tool.Errorf(tool.InvalidArguments, "header %s: set by the host only", h.Name).
				WithNext("leave the header out")
		case strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, tool.Errorf(tool.InvalidArguments, "header %s: the value has a line end or another control character", h.Name)
		case foldHeader(h.Name) == "accept-encoding":
			// A preference, which the host answers itself: see request.
			continue
		}
		out = append(out, h)
	}
	return out, nil
}

// request builds what goes over the wire: the guest's headers, and the secrets
// that the rules name for exactly this request.
func (x *exchange) request(ctx context.Context, h hop, d decision) (*http.Request, error) {
	out := &http.Request{
		Method:        h.method,
		URL:           h.target.url,
		Host:          h.target.url.Host,
		Header:        http.Header{"User-Agent": {"wasmtools"}, "Accept-Encoding": {"identity"}},
		Body:          http.NoBody,
		ContentLength: int64(len(h.body)),
	}
	if len(h.body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(h.body))
	}
	secret := func(name string) bool {
		return slices.ContainsFunc(d.secrets, func(s SecretHeader) bool { return foldHeader(s.Header) == foldHeader(name) })
	}
	own := map[string]bool{}
	for _, g := range h.headers {
		key := http.CanonicalHeaderKey(g.Name)
		switch {
		case secret(g.Name) && h.from == "":
			return nil, tool.Errorf(tool.InvalidArguments, "header %s: the host sets it for %s, from a secret", g.Name, h.target.host).
				WithNext("leave the header out")
		case secret(g.Name):
			continue
		case foldHeader(g.Name) == "range" && !x.redact.empty():
			// With ranges a guest could fetch an echoed secret in pieces, none of
			// which the redaction would know.
			return nil, tool.Errorf(tool.InvalidArguments, "header %s: not together with a grant that has secrets", g.Name).
				WithNext("fetch the whole resource")
		}
		if !own[key] {
			own[key] = true
			out.Header.Del(key)
		}
		out.Header[key] = append(out.Header[key], g.Value)
	}
	for _, s := range d.secrets {
		value, err := x.redact.value(s)
		if err != nil {
			return nil, err
		}
		out.Header[http.CanonicalHeaderKey(s.Header)] = []string{value}
	}
	return out.WithContext(ctx), nil
}

// checkMethod accepts a method in capitals. CONNECT and TRACE are not for
// guests: one makes a tunnel, the other sends the request's headers back.
func checkMethod(m string) error {
	switch {
	case m == "" || len(m) > 32 || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "":
		return hostError("not an HTTP method in capitals")
	case m == "CONNECT" || m == "TRACE" || m == "TRACK":
		return hostError(m + " is not allowed")
	}
	return nil
}

// hostHeaders are the headers that decide where a request goes, where it ends
// and what its connection does, and those with which a server can be told to
// take another method than the one that was checked.
var hostHeaders = []string{
	"connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade", "via", "x-http-method", "x-http-method-override", "x-method-override",
}

func belongsToHost(name string) bool {
	f := foldHeader(name)
	return strings.HasPrefix(f, "proxy-") || slices.Contains(hostHeaders, f)
}

// foldHeader gives the form in which header names are compared. Servers that
// pass headers on as environment variables cannot tell '_' from '-'.
func foldHeader(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// isToken follows RFC 9110, section 5.6.2.
func isToken(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// isVisible tells whether s is printable ASCII.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func shortName(s string) string {
	return tool.QuotePath(s[:min(len(s), 64)])
}
