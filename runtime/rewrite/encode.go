package rewrite

// Encode writes the module. Sections that would be empty are left out, custom
// sections stand at the end, integers are as short as they can be, code is as
// it was unless it was transformed.
func (m *Module) Encode() []byte {
	size := m.CodeSize()
	for i := range m.datas {
		size += len(m.datas[i].bytes) + 16
	}
	e := encoder{append(make([]byte, 0, size*9/8), header...), make([]byte, 0, size)}
	list(&e, 1, m.types, appendFuncType)
	list(&e, 2, m.imports, appendImport)
	list(&e, 3, m.functions, func(b []byte, f function) []byte { return appendU32(b, f.typ) })
	list(&e, 4, m.tables, appendTable)
	list(&e, 5, m.memories, appendLimits)
	list(&e, 13, m.tags, func(b []byte, t uint32) []byte { return appendU32(append(b, 0), t) })
	list(&e, 6, m.globals, func(b []byte, g global) []byte { return append(appendGlobalType(b, g.globalType), g.init...) })
	list(&e, 7, m.exports, appendExport)
	if m.start != nil {
		e.section(8, appendU32(nil, *m.start))
	}
	list(&e, 9, m.elements, appendElement)
	if m.dataCount != nil {
		e.section(12, appendU32(nil, *m.dataCount))
	}
	list(&e, 10, m.functions, appendBody)
	list(&e, 11, m.datas, appendData)
	for _, c := range m.customs {
		e.section(0, append(appendName(nil, c.name), c.data...))
	}
	return e.out
}

// An encoder collects sections. A section's size stands before it, so each is
// made in a buffer first, which serves all of them.
type encoder struct {
	out, buffer []byte
}

func (e *encoder) section(id byte, contents []byte) {
	e.out = append(e.out, id)
	e.out = appendU32(e.out, uint32(len(contents)))
	e.out = append(e.out, contents...)
}

func list[T any](e *encoder, id byte, entries []T, add func([]byte, T) []byte) {
	if len(entries) == 0 {
		return
	}
	e.buffer = appendU32(e.buffer[:0], uint32(len(entries)))
	for _, entry := range entries {
		e.buffer = add(e.buffer, entry)
	}
	e.section(id, e.buffer)
}

func appendImport(b []byte, imp moduleImport) []byte {
	b = appendName(appendName(b, imp.Module), imp.Field)
	b = append(b, byte(imp.kind))
	switch imp.kind {
	case Function:
		return appendU32(b, imp.typ)
	case Table:
		return appendTable(b, imp.table)
	case Memory:
		return appendLimits(b, imp.memory)
	case Global:
		return appendGlobalType(b, imp.global)
	}
	return appendU32(append(b, 0), imp.typ) // a tag, with its attribute
}

func appendExport(b []byte, exp moduleExport) []byte {
	return appendU32(append(appendName(b, exp.name), byte(exp.kind)), exp.index)
}

func appendElement(b []byte, e element) []byte {
	b = appendU32(b, e.flags)
	if e.flags&elemPassive == 0 {
		if e.flags&elemExplicit != 0 {
			b = appendU32(b, e.table)
		}
		b = append(b, e.offset...)
	}
	if e.flags&(elemPassive|elemExplicit) != 0 {
		if e.flags&elemExprs != 0 {
			b = appendValType(b, e.elem)
		} else {
			b = append(b, 0)
		}
	}
	if e.flags&elemExprs != 0 {
		b = appendU32(b, uint32(len(e.inits)))
		for _, init := range e.inits {
			b = append(b, init...)
		}
		return b
	}
	b = appendU32(b, uint32(len(e.funcs)))
	for _, f := range e.funcs {
		b = appendU32(b, f)
	}
	return b
}

func appendBody(b []byte, f function) []byte {
	var room [64]byte
	locals := appendU32(room[:0], uint32(len(f.locals)))
	for _, r := range f.locals {
		locals = appendValType(appendU32(locals, r.n), r.t)
	}
	b = appendU32(b, uint32(len(locals)+len(f.body)))
	return append(append(b, locals...), f.body...)
}

func appendData(b []byte, s data) []byte {
	b = appendU32(b, s.flags)
	if s.flags == 2 {
		b = append(b, 0) // the memory
	}
	b = append(b, s.offset...)
	return append(appendU32(b, uint32(len(s.bytes))), s.bytes...)
}
