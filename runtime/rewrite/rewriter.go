package rewrite

// A rewriter reads code and writes it again, changed. What is not changed is
// copied as it stands, in pieces as large as possible.
type rewriter struct {
	reader
	out    []byte
	copied int // everything before this offset has been dealt with

	// twins holds, for each label that is open in the original, how many loops
	// have been doubled up to it. Each of them is one label more in the result.
	twins []uint32
}

// recheck reads code that was checked when it was decoded. Its indices may be
// new ones by now.
func recheck(code []byte) reader {
	r := reader{wasm: code, section: "code", unchecked: true}
	if len(code) > 0 {
		r.count[labels] = 1
	}
	return r
}

// copy writes what was read up to an offset.
func (w *rewriter) copy(to int) {
	w.out = append(w.out, w.wasm[w.copied:to]...)
	w.copied = to
}

// enter notes a label that was opened, with so many loops added to it.
func (w *rewriter) enter(twins uint32) {
	w.twins = append(w.twins, w.twins[len(w.twins)-1]+twins)
}

// labels deals with an instruction that opens, closes or names labels.
func (w *rewriter) labels(in instruction) {
	innermost := len(w.twins) - 1
	switch shapes[in.op] {
	case immBlock:
		w.enter(0)
	case immTry:
		w.relabel(in, w.catchLabels)
		w.enter(0)
	case immEnd:
		if innermost > 0 && w.twins[innermost] > w.twins[innermost-1] {
			w.copy(in.end)
			w.op(opEnd)
		}
		w.twins = w.twins[:innermost]
	case immLabel:
		w.relabel(in, w.label)
	case immLabels:
		w.relabel(in, func(r *reader) {
			n := r.entries(1)
			w.out = appendU32(w.out, uint32(n))
			for range n + 1 {
				w.label(r)
			}
		})
	}
}

// relabel writes an instruction with immediates of its own, unless its labels
// are what they were.
func (w *rewriter) relabel(in instruction, immediates func(r *reader)) {
	if w.twins[len(w.twins)-1] == 0 {
		return
	}
	w.copy(in.at)
	w.op(in.op)
	r := w.reader
	r.at = in.at + 1
	immediates(&r)
	w.copied = in.end
}

// label writes the next label as it is in the result: every doubled loop that a
// branch leaves is one more to leave.
func (w *rewriter) label(r *reader) {
	n := r.u32()
	innermost := len(w.twins) - 1
	w.out = appendU32(w.out, n+w.twins[innermost]-w.twins[innermost-int(n)])
}

func (w *rewriter) catchLabels(r *reader) {
	start := r.at
	r.blockType()
	w.out = append(w.out, r.wasm[start:r.at]...)
	n := r.entries(2)
	w.out = appendU32(w.out, uint32(n))
	for range n {
		kind := r.u8()
		w.out = append(w.out, kind)
		if kind < 2 {
			w.out = appendU32(w.out, r.u32()) // a tag
		}
		w.label(r)
	}
}

// begin opens a block that takes and gives nothing.
func (w *rewriter) begin(op opcode) { w.out = append(w.out, byte(op), emptyBlock) }

func (w *rewriter) op(op opcode) { w.out = append(w.out, byte(op)) }

func (w *rewriter) put(op opcode, index uint32) { w.out = appendU32(append(w.out, byte(op)), index) }

func (w *rewriter) constant(v int64) {
	w.out = appendSigned(append(w.out, byte(opI32Const)), v)
}
