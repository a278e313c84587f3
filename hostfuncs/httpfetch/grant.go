package httpfetch

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Grant is what a person gave one tool of one module. The zero Grant reaches
// nothing.
type Grant struct {
	Hosts []HostRule
}

// HostRule lets a guest reach one host, or the hosts below one domain.
type HostRule struct {
	// Host is "api.example.com"; "*.example.com", which is every name below the
	// domain, at any depth, but not the domain itself; an IP address (IPv6 in
	// brackets); or "*", which is every public host that has a name. ":port"
	// may follow; without it the rule is for 443 with https and 80 with http.
	Host string

	// Methods in capitals. Empty: GET and HEAD.
	Methods []string

	// Private lets exactly this host lead to private and loopback addresses. To
	// reach a link-local or metadata address, Host must be that address.
	Private bool

	// Secrets are added by the host of the runtime to each request that this
	// rule allows. They need an exact Host, and https unless Private is set.
	Secrets []SecretHeader
}

// SecretHeader is a header whose value the guest never sees.
type SecretHeader struct {
	Header string // such as "Authorization"
	Secret string // its name in the store
	Format string // the value, "%s" standing for the secret, once: "Bearer %s"; "" means "%s"
}

// Check tells what is wrong with the grant, for whoever is about to give it;
// [Client.Do] refuses a grant that does not pass.
func (g Grant) Check() error {
	_, err := compile(g)
	return err
}

// rule is a HostRule that has passed all checks.
type rule struct {
	any     bool // "*"
	below   bool // "*.host"
	host    string
	literal netip.Addr
	port    uint16 // 0: the scheme's
	methods []string
	private bool
	secrets []SecretHeader
}

// maxRules bounds the work of one decision.
const maxRules = 1000

var defaultMethods = []string{"GET", "HEAD"}

func compile(g Grant) ([]rule, error) {
	if len(g.Hosts) > maxRules {
		return nil, tool.Errorf(tool.NotAvailable, "the grant has over %d host rules", maxRules)
	}
	rules := make([]rule, 0, len(g.Hosts))
	for _, h := range g.Hosts {
		r, err := compileRule(h)
		if err != nil {
			return nil, tool.Errorf(tool.NotAvailable, "the grant's rule for host %s cannot be used: %v",
				tool.QuotePath(h.Host), err).WithNext("ask a person to mend the grant")
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func compileRule(h HostRule) (rule, error) {
	r := rule{methods: h.Methods, private: h.Private, secrets: h.Secrets}
	if err := r.setHost(h.Host); err != nil {
		return rule{}, err
	}
	if len(r.methods) == 0 {
		r.methods = defaultMethods
	}
	for _, m := range r.methods {
		if err := checkMethod(m); err != nil {
			return rule{}, err
		}
	}
	exact := !r.any && !r.below
	if r.private && !exact {
		return rule{}, hostError("private addresses need an exact host, no wildcard")
	}
	if len(r.secrets) > 0 && !exact {
		return rule{}, hostError("secrets need an exact host, no wildcard")
	}
	for i, s := range r.secrets {
		switch {
		case s.Secret == "":
			return rule{}, hostError("a secret has no name")
		case !isToken(s.Header) || belongsToHost(s.Header):
			return rule{}, hostError("a secret cannot go into header " + tool.QuotePath(s.Header))
		case strings.Count(s.format(), "%s") != 1 || !isVisible(s.format()):
			return rule{}, hostError(`a secret's format must be printable and hold "%s" once`)
		}
		for _, o := range r.secrets[:i] {
			if foldHeader(o.Header) == foldHeader(s.Header) {
				return rule{}, hostError("two secrets for header " + s.Header)
			}
		}
	}
	return r, nil
}

func (r *rule) setHost(s string) error {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
		var err error
		if r.port, err = parsePort(port); err != nil {
			return err
		}
	}
	if host == "*" {
		r.any = true
		return nil
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		// "*.com" would be a rule about half the internet, written by mistake.
		if !strings.Contains(rest, ".") {
			return hostError(`a wildcard needs a domain of two labels or more, or use "*"`)
		}
		r.below, host = true, rest
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return hostError("brackets are for IPv6 addresses only")
		}
		host = inner
	} else if strings.Contains(host, ":") {
		return hostError("an IPv6 address must be in brackets")
	}
	var err error
	if r.host, r.literal, err = parseHost(host); err != nil {
		return err
	}
	if r.below && r.literal.IsValid() {
		return hostError("a wildcard is for names, not for addresses")
	}
	return nil
}

func (s SecretHeader) format() string {
	if s.Format == "" {
		return "%s"
	}
	return s.Format
}

// names tells whether the rule is about t's host and port.
func (r rule) names(t target) bool {
	if r.port == 0 && !t.defaultPort() || r.port != 0 && r.port != t.port {
		return false
	}
	switch {
	case r.any:
		return !t.literal.IsValid()
	case r.below:
		return !t.literal.IsValid() && strings.HasSuffix(t.host, "."+r.host)
	}
	return r.host == t.host
}

// decision is what the rules that allow a request say about it.
type decision struct {
	private bool // by a rule for exactly this host
	secrets []SecretHeader
}

// permits tells whether the host may lead to an address of class c.
func (d decision) permits(c class, literal bool) bool {
	switch c {
	case public:
		return true
	case private, loopback:
		return d.private
	case linkLocal, metadata:
		return d.private && literal
	}
	return false
}

// decide finds the rules that allow method on t. A rule counts only where it
// names host, port and method; nothing it says applies to any other request.
func decide(rules []rule, t target, method string) (decision, error) {
	var d decision
	named, allowed := false, false
	for _, r := range rules {
		if !r.names(t) {
			continue
		}
		named = true
		if !slices.Contains(r.methods, method) {
			continue
		}
		allowed = true
		d.private = d.private || r.private
		for _, s := range r.secrets {
			if t.url.Scheme != "https" && !r.private {
				return d, tool.Errorf(tool.InvalidArguments,
					"url: a secret is granted for %s and would cross the network unencrypted", t.host).
					WithNext("use https")
			}
			for _, o := range d.secrets {
				if foldHeader(o.Header) == foldHeader(s.Header) && o != s {
					return d, tool.Errorf(tool.NotAvailable, "two rules of the grant set header %s for %s", s.Header, t.host).
						WithNext("ask a person to mend the grant")
				}
			}
			if !slices.Contains(d.secrets, s) {
				d.secrets = append(d.secrets, s)
			}
		}
	}
	if !allowed {
		what := "this host is not granted"
		if named {
			what = "this host is granted, but not with this method"
		}
		where := hostPort(t.host, t.literal, t.port, t.defaultPort())
		return d, tool.Errorf(tool.GrantMissing, "%s %s: %s", method, t, what).
			WithNext("ask a person to grant this tool host %s with method %s, or use a host that is granted", where, method).
			With("host", where).With("method", method)
	}
	return d, nil
}
