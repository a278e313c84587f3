package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wasmtools/wasmtools/internal/schemacost"
	"github.com/wasmtools/wasmtools/tool"
)

// Bounds of a manifest. They hold for every module, trusted or not.
const (
	MaxBytes = 1 << 20 // of the whole manifest: 128 tools with schemas of 8 KiB

	maxDepth       = 64     // of nested JSON; schemas of real tools stay below 12
	maxTools       = 128    // of one module
	maxProperties  = 12     // of an input schema; model APIs and clients drop what is beyond
	maxSchemaBytes = 64_000 // of one schema
	maxDescription = 4_096  // bytes; clients show some 1,500
	maxTitle       = 128
	maxGuidelines  = 16
	maxGuideline   = 1_000
	maxPacks       = 16
	maxGlob        = 256
	maxBraces      = 3  // groups in one glob: a matcher tries every combination
	maxCommas      = 16 // alternatives in one glob

	maxMemoryMiB   = 4_096     // what wasm32 can address
	maxTimeMS      = 3_600_000 // an hour
	maxOutputKiB   = 64 << 10
	maxHostCalls   = 10_000_000
	maxConcurrency = 1_024
)

// validVersion reports whether s is a semantic version without a "v", its parts
// bounded: numbers of nine digits, labels of 64 characters. The test has the
// same as a regular expression, which takes longer to compile than all else that
// the program does before main.
func validVersion(s string) bool {
	core, build, hasBuild := strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(core, "-")
	if hasBuild && !validLabel(build) || hasPre && !validLabel(pre) {
		return false
	}
	numbers := strings.Split(core, ".")
	for _, n := range numbers {
		if len(n) < 1 || len(n) > 9 || strings.Trim(n, "0123456789") != "" || n[0] == '0' && n != "0" {
			return false
		}
	}
	return len(numbers) == 3
}

func validLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '.' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// Parse reads and checks a manifest. Anything that it does not know, that
// stands twice or that is over a bound is an invalid_module error that names
// the field. A manifest without error still holds claims only.
func Parse(data []byte) (Manifest, error) {
	if len(data) > MaxBytes {
		return Manifest{}, invalid("the manifest has %d bytes; at most %d are allowed", len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return Manifest{}, invalid("the manifest is not UTF-8")
	}
	if err := checkShape(data); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return Manifest{}, field(te.Field, "a %s cannot stand here", te.Value)
		}
		return Manifest{}, field("effects", "%s", clip(err.Error()))
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func field(name, format string, args ...any) *tool.Error {
	return invalid("manifest: %s: %s", name, fmt.Sprintf(format, args...))
}

func (m *Manifest) check() error {
	if m.ABI != ABI {
		return field("abi", "version %d is not supported; this runtime speaks %d", m.ABI, ABI).
			WithNext("rebuild the module with an SDK for this ABI, or update wasmtools")
	}
	if !tool.ValidName(m.Name) {
		return field("name", "%q does not match %s", clip(m.Name), tool.NamePattern)
	}
	if !validVersion(m.Version) {
		return field("version", "%q is no semantic version such as 1.2.3", clip(m.Version))
	}
	if err := checkText("description", m.Description, maxDescription, true); err != nil {
		return err
	}
	if len(m.Tools) == 0 || len(m.Tools) > maxTools {
		return field("tools", "%d tools; a module has 1 to %d", len(m.Tools), maxTools)
	}
	if err := checkSnapshot("snapshot", m.Snapshot); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range m.Tools {
		t := &m.Tools[i]
		at := fmt.Sprintf("tools[%d].", i)
		if err := t.check(at); err != nil {
			return err
		}
		if seen[t.Name] {
			return field(at+"name", "%q stands twice", t.Name)
		}
		seen[t.Name] = true
	}
	return m.Limits.check()
}

func checkSnapshot(name, value string) error {
	if value != "" && value != SnapshotOff {
		return field(name, "%q is not %q", clip(value), SnapshotOff)
	}
	return nil
}

func (l Limits) check() error {
	for _, f := range []struct {
		name       string
		value, top int
	}{
		{"memory_mib", l.MemoryMiB, maxMemoryMiB},
		{"time_ms", l.TimeMS, maxTimeMS},
		{"output_kib", l.OutputKiB, maxOutputKiB},
		{"host_calls", l.HostCalls, maxHostCalls},
		{"concurrency", l.Concurrency, maxConcurrency},
	} {
		if f.value < 0 || f.value > f.top {
			return field("limits."+f.name, "%d is not between 0 and %d", f.value, f.top)
		}
	}
	return nil
}

func (t *Tool) check(at string) error {
	if !tool.ValidName(t.Name) {
		return field(at+"name", "%q does not match %s", clip(t.Name), tool.NamePattern)
	}
	if t.Description == "" {
		return field(at+"description", "it is empty")
	}
	for _, f := range []struct {
		name, text string
		max        int
		lines      bool
	}{
		{"title", t.Title, maxTitle, false},
		{"description", t.Description, maxDescription, true},
	} {
		if err := checkText(at+f.name, f.text, f.max, f.lines); err != nil {
			return err
		}
	}
	switch t.Mode {
	case "", tool.Sequential, tool.Parallel:
	default:
		return field(at+"mode", "%q is neither %s nor %s", clip(string(t.Mode)), tool.Sequential, tool.Parallel)
	}
	if err := checkSnapshot(at+"snapshot", t.Snapshot); err != nil {
		return err
	}
	switch t.Visibility {
	case "", tool.Public, tool.Hidden:
	default:
		return field(at+"visibility", "%q is neither %s nor %s", clip(string(t.Visibility)), tool.Public, tool.Hidden)
	}
	if len(t.Guidelines) > maxGuidelines {
		return field(at+"guidelines", "%d entries; at most %d are allowed", len(t.Guidelines), maxGuidelines)
	}
	for i, g := range t.Guidelines {
		if err := checkText(fmt.Sprintf("%sguidelines[%d]", at, i), g, maxGuideline, true); err != nil {
			return err
		}
	}
	if len(t.Packs) > maxPacks {
		return field(at+"packs", "%d entries; at most %d are allowed", len(t.Packs), maxPacks)
	}
	for i, p := range t.Packs {
		if !tool.ValidName(p) {
			return field(fmt.Sprintf("%spacks[%d]", at, i), "%q does not match %s", clip(p), tool.NamePattern)
		}
	}
	if err := checkInput(at+"inputSchema", t.Input); err != nil {
		return err
	}
	if t.Output != nil {
		if _, err := checkSchema(at+"outputSchema", t.Output); err != nil {
			return err
		}
	}
	return t.checkCapabilities(at)
}

// checkCapabilities compares what a tool asks for with what it says it does: a
// tool that can change files must say so, because approval is asked by effects.
func (t *Tool) checkCapabilities(at string) error {
	c := t.Capabilities
	if name, why, ok := c.Check(); !ok {
		return field(at+"capabilities."+name, "%s", why)
	}
	if len(c.Read) > 0 && t.Effects == 0 {
		return field(at+"effects", "a tool with fs.read needs the effect read")
	}
	if len(c.Write) > 0 && !t.Effects.Any(tool.Writes|tool.Destroys) {
		return field(at+"effects", "a tool with fs.write needs the effect write or destroy")
	}
	if len(c.Net) > 0 && !t.Effects.Has(tool.UsesNetwork) {
		return field(at+"effects", "a tool with net needs the effect network")
	}
	return nil
}

// CheckGlob reports why g cannot be a capability's glob, or "". A glob is a
// doublestar pattern over workspace paths: relative, with '/', never upwards,
// and cheap to match.
func CheckGlob(g string) string {
	switch {
	case g == "":
		return "the glob is empty"
	case len(g) > maxGlob:
		return fmt.Sprintf("the glob has %d bytes; at most %d are allowed", len(g), maxGlob)
	case strings.ContainsFunc(g, unicode.IsControl):
		return "the glob holds a control character"
	case g[0] == '/':
		return fmt.Sprintf("the glob %q is not relative to the workspace root", g)
	case strings.ContainsRune(g, '\\'):
		return fmt.Sprintf("the glob %q holds a backslash", g)
	case strings.Count(g, "{") > maxBraces || strings.Count(g, ",") > maxCommas:
		return fmt.Sprintf("the glob %q has more than %d groups or %d alternatives", g, maxBraces, maxCommas)
	}
	for part := range strings.SplitSeq(g, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Sprintf("the glob %q has an empty, . or .. component", g)
		}
	}
	depth := 0
	for _, r := range g {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == '/' && depth > 0:
			return fmt.Sprintf("the glob %q has a group that spans components", g)
		}
	}
	if !doublestar.ValidatePattern(g) {
		return fmt.Sprintf("%q is no valid glob", g)
	}
	return ""
}

