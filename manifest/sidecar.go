package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/wasmtools/wasmtools/tool"
)

// MaxSidecar is the largest sidecar in bytes: as large as a manifest.
const MaxSidecar = MaxBytes

// ABIKind says how a module is called.
type ABIKind string

const (
	Native  ABIKind = "native" // guest ABI 1; carries its own manifest
	Extism  ABIKind = "extism" // an Extism plugin
	Command ABIKind = "wasi"   // a WASI command: arguments and standard input to standard output
)

// Answer says what a tool's output is.
type Answer string

const (
	AnswerText Answer = "text" // shown as it is
	AnswerJSON Answer = "json" // a JSON value; an object is also the structured content
	AnswerMCP  Answer = "mcp"  // MCP's CallToolResult
)

// What a tool reads as its input, besides the template of one property.
const (
	InputJSON = "json" // the arguments, as a JSON object
	InputNone = "none"
)

// Recipe says how one tool of a foreign module is called.
type Recipe struct {
	Export string   // of a plugin: the function to call
	Args   []string // of a command: templates for what follows the program's name
	Input  string   // InputJSON, InputNone, or a template such as "{text}"
	Answer Answer
	OK     []int // of a command: exit codes that are no failure, besides 0
}

// Sidecar stands in for the manifest of a module that carries none, and says
// how its tools are called. It is a TOML file beside the module and part of the
// module's identity; docs/modules.md shows its fields.
type Sidecar struct {
	Manifest Manifest
	Kind     ABIKind           // "" means: told by the module
	Mount    string            // the path at which a guest finds the workspace
	Config   map[string]string // what the guest can read as its configuration
	Recipes  []Recipe          // one for each tool of the manifest
}

// Bounds of a sidecar that a manifest does not have.
const (
	maxArgs     = 64
	maxTemplate = 1_024
	maxConfig   = 64
	maxValue    = 8 << 10
	maxOK       = 16
	maxDots     = 4_096 // in one line
)

// Identity is the digest that names a module. Without a sidecar it is the
// SHA-256 of the module's bytes. With one it is the SHA-256 of
//
//	"wasmtools module and sidecar 1\n"
//	the module's length, 8 bytes, little-endian
//	the module's bytes
//	the sidecar's bytes
//
// so that a change in either is another module.
func Identity(module, sidecar []byte) tool.Digest {
	if sidecar == nil {
		return tool.DigestOf(module)
	}
	h := sha256.New()
	h.Write([]byte("wasmtools module and sidecar 1\n"))
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(module))))
	h.Write(module)
	h.Write(sidecar)
	return tool.SumDigest([sha256.Size]byte(h.Sum(nil)))
}

// sidecarFile is the file as it stands on disk.
type sidecarFile struct {
	Name        string            `toml:"name"`
	Version     string            `toml:"version"`
	Description string            `toml:"description"`
	Kind        string            `toml:"kind"`
	Mount       string            `toml:"mount"`
	Config      map[string]string `toml:"config"`
	Limits      struct {
		MemoryMiB   int `toml:"memory_mib"`
		TimeMS      int `toml:"time_ms"`
		OutputKiB   int `toml:"output_kib"`
		HostCalls   int `toml:"host_calls"`
		Concurrency int `toml:"concurrency"`
	} `toml:"limits"`
	Tools []sidecarTool `toml:"tools"`
}

