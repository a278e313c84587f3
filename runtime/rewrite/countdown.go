package rewrite

// addCountdown adds the countdown to a module and polls to its code. It returns
// how many polls there are and how many functions have none of their own.
//
// Four things are added: a global for the countdown, an imported function to
// yield to, a function that refills the countdown, and the two function types.
// The import comes after the other imports and moves every function that the
// module defines by one; all else is added behind what is there.
func (m *Module) addCountdown(quantum int32) (polls, leaves int) {
	c := &countdown{
		module: m,
		yield:  m.imported(functions),
		global: m.count[globals],

		quantum: int64(quantum),
	}
	// Neither moved nor polled, for it does not exist yet.
	c.refill = m.count[functions] + 1

	yields, refills := m.count[types], m.count[types]+1
	m.types = append(m.types, funcType{results: []ValType{{Code: I32}}}, funcType{})
	m.imports = append(m.imports, moduleImport{ImportName: Yield, kind: Function, typ: yields})
	m.globals = append(m.globals, global{
		globalType{ValType{Code: I32}, true},
		append(appendSigned([]byte{byte(opI32Const)}, int64(quantum)), byte(opEnd)),
	})

	c.moveReferences()
	for i := range m.functions {
		if m.functions[i].isLeaf {
			leaves++
		}
	}
	c.addPolls()

	m.functions = append(m.functions, function{typ: refills, body: c.refillBody()})
	m.exports = append(m.exports, moduleExport{CountdownExport, Global, c.global})
	m.count[types] += 2
	m.count[globals]++
	m.count[functions] += 2
	return c.polls, leaves
}

// A countdown is what is known while polls are added.
type countdown struct {
	module *Module
	yield  uint32 // the imported function
	refill uint32 // the function that refills after bulk operations
	global uint32 // the countdown itself
	polls  int    // so far

	quantum int64
}

// move gives a function's new index.
func (c *countdown) move(f uint32) uint32 {
	if f >= c.yield {
		f++
	}
	return f
}

// moveReferences moves functions' indices everywhere but in function bodies.
func (c *countdown) moveReferences() {
	m := c.module
	if m.start != nil {
		*m.start = c.move(*m.start)
	}
	for i := range m.exports {
		if m.exports[i].kind == Function {
			m.exports[i].index = c.move(m.exports[i].index)
		}
	}
	for i := range m.tables {
		m.tables[i].init = c.moveIn(m.tables[i].init)
	}
	for i := range m.globals {
		m.globals[i].init = c.moveIn(m.globals[i].init)
	}
	for _, e := range m.elements {
		for i := range e.funcs {
			e.funcs[i] = c.move(e.funcs[i])
		}
		for i := range e.inits {
			e.inits[i] = c.moveIn(e.inits[i])
		}
	}
	for i := range m.customs {
		if m.customs[i].name == "name" {
			r := reader{wasm: m.customs[i].data}
			m.customs[i].data = r.names(c.move)
		}
	}
}

// moveIn moves the functions that a constant expression names. Offsets of
// segments are integers and need no visit.
func (c *countdown) moveIn(constant []byte) []byte {
	w := rewriter{reader: recheck(constant)}
	for w.open() {
		if in := w.instruction(); in.op == opRefFunc {
			w.copy(in.at)
			w.put(in.op, c.move(in.x))
			w.copied = in.end
		}
	}
	if len(w.out) == 0 {
		return constant
	}
	w.copy(w.at)
	return w.out
}

// addPolls rewrites all function bodies.
func (c *countdown) addPolls() {
	m := c.module
	w := rewriter{out: make([]byte, 0, m.CodeSize()*9/8)}
	for i := range m.functions {
		f := &m.functions[i]
		w.reader = recheck(f.body)
		w.copied = 0
		start := len(w.out)
		c.rewrite(&w, f)
		f.body = w.out[start:len(w.out):len(w.out)]
	}
}

// rewrite copies a function with polls added and functions moved. A poll leaves
// the stack and all locals as they are, so it may stand between any two instructions.
func (c *countdown) rewrite(w *rewriter, f *function) {
	var length uint32 // the local that holds how much a bulk operation does
	if f.hasBulk {
		length = f.variables(c.module.types[f.typ])
		f.locals = append(f.locals, run{1, ValType{Code: I32}})
	}
	if !f.isLeaf && !f.loopFirst {
		c.poll(w)
	}
	w.twins = append(w.twins[:0], 0)
	straight := 0 // bytes of code since the last poll
	for w.open() {
		in := w.instruction()
		straight += in.end - in.at
		switch in.op {
		case opLoop:
			c.loop(w, in)
			straight = 0
		case opCall, opReturnCall, opRefFunc:
			w.copy(in.at)
			w.put(in.op, c.move(in.x))
			w.copied = in.end
			straight += c.unpolled(in)
		case opCallIndirect, opReturnCallIndirect, opCallRef, opReturnCallRef:
			straight += leafBytes
		default:
			w.labels(in)
			if unit := in.op.bulkUnit(); unit > 0 {
				w.copy(in.at)
				w.put(opLocalTee, length)
				w.copy(in.end)
				c.pollBulk(w, length, unit)
				straight = 0
			}
		}
		if straight >= StraightBytes && w.open() {
			w.copy(in.end)
			c.poll(w)
			straight = 0
		}
	}
	w.copy(w.at)
}

