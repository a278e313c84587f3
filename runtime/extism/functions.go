package extism

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/extism/go-sdk"

	"github.com/wasmtools/wasmtools/hostfuncs"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/runtime/wasihost"
	"github.com/wasmtools/wasmtools/tool"
)

const (
	envModule  = "extism:host/env"
	userModule = "extism:host/user"

	// ours is where the plugin's imports of envModule go.
	ours = "wasmtools:extism"
)

// kernelFunctions are those of the kernel, with their types: I is an i64, i an
// i32, and results stand behind ">".
var kernelFunctions = map[string]string{
	"alloc": "I>I", "free": "I>", "length": "I>I", "length_unsafe": "I>I",
	"load_u8": "I>i", "load_u64": "I>I", "store_u8": "Ii>", "store_u64": "II>",
	"input_load_u8": "I>i", "input_load_u64": "I>I", "input_set": "II>", "output_set": "II>",
	"input_length": ">I", "input_offset": ">I", "output_length": ">I", "output_offset": ">I",
	"error_set": "I>", "error_get": ">I", "reset": ">", "memory_bytes": ">I",
}

// hostFunction is a function that does something for the plugin.
type hostFunction struct {
	sig  string
	kind hostfuncs.Kind
	do   func(c *state, args []uint64)
}

// hostFunctions are the others of envModule.
var hostFunctions = map[string]hostFunction{
	"config_get": {"I>I", hostfuncs.Support, func(c *state, a []uint64) {
		name := c.name(a[0])
		v, ok := c.host.Call.Getenv(name)
		if !ok {
			v, ok = c.config[name]
		}
		a[0] = c.putText(v, ok)
	}},
	"var_get": {"I>I", hostfuncs.Support, func(c *state, a []uint64) {
		name := c.name(a[0])
		c.kernel.release(a[0])
		v, ok := c.variable(name)
		a[0] = c.putText(string(v), ok)
	}},
	"var_set": {"II>", hostfuncs.Support, func(c *state, a []uint64) {
		name := c.name(a[0])
		c.kernel.release(a[0])
		if a[1] == 0 {
			c.setVariable(name, nil)
			return
		}
		value := append([]byte{}, c.upTo(a[1], maxVarBytes, "a variable")...)
		c.kernel.release(a[1])
		c.setVariable(name, value)
	}},
	"http_request": {"II>I", hostfuncs.Work, func(c *state, a []uint64) {
		req := c.upTo(a[0], maxRequest, "an HTTP request")
		c.kernel.release(a[0])
		var body []byte
		if a[1] != 0 {
			body = c.upTo(a[1], maxBody, "the body of an HTTP request")
			c.kernel.release(a[1])
		}
		a[0] = c.kernel.put(c.fetch(req, body))
	}},
	"http_status_code": {">i", hostfuncs.Support, func(c *state, a []uint64) { a[0] = uint64(uint32(c.status)) }},
	"http_headers":     {">I", hostfuncs.Support, func(c *state, a []uint64) { a[0] = c.kernel.put(c.headers) }},
	"get_log_level":    {">i", hostfuncs.Support, func(_ *state, a []uint64) { a[0] = levelInfo }},
	"log_trace":        {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.kernel.release(a[0]) }},
	"log_debug":        {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.kernel.release(a[0]) }},
	"log_info":         {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.log(1, a[0]) }},
	"log_warn":         {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.log(2, a[0]) }},
	"log_error":        {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.log(2, a[0]) }},
}

// levelInfo is the level from which plugins log here. What is below is for
// whoever debugs the plugin.
const levelInfo = 2

// userFunctions are what hosts of hyper-mcp offer. The ones that would ask the
// client for something are not here: nobody stands behind a call who could be
// asked.
var userFunctions = map[string]hostFunction{
	"notify_progress": {"I>", hostfuncs.Work, func(c *state, a []uint64) {
		var p struct {
			Progress, Total float64
			Message         string
		}
		if json.Unmarshal(c.upTo(a[0], maxProgress, "a note on progress"), &p) == nil && p.Progress >= 0 && p.Progress < 1<<53 && p.Total >= 0 && p.Total < 1<<53 {
			c.must(c.host.Call.Progress(int64(p.Progress), int64(p.Total), p.Message))
		}
	}},
	"notify_logging_message": {"I>", hostfuncs.Support, func(c *state, a []uint64) { c.log(1, a[0]) }},
	"list_roots": {">I", hostfuncs.Support, func(c *state, a []uint64) {
		a[0] = c.kernel.put([]byte(`{"roots":[]}`))
	}},
	"notify_tool_list_changed":         {">", hostfuncs.Support, nothing},
	"notify_prompt_list_changed":       {">", hostfuncs.Support, nothing},
	"notify_resource_list_changed":     {">", hostfuncs.Support, nothing},
	"notify_resource_updated":          {"I>", hostfuncs.Support, nothing},
	"notify_url_elicitation_completed": {"I>", hostfuncs.Support, nothing},
	"create_elicitation":               {"I>I", hostfuncs.Work, nobody},
	"create_message":                   {"I>I", hostfuncs.Work, nobody},
	"get_access_token":                 {"I>I", hostfuncs.Work, nobody},
	"get_keyring_secret":               {"I>I", hostfuncs.Work, nobody},
}

