package rewrite

// The name section gives functions and locals their names in stack traces. It
// counts functions by index, so it must move with them. The engine reads three
// of its parts, and believes their counts; the others are not kept.
const (
	partModule    = 0
	partFunctions = 1
	partLocals    = 2
)

// names reads a name section and returns it with every function's index put
// through move.
func (r *reader) names(move func(function uint32) uint32) []byte {
	same := func(i uint32) uint32 { return i }
	one := func(b []byte) []byte { return appendName(b, r.name()) }
	some := func(b []byte) []byte { return r.nameMap(b, same, one) }
	var out []byte
	for r.left() > 0 {
		id := r.u8()
		var part []byte
		r.within(r.u32(), func() {
			switch id {
			case partModule:
				part = one(nil)
			case partFunctions:
				part = r.nameMap(nil, move, one)
			case partLocals:
				part = r.nameMap(nil, move, some)
			default:
				r.at = len(r.wasm)
			}
		})
		if id > partLocals {
			continue
		}
		out = appendU32(append(out, id), uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// nameMap appends a list of index and entry with every index moved.
func (r *reader) nameMap(b []byte, move func(uint32) uint32, entry func([]byte) []byte) []byte {
	n := r.entries(2)
	b = appendU32(b, uint32(n))
	for i := 0; i < n && r.err == nil; i++ {
		b = entry(appendU32(b, move(r.u32())))
	}
	return b
}
