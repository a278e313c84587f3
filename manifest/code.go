package manifest

// CodeStats says how large and how entangled a module's functions are. What a
// compiler needs grows with the square of some of these, so the runtime bounds
// them before it compiles.
type CodeStats struct {
	Bytes       int   // of all bodies
	LargestBody int   // bytes
	MostLocals  int   // of one function, parameters included
	MostBlocks  int   // of one function: blocks, loops, ifs, elses and branches
	MostTargets int   // of one function: branch targets, those of tables one by one
	DeepestNest int   // nested blocks, loops and ifs
	DeepestLoop int   // nested loops
	MostJoins   int64 // of one function: live values summed over loops and branch targets; a compiler may keep about 1 KiB for each
	MostWork    int64 // of one function: estimated nanoseconds to compile it
	TotalWork   int64 // of all functions
}

// body is what one function's code amounts to.
type body struct {
	size, locals, blocks, targets, nest, loops int
	allLoops                                   int
	joins, work                                int64
	crossing                                   int // locals that are live across joins
	meetings                                   meetings
}

// meetings sums over the places where ways of control meet: how many there
// are, how they weigh, and the heights h of the operand stack there. What a
// place costs depends on the locals that are live across it, whose number is
// known at the end of the function only.
type meetings struct {
	n, nh      int64 // sums of 1 and h
	w, wh, whh int64 // sums of weight, weight * h and weight * h * h
}

func (p *parser) code(r *reader) {
	n := r.count(maxFunctions, "function bodies")
	if n != len(p.funcTypes) {
		r.fail("%d functions are declared and %d have code", len(p.funcTypes), n)
		return
	}
	p.bodies = n
	c := &p.Code
	for i := range n {
		length := r.off
		size := r.u32()
		s := scanner{reader: reader{p: r.bytes(size)}, types: p}
		if r.err != nil {
			return
		}
		s.size = int(size)
		start := r.off - s.size
		s.locals = len(p.types[p.funcTypes[i]].Params)
		s.scan()
		if s.err != nil {
			r.fail("function %d: %s", i, s.err.Text)
			return
		}
		if s.grows != nil {
			p.grows = append(p.grows, growSite{length: length, start: start, end: r.off, at: s.grows})
		}
		c.Bytes += s.size
		c.LargestBody = max(c.LargestBody, s.size)
		c.MostLocals = max(c.MostLocals, s.locals)
		c.MostBlocks = max(c.MostBlocks, s.blocks)
		c.MostTargets = max(c.MostTargets, s.targets)
		c.DeepestNest = max(c.DeepestNest, s.nest)
		c.DeepestLoop = max(c.DeepestLoop, s.loops)
		w := s.estimate()
		c.MostJoins = max(c.MostJoins, s.joins)
		c.MostWork = max(c.MostWork, w)
		c.TotalWork += w
	}
}

const maxLocalsRead = 1 << 20 // more are refused while reading; the runtime's own cap is lower

// scanner walks one function. It tracks the height of the operand stack, but
// no types: values that stay on the stack cost a compiler as much as locals.
type scanner struct {
	reader
	body
	types  *parser
	open   []frame
	nloops int // of open
	height int

	// A local that is read where it was not set since the last place at which
	// control can come from or go to elsewhere is live across such a place. The
	// others, which is most of them in code that was not optimised, never are.
	segment int   // of straight-line code
	setIn   []int // by local: the segment in which it was set last
	crosses []bool
	grows   []int // where memory.grow stands in the body
}

// frame is one open block.
type frame struct {
	loop            bool
	base            int // height below the block's parameters
	params, results int
}

// scan walks the locals and every instruction once.
func (s *scanner) scan() {
	for range s.count(maxLocalsRead, "groups of locals") {
		n := s.u32()
		s.valType()
		if s.err != nil {
			return
		}
		if int64(s.locals)+int64(n) > maxLocalsRead {
			s.fail("more than %d locals", maxLocalsRead)
			return
		}
		s.locals += int(n)
	}
	s.setIn, s.crosses = make([]int, s.locals), make([]bool, s.locals)
	s.open = append(s.open, frame{})
	for s.err == nil && len(s.open) > 0 {
		s.instruction()
	}
	if s.err == nil && s.left() != 0 {
		s.fail("code stands after its end")
	}
}

// move takes pop values off the stack and puts push values on it.
func (s *scanner) move(pop, push int) {
	s.height = max(s.height-pop, s.open[len(s.open)-1].base) + push
}

func (s *scanner) unreachable() {
	s.height = s.open[len(s.open)-1].base
}

