package wasmtools

import (
	"context"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/hostfuncs/httpfetch"
	"github.com/wasmtools/wasmtools/manifest"
)

// fetcher lets guests fetch through the guarded client. It translates and
// decides nothing.
type fetcher struct{ client *httpfetch.Client }

var _ hostfuncs.Fetcher = fetcher{}

// Fetch implements [hostfuncs.Fetcher].
func (f fetcher) Fetch(ctx context.Context, rules []manifest.HostRule, req hostfuncs.HTTPRequest) (hostfuncs.HTTPResponse, error) {
	g := httpfetch.Grant{Hosts: make([]httpfetch.HostRule, len(rules))}
	for i, r := range rules {
		g.Hosts[i] = httpfetch.HostRule{Host: r.Host, Methods: r.Methods, Private: r.Private}
		for _, s := range r.Secrets {
			g.Hosts[i].Secrets = append(g.Hosts[i].Secrets, httpfetch.SecretHeader(s))
		}
	}
	in := httpfetch.Request{Method: req.Method, URL: req.URL, Body: req.Body}
	for _, h := range req.Headers {
		in.Headers = append(in.Headers, httpfetch.Header(h))
	}
	resp, err := f.client.Do(ctx, g, in)
	out := hostfuncs.HTTPResponse{
		Status: resp.Status, URL: resp.FinalURL, Body: resp.Body,
		Sent: resp.Usage.Sent, Received: resp.Usage.Received,
	}
	for _, h := range resp.Headers {
		out.Headers = append(out.Headers, hostfuncs.Header(h))
	}
	return out, err
}
