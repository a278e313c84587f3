// Package wasmasm writes small WebAssembly modules from Go, so that tests can
// make guests no compiler would: ones that lie, overflow, loop or ask for what
// does not exist. It checks nothing; what it writes may be invalid on purpose.
//
// It serves tests only. Nothing that runs for a user imports it.
package wasmasm

import "encoding/binary"

// Value types.
const (
	I32     byte = 0x7f
	I64     byte = 0x7e
	F32     byte = 0x7d
	F64     byte = 0x7c
	Funcref byte = 0x70
)

// Void is the block type of a block without results.
const Void byte = 0x40

// FuncType is the type of a function.
type FuncType struct {
	Params, Results []byte
}

// Import is one imported function; Module.ImportRaw takes other kinds.
type Import struct {
	Module, Name string
	Type         FuncType
}

// Func is one function of the module. Locals beyond the parameters are listed
// as runs. Body lacks the final end, which Encode adds unless Raw.
type Func struct {
	Type   FuncType
	Locals []Run
	Body   Code
	Raw    bool
	Export string // exported under this name if not empty
}

// Run is N locals of one type.
type Run struct {
	N    uint32
	Type byte
}

// Limits are those of a memory or table. Max below zero means none.
type Limits struct {
	Min uint32
	Max int64
}

// Data is one active data segment of memory 0.
type Data struct {
	Offset int32
	Bytes  []byte
}

// Custom is one custom section, written after all others.
type Custom struct {
	Name string
	Data []byte
}

// Module is a module to be written.
type Module struct {
	Imports   []Import
	ImportRaw [][]byte // further imports, already encoded
	Funcs     []Func
	Tables    []Limits
	Memory    *Limits
	Globals   [][]byte // encoded: type, mutability, expression with end
	ExportRaw [][]byte // further exports, already encoded
	NoExports bool     // leave the memory unexported
	Start     int64    // function index; 0 = none, -1 = function 0
	Elems     [][]byte // encoded element segments
	Data      []Data
	Customs   []Custom
}

// FuncIndex returns the index of the i-th function of Funcs.
func (m *Module) FuncIndex(i int) uint32 { return uint32(len(m.Imports) + i) }

// Encode writes the module.
func (m *Module) Encode() []byte {
	var types []byte
	index := map[string]uint32{}
	typeOf := func(t FuncType) uint32 {
		key := string(t.Params) + ">" + string(t.Results)
		if i, ok := index[key]; ok {
			return i
		}
		i := uint32(len(index))
		index[key] = i
		types = append(types, 0x60)
		types = Bytes(types, t.Params)
		types = Bytes(types, t.Results)
		return i
	}

	var imports, funcs, tables, exports, code, data []byte
	for _, im := range m.Imports {
		imports = Bytes(imports, []byte(im.Module))
		imports = Bytes(imports, []byte(im.Name))
		imports = Uint(append(imports, 0), uint64(typeOf(im.Type)))
	}
	for _, raw := range m.ImportRaw {
		imports = append(imports, raw...)
	}
	nExports := len(m.ExportRaw)
	for i, f := range m.Funcs {
		funcs = Uint(funcs, uint64(typeOf(f.Type)))
		if f.Export != "" {
			exports = Bytes(exports, []byte(f.Export))
			exports = Uint(append(exports, 0), uint64(m.FuncIndex(i)))
			nExports++
		}
		body := Uint(nil, uint64(len(f.Locals)))
		for _, r := range f.Locals {
			body = append(Uint(body, uint64(r.N)), r.Type)
		}
		body = append(body, f.Body...)
		if !f.Raw {
			body = append(body, 0x0b)
		}
		code = Bytes(code, body)
	}
	if m.Memory != nil && !m.NoExports {
		exports = Bytes(exports, []byte("memory"))
		exports = append(exports, 2, 0)
		nExports++
	}
	for _, raw := range m.ExportRaw {
		exports = append(exports, raw...)
	}
	for _, t := range m.Tables {
		tables = append(tables, Funcref)
		tables = limits(tables, t)
	}
	for _, d := range m.Data {
		data = append(data, 0, 0x41)
		data = append(Int(data, int64(d.Offset)), 0x0b)
		data = Bytes(data, d.Bytes)
	}

	out := []byte("\x00asm\x01\x00\x00\x00")
	out = vec(out, 1, len(index), types)
	out = vec(out, 2, len(m.Imports)+len(m.ImportRaw), imports)
	out = vec(out, 3, len(m.Funcs), funcs)
	out = vec(out, 4, len(m.Tables), tables)
	if m.Memory != nil {
		out = vec(out, 5, 1, limits(nil, *m.Memory))
	}
	out = vecs(out, 6, m.Globals)
	out = vec(out, 7, nExports, exports)
	switch {
	case m.Start < 0:
		out = Section(out, 8, []byte{0})
	case m.Start > 0:
		out = Section(out, 8, Uint(nil, uint64(m.Start)))
	}
	out = vecs(out, 9, m.Elems)
	out = vec(out, 10, len(m.Funcs), code)
	out = vec(out, 11, len(m.Data), data)
	for _, c := range m.Customs {
		out = Section(out, 0, append(Bytes(nil, []byte(c.Name)), c.Data...))
	}
	return out
}

