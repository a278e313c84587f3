package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmtools/wasmtools/tool"
)

// Capabilities is what a tool asks for, and also what a person grants it. The
// zero value is nothing. File globs are doublestar patterns over workspace
// paths; "**" is everything.
type Capabilities struct {
	Read  []string   `json:"fs.read,omitempty"`  // files that may be read, listed and searched
	Write []string   `json:"fs.write,omitempty"` // files that may be changed, created and removed
	Net   []HostRule `json:"net,omitempty"`      // hosts that may be asked over HTTP
	Env   []string   `json:"env,omitempty"`      // environment variables of the host whose values may be read
	KV    bool       `json:"kv,omitempty"`       // a store of its own, kept between calls, per module identity and workspace
	Clock bool       `json:"clock,omitempty"`    // clocks at full precision; without it they step by a microsecond
}

// HostRule is one host that may be asked over HTTP, and how.
type HostRule struct {
	// Host is "api.example.com", "*.example.com" (every name below the domain),
	// an IP address (IPv6 in brackets) or "*" (every public host that has a
	// name). ":port" may follow; without it the rule is for 443 with https and
	// 80 with http.
	Host    string   `json:"host"`
	Methods []string `json:"methods,omitempty"` // in capitals; empty means GET and HEAD
	Private bool     `json:"private,omitempty"` // the host may have a private or loopback address; exact hosts only
	Secrets []Secret `json:"secrets,omitempty"` // exact hosts only
}

// Secret is a header that the host of the runtime adds to each request which
// its rule allows. The guest never sees the value.
type Secret struct {
	Header string `json:"header"`           // such as Authorization
	Secret string `json:"secret"`           // its name in the store of secrets
	Format string `json:"format,omitempty"` // the value, with "%s" once for the secret; empty means "%s"
}

// Bounds on capabilities.
const (
	maxGlobs   = 64
	maxHosts   = 64
	maxHost    = 260 // bytes: a name of 253 and a port
	maxMethods = 16
	maxSecrets = 8 // of one rule
	maxEnv     = 64
	maxEnvName = 128
	maxFormat  = 256
)

// Empty reports whether c is nothing at all.
func (c Capabilities) Empty() bool {
	return len(c.Read) == 0 && len(c.Write) == 0 && len(c.Net) == 0 && len(c.Env) == 0 && !c.KV && !c.Clock
}

// Files reports whether c has to do with files.
func (c Capabilities) Files() bool { return len(c.Read) > 0 || len(c.Write) > 0 }

// Effects is what a tool with these capabilities can do to the world, whatever
// it says about itself. Approval is asked by it.
func (c Capabilities) Effects() tool.Effects {
	var e tool.Effects
	if len(c.Read) > 0 {
		e |= tool.Reads
	}
	if len(c.Write) > 0 {
		e |= tool.Writes
	}
	if len(c.Net) > 0 {
		e |= tool.UsesNetwork
	}
	return e
}

// And is what c and d give together.
func (c Capabilities) And(d Capabilities) Capabilities {
	c.Read = append(slices.Clone(c.Read), d.Read...)
	c.Write = append(slices.Clone(c.Write), d.Write...)
	c.Net = append(slices.Clone(c.Net), d.Net...)
	c.Env = append(slices.Clone(c.Env), d.Env...)
	c.KV, c.Clock = c.KV || d.KV, c.Clock || d.Clock
	return c
}

