package rewrite

import "slices"

const header = "\x00asm\x01\x00\x00\x00"

// A sectionKind is what the binary format says about one section.
type sectionKind struct {
	name string
	rank int // sections stand in the order of their ranks, each at most once
	read func(*decoder)
}

// sectionKinds is indexed by the section's id. The ranks differ from the ids
// because the two youngest sections belong before older ones.
var sectionKinds = [...]sectionKind{
	0:  {"custom section", 0, (*decoder).custom},
	1:  {"type section", 1, (*decoder).types},
	2:  {"import section", 2, (*decoder).imports},
	3:  {"function section", 3, (*decoder).functions},
	4:  {"table section", 4, (*decoder).tables},
	5:  {"memory section", 5, (*decoder).memories},
	13: {"tag section", 6, (*decoder).tags},
	6:  {"global section", 7, (*decoder).globals},
	7:  {"export section", 8, (*decoder).exports},
	8:  {"start section", 9, (*decoder).start},
	9:  {"element section", 10, (*decoder).elements},
	12: {"data count section", 11, (*decoder).dataCount},
	10: {"code section", 12, (*decoder).code},
	11: {"data section", 13, (*decoder).datas},
}

// Decode reads a module. It refuses, as invalid_module with section, offset and
// (for what exists but is not supported) feature, whatever is damaged, unknown,
// larger than the limits of this package, or refers to a thing that does not
// exist. It does not check operand types: see the package comment for the order
// in which engine and rewriter look at a module.
func Decode(wasm []byte) (*Module, error) {
	return decode(wasm, false)
}

// decode is Decode; only the control runs of the tests set unchecked.
func decode(wasm []byte, unchecked bool) (*Module, error) {
	if len(wasm) > 2*MaxModule {
		return nil, refused("module of %d bytes, at most %d", len(wasm), MaxModule)
	}
	d := &decoder{reader{wasm: wasm, section: "header", unchecked: unchecked}, &Module{}}
	if string(d.bytes(uint32(min(len(wasm), len(header))))) != header {
		d.malformed(0, "not a WebAssembly module of version 1")
	}
	for rank := 0; d.err == nil && d.left() > 0; {
		rank = d.oneSection(rank)
	}
	d.section = "module"
	if n := len(d.m.functions); n > 0 && d.m.functions[0].body == nil {
		d.malformed(len(wasm), "%d functions and no code", n)
	}
	if n := d.m.dataCount; n != nil && int(*n) != len(d.m.datas) {
		d.malformed(len(wasm), "%d data segments announced, %d found", *n, len(d.m.datas))
	}
	if d.err != nil {
		return nil, d.err
	}
	d.m.count, d.m.listed, d.m.size = d.count, d.listed, len(wasm)
	return d.m, nil
}

// A decoder reads sections into a module. The spaces grow while it reads, so a
// definition can refer to nothing behind itself.
type decoder struct {
	reader
	m *Module
}

// oneSection reads the next section and returns the rank that was reached.
func (d *decoder) oneSection(rank int) int {
	start := d.at
	id := d.u8()
	if int(id) >= len(sectionKinds) {
		d.malformed(start, "unknown section %d", id)
		return rank
	}
	kind := sectionKinds[id]
	d.section = kind.name
	if kind.rank > 0 && kind.rank <= rank {
		d.malformed(start, "section twice or out of order")
	}
	d.within(d.u32(), func() { kind.read(d) })
	return max(rank, kind.rank)
}

func (d *decoder) custom() {
	c := custom{name: d.name()}
	c.data = d.bytes(uint32(d.left()))
	if c.name == "name" {
		d.at -= len(c.data)
		d.names(func(f uint32) uint32 { return f })
	}
	d.m.customs = append(d.m.customs, c)
}

func (d *decoder) types() {
	for range d.entries(3) {
		d.m.types = append(d.m.types, d.funcType())
		d.count[types]++
	}
}