func nothing(*state, []uint64) {}

func nobody(*state, []uint64) {
	panic(tool.Errorf(tool.NotAvailable, "the module wants the client to answer or to hand out credentials, which this runtime does not let it").
		WithNext("call the tool with everything it needs; secrets are granted for hosts"))
}

// state is what one call of a plugin has.
type state struct {
	host     *wasihost.Host
	kernel   *kernel
	config   map[string]string
	vars     map[string][]byte
	varBytes int
	status   int
	headers  []byte
}

type stateKey struct{}

// stateOf finds a call's state; there is none outside a call.
func stateOf(ctx context.Context) *state {
	s, _ := ctx.Value(stateKey{}).(*state)
	if s == nil {
		panic(tool.Errorf(tool.Internal, "a host function was called outside a call"))
	}
	return s
}

func (c *state) must(err error) {
	if err != nil {
		c.host.Check()
		panic(tool.AsError(err))
	}
}

// Bounds on the blocks that one function takes. It copies them, and the copies
// are not counted as the plugin's memory.
const (
	maxName     = 4 << 10 // of a setting or variable
	maxRequest  = 256 << 10
	maxBody     = 8 << 20 // the fetcher has a bound of its own
	maxProgress = 64 << 10
)

// upTo copies a block of at most limit bytes.
func (c *state) upTo(at uint64, limit uint64, what string) []byte {
	if n := c.kernel.length(at); n > limit {
		panic(tool.Errorf(tool.TooLarge, "the module passed %d bytes for %s; at most %d are taken", n, what, limit))
	}
	return c.kernel.take(at)
}

func (c *state) name(at uint64) string { return string(c.upTo(at, maxName, "a name")) }

// putText gives a value to the plugin. One that is there and empty is told from
// one that is missing only by plugins that look at the length.
func (c *state) putText(v string, ok bool) uint64 {
	if !ok {
		return 0
	}
	return c.kernel.put([]byte(v))
}

func (c *state) log(fd uint32, at uint64) {
	// What is longer than all notes may be is refused there, however long.
	p := c.kernel.part(at, uint64(c.host.Call.Limits.NoteBytes)+1)
	c.kernel.release(at)
	c.must(c.host.Call.Stdio(fd, append(bytes.TrimRight(p, "\n"), '\n')))
}

const (
	maxVarBytes = 1 << 20 // of all variables, as in the SDK
	varPrefix   = "extism/var/"
)

func (c *state) variable(name string) ([]byte, bool) {
	if !c.host.Call.Grant.KV {
		v, ok := c.vars[name]
		return v, ok
	}
	v, ok, err := c.host.Call.KVGet(c.host.Context(), varPrefix+name)
	c.must(err)
	return v, ok
}

func (c *state) setVariable(name string, value []byte) {
	if c.host.Call.Grant.KV {
		c.must(c.host.Call.KVSet(c.host.Context(), varPrefix+name, value))
		return
	}
	if old, ok := c.vars[name]; ok {
		c.varBytes -= len(name) + len(old) + blockCost
		delete(c.vars, name)
	}
	if value == nil {
		return
	}
	size := len(name) + len(value) + blockCost
	if c.varBytes+size > maxVarBytes {
		panic(tool.Errorf(tool.Quota, "the module's variables have more than %d bytes", maxVarBytes))
	}
	c.varBytes += size
	if c.vars == nil {
		c.vars = map[string][]byte{}
	}
	c.vars[name] = value
}