// Check reports the first thing that is wrong with c, and which field it is in;
// ok means that there is none.
func (c Capabilities) Check() (name, why string, ok bool) {
	for _, f := range []struct {
		name  string
		globs []string
	}{{"fs.read", c.Read}, {"fs.write", c.Write}} {
		if len(f.globs) > maxGlobs {
			return f.name, fmt.Sprintf("%d globs; at most %d are allowed", len(f.globs), maxGlobs), false
		}
		for i, g := range f.globs {
			if why := CheckGlob(g); why != "" {
				return fmt.Sprintf("%s[%d]", f.name, i), why, false
			}
		}
	}
	if len(c.Net) > maxHosts {
		return "net", fmt.Sprintf("%d hosts; at most %d are allowed", len(c.Net), maxHosts), false
	}
	for i, h := range c.Net {
		if why := h.check(); why != "" {
			return fmt.Sprintf("net[%d]", i), why, false
		}
	}
	if len(c.Env) > maxEnv {
		return "env", fmt.Sprintf("%d names; at most %d are allowed", len(c.Env), maxEnv), false
	}
	for i, n := range c.Env {
		if !validEnv(n) {
			return fmt.Sprintf("env[%d]", i), fmt.Sprintf("%q is no name of an environment variable", clip(n)), false
		}
	}
	return "", "", true
}

func validEnv(n string) bool {
	return n != "" && len(n) <= maxEnvName && only(n, letters+digits+"_") && !strings.Contains(digits, n[:1])
}

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = capitals + "abcdefghijklmnopqrstuvwxyz"
	digits   = "0123456789"
)

func only(s, set string) bool { return strings.Trim(s, set) == "" }

// check looks at the form of a rule. Whether the name can be that of a host is
// for whoever fetches to say, each time: it refuses a rule that it cannot read.
func (h HostRule) check() string {
	switch {
	case h.Host == "":
		return "the host is missing"
	case len(h.Host) > maxHost || !only(h.Host, letters+digits+"-_.:[]*"):
		return fmt.Sprintf("%q is no host; write a name or address, without scheme and path", clip(h.Host))
	case !validPort(h.Host):
		return fmt.Sprintf("%q does not end in a port", clip(h.Host))
	case strings.Contains(h.Host, "*") && h.Host != "*" && !strings.HasPrefix(h.Host, "*:") &&
		(!strings.HasPrefix(h.Host, "*.") || strings.Count(h.Host, "*") > 1):
		return fmt.Sprintf("%q: a wildcard stands for whole names: *.example.com, or *", clip(h.Host))
	case len(h.Methods) > maxMethods:
		return fmt.Sprintf("%d methods; at most %d are allowed", len(h.Methods), maxMethods)
	case len(h.Secrets) > maxSecrets:
		return fmt.Sprintf("%d secrets; at most %d are allowed", len(h.Secrets), maxSecrets)
	case h.Private && strings.HasPrefix(h.Host, "*"):
		return "private addresses need an exact host, no wildcard"
	case len(h.Secrets) > 0 && strings.HasPrefix(h.Host, "*"):
		return "secrets need an exact host, no wildcard"
	}
	for _, m := range h.Methods {
		if m == "" || len(m) > 32 || !only(m, capitals+"-") || slices.Contains([]string{"CONNECT", "TRACE", "TRACK"}, m) {
			return fmt.Sprintf("%q is no method that can be granted", clip(m))
		}
	}
	for _, s := range h.Secrets {
		switch {
		case s.Header == "" || len(s.Header) > 128 || !only(s.Header, letters+digits+"-_"):
			return fmt.Sprintf("%q is no name of a header", clip(s.Header))
		case s.Secret == "" || len(s.Secret) > 64 || !only(s.Secret, letters+digits+"-_."):
			return fmt.Sprintf("%q is no name of a secret", clip(s.Secret))
		case s.Format != "" && (len(s.Format) > maxFormat || strings.Count(s.Format, "%s") != 1 || !printable(s.Format)):
			return `the format of a secret is printable ASCII and holds "%s" once`
		}
	}
	return ""
}

