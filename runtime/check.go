package runtime

import (
	"fmt"
	"strings"
	"time"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/tool"
)

// reserved begins the names that only the host may use.
const reserved = "wt__"

// Check reports whether this version would load a module that nobody vouches
// for, without compiling or running any of it. The error is an invalid_module
// [tool.Error] that names what is wrong.
func Check(wasm []byte) error {
	_, _, err := examine(wasm, Limits{}.withDefaults(), false)
	return err
}

// examine parses a module's manifest and compares it with the module.
func examine(wasm []byte, l Limits, trusted bool) (manifest.Manifest, Limits, error) {
	s, err := structure(wasm)
	if err != nil {
		return manifest.Manifest{}, l, err
	}
	raw, err := manifest.Extract(wasm)
	if err != nil {
		return manifest.Manifest{}, l, err
	}
	m, err := manifest.Parse(raw)
	if err != nil {
		return manifest.Manifest{}, l, err
	}
	if l, err = l.forModule(m.Limits, trusted); err != nil {
		return manifest.Manifest{}, l, err
	}
	if err := checkMemory(s, l.MemoryBytes); err != nil {
		return manifest.Manifest{}, l, err
	}
	if err := checkExports(s, []abiExport{
		{"wt_alloc", "i>i", true}, {"wt_call", "ii>I", true},
		{"wt_describe", ">I", false}, {"_initialize", ">", false},
	}); err != nil {
		return manifest.Manifest{}, l, err
	}
	return m, l, checkImports(s)
}

// structure parses a module and bounds what compiling it costs.
func structure(wasm []byte) (manifest.Summary, error) {
	if len(wasm) > maxModule {
		return manifest.Summary{}, refuse("the module has %d bytes; at most %d are allowed", len(wasm), maxModule)
	}
	s, err := manifest.Summarize(wasm)
	if err != nil {
		return s, err
	}
	c := s.Code
	for _, b := range []struct {
		what        string
		have, limit int64
	}{
		{"a function's code has %d bytes; at most %d are allowed", int64(c.LargestBody), maxBody},
		{"a function has %d locals; at most %d are allowed", int64(c.MostLocals), maxLocals},
		{"blocks are nested %d deep; at most %d are allowed", int64(c.DeepestNest), maxNesting},
		{"a function merges %d values at loops and branches; at most %d are allowed", c.MostJoins, maxFunctionJoin},
	} {
		if b.have > b.limit {
			return s, refuse(b.what, b.have, b.limit)
		}
	}
	if w := time.Duration(c.MostWork); w > maxFunctionWork {
		return s, refuse("a function would take up to %s to compile; at most %s are allowed", w.Round(time.Second), maxFunctionWork).
			WithNext("split the function up, or build with optimisation")
	}
	if w := time.Duration(c.TotalWork); w > maxModuleWork {
		return s, refuse("the module would take up to %s to compile; at most %s are allowed", w.Round(time.Second), maxModuleWork)
	}
	elements := int64(0)
	for _, t := range s.Tables {
		elements += int64(t.Min)
		if t.HasMax && t.Max < t.Min {
			return s, refuse("a table's maximum is below its minimum")
		}
		if t.HasMax && t.Max > maxTable {
			return s, refuse("a table may grow to %d elements; at most %d are allowed", t.Max, maxTable)
		}
	}
	if elements > maxTable {
		return s, refuse("the tables have %d elements; at most %d are allowed", elements, maxTable)
	}
	// Each costs the host some forty bytes in every instance, and tables hold no more.
	if s.Elements > maxTable {
		return s, refuse("the element segments have %d elements; at most %d are allowed", s.Elements, maxTable)
	}
	if s.Start {
		return s, refuse("the module has a start function").
			WithNext("build it as a reactor: export the function as _initialize")
	}
	return s, nil
}

func checkMemory(s manifest.Summary, limit int64) error {
	if len(s.Memories) != 1 {
		return refuse("the module defines %d memories; a guest has one", len(s.Memories))
	}
	m := s.Memories[0]
	if need := int64(m.Min) << 16; need > limit {
		return refuse("the module starts with %d MiB of memory; its limit is %d MiB", need>>20, limit>>20).
			WithNext("state a higher limit in the manifest if the runtime allows it, or build the module for less memory")
	}
	if m.HasMax && m.Max < m.Min {
		return refuse("the memory's maximum is below its minimum")
	}
	return nil
}

// abiExport is a function that the ABI knows, with its type as in [signature].
type abiExport struct {
	name, sig string
	needed    bool
}

func checkExports(s manifest.Summary, want []abiExport) error {
	have := map[string]manifest.Export{}
	for _, e := range s.Exports {
		if strings.HasPrefix(e.Name, reserved) {
			return refuse("export %q: names with %s are reserved for the host", e.Name, reserved)
		}
		if e.Kind == manifest.KindTable {
			return refuse("the module exports its table").WithNext("build it without exporting the table")
		}
		have[e.Name] = e
	}
	if e, ok := have["memory"]; !ok || e.Kind != manifest.KindMemory {
		return refuse("the module does not export its memory as %q", "memory")
	}
	for _, w := range want {
		e, ok := have[w.name]
		switch {
		case !ok && !w.needed:
		case !ok:
			err := refuse("the module does not export %s", w.name)
			if _, command := have["_start"]; command {
				return err.WithNext("this is a WASI command; build it as a reactor with a tool SDK")
			}
			return err.WithNext("build the module with a tool SDK for this ABI")
		case e.Kind != manifest.KindFunc || !e.Type.Equal(signature(w.sig)):
			return refuse("export %s has type %s; the ABI says %s", w.name, e.Type, signature(w.sig))
		}
	}
	return nil
}

// checkImports compares every import with what the host offers.
func checkImports(s manifest.Summary) error {
	for _, im := range s.Imports {
		name := fmt.Sprintf("%q of %q", im.Name, im.Module)
		if im.Kind != manifest.KindFunc {
			return refuse("the module imports the %s %s; only functions can be imported", im.Kind, name)
		}
		set, ok := hostModules[im.Module]
		if !ok {
			return refuse("the module imports %s; this version of wasmtools offers %s", name, offered).
				WithNext("build it with a tool SDK for guest ABI %d", manifest.ABI)
		}
		f, ok := set[im.Name]
		if !ok {
			return refuse("the module imports the function %s, which guest ABI %d of this version of wasmtools does not offer", name, manifest.ABI).
				WithNext("update wasmtools, or build the module with an SDK for this version")
		}
		if !im.Type.Equal(signature(f.sig)) {
			return refuse("the module imports the function %s with type %s; guest ABI %d says %s", name, im.Type, manifest.ABI, signature(f.sig))
		}
	}
	return nil
}

// signature turns a short form into a type: i is i32, I is i64, and results
// stand behind ">".
func signature(short string) manifest.FuncType {
	var t manifest.FuncType
	list := &t.Params
	for _, c := range short {
		switch c {
		case '>':
			list = &t.Results
		case 'i':
			*list = append(*list, manifest.I32)
		case 'I':
			*list = append(*list, manifest.I64)
		}
	}
	return t
}

func refuse(format string, args ...any) *tool.Error {
	return tool.Errorf(tool.InvalidModule, format, args...)
}
