package guest

// ABIVersion is the version of the guest ABI that this package speaks.
const ABIVersion = 1

// Mode says whether a call may run beside others of its batch.
type Mode string

const (
	Sequential Mode = "sequential" // the default
	Parallel   Mode = "parallel"
)

// Effect is something that a call of a tool can do. What a tool does not name
// here, rules and people are not asked about, and the host refuses it.
type Effect string

const (
	Reads       Effect = "read"     // reads the workspace or other state
	Writes      Effect = "write"    // changes or creates files
	Destroys    Effect = "destroy"  // removes or overwrites something
	Executes    Effect = "execute"  // runs programs
	UsesNetwork Effect = "network"  // talks to other machines
	AsksUser    Effect = "ask_user" // asks the person at the keyboard
)

// Module is what a module says about itself as a whole. Limits that are zero
// mean the host's defaults.
type Module struct {
	Name        string // like a tool's name
	Version     string // semantic version, without "v"
	Description string

	MemoryMiB, TimeMS, OutputKiB, HostCalls, Concurrency int

	// NoSnapshot has every call initialise an instance of its own, with live
	// clocks and live chance: for code whose seeds must not be the same in every
	// call (docs/abi.md, "Entropy"). A program in Go then takes milliseconds more.
	NoSnapshot bool
}

// Tool is one tool of a module.
type Tool struct {
	Name        string // ^[a-zA-Z0-9_-]{1,64}$
	Title       string
	Description string // the rule in the first sentence; at most 1,500 bytes
	Input       string // JSON Schema of the arguments, an object
	Output      string // JSON Schema of the structured result, or ""
	Mode        Mode
	Effects     []Effect
	Hidden      bool     // never listed to a model
	Guidelines  []string // lines for the prompt of an agent that has the tool
	Packs       []string

	// What the tool asks for: globs over the files of the workspace ("**" is
	// all of them) that it reads, lists and searches, and that it changes.
	Read, Write []string

	// What else it asks for: hosts over HTTP, variables of the host's
	// environment, a store that is kept between calls, clocks at full precision.
	Net       []Host
	Env       []string
	KV, Clock bool

	NoSnapshot bool // of this tool's calls, as in Module

	// Call runs the tool. An error becomes a result with its code, and every
	// change of the call is dropped.
	Call func(*Call) (Result, error)
}

// Host is one host that a tool asks for: "api.example.com", "*.example.com" or
// an address, with ":port" unless it is the usual one.
type Host struct {
	Name    string
	Methods []string // in capitals; none means GET and HEAD
	Private bool     // it may have a private or loopback address
}

var registered struct {
	module  Module
	tools   []Tool
	schemas []Value // of the arguments, parsed once
}

// Describe sets what the module says about itself. Call it from an init function.
func Describe(m Module) { registered.module = m }

// Add registers a tool. Call it from an init function: the order of the calls
// gives each tool its index. It panics on a name that is taken and on a schema
// that is no JSON object, so that such a module cannot be built.
func Add(t Tool) {
	for _, other := range registered.tools {
		if other.Name == t.Name {
			panic("guest.Add: two tools are named " + t.Name)
		}
	}
	for _, schema := range []string{t.Input, t.Output} {
		if schema == "" && t.Output == "" && t.Input != "" {
			continue
		}
		if v, err := Parse([]byte(schema)); err != nil || v.Kind() != ObjectKind {
			panic("guest.Add: a schema of " + t.Name + " is not a JSON object")
		}
	}
	if t.Call == nil {
		panic("guest.Add: " + t.Name + " has no Call")
	}
	input, _ := Parse([]byte(t.Input)) // missing if there is none
	registered.tools = append(registered.tools, t)
	registered.schemas = append(registered.schemas, input)
}

// Tools returns the registered tools in the order of their indexes.
func Tools() []Tool { return registered.tools }

// Manifest returns the module's description of itself as JSON, as it stands in
// the custom section wasmtools.manifest.
func Manifest() []byte {
	m := registered.module
	tools := make([]Value, 0, len(registered.tools))
	for _, t := range registered.tools {
		tools = append(tools, t.manifest())
	}
	out := []Field{F("abi", ABIVersion), F("name", m.Name), F("version", m.Version)}
	if m.Description != "" {
		out = append(out, F("description", m.Description))
	}
	out = append(out, F("tools", tools))
	var limits []Field
	add := func(key string, n int) {
		if n != 0 {
			limits = append(limits, F(key, n))
		}
	}
	add("memory_mib", m.MemoryMiB)
	add("time_ms", m.TimeMS)
	add("output_kib", m.OutputKiB)
	add("host_calls", m.HostCalls)
	add("concurrency", m.Concurrency)
	if limits != nil {
		out = append(out, F("limits", Object(limits...)))
	}
	if m.NoSnapshot {
		out = append(out, F("snapshot", "off"))
	}
	return Object(out...).JSON()
}

func (t Tool) manifest() Value {
	input, _ := Parse([]byte(t.Input))
	output, _ := Parse([]byte(t.Output)) // missing if there is none
	effects := make([]string, 0, len(t.Effects))
	for _, e := range t.Effects {
		effects = append(effects, string(e))
	}
	out := []Field{F("name", t.Name)}
	text := func(key, s string) {
		if s != "" {
			out = append(out, F(key, s))
		}
	}
	list := func(key string, s []string) {
		if len(s) > 0 {
			out = append(out, F(key, s))
		}
	}
	text("title", t.Title)
	out = append(out, F("description", t.Description), F("inputSchema", input), F("outputSchema", output))
	text("mode", string(t.Mode))
	out = append(out, F("effects", effects))
	if t.Hidden {
		text("visibility", "internal")
	}
	if t.NoSnapshot {
		text("snapshot", "off")
	}
	list("guidelines", t.Guidelines)
	list("packs", t.Packs)
	var asks []Field
	if len(t.Read) > 0 {
		asks = append(asks, F("fs.read", t.Read))
	}
	if len(t.Write) > 0 {
		asks = append(asks, F("fs.write", t.Write))
	}
	if len(t.Net) > 0 {
		hosts := make([]Value, 0, len(t.Net))
		for _, h := range t.Net {
			fields := []Field{F("host", h.Name)}
			if len(h.Methods) > 0 {
				fields = append(fields, F("methods", h.Methods))
			}
			if h.Private {
				fields = append(fields, F("private", true))
			}
			hosts = append(hosts, Object(fields...))
		}
		asks = append(asks, F("net", hosts))
	}
	if len(t.Env) > 0 {
		asks = append(asks, F("env", t.Env))
	}
	if t.KV {
		asks = append(asks, F("kv", true))
	}
	if t.Clock {
		asks = append(asks, F("clock", true))
	}
	if asks != nil {
		out = append(out, F("capabilities", Object(asks...)))
	}
	return Object(out...)
}
