package rewrite

import "fmt"

// Resettable tells whether an instance of m is back in its first state once its
// memory and the globals that [Instrument] exports are, and if not, what else
// there is. Memory that grew is another matter: the host sees it for itself.
//
// An exported memory or table counts as the module's own. Whoever links it into
// another instance has to know that it is shared.
func Resettable(m *Module) (ok bool, reasons []string) {
	no := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	for _, op := range [...]struct {
		opcode
		name string
	}{
		{opTableSet, "table.set"},
		{opTableInit, "table.init"},
		{opTableCopy, "table.copy"},
		{opTableGrow, "table.grow"},
		{opTableFill, "table.fill"},
		{opElemDrop, "elem.drop"},
		{opDataDrop, "data.drop"},
	} {
		if m.uses[op.opcode] {
			no("its code uses %s", op.name)
		}
	}
	for _, imp := range m.imports {
		switch {
		case imp.kind == Table, imp.kind == Memory, imp.kind == Global && imp.global.mutable:
			no("it imports the %s %q of %q", imp.kind, imp.Field, imp.Module)
		}
	}
	first := m.imported(globals)
	for i, g := range m.globals {
		if g.mutable && !g.val.isNumber() {
			no("global %d holds what a host cannot restore", int(first)+i)
		}
	}
	for _, mem := range m.memories {
		if mem.shared {
			no("its memory is shared between threads")
		}
	}
	return reasons == nil, reasons
}