type sidecarTool struct {
	Name         string   `toml:"name"`
	Title        string   `toml:"title"`
	Description  string   `toml:"description"`
	Input        any      `toml:"input_schema"`  // a table, or JSON in a string
	Output       any      `toml:"output_schema"` // the same
	Mode         string   `toml:"mode"`
	Effects      []string `toml:"effects"`
	Visibility   string   `toml:"visibility"`
	Guidelines   []string `toml:"guidelines"`
	Packs        []string `toml:"packs"`
	Export       string   `toml:"export"`
	Args         []string `toml:"args"`
	Stdin        string   `toml:"input"`
	Result       string   `toml:"result"`
	OK           []int    `toml:"ok_exit"`
	Capabilities struct {
		FS struct {
			Read  []string `toml:"read"`
			Write []string `toml:"write"`
		} `toml:"fs"`
		Net []struct {
			Host    string   `toml:"host"`
			Methods []string `toml:"methods"`
			Private bool     `toml:"private"`
			Secrets []struct {
				Header string `toml:"header"`
				Secret string `toml:"secret"`
				Format string `toml:"format"`
			} `toml:"secrets"`
		} `toml:"net"`
		Env   []string `toml:"env"`
		KV    bool     `toml:"kv"`
		Clock bool     `toml:"clock"`
	} `toml:"capabilities"`
}

// ParseSidecar reads and checks a sidecar. Anything that it does not know, that
// stands twice or that is over a bound is an invalid_module error that names
// the field or the line.
func ParseSidecar(data []byte) (s Sidecar, err error) {
	// A mistake of ours is no way to end a process that meets a stranger's bytes.
	// Tests call parseSidecar, so that they see it.
	defer unreadable(&err)
	return parseSidecar(data)
}

// unreadable turns a panic into a refusal.
func unreadable(err *error) {
	if recover() != nil {
		*err = side("the file", "it cannot be read")
	}
}

func parseSidecar(data []byte) (s Sidecar, err error) {
	switch {
	case len(data) > MaxSidecar:
		return s, side("the file", "it has %d bytes; at most %d are allowed", len(data), MaxSidecar)
	case !utf8.Valid(data):
		return s, side("the file", "it is not UTF-8")
	}
	if why := tooNested(data); why != "" {
		return s, side("the file", "%s", why)
	}
	all, f, err := decodeSidecar(data)
	if err != nil {
		return s, err
	}
	if why := exactKeys(all, "", 0); why != "" {
		return s, side("the file", "%s", why)
	}
	return f.check()
}

// decodeSidecar reads the file twice: as any table, and as ours. The parser of
// TOML is not ours, so that its panics are no news to us.
func decodeSidecar(data []byte) (all map[string]any, f sidecarFile, err error) {
	defer unreadable(&err)
	if err := toml.Unmarshal(data, &all); err != nil {
		return all, f, decodeFault(err)
	}
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return all, f, decodeFault(err)
	}
	return all, f, nil
}

// exactKeys refuses a key in another case than ours: the decoder would take
// "Name" beside "name", and two readers could see two sidecars. It also bounds
// how deep tables are nested.
func exactKeys(table map[string]any, at string, depth int) string {
	if depth > maxDepth {
		return fmt.Sprintf("tables are nested deeper than %d", maxDepth)
	}
	free := strings.HasPrefix(at, "config.") || strings.Contains(at, "_schema.")
	for k, v := range table {
		if !free && k != strings.ToLower(k) {
			return fmt.Sprintf("%q is an unknown field; keys are in lower case", clip(at+k))
		}
		if why := exactBelow(v, at+k+".", depth+1); why != "" {
			return why
		}
	}
	return ""
}

func exactBelow(v any, at string, depth int) string {
	switch v := v.(type) {
	case map[string]any:
		return exactKeys(v, at, depth)
	case []any:
		for _, item := range v {
			if depth > maxDepth {
				return fmt.Sprintf("lists are nested deeper than %d", maxDepth)
			}
			if why := exactBelow(item, at, depth+1); why != "" {
				return why
			}
		}
	}
	return ""
}

func side(name, format string, args ...any) *tool.Error {
	return invalid("sidecar: %s: %s", name, fmt.Sprintf(format, args...)).
		WithNext("mend the sidecar; docs/modules.md lists its fields")
}

