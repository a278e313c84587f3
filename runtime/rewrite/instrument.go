package rewrite

import (
	"fmt"
	"strconv"
	"strings"
)

// reserved is the beginning of all names that we add. A guest with such a name
// is refused.
const reserved = "wt__"

// Names that [Instrument] adds to a module.
const (
	// CountdownExport is the countdown, a mutable i32. Set it to the quantum
	// before every call.
	CountdownExport = reserved + "countdown"

	// GlobalExport and the global's index name an exported global.
	GlobalExport = reserved + "global_"
)

// Yield is the function that polls import: it takes nothing and returns an i32,
// zero to go on and anything else to stop with an unreachable trap.
var Yield = ImportName{reserved + "host", reserved + "yield"}

// A Plan says what [Instrument] is to do. The limits on size and on the tables
// that the module defines hold under every plan.
type Plan struct {
	Countdown bool  // add the countdown
	Quantum   int32 // units between two yields, at most 2^30; 0 means DefaultQuantum

	// ExportGlobals exports every mutable global of a number type that the
	// module defines, so that the host can restore it.
	ExportGlobals bool

	// Redirect gives imported functions other names.
	Redirect map[ImportName]ImportName

	TableMax uint32 // elements in all tables together; 0 means DefaultTableMax

	// DropDebug removes the names of functions. Sections that refer to offsets
	// in the code, such as DWARF, are removed under every plan.
	DropDebug bool
}

// Info says what [Instrument] did.
type Info struct {
	Quantum    int32            // of the countdown; 0 if there is none
	Globals    []ExportedGlobal // what ExportGlobals exported
	Redirected int              // imports with another name than before

	Functions int // that the module defines
	Leaves    int // of them those without a poll of their own
	Polls     int // in all of them

	CodeBefore, CodeAfter int // bytes of all function bodies
}

// An ExportedGlobal is a global that the host can read and write.
type ExportedGlobal struct {
	Index uint32
	Name  string // of the export
	Type  ValType
}

// Units is the fuel that was taken from a countdown that began at the quantum
// and now stands at countdown, after so many yields.
func (i Info) Units(yields int64, countdown int32) int64 {
	return yields*int64(i.Quantum) + int64(i.Quantum) - int64(countdown)
}

// Instrument transforms m by p. The module must be one that [Decode] returned
// and that the engine accepts. An error leaves m as it was; it is invalid_module
// unless the plan's quantum is out of range.
func Instrument(m *Module, p Plan) (Info, error) {
	if p.Quantum == 0 {
		p.Quantum = DefaultQuantum
	}
	if p.TableMax == 0 {
		p.TableMax = DefaultTableMax
	}
	if p.Quantum < 1 || p.Quantum > maxQuantum {
		return Info{}, fmt.Errorf("rewrite: quantum %d is not between 1 and %d", p.Quantum, maxQuantum)
	}
	if err := m.checkPlan(p); err != nil {
		return Info{}, err
	}
	return m.apply(p), nil
}

// apply does what a plan says.
func (m *Module) apply(p Plan) Info {
	info := Info{Functions: len(m.functions), CodeBefore: m.CodeSize()}
	m.limitTables(p.TableMax)
	for i := range m.imports {
		imp := &m.imports[i]
		if to, ok := p.Redirect[imp.ImportName]; ok && imp.kind == Function {
			imp.ImportName = to
			info.Redirected++
		}
	}
	if p.ExportGlobals {
		info.Globals = m.exportGlobals()
	}
	m.dropCustoms(func(name string) bool { return speaksOfCode(name) || p.DropDebug && name == "name" })
	if p.Countdown {
		info.Quantum = p.Quantum
		info.Polls, info.Leaves = m.addCountdown(p.Quantum)
	}
	info.CodeAfter = m.CodeSize()
	return info
}

