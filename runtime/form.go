package runtime

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"strings"

	"github.com/wasmtools/wasmtools/manifest"
	"github.com/wasmtools/wasmtools/runtime/linmem"
	"github.com/wasmtools/wasmtools/runtime/rewrite"
	"github.com/wasmtools/wasmtools/tool"
)

// form is a module as it is compiled, and what has to be known to run it. It is
// what the cache keeps beside the native code, so that a later process neither
// rewrites nor starts the module again. That of a foreign module has nothing but
// Wasm and Quantum.
type form struct {
	Wasm     []byte // instrumented, and frozen if Snapshot
	Imports  []rewrite.ImportName
	Quantum  int32
	Globals  []global // every one that a reset restores, but for the countdown
	MinBytes uint64   // of memory at the start
	MaxBytes uint64   // that the module declares, or maxMemory
	Cost     uint64   // of an instance to the host's heap, beside instanceCost

	Decision Decision
	Memory   []byte // of the snapshot, without the zeroes at its end
	Clock    int64  // where the guest's monotonic clock stood, in nanoseconds
}

// A global is one that the host can read and write, with its value in the
// snapshot.
type global struct {
	Name string // of the export
	Bits uint64
}

// Decision says how the instances of a module begin, and how they are put back
// after a call.
type Decision struct {
	// Snapshot: calls begin where the module stood once it was initialised.
	// Otherwise each call initialises an instance of its own.
	Snapshot bool
	// WarmedUp: the snapshot was taken after a first request that was answered.
	WarmedUp bool
	// InPlace: an instance is put back to the snapshot and used again.
	InPlace bool
	// Why says, for a person, what is not so.
	Why []string
}

const asksForNone = "it asks for no snapshot"

// Decide tells what can be known of a module's decision without running any of
// it: whether memory and globals are all of its state, and whether its manifest
// asks for no snapshot. Whether its initialisation can be frozen, and a warm-up
// is answered, shows when it is first called.
func Decide(wasm []byte) (Decision, error) {
	m, err := rewrite.Decode(wasm)
	if err != nil {
		return Decision{}, err
	}
	ok, why := rewrite.Resettable(m)
	if raw, err := manifest.Extract(wasm); ok && err == nil {
		about, err := manifest.Parse(raw)
		if err != nil {
			return Decision{}, err
		}
		off := 0
		for _, t := range about.Tools {
			if !about.FromSnapshot(t) {
				off++
				why = append(why, t.Name+": "+asksForNone)
			}
		}
		ok = off < len(about.Tools)
	}
	return Decision{Snapshot: ok, WarmedUp: ok, InPlace: ok, Why: why}, nil
}

// formVersion stands for everything here that shapes a form. A change of what
// is frozen, how, or with which host functions, gets a new number.
const formVersion = 5

// plan is how every module is instrumented.
func plan() rewrite.Plan {
	return rewrite.Plan{Countdown: true, Quantum: rewrite.DefaultQuantum, ExportGlobals: true, TableMax: maxTable, DropDebug: true}
}

// shape turns a module's code into its form. Unless freeze is false or cannot
// be, the form begins at a snapshot, for which the module is run: in an
// interpreter, without any capability, and for a bounded time.
func (e *Engine) shape(ctx context.Context, m *module, freeze bool) (*form, error) {
	code := m.given()
	if m.trusted { // Load did neither
		if _, _, err := examine(code, e.limits, true); err != nil {
			return nil, err
		}
		var err error
		if code, err = manifest.Strip(code); err != nil {
			return nil, err
		}
	}
	s, err := manifest.Summarize(code)
	if err != nil {
		return nil, err
	}
	if code, err = manifest.BoundGrowth(code, maxTable); err != nil {
		return nil, err
	}
	f := &form{MinBytes: uint64(s.Memories[0].Min) << 16, MaxBytes: maxMemory}
	if mem := s.Memories[0]; mem.HasMax {
		f.MaxBytes = min(f.MaxBytes, uint64(mem.Max)<<16)
	}
	for _, im := range s.Imports {
		f.Imports = append(f.Imports, rewrite.ImportName{Module: im.Module, Field: im.Name})
	}
	original, err := rewrite.Decode(code)
	if err != nil {
		return nil, err
	}
	var start *snapshot
	if ok, why := rewrite.Resettable(original); !ok {
		f.Decision.Why = why
		err = e.validate(ctx, code)
	} else if !freeze {
		f.Decision.Why = []string{asksForNone}
		err = e.validate(ctx, code)
	} else {
		start, err = e.start(ctx, m, original, f)
	}
	if err != nil {
		return nil, err
	}
	return f, f.instrument(code, start)
}

// instrument writes the module that is compiled. The engine has accepted the
// code as it is by now: an invalid one could become valid by what is added.
func (f *form) instrument(code []byte, start *snapshot) error {
	m, err := rewrite.Decode(code)
	if err != nil {
		return err
	}
	info, err := rewrite.Instrument(m, plan())
	if err != nil {
		return err
	}
	f.Quantum = info.Quantum
	if start != nil {
		state := rewrite.State{MemoryPages: uint32(start.size / linmem.WasmPage)}
		for i, g := range info.Globals {
			f.Globals = append(f.Globals, global{g.Name, start.globals[i]})
			state.Globals = append(state.Globals, rewrite.GlobalValue{Index: g.Index, Bits: start.globals[i]})
		}
		// Whatever else the module exports has run, or must not run in a call.
		for _, x := range m.Exports() {
			if x.Kind == rewrite.Function && x.Name != "wt_alloc" && x.Name != "wt_call" {
				state.DropExports = append(state.DropExports, x.Name)
			}
		}
		if err := rewrite.Preinitialise(m, state); err != nil {
			return tool.Errorf(tool.Internal, "the module's state cannot be frozen").Because(err)
		}
		f.MinBytes, f.Memory, f.Clock = start.size, bytes.TrimRight(start.memory, "\x00"), start.clock
		f.Decision.Snapshot, f.Decision.InPlace, f.Decision.WarmedUp = true, true, start.warm
	}
	f.Wasm, f.Cost = m.Encode(), m.InstanceCost()
	return nil
}

// image makes the snapshot that instances map.
func (f *form) image() (*linmem.Image, error) {
	if !f.Decision.Snapshot {
		return nil, nil
	}
	memory := make([]byte, f.MinBytes)
	copy(memory, f.Memory)
	return linmem.NewImage(memory)
}

// encode and decodeForm are for the cache, which authenticates what it keeps.
func (f *form) encode() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(f)
	return b.Bytes(), err
}

func decodeForm(p []byte) (*form, error) {
	f := &form{}
	if err := gob.NewDecoder(bytes.NewReader(p)).Decode(f); err != nil {
		return nil, err
	}
	if uint64(len(f.Memory)) > f.MinBytes || f.MinBytes > maxMemory || f.Quantum <= 0 {
		return nil, fmt.Errorf("the form contradicts itself")
	}
	return f, nil
}

// String is one line for a person.
func (d Decision) String() string {
	var s string
	switch {
	case d.InPlace && d.WarmedUp:
		s = "calls begin at a snapshot taken after a warm-up; reset in place"
	case d.InPlace:
		s = "calls begin at a snapshot; reset in place"
	default:
		s = "each call initialises an instance of its own"
	}
	if len(d.Why) > 0 {
		s += " (" + strings.Join(d.Why, "; ") + ")"
	}
	return s
}