// tooNested refuses brackets and dotted keys that no sidecar needs, before a
// parser recurses over them. It also counts those inside strings, which only
// makes it stricter.
func tooNested(data []byte) string {
	depth, deepest, dots := 0, 0, 0
	for _, c := range data {
		switch c {
		case '.':
			if dots++; dots > maxDots {
				return fmt.Sprintf("a line has more than %d dots", maxDots)
			}
		case '\n':
			dots = 0
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	if deepest > 2*maxDepth {
		return fmt.Sprintf("brackets are nested deeper than %d", 2*maxDepth)
	}
	return ""
}

func decodeFault(err error) *tool.Error {
	var strict *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		e := &strict.Errors[0]
		line, _ := e.Position()
		return side(fmt.Sprintf("line %d", line), "%q is an unknown field", clip(strings.Join(e.Key(), ".")))
	case errors.As(err, &decode):
		line, _ := decode.Position()
		return side(fmt.Sprintf("line %d", line), "%s", clip(decode.Error()))
	}
	return side("the file", "%s", clip(err.Error()))
}

// check turns the file into a Sidecar. What a manifest also has is checked by
// the manifest's own rules.
func (f *sidecarFile) check() (Sidecar, error) {
	s := Sidecar{
		Kind: ABIKind(f.Kind), Mount: f.Mount, Config: f.Config,
		Manifest: Manifest{
			ABI: ABI, Name: f.Name, Version: f.Version, Description: f.Description,
			Limits: Limits{
				MemoryMiB: f.Limits.MemoryMiB, TimeMS: f.Limits.TimeMS, OutputKiB: f.Limits.OutputKiB,
				HostCalls: f.Limits.HostCalls, Concurrency: f.Limits.Concurrency,
			},
		},
	}
	switch s.Kind {
	case "", Extism, Command:
	default:
		return Sidecar{}, side("kind", "%q is neither %s nor %s", clip(f.Kind), Extism, Command)
	}
	if s.Mount == "" {
		s.Mount = "/"
	}
	if why := checkMount(s.Mount); why != "" {
		return Sidecar{}, side("mount", "%s", why)
	}
	if len(f.Config) > maxConfig {
		return Sidecar{}, side("config", "%d settings; at most %d are allowed", len(f.Config), maxConfig)
	}
	for k, v := range f.Config {
		if k == "" || len(k) > maxEnvName || len(v) > maxValue || strings.ContainsRune(k+v, 0) || strings.Contains(k, "=") {
			return Sidecar{}, side("config", "%q cannot be set: a name has 1 to %d bytes without =, a value at most %d, neither holds a NUL", clip(k), maxEnvName, maxValue)
		}
	}
	for i := range f.Tools {
		t, r, err := f.Tools[i].check(fmt.Sprintf("tools[%d].", i))
		if err != nil {
			return Sidecar{}, err
		}
		s.Manifest.Tools = append(s.Manifest.Tools, t)
		s.Recipes = append(s.Recipes, r)
	}
	if err := s.Manifest.check(); err != nil {
		e := tool.AsError(err)
		e.Text = strings.Replace(e.Text, "manifest:", "sidecar:", 1)
		e.Next = "mend the sidecar; docs/modules.md lists its fields"
		return Sidecar{}, e
	}
	return s, nil
}

func checkMount(m string) string {
	if m == "/" {
		return ""
	}
	if len(m) > 255 || m[0] != '/' || strings.ContainsFunc(m, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q is no absolute path", clip(m))
	}
	for part := range strings.SplitSeq(m[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Sprintf("%q has an empty, . or .. component", clip(m))
		}
	}
	return ""
}

func (f *sidecarTool) check(at string) (Tool, Recipe, error) {
	t := Tool{
		Name: f.Name, Title: f.Title, Description: f.Description,
		Mode: tool.Mode(f.Mode), Visibility: tool.Visibility(f.Visibility),
		Guidelines: f.Guidelines, Packs: f.Packs,
		Capabilities: Capabilities{
			Read: f.Capabilities.FS.Read, Write: f.Capabilities.FS.Write,
			Env: f.Capabilities.Env, KV: f.Capabilities.KV, Clock: f.Capabilities.Clock,
		},
	}
	for _, n := range f.Capabilities.Net {
		h := HostRule{Host: n.Host, Methods: n.Methods, Private: n.Private}
		for _, s := range n.Secrets {
			h.Secrets = append(h.Secrets, Secret(s))
		}
		t.Capabilities.Net = append(t.Capabilities.Net, h)
	}
	var err error
	if t.Input, err = schemaOf(at+"input_schema", f.Input); err != nil {
		return t, Recipe{}, err
	}
	if t.Input == nil {
		t.Input = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if t.Output, err = schemaOf(at+"output_schema", f.Output); err != nil {
		return t, Recipe{}, err
	}
	if f.Effects == nil {
		t.Effects = t.Capabilities.Effects()
	} else {
		names, _ := json.Marshal(f.Effects)
		if err := json.Unmarshal(names, &t.Effects); err != nil {
			return t, Recipe{}, side(at+"effects", "%s", clip(err.Error()))
		}
	}
	r, err := f.recipe(at)
	return t, r, err
}

// schemaOf gives a schema's JSON from a TOML table or from text.
func schemaOf(at string, v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		raw := json.RawMessage(v)
		// As in a manifest: no key twice, no depth without end.
		w := &walker{d: json.NewDecoder(bytes.NewReader(raw))}
		w.d.UseNumber()
		if err := w.value("schema", nil, 0); err != nil {
			return nil, side(at, "%s", tool.AsError(err).Text)
		}
		return raw, nil
	case map[string]any:
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, side(at, "it holds what JSON cannot")
		}
		return raw, nil
	}
	return nil, side(at, "a table, or JSON in a string, must stand here")
}