// limitTables lets all tables together have at most so many elements: what they
// do not begin with is shared out among them.
func (m *Module) limitTables(most uint32) {
	if len(m.tables) == 0 {
		return
	}
	share := (most - uint32(m.elementsAtStart())) / uint32(len(m.tables))
	for i := range m.tables {
		if t := &m.tables[i]; !t.hasMax || t.max > t.min+share {
			t.hasMax, t.max = true, t.min+share
		}
	}
}

// elementsAtStart is how many elements all tables begin with.
func (m *Module) elementsAtStart() (n uint64) {
	for _, t := range m.tables {
		n += uint64(t.min)
	}
	return n
}

// checkPlan refuses what cannot be instrumented before anything is changed.
func (m *Module) checkPlan(p Plan) error {
	for _, imp := range m.imports {
		for _, name := range [...]string{imp.Module, imp.Field} {
			if strings.HasPrefix(name, reserved) {
				return refused("import %q of %q: names with %s are reserved for the host", imp.Field, imp.Module, reserved)
			}
		}
	}
	for _, exp := range m.exports {
		if strings.HasPrefix(exp.name, reserved) {
			return refused("export %q: names with %s are reserved for the host", exp.name, reserved)
		}
	}
	if len(m.tables) > maxTables {
		return refused("%d tables, at most %d", len(m.tables), maxTables)
	}
	if n := m.elementsAtStart(); n > uint64(p.TableMax) {
		return refused("the tables have %d elements, at most %d", n, p.TableMax)
	}
	if err := m.checkSize(); err != nil {
		return err
	}
	if p.Countdown {
		return m.checkStoppable()
	}
	return nil
}

// checkSize refuses what would take too long to compile.
func (m *Module) checkSize() error {
	if m.size > MaxModule || m.listed > maxEntries {
		return refused("module of %d bytes and %d entries, at most %d and %d", m.size, m.listed, MaxModule, maxEntries)
	}
	first := m.imported(functions)
	for i := range m.functions {
		f := &m.functions[i]
		if n := len(f.body); n > MaxBody {
			return refused("function %d has %d bytes, at most %d", int(first)+i, n, MaxBody)
		}
		if n := f.polls(); n > maxPolls {
			return refused("function %d needs up to %d polls, at most %d; it has too many loops, bulk operations or calls", int(first)+i, n, maxPolls)
		}
		if n := f.variables(m.types[f.typ]); n > maxLocals {
			return refused("function %d has %d locals, at most %d", int(first)+i, n, maxLocals)
		}
	}
	return nil
}

// checkStoppable refuses instructions that no poll can put a bound to.
func (m *Module) checkStoppable() error {
	for _, op := range [...]struct {
		opcode
		feature Feature
		why     string
	}{
		// Nothing wakes a guest that has no second thread.
		{opWait32, AtomicWait, "a guest that waits cannot be stopped"},
		{opWait64, AtomicWait, "a guest that waits cannot be stopped"},
		// The engine (wazero 1.12) copies the whole stack at every try_table and
		// keeps the copies of those that are open: a recursion 8,000 deep took
		// 3.2 GiB outside the guest's memory. And each throw takes longer than the
		// one before, a millisecond after 100,000.
		{opTryTable, Exceptions, "their cost to the host has no bound"},
		{opThrow, Exceptions, "their cost to the host has no bound"},
		{opThrowRef, Exceptions, "their cost to the host has no bound"},
	} {
		if m.uses[op.opcode] {
			return refused("%s: %s", op.feature, op.why).
				With("feature", string(op.feature)).
				WithNext("build the module without %s", op.feature)
		}
	}
	return nil
}

// exportGlobals exports the mutable globals that a host can read and write.
func (m *Module) exportGlobals() []ExportedGlobal {
	var list []ExportedGlobal
	first := m.imported(globals)
	for i, g := range m.globals {
		if !g.mutable || !g.val.isNumber() {
			continue
		}
		e := ExportedGlobal{first + uint32(i), GlobalExport + strconv.Itoa(int(first)+i), g.val}
		m.exports = append(m.exports, moduleExport{e.Name, Global, e.Index})
		list = append(list, e)
	}
	return list
}
