package rewrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/wasmtools/wasmtools/tool"
)

// specSuites are the folders of the engine's specification tests.
var specSuites = []string{
	"v1", "v2", "threads", "tail-call", "exception-handling", "extended-const", "typed-function-references",
}

// specRefused lists every valid module of the suites that is refused, by suite,
// file and line, and why. A module that is missing here or refused for another
// reason fails the test.
var specRefused = map[string]string{
	"exception-handling/tag:30": string(RecursiveTypes),
	"exception-handling/tag:40": string(RecursiveTypes),
	"exception-handling/tag:49": string(RecursiveTypes),
	"threads/atomic:441":        string(AtomicWait),
	"threads/atomic:477":        string(AtomicWait),
	"threads/atomic:503":        string(AtomicWait),
	// No compiler pads these, and the engine reads other padded numbers wrongly.
	"v2/binary-leb128:969":  "unknown instruction fc 80 00",
	"v2/binary-leb128:1024": string(MultipleMemories),
}

// TestSpec runs the engine's specification tests in two worlds at once, one with
// the modules as they are and one with a countdown that yields at every second
// unit. Every result, trap and refusal must be the same in both.
func TestSpec(t *testing.T) {
	plans := []Plan{{Countdown: true, Quantum: 2, ExportGlobals: true, TableMax: DefaultTableMax}}
	if long() {
		plans = append(plans,
			Plan{Countdown: true, Quantum: 3, DropDebug: true, TableMax: DefaultTableMax},
			Plan{Countdown: true, Quantum: DefaultQuantum, TableMax: DefaultTableMax},
			Plan{ExportGlobals: true, TableMax: DefaultTableMax})
	}
	for i, p := range plans {
		t.Run(fmt.Sprintf("plan%d", i), func(t *testing.T) { testSpec(t, p) })
	}
}

// long tells whether the long tier of tests was asked for.
func long() bool { return os.Getenv("WASMTOOLS_LONG") != "" }

func testSpec(t *testing.T, p Plan) {
	total := &specStats{refused: map[string]string{}}
	for _, suite := range specSuites {
		files, err := filepath.Glob(filepath.Join(spectestDir(t), suite, "testdata", "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests of suite %s: %v", suite, err)
		}
		for i, file := range files {
			if testing.Short() && i%10 != 0 {
				continue
			}
			w := newSpecWorlds(t, p, total)
			w.where = suite + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			w.run(file)
		}
	}
	t.Logf("%d modules, %d results compared, %d yields; of the invalid modules %d refused here, %d by the engine afterwards",
		total.modules, total.results, total.yields, total.invalidHere, total.invalidThere)
	for where, why := range total.refused {
		if specRefused[where] != why {
			t.Errorf("%s: refused, %q; want %q", where, why, specRefused[where])
		}
	}
	for where, why := range specRefused {
		_, refused := total.refused[where]
		if want := p.Countdown || why != string(AtomicWait); want != refused && !testing.Short() {
			t.Errorf("%s: refused: %v; want %v, %q", where, refused, want, why)
		}
	}
}

type specStats struct {
	modules, results          int
	yields                    int64
	invalidHere, invalidThere int
	refused                   map[string]string
}

// specWorlds are the two worlds. Index 0 has the modules as they are.
type specWorlds struct {
	t       *testing.T
	ctx     context.Context
	plan    Plan
	host    [2]*host
	last    [2]api.Module
	named   map[string][2]api.Module
	skipped map[string]bool // names of modules that were refused
	lost    bool            // the last module was refused
	where   string
	stats   *specStats
}