func (d *decoder) imports() {
	for range d.entries(4) {
		imp := moduleImport{ImportName: ImportName{d.name(), d.name()}}
		start := d.at
		switch imp.kind = Kind(d.u8()); imp.kind {
		case Function:
			imp.typ = d.index(types)
		case Table:
			imp.table = d.tableType()
		case Memory:
			imp.memory = d.memoryType()
			d.onlyMemory(start)
		case Global:
			imp.global = d.globalType()
		case Tag:
			imp.typ = d.tagType()
		default:
			d.malformed(start, "unknown kind %#x of import", imp.kind)
			return
		}
		d.count[spaceOf[imp.kind]]++
		d.m.imports = append(d.m.imports, imp)
	}
}

func (d *decoder) functions() {
	n := d.entries(1)
	d.m.functions = slices.Grow(d.m.functions, n)
	for range n {
		d.m.functions = append(d.m.functions, function{typ: d.index(types)})
	}
	d.count[functions] += uint32(n)
}

func (d *decoder) tables() {
	for range d.entries(3) {
		hasInit := d.left() > 0 && d.wasm[d.at] == 0x40
		if hasInit {
			d.u8()
			if start := d.at; d.u8() != 0 {
				d.malformed(start, "zero byte expected")
			}
		}
		t := d.tableType()
		if hasInit {
			t.init = d.constant(t.elem)
		}
		d.m.tables = append(d.m.tables, t)
		d.count[tables]++
	}
}

func (d *decoder) tableType() table {
	t := table{elem: d.refType()}
	start := d.at
	if t.limits = d.limits(); t.shared {
		d.unsupported(start, SharedTables)
	}
	return t
}

func (d *decoder) memories() {
	for range d.entries(2) {
		start := d.at
		d.m.memories = append(d.m.memories, d.memoryType())
		d.onlyMemory(start)
		d.count[memories]++
	}
}

func (d *decoder) onlyMemory(start int) {
	if d.count[memories] > 0 {
		d.unsupported(start, MultipleMemories)
	}
}

func (d *decoder) tags() {
	for range d.entries(2) {
		d.m.tags = append(d.m.tags, d.tagType())
		d.count[tags]++
	}
}

func (d *decoder) tagType() uint32 {
	start := d.at
	if d.u8() != 0 {
		d.malformed(start, "unknown attribute of a tag")
	}
	return d.index(types)
}

func (d *decoder) globals() {
	for range d.entries(4) {
		t := d.globalType()
		d.m.globals = append(d.m.globals, global{t, d.constant(t.val)})
		d.count[globals]++
	}
}

func (d *decoder) exports() {
	seen := map[string]bool{}
	for range d.entries(3) {
		start := d.at
		exp := moduleExport{name: d.name()}
		if seen[exp.name] {
			d.malformed(start, "%q is exported twice", exp.name)
		}
		seen[exp.name] = true
		start = d.at
		if exp.kind = Kind(d.u8()); exp.kind > Tag {
			d.malformed(start, "unknown kind %#x of export", exp.kind)
			return
		}
		exp.index = d.index(spaceOf[exp.kind])
		d.m.exports = append(d.m.exports, exp)
	}
}

func (d *decoder) start() {
	f := d.index(functions)
	d.m.start = &f
}

func (d *decoder) elements() {
	for range d.entries(3) {
		d.m.elements = append(d.m.elements, d.element())
		d.count[elements]++
	}
}

func (d *decoder) element() element {
	start := d.at
	e := element{flags: d.u32(), elem: ValType{Code: FuncRef}}
	if e.flags > elemPassive|elemExplicit|elemExprs {
		d.malformed(start, "unknown flags %#x of an element segment", e.flags)
		return e
	}
	if e.flags&elemPassive == 0 {
		if e.flags&elemExplicit != 0 {
			e.table = d.index(tables)
		} else if d.count[tables] == 0 && !d.unchecked {
			d.malformed(start, "table 0 does not exist, there are 0")
		}
		e.offset = d.constant(ValType{})
	}
	if e.flags&(elemPassive|elemExplicit) != 0 {
		if start = d.at; e.flags&elemExprs != 0 {
			e.elem = d.refType()
		} else if d.u8() != 0 {
			d.malformed(start, "unknown kind of elements")
		}
	}
	if e.flags&elemExprs != 0 {
		for range d.entries(2) {
			e.inits = append(e.inits, d.constant(e.elem))
		}
		return e
	}
	e.funcs = make([]uint32, d.entries(1))
	for i := range e.funcs {
		e.funcs[i] = d.index(functions)
	}
	return e
}

