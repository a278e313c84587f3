package manifest

import "strings"

// ValType is a value type of WebAssembly, as its byte in the binary format.
type ValType byte

const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	V128      ValType = 0x7b
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
)

func (v ValType) String() string {
	switch v {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return "unknown"
}

// FuncType is the type of a function.
type FuncType struct {
	Params, Results []ValType
}

func (t FuncType) String() string {
	var b strings.Builder
	list := func(vs []ValType) {
		b.WriteByte('(')
		for i, v := range vs {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(v.String())
		}
		b.WriteByte(')')
	}
	list(t.Params)
	b.WriteString(" -> ")
	list(t.Results)
	return b.String()
}

// Equal reports whether t and u are the same type.
func (t FuncType) Equal(u FuncType) bool {
	return string(valBytes(t.Params)) == string(valBytes(u.Params)) &&
		string(valBytes(t.Results)) == string(valBytes(u.Results))
}

func valBytes(vs []ValType) []byte {
	b := make([]byte, len(vs))
	for i, v := range vs {
		b[i] = byte(v)
	}
	return b
}

// Kind is what an import or export is.
type Kind byte

const (
	KindFunc Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

func (k Kind) String() string {
	return [...]string{"function", "table", "memory", "global"}[k&3]
}

// Import is one thing that a module wants from its host. Type counts for
// functions only.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
}

// Export is one thing that a module offers. Type counts for functions only.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
	Type  FuncType
}

// Limits32 are the bounds of a memory (in pages of 64 KiB) or of a table (in
// elements).
type Limits32 struct {
	Min, Max uint32
	HasMax   bool
}

// Custom is one custom section.
type Custom struct {
	Name string
	Size int
}

// Summary is what a module's bytes say without running or compiling them.
type Summary struct {
	Size      int // bytes of the module
	Imports   []Import
	Exports   []Export
	Memories  []Limits32
	Tables    []Limits32
	Customs   []Custom
	Types     int
	Functions int // defined ones
	Globals   int // defined ones
	Elements  int // items in all element segments
	Segments  int // data segments
	DataBytes int
	Start     bool // has a start function, which runs while the module is instantiated
	Code      CodeStats
}

// Caps on counts, so that a summary costs no more memory than a few times the
// module, and no compiler meets more than it was tried with. The largest real
// module we know (a 32 MiB Go program) has about 60,000 functions and 350,000
// data segments.
const (
	maxTypes     = 10_000
	maxParams    = 256
	maxImports   = 1_000
	maxFunctions = 200_000
	maxGlobals   = 10_000
	maxExports   = 1_000
	maxTables    = 16
	maxElements  = 1_000_000
	maxSegments  = 1_000_000
	maxNameLen   = 1_024
)

// Summarize parses a module's structure: every section and every instruction,
// but no types of values. It bounds what it reads and keeps; an engine still
// has to validate the module.
func Summarize(wasm []byte) (Summary, error) {
	all, err := sections(wasm)
	if err != nil {
		return Summary{}, err
	}
	p, err := parse(len(wasm), all)
	if err != nil {
		return Summary{}, err
	}
	return p.Summary, nil
}

func parse(size int, all []section) (*parser, error) {
	p := &parser{Summary: Summary{Size: size}}
	for _, s := range all {
		if s.id == sectCustom {
			p.Customs = append(p.Customs, Custom{Name: s.name, Size: len(s.content)})
			continue
		}
		r := &reader{p: s.content}
		p.section(s.id, r)
		if r.err == nil && r.left() != 0 {
			r.fail("%d bytes are left over", r.left())
		}
		if r.err != nil {
			r.err.Text = sectionNames[s.id] + " section: " + r.err.Text
			return nil, r.err
		}
	}
	if len(p.funcTypes) != p.bodies {
		return nil, invalid("%d functions are declared and %d have code", len(p.funcTypes), p.bodies)
	}
	for i := range p.Exports {
		e := &p.Exports[i]
		if e.Kind != KindFunc {
			continue
		}
		t, ok := p.funcType(e.Index)
		if !ok {
			return nil, invalid("export %q names function %d, which does not exist", clip(e.Name), e.Index)
		}
		e.Type = t
	}
	return p, nil
}