func (s *scanner) enter(loop bool) {
	f := frame{loop: loop}
	switch t := s.signed(5); {
	case t >= 0:
		if t >= int64(len(s.types.types)) {
			s.fail("type %d does not exist", t)
			return
		}
		ft := s.types.types[t]
		f.params, f.results = len(ft.Params), len(ft.Results)
	case t == -64:
	case t >= -5, t == -16, t == -17:
		f.results = 1
	default:
		s.fail("block type %d is not supported", t)
		return
	}
	f.base = max(s.height-f.params, s.open[len(s.open)-1].base)
	s.height = f.base + f.params
	s.open = append(s.open, f)
	s.blocks++
	s.nest = max(s.nest, len(s.open)-1)
	if loop {
		s.nloops++
		s.loops = max(s.loops, s.nloops)
		s.allLoops++
		s.join(1, 10*int64(s.nloops))
	}
}

// join notes n places where ways of control meet: every live value may have to
// be merged there, and costs again for every other one.
func (s *scanner) join(n, weight int64) {
	h := int64(s.height)
	m := &s.meetings
	m.n += n
	m.nh += n * h
	m.w += n * weight
	m.wh += n * weight * h
	m.whh += n * weight * h * h
}

// estimate gives the nanoseconds that wazero 1.12 takes for the function at
// worst, on one core of 2024. The terms were fitted to modules made to be slow:
// chains of loops and branches (square of the blocks), branch tables (square of
// the targets), many live values across loops and branches (see join). Real
// modules stay below it by a factor of 2 to 400.
func (s *scanner) estimate() int64 {
	for _, c := range s.crosses {
		if c {
			s.crossing++
		}
	}
	live, m := int64(s.crossing), s.meetings
	s.joins = m.n*live + m.nh
	s.work = m.w*live*live + 2*m.wh*live + m.whh
	b, t := int64(s.blocks+s.allLoops), int64(s.targets)
	return s.work + 10*b*b + t*t
}

// get and set note that a local is read or written.
func (s *scanner) get(local uint32) {
	if int64(local) < int64(len(s.crosses)) && s.setIn[local] != s.segment {
		s.crosses[local] = true
	}
}

func (s *scanner) set(local uint32) {
	if int64(local) < int64(len(s.setIn)) {
		s.setIn[local] = s.segment
	}
}

func (s *scanner) call(t FuncType) { s.move(len(t.Params), len(t.Results)) }

func (s *scanner) instruction() {
	op := s.byte()
	if op >= 0x02 && op <= 0x0f {
		s.segment++
	}
	switch {
	case s.err != nil:
	case op == 0x00: // unreachable
		s.unreachable()
	case op == 0x01: // nop
	case op == 0x02: // block
		s.enter(false)
	case op == 0x03: // loop
		s.enter(true)
	case op == 0x04: // if
		s.move(1, 0)
		s.enter(false)
		s.blocks++
	case op == 0x05: // else
		f := s.open[len(s.open)-1]
		s.height = f.base + f.params
		s.blocks++
	case op == 0x0b: // end
		f := s.open[len(s.open)-1]
		s.open = s.open[:len(s.open)-1]
		s.height = f.base + f.results
		if f.loop {
			s.nloops--
		}
	case op == 0x0c: // br
		s.u32()
		s.join(1, 5)
		s.targets++
		s.blocks++
		s.unreachable()
	case op == 0x0d: // br_if
		s.u32()
		s.move(1, 0)
		s.join(1, 5)
		s.targets++
		s.blocks++
	case op == 0x0e: // br_table
		n := s.count(s.left(), "branch targets")
		for range n + 1 {
			s.u32()
		}
		s.move(1, 0)
		s.join(int64(n)+1, 5)
		s.targets += n + 1
		s.blocks++
		s.unreachable()
	case op == 0x0f: // return
		s.unreachable()
	case op == 0x10: // call
		if i := s.types.funcIndex(&s.reader); s.err == nil {
			t, _ := s.types.funcType(i)
			s.call(t)
		}
	case op == 0x11: // call_indirect
		t := s.u32()
		s.u32()
		if int64(t) >= int64(len(s.types.types)) {
			s.fail("type %d does not exist", t)
			return
		}
		s.move(1, 0)
		s.call(s.types.types[t])
	case op == 0x1a: // drop
		s.move(1, 0)
	case op == 0x1b: // select
		s.move(3, 1)
	case op == 0x1c:
		for range s.count(maxParams, "types of a select") {
			s.valType()
		}
		s.move(3, 1)
	case op == 0x20: // local.get
		s.get(s.u32())
		s.move(0, 1)
	case op == 0x21: // local.set
		s.set(s.u32())
		s.move(1, 0)
	case op == 0x22: // local.tee
		s.set(s.u32())
	case op == 0x23: // global.get
		s.u32()
		s.move(0, 1)
	case op == 0x24: // global.set
		s.u32()
		s.move(1, 0)
	case op == 0x25: // table.get
		s.u32()
	case op == 0x26: // table.set
		s.u32()
		s.move(2, 0)
	case op >= 0x28 && op <= 0x35: // loads
		s.memArg()
	case op >= 0x36 && op <= 0x3e: // stores
		s.memArg()
		s.move(2, 0)
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		if s.byte() != 0 {
			s.fail("several memories are not supported")
		}
		if op == 0x3f {
			s.move(0, 1)
		} else {
			s.grows = append(s.grows, s.off-2)
		}
	case op == 0x41:
		s.signed(5)
		s.move(0, 1)
	case op == 0x42:
		s.signed(10)
		s.move(0, 1)
	case op == 0x43:
		s.bytes(4)
		s.move(0, 1)
	case op == 0x44:
		s.bytes(8)
		s.move(0, 1)
	case op == 0x45, op == 0x50, // eqz
		op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b, // clz, ctz, popcnt
		op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f, // float, one operand
		op >= 0xa7 && op <= 0xc4: // conversions
	case op >= 0x46 && op <= 0xa6: // comparisons and arithmetic, two operands
		s.move(2, 1)
	case op == 0xd0: // ref.null
		s.refType()
		s.move(0, 1)
	case op == 0xd1: // ref.is_null
	case op == 0xd2: // ref.func
		s.types.funcIndex(&s.reader)
		s.move(0, 1)
	case op == 0xfc:
		s.misc()
	case op == 0xfd:
		s.vector()
	default:
		s.fail("operation 0x%02x is not supported", op)
	}
}