func (d *decoder) dataCount() {
	n := d.u32()
	d.m.dataCount = &n
	d.count[datas] = n
}

func (d *decoder) code() {
	start := d.at
	if n := d.entries(2); n != len(d.m.functions) {
		d.malformed(start, "%d bodies for %d functions", n, len(d.m.functions))
		return
	}
	for i := range d.m.functions {
		start := d.at
		n := d.u32()
		if n > 2*MaxBody {
			d.malformed(start, "function of %d bytes, at most %d", n, MaxBody)
			return
		}
		d.within(n, func() { d.body(&d.m.functions[i]) })
		if d.err != nil {
			return
		}
	}
}

// body reads the locals and the instructions of a function.
func (d *decoder) body(f *function) {
	d.count[locals] = 0
	if int(f.typ) < len(d.m.types) { // always, but for the control runs of the tests
		d.count[locals] = uint32(len(d.m.types[f.typ].params))
	}
	for range d.entries(2) {
		start := d.at
		r := run{d.u32(), d.valType()}
		if r.n > 2*maxLocals || d.count[locals]+r.n > 2*maxLocals {
			d.malformed(start, "more than %d locals", maxLocals)
			return
		}
		d.count[locals] += r.n
		f.locals = append(f.locals, r)
	}
	f.isLeaf = d.left() <= leafBytes
	straight := true // nothing so far could have gone anywhere but on
	start := d.at
	d.count[labels] = 1
	for d.open() {
		in := d.instruction()
		d.m.uses[in.op] = true
		if in.op == opLoop || in.op.bulkUnit() > 0 {
			f.pollPoints++
		} else if in.op.isCall() {
			f.calls++
		}
		f.hasBulk = f.hasBulk || in.op.bulkUnit() > 0
		f.isLeaf = f.isLeaf && in.op != opLoop && !in.op.isCall() && !f.hasBulk
		f.loopFirst = f.loopFirst || straight && in.op == opLoop
		straight = straight && !in.op.isControl()
	}
	f.body = d.wasm[start:d.at:d.at]
}

func (d *decoder) datas() {
	n := d.entries(2)
	d.m.datas = slices.Grow(d.m.datas, n)
	for range n {
		start := d.at
		s := data{flags: d.u32()}
		switch s.flags {
		case 0, dataPassive:
		case 2:
			d.memory()
		default:
			d.malformed(start, "unknown flags %#x of a data segment", s.flags)
		}
		if s.flags != dataPassive {
			s.offset = d.constant(ValType{})
		}
		s.bytes = d.bytes(d.u32())
		d.m.datas = append(d.m.datas, s)
	}
	d.count[datas] = uint32(n)
}

// constant reads a constant expression for a value of type t; the zero ValType
// stands for an offset.
func (d *decoder) constant(t ValType) []byte {
	start := d.at
	d.count[labels] = 1
	for d.open() {
		in := d.instruction()
		switch {
		case !in.op.isConstant():
			d.malformed(in.at, "instruction %#x in a constant expression", uint16(in.op))
		case in.op == opGlobalGet:
			d.constantGlobal(in, t)
		case in.op == opRefNull && (t.Code == Ref || t.Code == RefNull && t.Heap >= 0 && in.typ < 0):
			// The engine (wazero 1.12) takes a null for a reference to function 0,
			// whatever that is, and would put it where none may be.
			d.malformed(in.at, "null does not fit the type of the constant")
		}
	}
	return d.wasm[start:d.at:d.at]
}

func (d *decoder) constantGlobal(in instruction, t ValType) {
	if in.x >= d.count[globals] {
		return // only in the control runs of the tests
	}
	switch g := d.m.globalType(in.x); {
	case g.mutable:
		d.malformed(in.at, "mutable global %d in a constant expression", in.x)
	case t.Code == Ref && g.val.Code != Ref:
		d.malformed(in.at, "global %d does not fit the type of the constant", in.x)
	}
}