type parser struct {
	Summary
	types     []FuncType
	imported  []uint32 // type indexes of the imported functions
	funcTypes []uint32 // type indexes of the defined functions
	bodies    int
	grows     []growSite

	tableTypes []byte
}

// funcIndex reads the index of a function and checks it. Every index must be
// valid in the module as given, because [BoundGrowth] adds one more function.
func (p *parser) funcIndex(r *reader) uint32 {
	i := r.u32()
	if n := len(p.imported) + len(p.funcTypes); r.err == nil && int64(i) >= int64(n) {
		r.fail("function %d does not exist", i)
	}
	return i
}

func (p *parser) funcType(index uint32) (FuncType, bool) {
	var t uint32
	switch n := uint32(len(p.imported)); {
	case index < n:
		t = p.imported[index]
	case index-n < uint32(len(p.funcTypes)):
		t = p.funcTypes[index-n]
	default:
		return FuncType{}, false
	}
	return p.types[t], true
}

// count reads the length of a vector and compares it with a cap and with what
// is left, so that it may size a buffer.
func (r *reader) count(limit int, what string) int {
	n := r.u32()
	if r.err == nil && int64(n) > int64(limit) {
		r.fail("%d %s are over the limit of %d", n, what, limit)
	}
	if r.err == nil && int64(n) > int64(r.left()) {
		r.fail("more %s are announced than there are bytes", what)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (p *parser) section(id byte, r *reader) {
	switch id {
	case sectType:
		p.Types = r.count(maxTypes, "types")
		for range p.Types {
			if b := r.byte(); r.err == nil && b != 0x60 {
				r.fail("type form 0x%02x is not supported", b)
			}
			t := FuncType{Params: r.valTypes(), Results: r.valTypes()}
			if r.err != nil {
				return
			}
			p.types = append(p.types, t)
		}
	case sectImport:
		for range r.count(maxImports, "imports") {
			p.importEntry(r)
			if r.err != nil {
				return
			}
		}
	case sectFunction:
		p.Functions = r.count(maxFunctions, "functions")
		for range p.Functions {
			p.funcTypes = append(p.funcTypes, p.typeIndex(r))
		}
	case sectTable:
		for range r.count(maxTables, "tables") {
			p.tableTypes = append(p.tableTypes, byte(r.refType()))
			p.Tables = append(p.Tables, r.limits())
		}
	case sectMemory:
		for range r.count(16, "memories") {
			p.Memories = append(p.Memories, r.limits())
		}
	case sectGlobal:
		p.Globals = r.count(maxGlobals, "globals")
		for range p.Globals {
			r.valType()
			if r.byte() > 1 {
				r.fail("a global's mutability is neither 0 nor 1")
			}
			p.constExpr(r)
			if r.err != nil {
				return
			}
		}
	case sectExport:
		seen := map[string]bool{}
		for range r.count(maxExports, "exports") {
			e := Export{Name: r.name(), Kind: Kind(r.byte()), Index: r.u32()}
			switch {
			case r.err != nil:
				return
			case e.Kind > KindGlobal:
				r.fail("export kind %d is not supported", e.Kind)
			case len(e.Name) > maxNameLen:
				r.fail("an export's name has %d bytes; at most %d are allowed", len(e.Name), maxNameLen)
			case seen[e.Name]:
				r.fail("export %q stands twice", clip(e.Name))
			}
			seen[e.Name] = true
			p.Exports = append(p.Exports, e)
		}
	case sectStart:
		p.Start = true
		p.funcIndex(r)
	case sectElement:
		for range r.count(maxElements, "element segments") {
			p.element(r)
			if r.err != nil {
				return
			}
		}
	case sectDataCount:
		r.u32()
	case sectCode:
		p.code(r)
	case sectData:
		p.Segments = r.count(maxSegments, "data segments")
		for range p.Segments {
			flag := r.u32()
			if flag == 2 {
				r.u32()
			}
			if flag > 2 {
				r.fail("data segment kind %d is not supported", flag)
			}
			if flag != 1 {
				p.constExpr(r)
			}
			p.DataBytes += len(r.bytes(r.u32()))
			if r.err != nil {
				return
			}
		}
	}
}

func (p *parser) importEntry(r *reader) {
	im := Import{Module: r.name(), Name: r.name(), Kind: Kind(r.byte())}
	if len(im.Module) > maxNameLen || len(im.Name) > maxNameLen {
		r.fail("an import's name is over %d bytes", maxNameLen)
	}
	switch im.Kind {
	case KindFunc:
		t := p.typeIndex(r)
		if r.err != nil {
			return
		}
		im.Type = p.types[t]
		p.imported = append(p.imported, t)
	case KindTable:
		r.refType()
		r.limits()
	case KindMemory:
		r.limits()
	case KindGlobal:
		r.valType()
		r.byte()
	default:
		r.fail("import kind %d is not supported", im.Kind)
	}
	p.Imports = append(p.Imports, im)
}

func (p *parser) typeIndex(r *reader) uint32 {
	t := r.u32()
	if r.err == nil && int64(t) >= int64(len(p.types)) {
		r.fail("type %d does not exist", t)
	}
	return t
}

func (r *reader) valType() ValType {
	v := ValType(r.byte())
	switch v {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
		return v
	}
	r.fail("value type 0x%02x is not supported", byte(v))
	return 0
}

func (r *reader) refType() ValType {
	v := r.valType()
	if r.err == nil && v != FuncRef && v != ExternRef {
		r.fail("%s is no reference type", v)
	}
	return v
}

func (r *reader) valTypes() []ValType {
	n := r.count(maxParams, "parameters or results")
	if n == 0 {
		return nil
	}
	out := make([]ValType, n)
	for i := range out {
		out[i] = r.valType()
	}
	return out
}

func (r *reader) limits() Limits32 {
	flag := r.byte()
	if flag > 1 {
		r.fail("limits of kind %d (shared or 64-bit) are not supported", flag)
		return Limits32{}
	}
	l := Limits32{Min: r.u32(), HasMax: flag == 1}
	if l.HasMax {
		l.Max = r.u32()
	}
	return l
}

// constExpr reads a constant expression up to its end.
func (p *parser) constExpr(r *reader) {
	for range 3 {
		switch op := r.byte(); op {
		case 0x0b:
			return
		case 0x23:
			r.u32()
		case 0xd2:
			p.funcIndex(r)
		case 0x41:
			r.signed(5)
		case 0x42:
			r.signed(10)
		case 0x43:
			r.bytes(4)
		case 0x44:
			r.bytes(8)
		case 0xd0:
			r.refType()
		case 0xfd:
			if r.byte() != 0x0c {
				r.fail("a constant expression holds an operation that is not constant")
			}
			r.bytes(16)
		default:
			r.fail("a constant expression holds operation 0x%02x", op)
		}
		if r.err != nil {
			return
		}
	}
	r.fail("a constant expression is too long")
}

// element reads one element segment, of which there are eight kinds.
func (p *parser) element(r *reader) {
	flag := r.u32()
	if flag > 7 {
		r.fail("element segment kind %d is not supported", flag)
		return
	}
	passive, explicit, exprs := flag&1 != 0, flag&2 != 0, flag&4 != 0
	if !passive {
		if explicit {
			r.u32()
		}
		p.constExpr(r)
	}
	if passive || explicit {
		if exprs {
			r.refType()
		} else if r.byte() != 0 {
			r.fail("an element segment holds something other than functions")
		}
	}
	n := r.count(maxElements-p.Elements, "elements")
	p.Elements += n
	for range n {
		if exprs {
			p.constExpr(r)
		} else {
			p.funcIndex(r)
		}
		if r.err != nil {
			return
		}
	}
}

// clip shortens a name that a module gives itself for a message.
func clip(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "..."
	}
	return s
}