func (f *sidecarTool) recipe(at string) (Recipe, error) {
	r := Recipe{Export: f.Export, Args: f.Args, Input: f.Stdin, Answer: Answer(f.Result), OK: f.OK}
	if len(r.Export) > maxNameLen || strings.HasPrefix(r.Export, "wt__") {
		return r, side(at+"export", "%q cannot be called", clip(r.Export))
	}
	switch r.Answer {
	case "":
		r.Answer = AnswerText
	case AnswerText, AnswerJSON, AnswerMCP:
	default:
		return r, side(at+"result", "%q is none of %s, %s and %s", clip(f.Result), AnswerText, AnswerJSON, AnswerMCP)
	}
	if r.Input == "" {
		r.Input = InputJSON
		if len(r.Args) > 0 {
			r.Input = InputNone
		}
	}
	if r.Input != InputJSON && r.Input != InputNone {
		if why := checkTemplate(r.Input); why != "" {
			return r, side(at+"input", "%s", why)
		}
	}
	if len(r.Args) > maxArgs {
		return r, side(at+"args", "%d arguments; at most %d are allowed", len(r.Args), maxArgs)
	}
	for i, a := range r.Args {
		if why := checkTemplate(a); why != "" {
			return r, side(fmt.Sprintf("%sargs[%d]", at, i), "%s", why)
		}
	}
	if len(r.OK) > maxOK {
		return r, side(at+"ok_exit", "%d codes; at most %d are allowed", len(r.OK), maxOK)
	}
	return r, nil
}

// checkTemplate reports what is wrong with a template.
func checkTemplate(t string) string {
	if len(t) > maxTemplate {
		return fmt.Sprintf("it has %d bytes; at most %d are allowed", len(t), maxTemplate)
	}
	if strings.ContainsRune(t, 0) {
		return "it holds a NUL"
	}
	_, why := splitTemplate(t)
	return why
}

// piece is literal text, or the name of a property.
type piece struct {
	text string
	name bool
	all  bool // "{name...}": each item is an argument of its own
}