// fetch makes a request and returns the answer's body. A request that is not
// allowed ends the call, as it does in other hosts: a plugin has no way to be
// told.
func (c *state) fetch(request, body []byte) []byte {
	c.status, c.headers = 0, nil
	var r struct {
		URL     string            `json:"url"`
		Method  string            `json:"method"`
		Headers map[string]string `json:"headers"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		panic(tool.Errorf(tool.Trap, "the module made an HTTP request that is no JSON"))
	}
	req := hostfuncs.HTTPRequest{Method: strings.ToUpper(r.Method), URL: r.URL, Body: body}
	for name, value := range r.Headers {
		req.Headers = append(req.Headers, hostfuncs.Header{Name: name, Value: value})
	}
	resp, err := c.host.Call.Fetch(c.host.Context(), req)
	c.must(err)
	c.status = resp.Status
	all := map[string]string{}
	for _, h := range resp.Headers {
		name := strings.ToLower(h.Name)
		if old, ok := all[name]; ok {
			h.Value = old + "," + h.Value
		}
		all[name] = h.Value
	}
	c.headers, err = json.Marshal(all)
	c.must(err)
	return resp.Body
}

// Function is a function that the embedding program offers to plugins, beside
// those that every plugin gets. All parameters and the result are 64 bits.
type Function struct {
	Module, Name string // Module "" means extism:host/user
	Params       int
	HasResult    bool
	Call         func(ctx context.Context, m Exchange, args []uint64) (uint64, error)
}

// Exchange gives a [Function] the blocks of memory that a plugin names.
type Exchange interface {
	Read(block uint64) ([]byte, error) // a copy
	Write([]byte) (block uint64, err error)
	Free(block uint64)
}

func (f Function) sig() string {
	s := strings.Repeat("I", f.Params) + ">"
	if f.HasResult {
		s += "I"
	}
	return s
}

func (f Function) module() string {
	if f.Module == "" {
		return userModule
	}
	return f.Module
}

// exchange implements [Exchange].
type exchange struct{ k *kernel }

func (e exchange) Read(at uint64) (p []byte, err error) {
	defer wasihost.Recover(&err)
	return e.k.take(at), nil
}

func (e exchange) Write(p []byte) (at uint64, err error) {
	defer wasihost.Recover(&err)
	return e.k.put(p), nil
}

func (e exchange) Free(at uint64) { e.k.release(at) }

// redirects are the imports that get another name.
func redirects() map[rewrite.ImportName]rewrite.ImportName {
	all := wasihost.Redirects()
	for name := range kernelFunctions {
		all[rewrite.ImportName{Module: envModule, Field: name}] = rewrite.ImportName{Module: ours, Field: name}
	}
	for name := range hostFunctions {
		all[rewrite.ImportName{Module: envModule, Field: name}] = rewrite.ImportName{Module: ours, Field: name}
	}
	return all
}

// bound makes all functions that a plugin with these imports can reach.
func bound(functions []Function) []sdk.HostFunction {
	out := []sdk.HostFunction{
		bind(rewrite.Yield.Module, rewrite.Yield.Field, ">i", func(ctx context.Context, a []uint64) {
			wasihost.Yield(ctx)
			a[0] = 0
		}),
		bind(wasihost.Guarded, wasihost.Renumber, "ii>i", func(_ context.Context, a []uint64) { a[0] = wasihost.Notsup }),
	}
	for _, name := range []string{"instrument_enter", "instrument_exit", "instrument_memory_grow"} {
		out = append(out, bind(wasihost.Observe, name, "i>", func(context.Context, []uint64) {}))
	}
	for name, sig := range kernelFunctions {
		out = append(out, bind(ours, name, sig, func(ctx context.Context, a []uint64) { stateOf(ctx).kernel.call(name, a) }))
	}
	add := func(module, name string, f hostFunction) {
		out = append(out, bind(module, name, f.sig, func(ctx context.Context, a []uint64) {
			s := stateOf(ctx)
			s.host.Enter(f.kind)
			f.do(s, a)
		}))
	}
	for name, f := range hostFunctions {
		add(ours, name, f)
	}
	own := map[string]bool{}
	for _, f := range functions {
		own[f.module()+" "+f.Name] = true
		add(f.module(), f.Name, hostFunction{f.sig(), hostfuncs.Work, func(s *state, a []uint64) {
			v, err := f.Call(s.host.Context(), exchange{s.kernel}, append([]uint64(nil), a[:f.Params]...))
			s.must(err)
			if f.HasResult {
				a[0] = v
			}
		}})
	}
	for name, f := range userFunctions {
		if !own[userModule+" "+name] {
			add(userModule, name, f)
		}
	}
	return out
}

// bind makes a function of the SDK's kind. A panic that is no error of ours is
// a mistake of ours, and of this call only.
func bind(module, name, sig string, do func(context.Context, []uint64)) sdk.HostFunction {
	params, results, _ := strings.Cut(sig, ">")
	f := sdk.NewHostFunctionWithStack(name, func(ctx context.Context, _ *sdk.CurrentPlugin, stack []uint64) {
		var err error
		func() {
			defer wasihost.Recover(&err)
			do(ctx, stack)
		}()
		if err != nil {
			panic(err)
		}
	}, types(params), types(results))
	f.SetNamespace(module)
	return f
}

func types(short string) []sdk.ValueType {
	out := make([]sdk.ValueType, len(short))
	for i, c := range short {
		out[i] = sdk.ValueTypeI64
		if c == 'i' {
			out[i] = sdk.ValueTypeI32
		}
	}
	return out
}
