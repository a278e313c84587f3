package rewrite

import "strings"

// Kind says what an import or export is.
type Kind byte

// The kinds, with their codes in the binary format.
const (
	Function Kind = iota
	Table
	Memory
	Global
	Tag
)

var kindNames = [...]string{"function", "table", "memory", "global", "tag"}

func (k Kind) String() string { return kindNames[k] }

// spaceOf is the space that things of a kind are numbered in.
var spaceOf = [...]space{functions, tables, memories, globals, tags}

// A Module is a decoded module. It is not safe for concurrent use, and it refers
// to the bytes that it was decoded from: they must not change while it is used.
type Module struct {
	types     []funcType
	imports   []moduleImport
	functions []function // defined here, as are all that follow
	tables    []table
	memories  []limits
	tags      []uint32
	globals   []global
	exports   []moduleExport
	start     *uint32
	elements  []element
	dataCount *uint32
	datas     []data
	customs   []custom

	// count holds the sizes of the spaces, imports included.
	count [spaces]uint32

	listed int // entries of all lists
	size   int // bytes it was decoded from

	// uses holds which instructions occur in functions.
	uses [len(shapes)]bool
}

// An ImportName is the two-part name of an import.
type ImportName struct{ Module, Field string }

type moduleImport struct {
	ImportName
	kind   Kind
	typ    uint32 // of a function or tag
	table  table
	memory limits
	global globalType
}

type moduleExport struct {
	name  string
	kind  Kind
	index uint32
}

// A function is one that the module defines.
type function struct {
	typ    uint32
	locals []run
	body   []byte // its instructions, the last end included

	isLeaf    bool // short, and runs to its end by itself: no loop, call or bulk operation
	loopFirst bool // every way from its entry leads to the head of a loop
	hasBulk   bool

	pollPoints int // its loops and bulk operations
	calls      int
}

// A run is a number of locals of one type.
type run struct {
	n uint32
	t ValType
}

type global struct {
	globalType
	init []byte
}

// An element is a segment of table elements. Its flags are those of the binary
// format and decide which fields it has.
type element struct {
	flags  uint32
	table  uint32
	offset []byte
	elem   ValType
	funcs  []uint32 // without elemExprs
	inits  [][]byte // with elemExprs
}

const (
	elemPassive  = 1 // or declarative, with elemExplicit
	elemExplicit = 2 // names its table; with elemPassive: declarative
	elemExprs    = 4
)

// A data is a segment of memory contents. Its flags are those of the binary format.
type data struct {
	flags  uint32
	offset []byte
	bytes  []byte
}

const dataPassive = 1

type custom struct {
	name string
	data []byte
}

// An Import is something that a module needs from outside.
type Import struct {
	ImportName
	Kind Kind
}

// Imports lists what the module needs, in its order.
func (m *Module) Imports() []Import {
	list := make([]Import, len(m.imports))
	for i, imp := range m.imports {
		list[i] = Import{imp.ImportName, imp.kind}
	}
	return list
}

// An Export is something that a module offers.
type Export struct {
	Name string
	Kind Kind
}

// Exports lists what the module offers, in its order.
func (m *Module) Exports() []Export {
	list := make([]Export, len(m.exports))
	for i, exp := range m.exports {
		list[i] = Export{exp.name, exp.kind}
	}
	return list
}

// Custom returns the contents of the first custom section of that name. They
// must not be changed.
func (m *Module) Custom(name string) ([]byte, bool) {
	for _, c := range m.customs {
		if c.name == name {
			return c.data, true
		}
	}
	return nil, false
}

// CodeSize is the size of all function bodies in bytes.
func (m *Module) CodeSize() int {
	n := 0
	for i := range m.functions {
		n += len(m.functions[i].body)
	}
	return n
}

// InstanceCost estimates what an instance costs its host's heap beside memory and
// a fixed part, in bytes. The figures are those of wazero 1.12: it keeps a function
// object for every element of a segment, whether the segment is used or not.
func (m *Module) InstanceCost() uint64 {
	const segment, element, slot, named = 24, 40, 8, 96
	n := segment*uint64(len(m.elements)+len(m.datas)) + slot*m.elementsAtStart() + named*uint64(len(m.globals)+len(m.exports))
	for _, e := range m.elements {
		n += element * uint64(len(e.funcs)+len(e.inits))
	}
	return n
}

// imported is how many of the things in a space are imports; they come first.
func (m *Module) imported(s space) uint32 {
	n := uint32(0)
	for i := range m.imports {
		if spaceOf[m.imports[i].kind] == s {
			n++
		}
	}
	return n
}

// globalType returns the type of a global that exists.
func (m *Module) globalType(index uint32) globalType {
	for i := range m.imports {
		if m.imports[i].kind != Global {
			continue
		}
		if index == 0 {
			return m.imports[i].global
		}
		index--
	}
	return m.globals[index].globalType
}

// export finds an export by its name.
func (m *Module) export(name string) (moduleExport, bool) {
	for _, exp := range m.exports {
		if exp.name == name {
			return exp, true
		}
	}
	return moduleExport{}, false
}

// dropCustoms removes the custom sections for which drop is true.
func (m *Module) dropCustoms(drop func(name string) bool) {
	kept := m.customs[:0]
	for _, c := range m.customs {
		if !drop(c.name) {
			kept = append(kept, c)
		}
	}
	m.customs = kept
}

// speaksOfCode tells whether a custom section refers to offsets in the code or
// to other sections by number. Such a section is wrong once anything has moved.
func speaksOfCode(name string) bool {
	for _, p := range []string{".debug_", "reloc.", "linking", "dylink", "metadata.code.", "sourceMappingURL", "external_debug_info"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