func (r *reader) memArg() {
	if r.u32() >= 32 {
		r.fail("a memory access has an impossible alignment")
	}
	r.u32()
}

// misc reads the operations behind prefix 0xfc.
func (s *scanner) misc() {
	switch op := s.byte(); {
	case op <= 7: // saturating conversions
	case op == 8, op == 10, op == 12, op == 14: // memory.init, memory.copy, table.init, table.copy
		s.u32()
		s.u32()
		s.move(3, 0)
	case op == 9, op == 13: // data.drop, elem.drop
		s.u32()
	case op == 11, op == 17: // memory.fill, table.fill
		s.u32()
		s.move(3, 0)
	case op == 15: // table.grow
		s.u32()
		s.move(2, 1)
	case op == 16: // table.size
		s.u32()
		s.move(0, 1)
	default:
		s.fail("operation 0xfc 0x%02x is not supported", op)
	}
}

// vector reads the operations behind prefix 0xfd. Those from 0x80 up have a
// second byte that is always 1.
func (s *scanner) vector() {
	op := s.byte()
	if op >= 0x80 && s.byte() != 1 {
		s.fail("a vector operation after SIMD 1.0 is not supported")
		return
	}
	switch {
	case op <= 0x0a, op == 0x5c, op == 0x5d: // loads
		s.memArg()
	case op == 0x0b: // store
		s.memArg()
		s.move(2, 0)
	case op == 0x0c: // const
		s.bytes(16)
		s.move(0, 1)
	case op == 0x0d: // shuffle
		s.bytes(16)
		s.move(2, 1)
	case op >= 0x15 && op <= 0x22: // lanes
		s.byte()
		if op == 0x17 || op == 0x1a || op == 0x1c || op == 0x1e || op == 0x20 || op == 0x22 {
			s.move(2, 1) // replace
		}
	case op >= 0x54 && op <= 0x57: // loads of one lane
		s.memArg()
		s.byte()
		s.move(2, 1)
	case op >= 0x58 && op <= 0x5b: // stores of one lane
		s.memArg()
		s.byte()
		s.move(2, 0)
	case op == 0x52: // bitselect
		s.move(3, 1)
	case vectorUnary(op):
	default:
		s.move(2, 1)
	}
}

// vectorUnary reports whether a vector operation takes one operand.
func vectorUnary(op byte) bool {
	switch {
	case op >= 0x0f && op <= 0x14, // splat
		op == 0x4d, op == 0x53, op == 0x5e, op == 0x5f,
		op >= 0x60 && op <= 0x64, op >= 0x67 && op <= 0x6a, op == 0x74, op == 0x75, op == 0x7a, op >= 0x7c && op <= 0x7f,
		op == 0x80, op == 0x81, op == 0x83, op == 0x84, op >= 0x87 && op <= 0x8a, op == 0x94,
		op == 0xa0, op == 0xa1, op == 0xa3, op == 0xa4, op >= 0xa7 && op <= 0xaa,
		op == 0xc0, op == 0xc1, op == 0xc3, op == 0xc4, op >= 0xc7 && op <= 0xca,
		op == 0xe0, op == 0xe1, op == 0xe3, op == 0xec, op == 0xed, op == 0xef,
		op >= 0xf8:
		return true
	}
	return false
}
