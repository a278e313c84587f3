package httpfetch

import (
	"net/http"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// follow makes the next hop out of a redirect, or nil if ans is final. The hop
// it makes has been given no right yet: it passes the same checks as the first.
func (x *exchange) follow(h hop, ans *http.Response) (*hop, error) {
	method, dropBody := h.method, false
	switch ans.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound:
		// As browsers do, and RFC 9110 allows: only POST becomes GET.
		if method == http.MethodPost {
			method, dropBody = http.MethodGet, true
		}
	case http.StatusSeeOther:
		if method != http.MethodGet && method != http.MethodHead {
			method, dropBody = http.MethodGet, true
		}
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := ans.Header.Get("Location")
	if location == "" || x.limits.Redirects == 0 {
		return nil, nil
	}
	refuse := func(why string) error {
		return tool.Errorf(tool.Upstream, "%s redirects to a URL that is not followed: %s", h.target, why).
			WithNext("ask for another URL")
	}
	if x.redact.found(location) {
		return nil, refuse("it carries a secret")
	}
	if len(location) > x.limits.URLBytes {
		return nil, refuse("it is too long")
	}
	u, err := h.target.url.Parse(location)
	if err != nil {
		return nil, refuse("it is not valid")
	}
	t, err := newTarget(u)
	if err != nil {
		return nil, refuse(tool.AsError(err).Text)
	}
	if h.target.url.Scheme == "https" && t.url.Scheme != "https" {
		return nil, refuse("it falls from https to http")
	}
	next := hop{method: method, target: t, headers: slices.Clone(h.headers), body: h.body, from: h.target.String()}
	if dropBody {
		next.body = nil
		next.drop(func(name string) bool { return strings.HasPrefix(name, "content-") })
	}
	if !t.sameOrigin(h.target) {
		// The guest meant them for the host it named.
		next.drop(func(name string) bool {
			return name == "authorization" || name == "cookie" || name == "cookie2"
		})
	}
	return &next, nil
}

// drop removes headers by their folded names.
func (h *hop) drop(match func(name string) bool) {
	h.headers = slices.DeleteFunc(h.headers, func(g Header) bool { return match(foldHeader(g.Name)) })
}

// fromRedirect says in the error of a hop that the guest did not ask for this
// URL itself.
func fromRedirect(err error, h hop) error {
	if e := tool.AsError(err); h.from != "" {
		e.Text = "after a redirect from " + h.from + ": " + e.Text
		return e
	}
	return err
}