func newSpecWorlds(t *testing.T, p Plan, stats *specStats) *specWorlds {
	w := &specWorlds{t: t, ctx: t.Context(), plan: p, stats: stats,
		named: map[string][2]api.Module{}, skipped: map[string]bool{}}
	imports, err := os.ReadFile(filepath.Join(spectestDir(t), "testdata", "spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.host {
		w.host[i] = newHost(t, compiler())
		compiled, err := w.host[i].CompileModule(w.ctx, imports)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.host[i].InstantiateModule(w.ctx, compiled, wazero.NewModuleConfig().WithName("spectest")); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

type specCommand struct {
	Type       string
	Line       int
	Name       string
	Filename   string
	As         string
	Text       string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type, Field, Module string
		Args                []specValue
	}
}

type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    any
}

func (w *specWorlds) run(file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var script struct{ Commands []specCommand }
	if err := json.Unmarshal(raw, &script); err != nil {
		w.t.Fatal(err)
	}
	dir := filepath.Dir(file)
	for i, c := range script.Commands {
		where := fmt.Sprintf("%s:%d", w.where, c.Line)
		switch c.Type {
		case "module":
			as := ""
			if i+1 < len(script.Commands) && script.Commands[i+1].Type == "register" {
				as = script.Commands[i+1].As
			}
			w.module(where, filepath.Join(dir, c.Filename), c.Name, as)
		case "action", "assert_return", "assert_trap", "assert_exhaustion", "assert_exception":
			w.action(where, c)
		case "assert_invalid", "assert_malformed":
			if c.ModuleType != "text" {
				w.invalid(where, filepath.Join(dir, c.Filename))
			}
		case "assert_unlinkable", "assert_uninstantiable":
			w.unlinkable(where, filepath.Join(dir, c.Filename))
		case "register":
		default:
			w.t.Fatalf("%s: unknown command %q", where, c.Type)
		}
	}
	w.stats.yields += w.host[1].yields
	for _, h := range w.host {
		h.Close(w.ctx)
	}
}

// rewrite gives the bytes of a module for each world.
func (w *specWorlds) rewrite(file string) (wasm [2][]byte, err error) {
	if wasm[0], err = os.ReadFile(file); err != nil {
		w.t.Fatal(err)
	}
	m, err := Decode(wasm[0])
	if err != nil {
		return wasm, err
	}
	if err = m.checkPlan(w.plan); err != nil && reason(err) != string(Exceptions) {
		return wasm, err
	}
	// Exceptions are only refused for what they cost the host. With a countdown
	// they must still do the same.
	m.apply(w.plan)
	wasm[1] = m.Encode()
	return wasm, nil
}

func (w *specWorlds) module(where, file, name, as string) {
	w.stats.modules++
	wasm, err := w.rewrite(file)
	w.lost = err != nil
	if err != nil {
		w.stats.refused[where] = reason(err)
		w.skipped[name] = true
		return
	}
	w.last = [2]api.Module{}
	for i, h := range w.host {
		w.last[i], err = instantiateAs(w.ctx, h, wasm[i], as)
		if err != nil && i == 0 && w.skipped[name] {
			return
		}
		if err != nil {
			w.t.Errorf("%s: world %d: %v", where, i, err)
			w.lost = true
			return
		}
	}
	if name != "" {
		w.named[name] = w.last
	}
}

// reason is what an error of ours says without the place it says it of.
func reason(err error) string {
	var e *tool.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if f, ok := e.Details["feature"]; ok {
		return f.(string)
	}
	_, text, _ := strings.Cut(e.Text, ": ")
	return text
}

func instantiateAs(ctx context.Context, h *host, wasm []byte, name string) (mod api.Module, err error) {
	compiled, err := compile(ctx, h, wasm)
	if err != nil {
		return nil, err
	}
	return h.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
}

func (w *specWorlds) action(where string, c specCommand) {
	mods := w.last
	if c.Action.Module != "" {
		if w.skipped[c.Action.Module] {
			return
		}
		mods = w.named[c.Action.Module]
	} else if w.lost {
		return
	}
	var got [2]string
	for i, mod := range mods {
		got[i] = w.perform(mod, c)
	}
	w.stats.results++
	if got[0] != got[1] {
		w.t.Errorf("%s: %s: %q as it is, %q with a countdown", where, c.Action.Field, got[0], got[1])
	}
}

// perform runs one action and describes what came of it.
func (w *specWorlds) perform(mod api.Module, c specCommand) string {
	if c.Action.Type == "get" {
		return fmt.Sprint(mod.ExportedGlobal(c.Action.Field).Get())
	}
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.bits()...)
	}
	f := mod.ExportedFunction(c.Action.Field)
	results, err := f.Call(w.ctx, args...)
	if err != nil {
		return trapOf(err)
	}
	return describe(f.Definition().ResultTypes(), results)
}

