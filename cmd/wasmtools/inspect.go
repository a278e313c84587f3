package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime"
	"github.com/wasmtools/wasmtools/tool"
)

// maxModuleFile bounds what inspect reads; larger files are no modules that the
// runtime would take.
const maxModuleFile = 64 << 20

// inspection is what `inspect --json` prints.
type inspection struct {
	File     string             `json:"file"`
	Identity tool.Digest        `json:"identity"`
	Size     int                `json:"size"`
	Kind     string             `json:"kind"`
	Manifest *manifest.Manifest `json:"manifest,omitempty"`
	Imports  []string           `json:"imports"`
	Exports  []string           `json:"exports"`
	Memory   string             `json:"memory,omitempty"`
	Sandbox  string             `json:"sandbox,omitempty"`
	Accepted bool               `json:"accepted"`
	Refusal  string             `json:"refusal,omitempty"`
}

func newInspect() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect [flags] FILE[=SIDECAR]",
		Short: "Show what a module is and asks for, without running any of it",
		Long: `Show what a module is and asks for, without running or compiling any of it: identity,
size, imports, tools with their effects and the capabilities that they request,
and whether the runtime would take it. Exits with 6 if it would not.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			in, err := inspect(a[0])
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(c.OutOrStdout())
				enc.SetEscapeHTML(false)
				err = enc.Encode(in)
			} else {
				err = in.print(c.OutOrStdout())
			}
			if err == nil && !in.Accepted {
				return exitCode(exitMismatch)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func inspect(ref string) (*inspection, error) {
	file, _ := splitModule(ref)
	code, sidecar, err := readModule(ref)
	if err != nil {
		return nil, err
	}
	in := &inspection{File: file, Identity: manifest.Identity(code, sidecar), Size: len(code), Kind: "unknown", Imports: []string{}, Exports: []string{}}
	s, err := manifest.Summarize(code)
	if err != nil {
		in.Refusal = err.Error()
		return in, nil
	}
	in.Kind = "core module without a wasmtools manifest"
	for _, i := range s.Imports {
		in.Imports = append(in.Imports, fmt.Sprintf("%s %s.%s%s", i.Kind, tool.QuotePath(i.Module), tool.QuotePath(i.Name), funcType(i.Kind, i.Type)))
	}
	for _, e := range s.Exports {
		in.Exports = append(in.Exports, fmt.Sprintf("%s %s%s", e.Kind, tool.QuotePath(e.Name), funcType(e.Kind, e.Type)))
	}
	if len(s.Memories) > 0 {
		m := s.Memories[0]
		in.Memory = fmt.Sprintf("%d KiB at the start", m.Min*64)
		if m.HasMax {
			in.Memory += fmt.Sprintf(", at most %d KiB", uint64(m.Max)*64)
		}
	}
	if p, err := manifest.Extract(code); err == nil {
		if m, err := manifest.Parse(p); err == nil {
			in.Manifest, in.Kind = &m, fmt.Sprintf("native module, guest ABI %d", m.ABI)
		}
	}
	x, err := runtime.Examine(code, sidecar)
	if err != nil {
		in.Refusal = err.Error()
		return in, nil
	}
	in.Accepted, in.Sandbox = true, x.Decision.String()
	switch x.Kind {
	case manifest.Extism:
		in.Kind = "Extism plugin"
	case manifest.Command:
		in.Kind = "WASI command"
	}
	if x.Kind != manifest.Native {
		in.Manifest = x.Manifest
		if in.Manifest == nil {
			in.Kind += ", which describes its tools when it is asked"
		}
	}
	return in, nil
}

func funcType(k manifest.Kind, t manifest.FuncType) string {
	if k != manifest.KindFunc {
		return ""
	}
	return " " + t.String()
}

// print writes the inspection for a person. What a module says about itself is
// quoted, so that it cannot forge lines.
func (in *inspection) print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, a...)) }
	row("file", "%s", tool.QuotePath(in.File))
	row("identity", "%s", in.Identity)
	row("size", "%d bytes", in.Size)
	row("kind", "%s", in.Kind)
	if m := in.Manifest; m != nil {
		row("says", "%s %s: %s", tool.QuotePath(m.Name), tool.QuotePath(m.Version), tool.QuotePath(firstSentence(m.Description)))
		for _, t := range m.Tools {
			row("tool", "%s: %s", t.Name, tool.QuotePath(firstSentence(t.Description)))
			row("", "  effects: %s", orNone(t.Effects.String()))
			row("", "  asks to read: %s", orNone(quoteAll(t.Capabilities.Read)))
			row("", "  asks to write: %s", orNone(quoteAll(t.Capabilities.Write)))
			if more := otherCapabilities(t.Capabilities); more != "" {
				row("", "  asks for: %s", more)
			}
		}
	}
	if in.Memory != "" {
		row("memory", "%s", in.Memory)
	}
	if in.Sandbox != "" {
		row("sandbox", "%s", in.Sandbox)
	}
	for _, i := range in.Imports {
		row("import", "%s", i)
	}
	for _, e := range in.Exports {
		row("export", "%s", e)
	}
	if in.Accepted {
		row("verdict", "the runtime takes it; it gets only what you grant")
	} else {
		row("verdict", "refused: %s", in.Refusal)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// otherCapabilities lists what has nothing to do with files.
func otherCapabilities(c manifest.Capabilities) string {
	var out []string
	for _, h := range c.Net {
		s := "net " + tool.QuotePath(h.Host)
		if h.Private {
			s += " (private addresses too)"
		}
		if len(h.Methods) > 0 {
			s += " " + strings.Join(h.Methods, " ")
		}
		for _, k := range h.Secrets {
			s += fmt.Sprintf(" with secret %s in %s", tool.QuotePath(k.Secret), tool.QuotePath(k.Header))
		}
		out = append(out, s)
	}
	if len(c.Env) > 0 {
		out = append(out, "env "+quoteAll(c.Env))
	}
	if c.KV {
		out = append(out, "kv")
	}
	if c.Clock {
		out = append(out, "clock")
	}
	return strings.Join(out, "; ")
}

func quoteAll(globs []string) string {
	q := make([]string, len(globs))
	for i, g := range globs {
		q[i] = tool.QuotePath(g)
	}
	return strings.Join(q, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
