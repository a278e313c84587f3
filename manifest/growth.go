package manifest

import "encoding/binary"

// growSite is a function body with memory.grow instructions: where its length
// and the body stand in the code section, and where they stand in the body.
type growSite struct {
	length, start, end int
	at                 []int
}

// BoundGrowth returns wasm so changed that the host has a say in all growth.
//
// Every wish for more memory reaches the host's allocator, whose limit then is
// the only one: declared maxima are taken off, and no wish is larger than what
// 32 bits can address, because an engine refuses such ones before it asks
// anybody. The host would otherwise mistake a guest that ran out of memory for
// one that failed. Tables, which no allocator sees, get a maximum of tableMax
// elements where they declare none or a higher one.
//
// But for that the result behaves as the original does, given an allocator with
// the limit that the original declares. All indexes were checked before one is
// added, so none that was one too high becomes valid by it.
func BoundGrowth(wasm []byte, tableMax uint32) ([]byte, error) {
	all, err := sections(wasm)
	if err != nil {
		return nil, err
	}
	p, err := parse(len(wasm), all)
	if err != nil {
		return nil, err
	}
	helper := uint32(len(p.imported) + len(p.funcTypes))
	out := append(make([]byte, 0, len(wasm)+256), magic[:]...)
	for _, s := range all {
		content := s.content
		switch {
		case s.id == sectMemory:
			content = binary.AppendUvarint(nil, uint64(len(p.Memories)))
			for _, m := range p.Memories {
				content = binary.AppendUvarint(append(content, 0), uint64(m.Min))
			}
		case s.id == sectTable:
			content = binary.AppendUvarint(nil, uint64(len(p.Tables)))
			for i, t := range p.Tables {
				if !t.HasMax || t.Max > tableMax {
					t.Max = tableMax
				}
				content = binary.AppendUvarint(append(content, p.tableTypes[i], 1), uint64(t.Min))
				content = binary.AppendUvarint(content, uint64(t.Max))
			}
		case len(p.grows) == 0:
		case s.id == sectType:
			content = oneMore(content, []byte{0x60, 1, byte(I32), 1, byte(I32)})
		case s.id == sectFunction:
			content = oneMore(content, binary.AppendUvarint(nil, uint64(p.Types)))
		case s.id == sectCode:
			content = oneMore(p.callHelper(content, helper), growHelper)
		}
		if s.id == sectCustom {
			out = append(out, wasm[s.start:s.end]...)
			continue
		}
		out = append(out, s.id)
		out = binary.AppendUvarint(out, uint64(len(content)))
		out = append(out, content...)
	}
	return out, nil
}

// growHelper is the body, with its length, of
//
//	func(n) { memory.grow(min(n, 65536 - memory.size)) }
var growHelper = []byte{24, 0,
	0x20, 0, // local.get 0
	0x41, 0x80, 0x80, 0x04, 0x3f, 0, 0x6b, // i32.const 65536, memory.size, i32.sub
	0x20, 0,
	0x41, 0x80, 0x80, 0x04, 0x3f, 0, 0x6b,
	0x49,    // i32.lt_u
	0x1b,    // select
	0x40, 0, // memory.grow
	0x0b}

// oneMore appends an item to a vector.
func oneMore(vector, item []byte) []byte {
	n, k := binary.Uvarint(vector)
	out := binary.AppendUvarint(make([]byte, 0, len(vector)+len(item)+1), n+1)
	out = append(out, vector[k:]...)
	return append(out, item...)
}

// callHelper replaces every memory.grow by a call.
func (p *parser) callHelper(code []byte, helper uint32) []byte {
	call := binary.AppendUvarint([]byte{0x10}, uint64(helper))
	out := make([]byte, 0, len(code)+64)
	done := 0
	for _, g := range p.grows {
		body := code[g.start:g.end]
		size := uint64(len(body) + len(g.at)*(len(call)-2))
		out = append(out, code[done:g.length]...)
		out = binary.AppendUvarint(out, size)
		from := 0
		for _, at := range g.at {
			out = append(out, body[from:at]...)
			out = append(out, call...)
			from = at + 2
		}
		out = append(out, body[from:]...)
		done = g.end
	}
	return append(out, code[done:]...)
}