// checkInput checks a tool's input schema: a flat object, because clients and
// model APIs drop unions and references at the top.
func checkInput(name string, raw json.RawMessage) error {
	if raw == nil {
		return field(name, "it is missing")
	}
	top, err := checkSchema(name, raw)
	if err != nil {
		return err
	}
	if top.Type != "object" {
		return field(name, `its type is not "object"`)
	}
	if top.OneOf != nil || top.AnyOf != nil || top.AllOf != nil || top.Ref != "" {
		return field(name, "oneOf, anyOf, allOf and $ref cannot stand at the top")
	}
	if len(top.Properties) > maxProperties {
		return field(name, "%d properties; at most %d are allowed", len(top.Properties), maxProperties)
	}
	for p := range top.Properties {
		if p == "" || len(p) > 64 || strings.ContainsFunc(p, unicode.IsControl) {
			return field(name, "%q cannot name a property", clip(p))
		}
	}
	return nil
}

func checkSchema(name string, raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, field(name, "it has %d bytes; at most %d are allowed", len(raw), maxSchemaBytes)
	}
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		return nil, field(name, "a schema is a JSON object")
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, field(name, "no JSON Schema: %s", clip(err.Error()))
	}
	if _, err := schemacost.Of(raw); err != nil {
		return nil, field(name, "%s", clip(err.Error()))
	}
	// Without a loader every reference must stay inside the schema.
	if _, err := s.Resolve(nil); err != nil {
		return nil, field(name, "no JSON Schema: %s", clip(err.Error()))
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, field(name, "no JSON Schema: %s", clip(err.Error()))
	}
	if bad := unknownType(tree); bad != "" {
		return nil, field(name, "%q is no type of JSON Schema", clip(bad))
	}
	return s, nil
}

// unknownType finds a type that JSON Schema does not have, which a validator
// would let nothing match. It looks into every place that holds schemas.
func unknownType(schema any) string {
	switch s := schema.(type) {
	case []any:
		for _, v := range s {
			if bad := unknownType(v); bad != "" {
				return bad
			}
		}
	case map[string]any:
		for k, v := range s {
			switch k {
			case "const", "enum", "default", "examples":
			case "type":
				list, many := v.([]any)
				if !many {
					list = []any{v}
				}
				for _, t := range list {
					switch t {
					case "null", "boolean", "object", "array", "number", "string", "integer":
					default:
						return fmt.Sprint(t)
					}
				}
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				named, _ := v.(map[string]any)
				for _, v := range named {
					if bad := unknownType(v); bad != "" {
						return bad
					}
				}
			default:
				if bad := unknownType(v); bad != "" {
					return bad
				}
			}
		}
	}
	return ""
}

