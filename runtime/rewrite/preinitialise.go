package rewrite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A State is what an instance of an instrumented module has become.
type State struct {
	Globals     []GlobalValue // every global of Info.Globals
	MemoryPages uint32        // size of its memory, 64 KiB each
	DropExports []string      // functions that must not run again, such as _initialize
}

// A GlobalValue is a global's value as the engine gives it: 64 bits, of which a
// type of 32 bits uses the lower half.
type GlobalValue struct {
	Index uint32
	Bits  uint64
}

// Preinitialise turns m into a module whose instances begin in state s, but for
// the contents of memory, which the host puts there before anything runs: start
// function and initial memory contents are gone, memory is as large as in s,
// globals have their values. Tables are filled as before. The countdown begins
// full, whatever it stood at.
//
// The module must be [Resettable], or its state would be more than s can say. An
// error is a mistake of the caller's and leaves m unchanged.
func Preinitialise(m *Module, s State) error {
	if ok, reasons := Resettable(m); !ok {
		return fmt.Errorf("rewrite: module has more state than memory and globals: %s", strings.Join(reasons, ", "))
	}
	inits, err := m.frozenGlobals(s.Globals)
	if err != nil {
		return err
	}
	if err := m.checkPages(s.MemoryPages); err != nil {
		return err
	}
	for i, init := range inits {
		if init != nil {
			m.globals[i].init = init
		}
	}
	if len(m.memories) > 0 {
		m.memories[0].min = s.MemoryPages
	}
	m.start = nil
	m.dropDatas()
	m.exports = slices.DeleteFunc(m.exports, func(exp moduleExport) bool {
		return exp.kind == Function && slices.Contains(s.DropExports, exp.name)
	})
	return nil
}

// frozenGlobals makes an initialiser for every global that has a value. Each
// mutable one must have one, but for the countdown.
func (m *Module) frozenGlobals(values []GlobalValue) ([][]byte, error) {
	first := m.imported(globals)
	inits := make([][]byte, len(m.globals))
	for _, v := range values {
		i := int64(v.Index) - int64(first)
		if i < 0 || i >= int64(len(inits)) || !m.globals[i].mutable {
			return nil, fmt.Errorf("rewrite: global %d is no mutable global of the module", v.Index)
		}
		inits[i] = constantOf(m.globals[i].val, v.Bits)
	}
	if c, ok := m.export(CountdownExport); ok {
		inits[c.index-first] = m.globals[c.index-first].init
	}
	for i, g := range m.globals {
		if g.mutable && inits[i] == nil {
			return nil, fmt.Errorf("rewrite: no value for global %d", int(first)+i)
		}
	}
	return inits, nil
}

// constantOf is the constant expression of a number.
func constantOf(t ValType, bits uint64) []byte {
	var b []byte
	switch t.Code {
	case I32:
		b = appendSigned([]byte{byte(opI32Const)}, int64(int32(bits)))
	case I64:
		b = appendSigned([]byte{byte(opI64Const)}, int64(bits))
	case F32:
		b = binary.LittleEndian.AppendUint32([]byte{byte(opF32Const)}, uint32(bits))
	case F64:
		b = binary.LittleEndian.AppendUint64([]byte{byte(opF64Const)}, bits)
	}
	return append(b, byte(opEnd))
}

func (m *Module) checkPages(pages uint32) error {
	if len(m.memories) == 0 {
		if pages > 0 {
			return fmt.Errorf("rewrite: %d pages for a module without memory", pages)
		}
		return nil
	}
	if mem := m.memories[0]; pages < mem.min || pages > 1<<16 || mem.hasMax && pages > mem.max {
		return fmt.Errorf("rewrite: memory cannot have %d pages", pages)
	}
	return nil
}

// dropDatas removes what would overwrite the memory that the host puts in place.
// Where memory.init may still ask for a segment its number must stay: a segment
// that was active is then like one that was dropped, which is an empty one.
func (m *Module) dropDatas() {
	if !m.uses[opMemoryInit] {
		m.datas, m.dataCount, m.count[datas] = nil, nil, 0
		return
	}
	for i := range m.datas {
		if m.datas[i].flags != dataPassive {
			m.datas[i] = data{flags: dataPassive}
		}
	}
}