// splitTemplate reads "text {name} text"; braces that are meant as such are
// written twice.
func splitTemplate(t string) (out []piece, why string) {
	var text strings.Builder
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case (c == '{' || c == '}') && i+1 < len(t) && t[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, "a } stands without a {; write }} for the character"
		case c != '{':
			text.WriteByte(c)
		default:
			end := strings.IndexByte(t[i:], '}')
			if end < 0 {
				return nil, "a { stands without a }; write {{ for the character"
			}
			name := t[i+1 : i+end]
			i += end
			if text.Len() > 0 {
				out = append(out, piece{text: text.String()})
				text.Reset()
			}
			name, all := strings.CutSuffix(name, "...")
			if name == "" || strings.ContainsAny(name, "{}") {
				return nil, "{} names no property"
			}
			out = append(out, piece{text: name, name: true, all: all})
		}
	}
	if text.Len() > 0 || len(out) == 0 {
		out = append(out, piece{text: text.String()})
	}
	for _, p := range out {
		if p.all && len(out) > 1 {
			return nil, "{" + p.text + "...} must stand alone"
		}
	}
	return out, ""
}

const (
	maxArgBytes  = 128 << 10 // of all arguments together; systems allow 128 KiB for one
	maxArgValues = 4_096
	maxStdin     = 32 << 20
)

// Arguments fills the recipe's templates with a call's arguments, which are a
// JSON object. A template with a property that the call does not have is left
// out as a whole.
//
// Values stand as one argument each, whatever they hold: there is no shell. But
// a program may read one that begins with "-" as an option, so a recipe puts
// "--" before values where its program knows that.
func (r Recipe) Arguments(call json.RawMessage) ([]string, error) {
	props, err := argumentMap(call)
	if err != nil {
		return nil, err
	}
	var out []string
	total := 0
	add := func(s string) error {
		if strings.ContainsRune(s, 0) {
			return tool.Errorf(tool.InvalidArguments, "an argument holds a NUL")
		}
		total += len(s) + 1
		if total > maxArgBytes || len(out) == maxArgValues {
			return tool.Errorf(tool.TooLarge, "the arguments are more than %d or have more than %d bytes", maxArgValues, maxArgBytes)
		}
		out = append(out, s)
		return nil
	}
	for _, t := range r.Args {
		pieces, _ := splitTemplate(t)
		if pieces[0].all {
			for _, v := range listOf(props[pieces[0].text]) {
				if err := add(plain(v)); err != nil {
					return nil, err
				}
			}
			continue
		}
		if s, ok := fill(pieces, props, maxArgBytes+1); ok {
			if err := add(s); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Stdin gives what the guest reads.
func (r Recipe) Stdin(call json.RawMessage) ([]byte, error) {
	switch r.Input {
	case InputNone:
		return nil, nil
	case InputJSON, "":
		return call, nil
	}
	props, err := argumentMap(call)
	if err != nil {
		return nil, err
	}
	pieces, _ := splitTemplate(r.Input)
	s, _ := fill(pieces, props, maxStdin+1)
	if len(s) > maxStdin {
		return nil, tool.Errorf(tool.TooLarge, "the input has more than %d bytes", maxStdin)
	}
	return []byte(s), nil
}

func argumentMap(call json.RawMessage) (map[string]any, error) {
	var props map[string]any
	d := json.NewDecoder(bytes.NewReader(call))
	d.UseNumber()
	if err := d.Decode(&props); err != nil {
		return nil, tool.Errorf(tool.SchemaInvalid, "the arguments are no JSON object")
	}
	return props, nil
}

// fill gives the text of a template, but stops soon after limit bytes: a
// template may name one large property many times.
func fill(pieces []piece, props map[string]any, limit int) (string, bool) {
	var b strings.Builder
	for _, p := range pieces {
		if b.Len() > limit {
			break
		}
		if !p.name {
			b.WriteString(p.text)
			continue
		}
		v, ok := props[p.text]
		if !ok || v == nil {
			return "", false
		}
		b.WriteString(plain(v))
	}
	return b.String(), true
}

func listOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// plain writes a value as a program's argument: text as it is, anything else
// as JSON.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}