// ours matches what errors say of indices that we moved and limits that we set.
var ours = regexp.MustCompile(`\[\d+\]|maximum size mismatch.*`)

// trapOf is the first line of an error: the rest names functions of ours too.
func trapOf(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return ours.ReplaceAllString(first, "")
}

// describe prints results so that they can be compared between instances: which
// function or object a reference refers to differs, and so may the bits of a NaN.
func describe(types []api.ValueType, results []uint64) string {
	var b strings.Builder
	for _, t := range types {
		switch v := results[0]; {
		case t == api.ValueTypeF32 && math.IsNaN(float64(math.Float32frombits(uint32(v)))),
			t == api.ValueTypeF64 && math.IsNaN(math.Float64frombits(v)):
			b.WriteString("nan ")
		case t == api.ValueTypeF32 || t == api.ValueTypeI32:
			fmt.Fprintf(&b, "%#x ", uint32(v))
		case t == api.ValueType(FuncRef) || t == api.ValueType(Ref) || t == api.ValueType(RefNull) || t == api.ValueType(ExnRef):
			fmt.Fprintf(&b, "null:%v ", v == 0)
		case t == api.ValueType(V128):
			fmt.Fprintf(&b, "%#x:%#x ", v, results[1])
			results = results[1:]
		default:
			fmt.Fprintf(&b, "%#x ", v)
		}
		results = results[1:]
	}
	return b.String()
}

// invalid checks that what the engine refuses is refused changed or unchanged:
// were it accepted with a countdown, it could reach what we added.
func (w *specWorlds) invalid(where, file string) {
	wasm, err := w.rewrite(file)
	if validates(w.ctx, w.host[0], wasm[0]) {
		return // the engine is laxer than the specification here
	}
	w.stats.modules++
	switch {
	case err != nil:
		w.stats.invalidHere++
	case validates(w.ctx, w.host[1], wasm[1]):
		w.t.Errorf("%s: the engine refuses it, but not once it is instrumented", where)
	default:
		w.stats.invalidThere++
	}
}

func (w *specWorlds) unlinkable(where, file string) {
	w.stats.modules++
	wasm, err := w.rewrite(file)
	if err != nil {
		w.stats.refused[where] = reason(err)
		return
	}
	var got [2]string
	for i, h := range w.host {
		if _, err := h.instantiate(w.ctx, wasm[i]); err != nil {
			got[i] = trapOf(err)
		}
	}
	if got[0] != got[1] {
		w.t.Errorf("%s: %q as it is, %q with a countdown", where, got[0], got[1])
	}
}

// bits are a value's as the engine takes them.
func (v specValue) bits() []uint64 {
	if v.Type != "v128" {
		s, _ := v.Value.(string)
		return []uint64{parseNumber(v.Type, s)}
	}
	width := map[string]int{"i8": 8, "i16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}[v.LaneType]
	var out [2]uint64
	for i, lane := range v.Value.([]any) {
		at := i * width
		out[at/64] |= parseNumber(v.LaneType, lane.(string)) & (math.MaxUint64 >> (64 - width)) << (at % 64)
	}
	return out[:]
}

func parseNumber(typ, s string) uint64 {
	switch {
	case s == "null" || s == "":
		return 0
	case strings.HasPrefix(s, "nan") && typ == "f32":
		return 0x7fc00000
	case strings.HasPrefix(s, "nan"):
		return 0x7ff8000000000000
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		signed, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			panic("value " + s)
		}
		n = uint64(signed)
	}
	switch typ {
	case "externref":
		n++ // zero would be null
	case "i32", "f32":
		n = uint64(uint32(n))
	}
	return n
}
