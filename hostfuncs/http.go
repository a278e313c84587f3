package hostfuncs

import (
	"cmp"
	"context"
	"net/url"
	"slices"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// Fetcher fetches for guests under the rules of a grant: it checks host, method
// and the address really dialled on every hop, follows redirects only within
// the rules, bounds sizes and times, and adds and removes secrets. An HTTP
// status of any kind is an answer; errors are [tool.Error] values. It is safe
// for concurrent use.
//
// The interface is here so that this package reaches no network; whoever wires
// the runtime satisfies it with hostfuncs/httpfetch.
type Fetcher interface {
	Fetch(ctx context.Context, rules []manifest.HostRule, req HTTPRequest) (HTTPResponse, error)
}

// Header is one header line.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HTTPRequest is what a guest asks for.
type HTTPRequest struct {
	Method  string // "" means GET
	URL     string
	Headers []Header
	Body    []byte
}

// HTTPResponse is what a guest gets. Sent and Received count bytes on the wire,
// also of a request that failed.
type HTTPResponse struct {
	Status         int
	URL            string // of the last hop
	Headers        []Header
	Body           []byte
	Sent, Received int64
}

// maxUsedHosts bounds [Usage.Hosts].
const maxUsedHosts = 16

// Fetch fetches over HTTP what the grant allows.
func (c *Call) Fetch(ctx context.Context, req HTTPRequest) (_ HTTPResponse, err error) {
	defer func() {
		if err != nil {
			host := ""
			if u, bad := url.Parse(req.URL); bad == nil {
				host = u.Host
			}
			c.saw("net", host, err)
		}
	}()
	switch {
	case len(c.Grant.Net) == 0:
		return HTTPResponse{}, tool.Errorf(tool.GrantMissing, "no access to the network was granted").
			WithNext("ask a person to grant net for the host").With("capability", "net")
	case c.Preview:
		return HTTPResponse{}, tool.Errorf(tool.NotAvailable, "a call that changes files is tried without the network first").
			WithNext("use a tool that either fetches or changes files")
	case c.HTTP == nil:
		return HTTPResponse{}, tool.Errorf(tool.NotAvailable, "this runtime has no network")
	}
	resp, err := c.HTTP.Fetch(ctx, c.Grant.Net, req)
	c.used.Requests++
	c.used.BytesSent += resp.Sent
	c.used.BytesReceived += resp.Received
	if u, bad := url.Parse(cmp.Or(resp.URL, req.URL)); bad == nil && !slices.Contains(c.used.Hosts, u.Host) && len(c.used.Hosts) < maxUsedHosts {
		c.used.Hosts = append(c.used.Hosts, u.Host)
	}
	return resp, err
}