// checkText refuses what could forge lines or reorder text where people decide.
func checkText(name, s string, limit int, lines bool) error {
	if len(s) > limit {
		return field(name, "it has %d bytes; at most %d are allowed", len(s), limit)
	}
	for _, r := range s {
		if r == '\n' && lines || r == '\t' && lines {
			continue
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return field(name, "it holds the control character %U", r)
		}
	}
	return nil
}

// The keys that each object of a manifest may have. A schema is free in its
// keys, but even there none may stand twice.
var (
	topKeys   = keys("abi", "name", "version", "description", "tools", "limits", "snapshot")
	toolKeys  = keys("name", "title", "description", "inputSchema", "outputSchema", "mode", "effects", "visibility", "guidelines", "packs", "capabilities", "snapshot")
	capKeys   = keys("fs.read", "fs.write", "net", "env", "kv", "clock")
	hostKeys  = keys("host", "methods", "private", "secrets")
	credKeys  = keys("header", "secret", "format")
	limitKeys = keys("memory_mib", "time_ms", "output_kib", "host_calls", "concurrency")
)

func keys(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// checkShape walks the JSON once before it is decoded, because the decoder
// would take keys in any case, twice, and at any depth: two readers could then
// see two manifests.
func checkShape(data []byte) error {
	w := &walker{d: json.NewDecoder(bytes.NewReader(data))}
	w.d.UseNumber()
	if err := w.value("", topKeys, 0); err != nil {
		return err
	}
	if _, err := w.d.Token(); err != io.EOF {
		return invalid("manifest: something stands after the object")
	}
	return nil
}

type walker struct{ d *json.Decoder }

func (w *walker) token(at string) (json.Token, error) {
	t, err := w.d.Token()
	if err != nil {
		return nil, field(orTop(at), "not JSON: %s", clip(err.Error()))
	}
	return t, nil
}

func orTop(at string) string {
	if at == "" {
		return "top"
	}
	return at
}

// value reads one value at the path at. known are the keys that an object here
// may have; nil means any.
func (w *walker) value(at string, known map[string]bool, depth int) error {
	if depth > maxDepth {
		return field(orTop(at), "nested deeper than %d", maxDepth)
	}
	t, err := w.token(at)
	if err != nil {
		return err
	}
	d, isDelim := t.(json.Delim)
	if known != nil && t != json.Delim('{') && !(t == json.Delim('[') && listsObjects(at)) {
		return field(orTop(at), "an object must stand here")
	}
	switch {
	case !isDelim:
		return nil
	case d == '[':
		for i := 0; w.d.More(); i++ {
			if err := w.value(fmt.Sprintf("%s[%d]", at, i), known, depth+1); err != nil {
				return err
			}
		}
	default:
		seen := map[string]bool{}
		for w.d.More() {
			t, err := w.token(at)
			if err != nil {
				return err
			}
			key, _ := t.(string)
			path := clip(key)
			if at != "" {
				path = at + "." + path
			}
			if known != nil && !known[key] {
				return field(path, "an unknown field")
			}
			if seen[key] {
				return field(path, "the field stands twice")
			}
			seen[key] = true
			if err := w.value(path, next(at, key, known), depth+1); err != nil {
				return err
			}
		}
	}
	_, err = w.token(at) // the closing delimiter
	return err
}

// next returns the known keys of the value that stands under key.
func next(at, key string, known map[string]bool) map[string]bool {
	switch {
	case known == nil:
		return nil
	case at == "" && key == "tools":
		return toolKeys
	case at == "" && key == "limits":
		return limitKeys
	case at != "" && key == "capabilities":
		return capKeys
	case strings.HasSuffix(at, ".capabilities") && key == "net":
		return hostKeys
	case strings.Contains(at, ".capabilities.net[") && key == "secrets":
		return credKeys
	}
	return nil
}

// listsObjects tells where a list of objects with known keys may stand.
func listsObjects(at string) bool {
	return at == "tools" || strings.HasSuffix(at, ".capabilities.net") || strings.HasSuffix(at, "].secrets")
}