// unpolled is how much code a direct call runs at most without a poll.
func (c *countdown) unpolled(in instruction) int {
	defined := c.module.functions
	if i := int(in.x) - int(c.yield); in.op.isCall() && i >= 0 && i < len(defined) && defined[i].isLeaf {
		return leafBytes
	}
	return 0
}

// loop adds the poll at the head of a loop. The loop becomes two, one inside the
// other: the inner one counts, and goes back to the head of the outer one to
// refill. A call inside the inner one would cost its rounds the registers even
// where it is not made, more than twice the time of a tight loop.
//
// A loop that takes values keeps its poll inside, since they would have to be
// carried to the outer head. Compilers hardly make any.
func (c *countdown) loop(w *rewriter, in instruction) {
	w.copy(in.end)
	if in.typ >= 0 && len(c.module.types[in.typ].params) > 0 {
		w.enter(0)
		c.poll(w)
		return
	}
	w.enter(1)
	c.whenEmpty(w)
	c.refillAndAsk(w, c.quantum)
	w.op(opEnd)
	w.out = append(w.out, w.wasm[in.at:in.end]...)
	c.whenEmpty(w)
	w.put(opBr, 2)
	w.op(opEnd)
	c.take(w)
	c.polls++
}

// poll adds a poll that takes one unit.
func (c *countdown) poll(w *rewriter) {
	c.whenEmpty(w)
	c.refillAndAsk(w, c.quantum-1)
	w.op(opElse)
	c.take(w)
	w.op(opEnd)
	c.polls++
}

// pollBulk adds the poll behind a bulk operation, which takes one unit and those
// of the length. The countdown may be far below zero then.
func (c *countdown) pollBulk(w *rewriter, length uint32, unit int64) {
	w.put(opGlobalGet, c.global)
	w.put(opLocalGet, length)
	w.constant(unit)
	w.op(opI32ShrU)
	w.op(opI32Sub)
	w.constant(1)
	w.op(opI32Sub)
	w.put(opGlobalSet, c.global)
	c.whenEmpty(w)
	w.put(opCall, c.refill)
	w.op(opEnd)
	c.polls++
}

// refillBody is the function behind it: it adds quanta, and asks for each, until
// something is left.
func (c *countdown) refillBody() []byte {
	var w rewriter
	w.begin(opLoop)
	w.put(opGlobalGet, c.global)
	w.constant(c.quantum)
	w.op(opI32Add)
	w.put(opGlobalSet, c.global)
	c.ask(&w)
	c.whenEmpty(&w)
	w.put(opBr, 1)
	w.op(opEnd)
	w.op(opEnd)
	w.op(opEnd)
	return w.out
}

// take takes one unit.
func (c *countdown) take(w *rewriter) {
	w.put(opGlobalGet, c.global)
	w.constant(1)
	w.op(opI32Sub)
	w.put(opGlobalSet, c.global)
}

// whenEmpty begins what is done if nothing is left.
func (c *countdown) whenEmpty(w *rewriter) {
	w.put(opGlobalGet, c.global)
	w.constant(0)
	w.op(opI32LeS)
	w.begin(opIf)
}

// refillAndAsk sets the countdown to what is left of a new quantum, and asks.
func (c *countdown) refillAndAsk(w *rewriter, left int64) {
	w.constant(left)
	w.put(opGlobalSet, c.global)
	c.ask(w)
}

// ask lets the host decide whether the guest goes on.
func (c *countdown) ask(w *rewriter) {
	w.put(opCall, c.yield)
	w.begin(opIf)
	w.op(opUnreachable)
	w.op(opEnd)
}

// polls is how many polls a function has at most.
func (f *function) polls() int {
	return 1 + f.pollPoints + (len(f.body)+f.calls*leafBytes)/StraightBytes
}

// variables is how many parameters and locals a function of type t has.
func (f *function) variables(t funcType) uint32 {
	n := uint32(len(t.params))
	for _, r := range f.locals {
		n += r.n
	}
	return n
}