// validPort looks at what follows the last colon, if that is no part of an
// address in brackets.
func validPort(host string) bool {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return true
	}
	n, err := strconv.ParseUint(host[i+1:], 10, 16)
	return err == nil && n > 0
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Grants reads what a person grants a module's tools on the command line, and
// returns it by tool. Each text is one of
//
//	fs.read=GLOB[,GLOB...]       fs.write=GLOB[,GLOB...]
//	net=HOST[:PORT][:METHOD,...] net.private=HOST[:PORT][:METHOD,...]
//	secret=HOST[:PORT]/HEADER/NAME[/FORMAT]
//	env=NAME[,NAME...]           kv    clock
//	all                          what the tool asks for
//
// for every tool of the module, or for one with "TOOL:" before it. A secret is
// for a host that an earlier text grants to the same tool.
func Grants(m Manifest, texts []string) (map[string]Capabilities, error) {
	out := make(map[string]Capabilities, len(m.Tools))
	for _, text := range texts {
		only, rest := "", text
		if i := strings.IndexAny(text, ":="); i > 0 && text[i] == ':' {
			only, rest = text[:i], text[i+1:]
		}
		known := only == ""
		for _, t := range m.Tools {
			if only != "" && t.Name != only {
				continue
			}
			known = true
			c := out[t.Name]
			if why := c.grant(rest, t.Capabilities); why != "" {
				return nil, badGrant(text, why)
			}
			if field, why, ok := c.Check(); !ok {
				return nil, badGrant(text, field+": "+why)
			}
			out[t.Name] = c
		}
		if !known {
			return nil, badGrant(text, fmt.Sprintf("the module has no tool %q", clip(only)))
		}
	}
	return out, nil
}

func badGrant(text, why string) error {
	return tool.Errorf(tool.InvalidArguments, "grant %q: %s", clip(text), why).
		WithNext("write for instance fs.read=src/**, fs.write=out/**, net=api.example.com:GET,POST, env=LANG, kv, clock or all")
}

// grant adds what one text gives; it returns what is wrong with it.
func (c *Capabilities) grant(text string, asked Capabilities) string {
	name, value, has := strings.Cut(text, "=")
	switch name {
	case "all", "kv", "clock":
		if has {
			return name + " takes no value"
		}
	case "fs.read", "fs.write", "net", "net.private", "secret", "env":
		if value == "" {
			return name + " needs a value"
		}
	}
	switch name {
	case "all":
		*c = c.And(asked)
	case "kv":
		c.KV = true
	case "clock":
		c.Clock = true
	case "fs.read":
		c.Read = append(slices.Clone(c.Read), splitGlobs(value)...)
	case "fs.write":
		c.Write = append(slices.Clone(c.Write), splitGlobs(value)...)
	case "env":
		c.Env = append(slices.Clone(c.Env), strings.Split(value, ",")...)
	case "net", "net.private":
		h := HostRule{Host: value, Private: name == "net.private"}
		// What follows the last colon is a method or a port.
		if i := strings.LastIndexByte(value, ':'); i >= 0 && i+1 < len(value) && strings.Contains(capitals, value[i+1:i+2]) {
			h.Host, h.Methods = value[:i], strings.Split(value[i+1:], ",")
		}
		c.Net = append(slices.Clone(c.Net), h)
	case "secret":
		host, rest, ok := strings.Cut(value, "/")
		header, rest, ok2 := strings.Cut(rest, "/")
		secret, format, _ := strings.Cut(rest, "/")
		if !ok || !ok2 {
			return "write secret=HOST/HEADER/NAME"
		}
		i := slices.IndexFunc(c.Net, func(h HostRule) bool { return h.Host == host })
		if i < 0 {
			return fmt.Sprintf("host %q is not granted; grant net=%s before it", clip(host), clip(host))
		}
		c.Net = slices.Clone(c.Net)
		c.Net[i].Secrets = append(slices.Clone(c.Net[i].Secrets), Secret{Header: header, Secret: secret, Format: format})
	default:
		return fmt.Sprintf("%q is no capability", clip(name))
	}
	return ""
}

// splitGlobs splits at commas, but not at those inside a group of a glob.
func splitGlobs(s string) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth <= 0 {
				out = append(out, s[from:i])
				from = i + 1
			}
		}
	}
	return append(out, s[from:])
}