// Section appends one section.
func Section(out []byte, id byte, content []byte) []byte {
	return Bytes(append(out, id), content)
}

func vec(out []byte, id byte, n int, items []byte) []byte {
	if n == 0 {
		return out
	}
	return Section(out, id, append(Uint(nil, uint64(n)), items...))
}

func vecs(out []byte, id byte, items [][]byte) []byte {
	var all []byte
	for _, it := range items {
		all = append(all, it...)
	}
	return vec(out, id, len(items), all)
}

func limits(out []byte, l Limits) []byte {
	if l.Max < 0 {
		return Uint(append(out, 0), uint64(l.Min))
	}
	return Uint(Uint(append(out, 1), uint64(l.Min)), uint64(l.Max))
}

// Uint appends v as unsigned LEB128.
func Uint(out []byte, v uint64) []byte { return binary.AppendUvarint(out, v) }

// Int appends v as signed LEB128.
func Int(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// Bytes appends the length of p and p.
func Bytes(out, p []byte) []byte { return append(Uint(out, uint64(len(p))), p...) }

// Code is a sequence of instructions.
type Code []byte

func (c Code) Op(b ...byte) Code               { return append(c, b...) }
func (c Code) I32Const(v int32) Code           { return Int(append(c, 0x41), int64(v)) }
func (c Code) I64Const(v int64) Code           { return Int(append(c, 0x42), v) }
func (c Code) LocalGet(i uint32) Code          { return Uint(append(c, 0x20), uint64(i)) }
func (c Code) LocalSet(i uint32) Code          { return Uint(append(c, 0x21), uint64(i)) }
func (c Code) GlobalGet(i uint32) Code         { return Uint(append(c, 0x23), uint64(i)) }
func (c Code) GlobalSet(i uint32) Code         { return Uint(append(c, 0x24), uint64(i)) }
func (c Code) Call(f uint32) Code              { return Uint(append(c, 0x10), uint64(f)) }
func (c Code) Block(t byte) Code               { return append(c, 0x02, t) }
func (c Code) Loop(t byte) Code                { return append(c, 0x03, t) }
func (c Code) If(t byte) Code                  { return append(c, 0x04, t) }
func (c Code) End() Code                       { return append(c, 0x0b) }
func (c Code) Br(l uint32) Code                { return Uint(append(c, 0x0c), uint64(l)) }
func (c Code) BrIf(l uint32) Code              { return Uint(append(c, 0x0d), uint64(l)) }
func (c Code) Drop() Code                      { return append(c, 0x1a) }
func (c Code) Unreachable() Code               { return append(c, 0x00) }
func (c Code) I32Store(off uint32) Code        { return Uint(append(c, 0x36, 2), uint64(off)) }
func (c Code) I64Store(off uint32) Code        { return Uint(append(c, 0x37, 3), uint64(off)) }
func (c Code) I32Load(off uint32) Code         { return Uint(append(c, 0x28, 2), uint64(off)) }
func (c Code) MemoryGrow() Code                { return append(c, 0x40, 0) }
func (c Code) I32Add() Code                    { return append(c, 0x6a) }
func (c Code) Return() Code                    { return append(c, 0x0f) }
func (c Code) Packed(ptr int32, n uint32) Code { return c.I64Const(int64(ptr)<<32 | int64(n)) }
